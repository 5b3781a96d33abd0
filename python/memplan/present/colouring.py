"""How the boxes of plans can be coloured: by order, size, kind, or type of op, the same in all plans of a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from .facts import KINDS, Facts
from .units import format_bytes, printable

if TYPE_CHECKING:
    from ..plan import Plan

# Okabe and Ito's palette without black and yellow, which are lines and too near to paper; grey is for all the rest.
COLOURS = ("#56B4E9", "#E69F00", "#009E73", "#CC79A7", "#0072B2", "#D55E00")
OTHER = "#BBBBBB"


@dataclass(frozen=True)
class Colouring:
    """Per plan a code per buffer, which counts in the palette; and what colours mean.

    The legend is made of pairs (colour, meaning). That of a scale has two: what its darkest and its lightest mean.
    """

    name: str
    palette: Sequence[str]
    legend: Sequence[tuple[str, str]]
    codes: Sequence[npt.NDArray[np.uint8]]
    scale: bool = False


def colourings(plans: Sequence[Plan], facts: Sequence[Sequence[Facts]]) -> list[Colouring]:
    """All that tell something of these plans; `facts` are theirs."""
    kinds = [[fact.kind for fact in known] for known in facts]
    types = [[printable(fact.op_type) for fact in known] for known in facts]
    count = Counter(name for known in types for name in known if name)
    by_words = [
        _by_word("kind", kinds, [kind for kind in KINDS if any(kind in known for known in kinds)]),
        _by_word("type of op", types, [name for name, _ in count.most_common(len(COLOURS))]),
    ]
    return [_by_order(plans), _by_size(plans), *(colouring for colouring in by_words if len(colouring.legend) > 1)]


def _by_order(plans: Sequence[Plan]) -> Colouring:
    codes = []
    for plan in plans:
        rank = np.empty(len(plan), dtype=np.int64)
        rank[np.argsort(plan.problem.first, kind="stable")] = np.arange(len(plan))
        codes.append((rank % len(COLOURS)).astype(np.uint8))
    return Colouring("order", COLOURS, [("", "in turn, by birth: neighbours differ")], codes)


def _by_size(plans: Sequence[Plan]) -> Colouring:
    """On a scale of logarithms, from the smallest to the largest buffer of all plans."""
    from bokeh.palettes import Cividis256

    sizes = np.concatenate([plan.problem.size for plan in plans])
    least, most = (int(sizes[sizes > 0].min()), int(sizes.max())) if sizes.any() else (1, 1)
    shades = len(Cividis256) - 1
    low, span = np.log2(least), max(np.log2(most) - np.log2(least), 1e-9)
    codes = [
        np.round((np.log2(np.maximum(plan.problem.size, least)) - low) / span * shades).astype(np.uint8)
        for plan in plans
    ]
    legend = [(Cividis256[0], format_bytes(least)), (Cividis256[-1], format_bytes(most))]
    return Colouring("size", Cividis256, legend, codes, scale=True)


def _by_word(name: str, words: Sequence[Sequence[str]], common: Sequence[str]) -> Colouring:
    """A colour for each of the common words, and one for all others."""
    colours = COLOURS[: len(common)]
    place = {word: code for code, word in enumerate(common)}
    codes = [np.array([place.get(word, len(common)) for word in known], dtype=np.uint8) for known in words]
    legend = list(zip(colours, common, strict=True))
    if any(word not in place for known in words for word in known):
        legend.append((OTHER, "other"))
    return Colouring(name, (*colours, OTHER), legend, codes)
