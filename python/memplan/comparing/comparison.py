"""Comparing planners: one source, planned by many in one order of its ops or several, and what each plan needs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from .. import _core
from ..draw.figures import png
from ..errors import InvalidPlanError, MissingDependencyError, PlannerError, TimeLimitError, UnsupportedError
from ..importers import Network, read_once
from ..options.taking import CALLBACKS, request, without
from ..planning.registry import check_planner, planner_names
from ..planning.registry import planners as registered
from ..plans.failing import InfeasibleError
from ..printing.tables import Table, html_image, html_page, text
from ..sizes import in_bytes, with_bytes
from ..solving.planning import plan
from ..text import printable
from .export import Written, comparison_dict
from .ordered import Ordered, checked_orders, in_order, names_once
from .row import NOT_RUN, ComparisonRow, first_line, not_run, refused, row_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from typing_extensions import Unpack

    from ..options.keywords import CompareOptions

EXACT_SECONDS = 10.0  # for exact planners where neither planners nor a time limit are given
SEARCHES_OF_AUTO = ("auto", "valley", "squeaky_wheel")
REFUSALS = (UnsupportedError, MissingDependencyError, InvalidPlanError, PlannerError, TimeLimitError, MemoryError)


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Written):
    """What each planner makes of one source: a row per planner and order of the ops, sorted by peak.

    Rows with equal peaks come in this order: planners that have proven the peak optimal themselves, "auto" and its
    searches, the others in the order of the registry; of one planner, the orders as they were given. Rows without a
    plan come last. The order is the same in every run.

    Attributes
    ----------
    source : str
        A name or description of what was planned.
    rows : tuple of ComparisonRow
    interrupted : bool
        Ctrl-C cut a search short, and the planners after it were not run.
    """

    _form: ClassVar[str] = "memplan.comparison"

    source: str
    rows: tuple[ComparisonRow, ...]
    interrupted: bool = False

    @staticmethod
    def of(source: str, rows: Sequence[ComparisonRow]) -> Comparison:
        """The rows by peak, those of an order measured from the best bound that any of them has proven."""
        bounds = {order: _bound([row for row in rows if row.order == order]) for order in {row.order for row in rows}}
        least = max((row.order_bound for row in rows if row.order_bound is not None), default=None)
        measured = (replace(row, bound=bounds[row.order], order_bound=least) for row in rows)
        places = {name: place for place, name in enumerate(dict.fromkeys([*SEARCHES_OF_AUTO, *planner_names()]))}
        ranked = sorted(measured, key=lambda row: _rank(row, places))
        return Comparison(source, tuple(ranked), any(row.interrupted or row.error == NOT_RUN for row in rows))

    @property
    def bound(self) -> int:
        """The best lower bound that any planner has proven, in bytes; 0 if there is no plan.

        Of several orders, it is that of the order of the first row.
        """
        return self.rows[0].bound if self.rows else 0

    @property
    def order_bound(self) -> int | None:
        """Bytes below which no plan can peak in any order of the ops; None if only the given order was planned."""
        return self.rows[0].order_bound if self.rows else None

    @property
    def fits(self) -> bool:
        """Whether any planner has a plan, and one within the capacity where there is one."""
        return any(row.peak is not None and not row.error for row in self.rows)

    @property
    def orders(self) -> tuple[str, ...]:
        """The orders of the ops that the rows are of, that of the lowest peak first."""
        return tuple(dict.fromkeys(row.order for row in self.rows))

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

    def __getitem__(self, key: str | tuple[str, str] | int) -> ComparisonRow:
        """The row of a planner, by its name as it was given, of a planner and an order, or by position.

        The name of a planner alone gives its first row: that of the order in which it peaks lowest.
        """
        if isinstance(key, int):
            return self.rows[key]
        row = next((row for row in self.rows if key in (row.planner, (row.planner, row.order))), None)
        if row is None:
            known = ", ".join(dict.fromkeys(r.planner for r in self.rows))
            of = f" in the orders {', '.join(self.orders)}" if isinstance(key, tuple) else ""
            raise KeyError(f"the comparison has no planner {key!r}; it has {known}{of}")
        return row

    def __contains__(self, key: object) -> bool:
        """Whether a planner has a row, by its name as it was given, or a planner and an order."""
        return any(key in (row.planner, (row.planner, row.order)) for row in self.rows)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        layouts: Sequence[str | tuple[str, str]] | None = None,
        title: str | None = None,
    ) -> Axes:
        """Draw the peaks as bars, and some of the plans below them. Returns the Axes of the bars.

        ``comparison.plot().figure.savefig("planners.svg")`` writes the whole picture. With `ax`, only the bars are
        drawn, into that Axes. `layouts` names the planners whose plans are drawn, or pairs of a planner and an order.
        By default, the best plan of each order is drawn; of one order, three of different peaks.

        Raises
        ------
        ValueError
            `layouts` names a planner without a plan, or comes with `ax`.
        """
        from .picture import plot_comparison

        return plot_comparison(self, ax, layouts=layouts, title=title)

    def _comparisons(self) -> Sequence[Comparison]:
        return [self]

    def _spec(self) -> dict[str, Any]:
        return comparison_dict(self)

    def _table(self) -> Table:
        from .picture import comparison_table

        return comparison_table(self)

    def _page(self) -> str:
        alt = f"{self.source}: peaks as bars, and plans side by side"
        return html_page(self.source, self._repr_html_(), html_image(png(self._figure()), alt))

    def _figure(self) -> Figure:
        from .picture import figure_of

        return figure_of(self)

    def __str__(self) -> str:
        return text(self._table())

    def __repr__(self) -> str:
        state = ", interrupted" if self.interrupted else ""
        count = len(self.orders)
        if count > 1:
            state = f" in {count} orders{state}"
        return f"<memplan.comparing.Comparison: {printable(self.source)}, {len(self) // max(count, 1)} planners{state}>"


def compare(
    source: Any,
    planners: Sequence[str] | None = None,
    *,
    orders: Sequence[str] = ("given",),
    time_limit: float | None = None,
    on_row: Callable[[ComparisonRow], object] | None = None,
    on_interrupt: Literal["keep", "raise"] = "keep",
    **options: Unpack[CompareOptions],
) -> Comparison:
    """Plan one source with many planners, in one order of its ops or in several.

    Parameters
    ----------
    source
        What to plan, imported once; see `capture`.
    planners
        Names from `planners()`, with parameters as in "beam:k=16". By default, all planners of the registry. Then exact
        planners end after 10 seconds each, unless you give `time_limit`; other searches end after their own effort.
    orders
        Names of orders of ops, as for `plan`, such as ["given", "best"]. Each order is made once, and all planners plan
        the graph in that order, even if it leads some planner to a higher peak. `order_bound` then bounds every order.
    time_limit
        Seconds for each planner that searches; see `plan`. The search for an order ends after its work.
    on_row
        A function that is called with each row, as soon as its planner has ended. The row's `bound` is not known yet;
        it is 0.
    on_interrupt
        What Ctrl-C does. "keep" ends the comparison and keeps its rows. The search that was cut short has a row with
        its best plan, marked `interrupted`. The planners after it have rows that say that they were not run. "raise"
        raises KeyboardInterrupt. So does "keep" if there is no plan yet.
    options
        The other options of `plan`, but for `order`.

    Returns
    -------
    Comparison
        A row per planner and order. If a planner refuses the problem, fails, does not fit the capacity, or lacks its
        package, its row says why. If it is known what another planner needs, such as the compiler that a source comes
        from, there is a row of its bytes, without a plan.

    Raises
    ------
    TypeError, ValueError
        Bad input, an unknown planner, order or parameter, or one named twice.
    """
    names, orders = checked_planners(planners), checked_orders(orders)
    if "order" in options:
        raise TypeError("compare takes orders, a list: orders=['given', 'best']; got order")
    request("compare", options)
    request("plan", {"time_limit": time_limit, "on_interrupt": on_interrupt})
    if options.get("capacity") is not None:
        options["capacity"] = in_bytes(options["capacity"], "capacity")  # one for all planners, so no share of a peak
    reading, planning = without(options, "capture")
    captured = read_once(source, reading)
    limits = dict(zip(names, time_limits(planners, names, time_limit), strict=True))
    rows: list[ComparisonRow] = []
    for row in _rows(captured, limits, orders, planning):
        rows.append(row)
        if row.interrupted or row.error == NOT_RUN:
            break
        if on_row is not None:
            on_row(row)
    pairs = [(name, order) for order in orders for name in names]
    left = [not_run(*pair) for pair in pairs[len(rows) :]]
    comparison = Comparison.of(title_of(source, captured), [*rows, *left, *_needed(captured, planning)])
    if comparison.interrupted and (on_interrupt == "raise" or all(row.peak is None for row in rows)):
        raise KeyboardInterrupt
    return comparison


def _rows(
    captured: Network | _core.Problem,
    limits: Mapping[str, float | None],
    orders: Sequence[str],
    options: Mapping[str, Any],
) -> Iterator[ComparisonRow]:
    """The rows of all planners, order by order."""
    for order in orders:
        ordered = in_order(captured, order, options)
        for name, limit in limits.items():
            yield planned_row(ordered, name, time_limit=limit, **options)


def _needed(captured: Network | _core.Problem, options: Mapping[str, Any]) -> Iterator[ComparisonRow]:
    """Rows of what other planners are said to need for what is placed by default, in the given order."""
    if isinstance(captured, _core.Problem) or options.get("place") is not None:
        return
    capacity = options.get("capacity")
    for name, peak in captured.needs.items():
        row = ComparisonRow(name, peak)
        if capacity is not None and peak > capacity:
            row = replace(row, error="InfeasibleError", reason=f"{with_bytes(peak)} do not fit the capacity")
        yield row


def planned_row(ordered: Ordered, planner: str, **options: Any) -> ComparisonRow:
    """What a planner makes of a source in an order, or why it makes nothing of it."""
    if ordered.error is not None:
        return refused(planner, ordered.name, ordered.error)
    if ordered.interrupted:
        return not_run(planner, ordered.name)
    raised: list[Exception] = []  # by who listens
    options |= {name: _kept(options[name], raised) for name in CALLBACKS if options.get(name) is not None}
    try:
        row = row_of(plan(ordered.source, planner, on_interrupt="keep", **options), planner)
    except InfeasibleError as error:
        row = ComparisonRow(planner) if error.plan is None else row_of(error.plan, planner)
        row = replace(row, error="InfeasibleError", reason=first_line(error))
    except REFUSALS as error:
        return refused(planner, ordered.name, error)
    except KeyboardInterrupt:
        return not_run(planner, ordered.name)
    except Exception as error:
        if error in raised or _is_of_all(error, ordered.source, options):
            raise
        return refused(planner, ordered.name, error)
    return replace(row, order=ordered.name, order_bound=ordered.bound)


def _is_of_all(error: Exception, source: Any, options: Mapping[str, Any]) -> bool:
    """Whether an error is of what every planner is given, and not of one planner: a plan that needs none has it too."""
    try:
        plan(source, "naive", **{**options, **dict.fromkeys(CALLBACKS)})
    except REFUSALS:
        return False
    except Exception as other:
        return (type(other), str(other)) == (type(error), str(error))
    return False


def _kept(listener: Callable[[Any], object], raised: list[Exception]) -> Callable[[Any], object]:
    """A listener whose errors are kept."""

    def listen(found: Any) -> None:
        try:
            listener(found)
        except Exception as error:
            raised.append(error)
            raise

    return listen


def checked_planners(planners: Sequence[str] | None) -> list[str]:
    """The names of planners, all of the registry for None; refuses unknown ones and repeats before any work."""
    if planners is None:
        return [row.name for row in registered()]
    names = names_once(planners, "planners", "planners()")
    for name in names:
        with suppress(MissingDependencyError):
            check_planner(name)
    return names


def time_limits(planners: Sequence[str] | None, names: Sequence[str], time_limit: float | None) -> list[float | None]:
    """Seconds for each planner: what is given, or a few for the exact ones of the default."""
    exact = {row.name for row in registered() if row.exact} if planners is None and time_limit is None else set()
    return [EXACT_SECONDS if name in exact else time_limit for name in names]


def title_of(source: Any, captured: Network | _core.Problem) -> str:
    """What a source is called: by its name, or by what it is."""
    if isinstance(captured, Network):
        return name_of(source) or f"a graph of {len(captured.graph.ops):,} ops"
    return name_of(source) or f"a problem of {len(captured):,} buffers"


def name_of(source: Any) -> str | None:
    """The stem of a file, the NAME of "example:NAME"; None for a source that brings no name."""
    if isinstance(source, str) and source.startswith("example:"):
        return source.removeprefix("example:")
    return Path(source).stem if isinstance(source, (str, os.PathLike)) else None


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
