"""What makes the peak of a plan, how far it is from the best possible, and what would lower it."""

from .explanation import Explanation
from .obstructing import Obstruction, obstruction
from .reuse import Reuse

__all__ = ["Explanation", "Obstruction", "Reuse", "obstruction"]
