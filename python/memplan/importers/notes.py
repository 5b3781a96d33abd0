"""What importers say about a source besides its graph, such as that a program was exported in another mode.

An importer calls `say` while it reads. What was said goes with the graph that comes of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_HEARD: ContextVar[list[str] | None] = ContextVar("heard", default=None)


def say(note: str) -> None:
    """Say something about the source that is being read."""
    heard = _HEARD.get()
    if heard is not None:
        heard.append(note)


@contextmanager
def heard() -> Iterator[list[str]]:
    """What importers say meanwhile."""
    notes: list[str] = []
    token = _HEARD.set(notes)
    try:
        yield notes
    finally:
        _HEARD.reset(token)
