"""Sweeps: many sources, each planned by many planners, through any executor of concurrent.futures."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from contextlib import nullcontext
from typing import Any

from ...options.early import check_early
from ..comparison import CAPTURING, Comparison, checked_planners, time_limits
from ..ordered import checked_orders
from ..row import NOT_RUN, ComparisonRow, not_run
from .given import options_as_json, read_sources
from .log import Cell, SweepLog
from .result import Sweep
from .workers import check_executor, run_cells

__all__ = ["Sweep", "sweep"]

_PASSING = {"MissingDependencyError", "MemoryError", NOT_RUN}  # errors that may be gone next time: not kept in a file


def sweep(
    sources: Sequence[Any] | Mapping[str, Any],
    planners: Sequence[str] | None = None,
    executor: Executor | int | None = None,
    *,
    orders: Sequence[str] = ("given",),
    csv: str | os.PathLike[str] | None = None,
    progress: bool = True,
    time_limit: float | None = None,
    **options: Any,
) -> Sweep:
    """Plan many sources with many planners, several at a time.

    Parameters
    ----------
    sources
        A list of paths and "example:NAME", which are called by their stem or NAME. Or a dict {name: source} of anything
        that `capture` takes. The workers read files, so they must see them. Other sources are captured here, and sent.
    planners
        As in `compare`.
    executor
        A number of processes; by default, one for each core. They start as the platform starts processes. If that is
        not by fork, a script needs its ``if __name__ == "__main__"``. Or any executor of `concurrent.futures`, such as
        one of threads (planning releases the GIL), or the ``get_executor()`` of a Client of Dask. It is left running.
        Planners that run at the same time slow each other down, and their seconds show it.
    orders
        As in `compare`. With orders, what are no graphs have rows that say so.
    csv
        A file that gets each row as soon as it is done. Rows that it has already are not computed again. You may add
        sources, planners and orders. Rows that were interrupted, or that lacked a package or memory, are not kept.
    progress
        Show a bar on stderr, if that is a terminal.
    time_limit
        Seconds for each planner that searches, as in `compare`.
    options
        Other options of `plan` and `capture` for all sources, but for `args`, `kwargs`, `order`, `on_improvement` and
        `on_interrupt`.

    Returns
    -------
    Sweep
        A Comparison per source. Its rows have no plans. A source that cannot be read has rows that say why. After
        Ctrl-C, rows that were not run say so. The sweep waits for a worker that the interrupt does not reach.

    Raises
    ------
    TypeError, ValueError
        Bad input, two sources of one name, an unknown planner, an option that does not apply.
    SourceError
        The file of `csv` is none of a sweep, or of one with other options, time limits, or sources of these names.
    OSError
        A file cannot be read or written.
    KeyboardInterrupt
        Ctrl-C, where there is no plan yet.
    """
    names, orders = checked_planners(planners), checked_orders(orders)
    check_executor(executor)
    check_early({"time_limit": time_limit})
    asked = options_as_json(options)
    models = read_sources(sources, {name: value for name, value in options.items() if name in CAPTURING})
    limits = time_limits(planners, names, time_limit)
    work = {
        Cell(name, fingerprint, planner, limit, asked, order): source
        for name, source, fingerprint in models
        for order in orders
        for planner, limit in zip(names, limits, strict=True)
    }
    with nullcontext() if csv is None else SweepLog(csv, list(work)) as log:
        done = {} if log is None else dict(log.rows)
        rows = {cell: done[cell.key] for cell in work if cell.key in done}

        def keep(cell: Cell, row: ComparisonRow) -> None:
            rows[cell] = row
            if log is not None and not row.interrupted and row.error not in _PASSING:
                log.append(cell, row)

        run_cells({cell: source for cell, source in work.items() if cell not in rows}, executor, keep, progress)
    by_source: dict[str, list[ComparisonRow]] = {}
    for cell in work:
        by_source.setdefault(cell.source, []).append(rows.get(cell) or not_run(cell.planner, cell.order))
    result = Sweep(tuple(Comparison.of(name, found) for name, found in by_source.items()), tuple(names), tuple(orders))
    if result.interrupted and all(row.peak is None for comparison in result for row in comparison):
        raise KeyboardInterrupt
    return result
