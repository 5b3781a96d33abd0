"""Gradients of compiled functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def gradient_of(forward: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def backward(x: Any) -> Any:
        x = x.detach().requires_grad_()
        y = forward(x * 2)
        return torch.autograd.grad(y, x, (y * y).detach())

    return backward
