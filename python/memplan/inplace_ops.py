"""Which operators may write their output over an input.

An operator is in the table if an element of its output depends, of every input that the table names, on the
element in the same place alone. A kernel may then write over such an input, provided that it reads an element
of it for the last time before it writes that element of the output:

    y[i] = f(x[i])             Relu, Exp, Cast to a dtype of the same width           over x
    y[i] = f(a[i], b[i])       Add, Mul, Where, a gelu's backward                     over a or over b
    y[i] = f(x[i], c)          Clip, Dropout, masked_fill                             over x
    y[i] = x[i], or others     ScatterND, index_copy, index_put, slice_scatter        over x

A permission is of one input, by its name. If the op reads the same bytes by another name, say as a transposed view, it
may not write over them, unless it is permitted for that name too: memplan sees to it wherever it knows of the views.

Not in the table, because whether it is safe is up to the kernel: Softmax, LayerNormalization, BatchNormalization
in training, reductions, cumulative sums (every element of the output reads a row, a channel or the whole input);
MatMul, Conv, pooling, Transpose, Gather (an element is read for many or for others); and copies, which need no
bytes of their own in the first place. A caller whose kernels allow more names these types (`inplace_ops`); a
caller whose kernels allow less (a Gelu in several passes, with its output as scratch) takes types out when
planning (`disable_inplace_ops`).

Types are those of `Op.type`: `Relu`, `com.microsoft.Gelu`, `aten.relu.default`. A name stands for itself and for
everything that it is the beginning of, up to a dot: `aten.relu` for `aten.relu.default`.
"""

from __future__ import annotations

import difflib
import enum
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from . import _core, frontend
from .ops import changed

T = TypeVar("T")


class _Over(enum.Enum):
    """The inputs that an output may be written over, as far as their sizes allow it."""

    FIRST = "the first: the others are parameters, are read by another pass, or are copied to other places"
    ANY = "each"
    PAIR = "each of two; of more the first: kernels add up the others pass by pass"


# ONNX, the standard domain

_ONNX_UNARY = """
    Abs Acos Acosh Asin Asinh Atan Atanh BitwiseNot Cast Ceil Cos Cosh Erf Exp Floor IsInf IsNaN Log Neg Not
    Reciprocal Round Sign Sin Sinh Sqrt Tan
"""
_ONNX_ACTIVATIONS = """
    Celu Elu Gelu HardSigmoid HardSwish LeakyRelu Mish Relu Selu Shrink Sigmoid Softplus Softsign Swish Tanh
    ThresholdedRelu
"""
_ONNX_BINARY = """
    Add And BitShift BitwiseAnd BitwiseOr BitwiseXor Div Equal Greater GreaterOrEqual Less LessOrEqual Mod Mul Or
    Pow PRelu Sub Xor
"""
_ONNX_TERNARY = "Where"
_ONNX_VARIADIC = "Max Mean Min Sum"
_ONNX_FIRST = "CastLike Clip Dropout"
_ONNX_SCATTERS = "Scatter ScatterElements ScatterND TensorScatter"

ONNX_ELEMENTWISE = frozenset(
    " ".join((_ONNX_UNARY, _ONNX_ACTIVATIONS, _ONNX_BINARY, _ONNX_TERNARY, _ONNX_VARIADIC, _ONNX_FIRST)).split()
)

# ONNX Runtime's own: activations, with a bias that is added first

_MICROSOFT_FIRST = "BiasGelu FastGelu Gelu QuickGelu"

# torch: operators of aten by name, and by name and overload where some of the overloads are something else

_ATEN_UNARY = """
    abs acos acosh asin asinh atan atanh bitwise_not ceil cos cosh deg2rad digamma erf erfc erfinv exp exp2 expm1
    floor frac isnan lgamma log log10 log1p log2 logical_not nan_to_num neg rad2deg reciprocal round rsqrt sgn sign
    signbit sin sinc sinh sqrt square tan trunc
"""
_ATEN_ACTIVATIONS = """
    celu elu gelu hardshrink hardsigmoid hardswish hardtanh leaky_relu logit mish relu relu6 selu sigmoid silu
    softplus softshrink tanh threshold
"""
_ATEN_BINARY = """
    add.Scalar add.Tensor atan2 bitwise_and.Scalar bitwise_and.Tensor bitwise_left_shift.Tensor
    bitwise_left_shift.Tensor_Scalar bitwise_or.Scalar bitwise_or.Tensor bitwise_right_shift.Tensor
    bitwise_right_shift.Tensor_Scalar bitwise_xor.Scalar bitwise_xor.Tensor copysign.Scalar copysign.Tensor
    div.Scalar div.Scalar_mode div.Tensor div.Tensor_mode eq.Scalar eq.Tensor floor_divide floor_divide.Scalar fmax
    fmin fmod.Scalar fmod.Tensor ge.Scalar ge.Tensor gt.Scalar gt.Tensor hypot le.Scalar le.Tensor logaddexp
    logaddexp2 logical_and logical_or logical_xor lt.Scalar lt.Tensor maximum minimum mul.Scalar mul.Tensor ne.Scalar
    ne.Tensor pow.Scalar pow.Tensor_Scalar pow.Tensor_Tensor remainder.Scalar remainder.Tensor rsub.Scalar
    rsub.Tensor sub.Scalar sub.Tensor xlogy.Tensor
"""
_ATEN_TERNARY = """
    _prelu_kernel addcdiv addcmul clamp clamp.Tensor clamp_max clamp_max.Tensor clamp_min clamp_min.Tensor
    lerp.Scalar lerp.Tensor where.ScalarOther where.ScalarSelf where.self
"""
_ATEN_BACKWARD = """
    elu_backward gelu_backward hardshrink_backward hardsigmoid_backward hardswish_backward hardtanh_backward
    leaky_relu_backward logit_backward mish_backward mse_loss_backward sigmoid_backward silu_backward
    smooth_l1_loss_backward softplus_backward softshrink_backward tanh_backward threshold_backward
"""
_ATEN_FIRST = "_to_copy dropout masked_fill.Scalar masked_fill.Tensor native_dropout native_dropout_backward"
_ATEN_SCATTERS = """
    _unsafe_index_put as_strided_scatter copy diagonal_scatter fill.Scalar fill.Tensor index_add index_copy
    index_fill.int_Scalar index_fill.int_Tensor index_put index_reduce masked_scatter put scatter.reduce scatter.src
    scatter.value scatter.value_reduce scatter_add scatter_reduce.two select_scatter slice_scatter
"""


def _aten(names: str) -> list[str]:
    return [f"aten.{name}" if "." in name else f"aten.{name}.default" for name in names.split()]


_TABLE: dict[str, _Over] = {
    **dict.fromkeys((_ONNX_UNARY + _ONNX_ACTIVATIONS + _ONNX_BINARY + _ONNX_TERNARY).split(), _Over.ANY),
    **dict.fromkeys(_ONNX_VARIADIC.split(), _Over.PAIR),
    **dict.fromkeys(_ONNX_FIRST.split(), _Over.FIRST),
    **dict.fromkeys((f"com.microsoft.{name}" for name in _MICROSOFT_FIRST.split()), _Over.FIRST),
    **dict.fromkeys(_aten(_ATEN_UNARY + _ATEN_ACTIVATIONS + _ATEN_BINARY + _ATEN_TERNARY + _ATEN_BACKWARD), _Over.ANY),
    **dict.fromkeys(_aten(_ATEN_FIRST), _Over.FIRST),
    **dict.fromkeys([*_ONNX_SCATTERS.split(), *_aten(_ATEN_SCATTERS)], _Over.FIRST),
}

INPLACE_OPS: frozenset[str] = frozenset(_TABLE)
"""Types of ops that may write their output over an input; the ONNX and torch importers apply them by themselves."""


def reusable(type: str, inputs: Sequence[T], more: Collection[str] = ()) -> Sequence[T]:
    """Those of an op's inputs that its kind allows the first output to be written over: all, the first, or none.

    Inputs are in the order of the operator's parameters. `more` are types that allow each of their inputs, besides
    those of the table. Sizes are not looked at, nor whether one of them is among the others too: see `permitted`.
    """
    over = _TABLE.get(type)
    if over is None:
        return inputs if matches(type, more) else ()
    if over in (_Over.FIRST, _Over.FIRST) or (over is _Over.PAIR and len(inputs) > 2):
        return inputs[:1]
    return inputs


def permitted(type: str, names: Sequence[str], more: Collection[str] = ()) -> list[str]:
    """The names of inputs that an op's first output may be written over, each once; see `reusable`.

    What the op reads a second time, as an operand that may not be written over, is not among them.
    """
    over = reusable(type, names, more)
    return [name for name in dict.fromkeys(over) if name and names.count(name) == over.count(name)]


def matches(type: str, names: Collection[str]) -> bool:
    """Whether a type, or its beginning up to a dot, is among the names."""
    return bool(names) and any(beginning in names for beginning in _beginnings(type))


def _beginnings(type: str) -> list[str]:
    """A type, and its beginnings up to each dot: "aten.add.Tensor", "aten.add", "aten"."""
    parts = type.split(".")
    return [".".join(parts[:count]) for count in range(len(parts), 0, -1)]


def checked(inplace_ops: Any) -> frozenset[str]:
    """The types as a set; TypeError if they are not a collection of strings."""
    expected = f"inplace_ops must be a collection of types of ops, such as ['Softmax'], got {inplace_ops!r}"
    if isinstance(inplace_ops, (str, Mapping)) or not isinstance(inplace_ops, Iterable):
        raise TypeError(expected)
    types = frozenset(inplace_ops)
    if not all(isinstance(type, str) for type in types):
        raise TypeError(expected)
    return types


def check_types(graph: _core.Graph, types: Collection[str], option: str) -> None:
    """Refuse types of ops that look like misspelt types of a graph.

    Others that the graph does not have may be meant for other graphs, so they pass.

    ValueError: one is no type of the graph, of `INPLACE_OPS` or of an installed framework, but is spelt like a type of
    the graph.
    """
    if not types:
        return
    own = {op.type for op in graph.ops}
    known = {beginning for type in own | INPLACE_OPS for beginning in _beginnings(type)}
    for type in types:
        near = None if type in known else _spelt_alike(type, own)
        if near is not None and not _is_operator(type):
            raise ValueError(f"{option} names {type!r}, which no op of the graph is of; there is {near!r}")


def _spelt_alike(type: str, types: Collection[str]) -> str | None:
    """The type that another may stand for: in small letters, by a part of its name, or with a slip."""
    low = {other.lower(): other for other in sorted(types)}
    for other, spelt in low.items():
        if type.lower() in (other, *other.split(".")):
            return spelt
    return next((low[other] for other in difflib.get_close_matches(type.lower(), low, n=1, cutoff=0.75)), None)


def _is_operator(type: str) -> bool:
    """Whether an installed framework has an operator of this name."""
    return any(wing.has_op(type) for wing in frontend.wings() if wing.has_op is not None)


def with_inplace(graph: _core.Graph, types: Collection[str]) -> _core.Graph:
    """A graph in which ops of these types may write their first output over an input of as many bytes.

    That is all that is looked at: a graph does not hold how tensors lie in their bytes. An op that has `inplace`
    of its own keeps it as it is. An output that an alias or overwrite places is left alone, and so is a workspace.
    """
    bytes_of = {tensor.name: tensor.bytes for tensor in graph.tensors if tensor.kind != "workspace"}
    ops = [_with_inplace(op, types, bytes_of) for op in graph.ops]
    return _core.Graph(graph.tensors, ops, graph.outputs, graph.layout)


def _with_inplace(op: _core.Op, types: Collection[str], bytes_of: dict[str, int]) -> _core.Op:
    if op.inplace or not op.outputs or not matches(op.type, types):
        return op
    output = op.outputs[0]
    placed = {view[0] for view in (*op.aliases, *op.overwrites)}
    if output in placed or not bytes_of.get(output):
        return op
    names = permitted(op.type, op.inputs, types)
    inplace = [(output, name, 0) for name in names if bytes_of.get(name) == bytes_of[output]]
    return changed(op, inplace=inplace)
