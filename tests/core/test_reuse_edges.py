"""The orderings that a plan relies on: enough to keep every value, and none too many."""

from __future__ import annotations

from typing import Any

import pytest

import memplan
from builders.graphs import W, X, graph, op, tensor
from builders.reuse_edges import Dict, edges_of
from memplan import _core


def test_two_branches_that_share_bytes_become_ordered() -> None:
    """Two branches of x; p's bytes go to q when s has read them."""
    source = graph(
        [X, tensor("r", 1), tensor("z", 1)],
        op("p", "x", "p1"),
        op("r", "p1", "r"),
        op("q", "x", "q1"),
        op("z", "q1", "z"),
        outputs="r z",
    )
    assert edges_of(source) == [("r", "q")]


def test_branches_on_streams_of_their_own_share_nothing() -> None:
    source = graph(
        [X, tensor("r", 1), tensor("z", 1)],
        op("p", "x", "p1"),
        op("r", "p1", "r"),
        op("q", "x", "q1", stream=1),
        op("z", "q1", "z", stream=1),
        outputs="r z",
    )
    assert edges_of(source) == []
    assert memplan.plan(source).peak == 18


@pytest.mark.parametrize("more", [{}, {"after": ["r"]}])
def test_what_after_says_is_no_edge(more: Dict) -> None:
    source = graph(
        [X, tensor("r", 1)], op("p", "x", "p1"), op("r", "p1", "r"), op("q", "x", "q1", **more), outputs="r q1"
    )
    assert edges_of(source) == ([] if more else [("r", "q")])


def test_every_reader_of_what_is_taken_comes_first() -> None:
    """Both readers of t, and neither waits for the other."""
    source = graph(
        [X, tensor("u", 1), tensor("v", 1)],
        op("a", "x", "t"),
        op("b", "t", "u"),
        op("c", "t", "v"),
        op("d", "x", "y"),
        outputs="u v y",
    )
    assert edges_of(source) == [("b", "d"), ("c", "d")]


def test_in_place_waits_for_the_other_readers() -> None:
    source = graph(
        [X, tensor("u", 1)], op("a", "x", "t"), op("b", "t", "u"), op("c", "t", "y", inplace=["y t"]), outputs="u y"
    )
    assert edges_of(source) == [("b", "c")]


def test_a_donated_input_waits_for_its_readers_outside_the_arena() -> None:
    source = graph([X, tensor("u", 1)], op("b", "x", "u"), op("c", "x", "y", inplace=["y x"]), outputs="u y")
    assert edges_of(source, donate=["x"]) == [("b", "c")]
    assert edges_of(source) == []


def test_a_placed_input_is_read_before_its_bytes_are_written() -> None:
    source = graph([X, W, tensor("u", 1)], op("b", "x", "u"), op("c", "w", "y"), outputs="u y")
    assert edges_of(source, place=["input", "output"]) == [("b", "c")]


def test_a_workspace_takes_bytes_too() -> None:
    source = graph(
        [X, tensor("u", 1), tensor("v", 1)],
        op("a", "x", "t"),
        op("b", "t", "u"),
        op("c", "x", "v", workspace=8),
        outputs="u v",
    )
    assert edges_of(source) == [("b", "c")]


def test_a_chain_needs_no_edges() -> None:
    assert edges_of(graph([X], *(op(f"o{i}", f"t{i}" if i else "x", f"t{i + 1}") for i in range(6)))) == []


def test_parts_written_into_a_whole_are_not_written_again() -> None:
    """A reader of p beside the concatenation: it may run after, for its bytes stay."""
    source = graph(
        [X, tensor("c", 16), tensor("u", 1)],
        op("a", "x", "p"),
        op("b", "x", "q"),
        op("look", "p", "u"),
        op("cat", "p q", "c", concat=["c p", "c q 8"]),
        outputs="c u",
    )
    assert edges_of(source) == []


def test_a_part_without_bytes_writes_nothing() -> None:
    """It stands within another part: what follows it there is still no one's to write."""
    source = graph(
        [X, tensor("c", 8), tensor("u", 1), tensor("e", 0)],
        op("a", "x", "p"),
        op("mark", "p", "e", alias=["e p 4"]),
        op("look", "p", "u"),
        op("cat", "p e", "c", concat=["c p", "c e 4"]),
        outputs="c u",
    )
    plan = memplan.plan(source)
    assert plan["p"].offset == plan["c"].offset == 0
    assert plan.reuse_edges() == []


def test_long_chains_of_overwrites_wait_for_the_last_alone() -> None:
    n = 20_000
    ops = [op(f"o{i}", f"t{i}", f"t{i + 1}", overwrite=[f"t{i + 1} t{i}"]) for i in range(n)]
    assert memplan.plan(graph([X], op("a", "x", "t0"), *ops)).reuse_edges() == []


def test_many_slices_of_one_tensor() -> None:
    """Each read at once; the next is cut when the last is done."""
    n = 4_000
    ops = [op("a", "x", "t")]
    for i in range(n):
        ops += [op(f"c{i}", "t", f"s{i}", slice=[f"s{i} t {8 * i}"]), op(f"r{i}", f"s{i}", f"r{i}")]
    tensors = [X, tensor("t", 8 * n), *(tensor(f"r{i}", 1) for i in range(n))]
    plan = memplan.plan(graph(tensors, *ops, outputs=" ".join(f"r{i}" for i in range(n))), "first_fit")
    assert plan.peak == 9 * n
    assert plan.reuse_edges() == []


# What the replay of a plan must see, by plans that are wrong on purpose


def moved(source: Dict, offsets: dict[str, int], **options: Any) -> list[str]:
    """What replay finds when buffers lie elsewhere than planned; conflicts of streams are taken out of the problem."""
    captured = memplan.capture(source).graph
    buffers = _core.buffers_of(captured, _core.StorageOptions(**options))
    p = buffers.problem
    _, columns = buffers.__reduce__()
    bare = _core.Buffers(memplan.Problem(p.size, p.first, p.last, 1, p.names), *columns[1:])
    return [fault.message for fault in _core.replay(captured, bare, [offsets[name] for name in p.names])]


def test_replay_tries_other_orders_wherever_there_are_streams() -> None:
    source = graph(
        [X, tensor("u", 1)], op("a", "x", "t"), op("b", "t", "u"), op("c", "x", "v", stream=1), outputs="u v"
    )
    assert moved(source, {"t": 0, "u": 8, "v": 9}) == []
    assert moved(source, {"t": 0, "u": 8, "v": 0})


def test_replay_finds_a_weight_under_what_overwrites_something_else() -> None:
    source = graph([X, W], op("a", "x", "r"), op("set", "r", "z", overwrite=["z r"]), op("use", "z", "y"), outputs="y")
    place = ["weight", "intermediate", "output"]
    assert moved(source, {"w": 0, "r": 8, "y": 16}, place=place) == []
    (message,) = moved(source, {"w": 0, "r": 0, "y": 16}, place=place)
    assert "the next run needs tensor 'w' at offset 0, but bytes [0, 8) hold tensor 'z'" in message


def test_replay_finds_a_slice_that_is_overwritten_while_it_is_read() -> None:
    """`s` lies in what `set` overwrites, by a plan's choice: the graph does not say that it may."""
    source = graph(
        [X, tensor("s", 4), tensor("z", 4)],
        op("a", "x", "t"),
        op("cut", "t", "s", slice=["s t"]),
        op("set", "t s", "z", overwrite=["z t"]),
        outputs="z",
    )
    assert moved(source, {"t": 0, "s": 8}) == []
    (message,) = moved(source, {"t": 0, "s": 0})
    assert "'set' (step 2) writes while it reads tensor 's' at offset 0, but bytes [0, 4) hold tensor 'z'" in message
