"""What is linear in the gradient that backward is given for a scalar: forward may compute it, for 1 in its place.

    loss.backward() gives the scalar t                    forward: g = f(1)         backward: t * g
    backward computes f(t), with f(t) = t * f(1)

Each rule says in which arguments an operator is linear. What has no rule is not linear.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import Tensor, fx

from ..private import OpOverload, schema_of
from ..reading.effects import flat_tensors

_aten, _prims = torch.ops.aten, torch.ops.prims
# Linear in the first argument, whatever the others are; empty tensors hold nothing that counts
_FIRST = """
    _adaptive_avg_pool2d_backward _adaptive_avg_pool3d_backward _log_softmax_backward_data _reshape_alias
    _scaled_dot_product_flash_attention_for_cpu_backward _softmax_backward_data _to_copy _unsafe_index _unsafe_view
    adaptive_max_pool2d_backward adaptive_max_pool3d_backward alias avg_pool2d_backward avg_pool3d_backward clone
    convert_element_type convolution_backward cumsum div elu_backward embedding_dense_backward empty_like expand flip
    gather gelu_backward hardsigmoid_backward hardswish_backward hardtanh_backward index index_select
    leaky_relu_backward max_pool2d_with_indices_backward max_pool3d_with_indices_backward mean mish_backward
    native_group_norm_backward native_layer_norm_backward neg new_empty new_empty_strided new_zeros
    nll_loss2d_backward nll_loss_backward permute rev roll select select_backward sigmoid_backward silu_backward slice
    slice_backward softplus_backward squeeze sum t tanh_backward threshold_backward transpose unsqueeze
    upsample_bilinear2d_backward upsample_linear1d_backward upsample_nearest1d_backward upsample_nearest2d_backward
    upsample_nearest3d_backward upsample_trilinear3d_backward view zeros_like
"""
_ONE = {"bmm", "mm", "mul"}  # linear in one argument if that alone depends on the tangent
_PUT = {"index_put", "_unsafe_index_put"}  # linear in the values, with what these are written into
_INTO = {"select_scatter", "slice_scatter"}  # linear in what is written, with what it is written into
_ALL = {"add", "cat", "sub"}  # linear in all tensors together
_AS_SMALL = {torch.bfloat16, torch.float32, torch.float64}  # these hold numbers as small as float32 does


def linear_in(graph: fx.Graph) -> dict[fx.Node, fx.Node | None]:
    """The nodes that depend on tangents, each with the scalar that it is linear in; None: in none."""
    found: dict[fx.Node, fx.Node | None] = {}
    for node in graph.nodes:
        if node.op == "placeholder":
            if "tangents" in str(node.target):
                value = node.meta.get("val")
                found[node] = node if isinstance(value, Tensor) and value.numel() == 1 else None
        elif node.op == "call_function":
            given = [used for used in node.all_input_nodes if used in found]
            if given:
                found[node] = _tangent_of(node, given, found)
    return found


def _tangent_of(node: fx.Node, given: Collection[fx.Node], found: Mapping[fx.Node, fx.Node | None]) -> fx.Node | None:
    tangents = {found[used] for used in given}
    if len(tangents) != 1 or not _is_linear(node, set(given)):
        return None
    if any(tensor.dtype not in _AS_SMALL for tensor in flat_tensors(node.meta.get("val"))):
        return None  # losses are scaled, as gradients for 1 would be too small; integers are rounded
    return tangents.pop()


def _is_linear(node: fx.Node, given: Collection[fx.Node]) -> bool:
    if node.target is operator.getitem:
        return True
    if not isinstance(node.target, OpOverload) or node.target.namespace not in ("aten", "prims"):
        return False
    name, args = schema_of(node.target).name.partition("::")[2], node.args
    depends = [any(used in given for used in _nodes(arg)) for arg in args]
    if node.kwargs.get("rounding_mode") or any(used in given for arg in node.kwargs.values() for used in _nodes(arg)):
        return False
    if name in _FIRST.split():
        return depends[0] and not any(depends[1:])
    if name in _ONE:
        return sum(depends) == 1
    if name in _ALL:
        parts = list(_nodes(args[0])) if name == "cat" else args[:2]
        return all(part in given for part in parts)
    if name == "fma":  # a * b + c
        return sum(depends[:2]) == 1 and (depends[2] or _is_zero(args[2]))
    if name == "where":
        return not depends[0] and all(part in given or _is_zero(part) for part in args[1:])
    if name == "copy":
        return depends[1]
    if name in _INTO:
        return depends[1] and (depends[0] or _is_zero(args[0]))
    if name == "_unsafe_masked_index_put_accumulate":
        return depends[3] and not any(depends[1:3]) and (depends[0] or _is_zero(args[0]))
    if name in _PUT:
        return depends[2] and not depends[1] and (depends[0] or _is_zero(args[0]))
    if name == "constant_pad_nd":
        return depends[0] and (len(args) < 3 or _is_zero(args[2]))
    return False


def _nodes(arg: Any) -> list[fx.Node]:
    if isinstance(arg, fx.Node):
        return [arg]
    return [one for one in arg if isinstance(one, fx.Node)] if isinstance(arg, (list, tuple)) else []


def _is_zero(arg: Any) -> bool:
    if not isinstance(arg, fx.Node):
        return bool(arg == 0)
    if arg.target in (_aten.full.default, _aten.new_zeros.default, _aten.zeros.default):
        return arg.target is not _aten.full.default or bool(arg.args[1] == 0)
    return arg.target is _aten.scalar_tensor.default and bool(arg.args[0] == 0)


def move_to_forward(
    graph: fx.Graph, nodes: Collection[fx.Node], linear: Mapping[fx.Node, fx.Node | None]
) -> list[fx.Node]:
    """Compute nodes, which are linear in one tangent, for 1 in its place; what reads them from outside gets a multiple.

    What leads from the tangent to them is computed again for 1. The nodes that are read from outside, or returned.
    """
    order = {node: k for k, node in enumerate(graph.nodes)}
    [tangent] = {linear[node] for node in nodes}
    assert tangent is not None
    above: set[fx.Node] = set()
    waiting = [used for node in nodes for used in node.all_input_nodes]
    while waiting:
        node = waiting.pop()
        if node in linear and node not in nodes and node not in above:
            above.add(node)
            waiting += node.all_input_nodes
    copies: dict[fx.Node, fx.Node] = {}
    value = tangent.meta["val"]
    for node in sorted(above, key=order.__getitem__):
        if node is tangent:
            with graph.inserting_after(tangent):
                how = {"dtype": value.dtype, "device": value.device}
                made = graph.call_function(_aten.full.default, (list(value.shape), 1), how)
        else:
            with graph.inserting_after(node):
                made = graph.node_copy(node, lambda used: copies.get(used, used))
        made.meta = {**node.meta}
        copies[node] = made
    for node in nodes:
        for used in list(node.all_input_nodes):
            if used in copies:
                node.replace_input_with(used, copies[used])
    factor = tangent
    if value.ndim:  # of one number: it would add axes
        with graph.inserting_after(tangent):
            factor = graph.call_function(_aten.view.default, (tangent, []))
        factor.meta = {"val": value.view([])}
    left = []
    for node in sorted(nodes, key=order.__getitem__):
        outside = [user for user in node.users if user not in nodes]
        if not outside:
            continue
        left.append(node)
        with graph.inserting_before(min(outside, key=lambda user: order.get(user, len(order)))):
            scaled = graph.call_function(_aten.mul.Tensor, (node, factor))
        scaled.meta = {"val": node.meta["val"]}
        for user in outside:
            user.replace_input_with(node, scaled)
    return left
