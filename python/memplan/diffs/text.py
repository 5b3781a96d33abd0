"""The difference of two plans for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..draw.gantt import plans_picture
from ..plans.pools import PlannedPools, exact, number
from ..plans.pools_text import cost_text
from ..plans.slots import Slot
from ..printing.tables import Report, Table, html_image, report_page
from ..printing.units import counted, format_bytes, gap_text, op_label

if TYPE_CHECKING:
    from .diff import Change, Figures, PlanDiff

LISTED = 20  # rows of a table; the others are counted
_NAMED = 3
_OPTIMAL = "optimal"


def diff_page(diff: PlanDiff) -> str:
    """The difference as a page: with all rows, and the plans side by side."""
    picture = ""
    if diff.plans is not None:
        figures = (("before", diff.before), ("after", diff.after))
        titles = [f"{when}: {of.planner}, {format_bytes(of.peak)}, {_state(of)}" for when, of in figures]
        if pools := _pools(diff):
            titles = [f"{when}: {cost_text(of)}" for when, of in zip(("before", "after"), pools, strict=True)]
        picture = html_image(plans_picture(diff.plans, titles), "both plans side by side, on the same axes")
    return report_page(diff_report(diff, None), picture)


def diff_report(diff: PlanDiff, most: int | None = LISTED) -> Report:
    """The difference as sentences and tables; of a table at most so many rows, the others counted."""
    tables = (_figures(diff), _at_load(diff, most), _moved_ops(diff, most), _changes(diff, most))
    sentences = (_peaks(diff), _loads(diff), *_order(diff), _counts(diff))
    return Report("From one plan to another", sentences, tables)


def _pools(diff: PlanDiff) -> tuple[PlannedPools, PlannedPools] | None:
    """Those of both plans, if both are in several pools."""
    one, other = (plan.pools for plan in diff.plans) if diff.plans is not None else (None, None)
    return None if one is None or other is None else (one, other)


def _peaks(diff: PlanDiff) -> str:
    if pools := _pools(diff):
        one, other = pools
        return f"All accesses: {cost_text(one)}, before; {cost_text(other)}, after."
    text = _moves("The peak", diff.before.peak, diff.after.peak)
    was, now = _state(diff.before), _state(diff.after)
    if was == now == _OPTIMAL:
        return f"{text}; both are optimal{', each in its order' if diff.moved_ops else ''}."
    return f"{text}; {was} before, {now} now."


def _state(figures: Figures) -> str:
    """How good the peak is."""
    return gap_text(figures.peak, figures.lower_bound)


def _loads(diff: PlanDiff) -> str:
    one, other = diff.before, diff.after
    text = _moves("The load", one.load, other.load)
    steps = [_step(figures) for figures in (one, other)]
    if all(steps):
        text += f", at {steps[1]}" if steps[0] == steps[1] else f", and is at {steps[1]}, no longer at {steps[0]}"
    most = [f"{a.name} ({_signed(a.after - a.before)})" for a in diff.at_load[:_NAMED]]
    more = f" and {len(diff.at_load) - _NAMED:,} more" if len(diff.at_load) > _NAMED else ""
    return text + (f"; what differs there: {', '.join(most)}{more}." if most else ".")


def _counts(diff: PlanDiff) -> str:
    things = "tensors" if diff.of_tensors else "buffers"
    words = {"longer": "live longer", "shorter": "live shorter"}
    counts = [f"{count:,} {words.get(kind, kind)}" for kind, count in diff.counts.items()]
    return f"Of the {things}, {', '.join([*counts, f'{diff.same:,} are the same'])}."


def _order(diff: PlanDiff) -> list[str]:
    """How many ops run earlier or later, and the first of them."""
    if not diff.moved_ops:
        return []
    named = [f"{move.name} (step {move.before} to {move.after})" for move in diff.moved_ops[:_NAMED]]
    rest = len(diff.moved_ops) - len(named)
    more = f" and {rest:,} more" if rest else ""
    return [f"{counted(len(diff.moved_ops), 'ops')} moved in the order: {', '.join(named)}{more}."]


def _figures(diff: PlanDiff) -> Table:
    one, other = diff.before, diff.after
    rows = [("planner", one.planner, other.planner, ""), ("buffers", f"{one.buffers:,}", f"{other.buffers:,}", "")]
    if one.shared or other.shared:
        rows.append(
            ("share bytes by choice", f"{one.shared:,}", f"{other.shared:,}", f"{other.shared - one.shared:+,}")
        )
    pools = _pools(diff)
    for name, field in (("naive", "naive"), ("load", "load"), ("lower bound", "lower_bound"), ("peak", "peak")):
        if pools is None or field in ("naive", "load"):
            before, after = getattr(one, field), getattr(other, field)
            rows.append((name, format_bytes(before), format_bytes(after), _signed(after - before)))
    rows += [] if pools is None else _pool_figures(*pools)
    return Table("Figures", ("", "before", "after", "change"), tuple(rows), frozenset({"before", "after", "change"}))


def _pool_figures(one: PlannedPools, other: PlannedPools) -> list[tuple[str, str, str, str]]:
    """The peaks of the pools, and what accesses cost."""
    rows = []
    for name in dict.fromkeys([*one, *other]):
        before, after = (pools[name].peak if name in pools else 0 for pools in (one, other))
        rows.append((f"peak of {name}", format_bytes(before), format_bytes(after), _signed(after - before)))
    change = number(exact(other.cost) - exact(one.cost))
    return [*rows, ("cost of accesses", f"{one.cost:,}", f"{other.cost:,}", f"{change:+,}")]


def _at_load(diff: PlanDiff, most: int | None) -> Table:
    rows = [
        (a.name, format_bytes(a.before), format_bytes(a.after), _signed(a.after - a.before))
        for a in diff.at_load[:most]
    ]
    rest = diff.at_load[len(rows) :]
    notes = (f"and {len(rest):,} more: {_signed(sum(a.after - a.before for a in rest))}",) if rest else ()
    columns = ("tensor" if diff.of_tensors else "buffer", "before", "after", "change")
    room: dict[str, int | None] = {columns[0]: 60}
    return Table("In use where the load is highest", columns, tuple(rows), frozenset(columns[1:]), notes, room)


def _moved_ops(diff: PlanDiff, most: int | None) -> Table:
    rows = [
        (m.name, format_bytes(m.bytes), f"{m.before:,}", f"{m.after:,}", f"{m.after - m.before:+,}")
        for m in diff.moved_ops[:most]
    ]
    rest = len(diff.moved_ops) - len(rows)
    columns = ("op", "writes", "step before", "step after", "change")
    notes = (f"and {rest:,} more",) if rest else ()
    return Table("Ops that run earlier or later", columns, tuple(rows), frozenset(columns[1:]), notes, {"op": 60})


def _changes(diff: PlanDiff, most: int | None) -> Table:
    rows = [(change.name, ", ".join(change.kinds), *_cells(change)) for change in diff.changes[:most]]
    rest = len(diff.changes) - len(rows)
    columns = ("tensor" if diff.of_tensors else "buffer", "what", "size", "steps", "offset")
    notes = (f"and {rest:,} more",) if rest > 0 else ()
    return Table("What changed", columns, tuple(rows), frozenset(columns[2:]), notes, {columns[0]: 44})


def _cells(change: Change) -> tuple[str, str, str]:
    """Size, steps and offset, before and after where they differ."""
    slots = [slot for slot in (change.before, change.after) if slot is not None]

    def both(show: list[str]) -> str:
        return " → ".join(dict.fromkeys(show))

    return (
        both([format_bytes(slot.bytes) for slot in slots]),
        both([_steps(slot) for slot in slots]),
        both([f"{slot.pool} {slot.address:,}".lstrip() for slot in slots]),
    )


def _steps(slot: Slot) -> str:
    return f"{slot.first}-{slot.last - 1}"


def _step(figures: Figures) -> str:
    step = figures.load_step
    if step is None:
        return ""
    return f"step {step.step}" + (f", {op_label(step.op, step.op_type)}" if step.op else "")


def _moves(what: str, before: int, after: int) -> str:
    if before == after:
        return f"{what} stays at {format_bytes(after)}"
    share = f", {after / before - 1:+.1%}" if before else ""
    word = "rises" if after > before else "falls"
    return f"{what} {word} from {format_bytes(before)} to {format_bytes(after)} ({_signed(after - before)}{share})"


def _signed(change: int) -> str:
    return f"{'-' if change < 0 else '+'}{format_bytes(abs(change))}" if change else "0 B"
