"""Plans as CSV, in the two forms that the field uses."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from ..files import write_rows
from ..plans.plan import Plan
from ..plans.slots import Slot
from ..plans.usage import parts_by_buffer

FORMS: dict[str, tuple[tuple[str, ...], Callable[[Slot], tuple[object, ...]]]] = {
    "minimalloc": (
        ("id", "lower", "upper", "size", "alignment", "offset"),
        lambda s: (s.name, s.first, s.last, s.bytes, s.alignment, s.offset),
    ),
    "gantt": (
        ("tensor_name", "size", "offset", "start_time", "end_time"),
        lambda s: (s.name, s.bytes, s.offset, s.first, s.last),
    ),
}


def write_plan_csv(plan: Plan, path: str | os.PathLike[str], *, form: str = "minimalloc") -> None:
    """Write one row per buffer, in the plan's order; ends of lifetimes are half-open.

    A shaped buffer has a row per part, since one row would claim bytes that others use: the size, life and offset of
    the part, alignment 1, and the id "name[begin:end]" by its bytes inside the buffer, made longer by "_" where that
    is another's id. Conflicts beyond lifetimes are not written: the plan stays right without them. Branches are, in the
    first form, as a column `branch`.

    Parameters
    ----------
    form
        "minimalloc": id,lower,upper,size,alignment,offset, or "gantt":
        tensor_name,size,offset,start_time,end_time.
    """
    if form not in FORMS:
        raise ValueError(f"form must be one of {', '.join(FORMS)}, got {form!r}")
    header, row = FORMS[form]
    branches = plan.problem.branches
    if branches is None or form != "minimalloc":
        write_rows(path, header, (row(slot) for _, slot in _rectangles(plan)))
    else:
        rows = ((*row(slot), branches[buffer]) for buffer, slot in _rectangles(plan))
        write_rows(path, (*header, "branch"), rows)


def _rectangles(plan: Plan) -> Iterator[tuple[int, Slot]]:
    """The buffers by position, and in place of each shaped one its parts as buffers of their own."""
    shapes = parts_by_buffer(plan.problem)
    taken = {plan.problem.name(b) for b in range(len(plan) if shapes else 0)}
    for buffer, slot in enumerate(plan):
        if buffer not in shapes:
            yield buffer, slot
        for begin, end, first, last in shapes.get(buffer, []):
            name = f"{slot.name}[{begin}:{end}]"
            while name in taken:
                name += "_"
            taken.add(name)
            yield buffer, Slot(name, slot.offset + begin, end - begin, first, last, 1)
