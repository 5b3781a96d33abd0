"""Calls of operators of torch over random shapes, strides and arguments: at least one for each rule about loops.

A maker, `cases([name])[name](chance)`, gives a call: the shapes come from `chance`, the values from torch's own
generator. So a second call with the same state of `chance` has the same form and other values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import torch
from torch import Tensor

from builders import loop_kernels as kernels
from builders.loop_shapes import Maker, broadcast, laid, shape_of, signed, tensor
from oracles.poison import Case

_aten: Any = torch.ops.aten


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
            rare = x > 1 if name == "any" else x < 1  # so that one row makes the difference
            return Case(packet.dim, (rare, axis), {"keepdim": chance.random() < 0.5})
        if name in ("max", "min", "median", "nanmedian"):
            return Case(packet.dim, (x, axis), {"keepdim": chance.random() < 0.5})
        keep = {"keepdim": chance.random() < 0.5}
        if name in ("std", "std_mean", "var", "var_mean"):
            axes = chance.sample(range(len(shape)), chance.randint(1, len(shape)))
            return Case(packet.correction, (x, axes), {**keep, "correction": chance.choice((0, 1))})
        if name == "linalg_vector_norm":
            return Case(packet.default, (x, chance.choice((1, 2, 3.0, torch.inf)), [axis]), keep)
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
        pad = [chance.randint(0, 2) for _ in range(2 * count)]
        return Case(
            getattr(_aten, name).default, (tensor(2, 3, *[chance.randint(3, 6) for _ in range(count)]), pad), idle=True
        )

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


def _written_into(name: str) -> Maker:
    def make(chance: Random) -> Case:
        shape = [n + 1 for n in shape_of(chance)]
        x, axis = laid(chance, tensor(*shape)), chance.randrange(-len(shape), len(shape))
        if name == "select_scatter":
            place = chance.randrange(-shape[axis], shape[axis])
            part = laid(chance, x.select(axis, place).clone())
            return Case(_aten.select_scatter.default, (x, part, axis, place))
        begin, end = chance.randrange(-shape[axis], 0), chance.choice([2**63 - 1, -1, shape[axis]])
        part = laid(chance, _aten.slice.Tensor(x, axis, begin, end).clone())
        return Case(_aten.slice_scatter.default, (x, part, axis, begin, end), idle=True)

    return make


def _restrided(name: str) -> Maker:
    def make(chance: Random) -> Case:
        shape = [chance.choice([1, 2, 3, 4, 6]) for _ in range(chance.randint(1, 4))]
        into = _factors(chance, tensor(*shape).numel())
        return Case(getattr(_aten, name).default, (tensor(*shape), into, list(torch.empty(into).stride())))

    return make


def _triangle(name: str) -> Maker:
    def make(chance: Random) -> Case:
        x = laid(chance, tensor(*shape_of(chance, 0, 2), 5, 4))
        return Case(getattr(_aten, name).default, (x, -3 if name == "triu" else 1), idle=True)

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
    **_of("var_mean linalg_vector_norm", _reducing),
    **_of("max min", _reducing),
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
    **_of("slice_scatter select_scatter", _written_into),
    **_of("as_strided", _restrided),
    **_of("tril triu", _triangle),
    **_of("mm bmm mv dot addmm addmv baddbmm", kernels.product),
    **{"linear": kernels.linear, "matmul": kernels.matmul},
    **_of("_scaled_dot_product_flash_attention_for_cpu scaled_dot_product_attention", kernels.attention),
    **_of("_scaled_dot_product_flash_attention_for_cpu_backward", kernels.attention),
    **_of("native_layer_norm native_layer_norm_backward native_group_norm native_group_norm_backward", kernels.norm),
    **_of("native_batch_norm native_batch_norm_backward _native_batch_norm_legit", kernels.norm),
    **_of("_native_batch_norm_legit_no_training", kernels.norm),
    **_of("convolution convolution_backward", kernels.convolution),
    **_of(" ".join(name + end for name in _POOLS.split() for end in ("", "_backward")), kernels.pooling),
    **_of(" ".join(name + end for name in _ADAPTIVE.split() for end in ("", "_backward")), kernels.adaptive),
    **_of(" ".join(f"upsample_{name}{end}" for name in _RESIZED.split() for end in ("", "_backward")), kernels.resized),
    **{"embedding": kernels.embedding, "embedding_dense_backward": kernels.embedding_backward},
    **_of("index_select gather scatter scatter_add", kernels.rows),
    **_of("index index_put _unsafe_index _unsafe_index_put", kernels.index),
    **_of("nll_loss_forward nll_loss2d_forward nll_loss_backward nll_loss2d_backward", kernels.classes),
}


def cases(names: list[str]) -> dict[str, Maker]:
    """A maker of calls for each of these operators."""
    return {name: OTHERS[name] if name in OTHERS else each(name) for name in names}
