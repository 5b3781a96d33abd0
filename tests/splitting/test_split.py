"""Ops in pieces: the rows that they make are those of the whole, and the bytes that they hold are fewer."""

from __future__ import annotations

import itertools
import random
import re
from typing import Any

import pytest

import memplan
from builders.looped import looped_graph
from memplan import _core
from memplan.importers.graph_dict import graph_of
from oracles.rows import run_pieces, run_whole

REFUSED = "cannot be split: it|needs what a region makes, and makes what"
STORAGE = _core.StorageOptions(["intermediate", "output", "workspace"], 1, True, [], [], True)


def conv(name: str, source: str, window: int = 3) -> dict[str, Any]:
    loop = {"extent": 8, "reads": {source: [0, 1, window, window // 2]}, "writes": {name: [0, 1]}}
    return {"name": f"{name}:op", "type": "conv", "inputs": [source], "outputs": [name], "loops": [loop]}


def chain(count: int = 3) -> _core.Graph:
    names = ["x", *(f"t{k}" for k in range(1, count)), "y"]
    tensors = [{"name": name, "shape": [8, 10], "dtype": "int8"} for name in names]
    tensors[0]["kind"] = "input"
    return graph_of(
        {
            "tensors": tensors,
            "ops": [conv(b, a) for a, b in itertools.pairwise(names)],
            "outputs": ["y"],
        }
    )


def test_rows_that_are_read_again_are_kept() -> None:
    graph = chain()
    split = _core.split(graph, [([(0, 0, False), (1, 0, False), (2, 0, False)], 8)])
    assert memplan.plan(graph).peak == 160
    # y, and three rows of each tensor between, of which two are kept
    assert memplan.plan(split.graph).peak == 80 + 3 * 10 + 3 * 10
    assert split.kept_bytes == 2 * 5 * 20  # rows move to the front 5 times in each of two buffers
    done = [0, 0, 0]
    for piece in split.pieces:
        if piece.does == "part":
            done[piece.of] += piece.iterations[1] - piece.iterations[0]
    assert done == [8, 8, 8]  # nothing is made twice


@pytest.mark.parametrize("whole", [0, 30, 100])
def test_a_piece_has_its_share_of_the_workspace(whole: int) -> None:
    """And what each piece needs whole."""
    spec = chain().to_dict()
    for op in spec["ops"]:
        op["workspace"], [loop] = 79, op["loops"]
        loop |= {"workspace": whole, "reads": {key: [0, 1, 1, 0] for key in loop["reads"]}}
    graph = graph_of(spec)
    assert graph_of(graph.to_dict()) == graph
    split = _core.split(graph, [([(0, 0, False), (1, 0, False), (2, 0, False)], 4)])
    shares = {piece.iterations[1] - piece.iterations[0]: 0 for piece in split.pieces if piece.does == "part"}
    for op, piece in zip(split.graph.ops, split.pieces, strict=True):
        if piece.does == "part":
            shares[piece.iterations[1] - piece.iterations[0]] = op.workspace
    fixed = min(whole, 79)
    assert shares == {size: fixed + -(-(79 - fixed) * size // 8) for size in shares}
    assert shares


def test_the_share_is_that_of_all_rows_that_a_window_reads() -> None:
    spec = chain().to_dict()
    for op in spec["ops"]:
        op["workspace"] = 80
    split = _core.split(graph_of(spec), [([(2, 0, False)], 8)])
    pieces = [op.workspace for op, piece in zip(split.graph.ops, split.pieces, strict=True) if piece.does == "part"]
    assert pieces == [20, *[30] * 6, 20]


@pytest.mark.parametrize(("axis", "copied", "bytes"), [(0, ["x"], 0), (1, [], 0), (1, ["x"], 80)])
def test_rows_that_lie_scattered_are_copied_where_a_loop_says_so(axis: int, copied: list[str], bytes: int) -> None:
    tensors = [{"name": name, "shape": [4, 8, 10], "dtype": "int8"} for name in "xy"]
    tensors[0]["kind"] = "input"
    rows = [axis, 1, 1, 0]
    loop = {"extent": (4, 8)[axis], "reads": {"x": rows}, "writes": {"y": rows[:2]}, "copied": copied}
    ops = [{"name": "op", "inputs": ["x"], "outputs": ["y"], "loops": [loop]}]
    graph = graph_of({"tensors": tensors, "ops": ops, "outputs": ["y"]})
    assert graph_of(graph.to_dict()) == graph
    split = _core.split(graph, [([(0, 0, False)], 4)])
    assert [op.workspace for op in split.graph.ops] == [bytes] * 4


def test_rows_that_get_padding_are_copied_too() -> None:
    spec = chain(1).to_dict()
    spec["ops"][0]["loops"][0]["copied"] = ["x"]
    split = _core.split(graph_of(spec), [([(0, 0, False)], 4)])
    assert [op.workspace for op in split.graph.ops] == [40, 0, 0, 40]  # a row that is padding, and three others


@pytest.mark.parametrize(("axis", "copied", "bytes"), [(0, True, 0), (1, False, 0), (1, True, 160)])
def test_rows_that_lie_scattered_are_computed_apart_where_an_op_says_so(axis: int, copied: bool, bytes: int) -> None:
    tensors = [{"name": name, "shape": [4, 8, 10], "dtype": "int8"} for name in "xyz"]
    tensors[0]["kind"] = "input"
    rows = [axis, 1, 1, 0]
    ops = [
        {"name": a, "inputs": [a], "outputs": [b], "pieces_copied": copied}
        | {"loops": [{"extent": (4, 8)[axis], "reads": {a: rows}, "writes": {b: rows[:2]}}]}
        for a, b in itertools.pairwise("xyz")
    ]
    graph = graph_of({"tensors": tensors, "ops": ops, "outputs": ["z"]})
    assert graph_of(graph.to_dict()) == graph
    split = _core.split(graph, [([(0, 0, False), (1, 0, False)], 2)])
    pieces = [op.workspace for op, piece in zip(split.graph.ops, split.pieces, strict=True) if piece.does == "part"]
    assert pieces == [0, bytes] * 2  # rows of y have a buffer of their own


def test_steps_end_at_the_same_rows_of_all_loops() -> None:
    """A sum over four tokens of each sample does not begin within a sample: else rows of it would wait."""
    rows = {"a": [0, 1, 1, 0]}
    shapes = {"x": [16, 4], "a": [16, 4], "v": [64], "s": [1], "y": [16, 4]}
    ops = [
        {"name": "make", "inputs": ["x"], "outputs": ["a"]},
        {"name": "view", "inputs": ["a"], "outputs": ["v"], "alias": [{"output": "v", "input": "a", "offset": 0}]},
        {"name": "sum", "inputs": ["v"], "outputs": ["s"]},
        {"name": "more", "inputs": ["a"], "outputs": ["y"]},
    ]
    loops = [
        {"extent": 16, "reads": {"x": [0, 1, 1, 0]}, "writes": {"a": [0, 1]}},
        {"extent": 16, "reads": rows, "writes": {"v": [0, 4]}},
        {"extent": 64, "reads": {"v": [0, 1, 1, 0]}, "sums": ["s"]},
        {"extent": 16, "reads": rows, "writes": {"y": [0, 1]}},
    ]
    tensors = [{"name": name, "shape": shape, "dtype": "int8"} for name, shape in shapes.items()]
    tensors[0]["kind"] = "input"
    ops = [op | {"loops": [loop]} for op, loop in zip(ops, loops, strict=True)]
    graph = graph_of({"tensors": tensors, "ops": ops, "outputs": ["s", "y"]})
    split = _core.split(graph, [([(k, 0, False) for k in range(4)], 3)])
    made = {k: [piece.iterations for piece in split.pieces if piece.does == "part" and piece.of == k] for k in range(4)}
    assert made[0] == made[3] == [(0, 5), (5, 10), (10, 16)]
    assert made[2] == [(0, 20), (20, 40), (40, 64)]


def test_rows_may_be_made_again_instead() -> None:
    graph = chain()
    split = _core.split(graph, [([(0, 0, True), (1, 0, True), (2, 0, False)], 8)])
    assert split.kept_bytes == 0
    assert not any(op.overwrites for op, piece in zip(split.graph.ops, split.pieces, strict=True) if piece.of < 2)
    assert run_pieces(graph, split)["y"] == run_whole(graph, dict.fromkeys(("t1:op", "t2:op", "y:op"), 0))["y"]


def test_a_view_whose_source_is_made_elsewhere_is_refused() -> None:
    tensors = [{"name": name, "shape": [8, 10], "dtype": "int8"} for name in ("x", "a", "b", "c", "y")]
    tensors[0]["kind"] = "input"
    rows = {"extent": 8, "reads": {"b": [0, 1, 1, 0]}, "writes": {"c": [0, 1]}}
    view = {"type": "view", "alias": [{"output": "b", "input": "a", "offset": 0}]}
    again = {"type": "view", "alias": [{"output": "c", "input": "a", "offset": 0}], "loops": [rows]}
    ops = [
        conv("a", "x"),
        {"name": "b:op", "inputs": ["a"], "outputs": ["b"], **view},
        {"name": "c:op", "inputs": ["b", "a"], "outputs": ["c"], **again},
        conv("y", "c"),
    ]
    graph = graph_of({"tensors": tensors, "ops": ops, "outputs": ["y"]})
    with pytest.raises(
        memplan.errors.GraphError, match="is a view of 'b', and the region makes the bytes of that by rows"
    ):
        _core.split(graph, [([(0, 0, False), (2, 0, False), (3, 0, False)], 4)])


def test_a_view_with_two_outputs_of_which_one_leaves_the_region() -> None:
    """Halves of a tensor: one is read by a region that makes it row by row, the other by what runs whole."""
    rows = {"extent": 8, "reads": {"0": [0, 1, 1, 0]}}
    halves = {"low": 0, "high": 40}
    ops = [
        {"name": "make", "inputs": ["x"], "outputs": ["t"], "loops": [rows | {"writes": {"t": [0, 1]}}]},
        {
            "name": "halve",
            "type": "view",
            "inputs": ["t"],
            "outputs": [*halves],
            "alias": [{"output": name, "input": "t", "offset": at} for name, at in halves.items()],
            "loops": [rows | {"writes": {name: [0, 1] for name in halves}}],
        },
        {"name": "use", "inputs": ["low"], "outputs": ["y"], "loops": [rows | {"writes": {"y": [0, 1]}}]},
        {"name": "end", "inputs": ["y", "high"], "outputs": ["z"]},
    ]
    sizes = {"x": 10, "t": 10, "low": 5, "high": 5, "y": 5, "z": 5}
    tensors = [{"name": name, "shape": [8, size], "dtype": "int8"} for name, size in sizes.items()]
    tensors[0]["kind"] = "input"
    graph = graph_of({"tensors": tensors, "ops": ops, "outputs": ["z"]})
    split = _core.split(graph, [([(0, 0, False), (1, 0, False), (2, 0, False)], 4)])
    whole = next(op for op in split.graph.ops if op.name == "halve")
    assert [*whole.outputs] == ["low", "high"]
    assert memplan.plan(split.graph).verify() is None


def split_unless_refused(graph: _core.Graph, region: list[tuple[int, int | None, bool]], pieces: int) -> Any:
    """None if the region is one that cannot be split; all other errors are faults."""
    try:
        return _core.split(graph, [(region, pieces)])
    except memplan.errors.GraphError as error:
        if not re.search(REFUSED, str(error)):
            raise
        return None


@pytest.mark.parametrize("part", range(4))
def test_pieces_make_the_same_rows(part: int, request: pytest.FixtureRequest) -> None:
    tried = done = 0
    for seed in range(part, 10000 if request.config.getoption("--slow") else 600, 4):
        chance = random.Random(seed)
        graph = graph_of(looped_graph(chance, chance.randint(1, 7), 9))
        first = chance.randrange(len(graph.ops))
        last = chance.randint(first + 1, len(graph.ops))
        ops = [k for k in range(first, last) if graph.ops[k].loops]
        again = [chance.random() < 0.2 for _ in ops]
        pieces = chance.randint(1, 6)
        tried += bool(ops)
        region = [(k, 0, a) for k, a in zip(ops, again, strict=True)]
        between = [(k, None, False) for k in range(first, last) if k not in ops and not graph.ops[k].overwrites]
        split = split_unless_refused(graph, sorted([*region, *between], key=lambda one: one[0]), pieces)
        if split is None:
            split = split_unless_refused(graph, region, pieces)
        if split is None:
            continue
        done += bool(ops)
        whole = run_whole(graph, {graph.ops[k].name: 0 for k in ops})
        parts = run_pieces(graph, split)
        for name in graph.outputs:
            assert parts[name] == whole[name], (seed, name)
        plan = memplan.plan(split.graph, "greedy_by_size")  # which is verified
        assert plan.load >= _core.split_floor(graph, STORAGE), seed
    assert done > tried / 4


def test_what_cannot_be_split_says_why() -> None:
    graph = chain()
    with pytest.raises(
        memplan.errors.GraphError, match="'t1:op' cannot be split: it has 1 loops, and none is number 1"
    ):
        _core.split(graph, [([(0, 1, False)], 2)])
    with pytest.raises(memplan.errors.GraphError, match="makes what leaves the region"):
        _core.split(graph, [([(0, 0, True)], 2)])
    with pytest.raises(memplan.errors.GraphError, match="op 't2:op' needs what a region makes, and makes what"):
        _core.split(graph, [([(0, 0, False), (2, 0, False)], 2)])
    with pytest.raises(memplan.errors.GraphError, match="op 't1:op' is in two regions"):
        _core.split(graph, [([(0, 0, False)], 2), ([(0, 0, False)], 2)])


# Statistics


def norm(name: str, source: str, early: str = "") -> dict[str, Any]:
    """A row needs a number of all rows of the source."""
    loop: dict[str, Any] = {"extent": 8, "reads": {source: [0, 1, 1, 0]}, "writes": {name: [0, 1]}}
    loop["statistics"] = {"inputs": [source], "bytes": 4}
    if early:
        loop["early"] = {early: []}
    return {"name": f"{name}:op", "type": "norm", "inputs": [source], "outputs": [name, *early], "loops": [loop]}


def normed(ops: list[dict[str, Any]], **sizes: int) -> _core.Graph:
    tensors = [{"name": name, "shape": [8, size], "dtype": "int8"} for name, size in sizes.items()]
    tensors[0]["kind"] = "input"
    read = {name for op in ops for name in op["inputs"]}
    outputs = [name for op in ops for name in op["outputs"] if name not in read]
    return graph_of({"tensors": tensors, "ops": ops, "outputs": outputs})


def iterations_of(split: _core.SplitGraph, op: int, does: str = "part") -> int:
    return sum(p.iterations[1] - p.iterations[0] for p in split.pieces if (p.of, p.does) == (op, does))


def every(graph: _core.Graph, pieces: int) -> _core.SplitGraph:
    return _core.split(graph, [([(k, 0, False) for k in range(len(graph.ops))], pieces)])


def test_a_region_runs_in_passes_where_statistics_are_needed() -> None:
    ops = [conv("a", "x"), norm("b", "a", "m"), conv("c", "b"), norm("d", "c"), conv("y", "d", 1)]
    graph = normed(ops, x=40, a=100, b=100, c=100, d=100, y=1, m=1)
    split = every(graph, 8)
    assert [iterations_of(split, op) for op in range(5)] == [24, 16, 16, 8, 8]
    assert [iterations_of(split, op, "statistics") for op in (1, 3)] == [8, 8]
    assert set(split.graph.outputs) == {"m", "y"}
    assert not {"a", "b", "c", "d"} & {tensor.name for tensor in split.graph.tensors}
    pieces, whole = run_pieces(graph, split), run_whole(graph, {op.name: 0 for op in graph.ops})
    assert (pieces["y"], pieces["m"]) == (whole["y"], whole["m"])
    assert memplan.plan(graph).peak == 1600 + 8
    # m and y, statistics of two norms, three rows of b, one of c and of d
    assert memplan.plan(split.graph).peak == 8 + 8 + 2 * 4 + 300 + 100 + 100


def test_what_one_pass_makes_whole_is_not_made_again() -> None:
    ops = [conv("a", "x"), norm("b", "a"), conv("y", "b"), {"name": "z", "inputs": ["a"], "outputs": ["z"]}]
    graph = normed(ops, x=40, a=100, b=100, y=1, z=1)
    split = _core.split(graph, [([(0, 0, False), (1, 0, False), (2, 0, False)], 4)])
    assert [iterations_of(split, op) for op in range(3)] == [8, 8, 8]
    pieces, whole = run_pieces(graph, split), run_whole(graph, dict.fromkeys(("a:op", "b:op", "y:op"), 0))
    assert (pieces["y"], pieces["z"]) == (whole["y"], whole["z"])


def test_sums_are_whole_in_the_next_pass() -> None:
    """A mean that is taken from all rows: `sub` reads it whole."""
    rows = {"a": [0, 1, 1, 0]}
    mean = {"name": "mean", "inputs": ["a"], "outputs": ["m"], "loops": [{"extent": 8, "reads": rows, "sums": ["m"]}]}
    sub = {"name": "sub", "inputs": ["a", "m"], "outputs": ["y"]}
    sub["loops"] = [{"extent": 8, "reads": rows, "writes": {"y": [0, 1]}}]
    graph = normed([conv("a", "x"), mean, sub], x=40, a=100, y=1, m=1)
    split = every(graph, 8)
    assert [iterations_of(split, op) for op in range(3)] == [16, 8, 8]
    assert run_pieces(graph, split)["y"] == run_whole(graph, dict.fromkeys(("a:op", "mean", "sub"), 0))["y"]


def test_an_op_in_the_middle_runs_whole_between_two_passes() -> None:
    """A mean that is changed before all rows are: `root` reads and writes it whole."""
    rows = {"a": [0, 1, 1, 0]}
    mean = {"name": "mean", "inputs": ["a"], "outputs": ["m"], "loops": [{"extent": 8, "reads": rows, "sums": ["m"]}]}
    root = {"name": "root", "inputs": ["m"], "outputs": ["r"]}
    scaled = {"name": "scaled", "inputs": ["a", "r"], "outputs": ["y"]}
    scaled["loops"] = [{"extent": 8, "reads": rows, "writes": {"y": [0, 1]}}]
    graph = normed([conv("a", "x"), mean, root, scaled], x=40, a=100, y=1, m=1, r=1)
    region = [(0, 0, False), (1, 0, False), (2, None, False), (3, 0, False)]
    split = _core.split(graph, [(region, 8)])
    assert [piece.of for piece in split.pieces if piece.does == "whole"] == [2]
    assert [iterations_of(split, op) for op in range(4)] == [16, 8, 0, 8]
    chosen = dict.fromkeys(("a:op", "mean", "scaled"), 0)
    assert run_pieces(graph, split)["y"] == run_whole(graph, chosen)["y"]
    plan = memplan.fit(graph, "least", allow=("split", "recompute"))
    assert plan.changes[0].loops[2] == {}
    assert plan.peak == 100 + 8 + 8  # a row of `a`, its mean or the root of that, and y
    root["inputs"] = ["a"]
    graph = normed([conv("a", "x"), mean, root, scaled], x=40, a=100, y=1, m=1, r=1)
    with pytest.raises(memplan.errors.GraphError, match="'root' cannot be split: it reads 'a' whole, which the region"):
        _core.split(graph, [(region, 8)])


def test_what_adds_to_a_sum_runs_in_one_pass() -> None:
    both = conv("a", "x")
    both["outputs"].append("s")
    both["loops"][0]["sums"] = ["s"]
    graph = normed([both, norm("b", "a"), conv("y", "b")], x=40, a=100, b=100, y=1, s=1)
    with pytest.raises(memplan.errors.GraphError, match="'a:op' cannot be split: it adds to a sum, so it cannot run"):
        every(graph, 4)


@pytest.mark.parametrize(
    ("statistics", "message"),
    [
        ({"inputs": ["x"]}, "must have the keys 'inputs' and 'bytes', got .'inputs'."),
        ({"inputs": ["y"], "bytes": 4}, "expected an input of the op"),
        ({"inputs": ["x"], "bytes": 0}, "statistics must have at least 1 byte, got 0"),
        ({"inputs": [], "bytes": 4}, "no input that is counted in statistics is read by rows"),
        ({"inputs": ["x"], "bytes": 4}, "iterations read rows of input 0 twice, which is counted in statistics"),
    ],
)
def test_statistics_that_are_wrong(statistics: dict[str, Any], message: str) -> None:
    op = conv("a", "x")
    op["loops"][0]["statistics"] = statistics
    with pytest.raises(memplan.errors.GraphError, match=message):
        normed([op], x=40, a=100)


def test_statistics_count_all_rows_and_no_kernel_runs_such_a_loop_in_order() -> None:
    op = norm("a", "x")
    with pytest.raises(memplan.errors.GraphError, match="8 iterations reads 1 rows of tensor 'x' in each, which has 9"):
        graph_of(
            {
                "tensors": [
                    {"name": "x", "shape": [9, 4], "dtype": "int8", "kind": "input"},
                    {"name": "a", "shape": [8, 4], "dtype": "int8"},
                ],
                "ops": [op],
                "outputs": ["a"],
            }
        )
    with pytest.raises(memplan.errors.GraphError, match="loop 0, which has statistics, so that its inputs are read"):
        normed([op | {"ordered": [0]}], x=4, a=4)


def test_passes_are_taken_where_ops_may_run_again() -> None:
    ops = [conv("a", "x", 1), norm("b", "a"), conv("y", "b", 1)]
    graph = normed(ops, x=4, a=100, b=100, y=1).to_dict()
    assert memplan.fit(graph, "least", allow=("split",)).peak == 800 + 100 + 8 + 4  # a is whole
    plan = memplan.fit(graph, "least", allow=("split", "recompute"))
    assert plan.peak == 100 + 100 + 8 + 4
    assert [change.reruns for change in plan.changes] == [("a:op",)]
    graph["ops"][0]["recompute"] = False
    assert memplan.fit(graph, "least", allow=("split", "recompute")).peak == 800 + 100 + 8 + 4
