"""TFLite Micro: the plan in the metadata of a model, which its allocator reads, and its ops in the plan's order."""

from __future__ import annotations

import os
import struct
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from .. import dtypes
from ..errors import GraphError, SourceError
from ..files import replacing
from ..importers.graph_dict import graph_of
from ..plans.failing import LISTED, invalid_plan
from ..plans.placed import Placed, offsets_of, outside_of
from ..plans.plan import Plan
from .reading import Imported, control, import_tflite

_NAME = b"OfflineMemoryAllocation"
_VERSION, _FIRST, _AT_RUN_TIME = 1, 0, -1
_FIELDS = 8  # of a model
_BUFFERS, _METADATA = 4, 6  # among these
_OPERATORS = 3  # among the fields of a subgraph
_ALIGNMENT = 64  # of the new part, so that what follows it lies as it did


def write_tflite(
    plan: Plan,
    path: str | os.PathLike[str],
    model: str | os.PathLike[str],
    inplace_ops: Collection[str],
    signature: str | None,
) -> None:
    """Write a model with the offsets and the order of a plan; see `Plan.to_tflite`."""
    overlaps = plan.graph is not None and any(op.ordered for op in plan.graph.ops)
    imported = import_tflite(model, inplace_ops, "tflite-micro" if overlaps else False, signature)
    order = _order(plan, imported, model)
    offsets = _offsets(plan, imported, order)
    with replacing(path) as beside:
        beside.write_bytes(_planned(Path(model).read_bytes(), imported.subgraph, offsets, order, str(model)))


def _order(plan: Plan, imported: Imported, model: str | os.PathLike[str]) -> list[int]:
    """The operators of the file, by position, in the order in which the plan runs them."""
    place = {op["name"]: k for k, op in enumerate(imported.graph["ops"])}
    if sorted(plan.order) != sorted(place):
        raise ValueError(f"the plan has other ops than {model}; TFLite Micro runs each op of the file once, whole")
    return [place[name] for name in plan.order]


def _offsets(plan: Plan, imported: Imported, order: Sequence[int]) -> list[int]:
    """Those of the subgraph's tensors, once the plan is seen to hold for them."""
    ops = [imported.graph["ops"][k] for k in order]
    given = offsets_of(plan)
    try:
        graph = graph_of({**imported.graph, "ops": ops}, measured=True)
    except GraphError as error:
        raise ValueError(f"the plan has its ops in an order in which they cannot run: {error}") from None
    if faults := Placed(graph, given, outside_of(plan), [], 1).faults([], None, LISTED):
        raise invalid_plan("the plan", faults)
    offsets = [given.get(name, _AT_RUN_TIME) for name in imported.names]
    for tensor, offset in zip(imported.graph["tensors"], offsets, strict=True):
        dtype = tensor.get("dtype", "")
        width = max(dtypes.bits(dtype) // 8, 1) if dtypes.is_known(dtype) else 1
        if offset % width and offset != _AT_RUN_TIME:
            at = f"{tensor['name']!r} of {dtype} at offset {offset}"
            raise ValueError(f"tensor {at} is not aligned to {width}; plan with alignment=16")
    return offsets


def _planned(old: bytes, position: int, offsets: list[int], order: list[int], path: str) -> bytes:
    """The model whose subgraph at a position has its operators in this order, and its tensors at these offsets."""
    import tflite

    model = tflite.Model.GetRootAsModel(old, 0)
    counts = [model.Subgraphs(k).TensorsLength() for k in range(model.SubgraphsLength())]
    before, behind = sum(counts[:position]), sum(counts[position + 1 :])
    offsets = [_AT_RUN_TIME] * before + offsets + [_AT_RUN_TIME] * behind
    entries = {_NAME: struct.pack(f"<{3 + len(offsets)}i", _VERSION, _FIRST, len(offsets), *offsets)}
    if order == sorted(order):
        return _with_metadata(old, model, entries, path)
    edges = _edges(model)
    if position < len(edges):
        place = {k: step for step, k in enumerate(order)}
        edges[position] = [(place.get(a, a), place.get(b, b)) for a, b in edges[position]]
        entries[control.NAME] = control.written(edges)
    return _with_metadata(_reordered(old, model.Subgraphs(position), order, path), model, entries, path)


def _edges(model: Any) -> list[control.Edges]:
    for entry in map(model.Metadata, range(model.MetadataLength())):
        data = model.Buffers(entry.Buffer()).DataAsNumpy() if entry.Name() == control.NAME else 0
        if not isinstance(data, int):
            return control.read(data.tobytes())
    return []


def _reordered(old: bytes, subgraph: Any, order: Sequence[int], path: str) -> bytes:
    """The file whose list of a subgraph's operators is in this order: each entry says how far behind it a table is."""
    new = bytearray(old)
    place = subgraph._tab.Vector(subgraph._tab.Offset(4 + 2 * _OPERATORS))
    for step, k in enumerate(order):
        entry = place + 4 * step
        ahead = subgraph.Operators(k)._tab.Pos - entry
        if ahead <= 0:
            raise SourceError(f"{path}: operator {k} lies before its place in the list, so the order cannot be written")
        struct.pack_into("<I", new, entry, ahead)
    return bytes(new)


def _with_metadata(old: bytes, model: Any, entries: Mapping[bytes, bytes], path: str) -> bytes:
    """The model with another root in front, which shows the tables that are there and new entries of metadata.

    Offsets in a flatbuffer are relative and point forward. So what is there stays as it is, behind the new root:

        root │ buffers │ metadata │ the new entries and their buffers │ the old file

    A flatbuffer is written from its end, and places are counted from there: those of the old file are negative.
    """
    import flatbuffers
    import tflite

    if _fields_of(old, model) > _FIELDS:
        raise SourceError(f"{path}: has fields of a newer schema, which would be lost")
    buffers = [model.Buffers(k) for k in range(model.BuffersLength())]
    if any(buffer.Offset() for buffer in buffers):
        raise SourceError(f"{path}: has data behind its tables, which TFLite Micro does not read")
    kept = [entry for entry in map(model.Metadata, range(model.MetadataLength())) if entry.Name() not in entries]
    builder = flatbuffers.Builder(1024)
    builder.Prep(_ALIGNMENT, 0)
    new_buffers, new_entries = [-buffer._tab.Pos for buffer in buffers], [-entry._tab.Pos for entry in kept]
    for name, data in entries.items():
        content, text = _bytes(builder, data), builder.CreateString(name.decode())
        tflite.MetadataStart(builder)
        tflite.MetadataAddName(builder, text)
        tflite.MetadataAddBuffer(builder, len(new_buffers))
        new_entries.append(tflite.MetadataEnd(builder))
        tflite.BufferStart(builder)
        tflite.BufferAddData(builder, content)
        new_buffers.append(tflite.BufferEnd(builder))
    lists = {_METADATA: _list(builder, new_entries), _BUFFERS: _list(builder, new_buffers)}
    builder.StartObject(_FIELDS)
    builder.PrependUint32Slot(0, model.Version(), 0)
    for field in range(1, _FIELDS):
        place = model._tab.Offset(4 + 2 * field)
        there = -model._tab.Indirect(model._tab.Pos + place) if place else 0
        builder.PrependUOffsetTRelativeSlot(field, lists.get(field, there), 0)
    builder.Finish(builder.EndObject(), b"TFL3")
    return bytes(builder.Output()) + old


def _fields_of(old: bytes, model: Any) -> int:
    """How many fields a model's table has, counted up to the last that is there."""
    table = model._tab.Pos - struct.unpack_from("<i", old, model._tab.Pos)[0]
    count = (struct.unpack_from("<H", old, table)[0] - 4) // 2
    return max((k + 1 for k in range(count) if model._tab.Offset(4 + 2 * k)), default=0)


def _bytes(builder: Any, data: bytes) -> int:
    """A list of bytes that begins at a multiple of 16."""
    builder.StartVector(1, len(data), 16)
    builder.head -= len(data)
    builder.Bytes[builder.head : builder.head + len(data)] = data
    return int(builder.EndVector())


def _list(builder: Any, tables: Sequence[int]) -> int:
    builder.StartVector(4, len(tables), 4)
    for table in reversed(tables):
        builder.PrependUOffsetTRelative(table)
    return int(builder.EndVector())
