"""Comparing planners: one source, planned by many, and what each of them needs."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from .. import _core
from ..api import capture, plan
from ..errors import (
    InfeasibleError,
    InvalidPlanError,
    MissingDependencyError,
    PlannerError,
    TimeLimitError,
    UnsupportedError,
)
from ..planning.registry import planner_names
from ..planning.registry import planners as registered
from ..text import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..facts.plan import Plan

CAPTURING = ("args", "kwargs", "train", "dims", "inclusive", "inplace_ops", "trust", "optimizer")  # of `capture`
EXACT_SECONDS = 10.0  # for exact planners where neither planners nor a time limit are given
SEARCHES_OF_AUTO = ("auto", "valley", "squeaky_wheel")
NOT_RUN = "KeyboardInterrupt"  # the error of a row whose planner was not run, or not to an end
REFUSALS = (UnsupportedError, MissingDependencyError, InvalidPlanError, PlannerError, TimeLimitError, MemoryError)


@dataclass(frozen=True)
class ComparisonRow:
    """What one planner makes of a source; all sizes are in bytes.

    Attributes
    ----------
    planner : str
        The planner's name as it was given, with its parameters.
    peak, load, naive : int or None
        Figures of the plan. None if there is no plan.
    lower_bound : int or None
        Bytes below which this planner has proven that no plan peaks.
    bound : int
        The best lower bound that any planner of the comparison has proven. Gaps are measured from it.
    seconds : float or None
        Wall time of planning, without import and verification.
    pools : int
        Number of pools, for planners that use pools; 0 for the others.
    winner : str
        The planner that found these offsets. It differs from `planner` for "auto".
    interrupted : bool
        Ctrl-C ended the search before its end.
    error, reason : str
        Why there is no plan, or none that fits the capacity: the class of the error, and its message. Empty otherwise.
    problem : str
        A digest of the buffers that were placed. "auto" may have chosen buffers that share less.
    plan : Plan or None
        None if there is no plan, and in rows of a sweep.
    """

    planner: str
    peak: int | None = None
    lower_bound: int | None = None
    load: int | None = None
    naive: int | None = None
    seconds: float | None = None
    pools: int = 0
    winner: str = ""
    interrupted: bool = False
    error: str = ""
    reason: str = ""
    problem: str = ""
    bound: int = 0
    plan: Plan | None = field(default=None, compare=False, repr=False)

    @property
    def gap(self) -> float | None:
        """How far the peak may be from the best possible: peak / bound - 1."""
        if self.peak is None:
            return None
        return self.peak / self.bound - 1 if self.bound else 0.0

    @property
    def saved(self) -> float | None:
        """How much the plan saves, as a fraction of the naive bytes: 1 - peak / naive."""
        if self.peak is None or self.naive is None:
            return None
        return 1 - self.peak / self.naive if self.naive else 0.0

    @property
    def optimal(self) -> bool:
        """Whether the peak equals the bound. Any planner of the comparison may have proven it."""
        return self.peak is not None and self.peak == self.bound


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """What each planner makes of one source: a row per planner, sorted by peak.

    Rows with equal peaks come in this order: planners that have proven the peak optimal themselves, "auto" and its
    searches, the others in the order of the registry. Rows without a plan come last. The order is the same in every
    run.

    Attributes
    ----------
    source : str
        A name or description of what was planned.
    rows : tuple of ComparisonRow
    interrupted : bool
        Ctrl-C cut a search short, and the planners after it were not run.
    """

    source: str
    rows: tuple[ComparisonRow, ...]
    interrupted: bool = False

    @staticmethod
    def of(source: str, rows: Sequence[ComparisonRow]) -> Comparison:
        """The rows in order, all measured from the best bound that any of them has proven."""
        bound = _bound(rows)
        places = {name: place for place, name in enumerate(dict.fromkeys([*SEARCHES_OF_AUTO, *planner_names()]))}
        ranked = sorted((replace(row, bound=bound) for row in rows), key=lambda row: _rank(row, places))
        return Comparison(source, tuple(ranked), any(row.interrupted or row.error == NOT_RUN for row in rows))

    @property
    def bound(self) -> int:
        """The best lower bound that any planner has proven, in bytes; 0 if there is no plan."""
        return self.rows[0].bound if self.rows else 0

    @property
    def load(self) -> int | None:
        """The largest sum of bytes alive at one step, in the row where it is least; None if there is no plan."""
        return min((row.load for row in self.rows if row.load is not None), default=None)

    @property
    def naive(self) -> int | None:
        """Bytes without any reuse; None if there is no plan."""
        return min((row.naive for row in self.rows if row.naive is not None), default=None)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[ComparisonRow]:
        return iter(self.rows)

    def __getitem__(self, key: str | int) -> ComparisonRow:
        """The row of a planner, by its name as it was given, or by position."""
        if not isinstance(key, str):
            return self.rows[key]
        row = next((row for row in self.rows if row.planner == key), None)
        if row is None:
            raise KeyError(f"the comparison has no planner {key!r}; it has {', '.join(r.planner for r in self.rows)}")
        return row

    def __contains__(self, key: object) -> bool:
        """Whether a planner has a row, by its name as it was given."""
        return any(row.planner == key for row in self.rows)

    def plot(self, ax: Axes | None = None, *, layouts: Sequence[str] | None = None, title: str | None = None) -> Axes:
        """Draw the peaks as bars, and some of the plans below them. Returns the Axes of the bars.

        ``comparison.plot().figure.savefig("planners.svg")`` writes the whole picture. With `ax`, only the bars are
        drawn, into that Axes. `layouts` names the planners whose plans are drawn; by default, three of different peaks.

        Raises
        ------
        ValueError
            `layouts` names a planner without a plan, or comes with `ax`.
        """
        from ..present.compare import plot_comparison

        return plot_comparison(self, ax, layouts=layouts, title=title)

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write a line per planner, with all figures."""
        from ..export.compare import write_comparisons_csv

        write_comparisons_csv([self], path)

    def to_json(self, path: str | os.PathLike[str]) -> None:
        """Write the comparison as versioned JSON."""
        from ..export.compare import write_comparison_json

        write_comparison_json(self, path)

    def to_markdown(self, path: str | os.PathLike[str]) -> None:
        """Write the table as Markdown."""
        from ..files import write_text

        write_text(path, self.markdown())

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write a page with the table and the picture, which needs no other file."""
        from ..files import write_text
        from ..present.compare import picture
        from ..present.tables import html_image, html_page

        alt = f"{self.source}: peaks as bars, and plans side by side"
        write_text(path, html_page(self.source, self._repr_html_(), html_image(picture(self), alt)))

    def markdown(self) -> str:
        """The table as Markdown."""
        from ..present.compare import comparison_table
        from ..present.tables import markdown

        return markdown(comparison_table(self))

    def _repr_html_(self) -> str:
        from ..present.compare import comparison_table
        from ..present.tables import html

        return html(comparison_table(self))

    def __str__(self) -> str:
        from ..present.compare import comparison_table
        from ..present.tables import text

        return text(comparison_table(self))

    def __repr__(self) -> str:
        state = ", interrupted" if self.interrupted else ""
        return f"<memplan.Comparison: {printable(self.source)}, {len(self)} planners{state}>"


def compare(
    source: Any,
    planners: Sequence[str] | None = None,
    *,
    time_limit: float | None = None,
    on_row: Callable[[ComparisonRow], object] | None = None,
    on_interrupt: Literal["keep", "raise"] = "keep",
    **options: Any,
) -> Comparison:
    """Plan one source with many planners.

    Parameters
    ----------
    source
        What to plan, imported once; see `capture`.
    planners
        Names from `planners()`, with parameters as in "beam:k=16". By default, all planners of the registry. Then exact
        planners end after 10 seconds each, unless you give `time_limit`; other searches end after their own effort.
    time_limit
        Seconds for each planner that searches; see `plan`.
    on_row
        A function that is called with each row, as soon as its planner has ended. The row's `bound` is not known yet;
        it is 0.
    on_interrupt
        What Ctrl-C does. "keep" ends the comparison and keeps its rows. The search that was cut short has a row with
        its best plan, marked `interrupted`. The planners after it have rows that say that they were not run. "raise"
        raises KeyboardInterrupt. So does "keep" if there is no plan yet.
    options
        The other options of `plan`.

    Returns
    -------
    Comparison
        A row per planner. If a planner refuses the problem, does not fit the capacity, or lacks its package, its row
        says why.

    Raises
    ------
    TypeError, ValueError
        Bad input, an unknown planner or parameter, or a planner named twice.
    """
    names = checked_planners(planners)
    if on_interrupt not in ("keep", "raise"):
        raise ValueError(f"on_interrupt must be 'keep' or 'raise', got {on_interrupt!r}")
    capturing = {name: options.pop(name) for name in CAPTURING if name in options}
    captured = capture(source, **capturing)
    limits = dict(zip(names, time_limits(planners, names, time_limit), strict=True))
    rows: list[ComparisonRow] = []
    for name in names:
        row = planned_row(captured, name, time_limit=limits[name], **options)
        rows.append(row)
        if row.interrupted or row.error == NOT_RUN:
            break
        if on_row is not None:
            on_row(row)
    comparison = Comparison.of(title_of(source, captured), rows + [not_run(name) for name in names[len(rows) :]])
    if comparison.interrupted and (on_interrupt == "raise" or all(row.peak is None for row in comparison)):
        raise KeyboardInterrupt
    return comparison


def planned_row(captured: _core.Graph | _core.Problem, planner: str, **options: Any) -> ComparisonRow:
    """What a planner makes of a source, or why it makes nothing of it."""
    try:
        return _row_of(plan(captured, planner, on_interrupt="keep", **options), planner)
    except InfeasibleError as error:
        row = ComparisonRow(planner) if error.plan is None else _row_of(error.plan, planner)
        return replace(row, error="InfeasibleError", reason=_first_line(error))
    except REFUSALS as error:
        return refused(planner, error)
    except KeyboardInterrupt:
        return not_run(planner)


def refused(planner: str, error: Exception) -> ComparisonRow:
    """The row of a planner that has no plan because of an error."""
    return ComparisonRow(planner, error=type(error).__name__, reason=_first_line(error) or "out of memory")


def not_run(planner: str) -> ComparisonRow:
    """The row of a planner that was not run, or not to an end."""
    return ComparisonRow(planner, error=NOT_RUN, reason="interrupted before it had a plan")


def checked_planners(planners: Sequence[str] | None) -> list[str]:
    """The names of planners, all of the registry for None; refuses unknown ones and repeats before any work."""
    if planners is None:
        return [row.name for row in registered()]
    is_list = isinstance(planners, Iterable) and not isinstance(planners, (str, Mapping))
    if not is_list or not all(isinstance(name, str) for name in planners):
        raise TypeError(f"planners must be a list of names from planners(), got {planners!r}")
    if not planners:
        raise ValueError("planners must name one planner at least, got none")
    names = list(planners)
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"planners names {name!r} {names.count(name)} times; once is enough")
        with suppress(MissingDependencyError):
            plan(([], [], []), name)
    return names


def time_limits(planners: Sequence[str] | None, names: Sequence[str], time_limit: float | None) -> list[float | None]:
    """Seconds for each planner: what is given, or a few for the exact ones of the default."""
    exact = {row.name for row in registered() if row.exact} if planners is None and time_limit is None else set()
    return [EXACT_SECONDS if name in exact else time_limit for name in names]


def title_of(source: Any, captured: _core.Graph | _core.Problem) -> str:
    """What a source is called: by its name, or by what it is."""
    if isinstance(captured, _core.Graph):
        return name_of(source) or f"a graph of {len(captured.ops):,} ops"
    return name_of(source) or f"a problem of {len(captured):,} buffers"


def name_of(source: Any) -> str | None:
    """The stem of a file, the NAME of "example:NAME"; None for a source that brings no name."""
    if isinstance(source, str) and source.startswith("example:"):
        return source.removeprefix("example:")
    return Path(source).stem if isinstance(source, (str, os.PathLike)) else None


def digest(problem: _core.Problem) -> str:
    """What tells problems apart, but for the names of their buffers."""
    hashed = hashlib.blake2b(digest_size=8)
    columns = (problem.size, problem.first, problem.last, problem.alignment, problem.parts, problem.conflicts)
    for column in columns:
        hashed.update(b"," if column is None else column.tobytes() + b";")
    return hashed.hexdigest()


def _row_of(result: Plan, planner: str) -> ComparisonRow:
    return ComparisonRow(
        planner,
        peak=result.peak,
        lower_bound=result.lower_bound,
        load=result.load,
        naive=result.naive,
        seconds=result.seconds,
        pools=result.pools,
        winner=result.winner,
        interrupted=result.interrupted,
        problem=digest(result.problem),
        plan=result,
    )


def _bound(rows: Sequence[ComparisonRow]) -> int:
    """The best bound proven of each problem; where "auto" shares fewer bytes than the others, the least of both."""
    best: dict[str, int] = {}
    for row in rows:
        if row.lower_bound is not None:
            best[row.problem] = max(best.get(row.problem, 0), row.lower_bound)
    return min(best.values(), default=0)


def _rank(row: ComparisonRow, places: Mapping[str, int]) -> tuple[bool, int, bool, int]:
    name = row.planner.partition(":")[0]
    return row.peak is None, row.peak or 0, row.lower_bound != row.peak, places.get(name, len(places))


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]
