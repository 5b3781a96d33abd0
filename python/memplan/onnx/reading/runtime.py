"""Single nodes for ONNX Runtime, and the shapes of what its own operators write, as it infers them.

A file that ONNX Runtime has optimised holds operators that onnx does not know (FusedConv, SkipLayerNormalization). A
model of one such node, without payload, is loaded and asked for the types of its outputs; nothing is run.
"""

from __future__ import annotations

import re
from typing import Any

import onnx.helper
from onnx import ModelProto, NodeProto, TensorProto, TypeProto

from ...errors import MissingDependencyError

_IN_ONNX_DOMAIN = frozenset({"SimplifiedLayerNormalization", "SkipSimplifiedLayerNormalization"})
_DTYPES = {
    **{name.lower(): number for name, number in TensorProto.DataType.items()},
    "float8e4m3fn": TensorProto.FLOAT8E4M3FN,
    "float8e5m2": TensorProto.FLOAT8E5M2,
}


def is_its_own(node: NodeProto) -> bool:
    """Whether a node's operator is one that ONNX Runtime adds to those of onnx."""
    return str(node.domain).startswith("com.microsoft") or (not node.domain and node.op_type in _IN_ONNX_DOMAIN)


def remedy(node: NodeProto) -> str:
    """How a model with a node of an operator of ONNX Runtime may be imported after all: the end of a message."""
    operator = f"{node.domain}.{node.op_type}".removeprefix(".")
    if _installed() is None:
        problem, advice = "which tells its shapes where it is installed", "pip install 'memplan[onnxruntime]', or "
    else:
        problem, advice = "which does not tell its shapes", ""
    before = "import the model as it was before ONNX Runtime optimised it"
    return f"{operator} is an operator of ONNX Runtime, {problem}: {advice}{before}"


def infer(single: ModelProto) -> dict[str, TypeProto]:
    """The types of the outputs of a model of one node, as far as they are tensors of known shape."""
    if _installed() is None:
        return {}
    try:
        outputs = session(single).get_outputs()
    except Exception:  # its errors share no type; the importer says which node's shape is not known
        return {}
    found = {output.name: _type(output) for output in outputs}
    return {name: value for name, value in found.items() if value is not None}


def session(single: ModelProto) -> Any:
    """A session of ONNX Runtime for a model of one node."""
    runtime = required()
    model = ModelProto()
    model.CopyFrom(single)
    model.ir_version = min(model.ir_version, 10)
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def required(who: str = "it") -> Any:
    """ONNX Runtime; MissingDependencyError if it is not installed."""
    if (runtime := _installed()) is None:
        raise MissingDependencyError(f"{who} needs ONNX Runtime: pip install 'memplan[onnxruntime]'")
    return runtime


def _installed() -> Any:
    try:
        import onnxruntime
    except ImportError:
        return None
    return onnxruntime


def _type(output: Any) -> TypeProto | None:
    """The type of a session's output; None if it is no tensor, or not all of its dimensions are known."""
    kind = re.fullmatch(r"tensor\((\w+)\)", output.type)
    if kind is None or kind[1] not in _DTYPES or not all(isinstance(size, int) for size in output.shape):
        return None
    found: TypeProto = onnx.helper.make_tensor_type_proto(_DTYPES[kind[1]], output.shape)
    return found
