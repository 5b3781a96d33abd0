"""The backward of max pooling: each element gathers its gradients from the windows that it is in.

torch scatters them instead: indices of 64 bits are whole then, and so is a total in the order of the axes, which a
convolution copies to its own. Inductor knows both. The sums have the same order, so results are equal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from ..private_compiler import select_decomp_table

_BACKWARD = torch.ops.aten.max_pool2d_with_indices_backward.default
_LARGEST = 25  # windows that an element is in; beyond, Inductor calls a kernel


def gathering() -> dict[Any, Callable[..., Any]]:
    """How ops are decomposed, but for this one."""
    return {op: how for op, how in select_decomp_table().items() if op is not _BACKWARD}


def gathers(node: fx.Node) -> bool:
    """Whether Inductor computes what a node makes in a loop that gathers."""
    if node.target is not _BACKWARD:
        return False
    kernel, stride, _, dilation = (_pair(given) for given in node.args[2:6])
    inside = [-(-side // step) for side, step in zip(kernel, stride or kernel, strict=True)]
    return dilation == [1, 1] and inside[0] * inside[1] <= _LARGEST


def is_index(node: fx.Node, user: fx.Node) -> bool:
    """Whether a node says to such a loop where the maxima were."""
    return gathers(user) and node is user.args[7] and node is not user.args[0]


def _pair(given: Any) -> list[int]:
    sides = [given] if isinstance(given, int) else [*given]
    return sides * 2 if len(sides) == 1 else sides
