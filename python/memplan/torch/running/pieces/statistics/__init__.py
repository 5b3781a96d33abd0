"""Pieces of operators that need statistics of all rows: a rule for each, by its name in the schema."""

from __future__ import annotations

from collections.abc import Mapping

from . import norms, reductions, softmax
from .two_passes import TwoPasses

__all__ = ["STATISTICS"]

STATISTICS: Mapping[str, TwoPasses] = {**norms.RULES, **reductions.RULES, **softmax.RULES}
