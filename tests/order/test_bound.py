"""Proofs of what every order needs: the core's hold, and what is claimed beyond them does not."""

from __future__ import annotations

import dataclasses
import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import memplan
from builders import graphs
from builders.paths import DATA
from builders.sharing_options import PLACES, USUAL
from memplan import _core
from memplan.importers.graph_dict import graph_of
from memplan.proofs.order_bound import order_bound_of
from memplan.proofs.order_checker import HeldRow, Need, Passed
from memplan.proofs.order_model import OrderModel
from oracles.cells import random_graph
from oracles.sharing import small_graph


def tensors(**size: int) -> list[dict[str, Any]]:
    kinds = {"x": "input", "w": "weight"}
    return [{"name": name, "bytes": n, "kind": kinds.get(name, "intermediate")} for name, n in size.items()]


def random_bound(seed: int, ops: int = 8) -> tuple[_core.Graph, _core.StorageOptions, memplan.proofs.OrderBound]:
    """A small random graph, with random options, and its bound."""
    chance = random.Random(seed)
    graph = small_graph(chance, streams=False, ops=ops, overwrites=chance.choice([0, 0.3]))
    graph["exclude"] = [t["name"] for t in graph["tensors"] if chance.random() < 0.05]
    place = chance.choice(PLACES) if chance.random() < 0.5 else USUAL
    donate = [t["name"] for t in graph["tensors"] if t["kind"] == "input" and chance.random() < 0.4]
    storage = _core.StorageOptions(sorted(place), 1, chance.random() < 0.8, [], donate, chance.random() < 0.8)
    captured = graph_of(graph)
    return captured, storage, order_bound_of(captured, storage, 10**8)


def test_the_proofs_of_random_graphs_hold() -> None:
    kinds, words = set(), set()
    for seed in range(1000):
        graph, _, bound = random_bound(seed)
        proven = bound.check(graph)
        assert proven.bytes == bound.bytes
        kinds.add("end" if bound.op is None and len(bound.needs) == 1 else min(len(bound.needs), 3))
        words.add(" ".join(word for word in proven.by.split() if word.isalpha() and word != bound.op))
    assert kinds == {"end", 1, 2, 3}
    assert words == {
        "the fact that no less is possible",
        "what the caller keeps to the end",
        "a so much is alive whenever runs",
        "flows for in whatever sequence these run",
    }


def test_the_proofs_of_graphs_hold_in_which_bytes_have_many_names() -> None:
    for seed in range(500):
        chance = random.Random(seed)
        graph = graph_of(random_graph(chance, 8))
        storage = _core.StorageOptions(["intermediate", "output"], 1, True, [], [], chance.random() < 0.8)
        order_bound_of(graph, storage, 10**8).check(graph)


def test_a_copy_by_choice_and_a_view_may_cut_one_storage_differently() -> None:
    graph = graphs.graph(
        tensors(a=6, s=6, v=2),
        graphs.op("A", "", "a"),
        graphs.op("S", "a", "s", slice=["s a"]),
        graphs.op("V", "a", "v", alias=["v a 4"]),
        outputs="s v",
    )
    bound = memplan.order_bound(graph)
    assert [(held.begin, held.bytes) for held in bound.needs[0].held] == [(0, 4), (4, 2)]
    bound.check(graph_of(graph))


def test_what_is_read_by_another_name_is_not_written_over() -> None:
    graph = graphs.graph(
        tensors(a=6, s=6, y=6),
        graphs.op("A", "", "a"),
        graphs.op("S", "a", "s", slice=["s a"]),
        graphs.op("Y", "s a", "y", inplace=["y s"]),
        outputs="y",
    )
    bound = memplan.order_bound(graph)
    assert bound.bytes == memplan.plan(graph, order="best").peak == 12
    bound.check(graph_of(graph))


@pytest.mark.parametrize("name", ["resnet50_train", "gpt2_train"])
def test_the_proofs_of_networks_hold(name: str) -> None:
    plan = memplan.plan(f"example:{name}", order="best")
    bound = memplan.order_bound(plan)
    assert bound.bytes == plan.order_bound
    assert bound.op in plan.order
    assert bound.alive
    bound.check(plan.graph)
    bound.check(memplan.capture(f"example:{name}").graph)  # it names ops, so it holds for them in any order


FIT_IN_2_GIB = """
import gzip, json, resource, sys
import memplan
resource.setrlimit(resource.RLIMIT_AS, (2**31, 2**31))
graph = memplan.capture(json.loads(gzip.open(sys.argv[1]).read()))
bound = memplan.order_bound(memplan.plan(graph, inplace=False, zero_copy=False))
bound.check(graph)
print(bound.bytes)
"""


def test_a_proof_walks_only_the_ways_that_its_bound_closes() -> None:
    # The last search of this bound names many ops more and gets no further: the ways that it leaves open take 16 GB.
    file = DATA / "torch" / "bert_10_layers_train.json.gz"
    done = subprocess.run([sys.executable, "-c", FIT_IN_2_GIB, file], capture_output=True, text=True, timeout=60)
    assert done.stdout == "381354220\n", done.stderr


def least_of_all_orders(graph: _core.Graph, bound: memplan.proofs.OrderBound) -> int:
    """What the best order needs, where what ops may write over counts as written over: by all sets of ops."""
    model = OrderModel(graph.to_dict(), bound.options)
    names = list(model.ops)
    bit = {name: 1 << k for k, name in enumerate(names)}
    waits = [sum(bit[before] for before in model.waits[name]) for name in names]
    lives = [
        (0 if c.maker is None else bit[c.maker], sum(bit[user] for user in c.users), c.kept, c.bytes)
        for c in model.contents.values()
    ]

    def alive(state: int) -> int:
        return sum(n for maker, users, kept, n in lives if maker & ~state == 0 and (kept or users & ~state))

    needs = {0: alive(0)}
    for state in range(1 << len(names)):  # a set comes after all that are in it
        if state not in needs:
            continue
        now = alive(state)
        for k, name in enumerate(names):
            if not state >> k & 1 and waits[k] & ~state == 0:
                need = max(needs[state], now + model.makes[name])
                after = state | 1 << k
                needs[after] = min(need, needs.get(after, need))
    return max(needs[(1 << len(names)) - 1], alive((1 << len(names)) - 1))


def test_the_bound_is_what_the_best_order_needs() -> None:
    came = {1: 0, 2: 0}
    for seed in range(400):
        graph, _, bound = random_bound(seed, ops=10)
        assert bound.bytes == least_of_all_orders(graph, bound), seed
        came[min(len(bound.ops), 2)] = came.get(min(len(bound.ops), 2), 0) + 1
    assert came[2] > 20, came


def test_a_check_says_what_it_has_proven() -> None:
    proven = fork().check(graph_of(FORK))
    assert (proven.bytes, str(proven)) == (
        12,
        "Every order of 4 ops needs at least 12 bytes. Proven by a flow: so much is alive whenever narrow runs.",
    )
    assert repr(proven) == str(proven)


# Two graphs for which a bound with the sharing of one order would be wrong


def test_an_output_in_place_counts_as_written_over_its_input() -> None:
    graph = graphs.graph(
        tensors(a=10, b=10, r=1),
        graphs.op("A", "", "a"),
        graphs.op("B", "a", "b", inplace=["b a"]),
        graphs.op("R", "a", "r"),
    )
    bound = memplan.order_bound(graph)
    assert (bound.bytes, bound.op) == (11, "R")  # with a and b as one, B would need 20 before R
    assert memplan.plan(graph, order="best").peak == 11


def test_the_parts_of_a_concatenation_count_for_themselves() -> None:
    graph = graphs.graph(
        tensors(a=1, h=9, k=1, b=9, c=10),
        graphs.op("A", "", "a"),
        graphs.op("H", "", "h"),
        graphs.op("K", "h", "k"),
        graphs.op("B", "k", "b"),
        graphs.op("C", "a b", "c", concat=["c a", "c b 1"]),
    )
    bound = memplan.order_bound(graph)
    assert memplan.plan(graph).peak == 11  # with c as one, K would need 20 in this order
    assert bound.bytes == memplan.plan(graph, order="best").peak == 10
    bound.check(graph_of(graph))


def test_an_output_may_be_written_over_a_copy_of_what_lies_outside() -> None:
    graph = graphs.graph(
        tensors(w=5, a=10, b=10, c=10),
        {
            "name": "A",
            "inputs": ["w"],
            "outputs": ["a"],
            "concat": [{"output": "a", "input": "w", "offset": at} for at in (0, 5)],
        },
        graphs.op("B", "a", "b", slice=["b a"]),
        graphs.op("C", "b", "c", inplace=["c b"]),
    )
    assert memplan.plan(graph).peak == 10
    bound = memplan.order_bound(graph)
    assert bound.bytes <= 10
    bound.check(graph_of(graph))


# What does not hold is refused


def optimal_bounds() -> list[tuple[_core.Graph, memplan.proofs.OrderBound]]:
    """Bounds of random graphs that some plan meets, so that nothing above them can be proven."""
    found = []
    for seed in range(400):
        graph, storage, bound = random_bound(seed)
        order = _core.order_of(graph, "best", storage)
        if order.load == bound.bytes > 0:
            found.append((graph, bound))
    return found


def changed(chance: random.Random, bound: memplan.proofs.OrderBound, graph: _core.Graph) -> memplan.proofs.OrderBound:
    """The bound with some numbers and names of its needs changed."""
    ops = [op.name for op in graph.ops]
    tensors = [t.name for t in graph.tensors]
    needs = list(bound.needs)
    for _ in range(chance.randint(1, 4)):
        k = chance.randrange(len(needs))
        needs[k] = change(chance, needs[k], ops, tensors)
    if chance.random() < 0.1:
        needs.pop(chance.randrange(len(needs)))
    named = tuple({*bound.ops, *(name for need in needs for name in (*need.before, *need.after, need.op) if name)})
    return dataclasses.replace(bound, ops=named if chance.random() < 0.5 else bound.ops, needs=tuple(needs))


def change(chance: random.Random, need: Need, ops: list[str], tensors: list[str]) -> Need:
    held, passed = list(need.held), list(need.passed)
    kind = chance.randrange(7)
    if kind == 0 and held:
        k = chance.randrange(len(held))
        held[k] = held[k]._replace(bytes=max(0, held[k].bytes + chance.choice([-1, 1, 2, 8])))
    elif kind == 1 and held:
        k = chance.randrange(len(held))
        held[k] = held[k]._replace(user=chance.choice([None, *ops]))
    elif kind == 2:
        held.append(HeldRow(chance.choice(tensors), chance.randint(0, 2), chance.choice([None, *ops]), 1))
    elif kind == 3:
        passed.append(Passed(chance.choice(ops), chance.choice(ops), chance.randint(1, 3)))
    elif kind == 4:
        return need._replace(op=chance.choice([None, *ops]))
    elif kind == 5:
        return need._replace(before=(*need.before, chance.choice(ops)))
    elif kind == 6:
        return need._replace(after=(*need.after, chance.choice(ops)))
    return need._replace(held=tuple(held), passed=tuple(passed))


def more(bound: memplan.proofs.OrderBound, by: int = 1) -> memplan.proofs.OrderBound:
    """The same proof, of more bytes."""
    needs = tuple(need._replace(bytes=need.bytes + by) for need in bound.needs)
    return dataclasses.replace(bound, bytes=bound.bytes + by, needs=needs)


def test_no_change_of_a_proof_proves_more() -> None:
    chance = random.Random(1)
    bounds = optimal_bounds()
    assert len(bounds) > 100
    for graph, bound in bounds:
        bound.check(graph)
        for _ in range(20):
            with pytest.raises(memplan.proofs.OrderBoundError):
                more(changed(chance, bound, graph)).check(graph)


FORK = graphs.graph(
    tensors(x=1, wide=10, narrow=2, other=4, y=1),
    graphs.op("widen", "x", "wide"),
    graphs.op("narrow", "wide", "narrow"),
    graphs.op("other", "x", "other"),
    graphs.op("join", "narrow other", "y"),
    outputs="y",
)


def fork() -> memplan.proofs.OrderBound:
    return memplan.order_bound(FORK)


def test_the_bound_of_a_fork() -> None:
    bound = fork()
    assert (bound.bytes, bound.op, bound.ops, bound.alive) == (12, "narrow", ("narrow",), ("wide",))
    assert bound.needs == (Need("narrow", (), (), 12, (HeldRow("wide", 0, "narrow", 10),), ()),)
    assert repr(bound) == "<memplan.proofs.OrderBound: every order needs 12 bytes, 1 needs>"


HELD = HeldRow("wide", 0, "narrow", 10)


@pytest.mark.parametrize(
    ("need", "message"),
    [
        (Need("narrow", (), (), 11, (HELD,), ()), "at need 0: it needs 11 bytes, and 12 are claimed"),
        (Need("narrow", ("other",), (), 12, (HELD,), ()), "it names ops that the proof does not"),
        (Need("narrow", (), (), 13, (HELD,), ()), "it needs 12 bytes, not 13"),
        (Need("narrow", (), (), 12, (), ()), "it needs 2 bytes, not 12"),
        (
            Need("narrow", (), (), 12, (HeldRow("wide", 10, "narrow", 10),), ()),
            "byte 10 of 'wide' is of no content that counts",
        ),
        (
            Need("narrow", (), (), 12, (HeldRow("wide", 0, "narrow", 9), HeldRow("wide", 9, "narrow", 2)), ()),
            "'wide' from byte 0 on gives more than its 10 bytes",
        ),
        (
            Need("narrow", (), (), 12, (HeldRow("wide", 0, "other", 10),), ()),
            "'other' does not hold 10 bytes of 'wide'",
        ),
        (
            Need("narrow", (), (), 12, (HeldRow("wide", 0, None, 10),), ()),
            "the caller does not hold 10 bytes of 'wide'",
        ),
        (Need("narrow", (), (), 12, (HeldRow("wide", 0, "narrow", -1),), ()), "'narrow' does not hold -1 bytes"),
        (Need("narrow", (), (), 12, (HELD, HELD), ()), "'wide' from byte 0 on gives more than its 10 bytes"),
        (
            Need("narrow", (), (), 12, (HELD,), (Passed("narrow", "other", 1),)),
            "op 'narrow' passes 1 bytes to 'other', for which it does not wait",
        ),
        (Need("narrow", (), ("narrow",), 12, (HELD,), ()), None),
        (Need("narrow", ("narrow",), (), 12, (HELD,), ()), "op 'narrow' is both before and after"),
        (Need("narrow", (), (), 16, (HELD, HeldRow("other", 0, "join", 4)), ()), "it needs 12 bytes, not 16"),
    ],
)
def test_what_does_not_hold_is_named(need: Need, message: str | None) -> None:
    bound = dataclasses.replace(fork(), needs=(need,))
    if message is None:
        assert bound.check(graph_of(FORK)).bytes == 12
        return
    with pytest.raises(memplan.proofs.OrderBoundError, match=message) as error:
        bound.check(graph_of(FORK))
    assert error.value.need == 0


def test_an_open_op_may_not_get_more_than_it_gives() -> None:
    graph = graphs.graph(
        tensors(x=1, a=4, b=4),
        graphs.op("A", "x", "a"),
        graphs.op("U", "a", ""),
        graphs.op("B", "a", "b"),
        graphs.op("V", "x", ""),
    )
    need = Need("V", ("A",), (), 4, (HeldRow("a", 0, "U", 4),), ())  # U may have run
    bound = dataclasses.replace(memplan.order_bound(graph), ops=("A", "V"), needs=(need,), bytes=4)
    with pytest.raises(memplan.proofs.OrderBoundError, match="op 'U' gets 4 bytes more than it gives"):
        bound.check(graph_of(graph))


@pytest.mark.parametrize("ops", [("narrow", "narrow"), ("narrow", "none")])
def test_the_ops_of_a_proof_are_ops(ops: tuple[str, ...]) -> None:
    with pytest.raises(memplan.proofs.OrderBoundError, match="its ops are not ops of the graph, each once") as error:
        dataclasses.replace(fork(), ops=ops).check(graph_of(FORK))
    assert error.value.need is None


@pytest.mark.parametrize(("ops", "before"), [((), None), (("narrow", "other"), "other"), (("narrow", "join"), None)])
def test_every_sequence_meets_a_need(ops: tuple[str, ...], before: str | None) -> None:
    need = fork().needs[0]._replace(before=() if before is None else (before,))
    bound = dataclasses.replace(fork(), ops=ops, needs=(need,) if ops else ())
    if ops == ("narrow", "join"):  # join waits for narrow
        assert bound.check(graph_of(FORK)).bytes == 12
        return
    message = "the ops may run in a sequence that avoids all needs" if ops else "no op is named"
    with pytest.raises(memplan.proofs.OrderBoundError, match=message):
        bound.check(graph_of(FORK))


def test_nothing_takes_no_proof() -> None:
    dataclasses.replace(fork(), bytes=0, ops=(), needs=()).check(graph_of(FORK))


# Files


def test_a_proof_is_kept_as_it_is(tmp_path: Path) -> None:
    for seed in range(20):
        _, _, bound = random_bound(seed)
        bound.to_json(tmp_path / "bound.json")
        again = memplan.proofs.OrderBound.from_json(tmp_path / "bound.json")
        assert again == bound
        assert again.alive == bound.alive


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda spec: spec.update(version=2), "expected format 'memplan.order_bound' version 1"),
        (lambda spec: spec.update(bytes=True), "bytes must be an integer, got True"),
        (lambda spec: spec.update(ops="narrow"), "ops must be a list, got 'narrow'"),
        (lambda spec: spec.update(ops=[1]), r"ops\[0\] must be a name, got 1"),
        (lambda spec: spec.update(needs=[{}]), r"needs\[0\] must be an object of op, before, after, "),
        (lambda spec: spec["options"].update(inplace=1), "options.inplace must be true or false, got 1"),
        (lambda spec: spec["needs"][0].update(held=[[]]), r"needs\[0\].held\[0\] must be a list of 4, got \[\]"),
        (
            lambda spec: spec["needs"][0].update(passed=[["a", "b", "c"]]),
            r"passed\[0\].bytes must be an integer, got 'c'",
        ),
    ],
)
def test_a_file_that_is_not_as_expected(tmp_path: Path, change: Callable[[dict[str, Any]], Any], message: str) -> None:
    path = tmp_path / "bound.json"
    fork().to_json(path)
    spec = json.loads(path.read_text())
    change(spec)
    path.write_text(json.dumps(spec))
    with pytest.raises(memplan.errors.SourceError, match=message):
        memplan.proofs.OrderBound.from_json(path)


# What it is asked of


def test_a_plan_brings_its_options() -> None:
    graph = {**FORK, "ops": [{**op} for op in FORK["ops"]]}
    plan = memplan.plan(graph, place=["input", "intermediate", "output"], donate=["x"])
    bound = memplan.order_bound(plan)
    assert bound.options.donate == ("x",)
    assert bound.bytes == plan.order_bound
    assert bound == memplan.order_bound(graph, place=["input", "intermediate", "output"], donate=["x"])


def test_what_has_no_ops_is_refused() -> None:
    with pytest.raises(TypeError, match="order_bound takes graphs and their plans"):
        memplan.order_bound(([1], [0], [1]))
    with pytest.raises(TypeError, match="order_bound takes graphs and their plans"):
        memplan.order_bound(memplan.plan(([1], [0], [1])))
    with pytest.raises(TypeError, match="is checked against a Graph, got dict"):
        fork().check(FORK)  # type: ignore[arg-type]


def test_several_streams_have_no_bound() -> None:
    graph = {**FORK, "ops": [{**op, "stream": k % 2} for k, op in enumerate(FORK["ops"])]}
    bound = memplan.order_bound(graph)
    assert (bound.bytes, bound.needs) == (0, ())
    bound.check(graph_of(graph))


def test_less_work_gives_a_bound_that_holds() -> None:
    graph = memplan.capture("example:resnet50_train").graph
    most = memplan.order_bound(graph).bytes
    for work in (0, 100, 1000, 10_000, 100_000):
        bound = memplan.order_bound(graph, work=work)
        assert bound.bytes <= most
        bound.check(graph)


def test_the_checker_knows_what_may_overlap() -> None:
    """By another way than the core, it finds how far an output may lie over what its kernel is still reading."""
    for seed in range(72):
        chance = np.random.default_rng(seed)
        rows, columns, made = (int(n) for n in chance.integers(1, 5, 3))
        read = [int(chance.integers(1, 3)), int(chance.integers(1, 4)), int(chance.integers(-1, 3))]
        half = [f"{number}/2" for number in read]
        x = {"name": "x", "shape": [rows, columns], "bytes": rows * columns, "kind": "input"}
        y = {"name": "y", "shape": [made, columns], "bytes": 2 * made * columns}
        along = {"extent": made, "reads": {"x": [0, *(read if seed % 3 else half)]}, "writes": {"y": [0, 1]}}
        across = {"extent": columns, "reads": {"x": [1, 1, 1, 0]}, "writes": {"y": [1, 1]}}
        op = {"name": "op", "inputs": ["x"], "outputs": ["y"], "loops": [along, across], "reads_first": seed % 2 == 0}
        op["ordered"] = ([0, 1], [1, 0], [0], [1])[seed // 6 % 4]
        graph = memplan.capture({"tensors": [x, y], "ops": [op], "outputs": ["y"]}).graph
        storage = {"place": ("input", "output", "intermediate")}
        bound = memplan.order_bound(graph, **storage)
        bound.check(graph)
        assert memplan.plan(graph, **storage).peak >= bound.bytes
        needs = tuple(need._replace(bytes=need.bytes + 1) for need in bound.needs)
        higher = dataclasses.replace(bound, bytes=bound.bytes + 1, needs=needs)
        with pytest.raises(memplan.proofs.OrderBoundError):
            higher.check(graph)
