"""What came of one run inside a plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Run:
    """One run of a plan's program in an arena.

    Attributes
    ----------
    outputs : Any
        What the program returned: for a torch module in the nest that its forward returns, for ONNX a dict from names
        to arrays. Copies, unless views were asked for: those are valid until the next run.
    loss : tensor or None
        With ``train=True``, the loss.
    gradients : mapping of str to tensor
        With ``train=True``, the gradients by the names of parameters; with an optimizer, if they are kept.
    arena_bytes : int
        Bytes of the arena: the peak of the plan.
    ops : int
        Ops that were run; views are none.
    copied : int
        Ops that computed outside of the arena, and whose results were copied into it.
    """

    outputs: Any
    loss: Any = None
    gradients: Mapping[str, Any] = field(default_factory=dict)
    arena_bytes: int = 0
    ops: int = 0
    copied: int = 0
