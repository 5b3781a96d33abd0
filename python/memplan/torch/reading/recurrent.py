"""What oneDNN's kernel of a recurrent layer keeps for the backward pass and needs for itself; measured with torch 2.13.

The kernel keeps gates and states of all steps. It packs weights, and spreads their rows so that they do not meet in
the cache. With AVX2 it does so in other ways than with AVX512; what it rounds to pages is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

_aten: Any = torch.ops.aten
_LAYER = _aten.mkldnn_rnn_layer.default
_BACKWARD = _aten.mkldnn_rnn_layer_backward.default
_OF_STEP, _OF_ELEMENT, _LAYERS = 9.5, 4.75, 6  # as large as so many hidden states is what is kept; inputs, if larger
_OF_ELEMENT_AVX2, _OF_INFERENCE = 4.25, 10
_Sizes = tuple[int, int, int, int, int]  # elements: of the batch, steps, inputs and hidden states; bytes of a number


def with_kept(func: Any, args: Sequence[Any], result: Any) -> Any:
    """What an operator returns, with what it keeps: stand-ins of torch leave that out."""
    if func is not _LAYER or not _keeps(args):
        return result
    batch, steps, inputs, hidden, item = _sizes(args[0], args[10])
    numbers = (steps + 1) * _LAYERS * max(inputs, hidden) + (steps * _OF_STEP + _OF_ELEMENT) * hidden
    if _is_avx2():
        states = (steps + 1) * _LAYERS * _row(max(inputs, hidden))
        numbers = states + steps * _row(4 * hidden) + (5 * steps + _OF_ELEMENT_AVX2) * hidden
    kept = int(batch * item * numbers)
    return (*result[:3], torch.empty(kept, dtype=torch.uint8, device=args[0].device))


def workspace_of_layer(func: Any, args: Sequence[Any]) -> int:
    """Bytes that the kernel takes above what it returns; 0 for others."""
    if func is _LAYER:
        sizes = _sizes(args[0], args[10])
        if _is_avx2() and not _keeps(args):
            return _of_inference(sizes)
        return _packed(sizes) + _scratch(sizes) + (0 if _keeps(args) else _copied(sizes))
    if func is _BACKWARD:
        sizes = _sizes(args[0], args[15])
        batch, steps, _, hidden, item = sizes
        if _is_avx2():
            rest = 2 * batch * hidden * item + 4 * hidden * item
            copy = 0 if args[10].is_contiguous() else batch * steps * hidden * item
            return rest + copy + _spread(sizes) + _packed(sizes) + _scratch(sizes)
        gradients = batch * hidden * item * (steps + 2)
        return gradients + _spread(sizes) + _packed(sizes) + _scratch(sizes)
    return 0


def _of_inference(sizes: _Sizes) -> int:
    """Weights as they are, and gates of all steps; inputs too that are wider than states."""
    batch, steps, inputs, hidden, item = sizes
    weights = (inputs + hidden + 1) * 4 * hidden * item
    wide = _row(inputs) * (steps + _OF_INFERENCE) if inputs > hidden else _OF_INFERENCE * hidden
    return weights + batch * item * (4 * hidden * steps + wide)


def _is_avx2() -> bool:
    return torch.backends.cpu.get_cpu_capability() == "AVX2"


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


def _copied(sizes: _Sizes) -> int:
    """The input, if its rows meet in the cache; states with rows as wide as an input that is wider.

    A layer that keeps its states has both there.
    """
    batch, steps, inputs, hidden, item = sizes
    if inputs > hidden:
        return 2 * batch * steps * (_row(inputs) - hidden) * item
    return batch * steps * _row(inputs) * item if _row(inputs) != inputs else 0
