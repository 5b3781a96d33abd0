"""What commands say on a terminal, and how they end."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from .._core import OrderProgress
from ..plans.plan import Plan
from ..text import printable

if TYPE_CHECKING:
    from rich.console import Console, RichCast
    from rich.text import Text

OK, INVALID, ERROR, INTERRUPTED = 0, 1, 2, 130


def interrupted(but: str = "") -> int:
    """Say on stderr that the command was interrupted; returns the exit status."""
    print("memplan: interrupted" + (f"; {but}" if but else ""), file=sys.stderr)
    return INTERRUPTED


def console() -> Console:
    """Standard output, as wide as the terminal."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 160, highlight=False, markup=False, emoji=False)


@contextmanager
def readers_may_leave() -> Iterator[None]:
    """Print to stdout; that its reader has gone, as head goes, changes nothing."""
    try:
        yield
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit):  # rich turns the one into the other
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def print_summary(source: str, plan: Plan) -> None:
    """The figures of a plan, below the name of what was planned."""
    from rich.table import Table

    from ..draw.layout import summary_rows

    table = Table(show_header=False, box=None)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for label, value in summary_rows(plan):
        table.add_row(label, value)
    out = console()
    out.print(printable(source), soft_wrap=True)
    out.print(table)


class Line:
    """A line that says how far something has come, since it began."""

    def __init__(self) -> None:
        self._begin = time.monotonic()

    @property
    def spent(self) -> str:
        """The time since."""
        from ..printing.units import seconds

        return seconds(int(time.monotonic() - self._begin))

    def __rich__(self) -> Text:
        from rich.text import Text

        return Text(str(self))


class Progress(Line):
    """How far planning has come, as a line: "planning: peak 1.2 MiB, bound 1.0 MiB, gap 20.000%, 3 s".

    Before that, of the search for an order: "ordering: load 1.2 MiB, bound of all orders 1.0 MiB, 3 s".
    """

    def __init__(self) -> None:
        super().__init__()
        self._best: Plan | None = None
        self._order: OrderProgress | None = None

    def show(self, plan: Plan) -> None:
        """A better plan was found."""
        self._best = plan

    def show_order(self, found: OrderProgress) -> None:
        """A better order was found, or a higher bound."""
        self._order = found

    def __str__(self) -> str:
        from ..printing.units import format_bytes, gap_text

        if self._best is None and self._order is not None:
            needed, bound = format_bytes(self._order.needed), format_bytes(self._order.bound)
            return f"ordering: load {needed}, bound of all orders {bound}, {self.spent}"
        if self._best is None:
            return f"planning: {self.spent}"
        peak, bound = format_bytes(self._best.peak), format_bytes(self._best.lower_bound)
        return (
            f"planning: peak {peak}, bound {bound}, {gap_text(self._best.peak, self._best.lower_bound)}, {self.spent}"
        )


class waiting:
    """A line with a spinner on stderr while something takes more than a second; on a terminal only."""

    def __init__(self, what: str | RichCast) -> None:
        from threading import Timer

        from rich.console import Console
        from rich.text import Text

        line = Text(printable(what)) if isinstance(what, str) else what
        self._status = Console(stderr=True).status(line) if sys.stderr.isatty() else None
        self._timer = Timer(1.0, self._status.start) if self._status is not None else None

    def __enter__(self) -> None:
        if self._timer is not None:
            self._timer.daemon = True
            self._timer.start()

    def __exit__(self, *_: object) -> None:
        if self._timer is not None and self._status is not None:
            self._timer.cancel()
            self._timer.join()
            self._status.stop()
