"""The update of one parameter by an optimizer's own step: whole, or in pieces.

A step makes temporaries as large as the parameter, several at once. If each number of a parameter is updated by its own
gradient and states alone, the step may run over slices of all of them, one after another. Its temporaries are as large
as a slice then.

Results are equal bit for bit. torch cuts a long loop into a chunk for each thread. A chunk is computed in vectors, and
number by number at its end, which may round otherwise. So a piece ends where a chunk ends, or where a vector does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from ..private import FakeTensor
from ..reading.optimizers import alike, step_of

_ELEMENTWISE = frozenset(
    getattr(torch.optim, name)
    for name in ("SGD", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop", "Adagrad", "Adadelta", "Rprop", "ASGD")
)
_TEMPORARIES = 8  # a step makes at most so many tensors at once, for each as large as the parameter
_LEAST = 8192  # numbers of a piece, however little room there is
_GRAIN = 32768  # numbers that torch gives to a thread at least
_VECTORS = 128  # numbers: a multiple of what kernels compute at a time
_FORMATS = (torch.contiguous_format, torch.channels_last)


def needs_no_room(optimizer: Optimizer, group: dict[str, Any], parameter: Tensor) -> bool:
    """Whether an update makes no temporaries, or can run in pieces."""
    if type(optimizer) not in _ELEMENTWISE or not parameter.is_floating_point():
        return False
    if group.get("fused"):
        return True
    states = optimizer.state.get(parameter, {}).values()
    whole = [state for state in states if isinstance(state, Tensor) and state.dim()]
    return any(all(_lies(t, parameter, form) for t in (parameter, parameter.grad, *whole)) for form in _FORMATS)


def update(optimizer: Optimizer, group: dict[str, Any], parameter: Tensor, room: int) -> dict[str, Any]:
    """Make an optimizer's step for one parameter, in pieces if it can and there is not the room for all temporaries.

    Parameters
    ----------
    optimizer, group, parameter
        An optimizer, one of its groups, and a parameter of that, with its gradient.
    room
        Bytes that temporaries may take.

    Returns
    -------
    dict
        The group as the step leaves it.
    """
    numbers = max(room // (_TEMPORARIES * parameter.element_size()), _LEAST)
    if parameter.numel() <= numbers or group.get("fused") or not needs_no_room(optimizer, group, parameter):
        own = {**group, "params": [parameter]}
        step_of(alike(optimizer, [own], optimizer.state))
        return own
    with torch.no_grad():
        return _in_pieces(optimizer, group, parameter, numbers)


def _in_pieces(optimizer: Optimizer, group: dict[str, Any], parameter: Tensor, numbers: int) -> dict[str, Any]:
    before: dict[str, Any] = optimizer.state.get(parameter, {})
    made: dict[str, Any] = {}  # states that the step makes
    after: dict[str, Any] = {}
    assert parameter.grad is not None
    flat, gradient = _flat(parameter.detach()), _flat(parameter.grad)
    parts = {key: _flat(state) for key, state in before.items() if _is_whole(state)}
    pieces = pieces_of(parameter.numel(), numbers, torch.get_num_threads())
    own = group
    for place in [next(pieces)] if isinstance(parameter, FakeTensor) else pieces:  # without data, one is like another
        piece = flat[place]
        piece.grad = gradient[place]
        states = {key: parts[key][place] if key in parts else _copy(state) for key, state in before.items()}
        own = {**group, "params": [piece]}
        all_states: defaultdict[Any, Any] = defaultdict(dict, {piece: dict(states)} if states else {})
        step_of(alike(optimizer, [own], all_states))
        after = all_states[piece]
        for key, state in after.items():
            if not _is_whole(state) or state is states.get(key):
                continue
            if key not in parts:
                made[key] = torch.empty_like(parameter.detach(), dtype=state.dtype)
                parts[key] = _flat(made[key])
            parts[key][place].copy_(state)
    for key, state in after.items():
        if key not in parts and isinstance(before.get(key), Tensor) and isinstance(state, Tensor):
            before[key].copy_(state)
        elif key not in parts or key in made:
            optimizer.state[parameter][key] = made.get(key, state)
    return own


def pieces_of(count: int, most: int, threads: int) -> Iterator[slice]:
    """The pieces of so many numbers, each of at most `most` where that is a number of vectors."""
    chunk = count if threads == 1 or count <= _GRAIN else -(-count // min(threads, -(-count // _GRAIN)))
    all_threads = threads * _GRAIN
    size = most // all_threads * all_threads or max(min(most, _GRAIN) // _VECTORS, 1) * _VECTORS
    for begin in range(0, count, chunk):
        end = min(begin + chunk, count)
        while begin < end:
            last = min(begin + (size if end - begin >= size else min(size, _GRAIN)), end)
            yield slice(begin, last)
            begin = last


def _lies(tensor: Tensor | None, parameter: Tensor, form: torch.memory_format) -> bool:
    """Whether a tensor is dense, and its numbers lie in the order of this format, as those of the parameter."""
    if tensor is None or tensor.layout != torch.strided or tensor.shape != parameter.shape:
        return False
    return tensor.is_contiguous(memory_format=form if tensor.dim() == 4 else torch.contiguous_format)


def _flat(tensor: Tensor) -> Tensor:
    return tensor.as_strided((tensor.numel(),), (1,))


def _is_whole(state: Any) -> bool:
    """Whether a state has a number for each of the parameter."""
    return isinstance(state, Tensor) and state.dim() > 0


def _copy(state: Any) -> Any:
    return state.clone() if isinstance(state, Tensor) else state
