"""Every planner on real networks: seconds, and how far its peak is above the load.

Run: ``pytest tests/benchmarks/bench_planners.py [--docs] [--benchmark-json FILE]``, with pytest-benchmark. Searches get
one second; the seconds of planning alone are the median of three runs, or one run where it takes longer than a second.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from reporting import report_of_suite

import memplan

DATA = Path(__file__).parents[1] / "data" / "torch"
MODELS = {
    "ResNet-50, training": "example:resnet50_train",
    "GPT-2, training": "example:gpt2_train",
    "GPT-2": "example:gpt2_infer",
    "BERT, batch 8": DATA / "bert_b8_infer.json",
    "Swin-T, batch 8": DATA / "swin_t_b8_infer.json",
    "MobileNetV2": DATA / "mobilenet_v2_b1_infer.json",
}
PLANNERS = [row.name for row in memplan.planners()]
LIMIT = 1.0  # seconds for planners that search


@cache
def graph(model: str) -> Any:
    return memplan.capture(MODELS[model]).graph


@pytest.fixture(scope="module")
def found(request: pytest.FixtureRequest) -> Iterator[dict[tuple[str, str], str]]:
    """The cells of the table, by planner and model; printed, and written where asked to, at the end."""
    cells: dict[tuple[str, str], str] = {}
    yield cells
    head = ["planner", *MODELS]
    rows = [[f"`{p}`", *(cells.get((p, m), "") for m in MODELS)] for p in PLANNERS]
    report_of_suite("planners", head, rows, request)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("planner", PLANNERS)
def test_plan(planner: str, model: str, benchmark: Any, found: dict[tuple[str, str], str]) -> None:
    plans: list[memplan.Plan] = []

    def plan() -> None:
        plans.append(memplan.plan(graph(model), planner, time_limit=LIMIT))

    try:
        plan()
    except (memplan.errors.MissingDependencyError, memplan.errors.UnsupportedError) as error:
        pytest.skip(str(error))
    benchmark.pedantic(plan, rounds=1 if plans[0].seconds > LIMIT / 2 else 3)
    seconds = statistics.median(plan.seconds for plan in plans[1:])
    over = plans[0].peak / plans[0].load
    benchmark.extra_info.update(peak=plans[0].peak, load=plans[0].load, optimal=plans[0].optimal, planning=seconds)
    found[planner, model] = f"{over:.3f} in {seconds * 1000:,.1f} ms"
