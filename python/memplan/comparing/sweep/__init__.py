"""Sweeps: many sources, each planned by many planners, through any executor of concurrent.futures."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from ...options.taking import request, without
from ..comparison import Comparison, checked_planners, time_limits
from ..ordered import checked_orders
from ..row import NOT_RUN, ComparisonRow, not_run
from .cells import Cell, Source, options_as_json, planned_cell, read_sources
from .log import SweepLog
from .result import Sweep

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ...options.keywords import CompareOptions

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
    **options: Unpack[CompareOptions],
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
        As in `compare`. A source without a graph has rows that say so.
    csv
        A file that gets each row as soon as it is done. Rows that it has already are not computed again. You may add
        sources, planners and orders. Rows that lacked a package or memory are not kept.
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
        A Comparison per source. Its rows have no plans. A source that cannot be read has rows that say why. Ctrl-C
        keeps the rows that are done; the others say that they were not run. The sweep's own processes end with it. If
        it does not reach them, the sweep waits for what they plan.

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
    _check_executor(executor)
    request("plan", {"time_limit": time_limit})
    asked = options_as_json(options)
    models = read_sources(sources, without(options, "capture")[0])
    limits = time_limits(planners, names, time_limit)
    work = {
        Cell(name, fingerprint, planner, order, limit, asked): source
        for name, source, fingerprint in models
        for order in orders
        for planner, limit in zip(names, limits, strict=True)
    }
    log = None if csv is None else SweepLog(csv, list(work))
    rows = {} if log is None else {cell: log.rows[cell.key] for cell in work if cell.key in log.rows}
    with suppress(KeyboardInterrupt):
        for cell, row in _rows({cell: source for cell, source in work.items() if cell not in rows}, executor, progress):
            rows[cell] = row
            if log is not None and not row.interrupted and row.error not in _PASSING:
                log.append(cell, row)
    by_source: dict[str, list[ComparisonRow]] = {}
    for cell in work:
        by_source.setdefault(cell.source, []).append(rows.get(cell) or not_run(cell.planner, cell.order))
    result = Sweep(tuple(Comparison.of(name, found) for name, found in by_source.items()), tuple(names), tuple(orders))
    if result.interrupted and all(row.peak is None for comparison in result for row in comparison):
        raise KeyboardInterrupt
    return result


def _check_executor(executor: Any) -> None:
    """Refuse what is neither an executor nor a number of processes."""
    if executor is None or isinstance(executor, Executor):
        return
    if isinstance(executor, bool) or not isinstance(executor, int):
        kind = type(executor).__name__
        raise TypeError(f"executor must be a concurrent.futures.Executor or a number of processes, got a {kind}")
    if executor < 1:
        raise ValueError(f"executor must be >= 1 processes, got {executor}")


def _rows(
    work: Mapping[Cell, Source], executor: Executor | int | None, progress: bool
) -> Iterator[tuple[Cell, ComparisonRow]]:
    """The rows of all work, as they are done."""
    if not work:
        return
    if isinstance(executor, Executor):
        workers = executor
    else:  # Ctrl-C ends its processes, whatever they do
        workers = ProcessPoolExecutor(executor, initializer=signal.signal, initargs=(signal.SIGINT, signal.SIG_DFL))
    futures = {workers.submit(planned_cell, source, cell): cell for cell, source in work.items()}
    try:
        with _bar(len(futures), progress) as advance:
            for future in as_completed(futures):
                yield futures[future], future.result()
                advance(futures[future])
    finally:
        for future in futures:
            future.cancel()
        if workers is not executor:
            workers.shutdown()


@contextmanager
def _bar(total: int, shown: bool) -> Iterator[Callable[[Cell], None]]:
    """A bar on stderr that is told of each cell that is done."""
    if not shown or not sys.stderr.isatty():
        yield lambda cell: None
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (MofNCompleteColumn(), BarColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda cell: bar.update(task, advance=1, description=escape(f"{cell.source}, {cell.planner}"))
