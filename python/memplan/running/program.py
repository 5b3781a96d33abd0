"""What a runtime gives for a plan's source: a program, which runs in the arena of a plan."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from .. import _core
from ..plans.plan import Plan
from ..plans.usage import Span, cut

_ALIGNMENT = 64  # of an arena: that of a cache line, and of any kernel


def aligned(size: int, alignment: int = 1) -> npt.NDArray[np.uint8]:
    """Bytes that begin at a multiple of 64, and of an alignment."""
    unit = math.lcm(_ALIGNMENT, alignment)
    data = np.zeros(size + unit, np.uint8)
    start = -data.ctypes.data % unit
    return data[start : start + size]


@dataclass(frozen=True)
class Common:
    """An arena in which several programs run, one at a time, and what stays in it."""

    data: npt.NDArray[np.uint8]  # the arena
    stays: Sequence[Span]  # bytes of the arena that no run of any program may fill with garbage
    # the tensors of the program that bytes of `stays` belong to. What a run leaves there is not copied out of it
    roots: frozenset[str]

    @property
    def free(self) -> list[Span]:
        """The bytes that do not stay."""
        return reduce(cut, self.stays, [(0, len(self.data))])


@dataclass(frozen=True)
class Run:
    """One run of a plan's program in an arena.

    Attributes
    ----------
    outputs : Any
        What the program returned: for a torch module in the nest that its forward returns, for ONNX a dict from names
        to arrays. The caller's own, unless views were asked for: those are valid until the next run.
    loss : tensor or None
        With ``train=True``, the loss.
    gradients : mapping of str to tensor
        With ``train=True``, the gradients by the names of parameters; with an optimizer, if they are kept.
    arena_bytes : int
        Bytes of the arena: the peak of the plan.
    ops : int
        Ops that were run; views are none.
    copied : int
        Ops that computed outside of the places of their results, which were copied there.
    outside : int or None
        Bytes besides those of the arena that kernels of torch took for what is no tensor of the graph, at most at one
        time: behind the arena, and elsewhere. None where it is not known.
    """

    outputs: Any
    loss: Any = None
    gradients: Mapping[str, Any] = field(default_factory=dict)
    arena_bytes: int = 0
    ops: int = 0
    copied: int = 0
    outside: int | None = None


class Bound(Protocol):
    """A program and the arena of a plan of its graph, with every placed tensor as a view of the arena."""

    def run(
        self,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        *,
        weights: Mapping[str, Any] | None = None,
        check: bool = False,
        views: bool = False,
        there: Collection[str] = (),
    ) -> Run:
        """Run once; see `Plan.run`. The arena holds the weights `there` already."""
        ...


@runtime_checkable
class Measured(Protocol):
    """A program that measures its ops: what it binds has `seconds`, by the name of each op, with inputs and repeats."""

    measures: bool

    def bind(self, plan: Plan, common: Common | None = None) -> Any: ...


class Program(Protocol):
    """The ops of a network as its importer saw them. A runtime's `program_of(source)` makes one from a `Source`.

    Attributes
    ----------
    graph : Graph
        What importing the source gives, op by op.
    """

    @property
    def graph(self) -> _core.Graph: ...

    def bind(self, plan: Plan, common: Common | None = None) -> Bound:
        """Make the arena of a plan of `graph`, which has `graph` and `buffers`, and check the bounds of every view.

        Or take the arena in which other programs run too.
        """
        ...

    def in_order(self, plan: Plan) -> Any:
        """The network as its runtime holds it, with its ops in the order of a plan of `graph`; see `Plan.program`."""
        ...
