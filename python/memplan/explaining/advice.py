"""What would lower the load, and to what: every figure is the load of the problem with that change."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from .. import _core
from ..inplace_ops import INPLACE_OPS, matches, with_inplace
from ..options.records import Sharing
from ..plans.dataflow import Dataflow
from ..plans.inplace import Blocked, may_be_over_inputs
from .orders import load_during

SLIGHT = 0.001  # of the load: what brings less is noise
_TRIED = 8  # types of ops, and inputs, that are tried one by one
_MOST_PAIRS = 24  # of changes that are tried
_MOST_WORK = 1_000_000  # ops that are looked at for pairs
_LIFTED = {"disabled", "not donated", "not listed", "harmful"}  # rules that options lift, or that lifting others may


@dataclass(frozen=True)
class Advice:
    """A change and the load that it leads to, at most.

    ``kind`` is an option of `memplan.plan`: "order" for the best one, "inplace", "zero_copy" or "disable_inplace_ops"
    that forbade it, inputs to "donate", types of ops in the graph that "INPLACE_OPS" has, or others for "inplace_ops",
    if their kernels allow it; "split" for ops in pieces, of which ``names`` are the tensors that are never whole; or
    what to do with idle tensors: "recompute", "offload" until the next use, "hand_over" graph outputs when they are
    made, or a problem "without" buffers that live on both sides. ``names`` are its types, inputs, tensors or buffers,
    ``bytes`` those that it takes away where the load is highest; for "order" and "split", those that the op which makes
    the load needs less. ``also`` is a second change, kind and names, without which the first does
    not lead there. For what a step or a compiled graph holds, ``kind`` is a kind of it, of which ``names`` would be
    away while nothing uses them, and ``how`` says what does that.
    """

    kind: str
    names: tuple[str, ...]
    load: int
    bytes: int
    also: tuple[str, tuple[str, ...]] | None = None
    how: str = ""


_Change = tuple[str, tuple[str, ...]]  # kind and names, as of an Advice


def is_worth(advice: Advice, load: int, least: float = SLIGHT) -> bool:
    """Whether advice brings at least a part of a load."""
    return load - advice.load >= least * load


def options_to_change(dataflow: Dataflow, blocked: Collection[Blocked], load: int, op: int) -> list[Advice]:
    """Changes of what `memplan.plan` is asked for, found by trying them: those that lower the load.

    Each change is tried alone. Where all of them together do better than the best of these, two are tried at a time.
    """
    asked = dataflow.storage
    if asked is None:
        return []
    trial = _Trial(dataflow.graph, asked)
    most = min(load, trial.load(()))
    changes = _changes(dataflow, asked, blocked)
    ways = [(change,) for change in changes if trial.load((change,)) < most]
    best = min(map(trial.load, ways), default=most)
    pair = _best_pair(trial, changes, best, _MOST_WORK // max(len(dataflow.ops), 1))
    return [_advice(trial, way, load, op) for way in (*ways, *filter(None, [pair]))]


class _Trial:
    """What becomes of a graph's problem with changes."""

    def __init__(self, graph: _core.Graph, asked: _core.StorageOptions) -> None:
        self.graph, self.asked = graph, asked
        self._loads: dict[tuple[_Change, ...], int] = {}

    def load(self, changes: tuple[_Change, ...]) -> int:
        if changes not in self._loads:
            self._loads[changes] = self.buffers(changes).problem.load
        return self._loads[changes]

    def buffers(self, changes: tuple[_Change, ...]) -> _core.Buffers:
        graph, asked = self.with_changes(changes)
        return _core.buffers_of(graph, asked)

    def with_changes(self, changes: tuple[_Change, ...]) -> tuple[_core.Graph, _core.StorageOptions]:
        """The graph and the options with changes made in turn."""
        graph, asked = self.graph, self.asked
        for kind, names in changes:
            if kind in ("inplace", "zero_copy"):
                asked = _changed(asked, **{kind: True})
            elif kind == "disable_inplace_ops":
                still = [name for name in asked.disable_inplace_ops if not any(matches(type, [name]) for type in names)]
                asked = _changed(asked, disable_inplace_ops=still)
            elif kind == "donate":
                asked = _changed(asked, donate=[*asked.donate, *(names or self.donors(graph))])
            else:
                graph = with_inplace(graph, INPLACE_OPS if kind == "INPLACE_OPS" else names)
        return graph, asked

    def donors(self, graph: _core.Graph) -> list[str]:
        """The inputs that some op may write over once they are donated."""
        return [name for name in may_be_over_inputs(graph) if name not in self.asked.donate]


def with_changes(
    graph: _core.Graph, asked: _core.StorageOptions, changes: Sequence[_Change]
) -> tuple[_core.Graph, _core.StorageOptions]:
    """The graph and the options with changes of options made in turn."""
    return _Trial(graph, asked).with_changes(tuple(changes))


_DONATE: _Change = ("donate", ())  # all that may be


def _changes(dataflow: Dataflow, asked: _core.StorageOptions, blocked: Collection[Blocked]) -> list[_Change]:
    """What may be worth a trial; donations last, as they depend on what ops may do."""
    changes: list[_Change] = []
    if not asked.inplace:
        changes.append(("inplace", ()))
    if not asked.zero_copy:
        changes.append(("zero_copy", ()))
    if asked.inplace:
        off = sorted({b.op_type for b in blocked if b.rule == "disabled"})
        changes += [("disable_inplace_ops", (type,)) for type in off[:_TRIED]]
        listed = _listed(dataflow)
        if listed:
            changes.append(("INPLACE_OPS", tuple(listed)))
        silent = {b.op_type for b in blocked if "not listed" in b.rules and set(b.rules) <= _LIFTED}
        changes += [("inplace_ops", (type,)) for type in sorted(silent - {"", *listed})[:_TRIED]]
        changes.append(_DONATE)
    return changes


def _best_pair(trial: _Trial, changes: list[_Change], best: int, budget: int) -> tuple[_Change, ...] | None:
    """The two changes that lower the load most, if they lower it below `best`, those with donations first.

    As many pairs are tried as the budget says, four at least, and none where all changes together do no better.
    """
    least = trial.load(tuple(changes)) if len(changes) > 1 else best
    found, lowest = None, best
    pairs = sorted(combinations(changes, 2), key=lambda pair: _DONATE not in pair)
    for pair in pairs[: min(max(budget, 4), _MOST_PAIRS)]:
        if lowest <= least:
            break
        if trial.load(pair) < lowest:
            found, lowest = pair, trial.load(pair)
    return found


def _advice(trial: _Trial, way: tuple[_Change, ...], load: int, op: int) -> Advice:
    """One or two changes as an advice, with the fewest donations that do."""
    if _DONATE in way:
        way = (*way[:-1], ("donate", _fewest(trial, way[:-1], trial.load(way))))
    buffers = trial.buffers(way)
    (kind, names), also = way[-1], way[0] if len(way) > 1 else None
    return Advice(kind, names, buffers.problem.load, load - load_during(buffers, op), also)


def _listed(dataflow: Dataflow) -> list[str]:
    """The types of ops that `INPLACE_OPS` has and the graph says nothing of."""
    silent = {op.type for op in dataflow.ops if not op.inplace}
    said = {op.type for op in dataflow.ops if op.inplace}
    return sorted(type for type in silent - said if matches(type, INPLACE_OPS))


def _fewest(trial: _Trial, before: tuple[_Change, ...], load: int) -> tuple[str, ...]:
    """The inputs that have to be donated, after other changes, for the load that all of them lead to."""
    graph, _ = trial.with_changes(before)
    donors = trial.donors(graph)
    needed = list(donors)
    for name in donors if len(donors) <= _TRIED else []:
        fewer = [other for other in needed if other != name]
        if fewer and trial.load((*before, ("donate", tuple(fewer)))) <= load:
            needed = fewer
    return tuple(needed)


def _changed(asked: _core.StorageOptions, **changes: Any) -> _core.StorageOptions:
    return _core.StorageOptions(**{name: getattr(asked, name) for name in Sharing.names()} | changes)
