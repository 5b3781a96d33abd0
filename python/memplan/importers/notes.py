"""What importers say about a source besides its graph, such as that a program was exported in another mode.

An importer calls `say` while it reads. The graph that comes of it keeps what was said, for whoever plans it.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from .. import _core

_HEARD: ContextVar[list[str] | None] = ContextVar("heard", default=None)
_KEPT: dict[int, tuple[str, ...]] = {}  # by the id of a graph, for as long as it lives


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


def keep(graph: _core.Graph, notes: list[str]) -> None:
    """Let a graph keep what was said about its source."""
    if notes:
        _KEPT[id(graph)] = tuple(dict.fromkeys(notes))
        weakref.finalize(graph, _KEPT.pop, id(graph), None)


def notes_of(graph: _core.Graph | _core.Problem) -> tuple[str, ...]:
    """What was said about the source of a graph."""
    return _KEPT.get(id(graph), ())
