"""The planners that can run here, and how to keep those quick that search until their time is up."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import memplan

NAMES = [row.name for row in memplan.planners()]
NEEDS = {"cp_sat": "ortools"}  # packages of extras
PLANNERS = [name for name in NAMES if name not in NEEDS or find_spec(NEEDS[name])]

SEARCHES = {"cp_sat"}  # until the time limit, where there is no proof
END_WITH_THEIR_BEST = {"auto", "beam", "cp_sat", "exhaustive", "hill_climb", "somas", "squeaky_wheel", "valley"}
SHORT = {  # searches that hard problems keep busy
    "auto": "auto:effort=20000000",
    "hill_climb": "hill_climb:iterations=60",
    "squeaky_wheel": "squeaky_wheel:orders=16",
    "valley": "valley:work=20000000",
}
SEEDED_BY_THREADS = {"cp_sat"}  # may find another plan of the same peak with another number of threads


def brief(planner: str) -> dict[str, Any]:
    """Options that end a long search soon."""
    return {"time_limit": 0.2} if planner in SEARCHES else {}
