"""What a step of compiled code holds whatever forward saves: a bound that needs no search, and what stands in the way.

Inductor fuses most ops, so that their results may never be in memory. Some kernels it only calls: matrix products,
convolutions, attention. Such a kernel needs all that it reads and makes at once. What it reads was made in memory. If a
loop made it of gradients that backward is given, both were there, for nothing is written over these. If an op follows
gradients, forward has run, and the caller holds what forward returned. When backward begins, all gradients that it is
given are held too, and when it ends, all that it makes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from ... import sizes
from ..private import OpOverload, packet_of
from ..private_compiler import PlainAOTOutput, inductor_config, partitioners, post_grad
from ..reading.effects import flat_tensors
from .held_by_purpose import in_words
from .step_load import hint, storages, tangents_of, total_of

_aten = torch.ops.aten
_PRODUCTS = {_aten.mm.default, _aten.addmm.default, _aten.bmm.default, _aten.baddbmm.default}
_CONVOLUTIONS = {_aten.convolution.default, _aten.convolution_backward.default}
_ATTENTION = "_scaled_dot_product"
_NAMED = 4  # tensors

Sizes = dict[int, int]  # bytes of storages


@dataclass(frozen=True)
class Floor:
    """The bytes that a step holds at least, and where, in words."""

    total: int = 0
    where: str = ""


NONE = Floor()


def floor_of(joint: fx.Graph, *, whole: bool = True) -> Floor:
    """The floor of a joint graph, as a budget counts: without weights, inputs of the network and states.

    No op is in the graph twice. If ops may run in pieces, which is not `whole`, only where backward begins and ends
    counts.
    """
    results: Any = joint.output_node().args[0]
    said = joint.output_node().meta.get("desc") or [None] * len(results)
    outputs = [(node, what) for node, what in zip(results, said, strict=True) if isinstance(node, fx.Node)]
    first = [node for node, what in outputs if isinstance(what, PlainAOTOutput)]  # the caller of forward gets these
    given, tangents = joint.find_nodes(op="placeholder"), tangents_of(joint)
    outside = {s for node in given if node not in tangents for s in storages(node)}
    backward, computed = _after(joint, tangents), _after(joint, given)
    source = _sources(joint)
    maker = {s: node for node in reversed(joint.nodes) for s in storages(node)}

    def bytes_of(nodes: Iterable[fx.Node]) -> Sizes:
        """Of what they make or show: no more than is shown, for Inductor may make that part alone."""
        found: Sizes = {}
        for node in nodes:
            shown = sum(hint(tensor.numel()) * tensor.element_size() for tensor in flat_tensors(node.meta.get("val")))
            for storage, size in storages(node).items():
                place = source.get(storage, storage)
                if storage not in outside and place not in outside and node in computed:
                    found[place] = max(found.get(place, 0), min(size, shown))
        return found

    kept = bytes_of(first)
    gradients = bytes_of(node for node, _ in outputs if node in backward)
    summed = sum(size for place, size in gradients.items() if place not in kept)
    best = Floor(sum(kept.values()) + summed, _said("the end of the backward pass", kept, maker, summed))
    begin = {**bytes_of(node for node in tangents if node.users), **kept}
    if sum(begin.values()) > best.total:
        best = Floor(sum(begin.values()), _said("the beginning of the backward pass", begin, maker))
    if not whole:
        return best
    called = dict.fromkeys(node for node in joint.nodes if _is_called(node))
    read = bytes_of(used for node in called for used in node.all_input_nodes)
    loops = {*partitioners.pointwise_ops()}
    for node in joint.nodes:
        if node in called:
            under = total_of(node)
            need = bytes_of([*(used for used in node.all_input_nodes if used is not under), *_results(node)])
        elif packet_of(node.target) in loops:
            made = {place: read[place] for place in bytes_of([node]).keys() & read.keys()}
            need = {**made, **bytes_of(used for used in node.all_input_nodes if made and used in tangents)}
        else:
            continue
        if node in backward:
            need = {**need, **{place: max(size, need.get(place, 0)) for place, size in kept.items()}}
        total = sum(need.values())
        if total > best.total:
            best = Floor(total, _said(in_words(node), need, maker))
    return best


def _is_called(node: fx.Node) -> bool:
    """Whether Inductor calls a kernel of torch for a node, with whole tensors. Products of vectors it may fuse."""
    if node.target in _PRODUCTS:
        tuned = inductor_config.max_autotune or inductor_config.max_autotune_gemm  # templates, which Inductor fuses
        factors = [used.meta["val"] for used in node.args[-2:] if isinstance(used, fx.Node)]
        return not tuned and all(hint(side) > 1 for factor in factors for side in factor.shape[-2:])
    named = isinstance(node.target, OpOverload) and packet_of(node.target).__name__.startswith(_ATTENTION)
    return named or node.target in _CONVOLUTIONS


def _results(node: fx.Node) -> list[fx.Node]:
    """What is used of what a node makes."""
    several = isinstance(node.meta["val"], (list, tuple))
    return [part for part in node.users if part.users] if several else [node]


def _after(joint: fx.Graph, nodes: Collection[fx.Node]) -> set[fx.Node]:
    """Nodes, and all that depend on them."""
    found = set(nodes)
    for node in joint.nodes:
        if any(used in found for used in node.all_input_nodes):
            found.add(node)
    return found


def _sources(joint: fx.Graph) -> Sizes:
    """Of a storage that is a copy of another: that one. Inductor may leave the copy out."""
    found: Sizes = {}
    for node in joint.nodes:
        if node.target not in post_grad.noop_registry:
            continue
        _, place = post_grad.noop_registry[node.target]
        copied = place(node.args) if callable(place) else node.args[place]
        if isinstance(copied, fx.Node) and post_grad.same_meta(node, copied):
            for made, storage in zip(storages(node), storages(copied), strict=True):
                found[made] = found.get(storage, storage)
    return found


def _said(where: str, need: Sizes, maker: dict[int, fx.Node], gradients: int = 0) -> str:
    largest = sorted(need, key=lambda place: -need[place])[:_NAMED]
    parts = [f"{sizes.format_bytes(gradients)} of gradients"] if gradients else []
    parts += [f"{sizes.format_bytes(need[place])} of {in_words(maker[place])}" for place in largest]
    return f"{where} needs {', '.join(parts)}"
