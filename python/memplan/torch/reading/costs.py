"""What an operator costs: floating-point operations, as torch counts them, and bytes that it reads and writes.

torch counts by `torch.utils.flop_counter`, where formulas for custom operators are registered too. Some operators are
missing there: attention and recurrent layers on CPUs, products with vectors. Their formulas are below. The gradient of
a weight of a convolution in groups is counted there as if it were in one group; below it is not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor
from torch.utils.flop_counter import flop_registry, sdpa_backward_flop_count, sdpa_flop_count

from ..private import packet_of, schema_of
from .effects import flat_tensors


def cost_of(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any) -> Any:
    """Operations and bytes, one for each; none for a view. Symbolic where sizes are."""
    given = list(flat_tensors([list(args), dict(kwargs)]))
    known = {id(t.untyped_storage()) for t in given}
    if not schema_of(func).is_mutable and all(id(t.untyped_storage()) in known for t in flat_tensors(result)):
        return 0
    flops = flops_of(func, args, kwargs, result) or 0
    return flops + sum(t.numel() * t.element_size() for t in [*given, *flat_tensors(result)])


def flops_of(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any) -> Any:
    """Floating-point operations, an addition and a multiplication being two; None where nothing is known."""
    packet = packet_of(func)
    count = _FORMULAS.get(str(packet)) or flop_registry.get(packet)
    if count is None:
        return None
    try:
        return count(*args, **kwargs, out_val=result)
    except Exception:  # a formula is not worth a failed import
        return None


def _attention(query: Tensor, key: Tensor, value: Tensor, *_: Any, **__: Any) -> int:
    return sdpa_flop_count(query.shape, key.shape, value.shape)  # type: ignore[no-untyped-call, no-any-return]


def _attention_backward(gradient: Tensor, query: Tensor, key: Tensor, value: Tensor, *_: Any, **__: Any) -> int:
    shapes = gradient.shape, query.shape, key.shape, value.shape
    return sdpa_backward_flop_count(*shapes)  # type: ignore[no-untyped-call, no-any-return]


def _convolution_backward(
    gradient: Tensor,
    input: Tensor,
    weight: Tensor,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    mask: tuple[bool, bool, bool],
    out_val: Any = None,
) -> int:
    """Of the input and of the weight, where they are asked for: each as many as forwards."""
    return _convolved(input if transposed else gradient, weight) * (mask[0] + mask[1])


def _convolved(places: Tensor, weight: Tensor) -> int:
    """Where a filter is put, by what it does at each place; `places` have as many channels as the weight has first."""
    return 2 * places.numel() * math.prod(weight.shape[1:])


def _recurrent(times: int) -> Callable[..., int]:
    """A layer of mkldnn, or its backward, that takes so many times as long."""

    def count(input: Tensor, of_input: Tensor, of_hidden: Tensor, *_: Any, **__: Any) -> int:
        return 2 * times * math.prod(input.shape[:2]) * (of_input.numel() + of_hidden.numel())

    return count


def _product(matrix: Tensor, vector: Tensor, *_: Any, **__: Any) -> int:
    return 2 * matrix.numel()


def _added_product(added: Tensor, matrix: Tensor, vector: Tensor, *_: Any, **__: Any) -> int:
    return 2 * matrix.numel()


def _integers(left: Tensor, right: Tensor, *_: Any, **__: Any) -> int:
    return 2 * left.numel() * right.shape[-1]


_FORMULAS: Mapping[str, Callable[..., Any]] = {
    "aten._scaled_dot_product_flash_attention_for_cpu": _attention,
    "aten._scaled_dot_product_flash_attention_for_cpu_backward": _attention_backward,
    "aten._scaled_dot_product_fused_attention_overrideable": _attention,
    "aten._scaled_dot_product_fused_attention_overrideable_backward": _attention_backward,
    "aten.convolution_backward": _convolution_backward,
    "aten.mkldnn_rnn_layer": _recurrent(1),
    "aten.mkldnn_rnn_layer_backward": _recurrent(2),
    "aten.mv": _product,
    "aten.addmv": _added_product,
    "aten.dot": _product,
    "aten._int_mm": _integers,
}
