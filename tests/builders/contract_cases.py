"""Problems that every planner has to plan."""

from __future__ import annotations

BIG = 2**62


MIXED = [1, 2, 3, 8, 48, 2**20, 1, 5]


# size, first, last, alignment
CASES = {
    "no buffers": ([], [], [], []),
    "one buffer": ([7], [0], [1], [1]),
    "one aligned buffer": ([7], [3], [9], [2**20]),
    "all zero-size": ([0, 0, 0], [0, 0, 5], [1, 9, 6], [1, 8, 3]),
    "some zero-size": ([0, 4, 0, 4, 0], [0, 0, 0, 1, 1], [2, 2, 1, 2, 2], [4, 1, 1, 2, 1]),
    "all alive together": ([5, 1, 9, 3], [0, 1, 2, 3], [9, 9, 9, 9], [1] * 4),
    "all alive together, aligned": ([5, 1, 9, 3], [0, 0, 0, 0], [1, 1, 1, 1], [4, 8, 2, 16]),
    "none together": ([5, 1, 9, 3], [0, 1, 2, 3], [1, 2, 3, 4], [1] * 4),
    "none together, out of order": ([5, 1, 9, 3], [30, 20, 10, 0], [31, 30, 20, 10], [1] * 4),
    "equal sizes": ([8] * 12, list(range(12)), list(range(3, 15)), [1] * 12),
    "identical buffers": ([8] * 5, [2] * 5, [4] * 5, [8] * 5),
    "one of 2^62": ([BIG], [0], [1], [1]),
    "near 2^62": ([BIG, BIG - 2, 1], [0, 0, 0], [2, 1, 2], [1, 1, 1]),
    "2^62 after 2^62 - 1": ([BIG - 1, BIG], [0, 1], [1, 2], [1, 1]),
    "aligned near 2^62": ([BIG - 2**20, 1], [0, 0], [1, 1], [2**20, 2**20]),
    "aligned to 2^20": ([1] * 9, list(range(9)), list(range(2, 11)), [2**20] * 9),
    "mixed alignments": ([9, 1, 7, 4, 30, 5, 6, 2], [0, 0, 1, 1, 2, 2, 3, 3], [2, 3, 3, 4, 4, 5, 5, 6], MIXED),
    "no powers of two": ([10, 7, 3, 12, 5], [0, 0, 1, 2, 2], [2, 3, 4, 4, 5], [3, 7, 10, 12, 100]),
    "a lone alignment of 2^61": ([1], [0], [1], [2**61]),
    "negative steps": ([4, 5, 6, 7], [-9, -7, -5, -2], [-6, -4, -1, 3], [1, 2, 1, 4]),
    "first and last of int64": ([4, 5, 6], [-(2**63), 0, -(2**63)], [2**63 - 1, 2**63 - 1, 0], [1, 1, 1]),
}
