"""Cost over capacity: what each capacity costs, and what it costs at least."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ..plans.plan import Plan

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class ParetoPoint:
    """A capacity, and the plan within it.

    Attributes
    ----------
    capacity : int
        Bytes that were asked for.
    plan : Plan or None
        None where there is none; `why` says so.
    added_cost, cost_bound : float
        What the plan adds, and what any plan within the capacity adds at least; see `Plan`. For a pool: what all
        accesses cost, and at least cost; see `PlannedPools`. 0 without a plan.
    proven : bool
        Whether it is proven that there is no plan.
    why : str
        Why there is no plan.
    peak : int or None
        Bytes of the capacity that the plan needs: any capacity from there on allows it.
    """

    capacity: int
    plan: Plan | None = field(default=None, compare=False, repr=False)
    added_cost: float = 0.0
    cost_bound: float = 0.0
    proven: bool = False
    why: str = ""
    peak: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """The figures as plain Python objects."""
        figures = {"capacity": self.capacity, "added_cost": self.added_cost, "cost_bound": self.cost_bound}
        return figures | {"peak": self.peak, "proven": self.proven, "why": self.why}


@dataclass(frozen=True)
class Pareto:
    """Cost over capacity, of a network or of a pool, as `memplan.pareto` finds it.

    Attributes
    ----------
    points : tuple of ParetoPoint
        The largest capacity first.
    load : int
        Of the graph as it is: a capacity from there on costs nothing, but for what placement needs. For a pool: what it
        would hold if it had no limit.
    cost : float
        Of all ops of the graph. For a pool: of all accesses, if everything lay in the dearest pool.
    interrupted : bool
        Ctrl-C has ended it: smaller capacities were not tried.
    pool : str
        The pool whose capacity it is; "" for the arena.
    given : int or None
        The capacity that the pool was given.
    """

    points: tuple[ParetoPoint, ...] = ()
    load: int = 0
    cost: float = 0.0
    interrupted: bool = False
    pool: str = ""
    given: int | None = None

    @property
    def worth(self) -> dict[int, float]:
        """Per capacity with a plan, what each of its bytes saves: from the peak of the next smaller one to its own."""
        found = [(point.capacity, point.peak, point.added_cost) for point in self.points if point.peak is not None]
        return {
            capacity: (dearer - cost) / (peak - lower) if peak > lower else 0.0
            for (capacity, peak, cost), (_, lower, dearer) in pairwise(found)
        }

    def __iter__(self) -> Iterator[ParetoPoint]:
        return iter(self.points)

    def __len__(self) -> int:
        return len(self.points)

    def to_dict(self) -> dict[str, Any]:
        """All figures as plain Python objects; without the plans."""
        figures = {"load": self.load, "cost": self.cost, "interrupted": self.interrupted}
        pool = {"pool": self.pool, "given": self.given} if self.pool else {}
        return figures | pool | {"points": [point.to_dict() for point in self.points]}

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the curve with its bound; in a new figure by default, for a pool with what a byte is worth below."""
        from .picture import plot_pareto

        return plot_pareto(self, ax)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Draw the curve into a file: .png, .svg or .pdf."""
        from .picture import save_pareto

        save_pareto(self, path)

    def __str__(self) -> str:
        from ..printing.tables import text
        from .picture import pareto_table

        return text(pareto_table(self))

    def _repr_html_(self) -> str:
        from .picture import pareto_html

        return pareto_html(self)
