"""Graphs made to fit a capacity: what ops cost, which may run again, and the way from a source to the plan."""

from .curve import Pareto, ParetoPoint

__all__ = ["Pareto", "ParetoPoint"]
