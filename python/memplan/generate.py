"""Problems made on purpose, for benchmarks and tests."""

from __future__ import annotations

import numpy as np

from ._core import Problem


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
