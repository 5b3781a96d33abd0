"""The layout of a plan as text: which tensor is where, when, and who takes its place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Literal

import numpy as np

from .. import _core
from ..plans.buffer_info import tenants_of
from ..plans.changes_text import asked_text, least_text
from ..plans.plan import Plan
from ..plans.pools_text import cost_text
from ..plans.usage import parts_by_buffer, step_of_peak
from ..plans.verdict import SHARES, changes_text, optimal, state
from ..printing.tables import WIDTH, printed
from ..printing.units import counted, format_bytes, gap_text, seconds, shortened, with_bytes
from ..text import printable

_WORTH_SAYING = 0.1  # of the peak
HEADER = ("Tensor", "Size", "Start", "End", "Address", "Note")


@dataclass(frozen=True)
class LayoutRow:
    """A buffer, or a tensor that lies in one with others: bytes, half-open steps, address, and a note."""

    name: str
    size: int
    first: int
    last: int
    address: int
    note: str

    def cells(self) -> tuple[str, ...]:
        """The row as text; the address is hexadecimal, as in a debugger."""
        return (
            printable(self.name),
            str(self.size),
            str(self.first),
            str(self.last),
            f"0x{self.address:08x}",
            printable(self.note),
        )


def layout_rows(plan: Plan) -> Iterator[LayoutRow]:
    """The rows of the layout: buffers by birth, then by address, each followed by the tensors that share its bytes.

    A buffer lives as long as any of its tensors; theirs are their own lives.
    """
    tenants, why = tenants_of(plan), _reasons(plan)
    shapes = parts_by_buffer(plan.problem)
    successor = _core.reused_by(plan.problem, plan.offsets).tolist()
    names = plan.problem.name
    for b in np.lexsort((plan.offsets, plan.problem.first)).tolist():
        slot = plan[b]
        notes = [f"{len(shapes[b])} part{'s' * (len(shapes[b]) > 1)}"] if b in shapes else []
        notes += [f"reused by {names(successor[b])}"] if successor[b] >= 0 else []
        yield LayoutRow(slot.name, slot.bytes, slot.first, slot.last, slot.offset, ", ".join(notes))
        for tenant in tenants.get(b, ()):
            note = ", ".join(why.get(tenant.name, [f"inside {slot.name}"]))
            yield LayoutRow(tenant.name, tenant.bytes, tenant.first, tenant.last, tenant.offset, note)


def _reasons(plan: Plan) -> dict[str, list[str]]:
    """Per tensor, what the ops say of whose bytes it lies in; nothing for one that is there because of others."""
    why: dict[str, list[str]] = {}
    shows: dict[str, str] = {}  # per alias, what it is a view of in the end
    for op in plan.graph.ops if plan.graph is not None else ():
        for output, source, _ in op.aliases:
            shows[output] = shows.get(source, source)
            why.setdefault(output, []).append(f"alias of {shows[output]}")
        for output, source, _ in op.overwrites:
            why.setdefault(output, []).append(f"overwrites {source}")
    for sharing in plan.sharing:
        why.setdefault(sharing.inner, []).append(f"{SHARES[sharing.how]} {sharing.outer}")
    return why


def layout_text(plan: Plan, limit: int | None = None) -> str:
    """The layout as a table; with a `limit`, that many rows and a line that counts the others."""
    if limit is not None and limit < 0:
        raise ValueError(f"limit must be >= 0 or None, got {limit}")
    if limit is None:
        return _aligned([HEADER, *(row.cells() for row in layout_rows(plan))])
    total = len(plan) + sum(map(len, tenants_of(plan).values()))
    return _shown(list(islice(layout_rows(plan), limit)), total - limit)


def _aligned(table: list[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    name, numbers, address = widths[0], widths[1:4], widths[4]
    lines = (
        f"{row[0]:<{name}}  {row[1]:>{numbers[0]}}  {row[2]:>{numbers[1]}}  {row[3]:>{numbers[2]}}  "
        f"{row[4]:<{address}}  {row[5]}".rstrip()
        for row in table
    )
    return "\n".join(lines)


def _shown(rows: list[LayoutRow], hidden: int) -> str:
    from rich import box
    from rich.cells import cell_len
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, caption=f"… and {hidden} more" if hidden > 0 else None)
    cells = [(shortened(name), format_bytes(row.size), *others) for row in rows for name, _, *others in [row.cells()]]
    widths = [max(map(cell_len, column)) for column in zip(HEADER, *cells, strict=True)]
    widths[-1] = min(
        widths[-1], max(WIDTH - sum(widths[:-1]) - 3 * len(HEADER), len(HEADER[-1]))
    )  # the rest, for notes
    for title, width in zip(HEADER, widths, strict=True):
        side: Literal["left", "right"] = "right" if title in ("Size", "Start", "End") else "left"
        table.add_column(title, justify=side, no_wrap=True, overflow="ellipsis", width=width)
    for row in cells:
        table.add_row(*row)
    return printed([table], WIDTH)


def summary_rows(plan: Plan) -> list[tuple[str, str]]:
    """The figures of a plan, each with its label; what shares bytes and pools only where there are some."""
    saved = 1 - plan.peak / plan.naive if plan.naive else 0.0
    winner = plan.planner
    if plan.winner != plan.planner:
        winner += f" ({plan.winner} won after {seconds(plan.found_after)})"
    rows = [
        ("buffers", f"{len(plan):,}"),
        ("shared", _shared(plan)),
        ("naive", with_bytes(plan.naive)),
        ("load", with_bytes(plan.load)),
        ("peak", f"{with_bytes(plan.peak)}, {saved:.1%} below naive"),
        ("inside", _inside(plan)),
        ("held", _held(plan)),
        ("objects", f"{plan.objects:,}" if plan.objects > 0 else ""),
        *_pools(plan),
        ("price", _price(plan)),
        ("proof", _proof(plan) if plan.pools is None else ""),
        ("changes", _changes(plan)),
        ("order", _order(plan)),
        *(("note", note) for note in plan.notes),
        ("planner", f"{winner}, {seconds(plan.seconds)}{', interrupted' if plan.interrupted else ''}"),
    ]
    return [(label, value) for label, value in rows if value]


def _shared(plan: Plan) -> str:
    """How many tensors share another's bytes by choice, such as "12 in place, 3 slices"; empty where none does."""
    count = Counter(sharing.how for sharing in plan.sharing)
    words = {
        "inplace": ("in place", "in place"),
        "slice": ("slice", "slices"),
        "concat": ("part of a concatenation", "parts of concatenations"),
    }
    return ", ".join(
        f"{count[how]:,} {many if count[how] > 1 else one}" for how, (one, many) in words.items() if count[how]
    )


def _inside(plan: Plan) -> str:
    """How much of the peak is workspace of ops: what they hold while they run; empty where it is little."""
    step = step_of_peak(plan)
    if plan.buffers is None or plan.graph is None or step is None:
        return ""
    first, last, size = plan.problem.first, plan.problem.last, plan.problem.size
    places = plan.buffers.buffer_of_workspace.tolist()
    held = [
        (int(size[b]), op.name)
        for b, op in zip(places, plan.graph.ops, strict=True)
        if b >= 0 and first[b] <= step < last[b]
    ]
    total = sum(bytes_ for bytes_, _ in held)
    if total < _WORTH_SAYING * plan.peak:
        return ""
    names = ", ".join(name for _, name in sorted(held, reverse=True)[:2])
    return f"{with_bytes(total)} of the peak are workspace of {names}"


def _held(plan: Plan) -> str:
    """What a run holds, where kernels allocate more than the arena has room for; else empty."""
    if plan.held == plan.peak:
        return ""
    return f"{with_bytes(plan.held)} in a run: the peak is the arena alone, and kernels allocate beside it"


def _pools(plan: Plan) -> list[tuple[str, str]]:
    """A line per pool of memory, and what accesses cost; none for a plan in one arena."""
    if plan.pools is None:
        return []
    rows = []
    for pool in plan.pools.values():
        room = "" if pool.capacity is None else f" of {format_bytes(pool.capacity)}"
        state = "optimal for what lies in it" if pool.optimal else gap_text(pool.peak, pool.lower_bound)
        rows.append((pool.name, f"{format_bytes(pool.peak)}{room} ({state}), {counted(pool.buffers, 'buffers')}"))
    return [*rows, ("accesses", cost_text(plan.pools))]


def _price(plan: Plan) -> str:
    """What a plan pays for pairs that share bytes; empty where nothing has a price."""
    if plan.pricing is None:
        return ""
    least = plan.pricing.price_bound == plan.pricing.price
    proven = "the least there is" if least else f"at least {plan.pricing.price_bound:,} in every plan"
    return f"{plan.pricing.price:,} for pairs that share bytes, {proven}"


def _changes(plan: Plan) -> str:
    """What `memplan.fit` has done, and what it costs of the whole; empty for other plans."""
    if plan.fitting is None:
        return ""
    least = f"; {least_text(plan.fitting)}" if plan.fitting.least else ""
    return changes_text(plan.fitting) + least


def _proof(plan: Plan) -> str:
    bound = "the load" if plan.lower_bound == plan.load else f"the proven lower bound of {with_bytes(plan.lower_bound)}"
    if plan.optimal:
        return f"{optimal(plan)}: the peak equals {bound}"
    text = f"{state(plan)}, not proven optimal"
    if plan.placement_optimal:
        return f"{text}: {with_bytes(plan.lower_bound)} are needed whatever is shared; optimal for what is shared here"
    return text + (f": from {bound}" if plan.lower_bound > plan.load else "") + _left_open(plan)


def _left_open(plan: Plan) -> str:
    """How to look for the last bytes: where no more than a thousandth is left, auto ends early."""
    left = plan.peak - plan.lower_bound
    if plan.planner != "auto" or left > plan.lower_bound / 1000:
        return ""
    return f'; "auto:effort=1000000000" looks longer for the last {format_bytes(left)}'


def _order(plan: Plan) -> str:
    """Another order than the given one, and what is proven of all orders; empty for the given order."""
    if plan.ordered_by == "given":
        return ""
    if plan.order_optimal:
        return f"{plan.ordered_by}: no order needs less"
    bound = plan.order_bound
    return f"{plan.ordered_by}: no order needs less than {with_bytes(bound)}" if bound else plan.ordered_by


def line_text(plan: Plan) -> str:
    """The peak, how good it is, and who found it, in one line; if it was made to fit, the price in another."""
    good = state(plan)
    if plan.pools is not None:
        good = f"in {len(plan.pools)} pools, {cost_text(plan.pools)}"
    winner = plan.planner if plan.winner == plan.planner else f"{plan.planner} ({plan.winner})"
    interrupted = ", interrupted" if plan.interrupted else ""
    peak = f"peak {with_bytes(plan.peak)}, {good}"
    if plan.held > plan.peak:
        peak += f" ({format_bytes(plan.held)} held with kernels' own memory)"
    line = f"{peak}: {counted(len(plan), 'buffers')}, {winner}, {seconds(plan.seconds)}{interrupted}"
    if plan.fitting is None:
        return line
    least = f"; {least_text(plan.fitting)}" if plan.fitting.least else ""
    asked = asked_text(plan.fitting)
    return f"{line}\n{asked[0].lower()}{asked[1:]}: {changes_text(plan.fitting)}{least}"


def summary_text(plan: Plan) -> str:
    """The figures of a plan, a line each."""
    return "\n".join(f"{label:<8} {value}" for label, value in summary_rows(plan))
