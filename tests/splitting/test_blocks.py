"""Tensors between regions in blocks of rows: the rows are those of the whole, and a block is free when all are read."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest

import memplan
from builders.looped import looped_graph
from builders.splitting import REFUSED
from memplan import _core
from memplan.importers.graph_dict import graph_of
from oracles.rows import run_pieces, run_whole

STORAGE = _core.StorageOptions(["intermediate", "output", "workspace"], 1, True, [], [], True)


def op(name: str, *sources: str, window: int = 1, rows: int = 8, **loop: Any) -> dict[str, Any]:
    reads = {source: [0, 1, window, window // 2] for source in sources}
    one = {"extent": rows, "reads": reads, "writes": {name: [0, 1]}, **loop}
    return {"name": f"{name}:op", "type": "f", "inputs": [*sources], "outputs": [name], "loops": [one]}


def graph(ops: list[dict[str, Any]], rows: int = 8, **widths: int) -> _core.Graph:
    tensors = [
        {"name": name, "shape": [rows, widths.get(name, 10)], "dtype": "int8"}
        for name in ("x", *(one["outputs"][0] for one in ops))
    ]
    tensors[0]["kind"] = "input"
    return graph_of({"tensors": tensors, "ops": ops, "outputs": [ops[-1]["outputs"][0]]})


def blocks_of(whole: _core.Graph, split: Any) -> set[str]:
    """Tensors that one region leaves for another, and that are never whole."""
    names = {tensor.name for tensor in split.graph.tensors}
    parts = {name.rpartition("/")[0] for name in names if name.endswith("of8")}
    return {tensor.name for tensor in whole.tensors} & parts - names


@pytest.mark.parametrize("window", [1, 3])
def test_a_block_is_free_after_its_last_row(window: int) -> None:
    whole = graph([op("t", "x"), op("u", "t", window=window), op("y", "u")], t=100, u=100)
    regions = [([(k, 0, False)], 8) for k in range(3)]
    joined, split = (_core.split(whole, [(*one, blocks) for one in regions]) for blocks in (False, True))
    assert blocks_of(whole, joined) == set()
    assert blocks_of(whole, split) == {"t", "u"}
    load = 800 + 100 + (0 if window == 1 else 300)  # a row that is written, and those that are gathered for it
    assert _core.buffers_of(split.graph, STORAGE).problem.load == load
    assert _core.buffers_of(joined.graph, STORAGE).problem.load == 1600
    chosen = {one.name: 0 for one in whole.ops}
    assert run_pieces(whole, split)["y"] == run_whole(whole, chosen)["y"]
    assert any(piece.does == "gather" for piece in split.pieces) is (window > 1)
    assert memplan.plan(split.graph).peak == load


def test_statistics_of_blocks_are_counted_block_by_block() -> None:
    norm = op("u", "t", statistics={"inputs": ["t"], "bytes": 8})
    whole = graph([op("t", "x"), norm, op("y", "u")], t=100)
    split = _core.split(whole, [([(0, 0, False)], 8, True), ([(1, 0, False), (2, 0, False)], 8)])
    counted = [piece for piece in split.pieces if piece.does == "statistics"]
    assert [piece.iterations for piece in counted] == [(k, k + 1) for k in range(8)]
    assert run_pieces(whole, split)["y"] == run_whole(whole, {one.name: 0 for one in whole.ops})["y"]


def reader(**changes: Any) -> dict[str, Any]:
    return {**op("u", "t"), **changes}


@pytest.mark.parametrize(
    ("why", "second"),
    [
        ("read whole", reader(loops=[])),
        ("read in no region", None),
        ("read along another axis", op("u", "t") | {"loops": [{"extent": 8, "reads": {"t": [1, 1, 1, 0]}}]}),
        ("needed early", {**op("u", "t"), "outputs": ["u", "e"]}),
        ("viewed", reader(alias=[{"output": "u", "input": "t"}])),
    ],
)
def test_what_needs_the_whole_gets_it(why: str, second: dict[str, Any] | None) -> None:
    first, last = op("t", "x"), op("y", "u")
    two = second or op("u", "t")
    spec = graph([first, op("u", "t"), last], t=8, u=8).to_dict()
    if why == "needed early":
        spec["tensors"].append({"name": "e", "shape": [1, 1], "dtype": "int8"})
        two["loops"][0]["early"] = {"e": ["t"]}
    elif why == "read along another axis":
        two["loops"][0]["writes"] = {"u": [1, 1]}
    spec["ops"] = [first, two, last]
    whole = graph_of(spec)
    regions: list[Any] = [([(0, 0, False)], 8, True), ([(2, 0, False)], 8, True)]
    if second is not None and second.get("loops") != []:
        regions.append(([(1, 0, False)], 8, True))
    split = _core.split(whole, regions)
    assert "t" not in blocks_of(whole, split)
    chosen = {whole.ops[k].name: 0 for k in (0, 2)}
    if why not in ("read along another axis", "needed early", "viewed"):
        assert run_pieces(whole, split)["y"] == run_whole(whole, chosen)["y"]


@pytest.mark.parametrize("part", range(2))
def test_random_regions_leave_blocks(part: int, request: pytest.FixtureRequest) -> None:
    some = gathered = lower = 0
    for seed in range(part, 6000 if request.config.getoption("--slow") else 600, 2):
        chance = random.Random(seed)
        whole = graph_of(looped_graph(chance, chance.randint(2, 7), 9))
        count = len(whole.ops)
        cuts = sorted(chance.sample(range(1, count), min(count - 1, chance.randint(1, 2))))
        regions: list[Any] = []
        for first, last in zip([0, *cuts], [*cuts, count], strict=True):
            ops = [(k, 0, chance.random() < 0.2) for k in range(first, last) if whole.ops[k].loops]
            if ops:
                regions.append((ops, chance.randint(1, 6), True))
        try:
            split, joined = _core.split(whole, regions), _core.split(whole, [region[:2] for region in regions])
        except memplan.errors.GraphError as error:
            if not re.search(REFUSED, str(error)):
                raise
            continue
        names = {tensor.name for tensor in split.graph.tensors}
        some += any(tensor.name not in names for tensor in joined.graph.tensors)
        gathered += any(piece.does == "gather" for piece in split.pieces)
        rows = run_whole(whole, {whole.ops[k].name: 0 for region in regions for k, *_ in region[0]})
        parts = run_pieces(whole, split)
        for name in whole.outputs:
            assert parts[name] == rows[name], (seed, name)
        plan = memplan.plan(split.graph, "greedy_by_size")  # which is verified
        assert plan.load >= _core.split_floor(whole, STORAGE), seed
        lower += plan.load < memplan.plan(joined.graph, "greedy_by_size").load
    assert some > 30
    assert gathered > 15
    assert lower > 5


def norms(count: int, rows: int = 64, **widths: int) -> dict[str, Any]:
    """Convolutions and norms in turns, over tensors of one width if it is not given; the first and last are small."""
    ops, last = [op("c0", "x", window=3, rows=rows)], "c0"
    for k in range(1, count):
        ops.append(op(f"n{k}", last, rows=rows, statistics={"inputs": [last], "bytes": 8}))
        ops.append(op(f"c{k}", f"n{k}", window=3, rows=rows))
        last = f"c{k}"
    for one in ops:
        one["cost"] = 1e6 if one["name"][0] == "c" else 1.0
    return graph([*ops, op("y", last, rows=rows)], rows, x=1, y=1, **widths).to_dict()


def test_fit_leaves_blocks_where_both_sides_do_not_fit(tmp_path: Path) -> None:
    net = norms(4)
    plan = memplan.fit(net, 640 + 180, allow=("split", "recompute"), inplace=False)
    left = {name for change in plan.changes for name in change.blocks}
    assert left
    assert plan.added_cost < 1e6  # no convolution runs twice
    plan.to_json(tmp_path / "plan.json")
    assert memplan.read_plan(tmp_path / "plan.json").changes == plan.changes
    narrow = memplan.fit(norms(4, c2=2, n3=2, c3=2), 640 + 300, allow=("split", "recompute"), inplace=False)
    assert {name for change in narrow.changes for name in change.blocks} == {"c0", "c1"}  # else both sides fit
    enough = memplan.fit(net, 2 * 640 + 180, allow=("split", "recompute"), inplace=False)
    assert not any(change.blocks for change in enough.changes)
