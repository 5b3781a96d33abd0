"""Memory snapshots: of the form that torch's tools read, and the allocations of the plan."""

from __future__ import annotations

import pickle
import pickletools
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

import memplan
from builders.graphs import graph, op, tensor
from builders.strategies import BOUNDED, columns, shaped_problems
from memplan.export.memory_viz import BASE, memory_snapshot

# What the page's own unpickler knows (torch/utils/viz/MemoryViz.js).
OPCODES = """
PROTO FRAME STOP MARK MEMOIZE BINGET LONG_BINGET BINPUT LONG_BINPUT EMPTY_DICT EMPTY_LIST EMPTY_TUPLE TUPLE TUPLE1
TUPLE2 TUPLE3 LIST DICT APPEND APPENDS SETITEM SETITEMS SHORT_BINUNICODE BINUNICODE BININT BININT1 BININT2 LONG1
NONE NEWTRUE NEWFALSE BINFLOAT
"""


@pytest.fixture
def plan() -> memplan.Plan:
    return memplan.plan(
        graph(
            [
                tensor("x", 16, "input"),
                {"name": "t", "shape": [2, 4], "dtype": "float32"},
                tensor("y", 8, "output"),
                tensor("größe", 40, "output"),
            ],
            op("a", "x", "t", type="A", workspace=64),
            op("b", "t", "y", type="B"),
            op("c", "y", "größe", type="C"),
            outputs="y größe",
        ),
        "first_fit",
        inplace=False,
    )


def replayed(plan: memplan.Plan) -> tuple[dict[int, int], dict[int, int]]:
    """Run the trace: the bytes allocated after each step that changes them, and address and size of what is left."""
    snapshot = memory_snapshot(plan)
    (trace,) = snapshot["device_traces"]
    live: dict[int, int] = {}
    after: dict[int, int] = {}
    for event in trace:
        address, size = event["addr"], event["size"]
        if event["action"] == "alloc":
            assert all(address + size <= other or other + bytes_ <= address for other, bytes_ in live.items())
            assert address >= BASE
            assert address + size <= BASE + plan.peak
            live[address] = size
        elif event["action"] == "free_completed":
            assert live.pop(address) == size
        after[event["time_us"]] = sum(live.values())
    return after, live


def check(plan: memplan.Plan) -> None:
    after, live = replayed(plan)
    steps, load = plan.problem.load_curve()
    now = 0
    for step, bytes_ in zip(steps.tolist(), load.tolist(), strict=True):
        if step < plan.problem.last.max():  # what lives until then stays
            now = after.pop(step, now)
            assert now == bytes_
    assert not after
    for segment in memory_snapshot(plan)["segments"]:
        assert (segment["address"], segment["total_size"]) == (BASE, plan.peak)
        address = BASE
        kept = {}
        for block in segment["blocks"]:
            assert block["address"] == address
            address += block["size"]
            if block["state"] == "active_allocated":
                kept[block["address"]] = block["requested_size"]
        assert address == BASE + plan.peak
        assert kept == live
        assert segment["allocated_size"] == sum(live.values())


def test_the_trace_allocates_what_the_plan_holds(plan: memplan.Plan) -> None:
    check(plan)
    _, live = replayed(plan)
    assert live == {BASE + plan[name].offset: plan[name].bytes for name in ("y", "größe")}


@given(columns())
@BOUNDED
def test_the_trace_of_any_plan(case: Any) -> None:
    plan = memplan.plan(memplan.Problem(*case), "first_fit")
    if plan.peak:
        check(plan)


@given(shaped_problems(max_buffers=5))
@BOUNDED
def test_the_trace_of_any_shapes(case: Any) -> None:
    buffers, parts, _ = case
    plan = memplan.plan(memplan.Problem(*buffers, None, parts), "first_fit")
    if plan.peak:
        check(plan)


def test_stacks_name_buffer_tensor_and_op(plan: memplan.Plan) -> None:
    (trace,) = memory_snapshot(plan)["device_traces"]
    (event,) = [e for e in trace if e["action"] == "alloc" and e["addr"] == BASE + plan["t"].offset and e["size"] == 32]
    position = [slot.name for slot in plan].index("t")
    slot = plan[position]
    assert event["frames"] == [
        {
            "filename": "buffer",
            "line": position,
            "name": f"t, 32 bytes at {slot.offset} in steps {slot.first} to {slot.last - 1}",
        },
        {"filename": "tensor", "line": position, "name": "float32[2,4], intermediate"},
        {"filename": "op", "line": 0, "name": "a (A)"},
    ]
    assert trace[0]["action"] == "segment_alloc"


def test_the_page_can_unpickle_it(tmp_path: Path) -> None:
    plan = memplan.plan("example:gpt2_train")
    plan.to_memory_viz(tmp_path / "plan.pickle")
    data = (tmp_path / "plan.pickle").read_bytes()
    assert {opcode.name for opcode, _, _ in pickletools.genops(data)} <= set(OPCODES.split())
    (version,) = [argument for opcode, argument, _ in pickletools.genops(data) if opcode.name == "PROTO"]
    assert version in (2, 3, 4)
    assert pickle.loads(data) == memory_snapshot(plan)
    assert [path.name for path in tmp_path.iterdir()] == ["plan.pickle"]


def test_torch_reads_it(plan: memplan.Plan, tmp_path: Path) -> None:
    viz = pytest.importorskip("torch.cuda._memory_viz")
    plan.to_memory_viz(tmp_path / "plan.pickle")
    data = pickle.loads((tmp_path / "plan.pickle").read_bytes())

    def same(lines: str) -> str:
        return lines

    kept = plan["y"].bytes + plan["größe"].bytes
    summary = viz.segsum(data)  # checks that blocks add up to the segment
    assert f"total_reserved: {float(plan.peak)}B" in summary
    assert f"total_allocated: {float(kept)}B" in summary
    listing = viz.trace(data)
    assert listing.count(" = ") == 1 + len(plan)  # the segment, and a line for each buffer
    offsets = [int(offset) for offset in re.findall(r"= a\[(\d+):", listing)]
    assert sorted(offsets) == sorted(plan.offsets.tolist())
    for lines in (viz.memory(data, format_flamegraph=same), viz.segments(data, format_flamegraph=same)):
        weights = [(stack, int(size)) for stack, _, size in (line.rpartition(" ") for line in lines.splitlines())]
        assert sum(size for _, size in weights) == plan.peak
        assert [size for stack, size in weights if "active_allocated;op:1:b (B);" in stack] == [8]
    for page in (viz.trace_plot(data), viz.trace_plot(data, plot_segments=True), viz.segment_plot(data)):
        assert "add_local_files" in page
    left = viz.filter_alloc_free_pairs(pickle.loads((tmp_path / "plan.pickle").read_bytes()))["device_traces"][0]
    assert [event["action"] for event in left] == ["segment_alloc", "alloc", "alloc"]


def test_torch_is_not_needed(tmp_path: Path) -> None:
    script = (
        "import sys, memplan\n"
        "memplan.plan(([4, 5], [0, 1], [2, 3])).to_memory_viz(sys.argv[1])\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "plan.pickle")], check=True)


def test_addresses_are_exact_in_doubles() -> None:
    assert float(BASE + 2**50) == BASE + 2**50
    assert BASE % 2**40 == 0


@pytest.mark.parametrize("case", [([], [], []), ([0, 0], [0, 3], [1, 9])])
def test_without_bytes_there_is_no_segment(case: Any) -> None:
    snapshot = memory_snapshot(memplan.plan(case))
    assert (snapshot["segments"], snapshot["device_traces"]) == ([], [[]])
