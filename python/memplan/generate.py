"""Problems made on purpose, for benchmarks and tests: networks in layers, puzzles whose optimum is known, and the same
problem told otherwise."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ._core import Problem

Column = npt.NDArray[np.int64]


def layered(buffers: int, *, width: int = 4, skip: float = 0.1, reach: int = 64, seed: int = 0) -> Problem:
    """A layered network: every op writes one buffer that the next few ops read, and some feed a later layer.

    Parameters
    ----------
    buffers
        How many buffers, one per step.
    width
        Ops in a layer: a buffer is read for the last time 1 to 2 * width steps after its birth.
    skip
        Share of the buffers with a skip connection.
    reach
        Skip connections end up to reach * width steps later.
    seed
        The same arguments give the same problem.

    Returns
    -------
    Problem
        Sizes are those of feature maps: channels x side x side x 4 bytes, the side shrinking with depth.
    """
    random = np.random.default_rng(seed)
    first = np.arange(buffers, dtype=np.int64)
    life = random.integers(1, 2 * width + 1, buffers) + 1
    skips = random.random(buffers) < skip
    life[skips] += random.integers(1, reach * width + 1, int(skips.sum()))
    depth = first * 5 // max(buffers, 1)
    side = np.maximum(112 >> depth, 1)
    channels = random.choice([8, 16, 24, 32, 48, 64, 96, 128], buffers) << depth
    size = channels * side * side * 4
    return Problem(size, first, np.minimum(first + life, max(buffers, 1)), 1)


def tight(
    buffers: int = 40,
    *,
    steps: int = 12,
    units: int = 1024,
    unit: int = 1024,
    pinwheels: float = 0.3,
    exchanges: int = 0,
    removed: float = 0.0,
    shrunk: float = 0.0,
    keep_load: bool = True,
    seed: int = 0,
) -> Problem:
    """A puzzle: an arena cut into buffers, so that a plan without a hole exists and the optimum is the load.

    ::

        bytes ┌───┬─────────┐      ┌─────┬──────────┐
              │   │         │      │     ├──────┬───┤      the arena is cut again and again, by one line across, or,
              │   ├─────┬───┤      │     │      │   │      as on the right, into a pinwheel, which no line divides
              │   │     │   │      ├─────┴──────┤   │
              └───┴─────┴───┘      └────────────┴───┘ steps

    Puzzles without waste are how packing heuristics are measured (Hopper and Turton 2001; Burke, Kendall and Whitwell
    2004), for what is best is known however hard it is to find. Lifetimes are given here, so what is hard lies in the
    sizes: with few steps many buffers are born and die together, and with many units few sets of them are as large as
    what makes room for them.

    Parameters
    ----------
    buffers
        How many pieces are cut; some of them may then be removed.
    steps, units, unit
        The arena has units * unit bytes for so many steps; cuts lie at whole steps and at multiples of `unit` bytes.
    pinwheels
        Share of the cuts that make a pinwheel, where there is room for one.
    exchanges
        How many times a buffer gives bytes to others that live one after another from its birth to its death. The
        load stays the same at every step, but the plan is lost: the optimum is no longer known, and often lies above.
    removed, shrunk
        Shares of the buffers that are left out, or lose bytes; the others get slack.
    keep_load
        Remove or shrink nothing that is alive at one step, chosen at random, so that the load stays. False: anything
        may change, and without exchanges a plan of units * unit bytes exists, but there may be better ones.
    seed
        The same arguments give the same problem.

    Returns
    -------
    Problem
        Rows in random order.

    Raises
    ------
    ValueError
        More buffers than the arena has cells of one unit and one step; or a share outside [0, 1].
    """
    if not 1 <= buffers <= steps * units:
        raise ValueError(f"buffers must be >= 1 and at most steps * units = {steps * units}, got {buffers}")
    for name, share in (("pinwheels", pinwheels), ("removed", removed), ("shrunk", shrunk)):
        if not 0 <= share <= 1:
            raise ValueError(f"{name} must be a share in [0, 1], got {share}")
    random = np.random.default_rng(seed)
    pieces = _cut(random, buffers, _Piece(0, steps, 0, units), pinwheels)
    size = np.array([piece.end - piece.begin for piece in pieces], dtype=np.int64)
    first = np.array([piece.first for piece in pieces], dtype=np.int64)
    last = np.array([piece.last for piece in pieces], dtype=np.int64)
    for _ in range(exchanges):
        _exchange(random, size, first, last)

    full = random.integers(0, steps)
    may_change = np.flatnonzero((full < first) | (last <= full) | (not keep_load))
    changed = random.permutation(may_change)[: round((removed + shrunk) * buffers)]
    out, less = np.split(changed, [round(removed * buffers)])
    size[less] = random.integers(1, np.maximum(size[less], 2))
    kept = random.permutation(np.setdiff1d(np.arange(buffers), out))
    return Problem(size[kept] * unit, first[kept], last[kept])


def mirrored(problem: Problem) -> Problem:
    """The same problem with time reversed: births are deaths. Any plan of the one is a plan of the other.

    What is alive in [first, last) is alive in [low + high - last, low + high - first), where low is the first birth and
    high the last death; the mirror's mirror is the problem.
    """
    if len(problem) == 0:
        return problem

    def mirror(step: Column) -> Column:
        other: Column = problem.first.min() + (problem.last.max() - step)  # may wrap, and then wraps back
        return other

    parts = problem.parts
    if parts is not None:
        parts = np.column_stack((parts[:, :3], mirror(parts[:, 4]), mirror(parts[:, 3])))
    reserved = problem.reserved
    if reserved is not None:
        always = (reserved[:, 2] == -(2**63)) & (reserved[:, 3] == 2**63 - 1)
        turned = np.column_stack((reserved[:, :2], mirror(reserved[:, 3]), mirror(reserved[:, 2])))
        reserved = np.where(always[:, None], reserved, turned)
    return problem.replace(first=mirror(problem.last), last=mirror(problem.first), parts=parts, reserved=reserved)


def shuffled(problem: Problem, seed: int = 0) -> Problem:
    """The same problem with its rows in random order; names, shapes and conflicts go with their buffers.

    Row k is row ``numpy.random.default_rng(seed).permutation(len(problem))[k]`` of the problem.
    """
    return problem.subset(np.random.default_rng(seed).permutation(len(problem)))


class _Piece(NamedTuple):
    """Steps and units, half-open."""

    first: int
    last: int
    begin: int
    end: int


def _cut(random: np.random.Generator, count: int, whole: _Piece, pinwheels: float) -> list[_Piece]:
    """So many pieces of the whole; the larger ones are cut first, mostly."""
    pieces = [whole]
    while len(pieces) < count:
        area = np.array([(p.last - p.first) * (p.end - p.begin) for p in pieces], dtype=float)
        area[area == 1] = 0
        piece = pieces.pop(int(random.choice(len(pieces), p=area / area.sum())))
        wide, high = piece.last - piece.first, piece.end - piece.begin
        room = count - len(pieces) >= 5 and wide >= 3 and high >= 3
        if random.random() < pinwheels and room:
            pieces += _pinwheel(random, piece)
        elif wide == 1 or (high > 1 and random.random() < 0.5):
            at = int(random.integers(piece.begin + 1, piece.end))
            pieces += [piece._replace(end=at), piece._replace(begin=at)]
        else:
            at = int(random.integers(piece.first + 1, piece.last))
            pieces += [piece._replace(last=at), piece._replace(first=at)]
    return pieces


def _exchange(random: np.random.Generator, size: Column, first: Column, last: Column) -> None:
    """Some buffer gives some of its bytes to each of a chain of others that lasts as long; or nothing is found."""
    giver = int(random.integers(len(size)))
    takers: list[int] = []
    at = int(first[giver])
    while at < last[giver]:
        next_ones = np.flatnonzero((first == at) & (last <= last[giver]))
        next_ones = next_ones[next_ones != giver]
        if len(next_ones) == 0:
            return
        takers.append(int(random.choice(next_ones)))
        at = int(last[takers[-1]])
    if size[giver] > 1:
        some = random.integers(1, max(size[giver] // 4, 2))
        size[giver] -= some
        size[takers] += some


def _pinwheel(random: np.random.Generator, whole: _Piece) -> list[_Piece]:
    """Four blades around a middle, turning one way or the other."""
    first, last, begin, end = whole
    left, right = sorted((random.choice(last - first - 1, 2, replace=False) + first + 1).tolist())
    low, high = sorted((random.choice(end - begin - 1, 2, replace=False) + begin + 1).tolist())
    middle = _Piece(left, right, low, high)
    if random.random() < 0.5:
        blades = [
            (first, right, begin, low),
            (right, last, begin, high),
            (left, last, high, end),
            (first, left, low, end),
        ]
    else:
        blades = [
            (left, last, begin, low),
            (right, last, low, end),
            (first, right, high, end),
            (first, left, begin, high),
        ]
    return [middle, *(_Piece(*blade) for blade in blades)]
