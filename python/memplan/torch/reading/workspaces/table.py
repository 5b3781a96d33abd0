"""What the kernel of each operator allocates besides its results: a rule for each, by the name in the schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..loops import RULES as LOOPS
from ..loops import spread
from . import composed, convolutions, layers, norms, places, products, resizing, sums
from .called import Called
from .elementwise import elementwise
from .operands import contiguous, in_its_format, in_its_format_3d

Rule = Callable[[Called], int]


def _copies(copy: Callable[[Any], int], names: str) -> Rule:
    """Copies of arguments that do not lie as a kernel takes them."""
    return lambda call: sum(copy(call.tensor(name)) for name in names.split())


def _each(names: str, rule: Rule) -> dict[str, Rule]:
    return dict.fromkeys(names.split(), rule)


_plain, _its, _volume = contiguous, in_its_format, in_its_format_3d

KEPT = {
    "mse_loss",
    "smooth_l1_loss",
    "binary_cross_entropy",
}  # a storage is made for the loss of each element, and holds their sum
LAYERS: Mapping[str, Rule] = {
    "_native_multi_head_attention": layers.attention_layer,
    "_transformer_encoder_layer_fwd": layers.encoder_layer,
}
RULES: Mapping[str, Rule] = {
    **LAYERS,
    "convolution": convolutions.convolution,
    "convolution_backward": convolutions.convolution_backward,
    "binary_cross_entropy": composed.cross_entropy,
    "binary_cross_entropy_backward": composed.cross_entropy_backward,
    "binary_cross_entropy_with_logits": composed.cross_entropy_of_logits,
    "_trilinear": products.trilinear,
    "_embedding_bag_backward": places.bag_backward,
    "_ctc_loss_backward": composed.ctc_loss_backward,
    "native_batch_norm_backward": norms.batch_norm_backward,
    **{name: elementwise for name, rule in LOOPS.items() if rule is spread.elementwise},
    **_each("clone _to_copy lift_fresh_copy masked_fill", lambda call: 0),
    **_each("polar native_dropout_backward", lambda call: 0),
    **_each("_softmax _log_softmax", _copies(_plain, "self")),
    **_each("_softmax_backward_data _log_softmax_backward_data", _copies(_plain, "grad_output output")),
    **_each("_adaptive_avg_pool2d avg_pool2d max_pool2d_with_indices adaptive_max_pool2d", _copies(_its, "self")),
    **_each("avg_pool3d max_pool3d_with_indices", _copies(_volume, "self")),
    **_each("_adaptive_avg_pool2d_backward avg_pool2d_backward", resizing.pooled_backward),
    **_each("max_pool2d_with_indices_backward max_pool3d_with_indices_backward", resizing.pooled_backward),
    "gelu_backward": composed.gelu_backward,
    "adaptive_max_pool2d_backward": resizing.largest_backward,
    **_each("avg_pool3d_backward", _copies(_volume, "grad_output")),
    **_each("_adaptive_avg_pool3d_backward adaptive_max_pool3d_backward", _copies(_plain, "grad_output")),
    **_each("pixel_shuffle pixel_unshuffle", _copies(_its, "self")),
    **_each("reflection_pad1d replication_pad1d", _copies(_plain, "self")),
    **_each("reflection_pad2d replication_pad2d", _copies(_its, "self")),
    **_each("reflection_pad3d replication_pad3d", _copies(_volume, "self")),
    **_each("embedding", _copies(_plain, "indices")),
    **_each("embedding_dense_backward", _copies(_plain, "indices grad_output")),
    **_each("nll_loss_forward nll_loss2d_forward", composed.class_loss),
    "nll_loss2d_backward": composed.class_loss_backward,
    "nll_loss_backward": _copies(_plain, "weight"),
    "log_sigmoid_forward": _copies(_plain, "self"),
    "index_select": composed.selected,
    "native_group_norm": norms.group_norm,
    "nansum": sums.summed_without_gaps,
    "gather": places.gathered,
    "scatter": places.scattered,
    **_each("scatter_add scatter_reduce", places.added),
    "index_add": places.added_along_axis,
    "index_reduce": places.reduced_along_axis,
    **_each("mm addmm", products.product),
    **_each("mv addmv", products.with_vector),
    **_each("_scaled_dot_product_flash_attention_for_cpu", composed.attention),
    **_each("_scaled_dot_product_flash_attention_for_cpu_backward", composed.attention_backward),
    **_each("deg2rad rad2deg", composed.scaled),
    **_each("native_dropout_backward", composed.dropout_backward),
    **_each("isinf", composed.is_infinite),
    **_each("logsumexp", composed.log_sum),
    **_each("repeat", composed.repeated),
    **_each("_safe_softmax", composed.safe_softmax),
    **_each("sort", composed.sorted_places),
    **_each("mse_loss smooth_l1_loss huber_loss", composed.loss),
    **_each("cumsum cumprod logcumsumexp prod", composed.accumulated),
    "copy": composed.copied,
    "native_dropout": composed.dropout,
    "masked_scatter": _copies(_plain, "source"),
    **_each("sum", sums.summed),
    **_each("mean", sums.averaged),
    **_each("std var", sums.spread),
    **_each("native_layer_norm", norms.layer_norm),
    **_each("native_layer_norm_backward", norms.layer_norm_backward),
    **_each("native_group_norm_backward", norms.group_norm_backward),
    **_each("native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_no_training", norms.batch_norm),
    **_each("cat stack", composed.joined),
    **_each("tril triu", composed.triangle),
    **_each("median nanmedian", composed.along_axis),
    **_each("where", composed.where),
    **{name: resizing.resized for name in LOOPS if name.startswith("upsample") and not name.endswith("backward")},
    **{name: resizing.resized_backward for name in LOOPS if name.startswith("upsample") and name.endswith("backward")},
}


def above(call: Called) -> int:
    """Bytes above what the call returns."""
    return max(0, int(RULES[call.name](call)))


def room(call: Called) -> int:
    """Bytes that hold all of it in a place of its own."""
    most = above(call)
    if most and call.name == "convolution":
        return convolutions.room_of_convolution(call)
    return most + sum(t.nbytes for t in call.outputs) if call.name == "convolution_backward" else most
