"""What importers say about a source besides its graph, such as that a program was exported in another mode.

An importer calls `say` or `needs` while it reads. What was said goes with the graph that comes of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field


@dataclass
class Said:
    """What was said of a source."""

    notes: list[str] = field(default_factory=list)
    needs: dict[str, int] = field(default_factory=dict)


_HEARD: ContextVar[Said | None] = ContextVar("heard", default=None)


def say(note: str) -> None:
    """Say something about the source that is being read."""
    heard = _HEARD.get()
    if heard is not None:
        heard.notes.append(note)


def needs(name: str, size: int) -> None:
    """Say how many bytes another planner needs for what is placed by default, such as the compiler that it comes from.

    Comparisons have a row for it.
    """
    heard = _HEARD.get()
    if heard is not None:
        heard.needs[name] = size


@contextmanager
def heard() -> Iterator[Said]:
    """What importers say meanwhile."""
    said = Said()
    token = _HEARD.set(said)
    try:
        yield said
    finally:
        _HEARD.reset(token)
