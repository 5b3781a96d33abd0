"""Loops of operators whose inputs and outputs go through the same axes: each axis of each tensor has a label.

    mm      self "ij"   mat2 "jk"   result "ik"      loops i and k; and j, if each iteration may add to the result

An axis of a tensor without a label (None) is gone through whole. Labels that come first in `order` are also taken
together: rows of the axes [0, k], where each tensor has all of these or none.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from itertools import takewhile
from math import prod
from typing import Any

from torch import Tensor

from .calls import Axes, Call, Loop, Rows, Slot, Written, is_even

Labels = Sequence[Hashable]  # one for each axis


def spans(
    call: Call,
    reads: Mapping[Any, Labels],
    writes: Mapping[int, Labels],
    order: Labels,
    adds: Collection[Hashable] = (),
    early: Mapping[int, Sequence[Slot]] | None = None,
    statistics: tuple[Sequence[Slot], int] | None = None,
) -> Iterator[Loop]:
    """A loop along each label of `order`, and along those that come first together.

    `reads` are inputs by their slots, `writes` outputs by their places in the result.
    Iterations along labels of `adds` add to the outputs that do not have these. `early` outputs are made first, in the
    loops that they have no part in. All loops have the same `statistics`.
    """
    given = {slot: (tensor, labels) for slot, labels in reads.items() if (tensor := call.tensor(slot)) is not None}
    results = {place: output for place, output in enumerate(call.results) if isinstance(output, Tensor)}
    made = {place: (results[place], labels) for place, labels in writes.items() if place in results}
    sizes = _sizes([*given.values(), *made.values()])
    front = list(takewhile(lambda label: sizes.get(label) is not None, order))
    front = [label for label in front if sizes[label] != 1]
    merges = [front[:count] for count in range(2, len(front) + 1)]
    for labels in [*([label] for label in order if sizes.get(label, 1) != 1), *merges]:
        extent = prod(sizes[label] or 0 for label in labels)
        read = {slot: _axes(*one, labels) for slot, one in given.items()}
        written = {place: _axes(*one, labels) for place, one in made.items()}
        if False in [*read.values(), *written.values()]:
            continue
        rest = [place for place, output in results.items() if not written.get(place) and output.numel() > 0]
        first = {place: early[place] for place in rest if place in early} if early else {}
        added = [place for place in rest if place not in first]
        if added and not set(labels) <= set(adds):
            continue
        yield from call.loop(
            extent,
            {slot: Rows(axes) for slot, axes in read.items() if isinstance(axes, tuple)},
            {place: Written(axes) for place, axes in written.items() if isinstance(axes, tuple)},
            added,
            first,
            statistics,
        )


def _sizes(tensors: Sequence[tuple[Tensor, Labels]]) -> dict[Hashable, int | None]:
    """Rows along each label; None if tensors do not agree."""
    sizes: dict[Hashable, int | None] = {}
    for tensor, labels in tensors:
        for size, label in zip(tensor.shape, labels, strict=True):
            if label is not None:
                sizes[label] = int(size) if sizes.get(label, size) == size else None
    return sizes


def _axes(tensor: Tensor, own: Labels, labels: Labels) -> Axes | bool | None:
    """The axes of a tensor that have these labels; None if none has, False if they cannot be taken together."""
    places = [axis for axis, label in enumerate(own) if label is not None and label in labels]
    if not places:
        return None
    between = [axis for axis in range(places[0], places[-1]) if axis not in places and tensor.shape[axis] != 1]
    whole = [own[axis] for axis in places] == list(labels) and not between
    axes = (places[0], places[-1])
    return axes if whole and is_even(tensor, axes) else False


def aligned(tensor: Tensor, shape: Sequence[int]) -> Labels:
    """Labels of a tensor that is broadcast to a shape, whose axes have their positions as labels."""
    skipped = len(shape) - tensor.dim()
    return [
        axis + skipped if size == shape[axis + skipped] and size != 1 else None
        for axis, size in enumerate(tensor.shape)
    ]
