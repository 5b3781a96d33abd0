"""Memory snapshots of torch: what its CUDA allocator recorded, as buffers to plan.

::

    path or dict ─ unpickling ─▶ dict ─ trace (per device) ─▶ blocks, with names from their stacks ─▶ Snapshot
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from reprlib import repr
from typing import Any

from ...errors import SourceError
from .recorded import Snapshot
from .trace import Walked, walked
from .unpickling import unpickled

_KEYS = ("segments", "device_traces")
_EXPECTED = "a memory snapshot, a dict with segments and device_traces as torch.cuda.memory._snapshot() gives"


def is_snapshot(source: Mapping[str, Any]) -> bool:
    """Whether a dict is a memory snapshot, and no graph."""
    return any(key in source for key in _KEYS)


def read_snapshot(source: str | os.PathLike[str] | Mapping[str, Any]) -> Snapshot:
    """Read a memory snapshot of torch: what its CUDA allocator reserved, and what lived in it, when.

    A file is read with a restricted unpickler: it may hold dicts, lists, tuples, text and numbers, and nothing of it is
    run. O(n log n) for n events.

    Parameters
    ----------
    source
        A file that ``torch.cuda.memory._dump_snapshot`` wrote, or what ``torch.cuda.memory._snapshot()`` returned. The
        allocator has to record before: ``torch.cuda.memory._record_memory_history()``.

    Raises
    ------
    TypeError
        The source is neither a path nor a dict.
    SourceError
        The file is no such snapshot; the message says which entry is wrong or missing.
    """
    _, where, devices = walked_of(source)
    return Snapshot.of(where, [device for device in devices if device.pools])


def walked_of(source: Any) -> tuple[Mapping[str, Any], str, list[Walked]]:
    """A snapshot from its file or dict, its name, and the blocks of each device; errors as `read_snapshot`."""
    if isinstance(source, (Mapping, list)):
        data, where = source, "snapshot"
    elif isinstance(source, (str, os.PathLike)):
        data, where = unpickled(source, _EXPECTED), os.fspath(source)
    else:
        raise TypeError(f"source must be a path or {_EXPECTED}, got {type(source).__name__}")
    if isinstance(data, list) and data and all(isinstance(entry, Mapping) and "blocks" in entry for entry in data):
        raise SourceError(f"{where}: expected {_EXPECTED}, got segments alone, as memory_snapshot() gives them")
    if not isinstance(data, Mapping):
        raise SourceError(f"{where}: expected {_EXPECTED}, got {type(data).__name__}")
    for key in _KEYS:
        if not isinstance(data.get(key), (list, tuple)):
            got = f"{key!r} of {type(data[key]).__name__}" if key in data else f"the keys {_listed(data)}"
            raise SourceError(f"{where}: expected {_EXPECTED}, got {got}")
    traces = data["device_traces"]
    devices = range(max(len(traces), 1 + max(map(_device, data["segments"]), default=-1)))
    return (
        data,
        where,
        [
            walked(
                traces[device] if device < len(traces) else [],
                [segment for segment in data["segments"] if _device(segment) == device],
                device,
                where,
            )
            for device in devices
        ],
    )


def _device(segment: Any) -> int:
    """The device of a segment. Snapshots of torch before 2.0 do not say; what is wrong here is said by `walked`."""
    device = segment.get("device", 0) if isinstance(segment, Mapping) else 0
    return device if isinstance(device, int) and 0 <= device < 1024 else 0


def _listed(data: Mapping[str, Any]) -> str:
    keys = [repr(key) for key in list(data)[:8]]
    return ", ".join(keys) or "of an empty dict"


__all__ = ["Snapshot", "is_snapshot", "read_snapshot"]
