"""Nodes of ONNX that draw random numbers, or of which nobody knows what they do, keep their order and run once."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("onnx")

from builders.onnx_models import BOOL, I64, graph, model, node, value
from memplan.onnx.reading import import_onnx


def tied(nodes: list[Any], inputs: list[Any], outputs: list[Any], **options: Any) -> bool:
    """Whether the last two nodes keep their order, and run once."""
    first, second = import_onnx(model(nodes, inputs, outputs, **options))["ops"][-2:]
    once = [op.get("recompute", True) is False for op in (first, second)]
    follows = second.get("after", []) == [first["name"]]
    assert once == [follows, follows]
    return follows


def of(kind: str, *inputs: str, **attributes: Any) -> list[Any]:
    return [node(kind, ["x", *inputs], [f"y{k}"], name=f"n{k}", **attributes) for k in range(2)]


X = [value("x", [4, 4])]
Y = [value("y0", [4, 4]), value("y1", [4, 4])]


@pytest.mark.parametrize("kind", ["Bernoulli", "RandomNormalLike", "RandomUniformLike"])
def test_what_draws(kind: str) -> None:
    assert tied(of(kind), X, Y)
    assert not tied(of("Relu"), X, Y)


@pytest.mark.parametrize(
    ("opset", "attributes", "inputs", "drops"),
    [
        (6, {}, (), True),
        (6, {"is_test": 1}, (), False),
        (10, {}, (), False),
        (13, {}, (), False),
        (13, {}, ("ratio", "training"), True),
    ],
)
def test_dropout_by_version(opset: int, attributes: dict[str, int], inputs: tuple[str, ...], drops: bool) -> None:
    given = [value("ratio", []), value("training", [], BOOL)] if inputs else []
    assert tied(of("Dropout", *inputs, **attributes), X + given, Y, opset=opset) is drops


@pytest.mark.parametrize(
    ("domain", "kind", "unknown"),
    [
        ("com.acme", "Remember", True),
        ("com.microsoft", "BiasDropout", True),
        ("com.microsoft", "FastGelu", False),
    ],
)
def test_operators_of_others(domain: str, kind: str, unknown: bool) -> None:
    assert tied(of(kind, domain=domain), X, Y, domains=[domain]) is unknown


@pytest.mark.parametrize(("inner", "draws"), [("RandomNormalLike", True), ("Relu", False)])
def test_what_runs_a_body_that_draws(inner: str, draws: bool) -> None:
    body = graph(
        [node("Identity", ["go"], ["on"]), node(inner, ["s"], ["t"])],
        [value("i", [], I64), value("go", [], BOOL), value("s", [4, 4])],
        [value("on", [], BOOL), value("t", [4, 4])],
        [],
    )
    loops = [node("Loop", ["n", "", "x"], [f"y{k}"], name=f"n{k}", body=body) for k in range(2)]
    assert tied(loops, [*X, value("n", [], I64)], Y) is draws
