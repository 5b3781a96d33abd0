"""What was changed in a graph so that it fits a capacity, and what that costs."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .. import _core
from ..sizes import with_bytes
from ..text import counted

_PIECE = re.compile(r"/\d+of\d+$")  # at the end of names, as the core numbers pieces


@dataclass(frozen=True)
class Change:
    """Something that was given up for memory.

    Attributes
    ----------
    kind : str
        "recompute": an op runs again. "offload": a tensor is copied out of the arena, and fetched. "order": the ops
        run in another order. "donate": an output takes the bytes of a graph input. "hand_over": a
        graph output is copied out of the arena after its last use. "split": ops run in pieces.
    tensors : tuple of str
        The tensors that come back, or that are taken; of a split, those that are never whole.
    ops : tuple of str
        The ops that were added; of a split, the ops of the graph that run in pieces.
    after, before : str
        The op that used the tensors last, and the op before which they come back.
    bytes : int
        Bytes that are free between the two; of a split, those of its tensors, whole.
    cost : float
        What it adds.
    pieces : int
        Of a split: in how many about equal parts its last ops run.
    kept : int
        Of a split: bytes of rows that are read again by later pieces, and are moved to the front of their buffers.
    again : tuple of str
        Of a split: the ops that make such rows again, and do not keep them.
    reruns : tuple of str
        Of a split: the ops that run in several passes through all rows.
    over : tuple of (str, str)
        Of a split: tensors that its ops make whole, each with the tensor over whose rows it is written.
    blocks : tuple of str
        Of a split: tensors that its ops make for other splits. They stay in blocks, one for each piece.
    loops : tuple of dict
        Of a split: for each of `ops`, the loop along which it is cut, as graph dicts have loops. An op without one runs
        whole, between two passes.
    """

    kind: str
    tensors: tuple[str, ...] = ()
    ops: tuple[str, ...] = ()
    after: str = ""
    before: str = ""
    bytes: int = 0
    cost: float = 0.0
    pieces: int = 0
    kept: int = 0
    again: tuple[str, ...] = ()
    reruns: tuple[str, ...] = ()
    over: tuple[tuple[str, str], ...] = ()
    blocks: tuple[str, ...] = ()
    loops: tuple[Mapping[str, Any], ...] = field(default=(), repr=False, hash=False)

    @property
    def why(self) -> str:
        """What is won by it, as a sentence."""
        if self.kind in ("recompute", "offload"):
            return f"{with_bytes(self.bytes)} are free from {self.after!r} to {self.before!r}"
        if self.kind == "split":
            again = len({*self.again, *self.reruns})
            some = f", and {counted(again, 'ops')} make rows again" if again else ""
            return f"in {self.pieces} pieces, so that {with_bytes(self.bytes)} of tensors are never whole{some}"
        if self.kind == "order":
            return "the load is lower in this order"
        if self.kind == "hand_over":
            return "the caller gets it as soon as nothing uses it"
        return f"{with_bytes(self.bytes)} of a graph input are written over"

    def to_dict(self) -> dict[str, Any]:
        """The change as plain Python objects."""
        names = {"again": list(self.again), "reruns": list(self.reruns), "blocks": list(self.blocks)}
        over = [list(pair) for pair in self.over]
        split = {"pieces": self.pieces, "kept": self.kept, **names, "over": over, "loops": list(self.loops)}
        return {
            "kind": self.kind,
            "tensors": list(self.tensors),
            "ops": list(self.ops),
            "after": self.after,
            "before": self.before,
            "bytes": self.bytes,
            "cost": self.cost,
            **(split if self.kind == "split" else {}),
        }


@dataclass(frozen=True)
class InPieces:
    """A graph that was split.

    Attributes
    ----------
    whole : Graph
        The graph that was split, in the order in which its ops were.
    graph : Graph
        The same in pieces, before ops were added to it that run again, or moves.
    does : tuple
        What each op of `graph` does, as `_core.Piece`.
    """

    whole: _core.Graph
    graph: _core.Graph
    does: tuple[_core.Piece, ...]

    @property
    def order(self) -> tuple[str, ...]:
        """The ops of the graph that was split."""
        return tuple(op.name for op in self.whole.ops)


@dataclass(frozen=True)
class Fitting:
    """How a graph was made to fit; see `memplan.fit`.

    Attributes
    ----------
    changes : tuple of Change
        In the order in which they run.
    capacity : int
        Bytes that were asked for.
    cost : float
        Of all ops of the given graph.
    added_cost, cost_bound : float
        What the changes add, and what any schedule in this order has to add at least.
    unit : str
        Of costs: "seconds" if they were measured; "" otherwise.
    load_bound : int
        Bytes below which no load falls in this order of the ops, whatever is given up; if ops may be split, in any
        order. 0 if nothing is known.
    least : bool
        As little as is reached was asked for; `capacity` is what that is.
    share : str
        What was asked for in words, if it was a percentage: "60% of 2.00 GiB, the peak of the network as it is".
    split_order : tuple of str
        The ops of the graph in the order in which they were split; empty if none was.
    pieces : InPieces or None
        The graph in pieces, where ops run in pieces: for what runs and writes programs. Not in files, which have loops
        and order: so the graph can be split again.
    """

    changes: tuple[Change, ...] = field(default=())
    capacity: int = 0
    cost: float = 0.0
    added_cost: float = 0.0
    cost_bound: float = 0.0
    unit: str = ""
    load_bound: int = 0
    least: bool = False
    share: str = ""
    split_order: tuple[str, ...] = field(default=(), repr=False)
    pieces: InPieces | None = field(default=None, compare=False, repr=False)

    def __iter__(self) -> Iterator[Change]:
        return iter(self.changes)

    def whole(self, name: str) -> str:
        """The tensor that a tensor is rows of, where ops run in pieces: ``"conv1"`` of ``"conv1/3of8"``."""
        return _PIECE.sub("", name) if any(change.kind == "split" for change in self.changes) else name

    def __str__(self) -> str:
        from .changes_text import fitting_text

        return fitting_text(self)

    def _repr_html_(self) -> str:
        from .changes_text import fitting_html

        return fitting_html(self)

    def to_dict(self) -> dict[str, Any]:
        """The figures and the changes as plain Python objects."""
        return {
            "capacity": self.capacity,
            "cost": self.cost,
            "added_cost": self.added_cost,
            "cost_bound": self.cost_bound,
            "unit": self.unit,
            "load_bound": self.load_bound,
            "least": self.least,
            **({"share": self.share} if self.share else {}),
            "changes": [change.to_dict() for change in self.changes],
            **({"split_order": list(self.split_order)} if self.split_order else {}),
        }


def fitting_from(spec: Any, where: str) -> Fitting:
    """The fitting that `Fitting.to_dict` gave; ValueError names the entry that is not as expected."""
    changes = _entry(spec, "changes", list, where)
    cost, added, bound = (_number(spec, name, where) for name in ("cost", "added_cost", "cost_bound"))
    return Fitting(
        tuple(_change(change, f"{where}.changes[{k}]") for k, change in enumerate(changes)),
        _entry(spec, "capacity", int, where),
        *(cost, added, bound),
        _entry({"unit": "", **spec}, "unit", str, where),
        _entry({"load_bound": 0, **spec}, "load_bound", int, where),
        spec.get("least") is True,
        _entry({"share": "", **spec}, "share", str, where),
        _names({"split_order": [], **spec}, "split_order", where),
    )


def _change(spec: Any, where: str) -> Change:
    texts = [_entry(spec, name, str, where) for name in ("kind", "after", "before")]
    split = {"pieces": 0, "kept": 0, "again": [], "reruns": [], "blocks": [], "over": [], "loops": [], **spec}
    tensors, ops, again, reruns, blocks = (
        _names(split, name, where) for name in ("tensors", "ops", "again", "reruns", "blocks")
    )
    pairs = [_names({"over": pair}, "over", where) for pair in _entry(split, "over", list, where)]
    if any(len(pair) != 2 for pair in pairs):
        raise ValueError(f"{where}.over must hold pairs of names, got {pairs!r}")
    over = tuple((after, before) for after, before in pairs)
    loops = _entry(split, "loops", list, where)
    if loops and len(loops) != len(ops):
        raise ValueError(f"{where}.loops must hold a loop for each of {len(ops)} ops, got {len(loops)}")
    kind, after, before = texts
    pieces, kept = (_entry(split, name, int, where) for name in ("pieces", "kept"))
    size, cost = _entry(spec, "bytes", int, where), _number(spec, "cost", where)
    split_of = (pieces, kept, again, reruns, over, blocks, tuple(loops))
    return Change(kind, tensors, ops, after, before, size, cost, *split_of)


def _names(spec: Any, name: str, where: str) -> tuple[str, ...]:
    values = _entry(spec, name, list, where)
    for value in values:
        if not isinstance(value, str):
            raise ValueError(f"{where}.{name} must hold names, got {value!r}")
    return tuple(values)


def _number(spec: Any, name: str, where: str) -> float:
    value = _entry(spec, name, (int, float), where)
    if not 0 <= value < math.inf:
        raise ValueError(f"{where}.{name} must be finite and >= 0, got {value!r}")
    return float(value)


def _entry(spec: Any, name: str, kind: Any, where: str) -> Any:
    value = spec.get(name) if isinstance(spec, dict) else None
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ValueError(f"{where}.{name} must be of type {getattr(kind, '__name__', 'number')}, got {value!r}")
    return value


def changes_of(found: Sequence[Any]) -> tuple[Change, ...]:
    """The changes that the core has made."""
    return tuple(
        Change(
            "offload" if c.moved else "recompute", tuple(c.tensors), tuple(c.ops), c.after, c.before, c.bytes, c.cost
        )
        for c in found
        if c.ops
    )


def splits_of(found: Sequence[_core.SplitChange], whole: _core.Graph) -> tuple[Change, ...]:
    """The regions that the core has split, of a graph."""
    loops_of = {op["name"]: op.get("loops", []) for op in whole.to_dict()["ops"]}
    return tuple(
        Change(
            *("split", tuple(s.tensors), tuple(s.ops), "", "", s.bytes, s.cost, s.pieces, s.kept),
            again=tuple(s.again),
            reruns=tuple(s.reruns),
            over=tuple(s.over),
            blocks=tuple(s.blocks),
            loops=tuple({} if k is None else loops_of[name][k] for name, k in zip(s.ops, s.loops, strict=True)),
        )
        for s in found
    )
