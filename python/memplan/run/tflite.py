"""TFLite Micro: the plan in the metadata of a model, which its allocator reads."""

from __future__ import annotations

import os
import struct
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from ..dtypes import bits, is_known
from ..errors import SourceError
from ..files import replacing
from ..importers.graph_dict import graph_of
from ..importers.tflite import import_tflite
from ..plans.failing import LISTED, invalid_plan
from ..plans.placed import Placed, offsets_of, outside_of
from ..plans.record import PlanRecord

_NAME = b"OfflineMemoryAllocation"
_VERSION, _SUBGRAPH, _AT_RUN_TIME = 1, 0, -1
_FIELDS = 8  # of a model
_BUFFERS, _METADATA = 4, 6  # among these
_ALIGNMENT = 16  # of what a buffer holds


def write_tflite(
    plan: PlanRecord, path: str | os.PathLike[str], model: str | os.PathLike[str], inplace_ops: Collection[str]
) -> None:
    """Write a model with the offsets of a plan; see `Plan.to_tflite`."""
    overlaps = plan.graph is not None and any(op.ordered for op in plan.graph.ops)
    imported = import_tflite(model, inplace_ops, "tflite-micro" if overlaps else False)
    if plan.order != (ops := tuple(op["name"] for op in imported.graph["ops"])):
        what = "in another order" if sorted(plan.order) == sorted(ops) else f"and {model} others"
        raise ValueError(f"the plan has its ops {what}; TFLite Micro runs them in the order of the file")
    given = offsets_of(plan)
    if faults := Placed(graph_of(imported.graph, measured=True), given, outside_of(plan), [], 1).faults(
        [], None, LISTED
    ):
        raise invalid_plan("the plan", faults)
    offsets = [given.get(name, _AT_RUN_TIME) for name in imported.names]
    for tensor, offset in zip(imported.graph["tensors"], offsets, strict=True):
        dtype = tensor.get("dtype", "")
        width = max(bits(dtype) // 8, 1) if is_known(dtype) else 1
        if offset % width and offset != _AT_RUN_TIME:
            at = f"{tensor['name']!r} of {dtype} at offset {offset}"
            raise ValueError(f"tensor {at} is not aligned to {width}; plan with alignment=16")
    data = struct.pack(f"<{3 + len(offsets)}i", _VERSION, _SUBGRAPH, len(offsets), *offsets)
    with replacing(path) as beside:
        beside.write_bytes(_with_metadata(Path(model).read_bytes(), data, str(model)))


def _with_metadata(old: bytes, data: bytes, path: str) -> bytes:
    """The model with another root in front, which shows the tables that are there and a new entry of metadata.

    Offsets in a flatbuffer are relative and point forward. So what is there stays as it is, behind the new root:

        root │ buffers │ metadata │ the new entry and its buffer │ the old file
    """
    fields = _Table.root(old)
    buffers, metadata = fields.tables(_BUFFERS), fields.tables(_METADATA)
    if any(_Table(old, position).number(1) for position in buffers):
        raise SourceError(f"{path}: has data behind its tables, which TFLite Micro does not read")
    kept = [position for position in metadata if _Table(old, position).text(0) != _NAME]

    table = 8 + 4 + 2 * _FIELDS  # behind the mark and the root's table of fields
    lists = table + 4 + 4 * _FIELDS
    entry = lists + 4 * (1 + len(buffers) + 1) + 4 * (1 + len(kept) + 1)
    name = entry + 8 + 12
    buffer = name + 4 + len(_NAME) + 1  # a string ends with 0
    content = _up(buffer + 8 + 8 + 4, _ALIGNMENT)  # of the new buffer, behind its length
    begin = _up(content + len(data), 64)  # of the old file

    new = bytearray(begin)
    struct.pack_into("<I4s", new, 0, table, b"TFL3")
    struct.pack_into(f"<{2 + _FIELDS}H", new, 8, 4 + 2 * _FIELDS, 4 + 4 * _FIELDS, *range(4, 4 + 4 * _FIELDS, 4))
    struct.pack_into("<i", new, table, table - 8)
    where = {k: begin + place for k in range(1, _FIELDS) if (place := fields.target(k))}
    where |= {_BUFFERS: lists, _METADATA: lists + 4 * (1 + len(buffers) + 1)}
    struct.pack_into("<I", new, table + 4, fields.number(0))
    for k, place in where.items():
        _point(new, table + 4 + 4 * k, place)
    for field in set(range(_FIELDS)) - {0, *where}:
        struct.pack_into("<H", new, 12 + 2 * field, 0)  # is not there
    _write_list(new, where[_BUFFERS], [*(begin + position for position in buffers), buffer + 8])
    _write_list(new, where[_METADATA], [*(begin + position for position in kept), entry + 8])
    struct.pack_into("<4H", new, entry, 8, 12, 4, 8)
    struct.pack_into("<iII", new, entry + 8, 8, name - entry - 12, len(buffers))
    struct.pack_into(f"<I{len(_NAME)}s", new, name, len(_NAME), _NAME)
    struct.pack_into("<3H", new, buffer, 6, 8, 4)
    struct.pack_into("<i", new, buffer + 8, 8)
    _point(new, buffer + 12, content - 4)
    struct.pack_into("<I", new, content - 4, len(data))
    new[content : content + len(data)] = data
    return bytes(new) + old


def _up(value: int, step: int) -> int:
    return -(-value // step) * step


def _point(new: bytearray, place: int, target: int) -> None:
    struct.pack_into("<I", new, place, target - place)


def _write_list(new: bytearray, place: int, targets: list[int]) -> None:
    struct.pack_into("<I", new, place, len(targets))
    for k, target in enumerate(targets):
        _point(new, place + 4 + 4 * k, target)


class _Table(NamedTuple):
    """A table of a flatbuffer, by its position."""

    data: bytes
    position: int

    @staticmethod
    def root(data: bytes) -> _Table:
        return _Table(data, *struct.unpack_from("<I", data, 0))

    def _field(self, field: int) -> int:
        """Where a field is; 0 where the table does not have it."""
        fields = self.position - self._read("<i", self.position)
        if 4 + 2 * field >= self._read("<H", fields):
            return 0
        inside = self._read("<H", fields + 4 + 2 * field)
        return self.position + inside if inside else 0

    def _read(self, form: str, place: int) -> int:
        return int(struct.unpack_from(form, self.data, place)[0])

    def number(self, field: int) -> int:
        """An unsigned number of 4 bytes; 0 where there is none."""
        place = self._field(field)
        return self._read("<I", place) if place else 0

    def target(self, field: int) -> int:
        """Where what a field points to is; 0 for nothing."""
        place = self._field(field)
        return place + self._read("<I", place) if place else 0

    def tables(self, field: int) -> list[int]:
        """Where the tables of a list are."""
        place = self.target(field)
        count = self._read("<I", place) if place else 0
        return [entry + self._read("<I", entry) for entry in range(place + 4, place + 4 + 4 * count, 4)]

    def text(self, field: int) -> bytes:
        place = self.target(field)
        return self.data[place + 4 : place + 4 + self._read("<I", place)] if place else b""
