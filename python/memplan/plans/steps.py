"""The steps of a plan: op k of a graph runs at step k, unless ops overlap their inputs, and so take several steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


class Steps:
    """When the ops of a plan run.

    An op that may write over an input that it is still reading takes a step for each moment that keeps the two apart;
    all other ops take one step.
    """

    def __init__(self, ops: int, begin: Ints | None = None) -> None:
        self._begin = np.arange(ops + 1) if begin is None or len(begin) == 0 else begin
        self.end = int(self._begin[-1])

    def op_at(self, step: int) -> int:
        """The position of the op that runs at a step; the number of ops for one after all of them."""
        return int(np.searchsorted(self._begin, step, side="right")) - 1

    def of(self, op: int) -> tuple[int, int]:
        """The steps [first, last) of an op; of one after all ops, the step after them."""
        if op + 1 >= len(self._begin):
            return self.end, self.end + 1
        return int(self._begin[op]), int(self._begin[op + 1])

    def lives(self, lives: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """Spans of ops [first, last), as spans of steps."""
        if self.end == len(self._begin) - 1:
            return list(lives)
        begin = self._begin.tolist()
        return [(begin[first], begin[min(last, len(begin) - 1)]) for first, last in lives]
