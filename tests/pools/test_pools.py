"""Plans in several pools of memory: against trying everything, what they hold, and what is refused."""

from __future__ import annotations

import itertools
import json
import random
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import memplan
from builders import graphs
from builders.pools import solve
from memplan import InfeasibleError
from memplan.draw import bands
from memplan.plans import Pool
from memplan.plans.pools_text import costs_table
from memplan.printing.tables import text as tables_text
from oracles import pools as oracle

KiB = 1024
LETTERS = memplan.Problem([4, 4, 4, 4, 8], [0, 0, 1, 2, 0], [2, 3, 4, 4, 4], names=list("abcde"))
NETWORK: dict[str, Any] = graphs.graph(
    [
        graphs.tensor("x", 4 * KiB, "input"),
        graphs.tensor("a", 4 * KiB),
        graphs.tensor("b", 4 * KiB),
        graphs.tensor("half", 2 * KiB),
        graphs.tensor("y", 6 * KiB),
    ],
    graphs.op("conv", "x", "a", type="Conv", workspace=KiB),
    graphs.op("relu", "a", "b", type="Relu", inplace=["b a"]),
    graphs.op("cut", "b", "half", type="Slice"),
    graphs.op("cat", "b half", "y", type="Concat"),
    outputs="y",
)
SRAM, DRAM = Pool("sram", 12), Pool("dram")


@pytest.mark.few(3)
@pytest.mark.parametrize("kind", oracle.POOL_KINDS)
def test_small_problems_are_solved_and_proven(kind: str) -> None:
    """What tests/benchmarks/pools_small.py does with more of them."""
    for seed in range(20):
        made = oracle.pooled(kind, seed, most=9)
        solved = solve(made)
        value = None
        if solved.pool is not None:
            assert not made.faults(solved.pool, solved.offset), seed
            value = made.value(solved.pool, solved.offset)
        assert solved.proven, seed
        assert oracle.less_by_assignments(made, value) is False, seed


def test_oracles_agree() -> None:
    for seed in range(12):
        made = oracle.pooled("layouts", seed, 3, 4)
        if oracle.trials(made) <= 10**7:
            best = oracle.best_by_trying(made)
            assert oracle.less_by_assignments(made, best) is False
            assert oracle.less_by_cp_sat(made, best) is False
            worse = None if best is None else (best[0] + 1, best[1])
            assert oracle.less_by_assignments(made, worse) is (best is not None)


def test_padding_is_not_counted_where_parts_of_shapes_begin_in_it() -> None:
    """Offsets are multiples of 8; a part that begins 3 bytes in ends up in what is padding elsewhere."""
    problem = memplan.Problem([10, 14], [0, 0], [2, 2], [8, 8], parts=[(1, 3, 14, 0, 2)])
    plan = memplan.plan(problem, pools=[Pool("sram", 22), Pool("dram")])
    assert plan.pools is not None
    assert plan.pools.cost == plan.pools.cost_bound == 0


def test_a_plan_says_where_everything_lies_and_what_it_costs() -> None:
    plan = memplan.plan(LETTERS, pools=[SRAM, Pool("dram", base=4096, alignment=4)])
    pools = plan.pools
    assert pools is not None
    assert list(pools) == ["sram", "dram"]
    sram, dram = pools["sram"], pools["dram"]
    assert (sram.peak, sram.capacity, sram.buffers, sram.optimal, sram.gap) == (12, 12, 3, True, 0.0)
    assert (pools.cost, pools.cost_bound, pools.cost_optimal) == (8, 8, True)
    assert (sram.cost, dram.cost, dram.accessed) == (0, 8, 8)
    for slot in plan:
        pool = pools[slot.pool]
        assert pool.base <= slot.address <= pool.base + pool.peak - slot.bytes
        assert slot.address - pool.base == slot.offset - pool.begin
    assert plan.peak == 20 == plan.load == plan.lower_bound
    assert plan.tensors.pool == tuple(slot.pool for slot in plan)
    assert plan.tensors["b"] == plan["b"]
    assert "pool" in plan.tensors.columns
    assert "pool" not in memplan.plan(LETTERS).tensors.columns
    assert memplan.plan(LETTERS)["a"].address == memplan.plan(LETTERS)["a"].offset
    assert "dram" in str(pools)
    assert "proven to be the least" in str(pools)
    assert "sram" in pools._repr_html_()
    assert "12 B of 12 B" in plan.summary()
    assert "in 2 pools, cost 8, proven to be the least: " in str(plan)
    assert pools != 3
    assert repr(pools) == "<memplan.plans.PlannedPools: sram 12 bytes, dram 8 bytes; cost 8, at least 8>"
    with pytest.raises(KeyError, match="no pool named 'flash'; it has 'sram', 'dram'"):
        pools["flash"]


def test_what_is_accessed_often_comes_first() -> None:
    problem = memplan.Problem([8, 8, 8], [0, 0, 0], [1, 1, 1], names=list("abc"))
    for often in "abc":
        plan = memplan.plan(problem, pools=[Pool("sram", 8), DRAM], accesses={often: 5})
        assert plan[often].pool == "sram"
        assert plan.pools is not None
        assert plan.pools.cost == 16
    assert memplan.plan(problem, pools=[Pool("sram", 8), DRAM], accesses=[1, 2, 3])["c"].pool == "sram"


def test_costs_of_pools_decide() -> None:
    problem = memplan.Problem([8, 8], [0, 0], [1, 1])
    plan = memplan.plan(problem, pools=[Pool("far", cost=0.3), Pool("near", 8, cost=0.1)], accesses=[1, 3])
    assert plan["#1"].pool == "near"
    assert plan.pools is not None
    assert plan.pools.cost == plan.pools.cost_bound == 4.8


def test_a_graph_goes_where_kinds_types_and_names_may() -> None:
    pools = [Pool("sram", "16KiB", accepts=["workspace", "Conv", "y"]), Pool("dram")]
    plan = memplan.plan(NETWORK, pools=pools)
    assert {slot.pool for slot in (plan["conv.workspace"], plan["a"], plan["y"])} == {"sram"}
    assert plan["half"].pool == "dram"
    assert plan.lower_bound <= plan.peak
    plan.verify()
    everything = memplan.plan(NETWORK, pools=[Pool("sram", "16KiB"), DRAM])
    assert everything.pools is not None
    assert everything.pools.cost == 0
    assert everything.sharing


def test_accesses_of_a_graph_are_writes_and_reads() -> None:
    plan = memplan.plan(NETWORK, inplace=False, zero_copy=False, pools=[Pool("one", cost=1)])
    assert plan.pools is not None
    # a: written and read; b: written, read twice; half: written and read; y: written; workspace: both
    assert plan.pools.cost == (2 * 4 + 3 * 4 + 2 * 2 + 6 + 2 * 1) * KiB
    counted = memplan.plan(NETWORK, inplace=False, pools=[Pool("one", cost=1)], accesses={"a": 0, "b": 1})
    assert counted.pools is not None
    assert counted.pools.cost == (4 + 2 * 2 + 6 + 2) * KiB


def test_what_is_not_copied_is_not_accessed() -> None:
    pieces = graphs.graph(
        "a 4, b 4, ab 8, view 8, cut 4, y 4",
        graphs.op("a", "", "a"),
        graphs.op("b", "", "b"),
        graphs.op("cat", "a b", "ab", concat=["ab a", "ab b 4"]),
        graphs.op("view", "ab", "view", alias=["view ab"]),
        graphs.op("cut", "view", "cut", slice=["cut view"]),
        graphs.op("y", "cut", "y"),
        outputs="y",
    )
    plan = memplan.plan(pieces, pools=[Pool("one", cost=1)])
    assert plan.pools is not None
    assert len(plan.sharing) == 3
    assert plan.pools.cost == 4 + 4 + 4 + 4  # two parts are written, the cut is read, and the result is written


def test_orders_and_pools_go_together() -> None:
    wide = {"a": ["x"], "b": ["x"], "c": ["a"], "d": ["b"], "y": ["c", "d"]}
    sizes = {"a": 10, "b": 8, "c": 1, "d": 1, "y": 1}
    graph = {
        "tensors": [{"name": "x", "bytes": 4, "kind": "input"}]
        + [{"name": name, "bytes": size} for name, size in sizes.items()],
        "ops": [{"name": name, "inputs": inputs, "outputs": [name]} for name, inputs in wide.items()],
        "outputs": ["y"],
    }
    costs = []
    for order in ("given", "best"):
        plan = memplan.plan(graph, pools=[Pool("sram", 11), DRAM], order=order)
        assert plan.pools is not None
        assert plan.ordered_by == order
        costs.append(plan.pools.cost)
    assert costs == [16, 0]


def test_json_keeps_pools(tmp_path: Path) -> None:
    plan = memplan.plan(NETWORK, pools=[Pool("sram", "6KiB", alignment=64, base=KiB, cost=0.5), Pool("dram", cost=2)])
    plan.to_json(tmp_path / "plan.json")
    again = memplan.read_plan(tmp_path / "plan.json")
    assert again.pools == plan.pools
    assert [slot.address for slot in again] == [slot.address for slot in plan]


@pytest.mark.parametrize(
    ("where", "value", "match"),
    [
        (("buffers", 0, "pool"), "flash", "pool of a buffer must be one of 'sram', 'dram', got 'flash'"),
        (("buffers", 0, "pool"), "dram", "is not inside of pool 'dram'"),
        (("pools", 1, "name"), "sram", "must have different names"),
        (("pools", 0), 3, r"pools\[0\] must be a mapping, got int"),
        (("pools", 0, "name"), 3, "name must be text, got 3"),
        (("pools", 0, "capacity"), 3, "pool 'sram' has 3 bytes, and needs 12"),
        (("pools", 0, "capacity"), "3", "capacity must be an integer >= 0, got '3'"),
        (("pools", 0, "alignment"), 0, "alignment must be an integer >= 1, got 0"),
        (("pools", 0, "alignment"), 5, "is not aligned"),
        (("pools", 1, "begin"), 3, "pool 'dram' begins at 3, where another pool ends at 12"),
        (("pools", 0, "cost_per_byte"), -1, "cost_per_byte must be >= 0 and finite, got -1"),
        (("cost_bound",), None, "cost_bound must be a number or None, got None"),
    ],
)
def test_files_that_are_wrong_are_refused(tmp_path: Path, where: tuple[Any, ...], value: Any, match: str) -> None:
    memplan.plan(LETTERS, pools=[SRAM, DRAM]).to_json(tmp_path / "plan.json")
    spec = json.loads((tmp_path / "plan.json").read_text())
    entry = spec
    for key in where[:-1]:
        entry = entry[key]
    entry[where[-1]] = value
    (tmp_path / "plan.json").write_text(json.dumps(spec))
    with pytest.raises(ValueError, match=match):
        memplan.read_plan(tmp_path / "plan.json")


def test_the_check_finds_a_pool_that_does_not_take_a_buffer() -> None:
    plan = memplan.plan(LETTERS, pools=[Pool("sram", 12), Pool("dram")])
    assert plan.pools is not None
    takes = np.ones((5, 2), dtype=bool)
    takes[:, 1] = False
    of_buffer = plan.pools.of_buffer
    wrong = memplan.plans.PlannedPools(list(plan.pools.values()), of_buffer, 0, takes)
    with pytest.raises(memplan.errors.InvalidPlanError, match="lies in pool 'dram', which does not take it"):
        replace(plan, pools=wrong).verify()


@pytest.mark.parametrize(
    ("pools", "match"),
    [
        ([Pool("sram", 12)], "what no other pool takes does not fit into 'sram': no plan fits a capacity of 12 bytes"),
        ([Pool("sram", 7), Pool("x", 9, accepts=["a"])], "buffer 'e' of 8 bytes fits in none of .*'sram' of 7 bytes"),
        ([Pool("sram", 10), Pool("x", 9)], "does not fit into 'sram' and 'x': .* 20 bytes are needed"),
    ],
)
def test_what_does_not_fit_is_named(pools: list[Pool], match: str) -> None:
    with pytest.raises(InfeasibleError, match=f"(?s){match}") as raised:
        memplan.plan(LETTERS, pools=pools)
    assert raised.value.proven
    assert raised.value.buffers


def test_loads_that_fit_may_not_be_placeable() -> None:
    """The load of 6 bytes has no plan below 7, and the only other pool has no room at all."""
    size, first, last = [2, 4, 4, 1, 2, 1, 1], [0, 4, 0, 2, 5, 3, 2], [2, 6, 3, 5, 9, 5, 4]
    puzzle = memplan.Problem(size, first, last)
    assert puzzle.load == 6
    with pytest.raises(InfeasibleError, match="no plan fits into 'sram', which have 6 bytes together") as raised:
        memplan.plan(puzzle, pools=[Pool("sram", 6)])
    assert raised.value.proven
    plan = memplan.plan(puzzle, pools=[Pool("sram", 6), DRAM])
    assert plan.pools is not None
    assert plan.pools.cost == plan.pools.cost_bound == 1


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"pools": Pool("a")}, TypeError, "pools must be a list of memplan.plans.Pool"),
        ({"pools": ["a"]}, TypeError, "pools must hold memplan.plans.Pool, got 'a'"),
        ({"pools": [DRAM, Pool("dram")]}, ValueError, "different names, got 'dram' 2 times"),
        ({"pools": [Pool("a", cost=1), Pool("b")]}, ValueError, "pool 'a' has one, and 'b' has none"),
        ({"pools": [Pool("a", cost=1e-12)]}, ValueError, "at most nine decimals"),
        ({"pools": [Pool("a", accepts=["z"])]}, ValueError, "accepts must name buffers of the problem, got 'z'"),
        ({"pools": [Pool("a", accepts=[5])]}, ValueError, "accepts must hold 0 to 4, got 5"),
        ({"pools": [Pool("a", accepts=[0])]}, ValueError, "none of the pools 'a' accepts 'b', 'c', 'd', 'e'"),
        ({"pools": [DRAM], "accesses": {"z": 1}}, ValueError, "accesses must name buffers of the problem, got 'z'"),
        ({"pools": [DRAM], "accesses": [1]}, ValueError, "one count per buffer, 5, got 1"),
        ({"pools": [DRAM], "accesses": [1, 1, 1, 1, -1]}, ValueError, r"accesses\[4\] must be an integer >= 0, got -1"),
        ({"pools": [DRAM], "accesses": "a"}, TypeError, "accesses must be counts"),
        ({"pools": [Pool("a", cost=2**62)]}, ValueError, "costs of pools are too large"),
        ({"pools": [DRAM], "capacity": 3}, TypeError, "capacity does not go with pools: each pool has a capacity"),
        ({"pools": [DRAM], "on_improvement": print}, TypeError, "on_improvement does not go with pools"),
        ({"accesses": {"a": 1}}, TypeError, "accesses needs pools"),
    ],
)
def test_bad_input_is_refused(options: dict[str, Any], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        memplan.plan(LETTERS, **options)


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"name": ""}, TypeError, "name of a pool must be text"),
        ({"capacity": -1}, ValueError, "pool 'p': capacity must be >= 0"),
        ({"alignment": 0}, ValueError, "pool 'p': alignment must be >= 1"),
        ({"base": 3, "alignment": 2}, ValueError, "pool 'p': base must be a multiple of its alignment 2, got 3"),
        ({"cost": -1}, ValueError, "pool 'p': cost must be >= 0 and finite, got -1"),
        ({"cost": "1"}, TypeError, "pool 'p': cost must be a number or None"),
        ({"accepts": "weight"}, TypeError, "pool 'p': accepts must be a collection"),
        ({"accepts": [1.5]}, TypeError, "pool 'p': accepts must hold names or positions"),
    ],
)
def test_pools_are_checked(options: dict[str, Any], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        Pool(**{"name": "p", **options})


def test_bad_input_for_graphs_is_refused() -> None:
    with pytest.raises(memplan.errors.GraphError, match=r"accepts must hold kinds, types of ops and names .*'relu_'"):
        memplan.plan(NETWORK, pools=[Pool("a", accepts=["relu_"])])
    with pytest.raises(TypeError, match="accepts must hold kinds, types of ops and names, got 3"):
        memplan.plan(NETWORK, pools=[Pool("a", accepts=[3])])
    with pytest.raises(TypeError, match="accesses must be counts by name for graphs, got list"):
        memplan.plan(NETWORK, pools=[DRAM], accesses=[1])
    with pytest.raises(ValueError, match="none of the pools 'a' accepts"):
        memplan.plan(NETWORK, pools=[Pool("a", accepts=["Relu"])])
    with pytest.raises(ValueError, match="base must be a multiple of the alignment 64 of buffer 'a'"):
        memplan.plan(NETWORK, pools=[Pool("p", base=32)], alignment=64)


@pytest.mark.parametrize("planner", ["first_fit", "greedy_by_size", "valley:work=100000"])
def test_every_planner_places(planner: str) -> None:
    rows = np.random.default_rng(0)
    first = rows.integers(0, 20, 30)
    problem = memplan.Problem(rows.integers(1, 50, 30), first, first + rows.integers(1, 8, 30))
    plan = memplan.plan(problem, planner, pools=[Pool("sram", problem.load // 2, alignment=8), DRAM])
    assert plan.planner == planner
    assert plan.pools is not None
    assert plan.pools.cost >= plan.pools.cost_bound > 0


def test_a_time_limit_keeps_the_best() -> None:
    rows = np.random.default_rng(1)
    first = rows.integers(0, 300, 400)
    problem = memplan.Problem(rows.integers(1, 500, 400), first, first + rows.integers(1, 30, 400))
    plan = memplan.plan(problem, pools=[Pool("sram", problem.load // 2), DRAM], time_limit=0.01)
    assert plan.pools is not None
    assert plan.pools["sram"].peak <= problem.load // 2


def test_many_buffers_take_seconds_and_are_exchanged() -> None:
    """All work counts, so that a search ends by itself; the sweep's choices cost 181,000."""
    rows = random.Random(2)
    first = [rows.randrange(1000) for _ in range(1000)]
    size = [rows.randint(1, 50) * 64 for _ in range(1000)]
    problem = memplan.Problem(size, first, [step + rows.randint(1, 12) for step in first])
    begin = time.process_time()
    plan = memplan.plan(problem, pools=[Pool("sram", problem.load // 2), DRAM])
    assert time.process_time() - begin < 8
    assert plan.pools is not None
    assert 156_000 < plan.pools.cost_bound < plan.pools.cost < 176_000


def test_pictures_show_pools_one_above_the_other() -> None:
    """A capacity that is near is drawn; what lies above begins at a round address, and counts from its base."""
    plan = memplan.plan(LETTERS, pools=[Pool("sram", 14), Pool("dram", 800, base=4096)])
    ax = plan.plot()
    ax.figure.draw_without_rendering()
    names = [label.get_text() for label in ax.child_axes[0].get_yticklabels()]
    assert names == ["sram\n12 B\nof 14 B", "dram\n8 B\nof 800 B"]
    capacity = [line for line in ax.lines if line.get_label() == "capacity"]
    assert [line.get_ydata()[0] for line in capacity] == [14]
    drawn = bands.spaced(plan)
    assert [(band.begin, band.end, band.limit) for band in bands.bands(drawn)] == [(0, 14, 14), (16, 24, None)]
    for slot, there in zip(plan, drawn, strict=True):
        assert (slot.pool, slot.address) == (there.pool, there.address)
    texts = [label.get_text() for label in ax.get_yticklabels()]
    assert texts[0] == "0"
    assert "4096" in texts
    assert ax.get_ylabel() == "address in the pool (B)"
    assert "5 buffers in 2 pools, cost 8, proven to be the least" in ax.get_title(loc="left")
    plain = memplan.plan(LETTERS).plot()
    assert not plain.child_axes
    assert plain.get_ylabel() == "address (B)"


def test_pools_side_by_side() -> None:
    plans = [memplan.plan(LETTERS, pools=[Pool("sram", room), DRAM]) for room in (12, 8)]
    same, other = memplan.draw.plot_plans([plans[0], plans[0]])[0], memplan.draw.plot_plans(plans)
    assert same.get_ylabel() == "address in the pool (B)"
    assert other[0].get_ylabel() == "address (B)"
    elsewhere = sum(a.pool != b.pool or a.address != b.address for a, b in zip(*plans, strict=True))
    assert f"{elsewhere} buffers elsewhere" in other[1].get_title(loc="left")


def test_names_of_small_pools_stand_apart() -> None:
    pools = [Pool(name, 1, accepts=[k]) for k, name in enumerate("abc")] + [DRAM]
    plan = memplan.plan(([1, 1, 1, 1000], [0] * 4, [1] * 4), pools=pools)
    places = bands.places_of_names(bands.bands(bands.spaced(plan)), 20)
    assert all(after - before >= 40 for before, after in itertools.pairwise(places))
    ax = plan.plot(colour_by="size", highlight="#3")
    assert len(ax.child_axes[0].get_yticks()) == 4


def test_a_notebook_names_pools() -> None:
    shown = memplan.plan(LETTERS, pools=[Pool("sram", 14), DRAM])._repr_html_()
    assert '>sram</th><td style="text-align: left; padding: 0.1em 0">12 B of 14 B' in shown
    assert "<img" in shown


# What is said of pools


def test_an_explanation_names_what_costs_most() -> None:
    plan = memplan.plan(LETTERS, pools=[SRAM, DRAM], accesses={"e": 2})
    assert plan.pools is not None
    costs = plan.pools.costs()
    assert sum(costs.values()) == plan.pools.cost
    assert list(costs.values()) == sorted(costs.values(), reverse=True)
    explanation = plan.explain()
    assert explanation.sentences[0].startswith("sram holds 12 B of 12 B; dram holds 8 B. All accesses: cost ")
    first = plan[next(iter(costs))]
    assert f"{first.name} in dram" in explanation.sentences[1]
    text = str(explanation)
    assert "What costs most" in text
    assert "fragmentation" not in text
    assert "makes the peak" not in text
    assert f"and {len(costs) - 1} more" in tables_text(costs_table(plan, 1))


def test_a_plan_without_costs_or_from_a_file_is_explained(tmp_path: Path) -> None:
    free = memplan.plan(LETTERS, pools=[DRAM])
    assert "What costs most" not in str(free.explain())
    assert "All accesses: cost 0, proven to be the least." in free.explain().sentences[0]
    plan = memplan.plan(LETTERS, pools=[SRAM, DRAM])
    plan.to_json(tmp_path / "plan.json")
    assert memplan.read_plan(tmp_path / "plan.json").explain().sentences[0] == plan.explain().sentences[0]


def test_a_difference_is_one_of_pools(tmp_path: Path) -> None:
    one, other = (memplan.plan(LETTERS, pools=[Pool("sram", room), DRAM]) for room in (12, 8))
    diff = one.diff(other)
    assert one.pools is not None
    assert other.pools is not None
    assert str(diff).startswith(f"All accesses: cost {one.pools.cost}, proven to be the least, before; ")
    rows = {line.split("  ")[1].strip(): line.split() for line in str(diff).splitlines() if line.startswith("  ")}
    assert rows["peak of sram"][3:5] == ["12", "B"]
    assert rows["cost of accesses"][-1] == f"{other.pools.cost - one.pools.cost:+,}"
    assert "sram" in "".join(line for line in str(diff).splitlines() if "→" in line)
    assert one.diff(one).same == len(one)
    diff.to_html(tmp_path / "diff.html")
    assert "All accesses" in (tmp_path / "diff.html").read_text()
    assert "The peak" in str(one.diff(memplan.plan(LETTERS)))


def test_a_pool_without_a_capacity_takes_what_there_was_no_time_for() -> None:
    problem = memplan.generate.layered(20_000)
    plan = memplan.plan(problem, pools=[Pool("sram", problem.load // 4), DRAM], time_limit=1e-4)
    assert plan.pools is not None
    assert plan.pools["dram"].buffers > 0


@pytest.mark.parametrize("pool", [-1, 2])
def test_a_buffer_in_no_pool_is_a_fault(pool: int) -> None:
    plan = memplan.plan(NETWORK, pools=[Pool("sram", "6KiB"), DRAM])
    assert plan.pools is not None
    assert plan.pools.faults(plan) == []
    plan.pools.of_buffer = np.full(len(plan), pool)
    assert f"lies in pool {pool}, and there are 2" in plan.pools.faults(plan)[0].message
