"""Why nothing fits a capacity, in words: what counts, why no pieces help, and what else may be allowed."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import NamedTuple

from .. import _core
from ..plans.failing import InfeasibleError
from ..sizes import with_bytes

_ONE_OP = re.compile(r"op '(.*?)' needs .* whatever is given up")
_MUCH = 16  # a part of the capacity: what takes more and is whole is in the way
_NO_ORDER = "in the given order of the ops, as allow holds {} and not order"


def advised(
    error: InfeasibleError,
    graph: _core.Graph,
    storage: _core.StorageOptions,
    ways: Collection[str],
    in_pieces: Callable[[], bool | None],
    share: str = "",
) -> str:
    """The message of an error, with what its reader can do.

    `in_pieces` tries whether a plan fits if 'split' is allowed too; None if a short search does not find out. `share`
    says what the capacity is a share of.
    """
    what, line, rest = str(error).partition("\n")
    found = _Arena(graph, storage)
    parts = [what]
    if (match := _ONE_OP.match(what)) and (op := found.op(match[1])) is not None:
        parts = [what.partition("; its largest tensor")[0], *found.largest(op)]
    returned = found.returned()
    much = error.capacity // (1 if error.proven else _MUCH)
    whole = found.whole(much, draws=not error.proven) if "split" in ways or found.has_loops() else None
    if returned > error.capacity:
        parts.append(f"what the network returns is {with_bytes(returned)} of it, which nothing gives up")
    elif whole is not None and ("split" in ways or match):
        parts.append(whole)
    elif "split" not in ways and found.has_loops():
        fits = in_pieces()
        if fits is not False:
            parts[0] = parts[0].replace("whatever is given up", "unless it runs in pieces")
            parts.append(f"allow 'split' too: in pieces it {'fits' if fits else 'may fit'}")
    if "order" not in ways and not (error.proven and "split" in ways):  # with pieces, proofs are of all orders
        parts.append(_NO_ORDER.format(", ".join(ways)))
    if not error.proven and returned <= error.capacity:
        parts.append('memplan.fit(source, "least") finds as little as can be reached')
    if share:
        parts.append(f"the capacity is {share}")
    return "; ".join(parts) + line + rest


class _Size(NamedTuple):
    tensor: str
    bytes: int


class _Arena:
    """What of a graph is in the arena: tensors by the buffers that hold them."""

    def __init__(self, graph: _core.Graph, storage: _core.StorageOptions) -> None:
        self._graph = graph
        buffers = _core.buffers_of(graph, storage)
        size = buffers.problem.size.tolist()
        places, roots = buffers.buffer_of_tensor.tolist(), buffers.root_of_tensor.tolist()
        self._buffer = {tensor.name: place for tensor, place in zip(graph.tensors, places, strict=True)}
        self._root = {tensor.name: graph.tensors[root] for tensor, root in zip(graph.tensors, roots, strict=True)}
        self._size = dict(enumerate(size))

    def op(self, name: str) -> _core.Op | None:
        """The op with a name."""
        return next((op for op in self._graph.ops if op.name == name), None)

    def has_loops(self) -> bool:
        """Whether any op may run in pieces."""
        return any(op.loops for op in self._graph.ops)

    def largest(self, op: _core.Op) -> list[str]:
        """The largest tensor of an op in the arena, as a part of a message; none if it has none there."""
        sizes = [_Size(name, self._root[name].bytes) for name in (*op.inputs, *op.outputs) if self._buffer[name] >= 0]
        if not sizes:
            return []
        most = max(sizes, key=lambda one: one.bytes)
        own = [f"its kernel's own memory takes {_in_bytes(op.workspace)}"] if op.workspace else []
        return [f"its largest tensor, '{most.tensor}', takes {_in_bytes(most.bytes)}", *own]

    def returned(self) -> int:
        """Bytes of what the network returns: all of it is there at the end."""
        return self._bytes_of(self._graph.outputs)

    def whole(self, much: int, draws: bool) -> str | None:
        """The op that has no pieces and needs most, if that is much, in words; ``draws``: only one that draws."""
        without = [op for op in self._graph.ops if not op.loops and not (draws and op.recompute)]
        needs = [(self._bytes_of([*op.inputs, *op.outputs]), op) for op in without]
        over = [(bytes_, op) for bytes_, op in needs if bytes_ > much]
        if not over:
            return None
        bytes_, op = max(over, key=lambda one: one[0])
        why = "draws random numbers, which pieces would draw otherwise" if not op.recompute else "has no pieces"
        return f"op '{op.name}' {why}: it runs whole and needs {with_bytes(bytes_)}"

    def _bytes_of(self, names: Collection[str]) -> int:
        return sum(self._size[place] for place in {self._buffer[name] for name in names} if place >= 0)


def _in_bytes(size: int) -> str:
    """As the core writes bytes."""
    return with_bytes(size).replace(",", "")
