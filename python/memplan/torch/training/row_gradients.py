"""Gradients of tensors that rows are computed of, added up piece by piece."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


class Gradients:
    """The gradients so far of the tensors that are `needed`.

    Those at places of `apart` are read by rows, and not by products alone.
    """

    def __init__(self, given: Sequence[Tensor], needed: Sequence[bool], apart: Collection[int]) -> None:
        self._given, self._needed, self._apart = [tensor.detach() for tensor in given], needed, apart
        self._sums: dict[int, Tensor] = {}
        self._whole: dict[int, Tensor] = {}
        self._rows: dict[int, Tensor] = {}
        self._begins = torch.zeros((), requires_grad=True)  # what products are computed of, for autograd

    def rows(self, place: int, begin: int, end: int) -> Tensor:
        """Rows of a tensor: what is computed of them gives them gradients."""
        rows = self._given[place][begin:end]
        if self._needed[place] and place in self._apart:
            rows = self._rows[place] = rows.requires_grad_()
        return rows

    def whole(self, place: int) -> Tensor:
        """A tensor of which every row is computed."""
        if place not in self._whole:
            self._whole[place] = self._given[place].detach().requires_grad_(self._needed[place])
        return self._whole[place]

    def product(self, places: Sequence[int], begin: int, end: int) -> Tensor:
        """Logits of some rows, of hidden states, weight and bias at these places."""
        hidden, *weights = (self._given[place] for place in places)
        if not any(self._needed[place] for place in places):
            return functional.linear(hidden[begin:end], *weights)

        def add(gradient: Tensor) -> None:
            at, weight, *bias = places
            if self._needed[at]:
                self._sum(at)[begin:end].addmm_(gradient, weights[0])
            if self._needed[weight]:
                self._sum(weight).addmm_(gradient.t(), hidden[begin:end])
            if bias and self._needed[bias[0]]:
                self._sum(bias[0]).add_(gradient.sum(0))

        made: Tensor = _Product.apply(self._begins, hidden[begin:end], weights, add)  # type: ignore[no-untyped-call]
        return made

    def add(self, roots: Sequence[tuple[Tensor, Tensor]], begin: int, end: int) -> None:
        """Add what some rows give, for the gradients of what was computed of them."""
        roots = [(value, gradient) for value, gradient in roots if value.requires_grad]
        if roots:
            values, gradients = zip(*roots, strict=True)
            del roots
            torch.autograd.backward(values, gradients)
        for place, rows in self._rows.items():
            if rows.grad is not None:
                self._sum(place)[begin:end].add_(rows.grad)
        self._rows.clear()

    def all(self) -> list[Tensor | None]:
        """The gradients, by places; None where none is needed."""
        for place, tensor in self._whole.items():
            if tensor.grad is not None:
                self._sum(place).add_(tensor.grad)
                tensor.grad = None
        return [self._sum(place) if needed else None for place, needed in enumerate(self._needed)]

    def _sum(self, place: int) -> Tensor:
        if place not in self._sums:
            self._sums[place] = torch.zeros_like(self._given[place])
        return self._sums[place]


class _Product(torch.autograd.Function):
    """A linear layer that hands over the gradient of its result, and keeps nothing else."""

    @staticmethod
    def forward(ctx: Any, begins: Tensor, rows: Tensor, weights: Sequence[Tensor], add: Any) -> Tensor:
        ctx.add = add
        return functional.linear(rows, *weights)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        ctx.add(gradient)
        return None, None, None, None
