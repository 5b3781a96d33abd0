"""Models of TFLite as graphs, and plans in their metadata: TFLite Micro runs them in less memory, to equal results."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import memplan
from builders.commands import run
from builders.paths import DATA

tflite = pytest.importorskip("tflite")
MODELS = DATA / "tflite"
NAMES = ("branches", "convolution", "elementwise", "perceptron", "residual")
OPTIONS: dict[str, Any] = {"place": ("input", "intermediate", "output"), "alignment": 16}
PERCEPTRON = MODELS / "perceptron.tflite"


def metadata(path: Path) -> dict[bytes, list[int]]:
    """What is in the metadata of a model, as numbers."""
    model = tflite.Model.GetRootAsModel(path.read_bytes(), 0)
    entries = [model.Metadata(k) for k in range(model.MetadataLength())]
    return {e.Name(): np.frombuffer(model.Buffers(e.Buffer()).DataAsNumpy(), "<i4").tolist() for e in entries}


# Read


def test_tensors_ops_and_what_they_may_share() -> None:
    graph = memplan.capture(PERCEPTRON).graph
    kinds = {t.name: (t.kind, t.bytes, t.dtype, t.shape) for t in graph.tensors if t.kind != "weight"}
    assert kinds == {
        "x": ("input", 16, "float32", [1, 4]),
        "hidden": ("intermediate", 1024, "float32", [1, 256]),
        "active": ("intermediate", 1024, "float32", [1, 256]),
        "flat": ("intermediate", 1024, "float32", [1, 256]),
        "scores": ("intermediate", 16, "float32", [1, 4]),
        "shares": ("output", 16, "float32", [1, 4]),
    }
    assert [op.name for op in graph.ops] == [
        *("FULLY_CONNECTED_0", "RELU_1", "RESHAPE_2", "FULLY_CONNECTED_3", "LOGISTIC_4")
    ]
    assert graph.outputs == ["shares"]
    assert [op.inplace for op in graph.ops] == [[], [("active", "hidden", 0)], [], [], [("shares", "scores", 0)]]
    assert graph.ops[2].slices == [("flat", "active", 0)]
    plan = memplan.plan(PERCEPTRON, **OPTIONS)
    assert plan.peak == 1024 + 16
    assert plan["hidden"].offset == plan["active"].offset == plan["flat"].offset


def test_what_is_read_again_is_not_written_over() -> None:
    plan = memplan.plan(MODELS / "elementwise.tflite", **OPTIONS)
    assert plan["neg"].offset == plan["logistic"].offset != plan["abs"].offset
    assert plan["sum"].offset in (plan["abs"].offset, plan["logistic"].offset)


def test_inplace_ops_are_added() -> None:
    (op,) = [
        op
        for op in memplan.capture(MODELS / "convolution.tflite", inplace_ops=["CONV_2D", "MAX_POOL_2D"]).graph.ops
        if op.type == "MAX_POOL_2D"
    ]
    assert op.inplace == []  # the output has another shape


def test_what_is_no_model(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(b"no model at all")
    with pytest.raises(
        memplan.errors.SourceError, match="expected a TFLite model with the mark TFL3 at byte 4, got b'odel'"
    ):
        memplan.plan(path)
    data = PERCEPTRON.read_bytes()
    for end in (8, 64, 200, 400):
        path.write_bytes(data[:end])
        with pytest.raises(memplan.errors.SourceError, match=r"the file is damaged|expected a subgraph"):
            memplan.plan(path)


def test_tensors_that_cannot_be(tmp_path: Path) -> None:
    """Bytes of the file changed: another type, another shape, an operator that names no tensor."""
    data = bytearray(PERCEPTRON.read_bytes())
    graph = tflite.Model.GetRootAsModel(bytes(data), 0).Subgraphs(0)
    shape = graph.Tensors(graph.Inputs(0))._tab
    path = tmp_path / "m.tflite"

    def refused(place: int, value: int, form: str, message: str) -> None:
        changed = bytearray(data)
        struct.pack_into(form, changed, place, value)
        path.write_bytes(changed)
        with pytest.raises(memplan.errors.SourceError, match=message):
            memplan.plan(path)

    refused(shape.Vector(shape.Offset(4)) + 4, -1, "<i", r"tensor 'x' has the shape \[1, -1\], whose size is not known")
    inputs = graph.Operators(0)._tab
    refused(inputs.Vector(inputs.Offset(6)), 99, "<i", "inputs name tensor 99 of 9")
    typed = next(t for t in (graph.Tensors(k)._tab for k in range(graph.TensorsLength())) if t.Offset(6))
    struct.pack_into("<b", data, typed.Pos + typed.Offset(6), tflite.TensorType.STRING)
    path.write_bytes(data)
    assert {t.name: t.bytes for t in memplan.capture(path).graph.tensors}[
        "flat/shape"
    ] == 8  # a constant is as long as it is
    refused(typed.Pos + typed.Offset(8), 0, "<I", "tensor 'flat/shape' is of STRING, whose size is not known")


def test_names_are_unique() -> None:
    from memplan.tflite.reading.subgraph import _unique

    assert _unique(["a", "", "a", "a_2", "b"]) == ("a", "tensor_1", "a_2_", "a_2", "b")


# Written


@pytest.mark.parametrize("name", NAMES)
def test_the_plan_is_in_the_metadata(name: str, tmp_path: Path) -> None:
    model, target = MODELS / f"{name}.tflite", tmp_path / "planned.tflite"
    plan = memplan.plan(model, **OPTIONS)
    plan.to_tflite(target, model)
    (entry,) = metadata(target).items()
    tensors = memplan.capture(model).graph.tensors
    placed = [plan.tensors[t.name].offset if t.kind != "weight" else -1 for t in tensors]
    assert entry == (b"OfflineMemoryAllocation", [1, 0, len(tensors), *placed])
    assert memplan.capture(target).graph == memplan.capture(model).graph
    again = tmp_path / "again.tflite"
    memplan.plan(target, "naive", **OPTIONS).to_tflite(again, target)  # takes the place of the other plan
    assert len(metadata(again)) == 1
    assert metadata(again) != metadata(target)


def test_what_is_not_placed_is_placed_when_the_model_is_loaded(tmp_path: Path) -> None:
    plan = memplan.plan(PERCEPTRON, alignment=16)
    plan.to_tflite(tmp_path / "m.tflite", PERCEPTRON)
    assert metadata(tmp_path / "m.tflite")[b"OfflineMemoryAllocation"][3] == -1  # x


def test_plans_that_do_not_fit_the_model(tmp_path: Path) -> None:
    target = tmp_path / "m.tflite"
    with pytest.raises(ValueError, match=r"the plan has other ops than .*elementwise.tflite; TFLite Micro runs each"):
        memplan.plan(PERCEPTRON).to_tflite(target, MODELS / "elementwise.tflite")
    odd = memplan.plan(MODELS / "elementwise.tflite", "naive", inplace=False)
    offsets = odd.offsets + 2 * (np.arange(len(odd)) == odd.buffer_of("sum"))
    with pytest.raises(ValueError, match="tensor 'sum' of float32 at offset 2402 is not aligned to 4; plan with align"):
        replace(odd, offsets=offsets).to_tflite(target, MODELS / "elementwise.tflite")
    with pytest.raises(memplan.errors.InvalidPlanError, match=r"'ADD_3' .* reads tensor 'abs' at offset 0, but"):
        replace(odd, offsets=odd.offsets * 0).to_tflite(target, MODELS / "elementwise.tflite")
    plan = memplan.plan(PERCEPTRON, inplace_ops=["FULLY_CONNECTED"], **OPTIONS)
    plan.to_tflite(target, PERCEPTRON, inplace_ops=["FULLY_CONNECTED"])
    assert list(tmp_path.iterdir()) == [target]


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = ["--place", "input,intermediate,output", "--alignment", "16"]
    assert run("plan", PERCEPTRON, *place, "--tflite", tmp_path / "m.tflite") == 0
    assert metadata(tmp_path / "m.tflite")[b"OfflineMemoryAllocation"][:3] == [1, 0, 9]
    assert run("plan", "example:gpt2_infer", "--tflite", tmp_path / "n.tflite") == 2
    assert "--tflite needs a source that ends in .tflite, got example:gpt2_infer" in capsys.readouterr().err


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "tflite", None)
    with pytest.raises(memplan.errors.MissingDependencyError, match=r"pip install memplan\[tflite\]"):
        memplan.plan(PERCEPTRON)


# Run


def outputs(data: bytes, arena: int) -> list[Any] | None:
    """What TFLite Micro computes in so many bytes; None where they are too few."""
    from tflite_micro import runtime

    graph = tflite.Model.GetRootAsModel(data, 0).Subgraphs(0)
    random = np.random.default_rng(1)
    try:
        interpreter = runtime.Interpreter.from_bytes(data, arena_size=arena)
        for k in range(graph.InputsLength()):
            shape = interpreter.get_input_details(k)["shape"]
            interpreter.set_input(random.standard_normal(shape).astype(np.float32), k)
        interpreter.invoke()
    except RuntimeError:
        return None
    return [interpreter.get_output(k).copy() for k in range(graph.OutputsLength())]


def smallest_arena(data: bytes) -> int:
    least, enough = 0, 1 << 14
    while enough - least > 1:
        middle = (least + enough) // 2
        least, enough = (middle, enough) if outputs(data, middle) is None else (least, middle)
    return enough


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("branches", 4128, 3728),
        ("convolution", 3632, 3120),
        ("elementwise", 3544, 2744),
        ("perceptron", 3536, 2528),
        ("residual", 5488, 4480),
    ],
)
def test_tflite_micro_runs_it_in_a_smaller_arena(name: str, before: int, after: int, tmp_path: Path) -> None:
    pytest.importorskip("tflite_micro")
    model, target = MODELS / f"{name}.tflite", tmp_path / "planned.tflite"
    memplan.plan(model, **OPTIONS).to_tflite(target, model)
    given, planned = model.read_bytes(), target.read_bytes()
    expected, got = outputs(given, 1 << 16), outputs(planned, 1 << 16)
    assert expected is not None
    assert got is not None
    assert all(np.array_equal(one, other) for one, other in zip(expected, got, strict=True))
    arenas = smallest_arena(given), smallest_arena(planned)
    assert arenas[1] < arenas[0]
    assert arenas == pytest.approx((before, after), rel=0.1)  # other versions keep other things there too
