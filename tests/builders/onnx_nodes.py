"""Single nodes of ONNX at random, of every operator that may be split: `NODES` by type."""

from __future__ import annotations

from typing import Any

import numpy as np

from builders.arrays import floats, integers, ints, pick, places, shape_of, smaller
from builders.onnx_drawn import (
    MS,
    Draw,
    Drawn,
    conv,
    conv_integer,
    conv_transpose,
    elementwise,
    fused_conv,
    gemm,
    matmul,
    pool,
    quantized_conv,
    resize,
    upsample,
    whole_pool,
)
from builders.onnx_models import TensorProto


def einsum(rng: Any) -> Drawn:
    size = dict(zip("bijk", (int(s) for s in rng.integers(1, 5, 4)), strict=True))
    equation = pick(rng, "bij,bjk->bik", "ij,jk->ki", "bij->bi", "bij,bj->ib", "ij,kj->ikj", "ij->ji")
    terms = equation.split("->")[0].split(",")
    return Drawn("Einsum", [floats(rng, *(size[c] for c in term)) for term in terms], {"equation": equation})


def attention(rng: Any) -> Drawn:
    batch, heads, rows, keys = (int(s) for s in rng.integers((1, 1, 1, 2), 4))
    kv_heads = pick(rng, heads, 1)
    inputs = [floats(rng, batch, heads, rows, 4), *(floats(rng, batch, kv_heads, keys, 4) for _ in range(2))]
    if rng.random() < 0.3:
        flat = [array.transpose(0, 2, 1, 3).reshape(batch, array.shape[2], -1).copy() for array in inputs]
        return Drawn("Attention", flat, {"q_num_heads": heads, "kv_num_heads": kv_heads}, opset=23)
    if rng.random() < 0.5:
        inputs.append(floats(rng, rows, keys))
    return Drawn("Attention", inputs, opset=23)


def multi_head_attention(rng: Any) -> Drawn:
    batch, rows, keys = (int(s) for s in rng.integers((1, 1, 2), 4))
    inputs = [floats(rng, batch, rows, 4), floats(rng, batch, keys, 4), floats(rng, batch, keys, 4)]
    return Drawn("MultiHeadAttention", inputs, {"num_heads": 2}, domain=MS)


def recurrent(op_type: str, gates: int) -> Draw:
    def draw(rng: Any) -> Drawn:
        rows, batch, directions = 3, int(rng.integers(1, 4)), pick(rng, 1, 2)
        attributes = {"hidden_size": 2, "direction": "bidirectional" if directions == 2 else "forward"}
        inputs = [floats(rng, rows, batch, 2), *(floats(rng, directions, gates * 2, 2) for _ in range(2))]
        if rng.random() < 0.7:
            inputs += [floats(rng, directions, 2 * gates * 2), integers(rng, 2, batch, dtype=np.int32) + np.int32(2)]
            inputs += [floats(rng, directions, batch, 2) for _ in range(2 if op_type == "LSTM" else 1)]
        return Drawn(op_type, inputs, attributes, fixed=(4,) if len(inputs) > 4 else (), outputs=2)

    return draw


def reduction(op_type: str) -> Draw:
    def draw(rng: Any) -> Drawn:
        shape = shape_of(rng)
        x = np.abs(floats(rng, *shape)) + np.float32(0.1)
        keep = int(rng.integers(2))
        if op_type.startswith("Arg"):
            axis = int(rng.integers(-len(shape), len(shape)))
            return Drawn(op_type, [np.concatenate([x, x + 1], axis)], {"axis": axis, "keepdims": keep})
        axes = [a for a in range(len(shape)) if rng.random() < 0.5]
        axes = [a - len(shape) if rng.random() < 0.3 else a for a in axes]
        if rng.random() < 0.2:
            return Drawn(op_type, [x], {"keepdims": keep})
        noop = int(rng.integers(2))
        return Drawn(op_type, [x, ints(*axes)], {"keepdims": keep, "noop_with_empty_axes": noop}, fixed=(1,))

    return draw


def along_axis(op_type: str, opsets: tuple[int, ...] = (21,)) -> Draw:
    def draw(rng: Any) -> Drawn:
        shape = shape_of(rng)
        axis = int(rng.integers(-len(shape), len(shape)))
        shape[axis] += 1
        opset = pick(rng, *opsets)
        return Drawn(op_type, [floats(rng, *shape)], {"axis": axis % len(shape) if opset < 11 else axis}, opset=opset)

    return draw


def normalization(op_type: str, domain: str = "", bias: bool = True) -> Draw:
    def draw(rng: Any) -> Drawn:
        shape = shape_of(rng, 2)
        axis = int(rng.integers(0, len(shape)))
        scales = [floats(rng, *shape[axis:]) for _ in range(1 + bias)]
        opset = 23 if op_type == "RMSNormalization" else 21
        outputs = pick(rng, 1, 3) if op_type == "LayerNormalization" else 1
        return Drawn(op_type, [floats(rng, *shape), *scales], {"axis": axis}, opset=opset, outputs=outputs)

    return draw


def skip_normalization(op_type: str, scales: int) -> Draw:
    def draw(rng: Any) -> Drawn:
        shape = [int(s) for s in rng.integers(1, 4, 2)] + [4]
        rest = [floats(rng, 4) for _ in range(scales)]
        return Drawn(op_type, [floats(rng, *shape), floats(rng, *shape), *rest], {"epsilon": 1e-5}, domain=MS)

    return draw


def batch_normalization(rng: Any) -> Drawn:
    shape = [int(s) for s in rng.integers(1, 4, rng.integers(2, 5))]
    channels = [floats(rng, shape[1]) for _ in range(3)] + [np.abs(floats(rng, shape[1])) + np.float32(0.5)]
    train = int(rng.random() < 0.4)
    return Drawn(
        "BatchNormalization", [floats(rng, *shape), *channels], {"training_mode": train}, outputs=1 + 2 * train
    )


def instance_normalization(rng: Any) -> Drawn:
    shape = [int(s) for s in rng.integers(1, 4, rng.integers(3, 5))]
    return Drawn("InstanceNormalization", [floats(rng, *shape), floats(rng, shape[1]), floats(rng, shape[1])])


def group_normalization(rng: Any) -> Drawn:
    groups, opset = int(rng.integers(1, 4)), pick(rng, 18, 21)
    channels = groups * pick(rng, 1, 2)
    scales = [floats(rng, channels if opset == 21 else groups) for _ in range(2)]
    return Drawn("GroupNormalization", [floats(rng, 2, channels, 3, 2), *scales], {"num_groups": groups}, opset=opset)


def local_response(rng: Any) -> Drawn:
    x = floats(rng, 2, int(rng.integers(2, 7)), 2, 2)
    return Drawn("LRN", [x], {"size": int(rng.integers(1, 5)), "alpha": 1.0})


def concat(rng: Any) -> Drawn:
    shape = shape_of(rng)
    axis = int(rng.integers(len(shape)))
    parts = [[int(rng.integers(1, 4)) if k == axis else s for k, s in enumerate(shape)] for _ in range(pick(rng, 2, 3))]
    return Drawn("Concat", [floats(rng, *part) for part in parts], {"axis": axis - pick(rng, 0, len(shape))})


def split(rng: Any) -> Drawn:
    shape = shape_of(rng, 2)
    axis = int(rng.integers(len(shape)))
    sizes = [1, int(rng.integers(1, 3))]
    shape[axis] = sum(sizes)
    return Drawn("Split", [floats(rng, *shape), ints(*sizes)], {"axis": axis}, fixed=(1,), outputs=2)


def slices(rng: Any) -> Drawn:
    shape = [int(s) for s in rng.integers(1, 8, rng.integers(1, 4))]
    axes = [a for a in range(len(shape)) if rng.random() < 0.7] or [0]
    starts = [int(rng.integers(0, shape[a])) for a in axes]
    steps = [pick(rng, 1, 1, 2, 3, -1) for _ in axes]
    ends = [
        int(rng.integers(s + 1, shape[a] + 3)) if t > 0 else -100 for a, s, t in zip(axes, starts, steps, strict=True)
    ]
    if rng.random() < 0.2:
        attributes = {"starts": starts, "ends": [s + 2 for s in starts], "axes": axes}
        return Drawn("Slice", [floats(rng, *shape)], attributes, opset=9)
    return Drawn("Slice", [floats(rng, *shape), *(ints(*v) for v in (starts, ends, axes, steps))], fixed=(1, 2, 3, 4))


def pad(rng: Any) -> Drawn:
    shape = [int(s) for s in rng.integers(2, 6, rng.integers(1, 4))]
    mode = pick(rng, "constant", "constant", "reflect", "edge", "wrap")
    amounts = [0 if rng.random() < 0.5 else int(rng.integers(-1 if mode == "constant" else 0, 2)) for _ in shape * 2]
    if rng.random() < 0.3:
        axes = [len(shape) - 1]
        inputs = [floats(rng, *shape), ints(amounts[0], amounts[1]), None, ints(*axes)]
        return Drawn("Pad", inputs, {"mode": mode}, fixed=(1, 2, 3))
    return Drawn("Pad", [floats(rng, *shape), ints(*amounts)], {"mode": mode}, fixed=(1,))


def transpose(rng: Any) -> Drawn:
    shape = shape_of(rng)
    order = [int(a) for a in rng.permutation(len(shape))]
    return Drawn("Transpose", [floats(rng, *shape)], {"perm": order} if rng.random() < 0.8 else {})


def expand(rng: Any) -> Drawn:
    shape = shape_of(rng)
    return Drawn("Expand", [floats(rng, *smaller(rng, shape)), ints(*shape)], fixed=(1,))


def tile(rng: Any) -> Drawn:
    shape = shape_of(rng)
    return Drawn("Tile", [floats(rng, *shape), ints(*(pick(rng, 1, 1, 2) for _ in shape))], fixed=(1,))


def cumulation(op_type: str, opset: int) -> Draw:
    def draw(rng: Any) -> Drawn:
        shape = shape_of(rng)
        axis = np.array(rng.integers(-len(shape), len(shape)), np.int64)
        return Drawn(op_type, [floats(rng, *shape), axis], fixed=(1,), opset=opset)

    return draw


def gather(rng: Any) -> Drawn:
    shape = shape_of(rng)
    axis = int(rng.integers(len(shape)))
    shape[axis] += 1
    indices = places(rng, shape[axis], *rng.integers(1, 4, rng.integers(0, 3)))
    return Drawn("Gather", [floats(rng, *shape), indices], {"axis": axis})


def gather_elements(rng: Any) -> Drawn:
    shape = shape_of(rng)
    axis = int(rng.integers(len(shape)))
    shape[axis] += 1
    indices = places(rng, shape[axis], *(int(rng.integers(1, s + 1)) for s in shape))
    return Drawn("GatherElements", [floats(rng, *shape), indices], {"axis": axis})


def gather_nd(rng: Any) -> Drawn:
    shape = [2, 3, 3, 2]
    batch, taken = int(rng.integers(0, 2)), int(rng.integers(1, 3))
    indices = places(rng, 2, *shape[:batch], 3, taken)
    return Drawn("GatherND", [floats(rng, *shape), indices], {"batch_dims": batch})


def one_hot(rng: Any) -> Drawn:
    shape = shape_of(rng, 1, 3)
    axis = int(rng.integers(-1, len(shape)))
    inputs = [places(rng, 3, *shape), np.array(3, np.int64), np.array([0, 1], np.float32)]
    return Drawn("OneHot", inputs, {"axis": axis}, fixed=(1, 2))


def quantize(rng: Any) -> Drawn:
    shape = shape_of(rng)
    axis = int(rng.integers(len(shape)))
    rows = [] if rng.random() < 0.4 else [shape[axis]]
    scale, zero = rng.uniform(0.1, 1, rows).astype(np.float32), integers(rng, 9, *rows, dtype=np.uint8)
    return Drawn("QuantizeLinear", [floats(rng, *shape), scale, zero], {"axis": axis}, fixed=(1, 2))


def dequantize(rng: Any) -> Drawn:
    drawn = quantize(rng)
    x = integers(rng, 200, *drawn.inputs[0].shape, dtype=np.uint8)
    return drawn._replace(op_type="DequantizeLinear", inputs=[x, *drawn.inputs[1:]])


def space_to_depth(rng: Any) -> Drawn:
    block = pick(rng, 1, 2, 3)
    x = floats(rng, 2, 2, *(block * int(s) for s in rng.integers(1, 4, 2)))
    return Drawn("SpaceToDepth", [x], {"blocksize": block})


def depth_to_space(rng: Any) -> Drawn:
    block = pick(rng, 1, 2)
    x = floats(rng, 2, int(rng.integers(1, 4)) * block**2, *rng.integers(1, 4, 2))
    return Drawn("DepthToSpace", [x], {"blocksize": block, "mode": pick(rng, "DCR", "CRD")})


def dropout(rng: Any) -> Drawn:
    return Drawn("Dropout", [floats(rng, *shape_of(rng))], outputs=pick(rng, 1, 2))


def clip(rng: Any) -> Drawn:
    bounds = [np.array(bound, np.float32) for bound in (-500, 500)]
    return Drawn("Clip", [floats(rng, *shape_of(rng)), *bounds], fixed=(1, 2))


def top_k(rng: Any) -> Drawn:
    shape = shape_of(rng)
    axis = int(rng.integers(-len(shape), len(shape)))
    return Drawn("TopK", [floats(rng, *shape), ints(1)], {"axis": axis}, fixed=(1,), outputs=2)


def grid_sample(rng: Any) -> Drawn:
    grid = rng.uniform(-1, 1, (2, *rng.integers(1, 4, 2), 2)).astype(np.float32)
    return Drawn("GridSample", [floats(rng, 2, 2, 4, 3), grid])


def regions(rng: Any) -> Drawn:
    rois = np.array([[0, 0, 3, 3], [1, 1, 2, 3], [0, 1, 3, 2]], np.float32)
    inputs = [floats(rng, 2, 3, 5, 5), rois, integers(rng, 2, 3)]
    return Drawn("RoiAlign", inputs, {"output_height": 2, "output_width": 2, "sampling_ratio": 1}, fixed=(2,))


def view(op_type: str) -> Draw:
    def draw(rng: Any) -> Drawn:
        x = floats(rng, *pick(rng, (2, 6, 2), (12, 2), (2, 3, 2, 2), (1, 6, 4, 1), (6, 4), (24,), (2, 1, 12)))
        if op_type == "Reshape":
            to = pick(rng, (2, 6, 2), (12, 2), (2, 3, 2, 2), (1, 6, 4, 1), (4, 6), (24,), (8, 3))
            return Drawn("Reshape", [x, ints(*to)], fixed=(1,))
        if op_type == "Flatten":
            return Drawn("Flatten", [x], {"axis": int(rng.integers(0, x.ndim))})
        if op_type == "Squeeze":
            return Drawn("Squeeze", [x[:, None], ints(1)], fixed=(1,))
        if op_type == "Unsqueeze":
            return Drawn("Unsqueeze", [x, ints(int(rng.integers(0, x.ndim)))], fixed=(1,))
        return Drawn(op_type, [x])

    return draw


_CODES = {"f": np.float32, "b": np.bool_, "i": np.int32, "u": np.uint8}
_ELEMENTWISE = {  # by the dtypes of their inputs
    "f": """
        Abs Acos Acosh Asin Asinh Atan Atanh Cast Ceil Cos Cosh Erf Exp Floor IsInf IsNaN Log Neg Reciprocal Round Sign
        Sin Sinh Sqrt Tan Celu Elu Gelu HardSigmoid HardSwish LeakyRelu Mish Relu Selu Shrink Sigmoid Softplus Softsign
        Tanh ThresholdedRelu
    """,
    **{"ff": "Add Div Greater GreaterOrEqual Less LessOrEqual Mul Pow PRelu Sub CastLike", "bb": "And Equal Or Xor"},
    **{"ii": "BitwiseAnd BitwiseOr BitwiseXor Mod", "fff": "Max Mean Min Sum"},
    **{"b": "Not", "i": "BitwiseNot", "uu": "BitShift", "bff": "Where"},
}
_REDUCTIONS = """
    ReduceSum ReduceMean ReduceSumSquare ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMin ReduceProd
    ArgMax ArgMin
"""
_ATTRIBUTES = {"BitShift": {"direction": "LEFT"}, "Cast": {"to": TensorProto.INT32}}
NODES: dict[str, Draw] = {
    **{
        name: elementwise(name, [_CODES[code] for code in codes], **_ATTRIBUTES.get(name, {}))
        for codes, names in _ELEMENTWISE.items()
        for name in names.split()
    },
    **{name: elementwise(name, [np.float32], domain=MS) for name in ("FastGelu", "QuickGelu")},
    "Swish": lambda rng: Drawn("Swish", [floats(rng, *shape_of(rng))], opset=24),
    "BiasGelu": elementwise("BiasGelu", [np.float32, np.float32], domain=MS),
    **{"Clip": clip, "Dropout": dropout, "Expand": expand},
    **{"Conv": conv, "FusedConv": fused_conv, "ConvInteger": conv_integer, "QLinearConv": quantized_conv},
    "ConvTranspose": conv_transpose,
    **{"MatMul": matmul(), "FusedMatMul": matmul("FusedMatMul", MS), "MatMulInteger": matmul("MatMulInteger")},
    **{"QLinearMatMul": matmul("QLinearMatMul"), "Gemm": gemm()},
    "FusedGemm": gemm("FusedGemm", MS, activation="Tanh"),
    **{"Einsum": einsum, "Attention": attention, "MultiHeadAttention": multi_head_attention},
    **{name: recurrent(name, gates) for name, gates in {"LSTM": 4, "GRU": 3, "RNN": 1}.items()},
    **{name: pool(name) for name in ("AveragePool", "MaxPool", "LpPool")},
    **{name: whole_pool(name) for name in ("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")},
    **{"Resize": resize, "Upsample": upsample, "LRN": local_response, "GridSample": grid_sample, "RoiAlign": regions},
    **{name: reduction(name) for name in _REDUCTIONS.split()},
    **{name: along_axis(name, (9, 12, 21)) for name in ("Softmax", "LogSoftmax", "Hardmax")},
    "LpNormalization": along_axis("LpNormalization"),
    "BatchNormalization": batch_normalization,
    "InstanceNormalization": instance_normalization,
    "GroupNormalization": group_normalization,
    "LayerNormalization": normalization("LayerNormalization"),
    "RMSNormalization": normalization("RMSNormalization", bias=False),
    "SimplifiedLayerNormalization": normalization("SimplifiedLayerNormalization", bias=False),
    "SkipLayerNormalization": skip_normalization("SkipLayerNormalization", 3),
    "SkipSimplifiedLayerNormalization": skip_normalization("SkipSimplifiedLayerNormalization", 1),
    "MeanVarianceNormalization": lambda rng: Drawn("MeanVarianceNormalization", [floats(rng, *rng.integers(2, 4, 4))]),
    **{"TopK": top_k, "CumSum": cumulation("CumSum", 21), "CumProd": cumulation("CumProd", 26)},
    **{"Concat": concat, "Split": split, "Slice": slices, "Pad": pad, "Transpose": transpose, "Tile": tile},
    "Trilu": lambda rng: Drawn("Trilu", [floats(rng, *shape_of(rng, 2))]),
    **{"Gather": gather, "GatherElements": gather_elements, "GatherND": gather_nd, "OneHot": one_hot},
    "ConstantOfShape": lambda rng: Drawn("ConstantOfShape", [ints(*shape_of(rng))], fixed=(0,)),
    **{"DepthToSpace": depth_to_space, "SpaceToDepth": space_to_depth},
    **{"QuantizeLinear": quantize, "DequantizeLinear": dequantize},
    **{name: view(name) for name in ("Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze")},
}
