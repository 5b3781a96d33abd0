"""Whether a network fits: what a step needs, and the largest size that fits a budget."""

from .result import Estimate, Largest

__all__ = ["Estimate", "Largest"]
