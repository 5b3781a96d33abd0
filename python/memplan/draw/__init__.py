"""Present: plans for people, as text and as pictures."""

from .gantt import plot_plans
from .page import write_page

__all__ = ["plot_plans", "write_page"]
