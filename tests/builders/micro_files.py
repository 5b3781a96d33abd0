"""Models of one drawn operator for TFLite Micro, whose tensors lie at given offsets, and runs of them."""

from __future__ import annotations

import math
import runpy
import struct
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import flatbuffers
import numpy as np

from builders.micro_tracing import BYTES, Traced
from builders.paths import DATA
from oracles.micro_kernels import Case

OPTIONS = {
    **{"CONV_2D": "Conv2D", "DEPTHWISE_CONV_2D": "DepthwiseConv2D", "FULLY_CONNECTED": "FullyConnected"},
    **dict.fromkeys(("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"), "Pool2D"),
    **{"RESIZE_BILINEAR": "ResizeBilinear", "RESIZE_NEAREST_NEIGHBOR": "ResizeNearestNeighbor"},
    **{"CONCATENATION": "Concatenation", "STRIDED_SLICE": "StridedSlice", "SOFTMAX": "Softmax", "ADD": "Add"},
    **{"SUB": "Sub", "MUL": "Mul", "DIV": "Div", "LEAKY_RELU": "LeakyRelu"},
}
_WEIGHTED = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")
_RESULTS = {  # scale and zero point of the output, where the kernel asks for these
    **{("SOFTMAX", "int8"): (1 / 256, -128), ("LOGISTIC", "int8"): (1 / 256, -128), ("TANH", "int8"): (1 / 128, 0)},
    **{(kind, "int16"): (1 / 32768, 0) for kind in ("SOFTMAX", "LOGISTIC", "TANH")},
    ("SOFTMAX", "int8 to int16"): (1 / 65536, -32768),
}


@cache
def make() -> dict[str, Any]:
    return runpy.run_path(str(DATA / "tflite" / "make.py"))


def model_of(case: Case, offsets: Mapping[int, int], chance: Any) -> bytes:
    """`offsets` are those of the inputs by position, and of the output at -1; others are constants, drawn here."""
    schema, net = make()["schema"], make()["Builder"]()
    dtypes, constants = list(case.dtypes), dict(case.constants)
    if case.kind.startswith("RESIZE"):
        constants[1] = np.array(case.made[1:3])
    if case.kind in _WEIGHTED:
        dtypes[2] = {"float32": "float32", "int8": "int32", "int16": "int64"}[dtypes[0]]
    inputs, again = [], case.kind == "QUANTIZE"
    for k, (shape, dtype) in enumerate(zip(case.inputs, dtypes, strict=True)):
        data = (
            None
            if k in offsets
            else constants[k].astype(np.int32)
            if k in constants
            else drawn(case.kind, dtype, shape, chance)
        )
        inputs.append(net.tensor(f"x{k}", *shape, data=data, kind=dtype.upper()))
        channels = case.made[-1] if case.kind in _WEIGHTED[:2] and k == 1 else 1
        axis = 3 if case.kind == "DEPTHWISE_CONV_2D" and k == 1 else 0
        quantize(net, inputs[-1], dtype, [scale_of(case, k)] * channels, axis, requantized=again)
    if case.kind == "PADV2":
        inputs.append(net.tensor("value", 1, data=drawn(case.kind, dtypes[0], [1], chance), kind=dtypes[0].upper()))
        quantize(net, inputs[-1], dtypes[0], [0.5])
    options = getattr(schema, f"{OPTIONS[case.kind]}OptionsT")() if case.kind in OPTIONS else None
    for name, value in case.options.items():
        setattr(options, name[0].lower() + name[1:], value)
    if case.kind == "SOFTMAX":
        options.beta = 1.0
    y = net.op(case.kind, inputs, "y", *case.made, options=options)
    net.graph.tensors[y].type = getattr(schema.TensorType, case.made_dtype.upper())
    mixed = " to ".join(dict.fromkeys((dtypes[0], case.made_dtype)))
    scale, zero = _RESULTS.get((case.kind, mixed), (32.0 if case.kind in _WEIGHTED else 0.5, 0))
    quantize(net, y, case.made_dtype, [scale], zero=zero, requantized=again)
    net.graph.inputs, net.graph.outputs = [inputs[k] for k in sorted(offsets) if k >= 0], [y]
    places = {inputs[k] if k >= 0 else y: at for k, at in offsets.items()}
    return placed(net, places)


def placed(net: Any, places: Mapping[int, int]) -> bytes:
    """The model of a builder; tensors lie at these offsets, by position, and TFLite Micro places the others."""
    schema, tensors = make()["schema"], len(net.graph.tensors)
    entry = schema.MetadataT()
    entry.name, entry.buffer = "OfflineMemoryAllocation", len(net.model.buffers)
    net.model.metadata = [entry]
    net.model.buffers.append(schema.BufferT())
    data = struct.pack(f"<{3 + tensors}i", 1, 0, tensors, *(places.get(t, -1) for t in range(tensors)))
    net.model.buffers[-1].data = np.frombuffer(data, np.uint8)
    builder = flatbuffers.Builder(1024)
    builder.Finish(net.model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def scale_of(case: Case, position: int) -> float:
    """That of a bias is the product of those of what is multiplied."""
    if case.kind in ("LOGISTIC", "TANH") and case.dtypes[0] == "int16":
        return 1 / 4096
    return 0.25 if case.kind in _WEIGHTED and position == 2 else 0.5


def quantize(
    net: Any, tensor: int, dtype: str, scale: list[float], axis: int = 0, zero: int = 0, requantized: bool = False
) -> None:
    """Plain `int32` has no scale, but for biases and what is quantized again."""
    if dtype in ("float32", "bool") or (
        dtype == "int32" and not requantized and net.graph.tensors[tensor].name != "x2"
    ):
        return
    found = make()["schema"].QuantizationParametersT()
    found.scale, found.zeroPoint, found.quantizedDimension = scale, [zero] * len(scale), axis
    net.graph.tensors[tensor].quantization = found


def drawn(kind: str, dtype: str, shape: Sequence[int], chance: Any) -> Any:
    """Where a kernel divides, or takes a root or a logarithm, all are above zero."""
    above = kind in ("DIV", "RSQRT", "SQRT", "LOG")
    if dtype == "float32":
        return chance.uniform(0.1 if above else -4, 4, shape).astype(np.float32)
    if dtype == "bool":
        return chance.random(shape) < 0.5
    if dtype == "int4":  # two in a byte
        return chance.integers(-128, 128, (math.prod(shape) + 1) // 2).astype(np.int8)
    return chance.integers(1 if above or dtype == "uint8" else -100, 100, shape).astype(dtype)


def run(case: Case, offsets: Mapping[int, int], seed: int) -> bytes | None:
    """The bytes of the output; None if TFLite Micro does not take the operator."""
    from tflite_micro import runtime

    data = model_of(case, offsets, np.random.default_rng(seed))
    chance = np.random.default_rng(seed + 1)
    try:
        interpreter = runtime.Interpreter.from_bytes(data, arena_size=1 << 17)
    except RuntimeError:
        return None
    positions = sorted(k for k in offsets if k >= 0)
    for position, k in enumerate(positions):
        interpreter.set_input(drawn(case.kind, case.dtypes[k], case.inputs[k], chance), position)
    interpreter.invoke()
    return bytes(np.ascontiguousarray(interpreter.get_output(0)).tobytes())


def apart(case: Case, inputs: Sequence[int]) -> dict[int, int]:
    """Offsets at which nothing overlaps: the output, then the inputs."""
    offsets, at = {-1: 0}, up(math.prod(case.made) * BYTES[case.made_dtype])
    for k in inputs:
        offsets[k] = at
        at += up(math.prod(case.inputs[k]) * BYTES[case.dtypes[k]])
    return offsets


def nearest(one: Traced) -> Iterator[dict[int, int]]:
    """Offsets at which the output lies as near to an input as is claimed, on each side of each input."""
    for tensor in one.inputs():
        for distance in one.distances(tensor):
            yield near(one.case, one.inputs(), tensor, distance)


def up(value: int) -> int:
    return -(-value // 64) * 64


def near(case: Case, inputs: Sequence[int], tensor: int, distance: int) -> dict[int, int]:
    """Offsets at which the output begins so many bytes behind an input; the other inputs are apart."""
    offsets = apart(case, inputs)
    most = max(*offsets.values(), 0) + up(max(math.prod(case.inputs[k]) * BYTES[case.dtypes[k]] for k in inputs))
    begin = most + up(max(-distance, 0))
    return {**offsets, tensor: begin, -1: begin + distance}
