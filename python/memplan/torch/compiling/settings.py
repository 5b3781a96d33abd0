"""The options of the backend: memplan's own, and those that go on to Inductor."""

from __future__ import annotations

import hashlib
import inspect
import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from ... import _core, sizes
from ...options import checks
from ...planning import registry
from ...planning.orders import check_order
from ...text import nearest

FORMAT = 17  # of what is written into wrapper code: one more with each change, so that no cache mixes two
PLACED = ("intermediate", "output")
WAYS = ("recompute", "split")
_LEAST_ALIGNMENT = 16  # bytes of the largest number of torch
_STANDARD_ALIGNMENT = {"cuda": 512}


@dataclass(frozen=True)
class Settings:
    """How buffers are planned."""

    planner: str = "auto"  # as in `memplan.plan`, "beam:k=64"
    place: tuple[str, ...] = ("intermediate",)  # what lies in arenas: "intermediate", "output"
    alignment: int | None = None  # bytes, a power of two; None for 512 on CUDA and 64 elsewhere
    split: bool = True  # whether a graph may have several arenas, one after another, where that holds less
    serve: bool = True  # whether kernels of torch get memory of arenas for their results and scratch
    pages: bool = True  # whether what compiled code allocates has pages of its own
    order: str = "given"  # in which order kernels run, as in `memplan.plan`; "given" is Inductor's
    budget: sizes.Budget | None = None  # what a step may hold: what forward saves is chosen so
    allow: tuple[str, ...] = ("recompute",)  # what may be done for a budget, as in `memplan.fit`
    time_limit: float | None = None  # seconds of attempts at a budget; None: as long as Inductor alone would take
    optimizer: Any = field(default=None, repr=False, compare=False)  # whose states and update a budget counts
    fuse_within: int | None = None  # ops that are farther apart in the graph are not fused; None: as torch does
    fuse_writers: bool = True  # loops that both write much for others may be fused

    def alignment_on(self, device_type: str) -> int:
        """Bytes, of every buffer on devices of that type."""
        return self.alignment or _STANDARD_ALIGNMENT.get(device_type, 64)

    @property
    def key(self) -> str:
        """What compiled code depends on besides its graph: torch's caches keep codes with different keys apart."""
        return f"memplan {_core.__version__}.{FORMAT} {self!r} {_code_of(self.planner)}"


def _code_of(planner: str) -> str:
    """A digest of a planner that is not memplan's: of its function's source, or one that no other has."""
    row = registry.find(planner)
    if row.run is None or row in registry.IN_PYTHON:
        return ""
    try:
        return hashlib.sha256(inspect.getsource(row.run).encode()).hexdigest()
    except (OSError, TypeError):
        return uuid.uuid4().hex


def settings_of(
    options: Mapping[str, Any], of_mode: Mapping[str, Any], known: Collection[str]
) -> tuple[Settings, dict[str, Any]]:
    """memplan's settings, and what is patched in Inductor's configuration.

    Raises
    ------
    TypeError, ValueError
        An option that neither knows, or a value that memplan's cannot have.
    """
    own: dict[str, Any] = {
        "planner": registry.check_planner,
        "place": _place,
        "alignment": _alignment,
        "split": checks.switch("split"),
    }
    own |= {
        "serve": checks.switch("serve"),
        "pages": checks.switch("pages"),
        "order": check_order,
        "budget": _budget,
        "allow": _allow,
        "time_limit": lambda value: checks.seconds(value, "time_limit"),
        "optimizer": lambda given: given,
    }
    chosen: dict[str, Any] = {}
    patches = dict(of_mode)
    for name, value in options.items():
        plain = name.replace("-", "_")
        if plain in own:
            chosen[plain] = own[plain](value)
        elif plain in known:
            patches[plain] = value
        else:
            near = nearest(plain, own)
            raise ValueError(
                f"options of the backend memplan are {', '.join(own)} and those of torch._inductor.config, got {name!r}"
                + (f"; did you mean {near!r}?" if near else "")
            )
    if "allow" in chosen and chosen.get("budget") is None:
        raise ValueError("allow needs budget: options={'budget': '60%', 'allow': ['recompute', 'split']}")
    if chosen.get("time_limit") is not None and chosen.get("budget") is None:
        raise ValueError("time_limit needs budget, whose search it ends: options={'budget': '60%', 'time_limit': 120}")
    if chosen.get("optimizer") is not None and chosen.get("budget") is None:
        raise ValueError(
            "optimizer needs budget, which counts its states: options={'budget': '8GiB', 'optimizer': ...}"
        )
    if chosen.get("order", "given") != "given":  # Inductor asks for an order only then
        if patches.get("reorder_for_peak_memory") is False:
            raise ValueError(f"order={chosen['order']!r} needs Inductor's reorder_for_peak_memory, got False")
        patches["reorder_for_peak_memory"] = True
    return Settings(**chosen), patches


def _place(value: Any) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Collection):
        raise TypeError(f"place must be a list of kinds among {', '.join(PLACED)}, got {value!r}")
    for kind in value or [None]:
        if kind not in PLACED:
            raise ValueError(f"place must hold kinds among {', '.join(PLACED)}, got {kind!r}")
    return tuple(kind for kind in PLACED if kind in value)


def _allow(value: Any) -> tuple[str, ...]:
    ways = checks.names(value, "allow")
    for way in ways or [""]:
        if way not in WAYS:
            near = nearest(way, WAYS)
            meant = f"; did you mean {near!r}?" if near else ""
            raise ValueError(f"allow must hold ways among {', '.join(WAYS)}, got {way!r}{meant}")
    return tuple(way for way in WAYS if way in ways)


def _alignment(value: Any) -> int:
    size = sizes.in_bytes(value, "alignment", _LEAST_ALIGNMENT)
    if size & (size - 1):
        raise ValueError(f"alignment must be a power of two, got {value!r}")
    return size


def _budget(value: Any) -> sizes.Budget | None:
    return None if value is None else sizes.budget_of(value, "budget", of_step=True)
