"""Ops that torch decomposes into gathers by indices: enlarging by nearest neighbours, and borders that are reflected.

Which rows a gather reads, the indices alone say. So while a graph is looked at for pieces, these ops are whole, and
those that no piece is made of are decomposed afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, fx
from torch.fx.node import map_arg

from ..private import disable_current_modes
from ..private_compiler import detect_fake_mode, select_decomp_table
from ..running.pieces.inlining import Inlining
from .pooling import gathering

_aten = torch.ops.aten
_REFLECTED = {_aten.reflection_pad1d.default, _aten.reflection_pad2d.default, _aten.reflection_pad3d.default}
_NEAREST = {
    1: _aten.upsample_nearest1d.default,
    2: _aten.upsample_nearest2d.default,
    3: _aten.upsample_nearest3d.default,
}
_WHOLE = {*_REFLECTED, *_NEAREST.values()}


def with_borders() -> dict[Any, Callable[..., Any]]:
    """How ops are decomposed where some are to run in pieces."""
    return {op: how for op, how in gathering().items() if op not in _REFLECTED}


def enlarge(graph: fx.Graph) -> None:
    """Have ops that enlarge by nearest neighbours in place of gathers by such indices."""
    known: dict[fx.Node, Any] = {}
    for node in graph.find_nodes(op="call_function", target=_aten._unsafe_index.Tensor):
        x, indices = node.args[0], list(node.args[1])
        sides = x.meta["val"].shape[2:]
        if len(sides) not in _NEAREST or indices[:2] != [None, None] or None in indices[2:]:
            continue
        sizes = list(node.meta["val"].shape[2:])
        if len(indices) != 2 + len(sides):
            continue
        with disable_current_modes(), torch.no_grad():  # indices have bytes
            pairs = enumerate(zip(indices[2:], sides, strict=True))
            if not all(_is_nearest(_value(index, known), axis, side, sizes) for axis, (index, side) in pairs):
                continue
        with graph.inserting_before(node):
            enlarged = graph.call_function(_NEAREST[len(sides)], (x, sizes))
        enlarged.meta = {**node.meta}
        node.replace_all_uses_with(enlarged)
    graph.eliminate_dead_code()


def decompose(module: fx.GraphModule) -> None:
    """Write such ops as Inductor knows them."""
    graph = module.graph
    wanted = [node for node in graph.nodes if node.op == "call_function" and node.target in _WHOLE]
    if not wanted:
        return
    fake = detect_fake_mode([node.meta["val"] for node in wanted]) or nullcontext()

    def emit(target: Any, args: Any, kwargs: Any) -> fx.Node:
        made = graph.call_function(target, args, kwargs)
        with fake:
            made.meta["val"] = target(*map_arg(args, _tensor), **map_arg(kwargs, _tensor))
        return made

    inlining = Inlining(fake, emit, _tensor, _no_constant, select_decomp_table())
    for node in wanted:
        with graph.inserting_before(node):
            [result] = inlining.write(node.target, node.args, node.kwargs)
        assert result is not None
        node.replace_all_uses_with(result.node)
        graph.erase_node(node)


def _is_nearest(index: Tensor | None, axis: int, side: int, sizes: list[int]) -> bool:
    """Whether an index takes what the kernel takes."""
    size = sizes[axis]
    if index is None or index.numel() != size or index.dim() != len(sizes) - axis or index.shape[0] != size:
        return False
    taken = torch.nn.functional.interpolate(torch.arange(side, dtype=torch.float64).view(1, 1, side), size)
    return torch.equal(index.reshape(-1).cpu(), taken.view(-1).to(torch.int64))


def _value(node: fx.Node, known: dict[fx.Node, Any]) -> Any:
    """What a node gives that is computed of no input, and of no random numbers; None for others."""
    if node not in known:
        known[node] = None
        seeded = torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()) or "inductor" in str(node.target)
        if (
            node.op == "call_function"
            and not seeded
            and all(_value(one, known) is not None for one in node.all_input_nodes)
        ):
            known[node] = node.target(*map_arg(node.args, known.__getitem__), **node.kwargs)  # type: ignore[operator]
    return known[node]


def _tensor(node: fx.Node) -> Any:
    return node.meta["val"]


def _no_constant(value: Tensor) -> fx.Node:
    raise NotImplementedError  # no such op has one
