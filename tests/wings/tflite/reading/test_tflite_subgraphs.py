"""Models of TFLite with several subgraphs: the one that runs is planned, with what it runs as workspaces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import memplan
from builders.commands import run

pytest.importorskip("tflite")

from builders.tflite_files import Net, model

PLACED: dict[str, Any] = {"place": ("input", "intermediate", "output")}


def written(tmp_path: Path, *nets: Net, **options: Any) -> Path:
    path = tmp_path / "m.tflite"
    path.write_bytes(model(*nets, **options))
    return path


def dense(name: str, wide: int, output: str = "y") -> Net:
    net = Net(name)
    net.outputs = [net.dense(net.dense(net.input("x", 1, 4), "wide", 4, wide), output, wide, 4)]
    return net


def coder(tmp_path: Path) -> Path:
    """Two signatures, the second first in the file; and a subgraph that nothing runs, which is of no known size."""
    lost = Net("lost")
    lost.input("x", 1, -1)
    return written(tmp_path, dense("main", 8), dense("b", 16), lost, signatures={"serving_default": 0, "decode": 1})


def test_the_first_subgraph_is_planned_or_that_of_a_signature(tmp_path: Path) -> None:
    path = coder(tmp_path)
    choices = {None: 48, "serving_default": 48, "decode": 80, "b": 80, "main": 48}
    assert {choice: memplan.plan(path, signature=choice, **PLACED).peak for choice in choices} == choices
    assert memplan.plan(path).notes == ("the file has other signatures too, which are not planned: 'decode'",)
    assert memplan.plan(path, signature="decode").notes == ()
    methods = {key: memplan.capture(path, signature=key) for key in ("serving_default", "decode")}
    assert memplan.plan_many(methods, **PLACED).peak == 80


def test_a_signature_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = coder(tmp_path)
    with pytest.raises(memplan.errors.SourceError, match="there is no signature 'decoder'; did you mean 'decode'"):
        memplan.plan(path, signature="decoder")
    with pytest.raises(memplan.errors.SourceError, match="no signature 'zz'; the signatures are 'lost', 'b', 'main'"):
        memplan.plan(path, signature="zz")
    with pytest.raises(TypeError, match="signature must be a name, got 1"):
        memplan.plan(path, signature=1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="option signature does not apply to a source of kind dict"):
        memplan.plan({"tensors": [], "ops": [], "outputs": []}, signature="a")
    with pytest.raises(
        memplan.errors.SourceError, match=r"tensor 'x' has the shape \[1, -1\], whose size is not known"
    ):
        memplan.plan(path, signature="lost")
    assert run("plan", path, "--signature", "decode", "--place", "input,intermediate,output") == 0
    assert "80 bytes" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["IF", "WHILE"])
def test_what_an_operator_runs_is_its_workspace(kind: str, tmp_path: Path) -> None:
    """The larger of the two subgraphs, with its inputs and outputs: x 16, wide 400, y 16 bytes, two at a time."""
    net = Net()
    keys = ("ThenSubgraphIndex", "ElseSubgraphIndex") if kind == "IF" else ("CondSubgraphIndex", "BodySubgraphIndex")
    options = dict(zip(keys, (1, 2), strict=True))
    net.outputs = [net.op(kind, [net.input("x", 1, 4)], "y", 1, 4, options=options, table=f"{kind.title()}Options")]
    graph = memplan.capture(written(tmp_path, net, dense("small", 10), dense("large", 100))).graph
    assert [op.workspace for op in graph.ops] == [416]


def test_a_subgraph_that_cannot_be_is_named(tmp_path: Path) -> None:
    def caller(position: int, name: str = "main") -> Net:
        net = Net(name)
        net.once(position)
        return net

    with pytest.raises(memplan.errors.SourceError, match="names subgraph 7 of 1"):
        memplan.plan(written(tmp_path, caller(7)))
    with pytest.raises(memplan.errors.SourceError, match=r"subgraph 1 runs itself, by the subgraphs \[0, 1, 2\]"):
        memplan.plan(written(tmp_path, caller(1), caller(2, "a"), caller(1, "b")))
    unknown = Net("init")
    unknown.op("RELU", [unknown.input("x", 1, -1)], "y", 1, -1)
    with pytest.raises(
        memplan.errors.SourceError, match="in subgraph 1, which CALL_ONCE_0 runs: tensor 'x' has the shape"
    ):
        memplan.plan(written(tmp_path, caller(1), unknown))


def test_tensors_that_no_operator_writes(tmp_path: Path) -> None:
    """Those that none reads, and constants of no bytes, are not placed; scratch of an NPU is there from the start."""
    net = Net()
    axes, x = net.tensor("axes", 0, dtype="INT32"), net.input("x", 1, 4)
    net.tensor("unused", 1, 4)
    scratch = net.tensor("scratch", 1, 4)
    net.outputs = [net.op("ethos-u", [net.op("SUM", [x, axes], "y", 1, 4), scratch], "z", 1, 4, custom=True)]
    kinds = {tensor.name: tensor.kind for tensor in memplan.capture(written(tmp_path, net)).graph.tensors}
    assert kinds == {
        **{"axes": "weight", "x": "input", "unused": "weight", "scratch": "input"},
        **{"y": "intermediate", "z": "output"},
    }
