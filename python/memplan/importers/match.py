"""A plan from one file held against the problem from another."""

from __future__ import annotations

import os

import numpy as np
import numpy.typing as npt

from .. import _core
from .csv import Rows, read_rows


def placed_rows(path: str | os.PathLike[str], *, inclusive: bool = False) -> Rows:
    """The rows of a plan file, .csv with offsets or .json, unverified."""
    if str(path).lower().endswith(".json"):
        from .plan_json import read_plan_json

        return read_plan_json(path)[0]
    return read_rows(path, inclusive=inclusive, offsets=True)


def match_offsets(problem: _core.Problem, rows: Rows) -> tuple[npt.NDArray[np.int64], list[str]]:
    """Offsets in the problem's order, by id, and what does not match: ids on one side only, other sizes or steps."""
    row_of = {name: i for i, name in enumerate(rows.name)}
    offsets = np.zeros(len(problem), dtype=np.int64)
    mismatches = []
    for b, name in enumerate(problem.names):
        i = row_of.pop(name, None)
        if i is None:
            mismatches.append(f"buffer '{name}' is not in the plan")
            continue
        offsets[b] = rows.offset[i]
        expected = (int(problem.size[b]), int(problem.first[b]), int(problem.last[b]))
        got = (rows.size[i], rows.first[i], rows.last[i])
        for what, e, g in zip(("size", "start", "end"), expected, got, strict=True):
            if e != g:
                mismatches.append(f"buffer '{name}' has {what} {e} in the problem and {g} in the plan")
    mismatches += [f"buffer '{name}' is in the plan, but not in the problem" for name in row_of]
    return offsets, mismatches
