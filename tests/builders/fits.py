"""Small cases that tell first_fit, best_fit and worst_fit apart, and what all three have in common."""

from __future__ import annotations

from builders.drawn import Rows

# At step 1, a and c are dead: two free blocks, and b and d beside them keep the arena from growing into either.
BOTH_FIT: Rows = {"a": (8, 0, 1), "b": (2, 0, 2), "c": (4, 0, 1), "d": (1, 0, 2), "e": (3, 1, 2)}
EQUAL: Rows = {"a": (4, 0, 1), "b": (2, 0, 2), "c": (4, 0, 1), "d": (1, 0, 2), "e": (3, 1, 2)}
LARGER_ABOVE: Rows = {"a": (4, 0, 1), "b": (2, 0, 2), "c": (8, 0, 1), "d": (1, 0, 2), "e": (3, 1, 2)}

# Each of these is at its load where the right block is chosen for e; then all that comes after fits too.
TIGHTEST_WINS: Rows = {
    **{"a": (8, 0, 1), "b": (1, 0, 2), "c": (4, 0, 1), "d": (1, 0, 2)},
    **{"e": (4, 1, 2), "f": (8, 1, 2)},
}
TIGHTEST_LOSES: Rows = {
    **{"a": (6, 0, 1), "b": (1, 0, 2), "c": (5, 0, 1), "d": (1, 0, 2)},
    **{"e": (4, 1, 2), "f": (5, 1, 2), "g": (2, 1, 2)},
}
LARGEST_WINS: Rows = {
    **{"a": (5, 0, 1), "b": (1, 0, 2), "c": (8, 0, 1), "d": (1, 0, 2)},
    **{"e": (3, 1, 2), "f": (5, 1, 2), "g": (5, 1, 2)},
}

# The arena grows from the free block at its top, if there is one; what is free further down stays free.
GROWS_FROM_THE_TOP: Rows = {"a": (4, 0, 1), "b": (6, 1, 2)}
GROWS_ABOVE: Rows = {"a": (4, 0, 1), "b": (1, 0, 2), "c": (6, 1, 2)}

# Of the 8 bytes free from 3 on, d would begin at 8 and end at 14: they do not hold it. They hold e, from 8 on. What is
# skipped below e and below d stays free: f and g fill it.
ALIGNED: Rows = {
    **{"a": (3, 0, 2), "b": (8, 0, 1), "c": (1, 0, 2)},
    **{"d": (6, 1, 2), "e": (3, 1, 2), "f": (5, 1, 2), "g": (4, 1, 2)},
}
ALIGNMENT = {"d": 8, "e": 8}
ALIGNED_DRAWN = [
    "aaabbbbbbbbc..........",
    "aaafffffeeecggggdddddd",
]
