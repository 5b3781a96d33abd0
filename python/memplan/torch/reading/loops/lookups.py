"""Loops of operators that take rows by their numbers: embeddings, gathers, and the loss of classes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from .calls import Call, Loop, Slot
from .spans import Labels, spans
from .spread import _given, _place, _without


def embedding(call: Call) -> Iterator[Loop]:
    """The axes of the indices, and columns of the weight, which is read whole otherwise."""
    rank = _given(call, "indices").dim()
    rows = tuple(range(rank))
    return spans(call, {"indices": rows, "weight": [None, "c"]}, {0: [*rows, "c"]}, [*rows, "c"])


def embedding_backward(call: Call) -> Iterator[Loop]:
    """Each index adds to the gradient of the weight, unless it is divided by how often it comes."""
    rows = tuple(range(_given(call, "indices").dim()))
    adds = () if call["scale_grad_by_freq"] else rows
    return spans(call, {"indices": rows, "grad_output": [*rows, "c"]}, {0: [None, "c"]}, [*rows, "c"], adds)


def index_select(call: Call) -> Iterator[Loop]:
    """Every axis; along that of the index, the source is read whole."""
    rank = call.outputs[0].dim()
    axis = _place(call["dim"], rank)
    order = tuple(range(rank))
    return spans(call, {"self": _without(rank, {axis}), "index": [axis]}, {0: order}, order)


def gather(call: Call) -> Iterator[Loop]:
    """Every axis; along that of the index, the source is read whole."""
    source, index = _given(call, "self"), _given(call, "index")
    axis = _place(call["dim"], index.dim())
    order = tuple(range(index.dim()))
    longer = {k for k in order if source.dim() and source.shape[k] != index.shape[k]}
    return spans(call, {"self": _without(source.dim(), {axis, *longer}), "index": order}, {0: order}, order)


def scatter(call: Call) -> Iterator[Loop]:
    """Every axis but that of the index, where all tensors are of one size."""
    source, index, values = _given(call, "self"), _given(call, "index"), call.tensor("src")
    others = [index, *([values] if values is not None else [])]
    if any(t.dim() != source.dim() for t in others):
        return iter(())
    differ = {k for k in range(source.dim()) if any(t.shape[k] != source.shape[k] for t in others)}
    kept = _without(source.dim(), {_place(call["dim"], source.dim()), *differ})
    return spans(call, {"self": kept, "index": kept, "src": kept}, {0: kept}, kept)


def index(call: Call) -> Iterator[Loop]:
    """`x[:, rows, columns]`: the axes of the indices, and those of `x` that none of these takes."""
    found = _indexed(call)
    if found is None:
        return iter(())
    _source, indices, own, rows = found
    front = next(iter(indices)) if _lie_together(list(indices)) else 0
    left = [label for label in own if label is not None]
    before = [label for label in left if label < front] if front else []
    order = [*before, *rows, *left[len(before) :]]
    reads: dict[Slot, Labels] = {"self": own}
    return spans(call, reads | _of_indices(indices, rows), {0: order}, order)


def index_put(call: Call) -> Iterator[Loop]:
    """The axes that no index takes."""
    found = _indexed(call)
    values = _given(call, "values")
    if found is None:
        return iter(())
    _source, indices, own, rows = found
    if not _lie_together(list(indices)):
        return iter(())
    front = next(iter(indices))
    order = [*own[:front], *[None] * len(rows), *own[front + len(indices) :]]
    if values.dim() != len(order):
        return iter(())
    labels = [None if values.shape[k] == 1 else label for k, label in enumerate(order)]
    return spans(call, {"self": own, "values": labels}, {0: own}, own)


def nll_loss(call: Call) -> Iterator[Loop]:
    """Each target; the number of those that count comes first, and needs the targets alone."""
    given, reads = _targets(call)
    if given is None:
        return iter(())
    total: dict[int, Sequence[Slot]] = {1: ["target", "weight"]}
    made = {0: given} if call["reduction"] == 0 else {}
    return spans(call, reads, made, given, () if made else given, total)


def nll_loss_backward(call: Call) -> Iterator[Loop]:
    """Each target. Of what the loss was computed from, only the shape counts."""
    given, reads = _targets(call)
    if given is None:
        return iter(())
    reads["grad_output"] = given if call["reduction"] == 0 else []
    return spans(call, reads, {0: reads.pop("self")}, given)


def _targets(call: Call) -> tuple[Labels | None, dict[Slot, Labels]]:
    """Labels of the targets, and of what a loss of classes reads: axis 1 is that of the classes."""
    source = _given(call, "self")
    if source.dim() < 2:
        return None, {}
    given = [axis for axis in range(source.dim()) if axis != 1]
    return given, {"self": [None if axis == 1 else axis for axis in range(source.dim())], "target": given}


def _indexed(call: Call) -> tuple[Tensor, dict[int, Tensor], list[int | None], list[str]] | None:
    """The tensor, its indices by axis, labels of its axes, and labels of the indices'; None if an index is a mask."""
    source = _given(call, "self")
    indices = {axis: given for axis, given in enumerate(call["indices"]) if given is not None}
    if not indices or any(given.dtype in (torch.bool, torch.uint8) for given in indices.values()):
        return None
    rank = max(given.dim() for given in indices.values())
    return source, indices, _without(source.dim(), indices.keys()), [f"row{k}" for k in range(rank)]


def _of_indices(indices: dict[int, Tensor], rows: list[str]) -> dict[Slot, Labels]:
    """Labels of indices, which are broadcast."""
    shape = torch.broadcast_shapes(*(given.shape for given in indices.values()))  # type: ignore[no-untyped-call]
    labels: dict[Slot, Labels] = {}
    for axis, given in indices.items():
        skipped = len(rows) - given.dim()
        labels["indices", axis] = [
            rows[k + skipped] if size == shape[k + skipped] != 1 else None for k, size in enumerate(given.shape)
        ]
    return labels


def _lie_together(axes: list[int]) -> bool:
    return axes[-1] - axes[0] == len(axes) - 1
