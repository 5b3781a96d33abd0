"""Figures of matplotlib that no window shows, in files and pages; axes of bytes, and the colour of lines."""

from __future__ import annotations

import os
import warnings
from io import BytesIO, StringIO
from typing import TYPE_CHECKING, Any

from ..files import replacing
from ..printing.units import tick, unit_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure


def new_figure(inches: tuple[float, float]) -> Figure:
    """A figure that pyplot does not know."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=inches, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write it into a file; its suffix says the format (png, svg, pdf)."""
    with replacing(path) as beside, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        figure.savefig(beside, dpi=150)


def png(figure: Figure) -> bytes:
    """It as a PNG, for a page."""
    buffer = BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        figure.savefig(buffer, format="png", dpi=110)
    return buffer.getvalue()


def svg(figure: Figure) -> str:
    """It as an element of a page."""
    file = StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None})
    text = file.getvalue()
    return text[text.index("<svg") :]


def scale_bytes(axis: Axis, highest: int, apart: int = 1) -> str:
    """Ticks at round numbers of bytes, so many times as far `apart`; returns the unit that they are counted in."""
    from matplotlib.ticker import FuncFormatter, MultipleLocator

    scale, unit = unit_of(highest)
    axis.set_major_locator(MultipleLocator(apart * tick(highest / scale) * scale))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / scale:g}"))
    return unit


def ink(ax: Axes) -> Any:
    """The colour of what is written beside the axes, which a style of matplotlib may make dark."""
    return ax.xaxis.label.get_color()
