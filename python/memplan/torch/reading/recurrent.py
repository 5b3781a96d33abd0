"""What oneDNN's kernel of a recurrent layer keeps for the backward pass and needs for itself; measured with torch 2.13.

The kernel keeps gates and states of all steps. It packs weights, and spreads their rows so that they do not meet in
the cache. What it rounds to pages is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

_aten: Any = torch.ops.aten
_LAYER = _aten.mkldnn_rnn_layer.default
_BACKWARD = _aten.mkldnn_rnn_layer_backward.default
_OF_STEP, _OF_ELEMENT, _LAYERS = 5, 4.25, 6  # as large as so many hidden states is what is kept, besides gates
_OF_INFERENCE = 10
_Sizes = tuple[int, int, int, int, int]  # elements: of the batch, steps, inputs and hidden states; bytes of a number


def with_kept(func: Any, args: Sequence[Any], result: Any) -> Any:
    """What an operator returns, with what it keeps: stand-ins of torch leave that out."""
    if func is not _LAYER or not _keeps(args):
        return result
    batch, steps, inputs, hidden, item = _sizes(args[0], args[10])
    states = (steps + 1) * _LAYERS * _row(max(inputs, hidden))
    numbers = states + steps * _row(4 * hidden) + (steps * _OF_STEP + _OF_ELEMENT) * hidden
    kept = int(batch * item * numbers)
    return (*result[:3], torch.empty(kept, dtype=torch.uint8, device=args[0].device))


def workspace_of_layer(func: Any, args: Sequence[Any]) -> int:
    """Bytes that the kernel takes above what it returns; 0 for others."""
    if func is _LAYER:
        sizes = _sizes(args[0], args[10])
        return _packed(sizes) + _scratch(sizes) if _keeps(args) else _of_inference(sizes)
    if func is _BACKWARD:
        sizes = _sizes(args[0], args[15])
        batch, steps, _, hidden, item = sizes
        rest = 2 * batch * hidden * item + 4 * hidden * item
        copy = 0 if args[10].is_contiguous() else batch * steps * hidden * item
        return rest + copy + _spread(sizes) + _packed(sizes) + _scratch(sizes)
    return 0


def _of_inference(sizes: _Sizes) -> int:
    """Weights as they are, and gates of all steps.

    If inputs are wider than states, weights may be packed instead. Then states have rows as wide as an input.
    """
    batch, steps, inputs, hidden, item = sizes
    weights = (inputs + hidden + 1) * 4 * hidden * item
    wide = _row(inputs) * (steps + _OF_INFERENCE) if inputs > hidden else _OF_INFERENCE * hidden
    plain = weights + batch * item * (4 * hidden * steps + wide)
    if inputs <= hidden:
        return plain
    return max(plain, _packed(sizes) + _scratch(sizes) + 2 * batch * steps * (_row(inputs) - hidden) * item)


def _keeps(args: Sequence[Any]) -> bool:
    """Whether a backward pass may follow."""
    return bool(args[15] and torch.is_grad_enabled())


def _sizes(x: Tensor, hidden: int) -> _Sizes:
    """The layer gets steps first, whatever the module got."""
    steps, batch = x.shape[:2]
    return batch, steps, x.shape[2], hidden, x.element_size()


def _row(width: int) -> int:
    """Numbers from row to row: whole lines of the cache, and no multiple of 256."""
    whole = -(-width // 16) * 16
    return whole + 16 if whole % 256 == 0 else whole


def _packed(sizes: _Sizes) -> int:
    """Both weights, with a row for each input; and the bias."""
    _, _, inputs, hidden, item = sizes
    return (inputs + hidden) * _row(4 * hidden) * item + 4 * hidden * item


def _spread(sizes: _Sizes) -> int:
    """Weights with a row for each gate, as far as they do not lie so."""
    _, _, inputs, hidden, item = sizes
    return sum(4 * hidden * _row(width) * item for width in (inputs, hidden) if _row(width) != width)


def _scratch(sizes: _Sizes) -> int:
    batch, steps, _, hidden, item = sizes
    return batch * item * (steps * _row(4 * hidden) + 2 * _row(hidden))
