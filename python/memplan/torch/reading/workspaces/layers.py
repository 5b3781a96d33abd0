"""Layers that run as one op."""

from __future__ import annotations

from torch import Tensor

from .called import Called


def attention_layer(call: Called) -> int:
    """Above the result."""
    x = call.given("query")
    return _attention(x, call["num_head"]) - x.nbytes


def encoder_layer(call: Called) -> int:
    """Of its attention, or of its wide layer."""
    x = call.given("src")
    wide = int(call.given("ffn_weight_1").shape[0])
    return max(_attention(x, call["num_heads"]), 2 * x.nbytes + x.nbytes // x.shape[-1] * wide) - x.nbytes


def _attention(x: Tensor, heads: int) -> int:
    """A query, a key and a value, twice; or once and the scores."""
    batch, length = x.shape[:2]
    return 3 * x.nbytes + max(3 * x.nbytes, batch * heads * length * length * x.element_size())
