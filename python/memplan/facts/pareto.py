"""Cost over capacity: what each capacity costs, and what it costs at least."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .plan import Plan


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
        What the plan adds, and what any plan within the capacity adds at least; see `Plan`. 0 without a plan.
    proven : bool
        Whether it is proven that there is no plan.
    """

    capacity: int
    plan: Plan | None = field(default=None, compare=False, repr=False)
    added_cost: float = 0.0
    cost_bound: float = 0.0
    proven: bool = False
    why: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The figures as plain Python objects."""
        figures = {"capacity": self.capacity, "added_cost": self.added_cost, "cost_bound": self.cost_bound}
        peak = None if self.plan is None else self.plan.peak
        return figures | {"peak": peak, "proven": self.proven, "why": self.why}


@dataclass(frozen=True)
class Pareto:
    """Cost over capacity, as `memplan.pareto` finds it.

    Attributes
    ----------
    points : tuple of ParetoPoint
        The largest capacity first.
    load : int
        Of the graph as it is: a capacity from there on costs nothing, but for what placement needs.
    cost : float
        Of all ops of the graph.
    interrupted : bool
        Ctrl-C has ended it: smaller capacities were not tried.
    """

    points: tuple[ParetoPoint, ...] = ()
    load: int = 0
    cost: float = 0.0
    interrupted: bool = False

    def __iter__(self) -> Iterator[ParetoPoint]:
        return iter(self.points)

    def __len__(self) -> int:
        return len(self.points)

    def to_dict(self) -> dict[str, Any]:
        """All figures as plain Python objects; without the plans."""
        points = [point.to_dict() for point in self.points]
        return {"load": self.load, "cost": self.cost, "interrupted": self.interrupted, "points": points}

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the curve with its bound; in a new figure by default."""
        from ..present.pareto import plot_pareto

        return plot_pareto(self, ax)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Draw the curve into a file: .png, .svg or .pdf."""
        from ..present.pareto import save_pareto

        save_pareto(self, path)

    def __str__(self) -> str:
        from ..present.pareto import pareto_table
        from ..present.tables import text

        return text(pareto_table(self))

    def _repr_html_(self) -> str:
        from ..present.pareto import pareto_html

        return pareto_html(self)
