"""OrderBound: what every order of a graph's ops needs at least, to be kept, and checked by code that is not the core's.

The core's row of a need is (op, before, after, bytes, held, passed, alive), by the numbers of ops and tensors; -1 is
none.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .. import _core
from ..errors import SourceError
from ..files import read_json, replacing
from ..text import counted
from . import order_checker
from .order_checker import Held, Need, Passed
from .order_model import Options, OrderModel
from .proven import Proven

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
        return f"<memplan.OrderBound: every order needs {self.bytes} bytes, {len(self.needs)} needs>"

    def to_json(self, path: str | os.PathLike[str]) -> None:
        """Write it as versioned JSON; `held` are [tensor, begin, user, bytes], `passed` [op, before, bytes]."""
        spec = {"format": FORMAT, "version": VERSION, "memplan": _core.__version__, "bytes": self.bytes}
        needs = [need._asdict() for need in self.needs]
        spec |= {"options": self.options._asdict(), "ops": self.ops, "needs": needs, "alive": self.alive}
        with replacing(path) as beside, open(beside, "w", encoding="utf-8", newline="\n") as file:
            json.dump(spec, file)
            file.write("\n")

    @classmethod
    def from_json(cls, path: str | os.PathLike[str]) -> OrderBound:
        """Read what `to_json` wrote; SourceError names what is not as expected. Nothing is checked yet."""
        spec = read_json(path, "a bound of all orders that memplan wrote")
        if (spec.get("format"), spec.get("version")) != (FORMAT, VERSION):
            raise SourceError(f"{path}: expected format {FORMAT!r} version {VERSION}")
        read = _Reader(str(path))
        return cls(
            read.count(spec.get("bytes"), "bytes"),
            read.names(spec.get("ops"), "ops"),
            tuple(read.need(need, f"needs[{k}]") for k, need in enumerate(read.rows(spec.get("needs"), "needs"))),
            read.options(spec.get("options")),
            read.names(spec.get("alive", []), "alive"),
        )


@dataclass(frozen=True)
class _Reader:
    """Takes what a file holds apart; SourceError names what is not as expected."""

    path: str

    def fail(self, where: str, expected: str, got: Any) -> SourceError:
        return SourceError(f"{self.path}: {where} must be {expected}, got {got!r}")

    def count(self, value: Any, where: str) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.fail(where, "an integer", value)
        return value

    def rows(self, value: Any, where: str) -> list[Any]:
        if not isinstance(value, list):
            raise self.fail(where, "a list", value)
        return value

    def name(self, value: Any, where: str) -> str:
        if not isinstance(value, str):
            raise self.fail(where, "a name", value)
        return value

    def names(self, value: Any, where: str) -> tuple[str, ...]:
        return tuple(self.name(name, f"{where}[{k}]") for k, name in enumerate(self.rows(value, where)))

    def row(self, value: Any, where: str, length: int) -> list[Any]:
        if len(self.rows(value, where)) != length:
            raise self.fail(where, f"a list of {length}", value)
        return list(value)

    def flag(self, value: Any, where: str) -> bool:
        if not isinstance(value, bool):
            raise self.fail(where, "true or false", value)
        return value

    def mapping(self, value: Any, where: str, keys: Sequence[str]) -> dict[str, Any]:
        if not isinstance(value, dict) or set(value) != set(keys):
            raise self.fail(where, f"an object of {', '.join(keys)}", value)
        return value

    def options(self, value: Any) -> Options:
        spec = self.mapping(value, "options", Options._fields)
        return Options(
            self.names(spec["place"], "options.place"),
            self.flag(spec["inplace"], "options.inplace"),
            self.flag(spec["zero_copy"], "options.zero_copy"),
            self.names(spec["disable_inplace_ops"], "options.disable_inplace_ops"),
            self.names(spec["donate"], "options.donate"),
        )

    def need(self, value: Any, where: str) -> Need:
        spec = self.mapping(value, where, Need._fields)
        return Need(
            None if spec["op"] is None else self.name(spec["op"], f"{where}.op"),
            self.names(spec["before"], f"{where}.before"),
            self.names(spec["after"], f"{where}.after"),
            self.count(spec["bytes"], f"{where}.bytes"),
            tuple(self.held(row, f"{where}.held[{k}]") for k, row in enumerate(self.rows(spec["held"], where))),
            tuple(self.passed(row, f"{where}.passed[{k}]") for k, row in enumerate(self.rows(spec["passed"], where))),
        )

    def held(self, value: Any, where: str) -> Held:
        tensor, begin, user, count = self.row(value, where, 4)
        by = None if user is None else self.name(user, where)
        return Held(self.name(tensor, where), self.count(begin, where), by, self.count(count, where))

    def passed(self, value: Any, where: str) -> Passed:
        op, before, count = self.row(value, where, 3)
        return Passed(self.name(op, where), self.name(before, where), self.count(count, where))


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
            tuple(Held(tensors[t], begin, None if user < 0 else names[user], n) for t, begin, user, n in held),
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
    alive = tuple(tensors[t] for t, _ in rows[0][6]) if len(rows) == 1 else ()
    return OrderBound(size, named(ops), needs, options, alive)
