"""A row of a comparison: what one planner makes of a source in one order of its ops. `COLUMNS` declares its figures."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from .. import _core
from ..plans.plan import Plan
from ..printing.units import format_bytes, percent, seconds

NOT_RUN = "KeyboardInterrupt"  # the error of a row whose planner was not run, or not to an end


@dataclass(frozen=True)
class ComparisonRow:
    """What one planner makes of a source; all sizes are in bytes.

    Attributes
    ----------
    planner : str
        The planner's name as it was given, with its parameters.
    order : str
        The order of the ops, as it was given.
    peak, load, naive : int or None
        Figures of the plan. None if there is no plan.
    lower_bound : int or None
        Bytes below which this planner has proven that no plan peaks.
    bound : int
        The best lower bound that any planner of the comparison has proven for this order. Gaps are measured from it.
    order_bound : int or None
        Bytes below which no plan of the graph can peak, in any order of its ops. None if only the given order was
        planned.
    seconds : float or None
        Wall time of planning, without import and verification.
    objects : int
        Number of shared objects, for planners that make such; 0 for the others.
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
    objects: int = 0
    winner: str = ""
    interrupted: bool = False
    error: str = ""
    reason: str = ""
    problem: str = ""
    bound: int = 0
    order: str = "given"
    order_bound: int | None = None
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
        """Whether the peak equals the bound: no plan in this order peaks lower. Any planner may have proven it."""
        return self.peak is not None and self.peak == self.bound

    @property
    def order_gap(self) -> float | None:
        """How far the peak may be from the best possible in any order: peak / order_bound - 1; None if not known."""
        return self.peak / self.order_bound - 1 if self.peak is not None and self.order_bound else None

    @property
    def order_optimal(self) -> bool:
        """Whether it is proven that no plan of the graph peaks lower, in any order of its ops."""
        return self.peak is not None and self.peak == self.order_bound

    @property
    def why(self) -> str:
        """Why there is no plan, without the planner's name."""
        return self.reason.removeprefix(f"planner '{self.planner.partition(':')[0]}' ")

    @property
    def note(self) -> str:
        """Which planner won, whether it was interrupted, and why there is no plan."""
        winner = f"from {self.winner}" if self.winner not in ("", self.planner) else ""
        return ", ".join(filter(None, (winner, "interrupted" * self.interrupted, self.why)))


@dataclass(frozen=True)
class Column:
    """A figure of a row, as all tables, files and pictures have it."""

    name: str  # the attribute of `ComparisonRow`, and the name in files of CSV and JSON
    # what a sweep reads back from its file; None for what follows from other figures or rows
    kind: Callable[[str], Any] | None = None
    title: str = ""  # in tables; empty for what is in files alone
    # what people read of a row. A column in which all rows are empty is left out
    text: Callable[[ComparisonRow], str] = lambda row: ""
    right: bool = True  # a number, which tables align to the right
    shown: Callable[[Sequence[ComparisonRow]], bool] = lambda rows: True  # whether a table of these rows has the column
    exported: bool = True  # whether files have it


def gap(row: ComparisonRow) -> str:
    """The gap of a row, or that its peak is proven optimal in its order; nothing where there is no plan."""
    return "optimal" if row.optimal else percent(row.gap)


def order_gap(row: ComparisonRow) -> str:
    """The gap of a row to the bound of all orders, or that no order does better; nothing where there is no plan."""
    return "optimal" if row.order_optimal else percent(row.order_gap)


def _size(count: int | None) -> str:
    return "" if count is None else format_bytes(count)


def _above_load(rows: Sequence[ComparisonRow]) -> bool:
    return any((row.lower_bound or 0) > (row.load or 0) for row in rows)


COLUMNS = (
    Column("planner", str, "planner", lambda row: row.planner, right=False),
    Column(
        "order",
        str,
        "order",
        lambda row: row.order,
        right=False,
        shown=lambda rows: len({row.order for row in rows}) > 1,
    ),
    Column("peak", int, "peak", lambda row: _size(row.peak)),
    Column("lower_bound", int, "lower bound", lambda row: _size(row.lower_bound), shown=_above_load),
    Column("load", int),
    Column("naive", int),
    Column("bound"),
    Column("gap", None, "gap", gap),
    Column("order_gap", None, "gap in any order", order_gap),
    Column("saved", None, "saved", lambda row: "" if row.saved is None else f"{row.saved:.1%}"),
    Column("optimal"),
    Column("order_bound", int),
    Column("order_optimal"),
    Column("seconds", float, "time", lambda row: seconds(row.seconds)),
    Column("objects", int, "objects", lambda row: f"{row.objects:,}" if row.objects else ""),
    Column("winner", str),
    Column("interrupted"),
    Column("error", str),
    Column("reason", str),
    Column("problem", str, exported=False),
    Column("note", None, "note", lambda row: row.note, right=False, exported=False),
)


def row_of(result: Plan, planner: str) -> ComparisonRow:
    """The row of a plan, in the given order unless it is told."""
    return ComparisonRow(
        planner,
        peak=result.peak,
        lower_bound=result.lower_bound,
        load=result.load,
        naive=result.naive,
        seconds=result.seconds,
        objects=result.objects,
        winner=result.winner,
        interrupted=result.interrupted,
        problem=digest(result.problem),
        plan=result,
    )


def refused(planner: str, order: str, error: Exception) -> ComparisonRow:
    """The row of a planner that has no plan because of an error."""
    reason = first_line(error) or "out of memory"
    return ComparisonRow(planner, order=order, error=type(error).__name__, reason=reason)


def not_run(planner: str, order: str) -> ComparisonRow:
    """The row of a planner that was not run, or not to an end."""
    return ComparisonRow(planner, order=order, error=NOT_RUN, reason="interrupted before it had a plan")


def digest(problem: _core.Problem) -> str:
    """What tells problems apart, but for the names of their buffers."""
    hashed = hashlib.blake2b(digest_size=8)
    columns = (problem.size, problem.first, problem.last, problem.alignment, problem.parts, problem.conflicts)
    for column in columns:
        hashed.update(b"," if column is None else column.tobytes() + b";")
    return hashed.hexdigest()


def first_line(error: BaseException) -> str:
    """What an error says, without details."""
    return str(error).partition("\n")[0]
