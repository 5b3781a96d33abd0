"""Losses that work by rows: each takes logits of a head, targets, and what else it needs, and gives a number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Loss = Callable[[Tensor, Tensor, Tensor], Tensor]  # of logits (batch, length, words), those of a teacher, and targets


def masked(logits: Tensor, _: Tensor, ids: Tensor) -> Tensor:
    mask = (ids % 3 > 0).float()
    each = F.cross_entropy(logits.view(-1, logits.shape[-1]), ids.view(-1), reduction="none")
    return (each * mask.view(-1)).sum() / mask.sum()


def gathered(logits: Tensor, _: Tensor, ids: Tensor) -> Tensor:
    return -logits.log_softmax(-1).gather(-1, ids.unsqueeze(-1)).squeeze(-1).mean()


def nll(logits: Tensor, _: Tensor, ids: Tensor) -> Tensor:
    target = ids[:, 1:].masked_fill(ids[:, 1:] % 5 == 0, -100)
    return F.nll_loss(F.log_softmax(logits[:, :-1].float(), dim=-1).flatten(0, 1), target.flatten())


def capped(logits: Tensor, _: Tensor, ids: Tensor) -> Tensor:
    return F.cross_entropy((torch.tanh(logits / 30.0) * 30.0).flatten(0, 1), ids.flatten())


def with_z(logits: Tensor, _: Tensor, ids: Tensor) -> Tensor:
    each = F.cross_entropy(logits.flatten(0, 1), ids.flatten())
    return each + 1e-4 * logits.logsumexp(-1).square().mean()


def distilled(logits: Tensor, teacher: Tensor, ids: Tensor) -> Tensor:
    soft = F.kl_div(F.log_softmax(logits / 2.0, -1), F.softmax(teacher / 2.0, -1), reduction="batchmean") * 4.0
    return 0.5 * soft / logits.shape[1] + 0.5 * F.cross_entropy(logits.flatten(0, 1), ids.flatten())


def preferred(logits: Tensor, teacher: Tensor, ids: Tensor) -> Tensor:
    """DPO: the first half of the batch is chosen, the second rejected."""

    def of_sequences(logits: Tensor) -> Tensor:
        each = torch.gather(logits[:, :-1].log_softmax(-1), 2, ids[:, 1:].unsqueeze(2)).squeeze(2)
        return (each * (ids[:, 1:] % 7 > 0)).sum(-1)

    (chosen, rejected), (first, second) = of_sequences(logits).chunk(2), of_sequences(teacher).chunk(2)
    return -F.logsigmoid(0.1 * ((chosen - first) - (rejected - second))).mean()


def focal(logits: Tensor, _: Tensor, ids: Tensor) -> Tensor:
    flat = logits.reshape(-1, logits.size(-1))
    lost = -F.log_softmax(flat, 1)[torch.arange(flat.shape[0]), ids.reshape(-1)]
    return ((1 - torch.exp(-lost)) ** 2 * lost).mean()


def rewarded(logits: Tensor, teacher: Tensor, ids: Tensor) -> Tensor:
    """A policy's gradient, clipped, with an entropy bonus and a penalty towards the reference."""
    log = torch.log_softmax(logits, dim=-1)
    with torch.no_grad():
        old = teacher.log_softmax(-1).gather(-1, ids[..., None])[..., 0]
    new = log.gather(-1, ids[..., None])[..., 0]
    ratio, reward = (new - old).exp(), torch.linspace(-1, 1, ids.shape[0]).to(logits.dtype)[:, None]
    gain = torch.minimum(ratio * reward, ratio.clamp(0.8, 1.2) * reward)
    entropy = -(log.exp() * log).sum(-1)
    penalty = (old - new).exp() - (old - new) - 1
    return (-gain - 0.01 * entropy + 0.04 * penalty).mean()


def weighted(logits: Tensor, _: Tensor, ids: Tensor) -> Tensor:
    weight = torch.linspace(0.5, 1.5, logits.shape[-1], dtype=logits.dtype)
    return F.cross_entropy(logits.flatten(0, 1), ids.flatten(), weight=weight, ignore_index=3)


def aligned(logits: Tensor, _: Tensor, ids: Tensor) -> Tensor:
    """CTC."""
    batch, length = ids.shape
    lengths, targets = [length] * batch, ids[:, : length // 4].clamp(min=1)
    return F.ctc_loss(F.log_softmax(logits, -1).transpose(0, 1), targets, lengths, [targets.shape[1]] * batch)


LOSSES: dict[str, Loss] = {
    "masked": masked,
    "gathered": gathered,
    "nll_loss": nll,
    "soft cap": capped,
    "z-loss": with_z,
    "distillation": distilled,
    "CTC": aligned,
    "DPO": preferred,
    "focal": focal,
    "policy gradient": rewarded,
    "class weights": weighted,
}


class Model(nn.Module):
    """Hidden states, a head and that of a teacher, and a loss.

    Parameters
    ----------
    words, width : int
        Of the head.
    loss : callable
        One of `LOSSES`.
    """

    def __init__(self, words: int, width: int, loss: Loss) -> None:
        super().__init__()
        self.embed, self.mix = nn.Embedding(words, width), nn.Linear(width, width)
        self.head, self.teacher = nn.Linear(width, words, bias=False), nn.Linear(width, words, bias=False)
        self.teacher.requires_grad_(False)
        self.loss = loss

    def forward(self, ids: Tensor) -> Any:
        hidden = self.mix(self.embed(ids)).tanh()
        with torch.no_grad():
            known = self.teacher(hidden)
        return self.loss(self.head(hidden), known, ids)


class Scored(nn.Module):
    """A head and that of a teacher, and a loss: of hidden states of both, and targets."""

    def __init__(self, words: int, width: int, loss: Loss) -> None:
        super().__init__()
        self.head, self.teacher = nn.Linear(width, words, bias=False), nn.Linear(width, words, bias=False)
        self.teacher.requires_grad_(False)
        self.loss = loss

    def forward(self, hidden: Tensor, known: Tensor, ids: Tensor) -> Tensor:
        with torch.no_grad():
            teacher = self.teacher(known)
        return self.loss(self.head(hidden), teacher, ids)
