"""The tensors of a plan as a table."""

from __future__ import annotations

import csv
import pickle
from pathlib import Path

import numpy as np
import pytest

import memplan
from builders.graphs import graph, op

GRAPH = graph(
    "x 8 input, w 2 weight, a 8, half 4, b 8, y 4",
    op("first", "x w", "a", workspace=16),
    op("cut", "a", "half", alias=["half a 4"]),
    op("relu", "a", "b", inplace=["b a"]),
    op("last", "b", "y"),
    outputs="y",
)


@pytest.fixture
def plan() -> memplan.Plan:
    return memplan.plan(GRAPH, alignment=4)


def test_every_placed_tensor_has_the_slot_that_the_plan_gives(plan: memplan.Plan) -> None:
    assert list(plan.tensors) == ["a", "half", "b", "y", "first.workspace"]
    assert len(plan.tensors) == 5
    for name, slot in plan.tensors.items():
        assert slot == plan[name]
    assert "x" not in plan.tensors
    with pytest.raises(KeyError, match="x"):
        plan.tensors["x"]


def test_columns(plan: memplan.Plan) -> None:
    table = plan.tensors
    assert table.kinds == ("intermediate", "intermediate", "intermediate", "output", "workspace")
    assert table.bytes.tolist() == [8, 4, 8, 4, 16]
    assert (table.first.tolist(), table.last.tolist()) == ([0, 1, 2, 3, 0], [3, 2, 4, 4, 1])
    assert table.buffer.tolist() == [plan.buffer_of(name) for name in table]
    a, half = plan["a"].offset, plan["half"].offset
    assert (table.offset.dtype, table.offset.tolist()[:2], half) == (np.int64, [a, half], a + 4)
    assert list(table.columns) == ["name", "offset", "bytes", "first", "last", "buffer", "kind"]
    assert list(zip(*table.columns.values(), strict=True)) == list(table.rows())
    with pytest.raises(ValueError, match="read-only"):
        table.offset[0] = 1


def test_of_a_problem_they_are_its_buffers() -> None:
    plan = memplan.plan(memplan.Problem([4, 5], [0, 0], [1, 1], names=["a", "b"]))
    assert list(plan.tensors.items()) == [(slot.name, slot) for slot in plan]
    assert plan.tensors.kinds == ("", "")
    assert len(memplan.plan(([], [], [])).tensors) == 0


def test_as_text_it_is_short(plan: memplan.Plan) -> None:
    assert str(plan.tensors).splitlines()[0] == "5 tensors"
    assert "half" in plan.tensors._repr_html_()
    assert repr(plan.tensors) == "<memplan.plans.Tensors: 5 tensors>"
    many = memplan.plan("example:gpt2_train", "first_fit").tensors
    assert f"and {len(many) - 20:,} more" in str(many)


def test_as_csv_it_is_whole(plan: memplan.Plan, tmp_path: Path) -> None:
    plan.tensors.to_csv(tmp_path / "t.csv")
    with open(tmp_path / "t.csv", encoding="utf-8", newline="") as file:
        lines = list(csv.reader(file))
    assert lines[0] == ["name", "offset", "bytes", "first", "last", "buffer", "kind"]
    assert lines[1:] == [[str(value) for value in row] for row in plan.tensors.rows()]


def test_it_travels(plan: memplan.Plan) -> None:
    assert dict(pickle.loads(pickle.dumps(plan.tensors))) == dict(plan.tensors)
