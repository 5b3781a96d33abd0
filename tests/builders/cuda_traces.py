"""Programs that allocate on a device, and memory snapshots of them, as torch would have recorded them."""

from __future__ import annotations

import gzip
import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oracles.caching import MIB, Allocator, Segment

# Settings for the slow allocator, and the text of PYTORCH_ALLOC_CONF.
SETTINGS: dict[str, dict[str, Any]] = {
    "": {},
    "expandable_segments:True": {"expandable": True},
    "max_split_size_mb:32": {"split": 32 * MIB},
    "max_split_size_mb:64,max_non_split_rounding_mb:32": {"split": 64 * MIB, "rounding": 32 * MIB},
    "roundup_power2_divisions:4": {"divisions": 4},
    "large_segment_size_mb:32": {"large": 32 * MIB, "rounding": 32 * MIB},
    "max_split_size_mb:64,large_segment_size_mb:32": {"split": 64 * MIB, "large": 32 * MIB, "rounding": 32 * MIB},
    "expandable_segments:True,roundup_power2_divisions:8": {"expandable": True, "divisions": 8},
}


@dataclass(frozen=True)
class Request:
    """An allocation of so many bytes, or the free of what request `of` allocated; of -1: cached memory goes back."""

    size: int = 0
    stream: int = 0
    of: int | None = None


def program(seed: int, length: int = 150, empties: bool = True) -> list[Request]:
    """Requests of few or many sizes, small and large, on up to three streams, with steps that free all."""
    draw = random.Random(seed)
    sizes = [
        draw.choice(
            [draw.randint(1, 2000), draw.randint(1, MIB), draw.randint(MIB, 10 * MIB), draw.randint(1, 200) * MIB]
        )
        for _ in range(draw.choice([3, 8, 40]))
    ]
    streams = [0] * draw.choice([1, 2]) + [16] * (draw.random() < 0.4) + [32] * (draw.random() < 0.2)
    share = draw.choice([0.5, 0.6, 0.8])
    made: list[Request] = []
    live: list[int] = []
    while len(made) < length:
        if draw.random() < 0.01 and empties:
            made.append(Request(of=-1))
        elif not live or draw.random() < share:
            size = draw.choice(sizes)
            live.append(len(made))
            made.append(Request(max(1, int(size * draw.choice([1, 1, 1, 0.9]))), draw.choice(streams)))
        else:
            made.append(Request(of=live.pop(draw.randrange(len(live)))))
        if draw.random() < 0.02:
            draw.shuffle(live)
            made += [Request(of=row) for row in live]
            live = []
    return made


@dataclass
class Recorded:
    """What a slow allocator does with a program: a snapshot, and the most that was reserved in it."""

    snapshot: dict[str, Any]
    reserved: int


def recorded(requests: list[Request], setting: str = "", kept: float = 1.0, **more: Any) -> Recorded:
    """The snapshot of a program, of which the trace keeps the last share of the events."""
    slow = Allocator(**SETTINGS[setting], **more)
    events: list[dict[str, Any]] = []
    held: list[int] = []  # reserved before each event, and after the last
    where: dict[int, int] = {}
    for row, request in enumerate(requests):
        before, reserved = _mapped(slow.segments), slow.reserved
        own: list[dict[str, Any]] = []
        if request.of == -1:
            slow.empty()
        elif request.of is None:
            address = slow.allocate(request.size, request.stream)
            assert address is not None
            where[row] = address
            own.append(_event("alloc", address, request.size, request.stream, row))
        else:
            freed = requests[request.of]
            slow.free(where[request.of])
            own += [
                _event(action, where[request.of], freed.size, freed.stream, row)
                for action in ("free_requested", "free_completed")
            ]
        for event in [*_changes(before, _mapped(slow.segments)), *own]:
            events.append(event)
            held.append(reserved)
            reserved += {"alloc": 1, "map": 1, "free": -1, "unmap": -1}.get(
                event["action"].removeprefix("segment_") if event["action"].startswith("segment") else "", 0
            ) * event["size"]
    held.append(slow.reserved)
    cut = len(events) - int(kept * len(events))
    asked = {where[row]: r.size for row, r in enumerate(requests) if r.of is None}
    return Recorded(
        {
            "segments": [piece for segment in slow.segments for piece in _pieces(segment, asked)],
            "device_traces": [events[cut:]],
            "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": setting},
        },
        max(held[cut:]),
    )


def _event(action: str, address: int, size: int, stream: int, row: int) -> dict[str, Any]:
    frames = [{"filename": "train.py", "line": row % 7, "name": "step"}]
    return {"action": action, "addr": address, "size": size, "stream": stream, "frames": frames}


Ranges = dict[tuple[int, int, int], tuple[int, bool]]  # begin, stream, segment's begin -> bytes, whether it expands


def _mapped(segments: list[Segment]) -> Ranges:
    """Segments, and of those that expand each page."""
    found: Ranges = {}
    for segment in segments:
        if not segment.expandable:
            size = sum(block.size for block in segment.blocks)
            found[segment.begin, segment.stream, segment.begin] = size, False
            continue
        for block in segment.blocks:
            if block.state == "unmapped":
                continue
            for begin in range(block.address // (2 * MIB), -(-(block.address + block.size) // (2 * MIB))):
                found[begin * 2 * MIB, segment.stream, segment.begin] = 2 * MIB, True
    return found


def _changes(before: Ranges, after: Ranges) -> list[dict[str, Any]]:
    """The events of what went and what came; pages that hang together are one event."""
    made = []
    for gone, ranges in ((True, before.items() - after.items()), (False, after.items() - before.items())):
        joined: list[list[Any]] = []
        for (begin, stream, of), (size, pages) in sorted(ranges):
            last = joined[-1] if joined else None
            if last is not None and pages and last[3:] == [stream, of, True] and last[0] + last[1] == begin:
                last[1] += size
            else:
                joined.append([begin, size, 0, stream, of, pages])
                joined[-1][2:] = [0, stream, of, pages]
        for begin, size, _, stream, _, pages in joined:
            action = (
                ("segment_unmap" if gone else "segment_map") if pages else ("segment_free" if gone else "segment_alloc")
            )
            made.append(_event(action, begin, size, stream, 0))
    return made


def _pieces(segment: Segment, asked: dict[int, int]) -> list[dict[str, Any]]:
    """What a snapshot says of a segment: each run of mapped blocks."""
    runs: list[list[Any]] = []
    for block in segment.blocks:
        if block.state == "unmapped":
            runs.append([])
        else:
            if not runs:
                runs.append([])
            runs[-1].append(block)
    made = []
    for run in filter(None, runs):
        blocks = [
            {
                "address": block.address,
                "size": block.size,
                "requested_size": asked.get(block.address, block.size),
                "state": "active_allocated" if block.state == "used" else "inactive",
                "frames": [{"filename": "train.py", "line": 99, "name": "old"}],
            }
            for block in run
        ]
        made.append(
            {
                "device": 0,
                "address": run[0].address,
                "total_size": sum(block.size for block in run),
                "stream": segment.stream,
                "segment_type": "small" if segment.small else "large",
                "is_expandable": segment.expandable,
                "blocks": blocks,
            }
        )
    return made


def of_instance(path: Path) -> dict[str, Any]:
    """A snapshot of the instances, which have numbers alone, as torch's dict."""
    data = json.loads(gzip.decompress(path.read_bytes()))
    keys = ("action", "addr", "size", "stream")
    return {
        "segments": data["segments"],
        "device_traces": [[dict(zip(keys, row, strict=True)) for row in data["trace"]]],
        "allocator_settings": data["allocator_settings"],
    }
