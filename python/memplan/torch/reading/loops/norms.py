"""Loops of norms: layers, groups and batches, and their gradients."""

from __future__ import annotations

from collections.abc import Iterator

from .calls import Call, Loop, Rows, Slot, Written
from .spans import Labels, spans
from .spread import _given, _without


def layer_norm(call: Call) -> Iterator[Loop]:
    """The axes before those that are normalised, which each have a mean of their own."""
    rank, inner = call.outputs[0].dim(), len(call["normalized_shape"])
    rows = [axis if axis < rank - inner else None for axis in range(rank)]
    return spans(call, {"input": rows}, dict.fromkeys(range(len(call.results)), rows), rows)


def layer_norm_backward(call: Call) -> Iterator[Loop]:
    """As forwards; each row adds to the gradients of weight and bias."""
    rank, inner = _given(call, "input").dim(), len(call["normalized_shape"])
    rows = [axis if axis < rank - inner else None for axis in range(rank)]
    reads: dict[Slot, Labels] = dict.fromkeys(("grad_out", "input", "mean", "rstd"), rows)
    return spans(call, reads, {0: rows}, rows, [row for row in rows if row is not None])


def group_norm(call: Call) -> Iterator[Loop]:
    """The batch, groups of channels, and rows, with statistics."""
    size = call["C"] // call["group"]
    batch: Labels = ["n", *[None] * (call.outputs[0].dim() - 1)]
    yield from spans(call, {"input": batch}, {0: batch, 1: ["n", None], 2: ["n", None]}, ["n"])
    reads = {"input": Rows((1, 1), size, size), "weight": Rows((0, 0), size, size), "bias": Rows((0, 0), size, size)}
    writes = {0: Written((1, 1), size), 1: Written((1, 1)), 2: Written((1, 1))}
    yield from call.loop(call["group"], reads, writes)
    along = _without(call.outputs[0].dim(), (0, 1))
    counted = (["input"], 2 * call["N"] * call["C"])
    yield from spans(call, {"input": along}, {0: along}, along, early={1: (), 2: ()}, statistics=counted)


def group_norm_backward(call: Call) -> Iterator[Loop]:
    """As forwards; the batch adds to the gradients of weight and bias."""
    size = call["C"] // call["group"]
    batch: Labels = ["n", *[None] * (_given(call, "input").dim() - 1)]
    reads: dict[Slot, Labels] = {"grad_out": batch, "input": batch, "mean": ["n", None], "rstd": ["n", None]}
    yield from spans(call, reads, {0: batch}, ["n"], ["n"])
    channels = {"grad_out": Rows((1, 1), size, size), "input": Rows((1, 1), size, size)}
    groups = {"mean": Rows((1, 1)), "rstd": Rows((1, 1)), "weight": Rows((0, 0), size, size)}
    writes = {0: Written((1, 1), size), 1: Written((0, 0), size), 2: Written((0, 0), size)}
    yield from call.loop(call["group"], {**channels, **groups}, writes)
    along = _without(len(batch), (0, 1))
    counted = (["grad_out", "input", "mean"], 2 * call["N"] * call["C"])
    slots: dict[Slot, Labels] = {"grad_out": along, "input": along}
    yield from spans(call, slots, {0: along}, along, early={1: ("rstd",), 2: ()}, statistics=counted)


def batch_norm(call: Call) -> Iterator[Loop]:
    """Channels; with statistics that are given, every axis."""
    out = call.outputs[0]
    order = _channels(out.dim(), bool(call["training"]))
    reads: dict[Slot, Labels] = {"input": order}
    reads |= {slot: ["c"] for slot in ("weight", "bias", "running_mean", "running_var")}
    yield from spans(call, reads, {0: order, **_statistics(call)}, order)
    if call["training"] and call.tensor("running_mean") is None:
        along = _without(out.dim(), (1,))
        counted = (["input"], 2 * out.shape[1])
        yield from spans(call, {"input": along}, {0: along}, along, early={1: (), 2: ()}, statistics=counted)


def batch_norm_backward(call: Call) -> Iterator[Loop]:
    """As forwards; with statistics that are given, the other axes add to the gradients of weight and bias."""
    order = _channels(_given(call, "input").dim(), call["train"])
    kept = ("save_mean", "save_invstd") if call["train"] else ("running_mean", "running_var")
    reads: dict[Slot, Labels] = {"grad_out": order, "input": order, "weight": ["c"]}
    reads |= {slot: ["c"] for slot in kept}
    rest = [label for label in order if label != "c"]
    yield from spans(call, reads, {0: order, 1: ["c"], 2: ["c"]}, order, rest)
    if call["train"] and call.tensor("save_mean") is not None:
        along = _without(len(order), (1,))
        counted = (["grad_out", "input", "save_mean"], 2 * _given(call, "input").shape[1])
        slots: dict[Slot, Labels] = {"grad_out": along, "input": along}
        yield from spans(call, slots, {0: along}, along, early={1: ("save_invstd",), 2: ()}, statistics=counted)


def _channels(rank: int, alone: bool) -> Labels:
    """Labels of all axes, or of the channels alone."""
    return ["c" if axis == 1 else None if alone else axis for axis in range(rank)]


def _statistics(call: Call) -> dict[int, Labels]:
    """The mean and so on that a norm in training keeps."""
    return {place: ["c"] for place, output in enumerate(call.results) if place and output.numel()}
