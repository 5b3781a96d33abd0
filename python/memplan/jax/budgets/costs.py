"""Operations: of an equation before it is compiled, and of what XLA has compiled."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from ..reading.shapes import Shape
from ..reading.text import Computation, Instruction, Module, names_in, parse

_MOVES = {
    *("reshape", "broadcast_in_dim", "transpose", "squeeze", "expand_dims", "convert_element_type", "slice", "name"),
    *("concatenate", "pad", "rev", "copy", "copy_p", "stop_gradient", "bitcast_convert_type", "iota"),
}
_FREE = {  # instructions that XLA counts as none
    *("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "bitcast-convert", "copy", "reshape"),
    *("broadcast", "transpose", "slice", "concatenate", "pad", "reverse", "iota", "convert", "dynamic-slice"),
    *("dynamic-update-slice", "gather", "opt-barrier", "after-all", "copy-start", "copy-done", "custom-call"),
    *("exponential", "exponential-minus-one", "log", "log-plus-one", "logistic", "power", "sine", "cosine", "tan"),
    *("tanh", "sqrt", "rsqrt", "cbrt", "atan2", "erf"),
}
_CALLED = ("calls", "to_apply", "body", "branch_computations", "true_computation", "false_computation")
_TRIPS = re.compile(r'"known_trip_count"\s*:\s*\{\s*"n"\s*:\s*"?(\d+)')


def of_equation(eqn: Any) -> float:
    """Operations of an equation of a jaxpr. A `while` counts once, of branches the dearest."""
    name, params = eqn.primitive.name, eqn.params
    made = sum(getattr(variable.aval, "size", 0) for variable in eqn.outvars)
    if name == "dot_general":
        ((contracted, _), _) = params["dimension_numbers"]
        return float(2 * made * math.prod(eqn.invars[0].aval.shape[axis] for axis in contracted))
    if name == "conv_general_dilated":
        kernel = eqn.invars[1].aval.shape
        return float(2 * made * math.prod(kernel) / max(1, kernel[params["dimension_numbers"].rhs_spec[0]]))
    inside = [sum(of_equation(each) for each in jaxpr.eqns) for jaxpr in _inside(params)]
    if inside:
        return float(params.get("length", 1) * (max(inside) if name == "cond" else sum(inside)))
    if name in _MOVES:
        return 0.0
    if name in ("threefry2x32", "random_bits"):
        return 100.0 * made
    if name.startswith(("reduce", "arg", "cum", "sort", "top_k", "scatter")):
        return float(sum(getattr(variable.aval, "size", 0) for variable in eqn.invars))
    return float(made)


def _inside(params: dict[str, Any]) -> Iterator[Any]:
    """The jaxprs that an equation runs."""
    for value in params.values():
        for each in value if isinstance(value, (tuple, list)) else (value,):
            jaxpr = getattr(each, "jaxpr", each)
            if hasattr(jaxpr, "eqns"):
                yield jaxpr


def of_compiled(compiled: Any) -> float:
    """Operations as XLA counts them, but bodies of loops as often as they run, where XLA knows that."""
    costs = compiled.cost_analysis() or {}
    counted = float(costs.get("flops", 0.0))
    text = compiled.as_text() or ""
    if "known_trip_count" not in text:
        return counted
    module = parse(text, "what XLA has compiled")
    entry = module.computations[module.entry]
    return counted + _of(module, entry, loops=True) - _of(module, entry, loops=False)


def _of(module: Module, computation: Computation, *, loops: bool) -> float:
    """Operations of a computation; bodies of loops count as often as they run, or once."""
    total = 0.0
    for one in computation.instructions.values():
        called = [name for key in _CALLED for name in names_in(one.attributes.get(key, ""))]
        if one.opcode in ("while", "fusion", "call", "conditional"):
            each = [_of(module, module.computations[name], loops=loops) for name in called]
            inside = max(each, default=0.0) if one.opcode == "conditional" else sum(each)
            trips = _TRIPS.search(one.attributes.get("backend_config", "")) if loops else None
            total += inside * (int(trips[1]) if trips else 1)
        else:
            total += _single(computation, one)
    return total


def _single(computation: Computation, one: Instruction) -> float:
    made = _size(one.shape)
    if one.opcode == "dot":
        left = computation.instructions[one.operands[0]].shape.dims
        contracted = re.findall(r"\d+", one.attributes.get("lhs_contracting_dims", ""))
        return 2.0 * made * math.prod(left[int(axis)] for axis in contracted)
    if one.opcode == "convolution":
        kernel = computation.instructions[one.operands[1]].shape.dims
        form = one.attributes.get("dim_labels", "").partition("_")[2].partition("->")[0]
        return 2.0 * made * math.prod(kernel) / max(1, kernel[form.index("o")] if "o" in form else 1)
    if one.opcode in ("reduce", "reduce-window", "scatter"):
        return float(_size(computation.instructions[one.operands[0]].shape))
    return 0.0 if one.opcode in _FREE else float(made)


def _size(shape: Shape) -> int:
    return sum(math.prod(leaf.dims) for leaf in shape.leaves())
