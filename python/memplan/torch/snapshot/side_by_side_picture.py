"""The bytes in blocks of several snapshots, over their allocations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from .side_by_side import SideBySide

_GIB = 2**30
_POINTS = 4000  # of each curve: what is drawn of more is the most in each part


def figure_of(found: SideBySide) -> Figure:
    from matplotlib.figure import Figure

    from .side_by_side_text import labels_of

    figure = Figure(figsize=(11, 5), layout="constrained")
    axes = figure.subplots()
    for k, (label, one) in enumerate(zip(labels_of(found), found.snapshots, strict=True)):
        colour = f"C{k % 10}"
        live = one.live
        width = -(-len(live) // _POINTS)
        padded = np.pad(live, (0, -len(live) % width), mode="edge").reshape(-1, width).max(axis=1)
        axes.step(np.arange(len(padded)) * width, padded / _GIB, where="post", color=colour, linewidth=1.2, label=label)
        axes.axhline(one.reserved / _GIB, color=colour, linestyle="--", linewidth=0.8)
    axes.set(xlabel="allocation", ylabel="GiB in blocks; dashed: reserved", ylim=(0, None))
    axes.margins(x=0)
    axes.legend(loc="lower right")
    return figure
