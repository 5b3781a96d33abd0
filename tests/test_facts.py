"""What a graph knows of its buffers, and the colours that follow from it."""

from __future__ import annotations

import numpy as np

import memplan
from memplan.present.colouring import COLOURS, OTHER, colourings
from memplan.present.facts import facts_of

GRAPH = memplan.Graph(
    [
        memplan.Tensor("x", 64, "input", [4, 4], "float32"),
        memplan.Tensor("a", 64, shape=[4, 4], dtype="float32"),
        memplan.Tensor("view", 32, shape=[8], dtype="float32"),
        memplan.Tensor("b", 64),
        memplan.Tensor("unread", 16),
    ],
    [
        memplan.Op("conv_1", "Conv", ["x"], ["a"], workspace=128),
        memplan.Op("cut", "View", ["a"], ["view"], aliases=[("view", "a", 32)]),
        memplan.Op("add", "Add", ["view", "x"], ["b"]),
        memplan.Op("log", "", ["b"], ["unread"]),
    ],
    ["b"],
)


def test_facts_say_which_ops_make_and_read_a_buffer() -> None:
    plan = memplan.plan(GRAPH, place=("input", "intermediate", "output", "workspace"))
    told = {slot.name: fact for slot, fact in zip(plan, facts_of(plan), strict=True)}
    rows = {name: (fact.kind, fact.shape, fact.made_by, fact.last_read) for name, fact in told.items()}
    assert rows == {
        "x": ("input", "float32[4, 4]", "graph input", "add (Add)"),
        "a": ("intermediate", "float32[4, 4]", "conv_1 (Conv)", "add (Add)"),
        "b": ("output", "", "add (Add)", "the caller (a graph output)"),
        "unread": ("intermediate", "", "log", ""),
        "conv_1.workspace": ("workspace", "", "conv_1 (Conv)", "conv_1 (Conv)"),
    }
    assert told["a"].tenants == [plan["view"]]
    assert told["a"].tenants[0].offset == plan["a"].offset + 32


def test_a_problem_knows_nothing_but_sizes_and_lifetimes() -> None:
    plan = memplan.plan(([8, 4, 0], [0, 1, 0], [2, 3, 3]))
    facts = facts_of(plan)
    assert {(fact.kind, fact.made_by, fact.last_read) for fact in facts} == {("", "", "")}
    assert [colouring.name for colouring in colourings([plan], [facts])] == ["order", "size"]


def test_sizes_are_told_on_a_scale_that_all_plans_share() -> None:
    plans = [memplan.plan(([1, 1024], [0, 0], [1, 1])), memplan.plan(([32, 0], [0, 0], [1, 1]))]
    size = colourings(plans, [facts_of(plan) for plan in plans])[1]
    assert [codes.tolist() for codes in size.codes] == [[0, 255], [128, 0]]
    assert [meaning for _, meaning in size.legend] == ["1 B", "1.00 KiB"]


def test_types_beyond_the_palette_are_grey() -> None:
    many = len(COLOURS) + 2
    tensors = [memplan.Tensor(f"t{k}", 8) for k in range(many)]
    ops = [memplan.Op(f"op{k}", f"T{k}", [], [f"t{k}"]) for k in range(many)]
    plan = memplan.plan(memplan.Graph(tensors, ops))
    types = colourings([plan], [facts_of(plan)])[-1]
    assert types.name == "type of op"
    assert types.legend[-1] == (OTHER, "other")
    assert np.bincount(types.codes[0]).tolist() == [1] * len(COLOURS) + [2]
    assert len(types.palette) == len(COLOURS) + 1
