"""What a node's output and inputs may share: bytes that are written over, cut out, joined or passed on unchanged.

ONNX tensors are dense and row-major. A box cut out of one, from `starts`, of sizes `shape`, is a run of its bytes
if, from the outside in, the box is one element thick, then of any extent in one dimension, then complete:

    whole [1, 6, 4]      box at [0, 2, 0] of [1, 3, 4]      a run: bytes of rows 2, 3 and 4
    whole [2, 6, 4]      box at [0, 2, 0] of [2, 3, 4]      two runs: not emitted
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from onnx import NodeProto, TensorProto

from ... import dtypes
from ...inplace_ops import permitted
from .bodies import attributes_of
from .parameters import Parameters

Tensor = dict[str, Any]
Relation = dict[str, Any]

_COPIES = frozenset({"Cast", "CastLike", "Dropout", "Expand", "Transpose"})


class Relations:
    """The optional relations of the nodes of a graph, whose constants with known payload are given.

    `inplace_ops` are types of nodes, besides the table's, that may write their output over an input.
    """

    def __init__(self, constants: Mapping[str, TensorProto], opset: int, inplace_ops: Collection[str]) -> None:
        self._constants, self._opset, self._inplace_ops = constants, opset, inplace_ops

    def of(self, node: NodeProto, type: str, tensors: Mapping[str, Tensor]) -> dict[str, list[Relation]]:
        """The entries `inplace`, `slice` and `concat` of the op of a node that is no alias, those that are not empty.

        `tensors` are those that the node reads and writes, by name.
        """
        found = {"inplace": self._inplace(node, type, tensors)}
        if not node.domain:
            found |= {"slice": self._slices(node, tensors), "concat": self._concats(node, tensors)}
        return {relation: entries for relation, entries in found.items() if entries}

    def _inplace(self, node: NodeProto, type: str, tensors: Mapping[str, Tensor]) -> list[Relation]:
        if not any(node.output[:1]):
            return []
        output = tensors[node.output[0]]
        names = permitted(type, list(node.input), self._inplace_ops)
        return [_relation(output, tensors[name]) for name in names if _is_alike(output, tensors[name])]

    def _concats(self, node: NodeProto, tensors: Mapping[str, Tensor]) -> list[Relation]:
        if node.op_type != "Concat" or not node.output[0]:
            return []
        whole = tensors[node.output[0]]
        axis = _axis(attributes_of(node).get("axis", 1), whole)
        parts: dict[str, Relation] = {}
        start = 0
        for name in node.input:
            part = tensors[name]
            offset = _offset(whole, _starts(whole, axis, start), part)
            if offset is not None:
                parts.setdefault(name, _relation(whole, part, offset))
            start += part["shape"][axis]
        return list(parts.values())

    def _slices(self, node: NodeProto, tensors: Mapping[str, Tensor]) -> list[Relation]:
        if not any(node.input[:1]) or not any(node.output):
            return []
        whole = tensors[node.input[0]]
        if node.op_type == "Split":
            return list(self._split(node, whole, tensors))
        if not node.output[0]:
            return []
        output = tensors[node.output[0]]
        if node.op_type in _COPIES and _is_copy(node, whole, output) and not self._parameters(node).drops():
            return [_relation(output, whole)]
        if node.op_type not in ("Slice", "Gather"):
            return []
        starts = self._slice_starts(node, whole) if node.op_type == "Slice" else self._gather_starts(node, whole)
        box = output if node.op_type == "Slice" else _thick(output, whole, attributes_of(node).get("axis", 0))
        offset = None if starts is None else _offset(whole, starts, box)
        return [] if offset is None else [_relation(output, whole, offset)]

    def _split(self, node: NodeProto, whole: Tensor, tensors: Mapping[str, Tensor]) -> Iterable[Relation]:
        axis = _axis(attributes_of(node).get("axis", 0), whole)
        start = 0
        for name in node.output:
            if not name:  # an output that nobody asked for has no shape to go on from
                return
            offset = _offset(whole, _starts(whole, axis, start), tensors[name])
            if offset is not None:
                yield _relation(tensors[name], whole, offset)
            start += tensors[name]["shape"][axis]

    def _slice_starts(self, node: NodeProto, whole: Tensor) -> list[int] | None:
        """Where a Slice begins in every dimension; None if that is not constant, or a step is not 1."""
        found = self._parameters(node).slices(whole["shape"])
        return None if found is None or any(step != 1 for _, step in found) else [start for start, _ in found]

    def _gather_starts(self, node: NodeProto, whole: Tensor) -> list[int] | None:
        """Where the one element that a Gather takes along its axis lies; None if it takes others."""
        index = self._parameters(node).integers(1)
        axis = _axis(attributes_of(node).get("axis", 0), whole)
        extent = whole["shape"][axis]
        if index is None or len(index) != 1 or not -extent <= index[0] < extent:
            return None
        return _starts(whole, axis, index[0] % extent)

    def _parameters(self, node: NodeProto) -> Parameters:
        return Parameters(node, self._constants, self._opset)


def _relation(output: Tensor, source: Tensor, offset: int = 0) -> Relation:
    return {"output": output["name"], "input": source["name"], "offset": offset}


def _axis(axis: int, tensor: Tensor) -> int:
    return int(axis) % max(1, len(tensor["shape"]))


def _starts(whole: Tensor, axis: int, start: int) -> list[int]:
    return [start if dimension == axis else 0 for dimension in range(len(whole["shape"]))]


def _thick(output: Tensor, whole: Tensor, axis: int) -> Tensor:
    """What a Gather of one element yields, with the dimension that it may have dropped."""
    shape = [1 if dimension == _axis(axis, whole) else extent for dimension, extent in enumerate(whole["shape"])]
    return {**output, "shape": shape}


def _is_alike(output: Tensor, source: Tensor) -> bool:
    """Whether elements of the same place are the same bytes; broadcasting adds dimensions of one element in front."""
    same = _without_ones(output) == _without_ones(source) and dtypes.bits(output["dtype"]) == dtypes.bits(
        source["dtype"]
    )
    return bool(same and output["bytes"] > 0)


def _without_ones(tensor: Tensor) -> list[int]:
    """Its shape, from the first dimension on that has more than one element."""
    return list(itertools.dropwhile(lambda extent: extent == 1, tensor["shape"]))


def _is_copy(node: NodeProto, source: Tensor, output: Tensor) -> bool:
    """Whether a node's output holds the bytes of its input, in their order."""
    if not output["bytes"] or output["dtype"] != source["dtype"]:
        return False
    if node.op_type != "Transpose":
        return bool(output["shape"] == source["shape"])
    rank = len(source["shape"])
    order = attributes_of(node).get("perm") or range(rank)[::-1]
    moved = [axis for axis in order if source["shape"][axis] != 1]
    return moved == sorted(moved)


def _offset(whole: Tensor, starts: Sequence[int], box: Tensor) -> int | None:
    """Where a box begins in a tensor, in bytes; None if it is not a run of whole bytes, or empty."""
    extents, shape = whole["shape"], box["shape"]
    if not box["bytes"] or box["dtype"] != whole["dtype"] or len(shape) != len(extents):
        return None
    if any(start + size > extent for start, size, extent in zip(starts, shape, extents, strict=True)):
        return None  # declared shapes that do not fit together
    cut = [axis for axis in range(len(extents)) if shape[axis] != extents[axis]]
    if cut and any(size != 1 for size in shape[: cut[-1]]):
        return None
    width = dtypes.bits(whole["dtype"])
    first = width * sum(start * math.prod(extents[axis + 1 :]) for axis, start in enumerate(starts))
    end = first + width * math.prod(shape)
    whole_bytes = first % 8 == 0 and (end % 8 == 0 or end == width * math.prod(extents))
    return first // 8 if whole_bytes else None
