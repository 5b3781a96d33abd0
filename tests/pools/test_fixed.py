"""Pins, reserved bytes, and what lies together or apart, in plans in several pools."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

import memplan
from builders import graphs
from memplan.cli import main
from memplan.plans import Pool

LETTERS = memplan.Problem([4, 4, 4, 4, 8], [0, 0, 1, 2, 0], [2, 3, 4, 4, 4], names=list("abcde"))
SRAM, DRAM = Pool("sram", 12), Pool("dram", alignment=4)
NETWORK: dict[str, Any] = graphs.graph(
    "x 64 input, a 64, b 64, y 32",
    graphs.op("conv", "x", "a", workspace=16),
    graphs.op("relu", "a", "b", inplace=["b a"]),
    graphs.op("pool", "b", "y"),
    outputs="y",
)


def places(plan: memplan.Plan) -> dict[str, tuple[str | None, int]]:
    """Per tensor its pool and its offset there."""
    assert plan.pools is not None
    begin = {name: memory.begin for name, memory in plan.pools.items()}
    return {slot.name: (slot.pool, slot.offset - begin[slot.pool or ""]) for slot in plan}


def planned(source: Any = LETTERS, pools: tuple[Pool, ...] = (SRAM, DRAM), **asked: Any) -> memplan.Plan:
    return memplan.plan(source, pools=pools, **asked)


def test_a_pin_says_in_which_pool() -> None:
    plan = planned(pin={"a": ("dram", 16), "c": ("sram", 8)})
    assert places(plan)["a"] == ("dram", 16)
    assert places(plan)["c"] == ("sram", 8)
    assert plan.pools is not None
    assert (plan.pools["dram"].peak, plan.pools.cost_optimal) == (20, True)
    assert plan.problem.pins is not None
    assert plan.problem.pins[0] == plan["a"].offset == plan.pools["dram"].begin + 16


def test_a_pin_without_a_pool_is_in_the_only_one_that_takes_it() -> None:
    only = Pool("sram", 12, accepts=["b", "c", "d", "e"])
    assert places(planned(pools=(only, DRAM), pin={"a": 8}))["a"] == ("dram", 8)
    given = memplan.Problem([4, 4], [0, 0], [1, 1], names=["a", "b"], pins=[8, -1], reserved=[(0, 2, 0, 9)])
    assert places(memplan.plan(given, pools=[DRAM])) == {"a": ("dram", 8), "b": ("dram", 4)}


def test_reserved_bytes_are_those_of_a_pool() -> None:
    asked = [("sram", 0, 4), ("dram", 0, 8, 0, 2)]
    plan = planned(reserved=asked)
    spec = Pool("sram", 12, reserved=[(0, 4)]), Pool("dram", alignment=4, reserved=[("0B", 8, 0, 2)])
    assert places(plan) == places(planned(pools=spec))
    for slot in plan:
        begin = places(plan)[slot.name][1]
        assert not (slot.pool == "sram" and begin < 4)
        assert not (slot.pool == "dram" and begin < 8 and slot.first < 2)
    assert plan.pools is not None
    assert plan.pools.cost == plan.pools.cost_bound == 12
    assert plan.problem.reserved is not None


def test_what_is_together_is_in_one_pool() -> None:
    plan = planned(together=[("a", "d", 4)], apart=[("b", "c")], contiguous=[("b", "e")])
    at = places(plan)
    assert at["d"] == (at["a"][0], at["a"][1] + 4)
    assert at["e"] == (at["b"][0], at["b"][1] + 4)
    assert plan.problem.together is not None
    assert plan.pools is not None
    assert plan.pools.cost_optimal
    # at 2 bytes from each other, no pool of an alignment of 4 has them
    assert {places(planned(together=[("a", "d", 2)]))[name][0] for name in "ad"} == {"sram"}


def test_a_graph_has_pins_in_pools_too() -> None:
    pools = (Pool("sram", 160), DRAM)
    plan = planned(NETWORK, pools, pin={"b": ("dram", 64)}, reserved=[("sram", 0, 16)])
    at = places(plan)
    assert at["b"] == ("dram", 64)
    assert at["a"][0] == "sram"  # which costs less than to write b over it
    assert min(offset for memory, offset in at.values() if memory == "sram") >= 16
    assert plan.graph is not None
    assert plan.graph.layout.pins == [("b", plan["b"].offset)]
    parted = planned(NETWORK, pools, pin={"a": ("dram", 0), "b": ("sram", 32)})
    assert not parted.sharing
    assert (places(parted)["a"], places(parted)["b"]) == (("dram", 0), ("sram", 32))
    as_keys = NETWORK | {"pin": {"b": ["dram", 64]}, "reserved": [["sram", 0, 16]]}
    assert places(planned(as_keys, pools)) == at
    graph = memplan.capture(as_keys).graph
    assert isinstance(graph, memplan.Graph)
    assert graph.to_dict()["pin"] == {"b": ("dram", 64)}
    assert graph.to_dict()["reserved"] == [["sram", 0, 16]]
    assert pickle.loads(pickle.dumps(graph)) == graph
    workspace = planned(
        NETWORK, (Pool("sram", 400), Pool("dram", accepts=["intermediate", "output"])), pin={"conv.workspace": 128}
    )
    assert places(workspace)["conv.workspace"] == ("sram", 128)


def test_orders_keep_pins_in_pools() -> None:
    plan = planned(NETWORK, (Pool("sram", 160), DRAM), pin={"b": ("dram", 64)}, order="best")
    assert places(plan)["b"] == ("dram", 64)


def test_json_and_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "network.json").write_text(json.dumps(NETWORK))
    target = tmp_path / "plan.json"
    pools = ["--pool", "sram=160", "--pool", "dram,align=4"]
    asked = ["--pin", "b=dram:64", "--reserve", "sram:0:16", "--reserve", "dram:0:4:0:1"]
    assert main(["plan", str(tmp_path / "network.json"), *pools, *asked, "--json", str(target)]) == 0
    again = memplan.read_plan(target)
    assert places(again)["b"] == ("dram", 64)
    assert again.problem.pins is not None


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"pin": {"a": 4}}, r"pin\['a'\] must say in which of the pools, as in \('sram', 4\), got 4: 2 pools take it"),
        ({"pin": {"a": ("flash", 4)}}, r"pin\['a'\] names pool 'flash', which is none of 'sram', 'dram'"),
        ({"pin": {"a": ("dram", 2)}}, "pool 'dram': pins.* must be a multiple of 4, got 2"),
        ({"pin": {"a": ("dram", 4, 4)}}, "must be an offset, or the name of a pool and an offset there"),
        ({"pin": {"a": ("sram", 10)}}, "'a' of 4 bytes fits in none of .*'sram' of 12 bytes, some of which are pinned"),
        ({"pin": {"a": ("sram", 4), "b": ("sram", 6)}}, "pool 'sram': pins: buffer 'a' .* and buffer 'b'"),
        ({"reserved": [(0, 4)]}, r"reserved must say in which of the pools, as in \('sram', 0, 4\), got \(0, 4\)"),
        ({"reserved": [("flash", 0, 4)]}, "reserved names pool 'flash', which is none of"),
        ({"pin": {"a": ("sram", 0), "d": ("dram", 0)}, "together": [("a", "d")]}, "no pool takes buffer 'a' and what"),
    ],
)
def test_bad_input_is_refused(options: dict[str, Any], match: str) -> None:
    with pytest.raises((ValueError, TypeError), match=match):
        planned(**options)


def test_bad_input_for_graphs_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"pool 'dram': pins: buffer 'b' at bytes \[32, 96\) and buffer 'y' at bytes \[64, 96"
    ):
        planned(NETWORK, pin={"b": ("dram", 32), "y": ("dram", 64)})
    with pytest.raises(ValueError, match=r"pin\['a'\] must say in which of the pools"):
        planned(NETWORK, pin={"a": 0})
    with pytest.raises(ValueError, match=r"pin\['a'\] names pool 'sram', which does not take it"):
        planned(NETWORK, (Pool("sram", 160, accepts=["y"]), DRAM), pin={"a": ("sram", 0)})
    with pytest.raises(ValueError, match=r"pin\['a'\] must be below .* got 4611686018427387904"):
        planned(NETWORK, pin={"a": ("dram", 2**62)})
    for asked in ({"pin": {"a": ("sram", 0)}}, {"reserved": [("sram", 0, 4)]}):
        for source in (NETWORK, LETTERS):
            with pytest.raises(ValueError, match="names pool 'sram', and this plan is in one arena, without pools"):
                memplan.plan(source, **asked)  # type: ignore[arg-type]


def test_pools_check_what_they_reserve() -> None:
    with pytest.raises(TypeError, match="pool 'p': reserved must be a list of ranges"):
        Pool("p", reserved="4KiB")
    with pytest.raises(TypeError, match=r"pool 'p': reserved\[0\] must be \(begin, end\) in bytes"):
        Pool("p", reserved=[(0, 4, 1)])


def test_loads_count_what_is_reserved_and_pinned() -> None:
    """Proofs hold at every step in which something is reserved, also where nothing is born."""
    problem = memplan.Problem([4, 4], [0, 0], [9, 9], names=["a", "b"])
    plan = planned(problem, (Pool("sram", 8, reserved=[(0, 4, 5, 6)]), DRAM))
    assert plan.pools is not None
    assert plan.pools.cost == plan.pools.cost_bound == 4


@pytest.mark.parametrize("source", [LETTERS, NETWORK])
def test_a_curve_asks_for_the_same_again(source: Any) -> None:
    name = "a" if source is LETTERS else "b"
    pools = (Pool("sram", 200, reserved=[(4, 8)]), DRAM)
    plan = planned(source, pools, pin={name: ("dram", 64)}, reserved=[("sram", 0, 4)])
    for point in plan.pareto([200, 160]):
        assert point.plan is not None
        assert places(point.plan)[name] == ("dram", 64)
        assert all(at >= 8 for memory, at in places(point.plan).values() if memory == "sram")
