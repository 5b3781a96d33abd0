"""The colours of pictures: a palette that people with any colour vision can tell apart, and what colours a buffer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ..origins import layers_of, origins_of

if TYPE_CHECKING:
    from ..plan import Plan

# Okabe and Ito's palette, which people with any colour vision can tell apart; black is kept for lines.
PALETTE = ("#56B4E9", "#E69F00", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7")
OTHERS = "#BBBBBB"  # what has no colour of its own
SCALE = "viridis"  # of sizes, lives and long rows of layers: from dark to light, so for any colour vision too

COLOUR_BY = ("order", "size", "lifetime", "kind", "op_type", "layer")


@dataclass(frozen=True)
class Colouring:
    """A colour per buffer, and what the colours mean.

    Attributes
    ----------
    by : str
        One of `COLOUR_BY`.
    colours : list of str
        "#RRGGBB", one for each buffer, in the problem's order.
    legend : dict of str to str
        Per group its colour, in the order to be listed in; empty where colours mean no groups.
    limits : (int, int) or None
        For "size" (bytes) and "lifetime" (steps): what the two ends of `SCALE` stand for, logarithmic between. The
        smallest buffers, of 1 % of the bytes together, have the colour of the lower end.
    """

    by: str
    colours: list[str]
    legend: dict[str, str] = field(default_factory=dict)
    limits: tuple[int, int] | None = None


def colouring(plan: Plan, by: str = "order") -> Colouring:
    """Colour the buffers of a plan.

    Parameters
    ----------
    by
        "order": the palette's colours in turn, by birth and address, so that neighbours differ; "size" in bytes and
        "lifetime" in steps, on a logarithmic scale; "kind" of the tensor that owns the bytes; "op_type" of the op
        that writes it first; "layer": the module path in the op's name, or in the buffer's where there is no graph.

    Raises
    ------
    ValueError
        `by` is none of these; or "kind" and "op_type" of a plan without a graph, or "layer" without paths in names.
    """
    if by not in COLOUR_BY:
        raise ValueError(f"colour_by must be one of {', '.join(COLOUR_BY)}, got {by!r}")
    if by == "order":
        return Colouring(by, _in_turn(plan))
    if by == "size":
        return _scaled(by, plan.problem.size, _least_that_counts(plan.problem.size))
    if by == "lifetime":
        lifetime = plan.problem.last - plan.problem.first
        return _scaled(by, lifetime, int(lifetime.min(initial=1)) if len(plan) else 1)
    if by == "layer":
        return _in_sequence(layers_of(plan), plan.problem.size)
    if plan.graph is None:
        raise ValueError(f"colour_by={by!r} needs the plan of a graph; this one is of a problem, which has no ops")
    return _by_weight(by, [getattr(origin, by) for origin in origins_of(plan)], plan.problem.size)


def samples(places: npt.NDArray[np.float64]) -> list[str]:
    """The colours of `SCALE` at these places, 0 and 1 being its ends."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    return [to_hex(colour) for colour in colormaps[SCALE](places)]


def _in_turn(plan: Plan) -> list[str]:
    colours = np.empty(len(plan), dtype=object)
    order = np.lexsort((plan.offsets, plan.problem.first))
    shown = order[plan.problem.size[order] > 0]
    colours[:] = OTHERS
    colours[shown] = np.array(PALETTE, dtype=object)[np.arange(len(shown)) % len(PALETTE)]
    return [str(colour) for colour in colours]


def _scaled(by: str, values: npt.NDArray[np.int64], low: int) -> Colouring:
    high = max(int(values.max(initial=0)), low)
    span = np.log(high / low) or 1.0
    share = np.log(np.maximum(values, low) / low) / span
    table = samples(np.linspace(0, 1, 256))
    return Colouring(by, [table[k] for k in np.rint(share * 255).astype(int).tolist()], limits=(low, high))


def _least_that_counts(size: npt.NDArray[np.int64]) -> int:
    """The size from which on buffers hold 99 % of all bytes; at least 1."""
    ordered = np.sort(size)
    below = np.cumsum(ordered, dtype=np.float64)
    counts = ordered[below > 0.01 * below[-1]] if len(size) else ordered
    return max(int(counts[0]), 1) if len(counts) else 1


def _by_weight(by: str, groups: Sequence[str], size: npt.NDArray[np.int64]) -> Colouring:
    """The groups with most bytes get the palette's colours, the others share one."""
    weight: Counter[str] = Counter()
    for group, bytes_ in zip(groups, size.tolist(), strict=True):
        weight[group] += bytes_
    ranked = [group for group, _ in weight.most_common()]
    few = len(ranked) <= len(PALETTE)
    own = dict(zip(ranked if few else ranked[: len(PALETTE) - 1], PALETTE, strict=False))
    legend = own if few else {**own, f"{len(ranked) - len(own)} others": OTHERS}
    return Colouring(by, [own.get(group, OTHERS) for group in groups], legend)


def _in_sequence(groups: Sequence[str], size: npt.NDArray[np.int64]) -> Colouring:
    """Groups by first appearance: the palette's colours where it has enough, else those of the scale.

    The more bytes a group has, the further are its neighbours from it on the scale.
    """
    weight = dict.fromkeys((group for group in groups if group), 0)
    for group, bytes_ in zip(groups, size.tolist(), strict=True):
        if group:
            weight[group] += bytes_
    colours = PALETTE if len(weight) <= len(PALETTE) else samples(_places(list(weight.values())))
    own = dict(zip(weight, colours, strict=False))
    legend = own if "" not in groups else {**own, "no module": OTHERS}
    return Colouring("layer", [own.get(group, OTHERS) for group in groups], legend)


def _places(weights: Sequence[int]) -> npt.NDArray[np.float64]:
    """A place in [0, 1] for each, as far apart as half their share of the weight and half that of their number says."""
    weight = np.array(weights, dtype=np.float64)
    share = weight / max(weight.sum(), 1) + 1 / len(weight)
    middle: npt.NDArray[np.float64] = np.cumsum(share) - share / 2
    return np.asarray((middle - middle[0]) / (middle[-1] - middle[0]))


def faded(colour: str) -> str:
    """A "#RRGGBB" colour, four fifths of the way to white."""
    return "#" + "".join(f"{(int(colour[k : k + 2], 16) + 4 * 255) // 5:02X}" for k in (1, 3, 5))
