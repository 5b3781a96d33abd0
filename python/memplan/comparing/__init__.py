"""Comparing planners: one source by many planners, and many sources."""

from .comparison import Comparison
from .row import ComparisonRow
from .sweep import Sweep

__all__ = ["Comparison", "ComparisonRow", "Sweep"]
