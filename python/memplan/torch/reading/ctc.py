"""The CTC loss without data: torch takes the size of what it keeps for its backward pass for one that is not known.

That size follows from the longest target. Python numbers or tensors say how long each target is. If numbers do, the
loss makes a tensor of them in C++, which fails where tensors have no data; so it is taken apart in Python.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from ..private import FakeTensor, ctc_loss_of_kernel, destroy, in_parts

_aten = torch.ops.aten
OPS = (_aten._ctc_loss.default, _aten._ctc_loss.Tensor)
_NONE, _MEAN = 0, 1  # how losses of a batch are reduced
_LOCK = threading.Lock()
_RUNS: list[Any] = []  # the contexts that are open, and the library that serves them


def outputs(log_probs: Tensor, targets: Tensor, lengths: Sequence[int] | Tensor) -> tuple[Tensor, Tensor] | None:
    """A loss per element of the batch, and what is kept for the backward pass; None if no size is known.

    `log_probs` are [steps, batch, labels]. Kept are [batch, steps, 2 n + 1] for targets of n labels at most, with
    blanks between them.
    """
    labels = _most_labels(targets, lengths)
    if labels is None:
        return None
    steps, batch = log_probs.shape[:2]
    return log_probs.new_empty(batch), log_probs.new_empty(batch, steps, 2 * labels + 1)


def _most_labels(targets: Tensor, lengths: Sequence[int] | Tensor) -> int | None:
    """The labels of the longest target; None if nobody knows.

    If lengths are tensors, that is the row to which targets are padded: a batch has a target that fills its row.
    """
    if targets.device.type == "cuda" and targets.dim() == 2:
        return int(targets.shape[1])
    if not isinstance(lengths, Tensor):
        return max(lengths, default=0)
    if targets.dim() == 2:
        return int(targets.shape[1])
    return int(targets.shape[0]) if lengths.numel() == 1 else None


@contextmanager
def taken_apart() -> Iterator[None]:
    """Meanwhile, the loss of fake tensors with lengths of Python is taken apart in Python."""
    with _LOCK:
        if not _RUNS:
            kernels: Any = torch.library.Library  # it is not typed
            _RUNS.append(kernels("aten", "IMPL"))
            for device in ("CPU", "CUDA"):
                _RUNS[0].impl("ctc_loss.IntList", _loss, f"Autograd{device}")
        _RUNS.append(None)
    try:
        yield
    finally:
        with _LOCK:
            _RUNS.pop()
            if len(_RUNS) == 1:
                destroy(_RUNS.pop())


def _loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Sequence[int],
    target_lengths: Sequence[int],
    blank: int = 0,
    reduction: int = _MEAN,
    zero_infinity: bool = False,
) -> Tensor:
    if not isinstance(log_probs, FakeTensor):
        func: Any = _aten.ctc_loss.IntList
        given = (log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity)
        return in_parts(func, *given)
    batch = log_probs if log_probs.dim() == 3 else log_probs.unsqueeze(1)
    lists = list(input_lengths), list(target_lengths)
    losses: Tensor = ctc_loss_of_kernel(batch, targets, *lists, blank, zero_infinity)[0]
    if zero_infinity:
        losses = torch.where(losses == torch.inf, losses.new_zeros([]), losses)
    if reduction == _MEAN:
        lengths = torch.tensor(target_lengths, dtype=losses.dtype, device=losses.device)
        return (losses / lengths.clamp_min(1)).mean()
    if reduction != _NONE:
        return losses.sum()
    return losses if log_probs.dim() == 3 else losses.squeeze(0)
