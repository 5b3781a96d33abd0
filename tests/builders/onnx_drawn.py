"""What nodes of ONNX at random are drawn from, and those that have windows or multiply matrices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from builders.arrays import floats, integers, ints, pick, scalars, shape_of, smaller
from builders.onnx_models import model, node, numpy_helper, onnx, value

MS = "com.microsoft"


class Drawn(NamedTuple):
    """A node: inputs are arrays, `fixed` of which, by position, are constants; an input that is left out is None."""

    op_type: str
    inputs: list[Any]
    attributes: Mapping[str, Any] = {}
    fixed: tuple[int, ...] = ()
    outputs: int = 1
    domain: str = ""
    opset: int = 21

    def names(self) -> list[str]:
        return ["" if array is None else f"x{k}" for k, array in enumerate(self.inputs)]

    def feeds(self) -> dict[str, Any]:
        given = zip(self.names(), self.inputs, strict=True)
        return {name: array for k, (name, array) in enumerate(given) if name and k not in self.fixed}

    def model(self) -> Any:
        outputs = [f"y{k}" for k in range(self.outputs)]
        one = node(self.op_type, self.names(), outputs, domain=self.domain, **self.attributes)
        types = onnx.helper.np_dtype_to_tensor_dtype
        inputs = [value(name, array.shape, types(array.dtype)) for name, array in self.feeds().items()]
        weights = [numpy_helper.from_array(self.inputs[k], f"x{k}") for k in self.fixed if self.inputs[k] is not None]
        domains = [self.domain] if self.domain else []
        results = [onnx.helper.make_empty_tensor_value_info(name) for name in outputs]
        return model([one], inputs, results, weights, opset=self.opset, domains=domains)


Draw = Callable[[Any], Drawn]


def elementwise(op_type: str, dtypes: list[Any], domain: str = "", **attributes: Any) -> Draw:
    """One input for each dtype; all but one of them may be broadcast."""

    def draw(rng: Any) -> Drawn:
        shape = shape_of(rng)
        whole = int(rng.integers(len(dtypes))) if op_type not in ("PRelu", "BiasGelu") else 0
        shapes = [shape if k == whole else smaller(rng, shape) for k in range(len(dtypes))]
        if op_type == "BiasGelu":
            shapes[1:] = [shape[-1:]]
        arrays = [scalars(rng, d, s) for s, d in zip(shapes, dtypes, strict=True)]
        return Drawn(op_type, arrays, attributes, domain=domain)

    return draw


def spatial(rng: Any) -> tuple[list[int], list[int], dict[str, Any]]:
    """Rows, kernel and attributes of windows along one or two axes."""
    rank = pick(rng, 1, 2, 2)
    kernel = [int(n) for n in rng.integers(1, 4, rank)]
    strides = [int(n) for n in rng.integers(1, 4, rank)]
    dilations = [int(n) for n in rng.integers(1, 3, rank)]
    wide = [d * (k - 1) + 1 for d, k in zip(dilations, kernel, strict=True)]
    rows = [int(w + rng.integers(0, 6)) for w in wide]
    attributes: dict[str, Any] = {"strides": strides, "dilations": dilations}
    padding = pick(rng, "NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")
    if padding == "NOTSET":
        attributes["pads"] = [int(rng.integers(0, k)) for k in kernel * 2]
    else:
        attributes["auto_pad"] = padding
        if padding != "VALID":
            attributes["dilations"] = [1] * rank
            attributes["strides"] = [min(s, k) for s, k in zip(strides, kernel, strict=True)]
    return rows, kernel, attributes


def convolution(op_type: str, rng: Any) -> tuple[Any, Any, Any, dict[str, Any]]:
    """Input, weight and bias, and attributes."""
    rows, kernel, attributes = spatial(rng)
    if op_type == "FusedConv" and len(rows) == 1:
        return convolution(op_type, rng)
    groups = pick(rng, 1, 1, 2, 3)
    given, made = groups * pick(rng, 1, 2), groups * pick(rng, 1, 2)
    batch = pick(rng, 1, 2)
    arrays = floats(rng, batch, given, *rows), floats(rng, made, given // groups, *kernel), floats(rng, made)
    return *arrays, {**attributes, "group": groups}


def conv(rng: Any) -> Drawn:
    x, w, b, attributes = convolution("Conv", rng)
    return Drawn("Conv", [x, w, b] if rng.random() < 0.7 else [x, w], attributes)


def fused_conv(rng: Any) -> Drawn:
    x, w, b, attributes = convolution("FusedConv", rng)
    inputs = [x, w, b]
    attributes["activation"] = "Relu"
    if "auto_pad" not in attributes and rng.random() < 0.5:  # with what is added
        made = shapes_made(Drawn("Conv", [x, w, b], {k: v for k, v in attributes.items() if k != "activation"}))
        inputs.append(floats(rng, *made))
    return Drawn("FusedConv", inputs, attributes, domain=MS)


def shapes_made(drawn: Drawn) -> list[int]:
    inferred = onnx.shape_inference.infer_shapes(drawn.model())
    return [d.dim_value for d in inferred.graph.output[0].type.tensor_type.shape.dim]


def conv_integer(rng: Any) -> Drawn:
    x, w, _, attributes = convolution("ConvInteger", rng)
    zero = np.array(3, np.uint8)
    inputs = [integers(rng, 9, *x.shape, dtype=np.uint8), integers(rng, 9, *w.shape, dtype=np.uint8), zero, zero]
    return Drawn("ConvInteger", inputs, attributes)


def quantized_conv(rng: Any) -> Drawn:
    x, w, b, attributes = convolution("QLinearConv", rng)
    channels = [len(w)] if rng.random() < 0.5 else []
    scale, zero = np.array(0.5, np.float32), np.array(5, np.uint8)
    w_scale, w_zero = rng.uniform(0.2, 1, channels).astype(np.float32), np.zeros(channels, np.int8)
    inputs = [integers(rng, 20, *x.shape, dtype=np.uint8), scale, zero, integers(rng, 9, *w.shape, dtype=np.int8)]
    more = [w_scale, w_zero, scale, zero, integers(rng, 9, len(b), dtype=np.int32)]
    return Drawn("QLinearConv", [*inputs, *more], attributes, fixed=(1, 2, 4, 5, 6, 7))


def conv_transpose(rng: Any) -> Drawn:
    rows, kernel, attributes = spatial(rng)
    groups = pick(rng, 1, 1, 2)
    given, made = groups * pick(rng, 1, 2), pick(rng, 1, 2)
    strides = attributes["strides"]
    if attributes.get("auto_pad", "NOTSET") == "NOTSET" and rng.random() < 0.5:
        attributes["output_padding"] = [int(rng.integers(0, s)) for s in strides]
    inputs = [floats(rng, 2, given, *rows), floats(rng, given, made, *kernel), floats(rng, made * groups)]
    return Drawn("ConvTranspose", inputs, {**attributes, "group": groups})


def pool(op_type: str) -> Draw:
    def draw(rng: Any) -> Drawn:
        rows, kernel, attributes = spatial(rng)
        if op_type != "LpPool" and rng.random() < 0.3:  # runtimes disagree about windows that begin in the padding
            strides = [min(s, k) for s, k in zip(attributes["strides"], kernel, strict=True)]
            attributes = {"strides": strides, "dilations": attributes["dilations"], "ceil_mode": 1}
        if op_type == "AveragePool":
            attributes["count_include_pad"] = int(rng.integers(2))
        return Drawn(op_type, [floats(rng, 2, 2, *rows)], {**attributes, "kernel_shape": kernel})

    return draw


def resize(rng: Any) -> Drawn:
    opset = pick(rng, 10, 11, 13, 18, 19)
    scales = [float(pick(rng, 1, 2, 3, 0.5, 1.5, 4 / 3, 0.6, 2.7)) for _ in range(2)]
    x = floats(rng, *rng.integers(1, 3, 2), *rng.integers(3, 8, 2))
    given = np.array([1, 1, *scales], np.float32)
    mode = pick(rng, "nearest", "nearest", "linear", "cubic")
    if opset == 10:
        return Drawn("Resize", [x, given], {"mode": "nearest" if mode == "cubic" else mode}, fixed=(1,), opset=10)
    kinds = ["asymmetric", "half_pixel", "pytorch_half_pixel", "align_corners"] + ["half_pixel_symmetric"] * (
        opset > 18
    )
    attributes = {"mode": mode, "coordinate_transformation_mode": pick(rng, *kinds)}
    if mode == "nearest":
        attributes["nearest_mode"] = pick(rng, "round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
    none = np.array([], np.float32) if opset < 13 else None
    if rng.random() < 0.5:
        sizes = [*x.shape[:2], *(max(1, int(n * s)) for n, s in zip(x.shape[2:], scales, strict=True))]
        return Drawn("Resize", [x, none, none, ints(*sizes)], attributes, fixed=(1, 2, 3), opset=opset)
    return Drawn("Resize", [x, none, given], attributes, fixed=(1, 2), opset=opset)


def upsample(rng: Any) -> Drawn:
    x, mode = floats(rng, *rng.integers(1, 3, 2), *rng.integers(2, 5, 2)), pick(rng, "nearest", "linear")
    scales = [1.0, 1.0, *(float(pick(rng, 1, 2, 3)) for _ in range(2))]
    if rng.random() < 0.5:
        return Drawn("Upsample", [x], {"mode": mode, "scales": scales}, opset=7)
    return Drawn("Upsample", [x, np.array(scales, np.float32)], {"mode": mode}, fixed=(1,), opset=9)


def whole_pool(op_type: str) -> Draw:
    return lambda rng: Drawn(op_type, [floats(rng, *rng.integers(1, 4, rng.integers(3, 5)))])


def matmul(op_type: str = "MatMul", domain: str = "") -> Draw:
    def draw(rng: Any) -> Drawn:
        m, k, n = (int(s) for s in rng.integers(1, 5, 3))
        batch = [int(s) for s in rng.integers(1, 4, rng.integers(0, 3))]
        a, b = [*smaller(rng, batch), m, k] if batch else [m, k], [*batch, k, n]
        attributes = {}
        if op_type == "MatMul":
            a, b = (a[-1:] if rng.random() < 0.1 else a), (b[-2:] if rng.random() < 0.3 else b)
            b = b[-2:-1] if rng.random() < 0.1 else b
        if op_type == "FusedMatMul":
            attributes = {"transA": int(rng.integers(2)), "transB": int(rng.integers(2)), "alpha": 0.5}
            a = [*a[:-2], *reversed(a[-2:])] if attributes["transA"] else a
            b = [*b[:-2], *reversed(b[-2:])] if attributes["transB"] else b
        arrays = [floats(rng, *a), floats(rng, *b)]
        if op_type == "MatMulInteger":
            zero = np.array(3, np.uint8)
            arrays = [integers(rng, 9, *s, dtype=np.uint8) for s in (a, b)] + [zero, zero]
        if op_type == "QLinearMatMul":
            scale, zero = np.array(0.5, np.float32), np.array(3, np.uint8)
            left, right = (integers(rng, 9, *s, dtype=np.uint8) for s in (a, b))
            inputs = [left, scale, zero, right, scale, zero, scale, zero]
            return Drawn(op_type, inputs, fixed=(1, 2, 4, 5, 6, 7))
        return Drawn(op_type, arrays, attributes, domain=domain)

    return draw


def gemm(op_type: str = "Gemm", domain: str = "", **more: Any) -> Draw:
    def draw(rng: Any) -> Drawn:
        m, k, n = (int(s) for s in rng.integers(1, 5, 3))
        a, b = int(rng.integers(2)), int(rng.integers(2))
        arrays = [floats(rng, *((k, m) if a else (m, k))), floats(rng, *((n, k) if b else (k, n)))]
        if rng.random() < 0.7:
            arrays.append(floats(rng, *pick(rng, (n,), (1, n), (m, 1), (m, n), (1,))))
        attributes = {"transA": a, "transB": b, "alpha": 0.5, "beta": 2.0, **more}
        return Drawn(op_type, arrays, attributes, domain=domain)

    return draw
