"""The colour of lines on the background of a picture, which a style of matplotlib may make dark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def ink(ax: Axes) -> Any:
    """The colour of what is written beside the axes."""
    return ax.xaxis.label.get_color()
