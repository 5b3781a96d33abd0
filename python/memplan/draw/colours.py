"""The colours of pictures and pages: a palette, and what colours a buffer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ..plans.buffer_info import BufferInfo, buffer_infos, layers_of, paths_of
from ..plans.plan import Plan
from ..plans.returns import returns_of

# Okabe and Ito's palette, which people with any colour vision can tell apart; black is kept for lines.
PALETTE = ("#56B4E9", "#E69F00", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7")
OTHERS = "#BBBBBB"  # what has no colour of its own
SCALE = "viridis"  # of orders, sizes, lives and long rows of layers: from dark to light, so for any colour vision too

COLOUR_BY = ("buffer", "order", "size", "lifetime", "kind", "op_type", "layer")
_NO_GROUP = {"kind": "no graph", "op_type": "no type", "layer": "no module"}
_MOST_ENTRIES = 24  # of a legend

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Colouring:
    """A colour per buffer, and what the colours mean."""

    by: str  # one of `COLOUR_BY`
    colours: list[str]  # "#RRGGBB", one for each buffer, in the problem's order
    # per group its colour, in the order to be listed in; empty where colours mean no groups
    legend: dict[str, str] = field(default_factory=dict)
    # for "order" (steps), "size" (bytes) and "lifetime" (steps): what the two ends of `SCALE` stand for; linear between
    # for "order", else logarithmic. Of sizes, the smallest buffers, of 1 % of the bytes together, have the colour of
    # the lower end
    limits: tuple[int, int] | None = None

    @property
    def title(self) -> str:
        """What the colours tell, in words."""
        return self.by.replace("_", " ")

    def entries(self) -> tuple[list[tuple[str, str]], int]:
        """The groups to list, with their colours: all, or one of so many that a legend has room for it."""
        every = -(-len(self.legend) // _MOST_ENTRIES) or 1
        return list(self.legend.items())[::every], every


def colouring(plan: Plan, by: str = "buffer") -> Colouring:
    """Colour the buffers of a plan; see `colourings`."""
    return colourings([plan], by)[0]


def colourings(
    plans: Sequence[Plan], by: str = "buffer", infos: Sequence[Sequence[BufferInfo]] | None = None
) -> list[Colouring]:
    """Colour the buffers of plans, with the same legend and limits for all of them.

    Parameters
    ----------
    by
        "buffer": the palette's colours in turn, by birth and address, so that neighbours differ; a name has the colour
        that it has in the first plan. "order": when it is born in the first plan, dark to light, so that a plan in
        another order of ops shows what comes earlier or later. "size" in bytes and "lifetime" in steps, on a
        logarithmic scale; "kind" of tensor; "op_type" of the op that writes it first; "layer": the module path in the
        op's name, or in the buffer's where there is no graph.
    infos
        What `buffer_infos` says of the plans, if it was asked already.

    Raises
    ------
    ValueError
        `by` is none of these; or "kind" and "op_type" of plans without a graph, or "layer" without paths in names.
    """
    if by not in COLOUR_BY:
        raise ValueError(f"colour_by must be one of {', '.join(COLOUR_BY)}, got {by!r}")
    if by in ("kind", "op_type") and all(plan.graph is None for plan in plans):
        raise ValueError(f"colour_by={by!r} needs the plan of a graph; this one is of a problem, which has no ops")
    if by == "buffer":
        return [Colouring(by, colours) for colours in _in_turn(plans)]
    if by == "order":
        return _by_birth(plans)
    size = np.concatenate([plan.problem.size for plan in plans])
    if by == "size":
        return _scaled(plans, by, size, _least_that_counts(size))
    if by == "lifetime":
        lifetime = np.concatenate([plan.problem.last - plan.problem.first for plan in plans])
        return _scaled(plans, by, lifetime, int(lifetime.min()) if len(lifetime) else 1)
    known = [buffer_infos(plan) for plan in plans] if infos is None else infos
    if by == "layer":
        paths = [path for plan, told in zip(plans, known, strict=True) for path in paths_of(plan, told)]
        groups = layers_of(paths, size.tolist())
        legend = _in_sequence(groups, size)
    else:
        groups = [getattr(info, by) for told in known for info in told]
        legend = _by_weight(groups, size)
    colours = [legend.get(group, OTHERS) for group in groups]
    if others := len(set(groups) - {"", *legend}):
        legend[f"{others} others"] = OTHERS
    if "" in groups:
        legend[_NO_GROUP[by]] = OTHERS
    return [Colouring(by, own, legend) for own in _by_plan(plans, colours)]


def samples(places: npt.NDArray[np.float64]) -> list[str]:
    """The colours of `SCALE` at these places, 0 and 1 being its ends."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    return [to_hex(colour) for colour in colormaps[SCALE](places)]


def _by_plan(plans: Sequence[Plan], colours: Sequence[str]) -> list[list[str]]:
    """The colours of the buffers of one plan after the other, apart."""
    ends = np.cumsum([len(plan) for plan in plans]).tolist()
    return [list(colours[end - len(plan) : end]) for plan, end in zip(plans, ends, strict=True)]


def buffers_by_name(plan: Plan) -> dict[str, int]:
    """Per name of a buffer or of a tensor that lies in one, the buffer's position; a name of both is the buffer's."""
    found = {name: buffer for name, (buffer, _, _) in (plan.placed or {}).items()}
    if plan.graph is not None and plan.buffers is not None:
        placed = zip(plan.graph.tensors, plan.buffers.buffer_of_tensor.tolist(), strict=True)
        found = {tensor.name: buffer for tensor, buffer in placed if buffer >= 0}
    return found | {plan.problem.name(b): b for b in range(len(plan))}


def whole(plan: Plan, name: str) -> str:
    """The tensor that a tensor of this plan is rows of; itself where it is not in pieces."""
    return name if plan.fitting is None else plan.fitting.whole(name)


def _in_turn(plans: Sequence[Plan]) -> list[list[str]]:
    """A colour per name: first those of the first plan in turn, then what only the next has, and so on.

    A buffer whose tensor lies in another's bytes in the first plan has the colour that these have there. What came back
    has the colour that it had. Rows of a tensor that is in pieces have the colour of the tensor.
    """
    of_name: dict[str, str] = {}
    colours, given = [], 0
    for k, plan in enumerate(plans):
        names, size = [whole(plan, plan.problem.name(b)) for b in range(len(plan))], plan.problem.size.tolist()
        was = {one.back.name: one.left.name for one in returns_of(plan)}
        for b in np.lexsort((plan.offsets, plan.problem.first)).tolist():
            if names[b] in was and was[names[b]] in of_name:
                of_name.setdefault(names[b], of_name[was[names[b]]])
            elif size[b] > 0 and names[b] not in of_name:
                of_name[names[b]] = PALETTE[given % len(PALETTE)]
                given += 1
        if k == 0:
            inside = {name: names[b] for name, b in buffers_by_name(plan).items()}
            of_name |= {name: of_name[home] for name, home in inside.items() if home in of_name}
        colours.append([of_name.get(name, OTHERS) for name in names])
    return colours


def _by_birth(plans: Sequence[Plan]) -> list[Colouring]:
    """A place on the scale per name: the step at which it is born in the first plan that has it."""
    born: dict[str, int] = {}
    steps = []
    for plan in plans:
        first = plan.problem.first.tolist()
        born = {name: first[b] for name, b in buffers_by_name(plan).items()} | born
        steps += [born[plan.problem.name(b)] for b in range(len(plan))]
    low, high = min(steps, default=0), max(steps, default=0)
    share = (np.array(steps, dtype=np.float64) - low) / max(high - low, 1)
    return _on_scale(plans, "order", share, (low, high))


def _scaled(plans: Sequence[Plan], by: str, values: Ints, low: int) -> list[Colouring]:
    high = max(int(values.max(initial=0)), low)
    span = np.log(high / low) or 1.0
    return _on_scale(plans, by, np.log(np.maximum(values, low) / low) / span, (low, high))


def _on_scale(
    plans: Sequence[Plan], by: str, share: npt.NDArray[np.float64], limits: tuple[int, int]
) -> list[Colouring]:
    """The colours at these places of the scale, 0 and 1 being its ends, which stand for the limits."""
    table = samples(np.linspace(0, 1, 256))
    colours = [table[k] for k in np.rint(share * 255).astype(int).tolist()]
    return [Colouring(by, own, limits=limits) for own in _by_plan(plans, colours)]


def _least_that_counts(size: Ints) -> int:
    """The size from which on buffers hold 99 % of all bytes; at least 1."""
    ordered = np.sort(size)
    below = np.cumsum(ordered, dtype=np.float64)
    counts = ordered[below > 0.01 * below[-1]] if len(size) else ordered
    return max(int(counts[0]), 1) if len(counts) else 1


def _by_weight(groups: Sequence[str], size: Ints) -> dict[str, str]:
    """The palette's colours for the groups with most bytes; where they are too many, the last is for none of them."""
    ranked = [group for group, _ in _weights(groups, size).most_common()]
    own = ranked if len(ranked) <= len(PALETTE) else ranked[: len(PALETTE) - 1]
    return dict(zip(own, PALETTE, strict=False))


def _in_sequence(groups: Sequence[str], size: Ints) -> dict[str, str]:
    """Groups by first appearance: the palette's colours where it has enough, else those of the scale.

    The more bytes a group has, the further are its neighbours from it on the scale.
    """
    weight = _weights(groups, size)
    colours = PALETTE if len(weight) <= len(PALETTE) else samples(_places(list(weight.values())))
    return dict(zip(weight, colours, strict=False))


def _weights(groups: Sequence[str], size: Ints) -> Counter[str]:
    """Per group its bytes, in the order of first appearance."""
    weight: Counter[str] = Counter()
    for group, bytes_ in zip(groups, size.tolist(), strict=True):
        if group:
            weight[group] += bytes_
    return weight


def _places(weights: Sequence[int]) -> npt.NDArray[np.float64]:
    """A place in [0, 1] for each, as far apart as half their share of the weight and half that of their number says."""
    weight = np.array(weights, dtype=np.float64)
    share = weight / max(weight.sum(), 1) + 1 / len(weight)
    middle: npt.NDArray[np.float64] = np.cumsum(share) - share / 2
    return np.asarray((middle - middle[0]) / (middle[-1] - middle[0]))


def faded(colour: str) -> str:
    """A "#RRGGBB" colour, four fifths of the way to white."""
    return "#" + "".join(f"{(int(colour[k : k + 2], 16) + 4 * 255) // 5:02X}" for k in (1, 3, 5))
