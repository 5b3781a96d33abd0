"""Losses of classes that hold a row of logits once: its numbers become what backward needs, and then its gradient.

torch holds the logits, their log-probabilities, and two gradients. Rows of half precision are computed in float32.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

_HALVES = (torch.bfloat16, torch.float16)


def cross_entropy(logits: Tensor, target: Tensor, ignored: int, smoothing: float, owned: bool = False) -> Tensor:
    """Cross entropies, (rows,), of logits (rows, classes). ``owned``: nobody else reads the logits."""
    found: Tensor = _CrossEntropy.apply(logits, target, ignored, smoothing, owned)  # type: ignore[no-untyped-call]
    return found


def logsumexp(logits: Tensor, owned: bool = False) -> Tensor:
    """The logarithms, (rows,), of sums of exponentials of logits (rows, classes)."""
    found: Tensor = _LogSumExp.apply(logits, owned)  # type: ignore[no-untyped-call]
    return found


def ctc(
    log_probs: Tensor, targets: Tensor, lengths: Any, of_targets: Any, how: dict[str, Any], mean: bool, which: slice
) -> Tensor:
    """Losses of CTC, of sequences one after another, (rows, classes). The first row of a sequence has its loss.

    The others have 0. ``mean``: a loss is divided by the length of its target. `which`: these sequences.
    """
    if targets.dim() == 1:  # one after another
        ends = torch.as_tensor(of_targets).cumsum(0).tolist()
        targets = targets[ends[which.start - 1] if which.start else 0 : ends[which.stop - 1]]
    else:
        targets = targets[which]
    lengths, of_targets, count = lengths[which], of_targets[which], which.stop - which.start
    each = log_probs.reshape(count, -1, log_probs.shape[1])
    loss = functional.ctc_loss(each.transpose(0, 1), targets, lengths, of_targets, reduction="none", **how)
    if mean:
        loss = loss / torch.as_tensor(of_targets, device=loss.device).clamp(min=1)
    return torch.cat([loss[:, None], loss.new_zeros(count, each.shape[1] - 1)], 1).flatten()


CONSUMING = (cross_entropy, logsumexp)  # that take `owned`


def _own(logits: Tensor, owned: bool) -> Tensor:
    if logits.dtype in _HALVES:
        return logits.detach().float()
    return logits.detach() if owned else logits.detach().clone()


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, target: Tensor, ignored: int, smoothing: float, owned: bool) -> Tensor:
        x = _own(logits, owned)
        counts = target != ignored
        place = target.where(counts, 0)[:, None]
        x.sub_(x.amax(-1, keepdim=True))
        gained = x.gather(1, place)[:, 0]
        if smoothing:
            gained = gained * (1 - smoothing) + x.mean(-1) * smoothing
        total = x.exp_().sum(-1)
        ctx.x, ctx.dtype, ctx.smoothing = x, logits.dtype, smoothing
        ctx.save_for_backward(counts, place, total)
        return torch.where(counts, total.log() - gained, 0).to(logits.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, given: Tensor) -> Any:
        x, ctx.x = ctx.x, None
        counts, place, total = ctx.saved_tensors
        given = torch.where(counts, given.to(x.dtype), 0)
        x.mul_((given / total)[:, None])
        if ctx.smoothing:
            x.sub_((given * (ctx.smoothing / x.shape[1]))[:, None])
        x.scatter_add_(1, place, (given * (ctx.smoothing - 1))[:, None])
        return x.to(ctx.dtype), None, None, None, None


class _LogSumExp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, owned: bool) -> Tensor:
        x = _own(logits, owned)
        most = x.amax(-1, keepdim=True)
        most = most.where(most.isfinite(), 0)
        total = x.sub_(most).exp_().sum(-1)
        ctx.x, ctx.dtype = x, logits.dtype
        ctx.save_for_backward(total)
        return (total.log() + most[:, 0]).to(logits.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, given: Tensor) -> Any:
        x, ctx.x = ctx.x, None
        (total,) = ctx.saved_tensors
        return x.mul_((given.to(x.dtype) / total)[:, None]).to(ctx.dtype), None
