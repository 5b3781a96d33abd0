"""What a runtime gives for a plan's source: a program, which runs in the arena of a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from .. import _core
from .result import Run

if TYPE_CHECKING:
    from ..facts.plan import Plan


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
    ) -> Run:
        """Run once; see `Plan.run`."""
        ...


class Program(Protocol):
    """The ops of a network as its importer saw them. A runtime's `program_of(source)` makes one from a `Source`.

    Attributes
    ----------
    graph : Graph
        What importing the source gives, op by op.
    """

    @property
    def graph(self) -> _core.Graph: ...

    def bind(self, plan: Plan) -> Bound:
        """Make the arena of a plan of `graph`, which has `graph` and `buffers`, and check the bounds of every view."""
        ...

    def in_order(self, plan: Plan) -> Any:
        """The network as its runtime holds it, with its ops in the order of a plan of `graph`; see `Plan.program`."""
        ...
