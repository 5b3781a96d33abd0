"""OrderBound: what every order of a graph's ops needs at least, to be kept, and checked by code that is not the core's.

The core's row of a need is (op, before, after, bytes, held, passed, alive), by the numbers of ops and tensors; -1 is
none.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import get_type_hints

from .. import _core
from ..files import read_form, write_json
from ..text import counted
from . import order_checker
from .order_checker import HeldRow, Need, Passed
from .order_model import Options, OrderModel
from .proven import Proven
from .reading import read_as

FORMAT = "memplan.order_bound"
VERSION = 1


@dataclass(frozen=True)
class OrderBound:
    """A proof that every order of a graph's ops needs `bytes` bytes, whichever tensors share bytes by choice.

    It names ops and tensors, and holds nothing else of the graph. `check` says whether it proves anything; until then
    it is a claim.

    Attributes
    ----------
    bytes : int
        What every order needs. An alignment is not looked at.
    ops : tuple of str
        The ops that the proof speaks of: in any order, one of them needs so much, or else what the caller keeps does.
    needs : tuple of Need
        What they need, and why; see `memplan.proofs.order_checker`.
    options : Options
        What may lie in the arena, and what may share bytes.
    alive : tuple of str
        Tensors that are alive beside one of the needs, in a state in which least is. For people to read: no part of
        the proof.
    """

    bytes: int
    ops: tuple[str, ...]
    needs: tuple[Need, ...]
    options: Options
    alive: tuple[str, ...] = field(default=(), compare=False)

    @property
    def op(self) -> str | None:
        """The op that needs so much whatever has run; None if there is no such op: the proof looks at several."""
        return self.ops[0] if len(self.ops) == 1 else None

    def check(self, graph: _core.Graph) -> Proven:
        """What this proves, if it proves the bound; `memplan.proofs.order_checker` says what that takes.

        Takes time in proportion to the graph, for each need.

        Raises
        ------
        OrderBoundError
            It does not; names the need.
        """
        graph = getattr(graph, "graph", graph)  # of a network or plan
        if not isinstance(graph, _core.Graph):
            raise TypeError(f"a bound of all orders is checked against a Graph, got {type(graph).__name__}")
        order_checker.check(OrderModel(graph.to_dict(), self.options), self.bytes, self.ops, self.needs)
        return Proven(
            f"Every order of {counted(len(graph.ops), 'ops')} needs at least", max(self.bytes, 0), self._kind()
        )

    def _kind(self) -> str:
        if self.bytes <= 0:
            return "the fact that no less is possible"
        if any(need.op is None for need in self.needs):
            return "what the caller keeps to the end"
        if self.op is not None:
            return f"a flow: so much is alive whenever {self.op} runs"
        return (
            f"{counted(len(self.needs), 'flows')} for {counted(len(self.ops), 'ops')}, in whatever sequence these run"
        )

    def __repr__(self) -> str:
        return f"<memplan.proofs.OrderBound: every order needs {self.bytes} bytes, {len(self.needs)} needs>"

    def to_json(self, path: str | os.PathLike[str]) -> None:
        """Write it as versioned JSON; `held` are [tensor, begin, user, bytes], `passed` [op, before, bytes]."""
        spec = {"format": FORMAT, "version": VERSION, "memplan": _core.__version__, "bytes": self.bytes}
        needs = [need._asdict() for need in self.needs]
        spec |= {"options": self.options._asdict(), "ops": self.ops, "needs": needs, "alive": self.alive}
        write_json(path, spec, indent=None)

    @classmethod
    def from_json(cls, path: str | os.PathLike[str]) -> OrderBound:
        """Read what `to_json` wrote; SourceError names what is not as expected. Nothing is checked yet."""
        spec = read_form(path, "a bound of all orders that memplan wrote", FORMAT, VERSION)
        return cls(
            **{name: read_as(kind, spec.get(name), f"{path}: {name}") for name, kind in get_type_hints(cls).items()}
        )


def order_bound_of(graph: _core.Graph, storage: _core.StorageOptions, work: int) -> OrderBound:
    """The bound that the core finds, by name."""
    size, ops, rows = _core.order_bound(graph, storage, work)
    names = [op.name for op in graph.ops]
    tensors = [tensor.name for tensor in graph.tensors]

    def named(numbers: Sequence[int]) -> tuple[str, ...]:
        return tuple(names[k] for k in numbers)

    needs = tuple(
        Need(
            None if op < 0 else names[op],
            named(before),
            named(after),
            need,
            tuple(HeldRow(tensors[t], begin, None if user < 0 else names[user], n) for t, begin, user, n in held),
            tuple(Passed(names[k], names[before], n) for k, before, n in passed),
        )
        for op, before, after, need, held, passed, _ in rows
    )
    options = Options(
        tuple(storage.place),
        storage.inplace,
        storage.zero_copy,
        tuple(storage.disable_inplace_ops),
        tuple(storage.donate),
    )
    alive = tuple(tensors[t] for t, *_ in rows[0][6]) if len(rows) == 1 else ()
    return OrderBound(size, named(ops), needs, options, alive)
