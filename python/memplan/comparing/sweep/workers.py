"""The work of a sweep: cells handed to an executor, and what its workers do with them."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from typing import Any

from ... import _core
from ...api import capture
from ...errors import GraphError, MissingDependencyError, ProblemError, SourceError, UnsupportedError
from ..comparison import CAPTURING, planned_row
from ..ordered import Ordered, in_order
from ..row import ComparisonRow, not_run, refused
from .given import Source
from .log import Cell

_LOOK_SECONDS = 0.2
_UNREADABLE = (SourceError, GraphError, ProblemError, UnsupportedError, MissingDependencyError)


def check_executor(executor: Any) -> None:
    """Refuse what is neither an executor nor a number of processes."""
    if executor is None or isinstance(executor, Executor):
        return
    if isinstance(executor, bool) or not isinstance(executor, int):
        kind = type(executor).__name__
        raise TypeError(f"executor must be a concurrent.futures.Executor or a number of processes, got a {kind}")
    if executor < 1:
        raise ValueError(f"executor must be >= 1 processes, got {executor}")


def run_cells(
    work: Mapping[Cell, Source],
    executor: Executor | int | None,
    keep: Callable[[Cell, ComparisonRow], None],
    progress: bool,
) -> None:
    """Hand all work to the executor and keep its rows as they come."""
    if not work:
        return
    if isinstance(executor, Executor):
        workers, to_run = executor, planned_cell
    else:
        workers, to_run = ProcessPoolExecutor(executor, initializer=_begin), _interruptible
    futures = {workers.submit(to_run, source, cell): cell for cell, source in work.items()}
    taken: set[Future[ComparisonRow]] = set()

    def take(ready: Iterable[Future[ComparisonRow]]) -> Iterator[Cell]:
        for future in ready:
            keep(futures[future], future.result())
            taken.add(future)
            yield futures[future]

    try:
        with _bar(len(futures), progress) as advance:
            for cell in take(as_completed(futures)):
                advance(cell)
    except KeyboardInterrupt:
        pass
    finally:
        for future in futures:
            future.cancel()
        if workers is not executor:
            workers.shutdown()
    ended = (f for f in futures if f not in taken and f.done() and not f.cancelled() and f.exception() is None)
    for _ in take(list(ended)):
        pass


def planned_cell(source: Source, cell: Cell) -> ComparisonRow:
    """What a worker does: plans one source with one planner. The row comes without its plan."""
    options = json.loads(cell.options)
    capturing = {name: options.pop(name) for name in CAPTURING if name in options}
    try:
        if isinstance(source, str):
            source = _captured(source, cell.fingerprint, json.dumps(capturing))
    except _UNREADABLE as error:
        return refused(cell.planner, cell.order, error)
    row = planned_row(_in_order(source, cell, options), cell.planner, time_limit=cell.time_limit, **options)
    return replace(row, plan=None)


_ordered: dict[tuple[str, str, str], Ordered] = {}  # the last that this worker has made


def _in_order(source: _core.Graph | _core.Problem, cell: Cell, options: dict[str, Any]) -> Ordered:
    """A source in the order of a cell: many cells ask for the same, one after the other."""
    key = (cell.fingerprint, cell.order, cell.options)
    found = _ordered.get(key)
    if found is None:
        found = in_order(source, cell.order, options)
        _ordered.clear()
        if not found.interrupted:
            _ordered[key] = found
    return found


@lru_cache(maxsize=2)
def _captured(path: str, fingerprint: str, capturing: str) -> _core.Graph | _core.Problem:
    """The last files that this worker has read."""
    return capture(path, **json.loads(capturing))


def _begin() -> None:
    """What each process of the own pool does first."""
    _Interrupt.expect()
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent, os.getppid()), daemon=True).start()


def _end_with(parent: Any, adopted: int) -> None:
    """End this process at once when its parent has: nobody is left for what it makes.

    A process that was forked holds the pipe that tells of its parent's end itself, and never sees it close. But it
    gets another parent, so that is looked at as well.
    """
    while os.getppid() == adopted:
        parent.join(_LOOK_SECONDS)
        if not parent.is_alive():
            break
    os._exit(1)


class _Interrupt:
    """In a process of the own pool, which gets interrupts too: one ends the plan at hand and all that come after it."""

    came = False
    planning = False

    @classmethod
    def expect(cls) -> None:
        """Handle interrupts; those of the parent that started this process are none of its own."""
        cls.came = cls.planning = False
        signal.signal(signal.SIGINT, cls.handle)

    @classmethod
    def handle(cls, *_: object) -> None:
        cls.came = True
        if cls.planning:
            raise KeyboardInterrupt


def _interruptible(source: Source, cell: Cell) -> ComparisonRow:
    _Interrupt.planning = True
    try:
        return not_run(cell.planner, cell.order) if _Interrupt.came else planned_cell(source, cell)
    except KeyboardInterrupt:  # while it reads
        return not_run(cell.planner, cell.order)
    finally:
        _Interrupt.planning = False


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
