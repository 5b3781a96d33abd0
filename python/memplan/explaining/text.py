"""An explanation of a plan for people: three or four sentences, and the tables that they rest on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..dtypes import typed_shape
from ..plans.pools_text import costs_table, pools_sentences, pools_table
from ..printing.tables import Report, Table
from ..printing.units import counted, format_bytes, op_label, percent
from .advice import is_worth

if TYPE_CHECKING:
    from ..plans.plan import Plan
    from ..plans.pools import PlannedPools
    from .advice import Advice
    from .alive import Alive
    from .explanation import Explanation, Moment
    from .orders import Orders

LISTED = 12  # rows of a table; the others are summed up
_NAMED = 3
_CHAINS = 5
_WORTH = 0.01  # of the load: nobody acts on what brings less

_OPTIONS = ("order", "donate", "inplace", "zero_copy", "disable_inplace_ops", "INPLACE_OPS", "inplace_ops")


def explanation_report(e: Explanation) -> Report:
    """The explanation as sentences and tables."""
    title = f"{e.what or e.planner}: {e.buffers:,} buffers in {format_bytes(e.peak)}"
    if e.peak_step is None or e.load_step is None:
        return Report(title, ("No buffer has bytes: there is nothing to place.",))
    if e.plan is not None and e.plan.pools is not None:
        return _in_pools(e, e.plan, e.plan.pools)
    tables = [
        _alive_table(e, e.alive, f"In use at {_at(e.peak_step)}, which makes the peak"),
        _types_table(e, e.alive),
    ]
    if e.load_step != e.peak_step:
        at_peak = {a.name for a in e.alive}
        only = [a for a in e.alive_at_load if a.name not in at_peak]
        there = (
            f"In use at {_at(e.load_step)}, which makes the load of {format_bytes(e.load)}, and not at the peak's step"
        )
        tables.append(_alive_table(e, only, there))
    tables += [
        _distance(e, e.load_step),
        _advice_table(e, e.load_step),
        _orders_table(e),
        _idle_table(e),
        _blocked_table(e),
        _chains_table(e),
    ]
    return Report(title, (_what(e), _how_far(e), _what_helps(e), *_other_orders(e)), tuple(tables))


def _in_pools(e: Explanation, plan: Plan, pools: PlannedPools) -> Report:
    """Of a plan in several pools: what accesses cost, and what would lower the load; its peak is that of no memory."""
    assert e.load_step is not None
    title = f"{e.planner}: {counted(e.buffers, 'buffers')} in {counted(len(pools), 'pools')}"
    load = f"Most bytes, {format_bytes(e.load)} of all pools, are in use at {_at(e.load_step)}. {_what_helps(e)}"
    tables = [pools_table(pools), costs_table(plan, LISTED), _advice_table(e, e.load_step), _orders_table(e)]
    sentences = (*pools_sentences(plan, _things(e)), load, *_other_orders(e))
    return Report(title, sentences, (*tables, _idle_table(e), _blocked_table(e)))


# Sentences


def _what(e: Explanation) -> str:
    """What makes the peak, and with which tensors."""
    assert e.peak_step is not None
    assert e.load_step is not None
    things = _things(e)
    groups = _by_type(e, e.alive)
    text = f"{_capital(_at(e.peak_step))}{',' * bool(e.peak_step.op)} makes the peak of {format_bytes(e.peak)}: "
    text += f"{counted(len(e.alive), things)} hold{'s' * (len(e.alive) == 1)} {format_bytes(e.peak_step.load)} there"
    text += f" and {format_bytes(e.peak - e.peak_step.load)} are free" if e.peak > e.peak_step.load else ""
    if e.what:
        held = [f"{format_bytes(size)} {kind} ({count:,}, {size / e.peak:.0%})" for kind, count, size in groups]
        text += f": {_listing(held)}"
    elif e.of_graph and len(e.alive) > _NAMED:
        made = [f"{name} ({counted(count, things)}, {size / e.peak:.0%})" for name, count, size in groups[:_NAMED]]
        text += f", made above all by {_listing(made)}"
    largest = [f"{a.name} ({format_bytes(a.bytes)}, {a.share:.1%})" for a in e.alive[:_NAMED]]
    text += f"; the largest {'is' if len(largest) == 1 else 'are'} {_listing(largest)}"
    if e.load_step != e.peak_step:
        text += f"; most bytes, {format_bytes(e.load)}, are in use at {_at(e.load_step)}"
    return text + "."


def _how_far(e: Explanation) -> str:
    """How far the peak is from the best possible."""
    proven = "the load, the most bytes in use at one step" if e.lower_bound == e.load else "a proven lower bound"
    if e.apart:
        largest = [f"{name} ({format_bytes(size)})" for name, size in e.apart[:_NAMED]]
        proven += f", the bytes of {counted(len(e.apart), 'buffers')} of which no two may share any"
        proven += f" (the largest: {_listing(largest)})"
    if e.optimal:
        of = "in this order, whatever shares bytes" if e.of_graph else "for these lifetimes"
        return f"The peak is the best possible {of}: it equals {proven}."
    above = f"The peak is {format_bytes(e.peak - e.lower_bound)} ({percent(e.peak / e.lower_bound - 1)}) above {proven}"
    text = f"{above}, and a better plan{' in this order' * e.of_graph} could win at most that"
    return text + (
        "."
        if e.what or e.planner.split(":")[0] == "auto"
        else f"; this is {e.planner}'s, the planner auto may do better."
    )


def _what_helps(e: Explanation) -> str:
    """What would lower the load, and by how much: the best option, and the best that can be done with idle tensors."""
    certain = [a for a in e.advice if a.kind != "inplace_ops"] or list(e.advice)
    worth = [a for a in certain if is_worth(a, e.load, _WORTH)] or [a for a in e.advice if is_worth(a, e.load, _WORTH)]
    options = [a for a in worth if a.kind in _OPTIONS]
    changes = [a for a in worth if a.kind not in _OPTIONS]
    best = [*options[:1], *changes[: 1 if options else 2]]
    if best:
        ways = [f"{_change(a)} ({format_bytes(a.load)}, {1 - a.load / e.load:.1%} less)" for a in best]
        return f"The load would be lower with {', or with '.join(ways)}."
    text = "Nothing that was tried alone lowers the load"
    if e.next_step is not None and e.next_step.load == e.load:
        return f"{text}: it is as high at {_at(e.next_step)}."
    return f"{text} by a percent or more."


def _other_orders(e: Explanation) -> list[str]:
    """What another order of the ops would bring, and why not more."""
    if e.orders is None:
        return []
    best, bound = min(e.orders.load, e.load), e.orders.bound
    found = f'With order="best" the ops need {format_bytes(best)}, {1 - best / e.load:.1%} less'
    if best == bound:
        text = f"{found}, and no order needs less" if best < e.load else "No order of the ops needs less"
    else:
        text = found if best < e.load else "No better order of the ops was found"
        text += f"; none needs less than {format_bytes(bound)}, {percent(1 - bound / best)} below that"
    if e.orders.searched:
        return [f"{text}, as a search through all orders shows."]
    if not e.orders.ops:
        return [f"{text}: the caller keeps that much."]
    if not e.orders.op:
        return [f"{text}: in whatever sequence {_few(e.orders.ops)} run, one of them needs that much."]
    op = op_label(e.orders.op, e.orders.op_type)
    return [f"{text}: {op} needs that much, whatever has run before it.{_beside(e.orders)}"]


def _beside(orders: Orders) -> str:
    """What an op adds, and what is alive beside it in every order."""
    always = [needed for needed in orders.alive if needed.always]
    adds = [f"it adds {format_bytes(orders.made)}"] * bool(orders.made)
    if always:
        largest = _listing([f"{a.name} ({format_bytes(a.bytes)})" for a in always[:_NAMED]])
        held, verb = format_bytes(sum(needed.bytes for needed in always)), "is" if len(always) == 1 else "are"
        above_all = f", above all {largest}" if len(always) > _NAMED else f": {largest}"
        adds.append(f"{counted(len(always), 'tensors')} of {held} {verb} alive beside it in every order{above_all}")
    return f" {_capital('; '.join(adds))}." if adds else ""


def _change(advice: Advice) -> str:
    """A change for people, or two."""
    if advice.how:
        return f"{advice.kind} ({counted(len(advice.names), 'buffers')}) away while not in use, at best: {advice.how}"
    text = _one_change(advice.kind, advice.names)
    return f"{text} and {_one_change(*advice.also)}" if advice.also is not None else text


def _one_change(kind: str, names: Sequence[str]) -> str:
    count = counted(len(names), "tensors")
    return {
        "order": 'order="best"',
        "split": f"ops in pieces, so that {_few(names)} {'is' if len(names) == 1 else 'are'} never whole",
        "inplace": "outputs in place, which inplace=False forbids",
        "zero_copy": "slices and concatenations without a copy, which zero_copy=False forbids",
        "disable_inplace_ops": f"{_few(names)} in place, which disable_inplace_ops forbids",
        "donate": f"donate=[{_few([repr(name) for name in names])}]",
        "INPLACE_OPS": f"inplace_ops=memplan.inplace_ops.INPLACE_OPS, which has {_few(names)}",
        "inplace_ops": f"{_few(names)} in place, if its kernel may write over what it reads",
        "recompute": f"{count} recomputed before the next use, from what is alive there anyway",
        "offload": f"{count} kept elsewhere while nothing uses {'it' if len(names) == 1 else 'them'}",
        "hand_over": f"{counted(len(names), 'graph outputs')} handed over when made, not at the end",
        "without": f"{_few(names)} gone, which {'live' if len(names) > 1 else 'lives'} on both sides of that step",
    }[kind]


# Tables


def _alive_table(e: Explanation, alive: Sequence[Alive], title: str) -> Table:
    shown, rest = alive[:LISTED], alive[LISTED:]
    columns: tuple[str, ...] = ("tensor", "size", "of peak", "steps", "made by", "dtype and shape", "last read by")
    rows: list[tuple[str, ...]] = [
        (
            a.name,
            format_bytes(a.bytes),
            f"{a.share:.1%}",
            f"{a.born}-{a.dies - 1}",
            _made(a),
            typed_shape(a.dtype, a.shape),
            _needed(a),
        )
        for a in shown
    ]
    if e.what:
        columns, rows = (
            ("buffer", *columns[1:4], "kind", "made by"),
            [(*row[:4], a.why, a.op) for row, a in zip(rows, shown, strict=True)],
        )
    elif not e.of_graph:
        columns, rows = ("buffer", *columns[1:4]), [row[:4] for row in rows]
    elif not any(row[5] for row in rows):
        columns, rows = (*columns[:5], columns[6]), [(*row[:5], row[6]) for row in rows]
    room = 28 if "dtype and shape" in columns else 32
    most = {columns[0]: room, "made by": 40 if e.what else room - 8, "dtype and shape": None, "last read by": room - 4}
    others = sum(a.bytes for a in rest)
    notes = (f"and {len(rest):,} smaller: {format_bytes(others)}, {others / e.peak:.1%}",) if rest else ()
    return Table(title, columns, tuple(rows), frozenset({"size", "of peak", "steps"}), notes, most)


def _types_table(e: Explanation, alive: Sequence[Alive]) -> Table:
    groups = _by_type(e, alive) if e.of_graph or e.what else []
    rows = [(name, f"{count:,}", format_bytes(size), f"{size / e.peak:.1%}") for name, count, size in groups]
    things = _things(e)
    title, first = ("The same by kind", "kind") if e.what else ("The same by what made it", "made by")
    return Table(
        title, (first, things, "size", "of peak"), tuple(rows[:LISTED]), frozenset({things, "size", "of peak"})
    )


def _distance(e: Explanation, load_step: Moment) -> Table:
    free = 0 if e.peak_step is None else e.peak - e.peak_step.load
    largest = max((size for _, size in e.holes), default=0)
    saved = f", {1 - e.peak / e.naive:.1%} below naive" if e.naive else ""
    rows = [
        ("every tensor its own bytes (naive)", format_bytes(e.naive), ""),
        ("peak", format_bytes(e.peak), saved.removeprefix(", ")),
        (
            "lower bound",
            format_bytes(e.lower_bound),
            _what_bounds(e),
        ),
        ("fragmentation (peak - load)", format_bytes(e.peak - e.load), _unavoidable(e)),
        (
            "free at the peak's step",
            format_bytes(free),
            f"{counted(len(e.holes), 'holes')}, the largest {format_bytes(largest)}" if e.holes else "",
        ),
    ]
    if e.next_step is not None:
        won = f"changes around step {load_step.step} alone win at most {format_bytes(e.load - e.next_step.load)}"
        rows.append((f"next-highest: {_at(e.next_step)}", format_bytes(e.next_step.load), won))
    crowded = f"{e.crowded:,} of {e.steps:,}"
    rows.append(("steps within 10% of the load", f"{e.crowded / e.steps:.0%}", crowded))
    return Table(
        "How far from the best possible", ("figure", "bytes", "which means"), tuple(rows), frozenset({"bytes"})
    )


def _what_bounds(e: Explanation) -> str:
    if e.lower_bound == e.load:
        return "the load"
    if e.apart:
        return f"{counted(len(e.apart), 'buffers')} of which no two may share bytes"
    return "proven: no plan is smaller" + (", whatever is shared" if e.of_graph else "")


def _unavoidable(e: Explanation) -> str:
    if e.peak == e.load:
        return "none"
    if e.optimal:
        return "all of it proven unavoidable"
    if e.lower_bound < e.load:
        return "another choice of sharing could do without"
    return f"at most {format_bytes(e.peak - e.lower_bound)} could be won"


def _advice_table(e: Explanation, load_step: Moment) -> Table:
    rows = [
        (_change(a), format_bytes(a.load), f"{1 - a.load / e.load:.1%}", format_bytes(max(a.bytes, 0)))
        for a in e.advice
        if is_worth(a, e.load, _WORTH)
    ]
    right = frozenset({"load", "less", "at that step"})
    title = f"What would lower the load, which is at {_at(load_step)}"
    notes = () if rows else ("nothing that was tried alone, by a percent or more",)
    return Table(title, ("with", "load", "less", "at that step"), tuple(rows), right, notes)


def _orders_table(e: Explanation) -> Table:
    """What is alive beside the op that bounds all orders, and what it adds: the bound in all."""
    if e.orders is None or not e.orders.op:
        return Table("")
    shown, rest = e.orders.alive[:LISTED], e.orders.alive[LISTED:]
    rows = [
        (n.name, format_bytes(n.bytes), (n.op_type or n.op).removesuffix(".default"), "yes" if n.always else "")
        for n in shown
    ]
    others, made = sum(n.bytes for n in rest), e.orders.made
    notes = [f"and {len(rest):,} smaller: {format_bytes(others)}"] if rest else []
    notes += [f"and what {e.orders.op} adds: {format_bytes(made)}"] if made else []
    columns = ("tensor", "size", "made by", "in every order")
    op, bound = op_label(e.orders.op, e.orders.op_type), format_bytes(e.orders.bound)
    title = f"Why no order needs less than {bound}: the least that may be alive while {op} runs"
    return Table(title, columns, tuple(rows), frozenset({"size"}), tuple(notes), {"tensor": 48})


def _idle_table(e: Explanation) -> Table:
    columns = ("tensor", "size", "idle in steps", "steps", "size x steps", "load without it", "can be recomputed")
    rows = [
        (
            i.name,
            format_bytes(i.bytes),
            f"{i.first}-{i.last - 1}",
            f"{i.last - i.first:,}",
            f"{i.byte_steps:.2e}",
            format_bytes(i.load),
            "yes" if i.recompute else "",
        )
        for i in e.idle
    ]
    shown, rest = rows[:LISTED], e.idle[LISTED:]
    notes = (f"and {len(rest):,} more: {format_bytes(sum(i.bytes for i in rest))}",) if rest else ()
    if e.of_graph:
        right = frozenset(columns[1:6])
        return Table("Alive there, but not used", columns, tuple(shown), right, notes, {"tensor": 48})
    title, names = "Alive there, from before it until after it", ("buffer", "size", "alive in steps", *columns[3:6])
    return Table(title, names, tuple(row[:6] for row in shown), frozenset(names[1:]), notes, {"buffer": 48})


def _blocked_table(e: Explanation) -> Table:
    rows = [(b.output, format_bytes(b.bytes), b.op_type.removesuffix(".default") or b.op, b.reason) for b in e.blocked]
    title, columns = "Outputs at the highest load that are not in place", ("tensor", "size", "made by", "because")
    return Table(title, columns, tuple(rows[:LISTED]), frozenset({"size"}), most={"tensor": 36, "made by": 24})


def _chains_table(e: Explanation) -> Table:
    words = {"inplace": "in place", "slice": "slices", "concat": "parts of concatenations"}
    rows = []
    for how, word in words.items():
        own = [s for s in e.shared if s.how == how]
        if own:
            names = _few([f"{s.inner} in {s.outer}" for s in own])
            rows.append((f"{word}: {names}", f"{len(own):,}", format_bytes(sum(s.bytes for s in own))))
    for chain in e.chains[:_CHAINS]:
        rows.append((" → ".join(_ends(chain.buffers)), f"{len(chain.buffers):,}", format_bytes(chain.saved)))
    notes = (f"naive - peak: {format_bytes(e.naive - e.peak)}",) if rows else ()
    return Table(
        "Which reuse saves most", ("who", "how many", "saves"), tuple(rows), frozenset({"how many", "saves"}), notes
    )


# Words


def _at(moment: Moment) -> str:
    """A step with its op: "step 3, relu_1 (Relu)"."""
    return f"step {moment.step}" + (f", {op_label(moment.op, moment.op_type)}" if moment.op else "")


def _made(alive: Alive) -> str:
    """The type of the op, or its name if it has none; the kind of what no op made."""
    return alive.op_type.removesuffix(".default") or alive.op


def _needed(alive: Alive) -> str:
    return alive.reader or f"({alive.why})"


def _things(e: Explanation) -> str:
    return "tensors" if e.of_graph else "buffers"


def _by_type(e: Explanation, alive: Sequence[Alive]) -> list[tuple[str, int, int]]:
    """Per type of op, or kind, how many tensors and bytes; that with most bytes first."""
    groups: defaultdict[str, list[int]] = defaultdict(list)
    for a in alive:
        groups[a.why if e.what else _made(a)].append(a.bytes)
    return sorted(((name, len(sizes), sum(sizes)) for name, sizes in groups.items()), key=lambda g: (-g[2], g[0]))


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _listing(words: Sequence[str]) -> str:
    """ "a, b and c"."""
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def _few(words: Sequence[str]) -> str:
    """The first, and how many there are besides."""
    rest = len(words) - _NAMED
    return ", ".join(words[:_NAMED]) + (f" and {rest:,} more" if rest > 0 else "")


def _ends(names: Sequence[str]) -> Sequence[str]:
    """The first and last of a long list."""
    return names if len(names) <= 2 * _NAMED else [*names[:_NAMED], "…", *names[-_NAMED:]]
