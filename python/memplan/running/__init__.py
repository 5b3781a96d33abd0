"""Running a plan: what a runtime gives for its source, and what its program is held against."""

from .program import Bound, Program, Run

__all__ = ["Bound", "Program", "Run"]
