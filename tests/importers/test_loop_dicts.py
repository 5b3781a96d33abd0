"""Loops of ops in graph dicts: read, written, and refused where they are not as expected."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import memplan
from memplan.importers.graph_dict import graph_of


def graph(loop: dict[str, Any], inputs: tuple[str, ...] = ("x",)) -> dict[str, Any]:
    return {
        "tensors": [
            {"name": "x", "shape": [2, 6, 5], "dtype": "int8", "kind": "input"},
            {"name": "bare", "bytes": 8, "kind": "input"},
            {"name": "y", "shape": [2, 12, 5], "dtype": "int8", "kind": "output"},
        ],
        "ops": [{"name": "up", "inputs": list(inputs), "outputs": ["y"], "loops": [loop]}],
        "outputs": ["y"],
    }


UP = {"extent": 12, "reads": {"x": [1, "1/2", "1/2", 0]}, "writes": {"y": [1, 1]}}
ROWS = {"extent": 12, "reads": {"x": [[0, 1], 1, 1, 0]}, "writes": {"y": [[0, 1], 2]}}


@pytest.mark.parametrize("loop", [UP, ROWS])
def test_loops_come_back_as_they_were(loop: dict[str, Any]) -> None:
    read = graph_of(graph(loop))
    assert read.to_dict()["ops"][0]["loops"] == [loop]
    assert graph_of(read.to_dict()) == read
    assert pickle.loads(pickle.dumps(read)) == read


def test_numbers_may_be_floats_and_inputs_positions() -> None:
    halves = graph_of(graph(UP | {"reads": {"x": [1, 0.5, 0.5, 0]}}))
    assert halves == graph_of(graph(UP))
    twice = graph_of(graph(UP | {"reads": {"1": [1, "1/2", "1/2", 0]}}, ("x", "x")))
    assert list(twice.to_dict()["ops"][0]["loops"][0]["reads"]) == ["1"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"extents": 3}, r"ops\[0\].loops\[0\] has an unknown key 'extents'"),
        ({"extent": 0}, r"op 'up': loop: extent must be from 1 to 2147483648, got 0"),
        ({"extent": True}, r"loops\[0\].extent must hold an integer"),
        ({"extent": 11}, r"a loop of 11 iterations writes 1 rows of tensor 'y' in each, which has 12"),
        ({"reads": {"z": [0, 1, 1, 0]}}, r"reads\['z'\]: expected an input of the op \(x\) or its position, got 'z'"),
        ({"reads": {"x": [0, 1, 1]}}, r"reads\['x'\] must be \[axis, step, window, before\], got \[0, 1, 1\]"),
        ({"reads": {"x": [0, 0, 1, 0]}}, r"step must be from 1 to"),
        ({"reads": {"x": [0, "1/0", 1, 0]}}, r"must hold numbers, or fractions as text \('7/5'\), got '1/0'"),
        ({"reads": {"x": [3, 1, 1, 0]}}, r"a loop goes along axes \[3, 3\] of tensor 'x', which has 3"),
        ({"writes": {}}, r"output 0 must be in writes, sums or early"),
        ({"sums": ["y"]}, r"output 0 is listed twice"),
        ({"workspace": -1}, r"workspace must be >= 0 bytes, got -1"),
        (
            {"workspace": 2**63},
            r"workspace must hold an integer of at most 9223372036854775807, got 9223372036854775808",
        ),
        ({"copied": ["y"]}, r"copied: expected an input of the op \(x\) or its position, got 'y'"),
        ({"sums": ["x"]}, r"sums: expected an output of the op \(y\), got 'x'"),
        ({"early": {"y": ["y"]}}, r"early\['y'\]: expected an input"),
        ({"extent": 2**64}, r"extent must hold an integer of at most 2147483648, got 18446744073709551616"),
        ({"extent": 10**9999}, r"extent must hold an integer of at most 2147483648, got an integer of 33216 bits"),
        ({"reads": {"x": [2**31, 1, 1, 0]}}, r"must hold an integer of at most 2147483647, got 2147483648"),
        ({"reads": {"x": [0, 1, 1, 2**63]}}, r"of at most 2147483648 parts of a row, .*, got 9223372036854775808"),
        ({"reads": {"x": [0, 1, -(2**63) - 1, 0]}}, r"of at most 2147483648 parts of a row, .*, got -92233720368"),
        ({"reads": {"x": [0, "1/65537", "1/65539", 0]}}, r"of at most 2147483648 parts of a row, .*, got '1/65537'"),
        ({"reads": {"x": [0, 10**9999, 1, 0]}}, r"parts of a row, .*, got an integer of 33216 bits"),
        ({"reads": {"x": [0, "1e99999999", 1, 0]}}, r"must hold numbers, or fractions as text .*, got '1e99999999'"),
        ({"writes": {"y": [1, 2**63]}}, r"must hold an integer of at most 2147483648, got 9223372036854775808"),
    ],
)
def test_a_loop_that_is_none_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(memplan.errors.GraphError, match=message):
        graph_of(graph({**UP, **change}))


@pytest.mark.parametrize("loop", [2**31, 2**63, -(2**63) - 1])
def test_a_loop_that_no_number_names_is_refused(loop: int) -> None:
    spec = graph(UP)
    spec["ops"][0]["ordered"] = [loop]
    with pytest.raises(
        memplan.errors.GraphError, match=rf"ordered\[0\] must hold an integer of at most 2147483647, got {loop}"
    ):
        graph_of(spec)


def test_a_loop_needs_shapes() -> None:
    with pytest.raises(memplan.errors.GraphError, match="a loop goes along tensor 'bare', which has no shape"):
        graph_of(graph({**UP, "reads": {"bare": [0, 1, 1, 0]}}, ("x", "bare")))
    with pytest.raises(memplan.errors.GraphError, match="more than once; name it by its position"):
        graph_of(graph(UP, ("x", "x")))
