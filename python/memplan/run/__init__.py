"""Programs that run inside a plan. A file or a package per runtime, imported when it is asked for.

Nothing of memplan imports this package, but for the methods and names that hand over to it.
"""

from __future__ import annotations

import importlib
from typing import Any

_DOORS: dict[str, str] = {
    "Arena": "eager.replaying",
    "Bound": "program",
    "Checkpoints": "eager.fitting",
    "CompiledPlan": "inductor.compiled",
    "Fitted": "eager.fitting",
    "MethodsArena": ".methods.running",
    "Offload": "eager.fitting",
    "PlannedStep": "eager.planned",
    "Program": "program",
    "Run": "program",
    "UpdatesAsYouGo": "eager.updating",
    "arena": "eager.replaying",
    "checkpoint": "eager.fitting",
    "clear_compiled_plans": "inductor.compiled",
    "fit": "eager.fitting",
    "offload": "eager.fitting",
    "planned": "eager.planned",
    "update_as_you_go": "eager.updating",
}  # a public name -> the module below that has it
_RUNTIMES = ("cuda_unproven", "executorch")  # packages below with names of their own


def __getattr__(name: str) -> Any:
    if name in _DOORS:
        return getattr(importlib.import_module(f".{_DOORS[name]}", __name__), name)
    if name in _RUNTIMES:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_DOORS, *_RUNTIMES])
