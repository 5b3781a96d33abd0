"""What a sweep gives: a comparison per source, and their gaps as a matrix."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..comparison import Comparison

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False, repr=False)
class Sweep:
    """A comparison per source, whose rows have no plans.

    Attributes
    ----------
    comparisons : tuple of Comparison
        In the order of the sources.
    planners, orders : tuple of str
        As they were given.
    """

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

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write a line per source and planner, with all figures."""
        from ..export import write_comparisons_csv

        write_comparisons_csv(self.comparisons, path)

    def to_json(self, path: str | os.PathLike[str]) -> None:
        """Write the sweep as versioned JSON."""
        from ..export import write_sweep_json

        write_sweep_json(self, path)

    def to_markdown(self, path: str | os.PathLike[str]) -> None:
        """Write the gaps as a table of Markdown."""
        from ...files import write_text

        write_text(path, self.markdown())

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write a page with the gaps, all figures per source, and the picture, which needs no other file."""
        from ...files import write_text
        from .picture import sweep_page

        write_text(path, sweep_page(self))

    def markdown(self) -> str:
        """The gaps as a table of Markdown."""
        from ...printing.tables import markdown
        from .picture import gap_table

        return markdown(gap_table(self))

    def _repr_html_(self) -> str:
        from ...printing.tables import html
        from .picture import gap_table

        return html(gap_table(self))

    def __str__(self) -> str:
        from .picture import sweep_text

        return sweep_text(self)

    def __repr__(self) -> str:
        state = ", interrupted" if self.interrupted else ""
        return f"<memplan.Sweep: {len(self)} sources, {len(self.planners)} planners{state}>"
