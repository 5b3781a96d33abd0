"""Borders of boxes: finer where boxes are thin, and none where they would be much of what is seen."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_BARE = 1.5  # points; a thinner box has none: a line of any width darkens the pixels that it shares


def borders(thickness: npt.NDArray[np.float64], widest: float = 0.6) -> npt.NDArray[np.float64]:
    """The width of the border of each box, in points, by the shorter of its sides."""
    return np.where(thickness < _BARE, 0.0, np.minimum(thickness / 8, widest))
