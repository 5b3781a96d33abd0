"""What differs between two plans: of two versions of a model, or of one by two planners."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field

from ..explaining.alive import Alive
from ..explaining.explanation import Moment, Scene
from ..plans.moved_ops import OpMove, moved_ops
from ..plans.plan import Plan
from ..plans.slots import Slot

CHANGES = ("appeared", "vanished", "grew", "shrank", "longer", "shorter", "moved")


@dataclass(frozen=True)
class Change:
    """A tensor or buffer that differs: its slots in both plans, None where it is not.

    ``kinds`` are those of `CHANGES` that apply: a life is longer or shorter by its number of steps, and what moved lies
    at another offset, or in another pool. ``bytes`` is how many it takes more, or fewer, while it is alive in one plan
    only or larger in one; 0 where it only moved.
    """

    name: str
    before: Slot | None
    after: Slot | None
    kinds: tuple[str, ...]
    bytes: int


@dataclass(frozen=True)
class AtLoad:
    """What a tensor or buffer takes where the load of each plan is highest, in bytes; 0 where it is not alive."""

    name: str
    before: int
    after: int


@dataclass(frozen=True)
class Figures:
    """Of a plan: its planner, how many buffers and tensors that share bytes by choice it has, bytes, and where its load
    is highest."""

    planner: str
    buffers: int
    shared: int
    peak: int
    load: int
    lower_bound: int
    naive: int
    load_step: Moment | None


@dataclass(frozen=True)
class PlanDiff:
    """The differences of two plans, matched by name.

    Attributes
    ----------
    before, after : Figures
        Of the two plans.
    of_tensors : bool
        The tensors of two graphs are compared, and workspaces; else the buffers, as one of the plans has no graph.
    same : int
        How many are in both and differ in nothing.
    changes : tuple of Change
        Those that differ, the ones with most `bytes` first, then those that moved, the largest first.
    at_load : tuple of AtLoad
        Why the loads differ: what takes other bytes at the one's highest load than at the other's. The differences add
        up to that of the loads.
    moved_ops : tuple of OpMove
        Of two plans of the same ops in different orders: the fewest ops that have to move to make one order of the
        other. Those that write most come first, then those that move furthest.
    plans : (Plan, Plan) or None
        What was compared; in no JSON.
    """

    before: Figures
    after: Figures
    of_tensors: bool
    same: int
    changes: tuple[Change, ...]
    at_load: tuple[AtLoad, ...]
    moved_ops: tuple[OpMove, ...] = ()
    plans: tuple[Plan, Plan] | None = field(default=None, compare=False, repr=False, metadata={"fact": False})

    @property
    def counts(self) -> dict[str, int]:
        """How many changed in each way, in the order of `CHANGES`, for the ways that occur."""
        kinds = Counter(kind for change in self.changes for kind in change.kinds)
        return {kind: kinds[kind] for kind in CHANGES if kinds[kind]}

    def __str__(self) -> str:
        from ..printing.tables import report_text
        from .text import diff_report

        return report_text(diff_report(self))

    def _repr_html_(self) -> str:
        from ..printing.tables import report_html
        from .text import diff_report

        return report_html(diff_report(self))

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write it as a page that needs no other file: all changes, and both plans side by side."""
        from ..files import write_text
        from .text import diff_page

        write_text(path, diff_page(self))

    def to_json(self, path: str | os.PathLike[str]) -> None:
        """Write it as versioned JSON."""
        from ..export.facts import write_facts

        write_facts(self, path, "memplan.diff", 1)


def diff(before: Plan, after: Plan) -> PlanDiff:
    """See `Plan.diff`."""
    of_tensors = before.graph is not None and after.graph is not None
    one, other = (dict(plan.tensors) if of_tensors else {slot.name: slot for slot in plan} for plan in (before, after))
    changes = [_change(name, one.get(name), other.get(name)) for name in {**one, **other}]
    found = [change for change in changes if change.kinds]
    found.sort(key=lambda change: (-change.bytes, -_size(change), change.name))
    scenes = [Scene.of(plan) for plan in (before, after)]
    load_steps = [scene.moment(scene.at_load) if scene else None for scene in scenes]
    figures = [_figures(plan, load_step) for plan, load_step in zip((before, after), load_steps, strict=True)]
    at_load = _at_load(*(scene.alive(scene.at_load) if scene else () for scene in scenes))
    same = len(changes) - len(found)
    moved = moved_ops(before.order, after.order, before.graph or after.graph)
    return PlanDiff(figures[0], figures[1], of_tensors, same, tuple(found), at_load, moved, (before, after))


def _figures(plan: Plan, load_step: Moment | None) -> Figures:
    shared = len(plan.sharing)
    return Figures(plan.planner, len(plan), shared, plan.peak, plan.load, plan.lower_bound, plan.naive, load_step)


def _change(name: str, before: Slot | None, after: Slot | None) -> Change:
    if before is None or after is None:
        slot = after or before
        assert slot is not None
        return Change(name, before, after, ("vanished" if after is None else "appeared",), slot.bytes)
    grown, longer = after.bytes - before.bytes, (after.last - after.first) - (before.last - before.first)
    applies = {
        "grew": grown > 0,
        "shrank": grown < 0,
        "longer": longer > 0,
        "shorter": longer < 0,
        "moved": (before.pool, before.address) != (after.pool, after.address),
    }
    size = max(before.bytes, after.bytes) if longer else abs(grown)
    return Change(name, before, after, tuple(kind for kind, yes in applies.items() if yes), size)


def _size(change: Change) -> int:
    return max(slot.bytes for slot in (change.before, change.after) if slot is not None)


def _at_load(before: tuple[Alive, ...], after: tuple[Alive, ...]) -> tuple[AtLoad, ...]:
    one, other = Counter[str](), Counter[str]()
    for count, found in ((one, before), (other, after)):
        for alive in found:
            count[alive.name] += alive.bytes
    pairs = [AtLoad(name, one[name], other[name]) for name in {**one, **other}]
    differ = [pair for pair in pairs if pair.before != pair.after]
    return tuple(sorted(differ, key=lambda pair: (-abs(pair.after - pair.before), pair.name)))
