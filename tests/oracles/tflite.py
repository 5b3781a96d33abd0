"""What TFLite's operators compute, slowly, from its documented formulas. Written apart: nothing here imports memplan.

A kernel takes options by name, the shape of its output, and arrays; it gives one array.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

Options = Mapping[str, Any]
Kernel = Callable[..., Any]  # options, shape, arrays


def padding(options: Options, rows: int, made: int, kernel: int, stride: int, dilation: int) -> int:
    """Rows before the first: half of those with which the windows fit, rounded down."""
    return 0 if options.get("Padding", 0) else max(0, (made - 1) * stride + dilation * (kernel - 1) + 1 - rows) // 2


def taps(
    options: Options, x: Any, made: Sequence[int], kernel: Sequence[int]
) -> Iterator[tuple[int, int, list[tuple[int, int, int, int]]]]:
    """Each place of the output, and its taps that exist: (row, column) of the kernel, and of the input."""
    strides = options.get("StrideH", 1), options.get("StrideW", 1)
    dilations = options.get("DilationHFactor", 1), options.get("DilationWFactor", 1)
    before = [padding(options, x.shape[1 + a], made[1 + a], kernel[a], strides[a], dilations[a]) for a in (0, 1)]
    for i, j in np.ndindex(made[1], made[2]):
        found = []
        for k, m in np.ndindex(*kernel):
            row = i * strides[0] - before[0] + k * dilations[0]
            column = j * strides[1] - before[1] + m * dilations[1]
            if 0 <= row < x.shape[1] and 0 <= column < x.shape[2]:
                found.append((k, m, row, column))
        yield i, j, found


def activated(options: Options, y: Any) -> Any:
    return np.maximum(y, 0) if options.get("FusedActivationFunction", 0) else y


def conv(options: Options, made: Sequence[int], x: Any, w: Any, bias: Any = None) -> Any:
    y = np.zeros(made, np.float32) + (0 if bias is None else bias)
    groups = x.shape[3] // w.shape[3]
    wide, each = w.shape[3], made[3] // groups
    for i, j, found in taps(options, x, made, w.shape[1:3]):
        for (k, m, row, column), g in itertools.product(found, range(groups)):
            part = x[:, row, column, g * wide : (g + 1) * wide] @ w[g * each : (g + 1) * each, k, m].T
            y[:, i, j, g * each : (g + 1) * each] += part
    return activated(options, y.astype(np.float32))


def depthwise(options: Options, made: Sequence[int], x: Any, w: Any, bias: Any = None) -> Any:
    y = np.zeros(made, np.float32) + (0 if bias is None else bias)
    for i, j, found in taps(options, x, made, w.shape[1:3]):
        for k, m, row, column in found:
            y[:, i, j] += np.repeat(x[:, row, column], made[3] // x.shape[3], axis=1) * w[0, k, m]
    return activated(options, y.astype(np.float32))


def transposed(options: Options, made: Sequence[int], _: Any, w: Any, x: Any) -> Any:
    y = np.zeros(made, np.float32)
    strides = options.get("StrideH", 1), options.get("StrideW", 1)
    before = []
    for a in (0, 1):
        windows = -(-made[1 + a] // strides[a])
        before.append(padding(options, made[1 + a], windows, w.shape[1 + a], strides[a], 1))
    for i, j, k, m in np.ndindex(*x.shape[1:3], *w.shape[1:3]):
        row, column = i * strides[0] - before[0] + k, j * strides[1] - before[1] + m
        if 0 <= row < made[1] and 0 <= column < made[2]:
            y[:, row, column] += x[:, i, j] @ w[:, k, m].T
    return y


def pool(reduce: Callable[[Any], Any]) -> Kernel:
    def kernel(options: Options, made: Sequence[int], x: Any) -> Any:
        y = np.zeros(made, np.float32)
        for i, j, found in taps(options, x, made, (options["FilterHeight"], options["FilterWidth"])):
            y[:, i, j] = reduce(np.stack([x[:, row, column] for _, _, row, column in found]))
        return y

    return kernel


def dense(options: Options, made: Sequence[int], x: Any, w: Any, bias: Any = None) -> Any:
    y = x.reshape(-1, w.shape[1]) @ w.T + (0 if bias is None else bias)
    return activated(options, y.reshape(made))


def matmul(options: Options, made: Sequence[int], a: Any, b: Any) -> Any:
    a = np.swapaxes(a, -1, -2) if options.get("AdjX") else a
    return a @ (np.swapaxes(b, -1, -2) if options.get("AdjY") else b)


def over(reduce: Callable[..., Any]) -> Kernel:
    return lambda options, made, x, axes: reduce(x, axis=tuple(axes.ravel())).reshape(made)


def extreme(reduce: Callable[..., Any]) -> Kernel:
    return lambda options, made, x, axis: reduce(x, axis=axis.item()).astype(np.int32)


def softmax(options: Options, made: Sequence[int], x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def log_softmax(options: Options, made: Sequence[int], x: Any) -> Any:
    low = x - x.max(-1, keepdims=True)
    return low - np.log(np.exp(low).sum(-1, keepdims=True))


def scale_of(options: Options, rows: int, made: int) -> Any:
    aligned = options.get("AlignCorners") and made > 1
    return np.float32(rows - 1) / np.float32(made - 1) if aligned else np.float32(rows) / np.float32(made)


def nearest(options: Options, made: Sequence[int], x: Any, _: Any) -> Any:
    half = np.float32(0.5 if options.get("HalfPixelCenters") else 0)
    found = []
    for a in (1, 2):
        place = (np.arange(made[a], dtype=np.float32) + half) * scale_of(options, x.shape[a], made[a])
        rows = np.floor(place + np.float32(0.5)) if options.get("AlignCorners") else np.floor(place)
        found.append(np.clip(rows, 0, x.shape[a] - 1).astype(int))
    return x[:, found[0]][:, :, found[1]]


def bilinear(options: Options, made: Sequence[int], x: Any, _: Any) -> Any:
    half = np.float32(0.5 if options.get("HalfPixelCenters") else 0)
    for a in (1, 2):
        place = (np.arange(made[a], dtype=np.float32) + half) * scale_of(options, x.shape[a], made[a]) - half
        low = np.maximum(np.floor(place), 0).astype(int)
        high = np.clip(np.ceil(place), 0, x.shape[a] - 1).astype(int)
        part = (place - low).reshape([-1 if k == a else 1 for k in range(4)]).astype(np.float32)
        x = np.take(x, np.minimum(low, x.shape[a] - 1), a) * (1 - part) + np.take(x, high, a) * part
    return x


def pad(options: Options, made: Sequence[int], x: Any, amounts: Any, value: Any = 0) -> Any:
    return np.pad(x, amounts, constant_values=np.asarray(value).item())


def mirrored(options: Options, made: Sequence[int], x: Any, amounts: Any) -> Any:
    return np.pad(x, amounts, "symmetric" if options.get("Mode") else "reflect")


def cut(options: Options, made: Sequence[int], x: Any, begin: Any, size: Any) -> Any:
    return x[tuple(slice(b, b + n) for b, n in zip(begin, made, strict=True))]


def strided(options: Options, made: Sequence[int], x: Any, begin: Any, end: Any, steps: Any) -> Any:
    places: list[Any] = []
    for a, (first, last, step) in enumerate(zip(begin.tolist(), end.tolist(), steps.tolist(), strict=True)):
        bounds = [
            None if options.get(f"{name}Mask", 0) >> a & 1 else n for name, n in (("Begin", first), ("End", last))
        ]
        places.append(first if options.get("ShrinkAxisMask", 0) >> a & 1 else slice(*bounds, step))
    return x[tuple(places)]


def depth_to_space(options: Options, made: Sequence[int], x: Any) -> Any:
    n, h, w, _ = x.shape
    block = options["BlockSize"]
    return x.reshape(n, h, w, block, block, -1).transpose(0, 1, 3, 2, 4, 5).reshape(made)


def space_to_depth(options: Options, made: Sequence[int], x: Any) -> Any:
    n, h, w, _ = made
    block = options["BlockSize"]
    return x.reshape(n, h, block, w, block, -1).transpose(0, 1, 3, 2, 4, 5).reshape(made)


def by(function: Callable[..., Any]) -> Kernel:
    """A function of arrays alone."""
    return lambda options, made, *arrays: function(*arrays)


UNARY: dict[str, Callable[[Any], Any]] = {
    **{
        "ABS": np.abs,
        "CEIL": np.ceil,
        "COS": np.cos,
        "EXP": np.exp,
        "FLOOR": np.floor,
        "LOG": np.log,
        "NEG": np.negative,
    },
    **{"ROUND": np.round, "SIN": np.sin, "SQRT": np.sqrt, "SQUARE": np.square, "TANH": np.tanh},
    "CAST": lambda x: x.astype(np.int32),
    "DEQUANTIZE": lambda x: (x.astype(np.float32) - 3) * np.float32(0.5),
    "ELU": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "GELU": lambda x: x * np.tanh(x),  # of no account: element by element
    "HARD_SWISH": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "LEAKY_RELU": lambda x: np.where(x > 0, x, 0.1 * x),
    "LOGICAL_NOT": np.logical_not,
    "LOGISTIC": lambda x: 1 / (1 + np.exp(-x)),
    "QUANTIZE": lambda x: np.clip(np.round(x / 0.5) + 3, -128, 127).astype(np.int8),
    **{"RELU": lambda x: np.maximum(x, 0), "RELU6": lambda x: np.clip(x, 0, 6)},
    **{"RELU_0_TO_1": lambda x: np.clip(x, 0, 1), "RELU_N1_TO_1": lambda x: np.clip(x, -1, 1)},
    "RSQRT": lambda x: 1 / np.sqrt(x),
}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    **{"ADD": np.add, "DIV": np.divide, "EQUAL": np.equal, "FLOOR_DIV": np.floor_divide, "FLOOR_MOD": np.mod},
    **{"GREATER": np.greater, "GREATER_EQUAL": np.greater_equal, "LESS": np.less, "LESS_EQUAL": np.less_equal},
    **{"LOGICAL_AND": np.logical_and, "LOGICAL_OR": np.logical_or, "MAXIMUM": np.maximum, "MINIMUM": np.minimum},
    **{"MUL": np.multiply, "NOT_EQUAL": np.not_equal, "POW": np.power, "SUB": np.subtract},
    "PRELU": lambda x, slope: np.where(x > 0, x, x * slope),
    "SQUARED_DIFFERENCE": lambda a, b: (a - b) ** 2,
}
KERNELS: dict[str, Kernel] = {
    **{kind: by(function) for kind, function in (UNARY | BINARY).items()},
    **{"SELECT_V2": by(np.where), "CONV_2D": conv, "DEPTHWISE_CONV_2D": depthwise, "TRANSPOSE_CONV": transposed},
    **{"FULLY_CONNECTED": dense, "BATCH_MATMUL": matmul},
    "AVERAGE_POOL_2D": pool(lambda window: window.mean(0)),
    "MAX_POOL_2D": pool(lambda window: window.max(0)),
    "L2_POOL_2D": pool(lambda window: np.sqrt((window**2).mean(0))),
    **{"RESIZE_BILINEAR": bilinear, "RESIZE_NEAREST_NEIGHBOR": nearest},
    **{"MEAN": over(np.mean), "SUM": over(np.sum), "REDUCE_MAX": over(np.max), "REDUCE_MIN": over(np.min)},
    **{"REDUCE_PROD": over(np.prod), "REDUCE_ANY": over(np.any), "REDUCE_ALL": over(np.all)},
    **{"ARG_MAX": extreme(np.argmax), "ARG_MIN": extreme(np.argmin)},
    **{"SOFTMAX": softmax, "LOG_SOFTMAX": log_softmax},
    "L2_NORMALIZATION": by(lambda x: x / np.sqrt((x**2).sum(-1, keepdims=True))),
    "CONCATENATION": lambda options, made, *parts: np.concatenate(parts, options["Axis"]),
    "PACK": lambda options, made, *parts: np.stack(parts, options["Axis"]),
    "UNPACK": lambda options, made, x: np.take(x, 0, options["Axis"]),
    "SPLIT": lambda options, made, axis, x: np.split(x, 2, axis.item())[0],
    "SPLIT_V": lambda options, made, x, sizes, axis: np.split(x, [int(sizes[0])], axis.item())[0],
    **{"PAD": pad, "PADV2": pad, "MIRROR_PAD": mirrored, "SLICE": cut, "STRIDED_SLICE": strided},
    **{"TRANSPOSE": by(np.transpose), "TILE": by(np.tile), "BROADCAST_TO": by(np.broadcast_to)},
    "GATHER": lambda options, made, x, indices: np.take(x, indices, options.get("Axis", 0)),
    **{"DEPTH_TO_SPACE": depth_to_space, "SPACE_TO_DEPTH": space_to_depth},
    "EMBEDDING_LOOKUP": by(lambda indices, table: table[indices]),
    **{"RESHAPE": lambda options, made, x, _: x.reshape(made), "SQUEEZE": by(lambda x: x[:, 0])},
    "EXPAND_DIMS": by(lambda x, axis: np.expand_dims(x, axis.item())),
}
