"""Calls of operators with kernels of their own: products, attention, norms, windows, resizes, lookups."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import torch
from torch import Tensor

from builders.loop_shapes import Maker, broadcast, laid, shape_of, signed, tensor
from oracles.poison import Case

_aten: Any = torch.ops.aten


def product(name: str) -> Maker:
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


def linear(chance: Random) -> Case:
    front, i, o = shape_of(chance, 1, 3), chance.randint(1, 4), chance.randint(1, 4)
    bias = signed(o) if chance.random() < 0.5 else None
    return Case(_aten.linear.default, (laid(chance, signed(*front, i)), signed(o, i), bias))


def matmul(chance: Random) -> Case:
    front, i, j, k = shape_of(chance, 0, 2), *(chance.randint(1, 4) for _ in range(3))
    return Case(_aten.matmul.default, (signed(*broadcast(chance, front), i, j), signed(*front, j, k)))


def attention(name: str) -> Maker:
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


def norm(name: str) -> Maker:
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


def convolution(name: str) -> Maker:
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


def pooling(name: str) -> Maker:
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
        passed_over = any(math.gcd(s, d) > 1 for s, d in zip(stride, dilation, strict=True))
        gradient = signed(*y.shape)
        return Case(getattr(_aten, name).default, (gradient, *args, places), gaps=True, idle=passed_over, kept=(2,))

    return make


def adaptive(name: str) -> Maker:
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


def resized(name: str) -> Maker:
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


def embedding(chance: Random) -> Case:
    return Case(_aten.embedding.default, (signed(5, 3), torch.randint(0, 5, shape_of(chance, 1, 3))))


def embedding_backward(chance: Random) -> Case:
    shape = shape_of(chance, 1, 3)
    args = (signed(*shape, 3), torch.randint(0, 5, shape), 5, chance.choice([-1, 2]), chance.random() < 0.3)
    return Case(_aten.embedding_dense_backward.default, args)


def rows(name: str) -> Maker:
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


def index(name: str) -> Maker:
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
        if name.endswith("index"):
            return Case(getattr(_aten, name).Tensor, (x, indices))
        values = signed(*_aten.index.Tensor(x, indices).shape)
        return Case(getattr(_aten, name).default, (x, indices, values, True))

    return make


def classes(name: str) -> Maker:
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
