"""Reserved and allocated bytes over a trace, and the segments when most is reserved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ... import sizes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from .what_if import WhatIf

_GIB = 2**30
_SEGMENTS = 60  # the most that are drawn


def figure_of(found: WhatIf) -> Figure:
    from matplotlib.collections import PolyCollection
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 7), layout="constrained")
    over, segments = figure.subplots(2, 1, height_ratios=(3, 2))
    replay = found.replay
    events = np.arange(len(replay.reserved_after))
    over.step(
        events, replay.recorded_after / _GIB, where="post", color="#bbbbbb", linewidth=4, label="reserved on the GPU"
    )
    over.step(events, replay.reserved_after / _GIB, where="post", color="#d62728", label="reserved by the replay")
    over.fill_between(
        events, replay.allocated_after / _GIB, step="post", color="#1f77b4", alpha=0.5, linewidth=0, label="in blocks"
    )
    if found.planned is not None:
        over.axhline(found.planned / _GIB, color="black", linestyle="--", linewidth=1, label="a static plan")
    over.set(xlabel="event", ylabel="GiB", ylim=(0, None), title=f"{found.source}, device {found.device}")
    over.margins(x=0)
    over.legend(loc="lower right")

    state = found.peak
    table, segment, size = state["segments"], state["segment"], state["size"].astype(float)
    used = state["used"].astype(bool)
    free = np.bincount(segment[~used], size[~used], len(table))
    shown = [s for s in np.argsort(-free, kind="stable").tolist() if free[s] > 0][:_SEGMENTS]
    boxes: dict[bool, list[list[tuple[float, float]]]] = {True: [], False: []}
    for x, s in enumerate(shown):
        low = 0.0
        for own, holds in zip(size[segment == s].tolist(), used[segment == s].tolist(), strict=True):
            top = low + own / _GIB
            boxes[holds].append([(x, low), (x + 0.8, low), (x + 0.8, top), (x, top)])
            low = top
    for holds, colour, label in ((True, "#1f77b4", "in use"), (False, "#ffffff", "free")):
        segments.add_collection(
            PolyCollection(boxes[holds], facecolors=colour, edgecolors="#777777", linewidths=0.4, label=label)
        )
    segments.autoscale_view()
    left = int((free > 0).sum()) - len(shown)
    more = f", {left} more are not shown" if left > 0 else ""
    segments.set(
        xlabel=f"segments with free bytes, the most first{more}",
        ylabel="GiB",
        xticks=[],
        title=f"when most is reserved: {_sum(free)} of {_sum(size)} are free",
    )
    segments.legend(loc="upper right")
    return figure


def _sum(column: npt.NDArray[Any]) -> str:
    return sizes.format_bytes(int(column.sum()))
