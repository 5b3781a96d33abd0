"""What ops cost: as the graph says, by the bytes that they touch, or by their floating-point operations.

Operations are counted for what takes most of them: products of matrices, convolutions and attention, by the shapes of
tensors. Every op counts the bytes that it touches too, one operation for each: no op is free but views.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import _core
from ..errors import SourceError
from .profile import profiled, seconds_to_move

COSTS = ("auto", "bytes", "flops", "profile")
_MOVE = 2.0  # for a byte: it is read and written

_Shapes = Sequence[Sequence[int]]


def costs_of(graph: _core.Graph, cost: str | Mapping[str, float]) -> list[float]:
    """The cost of each op.

    Parameters
    ----------
    graph : Graph
        Its ops.
    cost : str or mapping
        "bytes" that an op touches, or "flops" and bytes. "auto": what the graph says, else flops if it has shapes of
        such ops, else bytes. Or costs by the names of ops; the others cost nothing.
    """
    if isinstance(cost, Mapping):
        return _named(graph, cost)
    if cost not in COSTS[:-1]:
        raise ValueError(f"cost must be one of {', '.join(COSTS)}, or a mapping from ops, got {cost!r}")
    given = [op.cost for op in graph.ops]
    if cost == "auto" and any(value is not None for value in given):
        touched = _touched(graph)
        return [bytes if value is None else value for value, bytes in zip(given, touched, strict=True)]
    touched = _touched(graph)
    if cost == "bytes":
        return touched
    return [bytes + flops for bytes, flops in zip(touched, flops_of(graph), strict=True)]


def named_costs(
    graph: _core.Graph, cost: str | Mapping[str, float], source: Any, reading: Mapping[str, Any]
) -> dict[str, float]:
    """The cost of each op by its name; "profile" measures the network that `source` and `reading` say."""
    if cost == "profile":
        cost = profiled(source, reading)
    return dict(zip((op.name for op in graph.ops), costs_of(graph, cost), strict=True))


def moves(graph: _core.Graph, cost: str | Mapping[str, float], transfer: float | None, overlap: float) -> float:
    """The cost of a byte that is moved out of the arena, or fetched: what of it does not hide."""
    share = 1 - _number(overlap, "overlap", 1)
    if transfer is not None:
        return _number(transfer, "transfer", math.inf) * share
    if cost == "profile":
        return seconds_to_move() * share
    if not isinstance(cost, str) or (cost == "auto" and any(op.cost is not None for op in graph.ops)):
        raise ValueError("transfer must say what a byte costs, in the unit of the costs that are given, got None")
    return _MOVE * share


def _number(value: float, name: str, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a number, got {value!r}")
    if not 0 <= value <= most or value == math.inf:
        raise ValueError(f"{name} must be {'finite and >= 0' if most == math.inf else 'in [0, 1]'}, got {value!r}")
    return float(value)


def _named(graph: _core.Graph, cost: Mapping[str, float]) -> list[float]:
    names = {op.name for op in graph.ops}
    for name, value in cost.items():
        if name not in names:
            raise SourceError(f"cost names {name!r}, which is no op of the graph")
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
            raise ValueError(f"cost of {name!r} must be a finite number >= 0, got {value!r}")
    return [float(cost.get(op.name, 0.0)) for op in graph.ops]


def _touched(graph: _core.Graph) -> list[float]:
    """Bytes that each op reads and writes; none for a view, nor for an op without outputs that changes nothing."""
    size = {tensor.name: tensor.bytes for tensor in graph.tensors}
    costs = []
    for op in graph.ops:
        views = {output for output, *_ in op.aliases}
        fresh = [name for name in op.outputs if name not in views]
        touches = fresh or op.workspace or any(word.endswith("_") for word in op.type.split("."))
        costs.append(float(sum(size[name] for name in {*op.inputs, *fresh}) if touches else 0))
    return costs


def flops_of(graph: _core.Graph) -> list[float]:
    """Floating-point operations of each op, an addition and a multiplication being two; 0 where nothing is known."""
    shape = {tensor.name: tuple(tensor.shape or ()) for tensor in graph.tensors}
    found = []
    for op in graph.ops:
        rule = _RULES.get(op.type) or _RULES.get(".".join(op.type.split(".")[:2]))
        inputs, outputs = [shape[name] for name in op.inputs], [shape[name] for name in op.outputs]
        found.append(float(rule(inputs, outputs)) if rule is not None and inputs and outputs else 0.0)
    return found


def _product(matrices: int) -> Callable[[_Shapes, _Shapes], int]:
    """A product whose second matrix is input `matrices`: 2 m n k, where the first has m k elements for each batch."""

    def rule(inputs: _Shapes, outputs: _Shapes) -> int:
        if len(inputs) <= matrices or 0 in outputs[0] or not outputs[0]:
            return 0
        left, right, out = inputs[matrices - 1], inputs[matrices], outputs[0]
        if left:
            inner = math.prod(left) // (math.prod(out) // out[-1])
        else:  # an expanded matrix has no shape: its bytes do not have it
            inner = math.prod(right[-2:]) // out[-1]
        return 2 * math.prod(out) * inner

    return rule


def _convolution(inputs: _Shapes, outputs: _Shapes) -> int:
    return 2 * math.prod(outputs[0]) * math.prod(inputs[1][1:]) if len(inputs) > 1 else 0


def _convolution_backward(inputs: _Shapes, outputs: _Shapes) -> int:
    """Of the input, if it is asked for, and of the weight: each as many as forwards."""
    forwards = 2 * math.prod(inputs[0]) * math.prod(inputs[2][1:]) if len(inputs) > 2 else 0
    asked = sum(1 for shape in outputs if shape and tuple(shape) in (tuple(inputs[1]), tuple(inputs[2])))
    return forwards * asked


def _attention(inputs: _Shapes, outputs: _Shapes) -> int:
    if len(inputs) < 3 or any(len(shape) < 2 for shape in inputs[:3]):
        return 0
    query, key, value = inputs[:3]
    batch = math.prod(query[:-2])
    return 2 * batch * query[-2] * key[-2] * (query[-1] + value[-1])


_RULES: dict[str, Callable[[_Shapes, _Shapes], Any]] = {
    "aten.mm": _product(1),
    "aten.bmm": _product(1),
    "aten.addmm": _product(2),
    "aten.baddbmm": _product(2),
    "aten.convolution": _convolution,
    "aten._convolution": _convolution,
    "aten.convolution_backward": _convolution_backward,
    "aten._scaled_dot_product_flash_attention_for_cpu": _attention,
    "aten._scaled_dot_product_flash_attention": _attention,
    "aten._scaled_dot_product_efficient_attention": _attention,
    "aten.scaled_dot_product_attention": _attention,
    "MatMul": _product(1),
    "Gemm": _product(1),
    "Conv": _convolution,
    "ConvTranspose": _convolution_backward,
}
