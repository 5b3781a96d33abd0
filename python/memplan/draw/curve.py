"""The load over time as a staircase with no more steps than can be seen apart."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .. import _core

Ints = npt.NDArray[np.int64]


def load_shown(problem: _core.Problem, first: int, last: int, most: int) -> tuple[Ints, Ints]:
    """The load as a staircase, as of `Problem.load_curve`, with about `most` steps in [first, last) or fewer.

    Where there are more, each is the highest of several, from the first of them on, and only what is in the range is
    given: (step, bytes), of which the last ends the one before.
    """
    step, load = problem.load_curve()
    inside = slice(max(int(np.searchsorted(step, first, side="right")) - 1, 0), int(np.searchsorted(step, last)))
    every = (inside.stop - inside.start) // most
    if every < 2:
        return step, load
    starts = np.arange(inside.start, inside.stop, every)
    highest = np.maximum.reduceat(load[: inside.stop], starts)
    end = min(inside.stop, len(step) - 1)
    return np.append(step[starts], step[end]), np.append(highest, load[end])
