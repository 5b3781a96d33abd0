"""What a sweep gives: a comparison per source, and their gaps as a matrix."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ...printing.tables import Table
from ..comparison import Comparison
from ..export import Written, comparison_dict

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, repr=False)
class Sweep(Written):
    """A comparison per source, whose rows have no plans.

    Attributes
    ----------
    comparisons : tuple of Comparison
        In the order of the sources.
    planners, orders : tuple of str
        As they were given.
    """

    _form: ClassVar[str] = "memplan.sweep"

    comparisons: tuple[Comparison, ...]
    planners: tuple[str, ...]
    orders: tuple[str, ...] = ("given",)

    @property
    def interrupted(self) -> bool:
        """Ctrl-C ended it: what was not run says so."""
        return any(comparison.interrupted for comparison in self)

    def __len__(self) -> int:
        return len(self.comparisons)

    def __iter__(self) -> Iterator[Comparison]:
        return iter(self.comparisons)

    def __getitem__(self, key: str | int) -> Comparison:
        """The comparison of a source, by name or position: ``sweep["resnet50"]["auto"].gap``."""
        if not isinstance(key, str):
            return self.comparisons[key]
        found = next((comparison for comparison in self if comparison.source == key), None)
        if found is None:
            raise KeyError(f"the sweep has no source {key!r}; it has {', '.join(c.source for c in self)}")
        return found

    def __contains__(self, key: object) -> bool:
        """Whether there is a source of that name."""
        return any(comparison.source == key for comparison in self)

    def plot(self, ax: Axes | None = None, *, title: str | None = None) -> Axes:
        """Draw the gaps as a map: sources down, planners across, darker where the gap is larger.

        Each cell has its gap in percent: 0 on green where the peak is proven optimal, a dash where there is no plan.
        """
        from .picture import plot_sweep

        return plot_sweep(self, ax, title=title)

    def _comparisons(self) -> Sequence[Comparison]:
        return self.comparisons

    def _spec(self) -> dict[str, Any]:
        comparisons = [comparison_dict(comparison) for comparison in self]
        return {"planners": self.planners, "orders": self.orders, "comparisons": comparisons}

    def _table(self) -> Table:
        from .picture import gap_table

        return gap_table(self)

    def _page(self) -> str:
        from .picture import sweep_page

        return sweep_page(self)

    def _figure(self) -> Figure:
        from .picture import figure_of

        return figure_of(self)

    def __str__(self) -> str:
        from .picture import sweep_text

        return sweep_text(self)

    def __repr__(self) -> str:
        state = ", interrupted" if self.interrupted else ""
        return f"<memplan.comparing.Sweep: {len(self)} sources, {len(self.planners)} planners{state}>"
