"""What shares bytes by choice: plans of random graphs, run byte by byte, and against all choices of sharing."""

from __future__ import annotations

from collections import Counter

import pytest

import memplan
from builders import graphs
from builders.sharing_cases import against_the_least, check
from oracles import cells as byte_oracle


@pytest.mark.parametrize("part", range(3))
def test_no_value_is_lost_in_graphs_in_which_bytes_have_many_names(part: int) -> None:
    """What tests/benchmarks/sharing_small.py does with more of them."""
    seen = Counter[str]()
    seeds = range(part * 100, part * 100 + 100)
    wrong = {seed: found for seed in seeds if (found := check(seed, (3, 6, 12)[seed % 3], seen))}
    assert wrong == {}
    assert min(seen[what] for what in ("planned", "inplace", "slice", "concat", "two names")) > 5, seen


def test_all_is_shared_that_may_be() -> None:
    assert {against_the_least(seed) for seed in range(100)} == {"least"}


def test_the_oracle_finds_what_is_written_over_by_another_name() -> None:
    graph = graphs.graph(
        "a 3, v 3, y 3",
        graphs.op("make", "", "a"),
        graphs.op("cut", "a", "v", slice=["v a"]),
        graphs.op("add", "a v", "y", inplace=["y v"]),
        outputs="y",
    )
    places = dict.fromkeys("avy", (byte_oracle.ARENA, 0))
    (first, *_) = byte_oracle.faults(graph, places, {})
    assert first == "add writes while it reads a, byte 0"
    assert byte_oracle.faults(graph, {**places, "a": (byte_oracle.ARENA, 3)}, {}) == []
    assert byte_oracle.faults(graph, {**places, "y": (byte_oracle.ARENA, 3)}, {}) == []
    assert memplan.plan(graph).peak == 6
