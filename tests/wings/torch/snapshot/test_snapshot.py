"""Memory snapshots of torch: blocks with their lives, names from stacks, and what fragmentation costs."""

from __future__ import annotations

import io
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import memplan
from builders.strategies import BOUNDED, columns, shaped_problems
from memplan.cli import main
from memplan.export.memory_viz import memory_snapshot
from memplan.torch.snapshot.unpickling import unpickled

Dict = dict[str, Any]
USER = {"filename": "/home/me/train.py", "line": 30, "name": "step"}
TORCH = {"filename": "/lib/python3/site-packages/torch/nn/modules/linear.py", "line": 134, "name": "forward"}
NATIVE = {"filename": "??", "line": 0, "name": "torch::unwind::unwind()"}


def event(action: str, addr: int, size: int = 512, frames: Any = (), **more: Any) -> Dict:
    return {"action": action, "addr": addr, "size": size, "stream": 0, "time_us": 0, "frames": list(frames), **more}


def alloc(addr: int, size: int = 512, frames: Any = (), **more: Any) -> Dict:
    return event("alloc", addr, size, frames, **more)


def free(addr: int, size: int = 512, **more: Any) -> list[Dict]:
    return [event(action, addr, size, **more) for action in ("free_requested", "free_completed")]


def block(size: int, state: str = "active_allocated", asked: int | None = None, **more: Any) -> Dict:
    return {"size": size, "requested_size": size if asked is None else asked, "state": state, "frames": [], **more}


def segment(address: int, *blocks: Dict, stream: int = 0, pool: tuple[int, int] = (0, 0), device: int = 0) -> Dict:
    made, at = [], address
    for entry in blocks:
        made.append({"address": at, **entry})
        at += entry["size"]
    return {
        "device": device,
        "address": address,
        "total_size": at - address,
        "allocated_size": sum(entry["size"] for entry in made if entry.get("state") == "active_allocated"),
        "stream": stream,
        "segment_type": "large",
        "segment_pool_id": pool,
        "blocks": made,
    }


def snapshot(events: list[Dict], *segments: Dict) -> Dict:
    return {
        "segments": list(segments),
        "device_traces": [events],
        "external_annotations": [],
        "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "", "expandable_segments": False},
    }


def lives(problem: memplan.Problem) -> dict[str, tuple[int, int, int]]:
    rows = zip(problem.names, problem.size.tolist(), problem.first.tolist(), problem.last.tolist(), strict=True)
    return {name: (size, first, last) for name, size, first, last in rows}


def named(name: str) -> list[Dict]:
    return [{"filename": f"/home/me/{name}.py", "line": 1, "name": "f"}]


# Lives


def test_a_block_lives_from_its_allocation_to_the_end_of_its_free() -> None:
    events = [
        alloc(0, 100, named("a")),
        alloc(512, 1000, named("b")),
        *free(0),
        alloc(2048, 512, named("c")),
        alloc(0, 512, named("d")),
        *free(512),
    ]
    found = memplan.torch.read_snapshot(snapshot(events, segment(0, block(512), block(1536, "inactive"), block(512))))
    assert lives(found.problem()) == {
        "a.py:1:f": (512, 0, 2),
        "b.py:1:f": (1024, 1, 4),
        "c.py:1:f": (512, 2, 4),
        "d.py:1:f": (512, 3, 4),
    }
    assert (found.reserved, found.allocated, found.requested) == (2560, 2048, 2024)
    assert found.notes == ()


def test_a_free_that_waits_for_another_stream_completes_later() -> None:
    """Its bytes are another's only then."""
    events = [
        alloc(0, frames=named("a")),
        event("free_requested", 0),
        alloc(512, frames=named("b")),
        event("free_completed", 0),
        alloc(0, frames=named("c")),
        event("free_requested", 0),
    ]
    found = memplan.torch.read_snapshot(
        snapshot(events, segment(0, block(512, "active_awaiting_free"), block(512)))
    ).problem()
    assert lives(found) == {"a.py:1:f": (512, 0, 2), "b.py:1:f": (512, 1, 3), "c.py:1:f": (512, 2, 3)}


def test_blocks_from_before_the_trace_live_from_its_beginning() -> None:
    """One is freed in the trace, one stays; both hold their bytes until then."""
    events = [*free(512, 300), alloc(1024, 512, named("a")), *free(1024)]
    stays = segment(0, block(512, asked=500, frames=[USER]), block(1536, "inactive"))
    found = memplan.torch.read_snapshot(snapshot(events, stays))
    assert lives(found.problem()) == {
        "before": (512, 0, 1),
        "a.py:1:f": (512, 1, 2),
        "train.py:30:step": (512, 0, 2),
    }
    assert found.notes == (
        "device 0: 2 blocks (800 bytes) lived before the trace begins: they live from its first step",
    )


def test_blocks_that_came_after_the_trace_are_left_out() -> None:
    """Recording had been turned off: what lies where the trace put others cannot have stood throughout."""
    events = [alloc(0, 1024, named("a")), *free(0, 1024), alloc(4096, frames=named("b"))]
    found = memplan.torch.read_snapshot(snapshot(events, segment(0, block(512, "inactive"), block(512), block(512))))
    assert sorted(lives(found.problem())) == ["a.py:1:f", "b.py:1:f", "before"]  # the last block stood where none was
    assert "device 0: 1 blocks came after the end of the trace: they are left out" in found.notes


def test_a_trace_without_completed_frees_ends_blocks_where_they_were_requested() -> None:
    events = [alloc(0, frames=named("a")), event("free_requested", 0), alloc(0, frames=named("b")), alloc(512)]
    events += [event("free_requested", 0), alloc(1024)]
    found = memplan.torch.read_snapshot(snapshot(events))
    assert [life[1:] for life in lives(found.problem()).values()] == [(0, 1), (1, 3), (2, 4), (3, 4)]
    assert found.notes == ("device 0: the trace has no free_completed: blocks end where their free was requested",)


def test_an_address_that_is_given_out_again_ends_the_block_before() -> None:
    found = memplan.torch.read_snapshot(
        snapshot([alloc(0, frames=named("a")), alloc(512), alloc(0, frames=named("b"))])
    )
    assert lives(found.problem())["a.py:1:f"] == (512, 0, 2)
    assert found.notes == (
        "device 0: 1 frees are not in the trace: such a block ends where its address is given out again",
    )


def test_other_events_change_nothing() -> None:
    events = [event("snapshot", 0), alloc(0), event("of the future", 7), {"action": "oom", "size": 9, "device_free": 1}]
    found = memplan.torch.read_snapshot(snapshot(events))
    assert len(found.problem()) == 1
    assert found.notes == ("device 0: memory ran out 1 times",)


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[int, int]]:
    """Allocations and frees of a program: (block, size) for a birth, (block, 0) for a death."""
    history: list[tuple[int, int]] = []
    alive: list[int] = []
    for b in range(draw(st.integers(1, 12))):
        history.append((b, draw(st.integers(1, 2000))))
        alive.append(b)
        while alive and draw(st.booleans()):
            history.append((alive.pop(draw(st.integers(0, len(alive) - 1))), 0))
    return history


@given(histories(), st.data())
@BOUNDED
def test_whatever_a_trace_has_lost_of_its_beginning_who_meets_whom_stays(
    history: list[tuple[int, int]], data: st.DataObject
) -> None:
    """A ring buffer keeps the last events. Blocks are alive together where they were; before it, all of them are."""
    cut = data.draw(st.integers(0, len(history) - 1))
    sizes = {b: size for b, size in history if size}
    events: list[Dict] = []
    for b, size in history[cut:]:  # every block at an address of its own
        events += [alloc(b * 4096, size, named(f"b{b}"))] if size else free(b * 4096, sizes[b])
    alive: set[int] = set()
    together: set[frozenset[int]] = set()
    most = 0
    for i, (b, size) in enumerate(history):
        alive = alive | {b} if size else alive - {b}
        if i >= cut - 1:
            together |= {frozenset({a, c}) for a in alive for c in alive}
            most = max(most, sum(-(-sizes[a] // 512) * 512 for a in alive))
    if cut == 0:
        born = set(sizes)
    else:
        born = {b for pair in together for b in pair}
    left = [segment(b * 4096, block(4096, asked=sizes[b])) for b in sorted(alive)]
    found = memplan.torch.read_snapshot(snapshot(events, *left))
    assert found.allocated == most
    problem = found.problem()
    assert len(problem) == len(born)
    meets = np.maximum.outer(problem.first, problem.first) < np.minimum.outer(problem.last, problem.last)
    assert meets.sum() == sum(len(pair) for pair in together)  # a pair twice, a block with itself once
    assert memplan.plan(problem, "first_fit").peak >= most


@given(columns())
@BOUNDED
def test_a_plan_written_as_a_snapshot_comes_back(case: Any) -> None:
    check_round_trip(memplan.plan(memplan.Problem(*case), "first_fit"))


@given(shaped_problems())
@BOUNDED
def test_parts_come_back_as_blocks(case: Any) -> None:
    given_columns, parts, _ = case
    check_round_trip(memplan.plan(memplan.Problem(*given_columns, parts=parts or None), "first_fit"))


def check_round_trip(plan: memplan.Plan) -> None:
    made = memory_snapshot(plan)
    if not plan.peak:
        return
    found = memplan.torch.read_snapshot(made)
    back = found.problem(alignment=1)
    assert (found.reserved, back.load) == (plan.peak, plan.problem.load)
    assert int(back.size.sum()) == sum(e["size"] for e in made["device_traces"][0] if e["action"] == "alloc")
    assert found.notes == ()


def test_a_file_of_an_export_is_planned(tmp_path: Path) -> None:
    plan = memplan.plan("example:resnet50_infer", alignment=512)
    for name in ("plan.pickle", "plan.pkl"):
        plan.to_memory_viz(tmp_path / name)
        again = memplan.plan(tmp_path / name)
        assert (len(again), again.peak) == ((plan.problem.size > 0).sum(), plan.peak)
    assert all(name.split(",")[0] in plan for name in again.problem.names)  # names of the stacks


# Reserved bytes, streams, pools and devices


def test_what_was_reserved_at_most_follows_from_its_end() -> None:
    events = [
        event("segment_alloc", 0, 2**20),
        alloc(0),
        event("segment_map", 2**21, 2**22),
        event("segment_unmap", 2**21, 2**22),
        event("segment_free", 0, 2**20),
        event("segment_alloc", 2**30, 2**21),
    ]
    found = memplan.torch.read_snapshot(
        snapshot(events, segment(2**30, block(2**21, "inactive")), segment(2**31, block(512)))
    )
    assert found.reserved == 2**20 + 2**22 + 512  # the last segment was there before the trace


TWO_STREAMS = snapshot(
    [
        alloc(0, 1024, named("a")),
        alloc(2**20, 1024, named("b"), stream=7),
        *free(0, 1024),
        alloc(2**20 + 1024, 512, named("c"), stream=7),
        alloc(2**21, 512, named("d"), pool_id=(0, 1)),
        *free(2**20, 1024, stream=7),
        alloc(2**22, 512, named("e")),
    ],
    segment(0, block(2048, "inactive")),
    segment(2**20, block(1024, "inactive"), block(512), block(512, "inactive"), stream=7),
    segment(2**21, block(512), pool=(0, 1)),
    segment(2**22, block(512), pool=(0, 1)),
)


def test_no_bytes_pass_from_a_stream_or_pool_to_another() -> None:
    found = memplan.torch.read_snapshot(TWO_STREAMS)
    plan = memplan.plan(found)
    where = {name: range(plan[name].offset, plan[name].end) for name in plan.problem.names}
    pools = {"a": 0, "b": 1, "c": 1, "d": 2, "e": 2}  # e has its pool from its segment
    for one, of in pools.items():
        for other, its in pools.items():
            if of != its:
                a, b = where[f"{one}.py:1:f"], where[f"{other}.py:1:f"]
                assert max(a.start, b.start) >= min(a.stop, b.stop)
    assert plan.peak == 1024 + 1536 + 1024
    report = found.report(plan)
    assert [(p.stream, p.pool, p.blocks, p.reserved, p.allocated, p.planned) for p in report.pools] == [
        (0, (0, 0), 1, 2048, 1024, 1024),
        (7, (0, 0), 2, 2048, 1536, 1536),
        (0, (0, 1), 2, 1024, 1024, 1024),
    ]
    assert (report.reserved, report.planned, report.lost) == (5120, 3584, 1536)
    assert "device 0, stream 0x7" in str(report)
    assert "pool (0, 1)" in str(report)


def test_a_stream_or_a_pool_is_planned_alone() -> None:
    found = memplan.torch.read_snapshot(TWO_STREAMS)
    assert sorted(lives(found.problem(stream=7))) == ["b.py:1:f", "c.py:1:f"]
    assert sorted(lives(found.problem(pool=(0, 1)))) == ["d.py:1:f", "e.py:1:f"]
    assert sorted(lives(found.problem(stream=0, pool=(0, 0)))) == ["a.py:1:f"]
    report = found.report(memplan.plan(found.problem(stream=7)))
    assert (report.reserved, report.allocated, report.planned) == (2048, 1536, 1536)
    with pytest.raises(
        memplan.errors.SourceError, match="no blocks of device None, stream 9, pool None; it has device 0,"
    ):
        found.problem(stream=9)


def test_too_many_blocks_of_several_streams_ask_for_a_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memplan.torch.snapshot.recorded._MOST_PAIRS", 3)
    found = memplan.torch.read_snapshot(TWO_STREAMS)
    with pytest.raises(
        memplan.errors.SourceError, match=r"5 blocks of several streams or pools are too many for one plan"
    ):
        found.problem()
    assert len(found.problem(stream=7)) == 2


def test_devices_are_apart() -> None:
    data = snapshot([alloc(0)], segment(0, block(512)), segment(0, block(1024), device=1))
    data["device_traces"].append([alloc(0, 1024), *free(0, 1024)])
    found = memplan.torch.read_snapshot(data)
    assert (found.devices, found.reserved, found.allocated) == ((0, 1), 1536, 1536)
    assert found.problem(device=1).size.tolist() == [1024]
    with pytest.raises(memplan.errors.SourceError, match=r"blocks of several devices; choose with .*device=\.\.\."):
        found.problem()
    data["device_traces"] = [[], [alloc(0)], []]  # a process per device records all, and uses one
    assert len(memplan.torch.read_snapshot({**data, "segments": []}).problem()) == 1


def test_every_door_takes_a_choice_of_blocks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = pickled(TWO_STREAMS, tmp_path / "s.pickle")
    assert memplan.plan(path, blocks={"stream": 7}).peak == 1536
    assert (
        memplan.plan(memplan.torch.read_snapshot(path), blocks={"pool": (0, 1)}).problem
        == memplan.plan(memplan.torch.read_snapshot(path).problem(pool=(0, 1))).problem
    )
    data = snapshot([alloc(0)], segment(0, block(512)))
    data["device_traces"].append([alloc(0, 1024), *free(0, 1024)])
    several = pickled(data, tmp_path / "several.pickle")
    assert main(["plan", str(several)]) == 2
    assert "--blocks device=N" in capsys.readouterr().err
    for command in ("plan", "explain", "compare"):
        more = ["--planners", "first_fit"] if command == "compare" else []
        assert main([command, str(several), "--blocks", "device=1", *more]) == 0
        assert "1.00 KiB" in capsys.readouterr().out
    assert main(["plan", str(path), "--blocks", "pool=0:1"]) == 0
    assert main(["plan", str(several), "--blocks", "device=2"]) == 2
    assert "no blocks of device 2" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("blocks", "error", "message"),
    [
        ({"devise": 1}, ValueError, "blocks may have device, stream, pool, got 'devise'"),
        ({"device": "1"}, TypeError, "blocks['device'] must be an integer, got '1'"),
        ({"device": -1}, ValueError, "blocks['device'] must be >= 0"),
        ({"pool": 1}, TypeError, "blocks['pool'] must be a pair of integers, such as (0, 1), got 1"),
        ([1], TypeError, "blocks must be by name"),
    ],
)
def test_a_wrong_choice_of_blocks_is_refused(blocks: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        memplan.plan(memplan.torch.read_snapshot(TWO_STREAMS), blocks=blocks)


@pytest.mark.parametrize("text", ["device", "device=x", "pool=1", "device=1:2"])
def test_a_choice_of_blocks_is_read(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["plan", str(pickled(TWO_STREAMS, tmp_path / "s.pickle")), "--blocks", text])
    assert "takes device=N, stream=N, pool=N:M" in capsys.readouterr().err


def test_only_snapshots_have_blocks_to_choose() -> None:
    with pytest.raises(TypeError, match="option blocks does not apply to a source of kind arrays"):
        memplan.plan(([4], [0], [1]), blocks={"device": 0})


def test_the_report_of_a_plan_of_something_else_is_refused() -> None:
    found = memplan.torch.read_snapshot(TWO_STREAMS)
    with pytest.raises(ValueError, match="this one has the buffer 'x', which is not in it"):
        found.report(memplan.plan(memplan.Problem([4], [0], [1], names=["x"])))
    with pytest.raises(ValueError, match="this one has no names"):
        found.report(memplan.plan(([4], [0], [1])))


# Names


@pytest.mark.parametrize(
    ("frames", "name"),
    [
        ([NATIVE, TORCH, USER, {**USER, "line": 99}], "train.py:30:step"),
        ([{**USER, "filename": "C:\\me\\train.py"}], "train.py:30:step"),
        ([{**USER, "filename": "/src/torch/nn/functional.py"}, {**USER, "filename": "<stdin>"}], "<stdin>:30:step"),
        ([{**USER, "filename": "/home/me/torch/model.py"}], "model.py:30:step"),  # a folder of the user
        ([NATIVE, TORCH], "linear.py:134:forward"),
        ([{**NATIVE, "name": "at::_ops::mm::call(at::Tensor const&)"}], "mm"),
        (
            [{**NATIVE, "name": "at::_ops::mm::call"}, {**NATIVE, "name": "x::AddmmBackward0::apply(v&&)"}],
            "AddmmBackward0",
        ),
        ([NATIVE], "block"),
        ([], "block"),
        (None, "block"),
        ("?", "block"),
        ([7, {"filename": 3}], "block"),
        ([{"filename": "none", "line": 0, "name": "nn.Module: Linear_0"}], "nn.Module: Linear_0"),
    ],
)
def test_a_block_is_named_by_the_innermost_frame_of_user_code(frames: Any, name: str) -> None:
    entry = {**alloc(0), "frames": frames}
    assert memplan.torch.read_snapshot(snapshot([entry])).problem().names == [name]


def test_names_are_unique() -> None:
    frames = [USER]
    taken = [{**USER, "name": "step#2"}]
    events = [alloc(0, frames=taken), alloc(512, frames=frames), alloc(1024, frames=frames), alloc(1536, frames=frames)]
    names = memplan.torch.read_snapshot(snapshot(events)).problem().names
    assert names[:2] == ["train.py:30:step#2", "train.py:30:step"]
    assert len(set(names)) == 4


# Files of others


def pickled(data: Any, path: Path) -> Path:
    path.write_bytes(pickle.dumps(data))
    return path


class Runs:
    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (Path("ran"),))


def test_nothing_of_a_file_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = pickled({"segments": [], "device_traces": [[Runs()]]}, tmp_path / "s.pickle")
    with pytest.raises(memplan.errors.SourceError, match=r"s\.pickle: expected a memory snapshot, .* plain data only"):
        memplan.torch.read_snapshot(path)
    assert not (tmp_path / "ran").exists()
    pickle.loads(path.read_bytes())
    assert (tmp_path / "ran").exists()  # it would have


def test_an_object_outside_of_the_file_is_refused(tmp_path: Path) -> None:
    class Outside(pickle.Pickler):
        def persistent_id(self, obj: Any) -> Any:
            return 1 if obj == "x" else None

    made = io.BytesIO()
    Outside(made).dump(["x"])
    (tmp_path / "s.pickle").write_bytes(made.getvalue())
    with pytest.raises(memplan.errors.SourceError, match="an object outside of the file, and may hold plain data only"):
        memplan.torch.read_snapshot(tmp_path / "s.pickle")


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"not a pickle",
        b"\x80\x04",
        pickle.dumps(snapshot([alloc(0)]))[:-20],
        b"cos\nsystem\n(S'true'\ntR.",
        b"\x80\x02\x82\x01.",  # an extension
        b"(i__builtin__\neval\n.",
        b"\x80\x04]\x94h\x07.",
    ],
)
def test_what_is_no_pickle_of_plain_data_is_refused(text: bytes, tmp_path: Path) -> None:
    (tmp_path / "s.pickle").write_bytes(text)
    with pytest.raises(memplan.errors.SourceError, match=r"s\.pickle: expected a memory snapshot, .*, as a pickle: "):
        memplan.plan(tmp_path / "s.pickle")


@pytest.mark.parametrize(
    "text",
    [
        b"\x80\x04}r\xff\xff\xff\x0f.",  # notes a dict at place 268,435,455 of the table
        b"}p268435455\n.",
        b"}" + b"\x95" + bytes(8) + b"\x8c\x01ar\xff\xff\xff\x0f.",
        b"\x8e" + (2**32).to_bytes(8, "little") + b"x.",
        b"\x96" + (2**32).to_bytes(8, "little") + b"x.",
    ],
)
def test_a_pickle_takes_memory_in_proportion_to_its_file(text: bytes, tmp_path: Path) -> None:
    (tmp_path / "s.pickle").write_bytes(text)
    with pytest.raises(
        memplan.errors.SourceError, match=r"as a pickle: byte \d+ asks for \d+ bytes or objects, of \d+ bytes"
    ):
        memplan.torch.read_snapshot(tmp_path / "s.pickle")


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickles_of_every_protocol_are_read(protocol: int, tmp_path: Path) -> None:
    events = [alloc(512 * i) for i in range(300)]  # more places than one byte counts
    data = snapshot(events) | {"text": "\u00e9\n" * 99, "bytes": b"x" * 300, "numbers": [0, -1, 2**70, 1.5, None, True]}
    (tmp_path / "s.pickle").write_bytes(pickle.dumps(data, protocol=protocol))
    if protocol < 3:  # these write bytes as a call
        del data["bytes"]
        (tmp_path / "s.pickle").write_bytes(pickle.dumps(data, protocol=protocol))
    assert unpickled(tmp_path / "s.pickle", "") == data


def test_a_missing_file_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        memplan.torch.read_snapshot(tmp_path / "s.pickle")
    with pytest.raises(IsADirectoryError):
        memplan.torch.read_snapshot(tmp_path)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([segment(0, block(512))], "segments alone, as memory_snapshot() gives them"),
        ([1], "with segments and device_traces as torch.cuda.memory._snapshot() gives, got list"),
        ({}, "got the keys of an empty dict"),
        ({"segments": []}, "got the keys 'segments'"),
        ({"segments": [], "device_traces": {}}, "got 'device_traces' of dict"),
        ({"segments": [], "device_traces": [7]}, "device_traces[0]: expected a list of events, got int"),
        ({"segments": [7], "device_traces": []}, "segments[0]: expected a dict, got int"),
        (snapshot([], {"address": 0, "total_size": 1}), "segments[0].blocks: expected a list, got NoneType"),
        (snapshot([], {"address": 0, "blocks": [], "stream": 0}), "segments[0]: expected 'total_size', an integer"),
        (snapshot([], {**segment(0), "stream": "x"}), "segments[0]: expected 'stream', an integer, got 'x'"),
        (snapshot([], {**segment(0), "segment_pool_id": (1,)}), "expected 'segment_pool_id', two integers, got (1,)"),
        (snapshot([], segment(0, {"size": 1})), "segments[0].blocks[0]: expected a dict with size and state, got {"),
        (snapshot([alloc(0), 7]), "device_traces[0][1]: expected an event, a dict with action, got 7"),  # type: ignore[list-item]
        (snapshot([{"size": 1}]), "device_traces[0][0]: expected an event, a dict with action, got {'size': 1}"),
        (snapshot([{"action": []}]), "device_traces[0][0]: expected an event, a dict with action"),
        (snapshot([{"action": "alloc", "size": 1}]), "device_traces[0][0]: expected 'addr', an address, got nothing"),
        (snapshot([alloc(2**64)]), "device_traces[0][0]: expected 'addr', an address, got 18446744073709551616"),
        (snapshot([alloc(0, -1)]), "device_traces[0][0]: expected 'size', an integer >= 0 and below 2^62, got -1"),
        (snapshot([alloc(0, True)]), "expected 'size', an integer >= 0 and below 2^62, got True"),
        (snapshot([alloc(0, stream=None)]), "device_traces[0][0]: expected 'stream', an integer, got nothing"),
    ],
)
def test_what_is_wrong_with_a_snapshot_is_named(data: Any, message: str, tmp_path: Path) -> None:
    path = pickled(data, tmp_path / "s.pickle")
    with pytest.raises(memplan.errors.SourceError, match=re.escape(message)) as caught:
        memplan.torch.read_snapshot(path)
    assert str(caught.value).startswith(str(path))


def test_what_is_no_snapshot_is_named() -> None:
    with pytest.raises(memplan.errors.SourceError, match=r"snapshot: expected .*, got segments alone"):
        memplan.torch.read_snapshot([segment(0, block(512))])  # type: ignore[arg-type]
    for source in (7, None, ("a", "b")):
        with pytest.raises(
            TypeError, match=rf"source must be a path or a memory snapshot.*, got {type(source).__name__}"
        ):
            memplan.torch.read_snapshot(source)  # type: ignore[arg-type]


def test_what_is_wrong_is_shown_in_short(tmp_path: Path) -> None:
    bomb: Any = []
    for _ in range(60):
        bomb = [bomb, bomb]
    with pytest.raises(memplan.errors.SourceError) as caught:
        memplan.torch.read_snapshot(pickled({"segments": [], "device_traces": [[bomb]]}, tmp_path / "s.pickle"))
    assert len(str(caught.value)) < 1000


def test_segments_without_a_trace_show_what_was_reserved() -> None:
    found = memplan.torch.read_snapshot(snapshot([], segment(0, block(512), block(512, "inactive"))))
    assert found.reserved == 1024
    assert memplan.torch.read_snapshot(snapshot([])).pools == ()
    with pytest.raises(memplan.errors.SourceError, match=r"expected a trace of allocations, .*enabled='all'"):
        found.problem()


def test_addresses_may_be_high_or_negative() -> None:
    top = 2**64 - 2**20
    events = [alloc(top - 2**64, frames=named("a")), *free(top), alloc(top, frames=named("b"))]
    found = memplan.torch.read_snapshot(snapshot(events, segment(top, block(512), block(512)))).problem()
    assert lives(found) == {"a.py:1:f": (512, 1, 2), "b.py:1:f": (512, 2, 3), "before": (512, 0, 3)}


# The doors


def test_a_snapshot_in_memory_is_a_source() -> None:
    data = snapshot([alloc(0), alloc(512), *free(0)])
    assert memplan.capture(data).load == memplan.capture(memplan.torch.read_snapshot(data)).load == 1024
    with pytest.raises(TypeError, match="option train does not apply to a source of kind snapshot"):
        memplan.plan(data, train=True)
    plan = memplan.plan(data, alignment=4096)
    assert set((plan.offsets % 4096).tolist()) == {0}


def test_the_report_shows_what_fragmentation_costs() -> None:
    events = [event("segment_alloc", 0, 2**21), alloc(0, 700, [USER]), *free(0, 700)]
    found = memplan.torch.read_snapshot(snapshot(events, segment(0, block(2**21, "inactive"))))
    assert "static plan" not in str(found)
    assert str(found.report(memplan.plan(found))) == (
        "reserved      2.00 MiB (2,097,152 bytes): the most that segments held at once\n"
        "allocated     1.00 KiB (1,024 bytes): the most in use at once, of 1 block\n"
        "requested     700 bytes: the same without rounding\n"
        "static plan   1.00 KiB (1,024 bytes)\n"
        "fragmentation 2.00 MiB (2,096,128 bytes), 100.0% of what was reserved"
    )
    report = found.report(memplan.plan(found, alignment=2**21))
    assert report.lost == 2**21 - 1024
    assert memplan.plans.Fragmentation(9, 0, 0, None, ()).lost is None
    unknown = memplan.torch.read_snapshot(snapshot([alloc(0)]))
    text = str(unknown.report(memplan.plan(unknown)))
    assert "reserved      unknown: the snapshot has no segments" in text
    assert "fragmentation" not in text
    assert "none: the plan needs 5 bytes more" in str(memplan.plans.Fragmentation(5, 0, 0, 10, ()))


def test_the_command_shows_it_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = pickled(TWO_STREAMS, tmp_path / "s.pickle")
    assert main(["plan", str(path)]) == 0
    printed = capsys.readouterr().out
    for text in ("peak     3.50 KiB", "reserved      5.00 KiB", "fragmentation 1.50 KiB", "stream 0x7"):
        assert text in printed
    assert main(["plan", str(path), "--train"]) == 2
    assert "option train does not apply to a source of kind snapshot" in capsys.readouterr().err
    assert main(["explain", str(path)]) == 0


@pytest.mark.slow
def test_torch_reads_what_these_tests_make() -> None:
    viz = pytest.importorskip("torch.cuda._memory_viz")
    assert "TOTAL MEM" in viz.trace(TWO_STREAMS)
    assert "Summary of segments" in viz.segsum(TWO_STREAMS)
