"""What torch's CUDA allocator would have reserved with other settings, from a snapshot of what it did.

::

    snapshot ─ trace ─▶ Replayed ─┬─ exact ─▶ the addresses of the GPU, or the first event that differs
                                  └─ run, per setting ─▶ rows
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import _core, sizes
from ...errors import SourceError
from ...solving.planning import plan
from . import walked_of
from .names import Namer
from .recorded import Snapshot
from .replayed import Replayed
from .settings import MIB, fraction_of, recorded_setting
from .trace import ACTIONS, Walked

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SPLITS = (32, 64, 128, 256, 512, 1024, 2048)  # MiB
_DIVISIONS = (2, 4, 8, 16)
_FIRST = (1.0, 1.02, 1.05, 1.1, 1.2)  # sizes of one block that comes first, by the most that is allocated
_PLAN_SECONDS = 1.0
_CLOSE = 1.005


@dataclass(frozen=True)
class Setting:
    """What one setting of the allocator would reserve.

    Attributes
    ----------
    setting : str
        The text for ``PYTORCH_ALLOC_CONF``; empty for torch's defaults.
    reserved : int
        The most bytes in segments, if the device has enough.
    lost : int
        The part of `reserved` that no block needed when most was allocated.
    fits : bool or None
        Whether the program runs within the capacity, cached segments given back where memory runs out; None without a
        capacity.
    recorded : bool
        It is the setting of the snapshot, replayed from what the allocator held before the trace. Other settings begin
        with the blocks that lived then, and no cached segments.
    """

    setting: str
    reserved: int
    lost: int
    fits: bool | None = None
    recorded: bool = False


@dataclass(frozen=True)
class Pinned:
    """Blocks that keep free bytes from the device, when most is reserved.

    Attributes
    ----------
    line : str
        Where the program allocated them, such as "train.py:30:step".
    blocks, bytes : int
        How many they are, and their bytes.
    free : int
        The free bytes of their segments, each segment's in equal parts for its blocks.
    """

    line: str
    blocks: int
    bytes: int
    free: int


@dataclass(frozen=True, eq=False)
class WhatIf:
    """What torch's CUDA allocator would have reserved with other settings. Printed, it is a table.

    Attributes
    ----------
    source : str
        The file, or "snapshot".
    device : int
        The device whose trace it is.
    capacity : int or None
        Bytes that the device may have: as asked for, or what a snapshot of a program that ran out of memory says.
    replay : CachingReplay
        The replay with the snapshot's settings. `allocations` and `equal_addresses` count blocks, `segments` and
        `equal_segments` changes of segments. `reserved` and `recorded_reserved` are the most bytes by the replay and
        by the trace. `parts_at` is the first event that differs, or -1; `parts_because` says how.
    rows : tuple of Setting
        The snapshot's setting first, then the others by `reserved`.
    planned : int or None
        The peak of a static plan of the same blocks; None if they are too many for one plan.
    preallocated : tuple of int
        The bytes of one block that the program may allocate and free before all else, so that all large blocks come
        from it; and what is reserved then.
    pinned : tuple of Pinned
        The blocks that make the fragmentation, by line of the program, the most first.
    notes : tuple of str
        What the snapshot leaves out, and how that was read.
    peak : dict
        Segments and blocks when most is reserved, by column.
    """

    source: str
    device: int
    capacity: int | None
    replay: _core.CachingReplay
    rows: tuple[Setting, ...]
    planned: int | None
    preallocated: tuple[int, int]
    pinned: tuple[Pinned, ...]
    notes: tuple[str, ...]
    peak: dict[str, Any] = field(repr=False)

    @property
    def best(self) -> Setting:
        """The setting that reserves least, of those that fit: of those within half a percent, the shortest."""
        fitting = [row for row in self.rows if row.fits is not False] or list(self.rows)
        least = min(row.reserved for row in fitting)
        close = [row for row in fitting if row.reserved <= least * _CLOSE]
        return min(close, key=lambda row: (not row.recorded, len(row.setting), row.reserved))

    def plot(self) -> Figure:
        """Reserved and allocated bytes over the trace, and the segments when most is reserved."""
        from .what_if_picture import figure_of

        return figure_of(self)

    def __str__(self) -> str:
        from .what_if_text import what_if_text

        return what_if_text(self)

    def _repr_html_(self) -> str:
        from .what_if_text import what_if_html

        return what_if_html(self)


def what_if(
    source: str | os.PathLike[str] | Mapping[str, Any],
    capacity: int | str | None = None,
    *,
    device: int | None = None,
    settings: Iterable[str] = (),
) -> WhatIf:
    """Replay a memory snapshot of torch, and run its requests again with other settings of the CUDA allocator.

    The allocator is deterministic. With the snapshot's settings, the replay gives the addresses that the GPU gave.
    O(n log n) for n events and each setting.

    Parameters
    ----------
    source
        A file that ``torch.cuda.memory._dump_snapshot`` wrote, or what ``torch.cuda.memory._snapshot()`` returned.
    capacity
        Bytes of the device, such as "48GiB": each row says whether the program fits.
    device
        By default the only one that has events.
    settings
        More settings to try, as texts for ``PYTORCH_ALLOC_CONF``.

    Raises
    ------
    TypeError
        The source is neither a path nor a dict.
    SourceError
        The file is no such snapshot, it has no trace, or a setting is not one of torch's; the message says which.
    """
    data, where, devices = walked_of(source)
    walk = chosen(devices, device, where)
    replayed = Replayed.of(walk, recorded_setting(data.get("allocator_settings")))
    exact = replayed.exact
    size = sizes.in_bytes(capacity, "capacity", 1) if capacity is not None else _capacity_of(walk)
    rows = _rows(replayed, walk, size, tuple(settings))
    state = replayed.state_at_peak()
    return WhatIf(
        where,
        walk.device,
        size,
        exact,
        rows,
        _planned(where, walk),
        _preallocated(replayed),
        _pinned(state, walk),
        (*walk.notes, *replayed.notes()),
        state,
    )


def chosen(devices: list[Walked], device: int | None, where: str) -> Walked:
    """The device that a caller asks for, or the only one that has events; SourceError says which there are."""
    traced = [walk for walk in devices if walk.events]
    there = ", ".join(str(walk.device) for walk in traced)
    if not traced:
        raise SourceError(
            f"{where}: expected a trace of allocations, which "
            "torch.cuda.memory._record_memory_history() records; got segments without events"
        )
    if device is None and len(traced) > 1:
        raise SourceError(f"{where}: has events of the devices {there}; choose one by device=")
    chosen = [walk for walk in traced if device in (None, walk.device)]
    if not chosen:
        raise SourceError(f"{where}: has no events of device {device}; it has those of {there}")
    return chosen[0]


def _capacity_of(walk: Walked) -> int | None:
    """What the process had of the device when its memory ran out: reserved, and free."""
    changes = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}
    change = {ACTIONS[name]: sign for name, sign in changes.items()}
    held = sum(segment.size for segment in walk.segments)
    found = None
    for action, address, size, _ in reversed(walk.events):
        if action == ACTIONS["oom"] and found is None:
            found = held + address
        held -= change.get(action, 0) * size
    return found


def _rows(replayed: Replayed, walk: Walked, capacity: int | None, more: tuple[str, ...]) -> tuple[Setting, ...]:
    exact, recorded = replayed.exact, replayed.recorded

    def tried(setting: str) -> Setting:
        run = replayed.run(setting)
        fits: bool | None = None
        if capacity is not None:
            within = {"capacity": capacity}
            if (share := fraction_of(setting)) < 1:
                within["limit"] = int(share * capacity)
            fits = replayed.run(setting, **within).ran_out_at < 0
        if setting != recorded:
            return Setting(setting, run.reserved, run.reserved - run.allocated, fits)
        return Setting(setting, exact.reserved, exact.reserved - exact.allocated, fits, True)

    largest = max((size for action, _, size, _ in walk.events if action == ACTIONS["alloc"]), default=0)
    splits = [tried(f"max_split_size_mb:{size}") for size in _SPLITS if size * MIB <= largest]
    divisions = [tried(f"roundup_power2_divisions:{parts}") for parts in _DIVISIONS]
    rows = [tried(setting) for setting in dict.fromkeys((recorded, "", "expandable_segments:True", *more))]
    rows += [row for row in (*splits, *divisions) if row.setting not in {other.setting for other in rows}]
    by_bytes = [min(group, key=lambda row: row.reserved) for group in (splits, divisions) if group]
    pairs = [",".join(row.setting for row in by_bytes)] if len(by_bytes) > 1 else []
    pairs += [f"expandable_segments:True,{by_bytes[-1].setting}"]
    if capacity is not None:
        pairs.append("garbage_collection_threshold:0.8,per_process_memory_fraction:0.95")
    rows += [tried(setting) for setting in pairs if setting not in {row.setting for row in rows}]
    return (rows[0], *sorted(rows[1:], key=lambda row: (row.reserved, len(row.setting))))


def _preallocated(replayed: Replayed) -> tuple[int, int]:
    def reserved(share: float) -> tuple[int, int]:
        first = int(replayed.exact.allocated * share) // (2 * MIB) * 2 * MIB + 2 * MIB
        return replayed.run("", preallocated=first).reserved, first

    least, first = min(map(reserved, _FIRST))
    return first, least


def _planned(where: str, walk: Walked) -> int | None:
    snapshot = Snapshot.of(where, [walk])
    try:
        return plan(snapshot.problem(), time_limit=_PLAN_SECONDS, on_interrupt="keep").peak
    except SourceError:
        return None


def _pinned(state: Mapping[str, Any], walk: Walked) -> tuple[Pinned, ...]:
    """The free bytes of each segment that has used blocks, in equal parts for these, by line of the program."""
    segment, size, used = state["segment"], state["size"], state["used"].astype(bool)
    count = len(state["segments"])
    free = np.bincount(segment[~used], size[~used], count)
    blocks = np.bincount(segment[used], minlength=count)
    namer = Namer()
    at_end = {address: frames for s in walk.segments for address, _, frames in s.blocks}
    found: dict[str, Counter[str]] = {}
    for address, own, of, event in zip(
        state["address"][used].astype(np.uint64).tolist(),
        size[used].tolist(),
        segment[used].tolist(),
        state["event"][used].tolist(),
        strict=True,
    ):
        if free[of] == 0:
            continue
        frames = walk.event_frames[event] if event >= 0 else at_end.get(address)
        line = namer.place(frames) or ("before the trace" if event < 0 else "a line that is not recorded")
        found.setdefault(line, Counter()).update(blocks=1, bytes=own, free=free[of] / blocks[of])
    rows = [Pinned(line, c["blocks"], c["bytes"], round(c["free"])) for line, c in found.items()]
    return tuple(sorted(rows, key=lambda row: -row.free))


__all__ = ["Pinned", "Setting", "WhatIf", "what_if"]
