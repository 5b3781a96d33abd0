"""Which proof a problem needs, and its search."""

from __future__ import annotations

from .. import _core
from .pair_refutation import PairRefutation, pair_refutation_of
from .refutation import Refutation, refutation_of


def refuted(problem: _core.Problem, capacity: int, work: int) -> Refutation | PairRefutation | None:
    """A proof that no plan fits: by steps for plain buffers, else by pairs. None: a plan fits, or work is spent."""
    asked = (problem.parts, problem.conflicts, problem.pins, problem.reserved, problem.together)
    if any(rows is not None for rows in asked):
        proof = _core.refute_pairs(problem, capacity, work)
        return None if proof is None else pair_refutation_of(capacity, *proof)
    nodes = _core.refute(problem, capacity, work)
    return None if nodes is None else refutation_of(capacity, nodes)
