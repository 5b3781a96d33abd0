"""How long attempts may take, what they share, and what is said meanwhile."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from torch import fx

from ...plans.failing import InfeasibleError
from .floor import Floor
from .step_load import IN_MEMORY, Fusion

if TYPE_CHECKING:
    from .partitions import Partition

LEAST = 30.0  # seconds that attempts may take unless told otherwise, if Inductor compiles faster
_SOON = 1.0  # seconds after which a terminal shows how far attempts have come

Pair = tuple[fx.GraphModule, fx.GraphModule]


class TimeIsUp(Exception):
    """Attempts end here."""


class Clock:
    """Says when attempts have to end.

    Attributes
    ----------
    limit : float
        Seconds.
    """

    def __init__(self, limit: float = math.inf) -> None:
        self.limit = limit
        self._begin = time.perf_counter()

    @property
    def spent(self) -> float:
        """Seconds since it began."""
        return time.perf_counter() - self._begin

    @property
    def is_late(self) -> bool:
        """Whether more than half of the time is over."""
        return self.spent > self.limit / 2

    def check(self) -> None:
        """Raise TimeIsUp if that is so."""
        if self.spent > self.limit:
            raise TimeIsUp


@dataclass
class Known:
    """What attempts at one graph have found, for those after them.

    Attributes
    ----------
    clock : Clock
        When they end.
    usual : dict
        By what counts as fused, the peak of the usual partition, and the floor.
    chosen : dict
        By what counts as fused and the target, the partition, or why there is none.
    said : set
        Why nothing is in pieces, as it was logged.
    """

    clock: Clock = field(default_factory=Clock)
    usual: dict[Fusion, tuple[int, Floor]] = field(default_factory=dict)
    chosen: dict[tuple[Fusion, int], Partition | InfeasibleError] = field(default_factory=dict)
    said: set[str] = field(default_factory=set)

    def once(self, fusion: Fusion, target: int, look: Callable[[], Partition]) -> Partition:
        """The partition for a target, which is looked for unless it is known; InfeasibleError: there is none."""
        place = fusion, target
        if place not in self.chosen:
            try:
                self.chosen[place] = look()
            except InfeasibleError as error:
                self.chosen[place] = error
        found = self.chosen[place]
        if isinstance(found, InfeasibleError):
            raise found
        return found

    @property
    def floor(self) -> Floor:
        """The highest floor that is proven."""
        return max((floor for _, floor in self.usual.values()), key=lambda floor: floor.total, default=Floor())


def text_of(pair: Pair) -> str:
    """What the code of forward and backward depends on, if they were parted from one joint graph."""
    nodes = (node for module in pair for node in module.graph.nodes)
    return "\n".join(f"{node.format_node()} {IN_MEMORY in node.meta}" for node in nodes)


@contextmanager
def shown(what: str) -> Iterator[Callable[[str], None]]:
    """A line with a spinner on stderr, where that is a terminal; it is told how far something has come."""
    if not sys.stderr.isatty():
        yield lambda text: None
        return
    from rich.console import Console
    from rich.text import Text

    begin = time.monotonic()
    status = Console(stderr=True).status(Text(what))

    def say(text: str) -> None:
        status.update(Text(f"{what}: {text}"))
        if time.monotonic() - begin > _SOON:
            status.start()

    try:
        yield say
    finally:
        status.stop()
