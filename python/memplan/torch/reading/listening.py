"""What an importer tells of a run without data to whoever wants to run the same with data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

Call = tuple[tuple[Any, ...], Mapping[str, Any]]  # args and kwargs


class Stepped(Protocol):
    """The optimizer whose step ends the run."""

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        """The optimizer that was given, or made."""

    def tensors(self) -> dict[str, Tensor]:
        """Its states and options by the names of their sources, as they are now."""


class Listener(Protocol):
    """Hears of every tensor that a run starts from, of every call in order, and of what comes of them.

    The tensors are fake ones. Each is to be looked at when it is heard of: a later call may change its sizes.
    """

    def anew(self) -> None:
        """The run begins anew: what was heard so far is void."""

    def inputs(self, named: Callable[..., Mapping[str, Any]]) -> None:
        """`named(args, kwargs)` gives the arguments of a call by the names that their tensors have in the graph."""

    def source(self, tensor: Tensor, name: str, kind: str, origin: Tensor | None) -> None:
        """A tensor that exists before the first call, and what it stands for, if that is known."""

    def call(
        self,
        function: Callable[..., Any],
        call: Call,
        result: Any,
        written: Sequence[Tensor],
        ops: range,
        renewed: str = "",
    ) -> None:
        """A call, the tensors that it writes to, and the positions of its ops in the graph.

        If `renewed` is a name, the only tensor of the result lies in bytes that had this name in the graph, and that
        count as a new storage from now on.
        """

    def number(self, function: Callable[..., Any], call: Call, stand_in: Any, ops: range) -> Any:
        """A call that reads a number from a tensor: what later calls are to get in place of the number."""

    def returned(self, result: Any, updates: Sequence[tuple[Tensor, Tensor]]) -> None:
        """What the network returns, and pairs of a source and its new content."""

    def trained(self, loss: Tensor, gradients: Mapping[str, Tensor], stepped: Stepped | None) -> None:
        """With training: the loss, the gradients that are kept by the names of their leaves, and the optimizer."""

    def ended(self, roots: Mapping[int, str]) -> None:
        """The name in the graph of each storage's root, by the address of the storage."""
