"""The most bytes that a step of compiled forward and backward graphs holds, by the sizes of their tensors."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.fx.experimental.symbolic_shapes import optimization_hint

from ... import _core
from ..private import OpOverload, has_storage, packet_of
from ..private_compiler import get_storage, inductor_prims, partitioners
from ..reading.effects import flat_tensors
from ..running.pieces.random_rows import RANDOM_ROWS
from .pooling import gathers, is_index

_aten = torch.ops.aten
_ADDED = {  # to their first argument
    *(_aten.addmm.default, _aten.baddbmm.default, _aten.scatter_add.default),
    *(_aten.index_put.default, _aten._unsafe_index_put.default, _aten._unsafe_masked_index_put_accumulate.default),
}
_GATHERS = {_aten.index.Tensor, _aten._unsafe_index.Tensor}
_SCATTERS = {_aten.index_put.default, _aten._unsafe_index_put.default}
_LOOPS = {  # besides those that torch lists
    torch.ops.prims._low_memory_max_pool_offsets_to_indices.default,
    *(inductor_prims.random, RANDOM_ROWS),
}
SCALES = "memplan_scales"  # of a node of backward that multiplies what forward has computed for 1
IN_MEMORY = "inductor_realize_to_strides"  # of a node whose result Inductor writes, and computes in no other loop
_BY_ROWS = {_aten.amax.default, _aten.amin.default, _aten.sum.dim_IntList, _aten.mean.dim}
_HINT = 4096  # of a size that nothing is known about; torch's partitioner takes the same


@dataclass(frozen=True)
class Fusion:
    """What Inductor is taken to do.

    ``in_place``: elementwise ops are written over what they are the last to read. ``rows``: what is computed row by
    row, as a softmax is, is one loop over rows, so that nothing in between is in memory. ``writers``: loops that both
    write much for others to read may be one loop.
    """

    in_place: bool = True
    rows: bool = False
    writers: bool = True


USUAL = Fusion()


def held(forward: fx.GraphModule, backward: fx.GraphModule, outputs: int, fusion: Fusion = USUAL) -> int:
    """The most bytes that a step holds at one op, without weights and inputs of the network.

    Forward and backward follow each other. What forward saves is held from its op in forward to its last use in
    backward. The first `outputs` of what forward returns, and all that backward returns, are held to the end. Gradients
    that backward is given are held from its beginning.
    """
    timeline = _Timeline(forward, fusion)
    timeline.run(forward)
    returned: Any = forward.graph.output_node().args[0]
    timeline.keep(node for node in returned[:outputs] if isinstance(node, fx.Node))
    timeline.run(backward)
    timeline.keep(backward.graph.output_node().all_input_nodes)
    return timeline.most()


class _Timeline:
    """When storages live, over graphs that run one after another."""

    def __init__(self, first: fx.GraphModule, fusion: Fusion) -> None:
        self._fusion = fusion
        self._outside = {s for node in first.graph.find_nodes(op="placeholder") for s in storages(node)}
        self._now: dict[int, int] = {}  # of a storage that is alive: its position in the lists
        self._begin: list[int] = []
        self._end: list[int] = []
        self._size: list[int] = []
        self._steps = 0
        self._kept: set[int] = set()

    def run(self, graph: fx.GraphModule) -> None:
        """The ops of a graph; what it is given was made before, or comes now."""
        nodes = [node for node in graph.graph.nodes if node.op != "output"]
        given = {storage for node in nodes if node.op == "placeholder" for storage in storages(node)}
        self._now = {storage: place for storage, place in self._now.items() if storage in given}
        inside = in_registers(nodes, rows=self._fusion.rows)
        last = {
            s: node for node in nodes if node not in inside for used in read_by(node, inside) for s in storages(used)
        }
        last |= dict.fromkeys((s for used in graph.graph.output_node().all_input_nodes for s in storages(used)), None)
        for node in nodes:
            if node in inside:
                continue
            dying = [s for s in written_over(node, inside) if last[s] is node] if self._fusion.in_place else []
            self._write_over(node, dying)
            self._meet(node)
            for used in read_by(node, inside):
                self._use(used)
            self._steps += node.op != "placeholder"
        for node in graph.graph.output_node().all_input_nodes:
            self._use(node)

    def keep(self, nodes: Iterable[fx.Node]) -> None:
        """The tensors of nodes are held to the end."""
        self._kept.update(self._now[s] for node in nodes for s in storages(node) if s in self._now)

    def most(self) -> int:
        """The most bytes at a step."""
        ends = [self._steps + 1 if place in self._kept else end for place, end in enumerate(self._end)]
        return _core.Problem(self._size, self._begin, ends).load

    def _write_over(self, node: fx.Node, dying: Collection[int]) -> None:
        """What lies over a total, or elementwise over what nobody reads afterwards, has the same bytes."""
        total = total_of(node)
        for old in dying if total is None else storages(total):
            [new] = storages(node)
            if old in self._now and self._now[old] not in self._kept:
                self._now[new] = self._now[old]
                return

    def _meet(self, node: fx.Node) -> None:
        for storage, size in storages(node).items():
            if storage in self._outside or storage in self._now:
                continue
            self._now[storage] = len(self._size)
            self._begin.append(self._steps)
            self._end.append(self._steps + 1)
            self._size.append(size)

    def _use(self, node: fx.Node) -> None:
        for storage in storages(node):
            if storage in self._now:
                self._end[self._now[storage]] = self._steps + 1


def total_of(node: fx.Node) -> fx.Node | None:
    """The tensor that an op changes and is written over (`totals.py`); None if there is none, or if others read it."""
    scales = SCALES in node.meta
    total = node.args[0] if scales or node.target in _ADDED else None
    if not isinstance(total, fx.Node) or not (is_own(total, node) or (scales and _is_given(total, node))):
        return None
    made, mine = total.meta["val"], node.meta["val"]
    alike = (made.shape, made.stride(), made.dtype) == (mine.shape, mine.stride(), mine.dtype)
    return total if alike else None


def _is_given(made: fx.Node, user: fx.Node) -> bool:
    """Whether it was made by the graph before, and one op reads it: Inductor may write a loop over it."""
    return made.op == "placeholder" and [*made.users] == [user]


def is_own(made: fx.Node, user: fx.Node) -> bool:
    """Whether a tensor has bytes that an op made, and another alone reads, once."""
    if made.op != "call_function" or [*made.users] != [user]:
        return False
    given: list[fx.Node] = []
    fx.node.map_arg((user.args, user.kwargs), given.append)
    shown = {storage for used in made.all_input_nodes for storage in storages(used)}
    return given.count(made) == 1 and not storages(made).keys() & shown


def storages(node: fx.Node) -> dict[int, int]:
    """The storages of the tensors that a node makes or shows, and their bytes."""
    found = {}
    for tensor in flat_tensors(node.meta.get("val")):
        if has_storage(tensor):
            found[get_storage(tensor)] = hint(tensor.untyped_storage().nbytes())
    return found


def hint(size: Any) -> int:
    """A size as an integer: with symbolic sizes, for those that the graph is compiled with."""
    return int(optimization_hint(size, fallback=_HINT))


def parts_of(node: fx.Node, inside: Collection[fx.Node]) -> list[fx.Node]:
    """A node, and those of `inside` that are computed where it is: each once, after all that read it."""
    found: dict[fx.Node, None] = {}

    def visit(part: fx.Node) -> None:
        for used in part.all_input_nodes:
            if used in inside and used not in found:
                visit(used)
        found[part] = None

    visit(node)
    return [*reversed(found)]


def read_by(node: fx.Node, inside: Collection[fx.Node]) -> Iterator[fx.Node]:
    """The nodes that a node and its parts read."""
    for part in parts_of(node, inside):
        yield from (used for used in part.all_input_nodes if used not in inside)


def in_registers(
    nodes: Sequence[fx.Node],
    apart: Callable[[fx.Node, fx.Node], bool] = lambda *_: False,
    *,
    rows: bool = False,
) -> set[fx.Node]:
    """The ops that Inductor fuses into the one that reads them: all of it is elementwise, and no other op reads them.

    Several of its parts may. What is read at computed places may be a part too. What is concatenated or added at
    computed places may have parts, and so may max pooling's backward: its indices. What is ``apart`` from a reader is
    not fused with it. With ``rows``, reductions of rows are like elementwise ops.
    """
    may = _is_by_rows if rows else is_elementwise
    home: dict[fx.Node, fx.Node] = {}  # of an op: the one that it is part of

    def is_part(node: fx.Node) -> bool:
        return may(node) or node.target in _GATHERS or gathers(node)

    def has_part(user: fx.Node, node: fx.Node) -> bool:
        return (may(user) or is_loop(user) or _is_written_by_parts(user, node)) and not apart(node, user)

    for node in reversed(nodes):
        homes = {home.get(user, user) for user in node.users}
        fused = is_part(node) and all(has_part(user, node) for user in node.users)
        if fused and len(homes) == 1:
            [home[node]] = homes
    return {*home}


def is_elementwise(node: fx.Node) -> bool:
    """Whether each element of what an op makes is computed of one element of each that it reads, in any loop."""
    return is_loop(node) and IN_MEMORY not in node.meta


def is_loop(node: fx.Node) -> bool:
    """The same, but perhaps in a loop of its own, which writes the result."""
    if not isinstance(node.target, OpOverload):
        return False
    # torch's partitioner lists packets of aten alone, and all overloads of each
    named = node.target in _LOOPS or packet_of(node.target) in partitioners.pointwise_ops()
    return named or torch.Tag.pointwise in node.target.tags


def _is_written_by_parts(user: fx.Node, node: fx.Node) -> bool:
    """Whether an op puts each element of another somewhere, adds it there, or learns from it where to read."""
    if user.target == _aten.cat.default or is_index(node, user):
        return True
    return user.target in _SCATTERS and node is not user.args[0]


def _is_by_rows(node: fx.Node) -> bool:
    """Whether each row that an op makes is computed of one row of each that it reads; rows lie along the last axis."""
    if node.target not in _BY_ROWS:
        return is_elementwise(node)
    axes: Any = node.args[1] if len(node.args) > 1 else []
    source: Any = node.args[0]
    return [axis % source.meta["val"].ndim for axis in axes] == [source.meta["val"].ndim - 1]


def written_over(node: fx.Node, inside: Collection[fx.Node]) -> list[int]:
    """Storages that an elementwise op reads, with its parts, and may be written over: as large as its result.

    Nothing is written over gradients that backward is given.
    """
    if not is_loop(node):
        return []
    tangents = {s for given in tangents_of(node.graph) for s in storages(given)}
    made = [*storages(node).values()]
    read = {s: size for used in read_by(node, inside) for s, size in storages(used).items()}
    return [s for s, size in read.items() if [size] == made and s not in tangents]


def tangents_of(graph: fx.Graph) -> list[fx.Node]:
    """The gradients that backward is given."""
    return [node for node in graph.find_nodes(op="placeholder") if "tangents" in node.name]
