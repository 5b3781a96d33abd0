"""What two plans differ in."""

from .diff import PlanDiff

__all__ = ["PlanDiff"]
