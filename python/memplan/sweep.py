"""Sweeps: many sources, each planned by many planners, through any executor of concurrent.futures."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import signal
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from . import _core
from .api import capture, plan
from .compare import (
    CAPTURING,
    NOT_RUN,
    Comparison,
    Row,
    checked_planners,
    digest,
    name_of,
    not_run,
    planned_row,
    refused,
    time_limits,
)
from .errors import GraphError, MissingDependencyError, ProblemError, SourceError, UnsupportedError
from .sweep_log import Cell, SweepLog

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_Source: TypeAlias = "str | _core.Graph | _core.Problem"  # a path or an example by name, or what was captured
_CAPTURE_FIRST = "capture the source with it first"
_LOCAL = {"args": _CAPTURE_FIRST, "kwargs": _CAPTURE_FIRST} | dict.fromkeys(
    ("on_improvement", "on_interrupt", "on_row"), "see memplan.compare"
)  # options that cannot be sent to workers
_UNREADABLE = (SourceError, GraphError, ProblemError, UnsupportedError, MissingDependencyError)
_PASSING = {"MissingDependencyError", "MemoryError", NOT_RUN}  # errors that may be gone next time: not kept in a file


@dataclass(frozen=True, eq=False, repr=False)
class Sweep:
    """A comparison per source, whose rows have no plans.

    Attributes
    ----------
    comparisons : tuple of Comparison
        In the order of the sources.
    planners : tuple of str
        In the order in which they were given.
    """

    comparisons: tuple[Comparison, ...]
    planners: tuple[str, ...]

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
        """Draw the gaps as a map of colours; see `present.sweep`."""
        from .present.sweep import plot_sweep

        return plot_sweep(self, ax, title=title)

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write a line per source and planner, with all figures."""
        from .export.compare import write_comparisons_csv

        write_comparisons_csv(self.comparisons, path)

    def to_json(self, path: str | os.PathLike[str]) -> None:
        """Write the sweep as versioned JSON."""
        from .export.compare import write_sweep_json

        write_sweep_json(self, path)

    def to_markdown(self, path: str | os.PathLike[str]) -> None:
        """Write the gaps as a table of Markdown."""
        from .export.files import write_text

        write_text(path, self.markdown())

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write a page with the gaps, all figures per source, and the picture, which needs no other file."""
        from .export.files import write_text
        from .present.sweep import sweep_page

        write_text(path, sweep_page(self))

    def markdown(self) -> str:
        """The gaps as a table of Markdown."""
        from .present.sweep import gap_table
        from .present.tables import markdown

        return markdown(gap_table(self))

    def _repr_html_(self) -> str:
        from .present.sweep import gap_table
        from .present.tables import html

        return html(gap_table(self))

    def __str__(self) -> str:
        from .present.sweep import sweep_text

        return sweep_text(self)

    def __repr__(self) -> str:
        state = ", interrupted" if self.interrupted else ""
        return f"<memplan.Sweep: {len(self)} sources, {len(self.planners)} planners{state}>"


def sweep(
    sources: Sequence[Any] | Mapping[str, Any],
    planners: Sequence[str] | None = None,
    executor: Executor | int | None = None,
    *,
    csv: str | os.PathLike[str] | None = None,
    progress: bool = True,
    time_limit: float | None = None,
    **options: Any,
) -> Sweep:
    """Plan many sources with many planners, several at a time.

    Parameters
    ----------
    sources
        A list of paths and "example:NAME", called by their stem or NAME, or a dict {name: source} of anything that
        `capture` takes. Files are read by the workers, which must see them; other sources are captured here and sent.
    planners
        As in `compare`.
    executor
        Any executor of `concurrent.futures`, such as one of threads (planning releases the GIL) or the
        ``get_executor()`` of a Client of Dask. It is left running. Or a number of processes, by default one for each
        core, started as the platform does it: where that is not by fork, a script needs its
        ``if __name__ == "__main__"``. Seconds are those of planners that run beside each other.
    csv
        A file that gets each row when it is done. Where it has rows, these are not computed again; it may be extended
        by sources and planners. Rows that were interrupted, or short of a package or of memory, are not kept.
    progress
        Show a bar on stderr, where that is a terminal.
    time_limit
        Seconds for each planner that searches, as in `compare`.
    options
        Other options of `plan` and `capture` for all sources, but for `args`, `kwargs`, `on_improvement` and
        `on_interrupt`.

    Returns
    -------
    Sweep
        A Comparison per source, whose rows have no plans. A source that cannot be read has rows that say why. Where
        Ctrl-C ended it, rows that were not run say so; one in a worker that the interrupt does not reach is waited for.

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
    names = checked_planners(planners)
    _check_executor(executor)
    asked = _as_json(options)
    models = _models(sources, {name: value for name, value in options.items() if name in CAPTURING})
    limits = time_limits(planners, names, time_limit)
    work = {
        Cell(name, fingerprint, planner, limit, asked): source
        for name, source, fingerprint in models
        for planner, limit in zip(names, limits, strict=True)
    }
    with nullcontext() if csv is None else SweepLog(csv, list(work)) as log:
        done = {} if log is None else dict(log.rows)
        rows = {cell: done[cell.source, cell.planner] for cell in work if (cell.source, cell.planner) in done}

        def keep(cell: Cell, row: Row) -> None:
            rows[cell] = row
            if log is not None and not row.interrupted and row.error not in _PASSING:
                log.append(cell, row)

        _run({cell: source for cell, source in work.items() if cell not in rows}, executor, keep, progress)
    if not any(row.peak is not None for row in rows.values()) and any(row.error == NOT_RUN for row in rows.values()):
        raise KeyboardInterrupt
    by_source: dict[str, list[Row]] = {}
    for cell in work:
        by_source.setdefault(cell.source, []).append(rows.get(cell) or not_run(cell.planner))
    return Sweep(tuple(Comparison.of(name, found) for name, found in by_source.items()), tuple(names))


def _check_executor(executor: Any) -> None:
    if executor is None or isinstance(executor, Executor):
        return
    if isinstance(executor, bool) or not isinstance(executor, int):
        kind = type(executor).__name__
        raise TypeError(f"executor must be a concurrent.futures.Executor or a number of processes, got a {kind}")
    if executor < 1:
        raise ValueError(f"executor must be >= 1 processes, got {executor}")


def _as_json(options: Mapping[str, Any]) -> str:
    """What options say beyond the defaults, as text, for workers and files."""
    defaults = {name: parameter.default for name, parameter in inspect.signature(plan).parameters.items()}
    said = {}
    for name, value in options.items():
        if name in _LOCAL:
            raise TypeError(f"option {name} does not apply to sweeps; {_LOCAL[name]}")
        if name not in defaults:
            raise TypeError(f"sweep takes the options of plan, got {name!r}")
        value, default = _plain(value), _plain(defaults[name])
        if value != default and not (isinstance(value, (dict, list)) and not value and not default):
            said[name] = value
    try:
        return json.dumps(said, sort_keys=True)
    except TypeError:
        raise TypeError(f"options of a sweep must be numbers, names or collections of them, got {said}") from None


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(entry) for name, entry in value.items()}
    if isinstance(value, Collection) and not isinstance(value, str):
        return sorted(value)
    return int(value) if isinstance(value, np.integer) else value


def _models(sources: Sequence[Any] | Mapping[str, Any], capturing: dict[str, Any]) -> list[tuple[str, _Source, str]]:
    """Name, what is sent to workers, and a digest of what it holds, per source."""
    models = []
    seen: dict[str, Any] = {}
    for name, source in _named(sources):
        if name in seen:
            raise ValueError(
                f"two sources are called {name!r}: {seen[name]} and {source}; give other names, as in {{name: source}}"
            )
        if not name.isprintable():
            raise ValueError(f"the name of a source must be printable, got {name!r}")
        seen[name] = source
        models.append((name, *_sent(source, capturing)))
    if not models:
        raise ValueError("sources must hold one source at least, got none")
    return models


def _named(sources: Sequence[Any] | Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    is_one = isinstance(sources, (str, os.PathLike, _core.Graph, _core.Problem))
    if is_one or (isinstance(sources, Mapping) and {"tensors", "ops"} <= set(sources)):
        raise TypeError(
            "sources must be a list of sources or a dict {name: source}, got one source; see memplan.compare"
        )
    if isinstance(sources, Mapping):
        for name, source in sources.items():
            if not isinstance(name, str):
                raise TypeError(f"the name of a source must be a string, got {name!r}")
            yield name, source
        return
    for i, source in enumerate(sources):
        found = name_of(source)
        if found is None:
            raise TypeError(
                f"sources[{i}] is a {type(source).__name__} and has no name: give sources as a dict {{name: source}}"
            )
        yield found, source


def _sent(source: Any, capturing: dict[str, Any]) -> tuple[_Source, str]:
    if isinstance(source, (str, os.PathLike)) and not str(source).startswith("example:"):
        path = os.path.abspath(source)
        return path, _fingerprint(path)
    captured = capture(source, **capturing)
    if isinstance(captured, _core.Problem):
        return captured, digest(captured)
    text = json.dumps(captured.to_dict(), sort_keys=True)
    return captured, hashlib.sha256(text.encode()).hexdigest()[:16]


def _fingerprint(path: str) -> str:
    hashed = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(2**20):
            hashed.update(piece)
    return hashed.hexdigest()[:16]


def _run(
    work: Mapping[Cell, _Source], executor: Executor | int | None, keep: Callable[[Cell, Row], None], progress: bool
) -> None:
    """Hand all work to the executor and keep its rows as they come."""
    if not work:
        return
    if isinstance(executor, Executor):
        workers, to_run = executor, planned_cell
    else:
        workers, to_run = ProcessPoolExecutor(executor, initializer=_ignore_interrupts), _interruptible
    futures = {workers.submit(to_run, source, cell): cell for cell, source in work.items()}
    taken: set[Future[Row]] = set()

    def take(ready: Iterable[Future[Row]]) -> Iterator[Cell]:
        for future in ready:
            taken.add(future)
            keep(futures[future], future.result())
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


def planned_cell(source: _Source, cell: Cell) -> Row:
    """What a worker does: plans one source with one planner. The row comes without its plan."""
    options = json.loads(cell.options)
    capturing = {name: options.pop(name) for name in CAPTURING if name in options}
    try:
        if isinstance(source, str):
            source = _captured(source, cell.fingerprint, json.dumps(capturing))
    except _UNREADABLE as error:
        return refused(cell.planner, error)
    return replace(planned_row(source, cell.planner, time_limit=cell.time_limit, **options), plan=None)


@lru_cache(maxsize=2)
def _captured(path: str, fingerprint: str, capturing: str) -> _core.Graph | _core.Problem:
    """The last files that this worker has read."""
    return capture(path, **json.loads(capturing))


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _interruptible(source: _Source, cell: Cell) -> Row:
    """In a process of the own pool: an interrupt ends the plan at hand, and leaves the process alone between plans."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return planned_cell(source, cell)
    except KeyboardInterrupt:  # while it reads
        return not_run(cell.planner)
    finally:
        _ignore_interrupts()


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
