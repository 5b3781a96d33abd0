"""Plans in files, .csv with offsets or .json: read, verified, and held against the problem from another file."""

from __future__ import annotations

import os

import numpy as np
import numpy.typing as npt

from .. import _core
from ..errors import SourceError
from ..plans.failing import LISTED, invalid_plan
from ..plans.plan import Plan
from ..plans.usage import parts_by_buffer
from .csv import Rows, problem_of, read_rows
from .plan_json import PlanRows, read_plan_json


def read_plan(path: str | os.PathLike[str], *, inclusive: bool = False) -> Plan:
    """See `memplan.read_plan`."""
    found = placed_rows(path, inclusive=inclusive)
    problem = problem_of(found.rows, path)
    offsets = np.array(found.rows.offset, dtype=np.int64)
    offsets.flags.writeable = False
    violations = _core.verify(problem, offsets, limit=LISTED + 1)
    if violations:
        raise invalid_plan(f"{path}: the plan", violations)
    peak = _core.peak_of(problem, offsets)
    if found.order is not None and found.order.bound > peak:
        raise SourceError(f"{path}: order_bound must be at most the peak of {peak} bytes, got {found.order.bound}")
    lower_bound = problem.aligned_load
    plan = Plan(
        problem,
        offsets,
        peak,
        lower_bound,
        peak == lower_bound,
        found.planner,
        found.winner,
        found.seconds,
        found.objects,
        interrupted=found.interrupted,
        unshared=found.unshared,
        found_after=found.found_after,
        placed=found.placed,
        ordered_by=found.ordered_by,
        filed_order=found.order,
        fitting=found.fitting,
        pools=found.pools,
        scratch=dict(found.scratch),
    )
    if found.pools is not None and (faults := found.pools.faults(plan)):
        raise invalid_plan(f"{path}: the plan", faults)
    return plan


def placed_rows(path: str | os.PathLike[str], *, inclusive: bool = False) -> PlanRows:
    """The rows of a plan file, unverified, and the planner that it names ("file" for a CSV), and what else it says."""
    if str(path).lower().endswith(".json"):
        return read_plan_json(path)
    return PlanRows(read_rows(path, inclusive=inclusive, offsets=True))


def match_offsets(problem: _core.Problem, rows: Rows) -> tuple[_core.Problem, npt.NDArray[np.int64], list[str]]:
    """Match a plan's rows with a problem's buffers by id.

    Returns
    -------
    The buffers of the problem that the plan has too, their offsets (int64, bytes), and a message for each id that
    is on one side only and for each size, step or shape that differs.
    """
    shapes, shapes_of_rows = parts_by_buffer(problem), _shapes(rows)
    row_of = {name: i for i, name in enumerate(rows.name)}
    matched, offsets, mismatches = [], [], []
    for b, name in enumerate(problem.names):
        i = row_of.pop(name, None)
        if i is None:
            mismatches.append(f"buffer {name!r} is not in the plan")
            continue
        matched.append(b)
        offsets.append(rows.offset[i])
        expected = (int(problem.size[b]), int(problem.first[b]), int(problem.last[b]))
        got = (rows.size[i], rows.first[i], rows.last[i])
        for what, e, g in zip(("size", "start", "end"), expected, got, strict=True):
            if e != g:
                mismatches.append(f"buffer {name!r} has {what} {e} in the problem and {g} in the plan")
        if i in shapes_of_rows and shapes_of_rows[i] != sorted(shapes.get(b, [])):
            mismatches.append(f"buffer {name!r} has other parts in the plan than in the problem")
    mismatches += [f"buffer {name!r} is in the plan, but not in the problem" for name in row_of]
    return problem.subset(matched), np.array(offsets, dtype=np.int64), mismatches


def _shapes(rows: Rows) -> dict[int, list[tuple[int, int, int, int]]]:
    shapes: dict[int, list[tuple[int, int, int, int]]] = {}
    for buffer, begin, end, first, last in sorted(rows.parts):
        shapes.setdefault(buffer, []).append((begin, end, first, last))
    return shapes
