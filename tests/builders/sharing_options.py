"""Options of sharing: what is placed, and what is usual."""

from __future__ import annotations

from itertools import combinations

KINDS = ("input", "weight", "intermediate", "output", "workspace")


PLACES = [(), *[set(p) for n in range(1, 6) for p in combinations(KINDS, n)]]


USUAL = {"intermediate", "output", "workspace"}
