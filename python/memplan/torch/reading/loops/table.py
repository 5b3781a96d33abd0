"""Along which loops operators of torch may be split: a rule for each, by its name in the schema.

An operator that is not here says nothing, and is not split: what draws from a generator, what writes to its inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from torch import Tensor

from ...private import OpOverload, schema_of
from ..effects import flat_tensors
from . import lookups, norms, products, resizing, spread, views, window_ops
from .calls import Call, Loop
from .forms import form_of_call, keep, known, loop_of, shape_of

Rule = Callable[[Call], Iterator[Loop]]

_EACH = """
    abs acos acosh add addcdiv addcmul angle asin asinh atan atan2 atanh bitwise_and bitwise_left_shift bitwise_not
    bitwise_or bitwise_right_shift bitwise_xor ceil celu clamp clamp_max clamp_min clone copysign cos cosh deg2rad
    digamma div elu eq erf erfc erfinv exp exp2 expm1 floor floor_divide fmax fmin fmod frac ge gelu gt hardshrink
    hardsigmoid hardswish hardtanh heaviside hypot isfinite isinf isnan isneginf isposinf le leaky_relu lerp lgamma
    lift_fresh_copy log log10 log1p log2 log_sigmoid_forward logaddexp logaddexp2 logical_and logical_not logical_or
    logical_xor logit lt masked_fill maximum minimum mish mul nan_to_num ne neg nextafter polar pow rad2deg reciprocal
    relu relu6 remainder round rsqrt rsub selu sgn sigmoid sign signbit silu sin sinc sinh softplus softshrink sqrt
    square sub tan tanh threshold trunc where xlogy _conj_physical _to_copy special_entr special_erfcx special_i0e
    special_i1 special_i1e special_log_ndtr special_ndtri special_xlog1py special_zeta i0
    elu_backward gelu_backward hardsigmoid_backward hardswish_backward hardtanh_backward leaky_relu_backward
    log_sigmoid_backward logit_backward mish_backward native_dropout_backward sigmoid_backward silu_backward
    softplus_backward softshrink_backward hardshrink_backward tanh_backward threshold_backward
"""
_NEW = """
    arange empty empty_like full full_like new_empty new_empty_strided new_full new_ones new_zeros
    ones ones_like zeros zeros_like
"""
_KEEPING = """
    _safe_softmax cummax cummin cumprod cumsum flip glu glu_backward logcumsumexp roll softmax log_softmax sort topk
"""
_REDUCING = "all any argmax argmin aminmax logsumexp median nanmedian prod"
_LOSSES = "huber_loss mse_loss smooth_l1_loss"
_RESHAPED = "_reshape_alias _reshape_copy _unsafe_view alias detach squeeze unsqueeze view view_copy"


def _named(names: str, rule: Rule) -> dict[str, Rule]:
    return dict.fromkeys(names.split(), rule)


RULES: Mapping[str, Rule] = {
    **_named(_EACH, spread.elementwise),
    **_named(_NEW, spread.created),
    **_named(_KEEPING, spread.keeping),
    **_named("_log_softmax _softmax", spread.softmax),
    "_softmax_backward_data": spread.softmax_gradient,
    "_log_softmax_backward_data": spread.log_softmax_gradient,
    **_named(_REDUCING, spread.reducing),
    **_named("mean nansum sum", spread.summing),
    **_named("std std_mean var var_mean", spread.spreading),
    **_named("amax amin", spread.extreme),
    "linalg_vector_norm": spread.length,
    **_named("max min", spread.largest),
    **_named(_LOSSES, spread.loss),
    "repeat": spread.repeated,
    **_named("reflection_pad1d reflection_pad2d reflection_pad3d", spread.reflected),
    **_named("replication_pad1d replication_pad2d replication_pad3d", spread.replicated),
    **_named(_RESHAPED, views.reshaped),
    "as_strided": views.restrided,
    "cat": spread.joined,
    "stack": spread.stacked,
    "constant_pad_nd": spread.padded,
    "copy": spread.masked_source,
    "pixel_shuffle": spread.shuffled,
    "pixel_unshuffle": spread.unshuffled,
    "slice_backward": spread.placed_slice,
    **_named("select_scatter slice_scatter", spread.written_into),
    "select_backward": spread.placed_select,
    "tril": spread.elementwise,
    "triu": spread.elementwise,
    **_named("permute t transpose", views.permuted),
    "expand": views.expanded,
    "slice": views.sliced,
    **_named("select unbind", views.selected),
    **_named("split split_with_sizes", views.divided),
    "mm": products.mm,
    "bmm": products.bmm,
    "mv": products.mv,
    "dot": products.dot,
    "addmm": products.addmm,
    "addmv": products.addmv,
    "baddbmm": products.baddbmm,
    "linear": products.linear,
    "matmul": products.matmul,
    "_scaled_dot_product_flash_attention_for_cpu": products.attention,
    "_scaled_dot_product_flash_attention_for_cpu_backward": products.attention_backward,
    "scaled_dot_product_attention": products.attention,
    "native_layer_norm": norms.layer_norm,
    "native_layer_norm_backward": norms.layer_norm_backward,
    "native_group_norm": norms.group_norm,
    "native_group_norm_backward": norms.group_norm_backward,
    **_named("native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_no_training", norms.batch_norm),
    "native_batch_norm_backward": norms.batch_norm_backward,
    "convolution": window_ops.convolution,
    "convolution_backward": window_ops.convolution_backward,
    **_named("avg_pool2d avg_pool3d max_pool2d_with_indices max_pool3d_with_indices", window_ops.pooling),
    **_named("avg_pool2d_backward avg_pool3d_backward", window_ops.pooling_backward),
    **_named("max_pool2d_with_indices_backward max_pool3d_with_indices_backward", window_ops.pooling_backward),
    **_named("_adaptive_avg_pool2d _adaptive_avg_pool3d", resizing.adaptive_pooling),
    **_named("adaptive_max_pool2d adaptive_max_pool3d", resizing.adaptive_pooling),
    **_named("_adaptive_avg_pool2d_backward adaptive_max_pool2d_backward", resizing.adaptive_backward_2d),
    **_named("_adaptive_avg_pool3d_backward adaptive_max_pool3d_backward", resizing.adaptive_backward_3d),
    **_named("upsample_nearest1d upsample_nearest2d upsample_nearest3d", resizing.nearest),
    **_named(
        "upsample_nearest1d_backward upsample_nearest2d_backward upsample_nearest3d_backward", resizing.nearest_backward
    ),
    **_named("upsample_linear1d upsample_bilinear2d upsample_trilinear3d", resizing.linear),
    **_named(
        "upsample_linear1d_backward upsample_bilinear2d_backward upsample_trilinear3d_backward",
        resizing.linear_backward,
    ),
    "embedding": lookups.embedding,
    "embedding_dense_backward": lookups.embedding_backward,
    "index_select": lookups.index_select,
    "gather": lookups.gather,
    **_named("scatter scatter_add", lookups.scatter),
    **_named("index _unsafe_index", lookups.index),
    **_named("index_put _unsafe_index_put", lookups.index_put),
    **_named("nll_loss_forward nll_loss2d_forward", lookups.nll_loss),
    **_named("nll_loss_backward nll_loss2d_backward", lookups.nll_loss_backward),
}

# Primitives of Inductor; random numbers are made of a seed and of their places.
_OF_INDUCTOR: Mapping[str, Rule] = {
    "inductor_random": spread.created,
    "fma": spread.elementwise,
    **_named(
        "_low_memory_max_pool_with_offsets _low_memory_max_pool_offsets_to_indices", window_ops.pooling_with_offsets
    ),
}

# Operators that look at the shape of an input and nothing else.
_SHAPE_OF_SELF = {
    *("empty_like", "full_like", "ones_like", "zeros_like"),
    *("new_empty", "new_empty_strided", "new_full", "new_ones", "new_zeros"),
    *("avg_pool2d_backward", "avg_pool3d_backward", "_adaptive_avg_pool2d_backward", "_adaptive_avg_pool3d_backward"),
    *("max_pool2d_with_indices_backward", "max_pool3d_with_indices_backward"),
    *("nll_loss_backward", "nll_loss2d_backward"),
}


def loops_of(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> list[Loop]:
    """The loops along which a call of an operator may be split, each alone; none if nothing is known."""
    name = name_of(func)
    rule = RULES.get(name) or _OF_INDUCTOR.get(name)
    outputs = list(flat_tensors(result))
    if rule is None or not outputs:
        return []
    form = form_of_call(func, args, kwargs, result)
    if form is None:
        return _found(rule, Call(func, args, kwargs, result))
    if form not in known:
        keep(form, [shape_of(loop, outputs) for loop in _found(rule, Call(func, args, kwargs, result))])
    inputs = list(flat_tensors([args, kwargs]))
    return [loop_of(shape, inputs, outputs) for shape in known[form]]


def _found(rule: Rule, call: Call) -> list[Loop]:
    """What a rule says, each loop once: rows of axes of size 1 and others are those of the others."""
    found: dict[object, Loop] = {}
    for loop in rule(call):
        found.setdefault((tuple(rows for _, rows in loop.inputs), tuple(rows for _, rows in loop.writes)), loop)
    return list(found.values())


def unread(func: Any, args: Sequence[Any]) -> int | None:
    """The place among the arguments of a tensor of which an operator reads the shape alone; None if it reads all."""
    if name_of(func) not in _SHAPE_OF_SELF:
        return None
    place = next(k for k, argument in enumerate(schema_of(func).arguments) if argument.name == "self")
    return place if place < len(args) else None


def read_by(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Tensor]:
    """The tensors given to an operator, in order, without one of which it reads the shape alone."""
    place = unread(func, args)
    return list(flat_tensors([[arg for k, arg in enumerate(args) if k != place], kwargs]))


@cache
def name_of(func: Any) -> str:
    """The name of an operator of torch's own, or of a primitive of Inductor, without its overload; "" for others."""
    if not isinstance(func, OpOverload):
        return ""
    space, _, name = str(schema_of(func).name).partition("::")
    return name if space == "aten" or name in _OF_INDUCTOR else ""
