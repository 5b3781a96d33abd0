"""What is fixed of a problem by name: pins, and bytes that are reserved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from . import _core
from .sizes import in_bytes
from .text import offer

_ALWAYS = (-(2**63), 2**63 - 1)


def fixed(
    problem: _core.Problem, pin: Mapping[str, int | str] | None, reserved: Sequence[Sequence[int | str]]
) -> _core.Problem:
    """The problem with these pins and reserved bytes besides its own; see `memplan.plan`."""
    if not pin and not reserved:
        return problem
    pins = np.full(len(problem), -1, dtype=np.int64) if problem.pins is None else problem.pins.copy()
    position = {problem.name(b): b for b in range(len(problem))}
    if pin is not None and not isinstance(pin, Mapping):
        raise TypeError(f"pin must be a mapping from names of buffers to offsets, got {type(pin).__name__}")
    for name, offset in (pin or {}).items():
        if name not in position:
            near = offer(str(name), list(position), "buffers")
            raise ValueError(f"pin must name buffers of the problem, got {name!r}; {near}")
        pins[position[name]] = in_bytes(offset, f"pin[{name!r}]")
    rows = [] if problem.reserved is None else problem.reserved.tolist()
    if isinstance(reserved, str) or not isinstance(reserved, Sequence):
        raise TypeError(f"reserved must be a list of ranges such as (0, 4096), got {reserved!r}")
    return problem.with_pins(pins, rows + [_range(row, f"reserved[{k}]") for k, row in enumerate(reserved)])


def _range(row: Sequence[int | str], where: str) -> list[int]:
    if isinstance(row, str) or not isinstance(row, Sequence) or len(row) not in (2, 4):
        raise TypeError(f"{where} must be (begin, end) in bytes, or (begin, end, first, last), got {row!r}")
    steps = [*row[2:]] or [*_ALWAYS]
    for step in steps:
        if isinstance(step, bool) or not isinstance(step, (int, np.integer)):
            raise TypeError(f"{where} must have steps that are integers, got {step!r}")
    return [in_bytes(row[0], f"{where} begin"), in_bytes(row[1], f"{where} end"), *(int(step) for step in steps)]
