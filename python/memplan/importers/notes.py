"""What importers say about a source besides its graph, such as that a program was exported in another mode.

An importer calls `say`, `needs` or `scratch` while it reads. What was said goes with the graph that comes of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import NamedTuple


class Scratch(NamedTuple):
    """Bytes that the kernel of an op is known to allocate besides its results.

    Attributes
    ----------
    room : int
        In a place of their own, from before the results are made.
    above : int
        Above what the results take, where their places serve before they are made.
    """

    room: int
    above: int


@dataclass
class Said:
    """What was said of a source."""

    notes: list[str] = field(default_factory=list)
    needs: dict[str, int] = field(default_factory=dict)
    scratch: dict[str, Scratch] | None = None


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


def scratch(of_ops: Mapping[str, tuple[int, int]]) -> None:
    """Say what kernels allocate besides results and workspaces, as far as is known: by op, as `Scratch` has it."""
    heard = _HEARD.get()
    if heard is not None:
        heard.scratch = {op: Scratch(*sizes) for op, sizes in of_ops.items()}


@contextmanager
def heard() -> Iterator[Said]:
    """What importers say meanwhile."""
    said = Said()
    token = _HEARD.set(said)
    try:
        yield said
    finally:
        _HEARD.reset(token)
