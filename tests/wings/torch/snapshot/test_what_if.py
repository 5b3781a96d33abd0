"""torch's CUDA allocator: replayed to the address, and run again with other settings."""

from __future__ import annotations

import copy
import pickle
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import memplan
from builders.cuda_traces import SETTINGS, Request, of_instance, program, recorded
from builders.paths import SHARED
from memplan import _core
from memplan.cli import main
from memplan.torch.snapshot import walked_of
from memplan.torch.snapshot.replayed import Replayed
from memplan.torch.snapshot.settings import recorded_setting, settings_of
from oracles.caching import MIB, Allocator

Dict = dict[str, Any]
SNAPSHOTS = sorted((SHARED / "snapshots").glob("*.json.gz"))


def replayed(found: Any) -> memplan.torch.WhatIf:
    return memplan.torch.what_if(found.snapshot)


# The replay


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("seed", range(4))
def test_every_address_is_that_of_the_slow_allocator(setting: str, seed: int) -> None:
    found = recorded(program(seed), setting)
    replay = replayed(found).replay
    assert (replay.equal_addresses, replay.equal_segments) == (replay.allocations, replay.segments)
    assert replay.reserved == replay.recorded_reserved == found.reserved
    assert (replay.parts_at, replay.contradictions) == (-1, 0)


@pytest.mark.parametrize("setting", ["", "expandable_segments:True", "roundup_power2_divisions:4"])
@pytest.mark.parametrize("seed", range(5))
def test_a_trace_may_begin_in_the_middle(setting: str, seed: int) -> None:
    """What is not known: how far a block from before reached, if nothing was put behind it. So decisions may differ."""
    found = recorded(program(seed + 100), setting, kept=0.5)
    replay = replayed(found).replay
    assert replay.recorded_reserved == found.reserved
    assert replay.contradictions == 0
    assert replay.parts_at == -1 or replay.equal_addresses > 0.8 * replay.allocations


def test_a_block_from_before_keeps_what_was_not_worth_a_split() -> None:
    """It asked for 11 MiB of a segment of 12, and got all: the trace puts a block behind it, so this is seen."""
    begins = [
        Request(40 * MIB), Request(of=0), Request(11 * MIB + 1), Request(30 * MIB - MIB // 2), Request(of=3)
    ]  # fmt: skip
    requests = [*begins, Request(12 * MIB), Request(of=2), Request(11 * MIB)]
    found = recorded(requests, kept=0.5)
    replay = replayed(found).replay
    assert replay.equal_addresses == replay.allocations > 0


@pytest.mark.skipif(not SNAPSHOTS, reason="the snapshots lie beside the checkout")
@pytest.mark.parametrize("path", SNAPSHOTS, ids=lambda path: path.name.partition(".")[0])
def test_real_gpus_gave_these_addresses(path: Path) -> None:
    replay = memplan.torch.what_if(of_instance(path)).replay
    assert replay.equal_addresses == replay.allocations > 2000
    assert replay.equal_segments == replay.segments
    assert replay.reserved == replay.recorded_reserved
    assert (replay.parts_at, replay.contradictions) == (-1, 0)


def test_the_first_event_that_differs_is_named() -> None:
    found = recorded([Request(3 * MIB), Request(4 * MIB), Request(of=0), Request(2 * MIB)])
    events = found.snapshot["device_traces"][0]
    events[-1] = {**events[-1], "addr": events[-1]["addr"] + 8 * MIB}  # where the segment is free, too
    blocks = found.snapshot["segments"][0]["blocks"]
    blocks[0]["state"] = "inactive"
    blocks[-1] = {**blocks[-1], "address": events[-1]["addr"], "size": 2 * MIB, "state": "active_allocated"}
    w = replayed(found)
    assert (w.replay.equal_addresses, w.replay.parts_at) == (2, len(events) - 1)
    assert "a block of 2097152 bytes lies at" in w.replay.parts_because
    assert any(note.startswith(f"the replay parts from the trace at event {len(events) - 1}") for note in w.notes)


def test_a_snapshot_that_contradicts_itself_is_said_to() -> None:
    found = recorded([Request(3 * MIB), Request(4 * MIB)])
    segment = found.snapshot["segments"][0]
    segment["blocks"].append({"address": segment["address"] + 2**30, "size": MIB, "state": "active_allocated"})
    w = replayed(found)
    assert w.replay.contradictions == 1
    assert "lies in no segment" in w.replay.contradiction
    assert any("the snapshot contradicts itself 1 times" in note for note in w.notes)


def test_blocks_of_other_streams_are_free_when_their_events_are() -> None:
    """Between request and completion, nothing takes the bytes."""
    events = [
        {"action": "segment_alloc", "addr": 2**40, "size": 20 * MIB, "stream": 0},
        {"action": "alloc", "addr": 2**40, "size": 2 * MIB, "stream": 0},
        {"action": "free_requested", "addr": 2**40, "size": 2 * MIB, "stream": 0},
        {"action": "alloc", "addr": 2**40 + 2 * MIB, "size": 2 * MIB, "stream": 0},
        {"action": "free_completed", "addr": 2**40, "size": 2 * MIB, "stream": 0},
        {"action": "alloc", "addr": 2**40, "size": 2 * MIB, "stream": 0},
    ]
    blocks = [{"size": 2 * MIB, "state": "active_allocated"}] * 2 + [{"size": 16 * MIB, "state": "inactive"}]
    segment = {"address": 2**40, "total_size": 20 * MIB, "stream": 0, "segment_type": "large", "blocks": blocks}
    replay = memplan.torch.what_if({"segments": [segment], "device_traces": [events]}).replay
    assert (replay.equal_addresses, replay.contradictions) == (3, 0)


TIES = ("segment", "block", "address")


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("seed", range(4))
def test_versions_of_torch_take_other_ones_of_equal_free_blocks(ties: str, seed: int) -> None:
    """Where addresses fall, the lowest block is not the oldest."""
    setting = list(SETTINGS)[seed % 3]
    replay = replayed(recorded(program(seed + 30, 300), setting, ties=ties, downwards=True)).replay
    assert (replay.equal_addresses, replay.equal_segments) == (replay.allocations, replay.segments)
    assert replay.parts_at == -1


@pytest.mark.parametrize(("ties", "downwards"), [("segment", True), ("block", False), ("address", True)])
def test_which_of_equal_free_blocks_torch_took_is_found(ties: str, downwards: bool) -> None:
    """The block of the first segment is split again, so it is the younger one; where addresses fall, the higher one."""
    size = 28 * MIB + MIB // 2
    requests = [Request(size), Request(size), Request(of=0), Request(size), Request(of=3), Request(of=1), Request(size)]
    _, _, (walk,) = walked_of(recorded(requests, ties=ties, downwards=downwards).snapshot)
    found = Replayed.of(walk, "")
    assert (found.ties, found.exact.parts_at) == (ties, -1)


# Other settings


@pytest.mark.few(3)
@pytest.mark.parametrize("recorded_with", ["", "expandable_segments:True"])
@pytest.mark.parametrize("seed", range(4))
def test_rows_are_what_the_slow_allocator_reserves(recorded_with: str, seed: int) -> None:
    requests = program(seed + 50, empties=False)
    w = memplan.torch.what_if(recorded(requests, recorded_with).snapshot, settings=SETTINGS)
    rows = {row.setting: row.reserved for row in w.rows}
    assert w.rows[0].setting == recorded_with
    for setting in SETTINGS:
        assert rows[setting] == recorded(requests, setting).reserved, setting


@pytest.mark.parametrize("expandable", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_a_capacity_fits_what_the_slow_allocator_fits(expandable: bool, seed: int) -> None:
    requests = program(seed + 70, empties=False)
    setting = "expandable_segments:True" if expandable else ""
    found = recorded(requests, setting)
    for share in (0.7, 0.9, 1.0):
        capacity = int(share * found.reserved)
        slow = Allocator(capacity=capacity, **SETTINGS[setting])
        where: dict[int, int] = {}
        fits = True
        for row, request in enumerate(requests):
            if request.of is None:
                address = slow.allocate(request.size, request.stream)
                fits = fits and address is not None
                if not fits:
                    break
                where[row] = address or 0
            else:
                slow.free(where[request.of])
        w = memplan.torch.what_if(found.snapshot, capacity)
        assert w.rows[0].fits == fits, share


def test_the_best_setting_is_the_shortest_of_the_best() -> None:
    """Eleven sizes that grow leave gaps which only segments that grow fill."""
    requests: list[Request] = []
    for step in range(11):
        requests += [Request((40 + 3 * step) * MIB), Request(of=2 * step)]
    w = memplan.torch.what_if(recorded(requests).snapshot, "100MiB")
    assert w.best.setting == "expandable_segments:True"
    assert w.best.reserved == 80 * MIB
    assert w.rows[0].reserved > 600 * MIB
    assert {row.setting: row.fits for row in w.rows}[""] is True  # cached segments go back
    assert "export PYTORCH_ALLOC_CONF=expandable_segments:True" in str(w)


def test_a_snapshot_of_memory_that_ran_out_says_what_there_was() -> None:
    found = recorded([Request(30 * MIB), Request(40 * MIB)])
    events = found.snapshot["device_traces"][0]
    events.append({"action": "oom", "device_free": 10 * MIB, "size": 20 * MIB, "stream": 0})
    w = replayed(found)
    assert w.capacity == 80 * MIB
    assert w.rows[0].fits is False
    assert memplan.torch.what_if(found.snapshot, "90MiB").rows[0].fits is True


def test_lines_that_keep_free_bytes_are_found() -> None:
    events = recorded([Request(3 * MIB), Request(5 * MIB), Request(of=0)]).snapshot
    w = memplan.torch.what_if(events)
    found = {(pin.line, pin.blocks, pin.bytes, pin.free) for pin in w.pinned}
    assert found == {(f"train.py:{k}:step", 1, size * MIB, 6 * MIB) for k, size in ((0, 3), (1, 5))}


@pytest.mark.parametrize(
    ("text", "size", "rounded"),
    [
        ("", 1, 512),
        ("", 513, 1024),
        ("roundup_power2_divisions:4", 1200 * 1024, 1280 * 1024),
        ("roundup_power2_divisions:[256:1,512:2,>:8]", 3 * MIB - 1, 3 * MIB),
        ("roundup_power2_divisions:[1:2,2:0,>:4]", 1200 * 1024, 1536 * 1024),
    ],
)
def test_settings_round_sizes(text: str, size: int, rounded: int) -> None:
    assert settings_of(text).rounded(size) == rounded


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("max_split_size_mb", "expected settings of the allocator"),
        ("max_split_size_mb:3", "an integer of at least 20, got '3'"),
        ("expandable_segments:yes", "expected True or False, got 'yes'"),
        ("garbage_collection_threshold:2", "a number above 0 and up to 1, got '2'"),
        ("roundup_power2_divisions:3", "a power of two, got '3'"),
        ("roundup_power2_divisions:[512:x]", "a power of two, got 'x'"),
    ],
)
def test_settings_that_torch_would_refuse(text: str, says: str) -> None:
    with pytest.raises(memplan.errors.SourceError, match=says):
        settings_of(text)


def test_settings_of_a_snapshot() -> None:
    old = {"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": 64 * MIB, "expandable_segments": True}
    assert recorded_setting(old) == "max_split_size_mb:64,expandable_segments:True"
    assert recorded_setting({"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:32"}) == "max_split_size_mb:32"
    assert recorded_setting(None) == recorded_setting({"max_split_size": -1}) == ""


def test_blocks_that_are_not_split_may_waste_a_large_segment() -> None:
    text = "max_split_size_mb:64,large_segment_size_mb:32"
    rows, size = np.array([0, -1, 2]), np.array([100 * MIB, 0, 70 * MIB])
    settings = (settings_of(text), settings_of(text + ",max_non_split_rounding_mb:20"))
    assert [_core.reserve(rows, size, one).reserved for one in settings] == [100 * MIB, 170 * MIB]


@pytest.mark.parametrize("seed", range(25))
def test_random_requests_reserve_what_the_slow_allocator_does(seed: int) -> None:
    """All settings at once: a limit, garbage collection, a capacity."""
    draw = random.Random(seed)
    requests = [Request(r.size, 0, r.of) for r in program(seed, 250, empties=False)]
    text = draw.choice(list(SETTINGS))
    capacity = draw.randint(1, 40) * 40 * MIB
    more: Dict = {"capacity": capacity} if draw.random() < 0.7 else {}
    if more and draw.random() < 0.7:
        more["limit"] = int(draw.choice([0.5, 0.8]) * capacity)
    ties = draw.choice(TIES)
    slow = Allocator(**SETTINGS[text], **more, ties=ties)
    if "limit" in more and draw.random() < 0.7:
        slow.garbage = 0.5
        text += ",garbage_collection_threshold:0.5" if text else "garbage_collection_threshold:0.5"
    where: dict[int, int | None] = {}
    reserved = []
    for row, request in enumerate(requests):
        if request.of is None:
            where[row] = slow.allocate(request.size, 0)
        elif (address := where[request.of]) is not None:
            slow.free(address)
        reserved.append(slow.reserved)
    rows = np.array([row if r.of is None else -r.of - 1 for row, r in enumerate(requests)])
    size = np.array([r.size for r in requests])
    run = _core.reserve(rows, size, settings_of(text, **more, ties=ties))
    assert run.reserved_after.tolist() == reserved
    assert run.reserved == max(reserved)


# Bad input


@pytest.mark.parametrize("seed", range(30))
def test_mutated_snapshots_give_clear_errors_or_figures(seed: int) -> None:
    draw = random.Random(seed)
    data = copy.deepcopy(recorded(program(seed, 40), draw.choice(list(SETTINGS))).snapshot)
    bad = [
        None,
        -1,
        0,
        2**61,
        2**63,
        2**64 - 1,
        "x",
        1.5,
        [],
        {},
        True,
        "alloc",
        "segment_free",
        "oom",
        "segment_unmap",
    ]
    for _ in range(draw.choice([1, 3, 30])):
        place: Any = data
        while isinstance(place, (dict, list)) and place:
            key = draw.choice(list(place)) if isinstance(place, dict) else draw.randrange(len(place))
            if draw.random() < 0.2 or not isinstance(place[key], (dict, list)) or not place[key]:
                place[key] = draw.choice(bad)
                break
            place = place[key]
    try:
        w = memplan.torch.what_if(data, settings=("expandable_segments:True",))
    except memplan.errors.SourceError as error:
        assert str(error)  # noqa: PT017
    else:
        assert w.replay.reserved >= 0
        assert str(w)


def test_a_graph_is_no_snapshot(tmp_path: Path) -> None:
    with pytest.raises(memplan.errors.SourceError, match="got segments without events"):
        memplan.torch.what_if({"segments": [], "device_traces": [[]]})
    with pytest.raises(TypeError, match="got int"):
        memplan.torch.what_if(3)  # type: ignore[arg-type]


# The command


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps(recorded(program(3)).snapshot))
    picture = tmp_path / "reserved.png"
    assert main(["what-if", str(path), "--capacity", "64GiB", "--plot", str(picture)]) == 0
    said = capsys.readouterr().out
    assert "torch's defaults (of the snapshot)" in said
    assert "fits 64.00 GiB" in said
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert main(["what-if", str(path), "--capacity", "1MiB"]) == 1
    graph = tmp_path / "graph.json"
    graph.write_text("{}")
    assert main(["what-if", str(graph)]) == 2
    assert "expected a memory snapshot of torch" in capsys.readouterr().err
