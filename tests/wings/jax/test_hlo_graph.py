"""From modules of HLO to graphs: what takes bytes, and when."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import memplan
from builders.hlo import BRANCHES, GPU, LOOP, SCHEDULED, TPU
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
    loop = op_of(graph, "loop")
    assert loop["inputs"] == ["start", "first", "x.0"]
    assert loop["outputs"] == ["loop.0", "loop.1"]  # x passes through
    assert [(pair["output"], pair["input"]) for pair in loop["overwrite"]] == [("loop.0", "start"), ("loop.1", "first")]
    assert loop["workspace"] == 16  # of copy.2, and the sum over it; what is returned lies in what is carried
    assert op_of(graph, "result")["inputs"] == ["loop.1", "x.0"]
    plan = planned(LOOP)
    assert plan.peak == 4 + 16 + 16
    assert plan.optimal


def test_what_is_read_after_a_loop_is_not_written_over() -> None:
    text = LOOP.replace("dot(%last, %same)", "dot(%last, %first)")
    assert [pair["input"] for pair in op_of(read(text), "loop")["overwrite"]] == ["start"]


def test_a_branch_that_holds_most_counts() -> None:
    graph = read(BRANCHES)
    assert op_of(graph, "r")["workspace"] == 1200
    assert op_of(graph, "z/m")["inplace"] == [{"output": "z/m", "input": "y"}]
    assert planned(BRANCHES).peak == 400 + 1200 + 40


def test_copies_between_memories_run_beside_other_ops() -> None:
    graph = read(TPU)
    assert op_of(graph, "copy-start")["outputs"] == ["copy-start.0", "copy-start.2"]
    assert op_of(graph, "copy-done")["inputs"] == ["copy-start.0", "p.1", "copy-start.2"]
    assert op_of(graph, "sum")["inputs"] == ["copy-start.0", "beside"]
    assert op_of(graph, "sum")["after"] == ["beside"]
    assert planned(TPU).graph is not None


def test_scratch_and_results_in_operands() -> None:
    graph = read(GPU)
    product = op_of(graph, "product")
    assert product["type"] == "custom-call:__cublas$gemm"
    assert product["outputs"] == ["product.0", "product.1"]
    changed = op_of(graph, "changed")
    assert changed["overwrite"] == [{"output": "changed", "input": "product.0", "offset": 0}]
    assert changed["recompute"] is False
    assert op_of(graph, "finish")["inputs"] == ["w", "start.1"]
    assert op_of(graph, "last")["inputs"] == ["changed", "start.1"]
    assert planned(GPU).peak == 64 * 64 * 4 + 8 * 64 * 4 + 4096


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
