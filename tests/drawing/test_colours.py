"""What colours a buffer in pictures and on pages."""

from __future__ import annotations

from typing import Any

import matplotlib
import numpy as np
import pytest

import memplan
from memplan.draw.colours import COLOUR_BY, OTHERS, PALETTE, SCALE, colouring, colourings, faded
from memplan.plans.buffer_info import buffer_infos, layers_of, paths_of


def tensor(name: str, bytes_: int, kind: str = "intermediate", **more: Any) -> dict[str, Any]:
    return {"name": name, "bytes": bytes_, "kind": kind, **more}


def op(name: str, type_: str, inputs: list[str], outputs: list[str], **more: Any) -> dict[str, Any]:
    return {"name": name, "type": type_, "inputs": inputs, "outputs": outputs, **more}


GRAPH = {
    "tensors": [
        tensor("x", 4, "input"),
        tensor("a", 8, shape=[2], dtype="float32"),
        tensor("b", 6),
        tensor("c", 5),
        tensor("y", 4, "output"),
    ],
    "ops": [
        op("body.0.conv", "Conv", ["x"], ["a"], workspace=3),
        op("body.1.conv", "Conv", ["a"], ["b"]),
        op("head.relu", "Relu", ["b"], ["c"]),
        op("backward.body.0.conv", "ConvBackward", ["a", "c"], ["y"]),
    ],
    "outputs": ["y"],
}


@pytest.fixture
def plan() -> memplan.Plan:
    return memplan.plan(GRAPH, place=["input", "intermediate", "output", "workspace"])


def by_name(plan: memplan.Plan, values: list[Any]) -> dict[str, Any]:
    return {plan.problem.name(b): value for b, value in enumerate(values)}


def layers(plan: memplan.Plan) -> list[str]:
    return layers_of(paths_of(plan, buffer_infos(plan)), plan.problem.size.tolist())


def test_layers_end_where_none_has_more_than_half_of_the_bytes(plan: memplan.Plan) -> None:
    found = by_name(plan, layers(plan))  # "body" has 21 of 26 bytes, and "body.0" 15
    assert found["x"] == ""
    assert found["a"] == found["body.0.conv.workspace"] == found["y"] == "body.0"
    assert found["b"] == "body.1"
    assert found["c"] == "head"


def test_layers_of_a_problem_are_in_its_names() -> None:
    names = ["l1.conv.0", "l1.conv.1", "l2.conv", "plain"]
    plan = memplan.plan(memplan.Problem([2, 1, 3, 1], [0] * 4, [1] * 4, 1, names))
    assert layers(plan) == ["l1", "l1", "l2", ""]
    assert list(colouring(plan, "layer").legend) == ["l1", "l2", "no module"]
    with pytest.raises(ValueError, match=r"layers need names with a module path.*none has one"):
        layers(memplan.plan(memplan.Problem([1, 1], [0, 0], [1, 1], 1, ["conv.1", "relu"])))


def test_kinds_and_types_have_the_palette_by_bytes(plan: memplan.Plan) -> None:
    types = colouring(plan, "op_type")
    assert list(types.legend.items()) == list(zip(["Conv", "Relu", "input", "ConvBackward"], PALETTE, strict=False))
    assert by_name(plan, types.colours)["b"] == PALETTE[0]
    assert set(colouring(plan, "kind").legend) == {"intermediate", "input", "output", "workspace"}


def test_small_groups_share_a_colour() -> None:
    tensors = [tensor(f"t{k}", 100 - k) for k in range(9)]
    graph = {"tensors": tensors, "ops": [op(f"o{k}", f"T{k}", [], [f"t{k}"]) for k in range(9)], "outputs": []}
    result = colouring(memplan.plan(graph), "op_type")
    assert list(result.legend) == ["T0", "T1", "T2", "T3", "T4", "T5", "3 others"]
    assert result.colours.count(OTHERS) == 3
    assert result.legend["3 others"] == OTHERS


def test_many_layers_are_in_sequence_and_further_apart_the_more_they_hold() -> None:
    names = [f"layers.{k}.conv" for k in range(12)]
    size = [1000 if k in (3, 4, 5, 6) else 1 for k in range(12)]
    result = colouring(memplan.plan(memplan.Problem(size, list(range(12)), list(range(1, 13)), 1, names)), "layer")
    assert list(result.legend) == [f"layers.{k}" for k in range(12)]
    table = [matplotlib.colors.to_hex(colour) for colour in matplotlib.colormaps[SCALE].colors]
    places = [min(range(256), key=lambda k: distance(table[k], colour)) for colour in result.legend.values()]
    assert places == sorted(places)
    assert (places[0], places[-1]) == (0, 255)
    assert places[5] - places[4] > 3 * (places[2] - places[1])


def distance(a: str, b: str) -> int:
    return sum(abs(int(a[k : k + 2], 16) - int(b[k : k + 2], 16)) for k in (1, 3, 5))


def test_sizes_are_on_a_scale_that_leaves_out_what_hardly_counts() -> None:
    size = [1, 1, 1, 1024, 65536, 2**20]
    result = colouring(memplan.plan((size, [0] * 6, [1] * 6)), "size")
    assert result.limits == (65536, 2**20)
    assert len(set(result.colours[:5])) == 1
    ends = matplotlib.colormaps[SCALE]([0.0, 1.0])
    assert [result.colours[0], result.colours[5]] == [matplotlib.colors.to_hex(end) for end in ends]


def test_lifetimes_are_on_a_logarithmic_scale() -> None:
    result = colouring(memplan.plan(([1, 1, 1], [0, 0, 0], [1, 10, 100])), "lifetime")
    assert result.limits == (1, 100)
    assert result.colours[1] == matplotlib.colors.to_hex(matplotlib.colormaps[SCALE](128))


def test_in_turn_by_birth_and_address(plan: memplan.Plan) -> None:
    order = np.lexsort((plan.offsets, plan.problem.first)).tolist()
    colours = colouring(plan).colours
    assert [colours[b] for b in order] == list(PALETTE[:6])
    assert colouring(memplan.plan(([0, 1], [0, 0], [1, 1]))).colours == [OTHERS, PALETTE[0]]


@pytest.mark.parametrize("by", COLOUR_BY)
@pytest.mark.parametrize("columns", [([], [], []), ([0, 0], [0, 1], [1, 2]), ([2**62], [0], [1]), ([7], [0], [1])])
def test_degenerate_plans_have_colours_too(by: str, columns: Any) -> None:
    names = [f"a.b{k}" for k in range(len(columns[0]))]
    plan = memplan.plan(memplan.Problem(*columns, 1, names))
    if by in ("kind", "op_type"):
        with pytest.raises(ValueError, match=f"colour_by='{by}' needs the plan of a graph"):
            colouring(plan, by)
    elif by == "layer" and not names:
        with pytest.raises(ValueError, match="none has one"):
            colouring(plan, by)
    else:
        assert len(colouring(plan, by).colours) == len(names)


def test_unknown_ways_are_refused(plan: memplan.Plan) -> None:
    with pytest.raises(ValueError, match=r"colour_by must be one of buffer, order, size, .*layer, got 'shape'"):
        colouring(plan, "shape")


def test_faded() -> None:
    assert faded("#000000") == "#CCCCCC"
    assert faded("#FF0000") == "#FFCCCC"
    assert faded("#FFFFFF") == "#FFFFFF"


def test_plans_have_the_same_scale() -> None:
    plans = [memplan.plan(([1, 1024], [0, 0], [1, 1])), memplan.plan(([32, 0], [0, 0], [1, 3]))]
    one, other = colourings(plans, "lifetime")
    assert one.limits == other.limits == (1, 3)
    assert one.colours == [other.colours[0]] * 2 != other.colours
    one, other = colourings(plans, "size")
    assert one.limits == other.limits == (32, 1024)
    assert one.colours[1] not in other.colours == [one.colours[0]] * 2


def test_a_name_has_the_same_colour_in_all_plans() -> None:
    names = ("abc", "dcb")
    plans = [memplan.plan(memplan.Problem([2, 1, 3], [0, 1, 2], [3, 3, 3], 1, list(own))) for own in names]
    one, other = (dict(zip(own, c.colours, strict=True)) for own, c in zip(names, colourings(plans), strict=True))
    assert list(one.values()) == list(PALETTE[:3])
    assert other == {"b": one["b"], "c": one["c"], "d": PALETTE[3]}


def test_a_tensor_inside_other_bytes_keeps_their_colour_where_it_has_its_own() -> None:
    tensors = [tensor("x", 4, "input"), *(tensor(name, 8) for name in "abcd"), tensor("y", 4, "output")]
    inplace = [{"output": "b", "input": "a"}]
    ops = [
        op("first", "T", ["x"], ["a"]),
        op("over", "T", ["a"], ["b"], inplace=inplace),
        op("then", "T", ["b"], ["c"]),
        op("next", "T", ["c"], ["d"]),
        op("last", "T", ["d"], ["y"]),
    ]
    source = {"tensors": tensors, "ops": ops, "outputs": ["y"]}
    plans = [memplan.plan(source), memplan.plan(source, inplace=False)]
    assert [slot.name for slot in plans[0]] == ["a", "c", "d", "y"]
    one, other = (by_name(p, c.colours) for p, c in zip(plans, colourings(plans), strict=True))
    assert other == {**one, "b": one["a"]}
    axes = memplan.draw.plot_plans(plans)
    drawn = [colouring_of(ax) for ax in axes]
    assert drawn == [list(one.values()), [other[slot.name] for slot in plans[1]]]


def colouring_of(ax: Any) -> list[str]:
    return [matplotlib.colors.to_hex(colour).upper() for colour in ax.collections[0].get_facecolor()]


def test_orders_are_on_a_scale_of_births_in_the_first_plan() -> None:
    columns = [2, 1, 3], [0, 10, 40], [50, 50, 50]
    plans = [memplan.plan(memplan.Problem(*columns, 1, list(names))) for names in ("abc", "cbd")]
    ends = [matplotlib.colors.to_hex(end) for end in matplotlib.colormaps[SCALE]([0.0, 0.25, 1.0])]
    one, other = colourings(plans, "order")
    assert one.colours == ends
    assert other.colours == [ends[2], ends[1], ends[2]]  # c is born late in the first plan; d is born in this one
    assert one.limits == other.limits == (0, 40)
    assert other.legend == {}


def test_plans_have_the_same_legend(plan: memplan.Plan) -> None:
    alone = memplan.plan({"tensors": [tensor("z", 99)], "ops": [op("o", "Gelu", [], ["z"])], "outputs": []})
    listed = memplan.plan(memplan.Problem([1], [0], [1], 1, ["z"]))
    found = colourings([plan, alone, listed], "op_type")
    assert all(c.legend == found[0].legend for c in found)
    assert list(found[0].legend) == ["Gelu", "Conv", "Relu", "input", "ConvBackward", "no type"]
    assert found[1].colours == [PALETTE[0]]
    assert found[2].colours == [OTHERS]


def test_long_legends_list_some() -> None:
    names = [f"layers.{k}.conv" for k in range(60)]
    result = colouring(memplan.plan(memplan.Problem([1] * 60, [0] * 60, [1] * 60, 1, names)), "layer")
    entries, every = result.entries()
    assert every == 3
    assert [name for name, _ in entries] == [f"layers.{k}" for k in range(0, 60, 3)]
