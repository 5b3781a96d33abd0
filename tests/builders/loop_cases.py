"""Calls of operators of torch over random shapes, strides and arguments: at least one for each rule about loops.

`CASES[name](chance)` gives a call; the shapes come from `chance`, the values from torch's own generator, so that a
second call with the same state of `chance` has the same form and other values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import torch
from torch import Tensor

from oracles.poison import Case

_aten: Any = torch.ops.aten
Maker = Callable[[Random], Case]
_COUNTS = ("int64", "bool")


def tensor(*shape: int, low: float = 0.1, high: float = 0.9) -> Tensor:
    """Numbers between 0 and 1, where nearly all functions are defined."""
    return torch.rand(shape, dtype=torch.float64) * (high - low) + low


def signed(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64)


def shape_of(chance: Random, least: int = 1, most: int = 4) -> list[int]:
    return [chance.randint(1, 4) for _ in range(chance.randint(least, most))]


def laid(chance: Random, whole: Tensor) -> Tensor:
    """The same numbers, laid in memory as a transposed, sliced or plain tensor."""
    way = chance.randrange(3)
    if way == 0 and whole.dim() > 1:
        order = chance.sample(range(whole.dim()), whole.dim())
        back = [order.index(k) for k in range(whole.dim())]
        return whole.permute(order).contiguous().permute(back)
    if way == 1 and whole.dim():
        axis = chance.randrange(whole.dim())
        return torch.cat([whole, whole], axis).narrow(axis, 0, whole.shape[axis])
    return whole


def broadcast(chance: Random, shape: list[int]) -> list[int]:
    """A shape that can be broadcast to this one."""
    kept = shape[chance.randint(0, len(shape)) if chance.random() < 0.4 else 0 :]
    return [1 if chance.random() < 0.25 else n for n in kept]


# Operators that go through elements one by one: arguments are made from the schema

_INTEGERS = {"bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift"}
_GIVEN: Mapping[str, dict[str, Any]] = {
    "clamp": {"min": 0.3},
    "elu_backward": {"is_result": False},
    "gelu_backward": {"approximate": "none"},
    "hardtanh_backward": {"min_val": -1.0, "max_val": 1.0},
    "_to_copy": {"dtype": torch.float32},
}
_ABOVE_ONE = {"acosh", "special_zeta"}
_OFTEN_EQUAL = {"eq", "ne", "heaviside"}
_OVERLOADS = {"clamp": "default", "where": "self", "masked_fill": "Scalar", "special_zeta": "default"}


def each(name: str) -> Maker:
    """A call of an operator on tensors that are broadcast to the first."""
    func = _functional(name)

    def make(chance: Random) -> Case:
        shape = shape_of(chance)
        args: list[Any] = []
        kwargs = dict(_GIVEN.get(name, {}))
        for argument in func._schema.arguments:
            kind = str(argument.type)
            if argument.name in _GIVEN.get(name, {}) and not argument.kwarg_only:
                args.append(kwargs.pop(argument.name))
                continue
            if argument.name in kwargs or (argument.has_default_value() and kind != "Tensor"):
                continue
            value: Any = 0.5 if kind in ("number", "float") else 1
            if "Tensor" in kind:
                first = not any(isinstance(other, Tensor) for other in args)
                value = laid(chance, _values(name, argument.name, shape if first else broadcast(chance, shape)))
            elif kind == "bool":
                value = False
            if argument.kwarg_only:
                kwargs[argument.name] = value
            else:
                args.append(value)
        return Case(func, args, kwargs)

    return make


def _functional(name: str) -> Any:
    """An overload of an operator that returns something new, of tensors if there is one."""
    packet = getattr(_aten, name)
    wanted = [_OVERLOADS.get(name), "Tensor", "default", "self", "Tensor_Scalar", *packet.overloads()]
    return getattr(packet, next(o for o in wanted if o in packet.overloads()))


def _values(name: str, argument: str, shape: list[int]) -> Tensor:
    if name in _INTEGERS:
        return torch.randint(0, 4, shape)
    if argument in ("condition", "mask") or name.startswith("logical"):
        return torch.rand(shape) < 0.5
    if name in _OFTEN_EQUAL:
        return tensor(*shape).round()
    if name in _ABOVE_ONE:
        return tensor(*shape, low=1.1, high=1.9)
    if name in ("threshold_backward", "hardtanh_backward", "relu"):
        return signed(*shape) if argument == "self" else tensor(*shape)
    return tensor(*shape)


# The others


def _keeping(name: str) -> Maker:
    def make(chance: Random) -> Case:
        shape = [n + 1 for n in shape_of(chance)]
        axis = chance.randrange(-len(shape), len(shape))
        x = laid(chance, signed(*shape))
        func: Any = getattr(_aten, name)
        if name == "flip":
            return Case(func.default, (x, [axis]))
        if name == "roll":
            return Case(func.default, (x, [1], [axis]))
        if name in ("glu", "glu_backward"):
            shape[axis] *= 2
            doubled = signed(*shape)
            given = (doubled, axis) if name == "glu" else (torch.nn.functional.glu(doubled, axis), doubled, axis)
            return Case(func.default, given)
        if name in ("_softmax_backward_data", "_log_softmax_backward_data"):
            return Case(func.default, (signed(*shape), torch.softmax(x, axis), axis, torch.float64))
        if name in ("_softmax", "_log_softmax"):
            return Case(func.default, (x, axis, False))
        if name in ("softmax", "log_softmax"):
            return Case(func.int, (x, axis))
        if name == "topk":
            return Case(func.default, (x, 1, axis))
        return Case(func.default, (x, axis))

    return make


def _reducing(name: str) -> Maker:
    def make(chance: Random) -> Case:
        shape = [n + 1 for n in shape_of(chance, 2)]
        x = laid(chance, signed(*shape))
        axis = chance.randrange(-len(shape), len(shape))
        packet = getattr(_aten, name)
        if name in ("all", "any"):
            return Case(packet.dim, (x > 0, axis), {"keepdim": chance.random() < 0.5})
        if name in ("max", "min", "median", "nanmedian"):
            return Case(packet.dim, (x, axis), {"keepdim": chance.random() < 0.5})
        keep = {"keepdim": chance.random() < 0.5}
        if name in ("std", "std_mean", "var", "var_mean"):
            return Case(packet.correction, (x, [axis]), keep)
        if name == "prod":
            return Case(packet.dim_int, (x, axis), keep)
        if name == "aminmax":
            return Case(packet.default, (x,), {"dim": axis, **keep})
        if name in ("argmax", "argmin"):
            return Case(packet.default, (x, axis), keep)
        return Case(packet.default, (x, [axis]), keep)

    return make


def _summing(name: str) -> Maker:
    def make(chance: Random) -> Case:
        x = laid(chance, signed(*shape_of(chance)))
        axes = chance.sample(range(x.dim()), chance.randint(1, x.dim()))
        packet = getattr(_aten, name)
        if chance.random() < 0.2 and name != "nansum":
            return Case(packet.default, (x,))
        keep = chance.random() < 0.5
        return Case({"sum": _aten.sum.dim_IntList, "mean": _aten.mean.dim}.get(name, packet.default), (x, axes, keep))

    return make


def _loss(name: str) -> Maker:
    def make(chance: Random) -> Case:
        shape = shape_of(chance)
        return Case(getattr(_aten, name).default, (signed(*shape), signed(*shape), chance.randrange(3)))

    return make


def _new(name: str) -> Maker:
    def make(chance: Random) -> Case:
        shape, x = shape_of(chance), tensor(*shape_of(chance))
        args: tuple[Any, ...] = (shape,)
        if name == "arange":
            args = (7,)
        elif name == "full":
            args = (shape, 0.5)
        elif name == "full_like":
            args = (x, 0.5)
        elif name == "new_full":
            args = (x, shape, 0.5)
        elif name == "new_empty_strided":
            args = (x, shape, list(torch.empty(shape).stride()))
        elif name.endswith("_like"):
            args = (x,)
        elif name.startswith("new_"):
            args = (x, shape)
        packet = getattr(_aten, name)
        return Case(packet.memory_format if name == "empty" else packet.default, args)

    return make


def _reshaped(name: str) -> Maker:
    def make(chance: Random) -> Case:
        shape = [chance.choice([1, 2, 3, 4, 6]) for _ in range(chance.randint(1, 4))]
        x = tensor(*shape)
        func = getattr(_aten, name).default
        if name in ("alias", "detach"):
            return Case(func, (laid(chance, x),))
        if name == "squeeze":
            return Case(func, (laid(chance, x),))
        if name == "unsqueeze":
            return Case(func, (laid(chance, x), chance.randint(0, x.dim())))
        into = _factors(chance, x.numel())
        if name == "_reshape_alias":
            return Case(func, (x, into, list(torch.empty(into).stride())))
        return Case(func, (x, into))

    return make


def _factors(chance: Random, count: int) -> list[int]:
    shape = []
    while count > 1 and len(shape) < 4:
        part = chance.choice([n for n in range(1, count + 1) if count % n == 0])
        shape.append(part)
        count //= part
    return [*shape, count]


def _view(name: str) -> Maker:
    def make(chance: Random) -> Case:
        shape = [n + 1 for n in shape_of(chance)]
        x = laid(chance, tensor(*shape))
        rank, axis = len(shape), chance.randrange(-len(shape), len(shape))
        packet = getattr(_aten, name)
        if name == "permute":
            return Case(packet.default, (x, chance.sample(range(rank), rank)))
        if name == "t":
            return Case(packet.default, (laid(chance, tensor(*shape[:2])),))
        if name == "transpose":
            return Case(packet.int, (x, axis, chance.randrange(rank)))
        if name == "expand":
            ones = [1 if chance.random() < 0.4 else n for n in shape]
            return Case(packet.default, (tensor(*ones), [2, *shape] if chance.random() < 0.5 else shape))
        if name == "slice":
            begin = chance.randrange(-shape[axis], shape[axis])
            return Case(packet.Tensor, (x, axis, begin, chance.choice([2**63 - 1, shape[axis]]), chance.randint(1, 2)))
        if name == "select":
            return Case(packet.int, (x, axis, chance.randrange(shape[axis])))
        if name == "split":
            return Case(packet.Tensor, (x, chance.randint(1, shape[axis]), axis))
        if name == "split_with_sizes":
            return Case(packet.default, (x, [1, shape[axis] - 1], axis))
        return Case(packet.int, (x, axis))  # unbind

    return make


def _cat(chance: Random) -> Case:
    shape = shape_of(chance)
    axis = chance.randrange(len(shape))
    parts = [laid(chance, tensor(*shape[:axis], n, *shape[axis + 1 :])) for n in (2, 1, 3)]
    empty = [torch.empty(0, dtype=torch.float64)] if chance.random() < 0.2 else []
    return Case(_aten.cat.default, ([*empty, *parts], axis))


def _stack(chance: Random) -> Case:
    shape = shape_of(chance)
    parts = [laid(chance, tensor(*shape)) for _ in range(2)]
    return Case(_aten.stack.default, (parts, chance.randrange(-len(shape) - 1, len(shape) + 1)))


def _pad(chance: Random) -> Case:
    shape = [n + 2 for n in shape_of(chance)]
    pad = [chance.randint(-1, 2) for _ in range(2 * chance.randint(1, len(shape)))]
    return Case(_aten.constant_pad_nd.default, (laid(chance, tensor(*shape)), pad, 0.5))


def _edged(name: str) -> Maker:
    def make(chance: Random) -> Case:
        if name == "repeat":
            shape = shape_of(chance)
            return Case(_aten.repeat.default, (tensor(*shape), [chance.randint(1, 2) for _ in shape]))
        count = int(name[-2])
        pad = [chance.randint(0, 1) for _ in range(2 * count)]
        return Case(getattr(_aten, name).default, (tensor(2, 3, *[3] * count), pad))

    return make


def _copy(chance: Random) -> Case:
    shape = shape_of(chance)
    return Case(_aten.copy.default, (tensor(*shape), laid(chance, tensor(*broadcast(chance, shape)))))


def _shuffle(name: str) -> Maker:
    def make(chance: Random) -> Case:
        front, c, h, w = shape_of(chance, 0, 2), *(chance.randint(1, 3) for _ in range(3))
        shape = [*front, 4 * c, h, w] if name == "pixel_shuffle" else [*front, c, 2 * h, 2 * w]
        return Case(getattr(_aten, name).default, (tensor(*shape), 2))

    return make


def _placed(name: str) -> Maker:
    def make(chance: Random) -> Case:
        shape = [n + 1 for n in shape_of(chance)]
        axis = chance.randrange(len(shape))
        if name == "select_backward":
            part = [*shape[:axis], *shape[axis + 1 :]]
            return Case(_aten.select_backward.default, (tensor(*part), shape, axis, chance.randrange(shape[axis])))
        begin, step = chance.randrange(-shape[axis], shape[axis]), chance.randint(1, 2)
        part = torch.zeros(shape).narrow(axis, 0, shape[axis])[(slice(None),) * axis + (slice(begin, None, step),)]
        args = (tensor(*part.shape), shape, axis, begin, 2**63 - 1, step)
        return Case(_aten.slice_backward.default, args)

    return make


def _triangle(name: str) -> Maker:
    def make(chance: Random) -> Case:
        x = laid(chance, tensor(*shape_of(chance, 0, 2), 5, 4))
        return Case(getattr(_aten, name).default, (x, -3 if name == "triu" else 1))

    return make


def _product(name: str) -> Maker:
    def make(chance: Random) -> Case:
        b, i, j, k = (chance.randint(1, 4) for _ in range(4))
        packet = getattr(_aten, name).default
        shapes = {
            **{"mm": ([i, j], [j, k]), "bmm": ([b, i, j], [b, j, k]), "mv": ([i, j], [j]), "dot": ([j], [j])},
            **{"addmm": ([i, j], [j, k]), "addmv": ([i, j], [j]), "baddbmm": ([b, i, j], [b, j, k])},
        }
        added = {"addmm": [i, k], "addmv": [i], "baddbmm": [b, i, k]}
        sides = [laid(chance, signed(*shape)) for shape in shapes[name]]
        first = [signed(*broadcast(chance, added[name]))] if name in added else []
        return Case(packet, (*first, *sides))

    return make


def _linear(chance: Random) -> Case:
    front, i, o = shape_of(chance, 1, 3), chance.randint(1, 4), chance.randint(1, 4)
    bias = signed(o) if chance.random() < 0.5 else None
    return Case(_aten.linear.default, (laid(chance, signed(*front, i)), signed(o, i), bias))


def _matmul(chance: Random) -> Case:
    front, i, j, k = shape_of(chance, 0, 2), *(chance.randint(1, 4) for _ in range(3))
    return Case(_aten.matmul.default, (signed(*broadcast(chance, front), i, j), signed(*front, j, k)))


def _attention(name: str) -> Maker:
    def make(chance: Random) -> Case:
        b, h, t, s, d = (chance.randint(1, 3) for _ in range(5))
        shapes = [b, h, t, d], [b, h, s, d], [b, h, s, d]
        ways = [signed(*shape) if chance.random() < 0.5 else _heads_inside(*shape) for shape in shapes]
        mask = signed(*broadcast(chance, [b, h, t, s])) if chance.random() < 0.5 else None
        if mask is not None and mask.dim() not in (2, 4):
            mask = None
        causal = mask is None and chance.random() < 0.3
        if name == "scaled_dot_product_attention":
            return Case(_aten.scaled_dot_product_attention.default, (*ways, mask, 0.0, causal))
        how = {"attn_mask": mask} if mask is not None else {}
        func = _aten._scaled_dot_product_flash_attention_for_cpu
        if name.endswith("backward"):
            out, log = func.default(*ways, 0.0, causal, **how)
            func = _aten._scaled_dot_product_flash_attention_for_cpu_backward
            args = (signed(*out.shape), *ways, out, log, 0.0, causal)
            return Case(func.default, args, how, shared=(0,))
        return Case(func.default, (*ways, 0.0, causal), how)

    return make


def _heads_inside(b: int, h: int, t: int, d: int) -> Tensor:
    return signed(b, t, h, d).transpose(1, 2)


def _norm(name: str) -> Maker:
    def make(chance: Random) -> Case:
        func = getattr(_aten, name).default
        if "layer" in name:
            shape = [n + 1 for n in shape_of(chance, 2, 4)]
            inner = shape[chance.randint(1, len(shape) - 1) :]
            x, weight, bias = laid(chance, signed(*shape)), signed(*inner), signed(*inner)
            if "backward" not in name:
                return Case(func, (x, inner, weight, bias, 1e-5))
            _, mean, rstd = _aten.native_layer_norm.default(x, inner, weight, bias, 1e-5)
            mask = [chance.random() < 0.8, True, chance.random() < 0.8]
            return Case(func, (signed(*shape), x, inner, mean, rstd, weight, bias, mask), shared=(0,))
        n, groups, size, *inside = (chance.randint(1, 3) for _ in range(5))
        channels = groups * size
        x, weight, bias = signed(n, channels, *inside), signed(channels), signed(channels)
        if "group" in name:
            sizes = (n, channels, inside[0] * inside[1], groups)
            if "backward" not in name:
                return Case(func, (x, weight, bias, *sizes, 1e-5))
            _, mean, rstd = _aten.native_group_norm.default(x, weight, bias, *sizes, 1e-5)
            return Case(func, (signed(*x.shape), x, mean, rstd, weight, *sizes, [True] * 3), shared=(0,))
        mean, var = signed(channels), tensor(channels)
        trains = chance.random() < 0.5
        if name == "native_batch_norm_backward":
            _, kept, inverse = _aten.native_batch_norm.default(x, weight, bias, None, None, True, 0.1, 1e-5)
            given = (mean, var, kept, inverse) if trains else (mean, var, None, None)
            return Case(func, (signed(*x.shape), x, weight, *given, trains, 1e-5, [True] * 3), shared=(0,))
        if name == "_native_batch_norm_legit":
            return Case(_aten._native_batch_norm_legit.no_stats, (x, weight, bias, True, 0.1, 1e-5))
        if name == "_native_batch_norm_legit_no_training":
            return Case(func, (x, weight, bias, mean, var, 0.1, 1e-5))
        given = (None, None, True) if trains else (mean, var, False)
        return Case(func, (x, weight, bias, *given, 0.1, 1e-5))

    return make


def _convolution(name: str) -> Maker:
    def make(chance: Random) -> Case:
        rank = chance.choice([1, 2, 2, 3])
        groups, small, wide = chance.choice([1, 1, 1, 2]), chance.randint(1, 2), chance.randint(1, 2)
        transposed = chance.random() < 0.4
        kernel, stride, dilation = ([chance.randint(1, m) for _ in range(rank)] for m in (3, 3, 2))
        padding = [chance.randint(0, d * (k - 1)) for k, d in zip(kernel, dilation, strict=True)]
        extra = [chance.randrange(max(s, d)) if transposed else 0 for s, d in zip(stride, dilation, strict=True)]
        inputs, outputs = small * groups, wide * groups
        size = [chance.randint(6, 7) if rank < 3 else 5 for _ in range(rank)]
        x = signed(chance.randint(1, 2), inputs, *size)
        weight = signed(inputs, wide, *kernel) if transposed else signed(outputs, small, *kernel)
        bias = signed(outputs) if chance.random() < 0.5 else None
        how = (stride, padding, dilation, transposed, extra, groups)
        gaps = max(dilation) > 1 or (transposed and any(s > k for s, k in zip(stride, kernel, strict=True)))
        gaps = gaps or any(s > 1 for s in stride)
        if name == "convolution":
            return Case(_aten.convolution.default, (x, weight, bias, *how), gaps=gaps)
        y = _aten.convolution.default(x, weight, bias, *how)
        mask = chance.choice([[True] * 3, [True] * 3, [True, True, False], [False, True, True], [True, False, False]])
        args = (signed(*y.shape), x, weight, [outputs], *how, mask)
        return Case(_aten.convolution_backward.default, args, gaps=True, shared=(1,) if transposed else (0,))

    return make


def _pooling(name: str) -> Maker:
    rank = 3 if "3d" in name else 2

    def make(chance: Random) -> Case:
        kernel, stride = ([chance.randint(1, 3) for _ in range(rank)] for _ in range(2))
        padding = [chance.randint(0, k // 2) for k in kernel]
        x = signed(*[chance.randint(1, 2) for _ in range(chance.randint(1, 2))], *[6 if rank == 2 else 5] * rank)
        ceil = chance.random() < 0.4
        backward = name.endswith("backward")
        if name.startswith("avg"):
            how = (kernel, stride, padding, ceil, chance.random() < 0.5, None)
            func = getattr(_aten, f"avg_pool{rank}d")
            if not backward:
                return Case(func.default, (x, *how))
            y = func.default(x, *how)
            return Case(getattr(_aten, name).default, (signed(*y.shape), x, *how), gaps=True)
        dilation = [chance.randint(1, 2) for _ in range(rank)]
        args = (x, kernel, stride, padding, dilation, ceil)
        func = getattr(_aten, f"max_pool{rank}d_with_indices")
        if not backward:
            return Case(func.default, args, gaps=max(dilation) > 1)
        y, places = func.default(*args)
        return Case(getattr(_aten, name).default, (signed(*y.shape), *args, places), gaps=True, kept=(2,))

    return make


def _adaptive(name: str) -> Maker:
    rank = 3 if "3d" in name else 2

    def make(chance: Random) -> Case:
        size, into = ([chance.randint(1, 7 if rank == 2 else 4) for _ in range(rank)] for _ in range(2))
        x = signed(*[chance.randint(1, 2) for _ in range(chance.randint(1, 2))], *size)
        func = getattr(_aten, name.removesuffix("_backward")).default
        if not name.endswith("backward"):
            return Case(func, (x, into))
        y = func(x, into)
        if "max" in name:
            return Case(getattr(_aten, name).default, (signed(*y[0].shape), x, y[1]), gaps=True, kept=(2,))
        return Case(getattr(_aten, name).default, (signed(*y.shape), x))

    return make


def _resized(name: str) -> Maker:
    rank = next(n for n in (1, 2, 3) if f"{n}d" in name)
    smooth = "nearest" not in name

    def make(chance: Random) -> Case:
        x = signed(*(chance.randint(1, 2) for _ in range(2)), *(chance.randint(1, 5) for _ in range(rank)))
        factors = [chance.choice([1.0, 2.0, 3.0, 1.5]) for _ in range(rank)]
        into = [int(n * f) for n, f in zip(x.shape[2:], factors, strict=True)]
        by_scale = chance.random() < 0.5
        if not by_scale and chance.random() < 0.5:
            into = [chance.randint(1, 7) for _ in range(rank)]
        aligned = [chance.random() < 0.3] if smooth else []
        scales = factors if by_scale else [None] * rank
        plain = getattr(_aten, name.removesuffix("_backward")).default
        if not name.endswith("backward"):
            return Case(plain, (x, into, *aligned, *scales), gaps=True, finite=True)
        y = plain(x, into, *aligned, *scales)
        args = (signed(*y.shape), into, list(x.shape), *aligned, *scales)
        return Case(getattr(_aten, name).default, args, gaps=True, finite=True)

    return make


def _embedding(chance: Random) -> Case:
    return Case(_aten.embedding.default, (signed(5, 3), torch.randint(0, 5, shape_of(chance, 1, 3))))


def _embedding_backward(chance: Random) -> Case:
    shape = shape_of(chance, 1, 3)
    args = (signed(*shape, 3), torch.randint(0, 5, shape), 5, chance.choice([-1, 2]), chance.random() < 0.3)
    return Case(_aten.embedding_dense_backward.default, args)


def _rows(name: str) -> Maker:
    def make(chance: Random) -> Case:
        shape = [n + 1 for n in shape_of(chance)]
        axis = chance.randrange(len(shape))
        x = laid(chance, signed(*shape))
        packet = getattr(_aten, name)
        if name == "index_select":
            return Case(packet.default, (x, axis, torch.randint(0, shape[axis], (3,))))
        smaller = [n if k == axis or chance.random() < 0.7 else n - 1 for k, n in enumerate(shape)]
        index = torch.randint(0, shape[axis], smaller)
        if name == "gather":
            return Case(packet.default, (x, axis, index))
        return Case(packet.src if name == "scatter" else packet.default, (x, axis, index, signed(*smaller)))

    return make


def _index(name: str) -> Maker:
    def make(chance: Random) -> Case:
        shape = [n + 1 for n in shape_of(chance, 2, 4)]
        taken = set(chance.sample(range(len(shape)), chance.randint(1, 2)))
        rows = shape_of(chance, 1, 2)
        first = min(taken)
        indices = [
            torch.randint(0, shape[k], rows if k == first else broadcast(chance, rows) or [1]) if k in taken else None
            for k in range(max(taken) + 1)
        ]
        x = signed(*shape)
        if name == "index":
            return Case(_aten.index.Tensor, (x, indices))
        values = signed(*_aten.index.Tensor(x, indices).shape)
        return Case(_aten.index_put.default, (x, indices, values, True))

    return make


def _classes(name: str) -> Maker:
    def make(chance: Random) -> Case:
        inside = [chance.randint(1, 3) for _ in range(2)] if "2d" in name else []
        n, c = chance.randint(2, 4), chance.randint(2, 4)
        target = torch.randint(0, c, (n, *inside))
        weight = tensor(c) if chance.random() < 0.5 else None
        x, reduction = signed(n, c, *inside).log_softmax(1), chance.randrange(3)
        args = (x, target, weight, reduction, 1 if chance.random() < 0.2 else -100)
        forward = getattr(_aten, name.replace("backward", "forward")).default
        if name.endswith("forward"):
            return Case(forward, args)
        y, total = forward(*args)
        return Case(getattr(_aten, name).default, (signed(*y.shape), *args, total))

    return make


def _of(names: str, maker: Callable[[str], Maker]) -> dict[str, Maker]:
    return {name: maker(name) for name in names.split()}


_POOLS = "avg_pool2d avg_pool3d max_pool2d_with_indices max_pool3d_with_indices"
_ADAPTIVE = "_adaptive_avg_pool2d _adaptive_avg_pool3d adaptive_max_pool2d adaptive_max_pool3d"
_RESIZED = "nearest1d nearest2d nearest3d linear1d bilinear2d trilinear3d"

OTHERS: Mapping[str, Maker] = {
    **_of("_log_softmax _log_softmax_backward_data _safe_softmax _softmax _softmax_backward_data", _keeping),
    **_of(
        "cummax cummin cumprod cumsum flip glu glu_backward logcumsumexp roll softmax log_softmax sort topk", _keeping
    ),
    **_of("all amax amin any argmax argmin aminmax logsumexp median nanmedian prod std std_mean var", _reducing),
    **_of("var_mean max min", _reducing),
    **_of("mean nansum sum", _summing),
    **_of("huber_loss mse_loss smooth_l1_loss", _loss),
    **_of("arange empty empty_like full full_like new_empty new_empty_strided new_full new_ones new_zeros", _new),
    **_of("ones ones_like zeros zeros_like", _new),
    **_of("_reshape_alias _reshape_copy _unsafe_view alias detach squeeze unsqueeze view view_copy", _reshaped),
    **_of("permute t transpose expand slice select split split_with_sizes unbind", _view),
    **_of("reflection_pad1d reflection_pad2d reflection_pad3d repeat", _edged),
    **_of("replication_pad1d replication_pad2d replication_pad3d", _edged),
    **{"cat": _cat, "stack": _stack, "constant_pad_nd": _pad, "copy": _copy},
    **_of("pixel_shuffle pixel_unshuffle", _shuffle),
    **_of("slice_backward select_backward", _placed),
    **_of("tril triu", _triangle),
    **_of("mm bmm mv dot addmm addmv baddbmm", _product),
    **{"linear": _linear, "matmul": _matmul},
    **_of("_scaled_dot_product_flash_attention_for_cpu scaled_dot_product_attention", _attention),
    **_of("_scaled_dot_product_flash_attention_for_cpu_backward", _attention),
    **_of("native_layer_norm native_layer_norm_backward native_group_norm native_group_norm_backward", _norm),
    **_of("native_batch_norm native_batch_norm_backward _native_batch_norm_legit", _norm),
    **_of("_native_batch_norm_legit_no_training", _norm),
    **_of("convolution convolution_backward", _convolution),
    **_of(" ".join(name + end for name in _POOLS.split() for end in ("", "_backward")), _pooling),
    **_of(" ".join(name + end for name in _ADAPTIVE.split() for end in ("", "_backward")), _adaptive),
    **_of(" ".join(f"upsample_{name}{end}" for name in _RESIZED.split() for end in ("", "_backward")), _resized),
    **{"embedding": _embedding, "embedding_dense_backward": _embedding_backward},
    **_of("index_select gather scatter scatter_add", _rows),
    **_of("index index_put", _index),
    **_of("nll_loss_forward nll_loss2d_forward nll_loss_backward nll_loss2d_backward", _classes),
}


def cases(names: list[str]) -> dict[str, Maker]:
    """A maker of calls for each of these operators."""
    return {name: OTHERS[name] if name in OTHERS else each(name) for name in names}
