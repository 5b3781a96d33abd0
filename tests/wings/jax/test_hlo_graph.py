"""From modules of HLO to graphs: what takes bytes, and when."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import memplan
from builders.hlo import BRANCHES, GPU, GPU_STEP, LOOP, OFFLOADED, OVER, SCHEDULED, SENT, TPU, TPU_STEP
from memplan.jax.reading import import_hlo


def read(text: str) -> dict[str, Any]:
    return import_hlo(text, "net.hlo")


def planned(text: str) -> memplan.Plan:
    return memplan.plan(read(text))


def op_of(graph: dict[str, Any], name: str) -> dict[str, Any]:
    return next(op for op in graph["ops"] if op["name"] == name)


def test_a_step_of_training() -> None:
    """The weights are given away: they are there at first, and what comes of them may take their bytes."""
    graph = read(SCHEDULED)
    kinds = {tensor["name"]: tensor["kind"] for tensor in graph["tensors"]}
    assert kinds["x.1"] == "input"
    assert kinds["w.1"] == "intermediate"
    assert graph["barriers"] == ["donated parameters"]
    assert op_of(graph, "tanh_fusion")["inplace"] == [{"output": "tanh_fusion", "input": "dot.1 (net.py:12)"}]
    assert planned(SCHEDULED).peak == 2048 + 1024 + 2048  # the weights, the hidden units, the gradient


def test_a_loop_writes_over_what_it_began_with() -> None:
    graph = read(LOOP)
    assert [(op["name"], op["body"]) for op in graph["ops"]] == [
        ("start", ""),
        ("first", ""),
        *((name, "loop") for name in ("loop/next", "loop/copy.2", "loop/sum", "loop/square", "loop")),
        ("result", ""),
    ]
    loop = op_of(graph, "loop")
    assert loop["inputs"] == ["loop/next", "loop/square", "x.0"]  # x passes through
    assert loop["outputs"] == []
    assert op_of(graph, "loop/next")["overwrite"] == [{"output": "loop/next", "input": "start", "offset": 0}]
    assert graph["together"] == [("first", "loop/square", 0)]  # between the two, the bytes are free
    assert op_of(graph, "loop/square")["after"] == ["first", "loop/copy.2"]
    assert op_of(graph, "result")["inputs"] == ["loop/square", "x.0"]
    plan = planned(LOOP)
    assert plan.peak == 4 + 16 + 16
    assert plan.optimal


def test_what_is_read_after_a_loop_is_not_written_over() -> None:
    graph = read(LOOP.replace("dot(%last, %same)", "dot(%last, %first)"))
    assert "together" not in graph
    assert "overwrite" in op_of(graph, "loop/next")


def test_loops_in_loops_have_bodies_in_bodies() -> None:
    outer = """
%around (o: (s32[], f32[4], f32[4])) -> (s32[], f32[4], f32[4]) {
  %o = (s32[], f32[4]{0}, f32[4]{0}) parameter(0)
  ROOT %inner = (s32[], f32[4]{0}, f32[4]{0}) while(%o), condition=%condition, body=%body
}

ENTRY"""
    graph = read(LOOP.replace("\nENTRY", outer).replace("body=%body\n  %last", "body=%around\n  %last"))
    assert {op["body"] for op in graph["ops"]} == {"", "loop", "loop/inner"}
    assert memplan.plan(graph).peak == planned(LOOP).peak
    assert graph["together"] == [("first", "loop/inner/square", 0)]


def test_a_branch_that_holds_most_counts() -> None:
    graph = read(BRANCHES)
    assert op_of(graph, "r")["workspace"] == 1200
    assert op_of(graph, "z/m")["inplace"] == [{"output": "z/m", "input": "y"}]
    assert planned(BRANCHES).peak == 400 + 1200 + 40


def test_branches_write_over_what_they_have_read() -> None:
    graph = read(OVER)
    assert op_of(graph, "r")["inplace"] == [{"output": "r", "input": "y"}]
    assert planned(OVER).peak == 400 + 400  # the operand with the result over it, and b


@pytest.mark.parametrize(
    ("changed", "to"),
    [
        ("ROOT %e = f32[100]{0} negate(%d)", "ROOT %e = f32[100]{0} reverse(%d), dimensions={0}"),
        (
            "ROOT %c = f32[100]{0} reverse(%b)",
            "%z = f32[100]{0} reverse(%b), dimensions={0}\n  ROOT %c = f32[100]{0} dot(%z, %a)",
        ),
        ("conditional(%p, %y, %y)", "conditional(%p, %y, %x)"),
    ],
)
def test_branches_keep_what_they_still_need(changed: str, to: str) -> None:
    graph = read(OVER.replace(changed, to, 1))
    assert [pair["input"] for pair in op_of(graph, "r").get("inplace", ())] == (["y"] if "%x)" in to else [])


def test_copies_between_memories_run_beside_other_ops() -> None:
    graph = read(TPU)
    assert op_of(graph, "copy-start")["outputs"] == ["copy-start{0}", "copy-start{2}"]
    assert op_of(graph, "copy-done")["inputs"] == ["copy-start{0}", "p.1", "copy-start{2}"]
    assert op_of(graph, "sum")["inputs"] == ["copy-start{0}", "beside"]
    assert op_of(graph, "sum")["after"] == ["beside"]
    assert planned(TPU).graph is not None


def test_scratch_and_results_in_operands() -> None:
    graph = read(GPU)
    product = op_of(graph, "product")
    assert product["type"] == "custom-call:__cublas$gemm"
    assert product["outputs"] == ["product{0}", "product{1}"]
    changed = op_of(graph, "changed")
    assert changed["overwrite"] == [{"output": "changed", "input": "product{0}", "offset": 0}]
    assert changed["recompute"] is False
    assert op_of(graph, "finish")["inputs"] == ["w", "start{1}"]
    assert op_of(graph, "last")["inputs"] == ["changed", "start{1}"]
    assert planned(GPU).peak == 64 * 64 * 4 + 8 * 64 * 4 + 4096


KiB, MiB = 2**10, 2**20


def test_a_step_on_gpus() -> None:
    """Counted by hand: at the second product the weights, both operands, the gradient, its scratch, and the loss."""
    plan = planned(GPU_STEP)
    assert plan.peak == (128 + 128 + 256 + 256 + 64) * KiB + 4
    assert plan.optimal
    said = str(plan.explain())
    assert "Step 6, cublas-gemm.2 (custom-call:__cublas$gemm), makes the peak of 832.00 KiB" in said
    assert "triton_softmax (model.py:34)" in said
    over = [(pair["output"], pair["input"]) for op in read(GPU_STEP)["ops"] for pair in op.get("overwrite", ())]
    assert over == [("all-reduce-start", "cublas-gemm.2{0} (model.py:21)")]


def test_what_is_moved_to_the_host_is_not_in_the_arena(tmp_path: Path) -> None:
    path = tmp_path / "net.hlo"
    path.write_text(OFFLOADED)
    network = memplan.capture(path)
    assert network.notes == ("beside the arena: 4.00 MiB in memory space 5 (the host)",)
    assert memplan.plan(network).peak == 8 * MiB + 4  # two arrays, and what the copy waits for
    assert read(OFFLOADED)["exclude"] == ["copy-start{0}"]


def test_a_layer_on_tpus(tmp_path: Path) -> None:
    """Counted by hand: tiles of 8 rows and 128 columns; 24 rows of 384 columns are reduced, 512 numbers are added."""
    path = tmp_path / "net.hlo"
    path.write_text(TPU_STEP)
    network = memplan.capture(path)
    product, weights = 24 * 384 * 2, 104 * 384 * 2
    assert product + weights == 96 * KiB
    assert network.notes == ("beside the arena: 96.00 KiB in memory space 1, 4 B in memory space 2",)
    plan = memplan.plan(network)
    assert plan.peak == product + 512 * 2
    assert "all-reduce (layer.py:9)" in str(plan.explain())


def test_what_a_loop_holds_in_another_memory_is_no_workspace(tmp_path: Path) -> None:
    path = tmp_path / "net.hlo"
    path.write_text(LOOP.replace("%copy.2 = f32[4]{0} copy", "%copy.2 = f32[4]{0:S(1)} copy"))
    network = memplan.capture(path)
    assert network.notes == ("beside the arena: 16 B in memory space 1",)
    assert network.graph.layout.exclude == ["loop/copy.2"]


def test_sends_and_receives() -> None:
    graph = read(SENT)
    assert op_of(graph, "send")["outputs"] == ["send{1}", "send{2}"]  # what is sent lies where it was made
    assert op_of(graph, "send-done")["inputs"] == ["y", "send{1}", "send{2}"]
    assert op_of(graph, "last")["inputs"] == ["recv{0}"]
    assert planned(SENT).peak == 1024 + 1024 + 4 + 4
    both = SENT.replace("token[] send-done", "(f32[256]{0}, token[]) send-done")
    assert read(both)["ops"] == graph["ops"]


def test_each_result_of_a_reduction_in_two_parts_is_new() -> None:
    text = SENT.replace("token[] send-done(%send), channel_id=1", "token[] send-done(%send)").replace(
        "ROOT %last = f32[256]{0} reverse(%come), dimensions={0}",
        """%sums = (f32[256]{0}, f32[256]{0}) all-reduce-start(%come, %y), channel_id=3
  %summed = (f32[256]{0}, f32[256]{0}) all-reduce-done(%sums)
  ROOT %last = f32[256]{0} get-tuple-element(%summed), index=0""",
    )
    begin = op_of(read(text), "sums")
    assert begin["outputs"] == ["sums{0}", "sums{1}"]
    assert [(pair["output"], pair["input"]) for pair in begin["overwrite"]] == [
        ("sums{0}", "recv{0}"),
        ("sums{1}", "y"),
    ]


def test_operands_and_results_that_come_later() -> None:
    text = """HloModule late, is_scheduled=true

%product (a: f32[8,8], b: f32[8,8]) -> f32[8,8] {
  %a = f32[8,8]{1,0} parameter(0)
  %b = f32[8,8]{1,0} parameter(1)
  ROOT %c = f32[8,8]{1,0} dot(%a, %b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}

ENTRY %main (x: f32[8,8], y: f32[8,8]) -> f32[8,8] {
  %x = f32[8,8]{1,0} parameter(0)
  %y = f32[8,8]{1,0} parameter(1)
  %start = ((f32[8,8]{1,0}), (), s32[]) async-start(%x), calls=%product
  %update = ((f32[8,8]{1,0}, f32[8,8]{1,0}), (), s32[]) async-update(%start, %y)
  ROOT %done = f32[8,8]{1,0} async-done(%update)
}
"""
    graph = read(text)
    assert op_of(graph, "update")["inputs"] == ["x", "start{2}", "y"]
    assert op_of(graph, "done")["inputs"] == ["x", "y", "start{2}"]
    assert op_of(graph, "done")["outputs"] == graph["outputs"] == ["done"]


def test_elements_and_instructions_have_names_of_their_own() -> None:
    text = GPU.replace("%product", "%gemm").replace("%changed", "%gemm.1")
    assert op_of(read(text), "gemm")["outputs"] == ["gemm{0}", "gemm{1}"]
    assert op_of(read(text), "gemm.1")["outputs"] == ["gemm.1"]
    assert planned(text).peak == planned(GPU).peak


def test_what_two_results_show_is_one_tensor() -> None:
    text = SCHEDULED.replace("tuple(%new, %tanh_fusion)", "tuple(%new, %new)").replace(
        "(f32[16,32]{1,0}, /*index=1*/f32[8,32]{1,0}) tuple", "(f32[16,32]{1,0}, f32[16,32]{1,0}) tuple"
    )
    assert read(text)["outputs"] == ["new"]


def test_a_loop_reads_what_it_needs_elsewhere() -> None:
    """A product reads rows at other places: nothing may be written over them."""
    text = SCHEDULED.replace("ROOT %tanh = f32[8,32]{1,0} tanh(%p0)", "ROOT %back = f32[8,32]{1,0} reverse(%p0)")
    assert "inplace" not in op_of(read(text), "tanh_fusion")
    other = SCHEDULED.replace("f32[8,32]{1,0} fusion", "f32[8,32]{0,1} fusion")
    assert "inplace" not in op_of(read(other), "tanh_fusion")


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "net.hlo"
    path.write_text(SCHEDULED)
    assert memplan.capture(path).notes == ()
    assert memplan.plan(str(path)).peak == planned(SCHEDULED).peak
    dump = tmp_path / "module_0001.jit_f.txt"
    dump.write_text(LOOP.replace(", is_scheduled=true", ""))
    assert "the module is not scheduled" in memplan.capture(dump).notes[0]
    dump.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(memplan.errors.SourceError, match="expected the text form of HLO, got other bytes"):
        memplan.capture(dump)
