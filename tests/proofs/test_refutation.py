"""Proofs that no plan fits: the search's hold, what is changed in them does not, and none holds where a plan fits."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import memplan
from memplan import Problem
from memplan.generate import tight
from memplan.proofs import Refutation
from memplan.proofs.checker import Node
from oracles import plain as oracle
from oracles.exactness import REFUTED, Case, case, fits, fits_by_cp_sat

ROOT = Node(None, None, None, 0)
# A ring of five, each of which conflicts with the next: 2 bytes are in any clique, and 3 are needed.
RING = Problem([1] * 5, range(5), range(1, 6), conflicts=[(i, (i + 1) % 5) for i in range(5)])
# The same of different sizes, so that no two can be exchanged.
UNLIKE = Problem([4, 5, 6, 5, 6], range(5), range(1, 6), conflicts=[(i, (i + 1) % 5) for i in range(5)])
# Multiples of 2 and of 3: whichever is below, the other ends at 9 or at 8; they add up to 7.
TWO = Problem([2, 5], [0, 1], [1, 2], [2, 3], conflicts=[(0, 1)])


def proof_of(problem: Problem, capacity: int) -> Refutation:
    proof = memplan.refute(problem, capacity)
    assert isinstance(proof, Refutation)
    return proof


def holds(proof: Refutation, problem: Problem) -> bool:
    try:
        proof.check(problem)
    except memplan.proofs.RefutationError:
        return False
    return True


def problems(kind: str, count: int, seed: int = 0) -> Iterator[tuple[Case, Problem, int]]:
    """Random ones that need bytes, with their optimum."""
    for k in range(seed, seed + count):
        made = case(kind, k)
        problem = Problem(**made.arguments())
        plan = memplan.plan(problem)
        if plan.optimal:
            yield made, problem, plan.peak


# Of the first 1,433 seeds, those whose puzzle needs more than its load, has no two buffers alike, and a proof that
# branches. To look for them takes seconds.
SEEDS = (13, 39, 93, 139, 143, 227, 331, 432, 487, 512, 566, 612, 692, 704, 776, 782, 852, 893, 997, 1041, 1139, 1299)
SEEDS += (1314, 1363, 1432)


def puzzles() -> Iterator[Problem]:
    """Problems of 10 to 16 buffers that need more than their load, without alignments, no two buffers the same.

    In units of ten bytes the load is the same at every step; of those, up to two are missing from each buffer.
    """
    for seed in SEEDS:
        puzzle = tight(10 + seed % 7, steps=8, units=24, unit=1, pinwheels=1, exchanges=40, seed=seed)
        less = np.random.default_rng(seed).integers(0, 3, len(puzzle))
        yield Problem(10 * puzzle.size - less, puzzle.first, puzzle.last)


@pytest.fixture(scope="module")
def proofs() -> list[tuple[Problem, Refutation]]:
    """Proofs of puzzles, which branch."""
    found = [(p, proof_of(p, int(memplan.plan(p, "valley").peak) - 1)) for p in puzzles()]
    assert all(len(proof) > 1 for _, proof in found)
    return found


# What is planned, and what the search finds


def test_every_capacity_of_tiny_problems_is_told_apart() -> None:
    """By trying all placements."""
    chance = random.Random(2)
    for _ in range(300):
        count = chance.randint(1, 3)
        first = [chance.randint(-2, 4) for _ in range(count)]
        last = [f + chance.randint(1, 4) for f in first]
        alignment = [chance.choice([1, 1, 2, 3, 4, 8]) for _ in range(count)]
        rows = [chance.randint(0, 4) for _ in range(count)], first, last, alignment
        problem = Problem(*rows)
        for capacity in range(12):
            offsets = itertools.product(*(range(0, capacity + 1, a) for a in alignment))
            fits = any(not oracle.violations(rows, list(o), capacity) for o in offsets)
            proof = memplan.refute(problem, capacity)
            assert (proof is None) == fits
            if proof is None:
                break
            proof.check(problem)


@pytest.mark.slow
def test_puzzles_that_need_more_than_their_load(proofs: list[tuple[Problem, Refutation]]) -> None:
    for problem, proof in proofs:
        assert proof.capacity >= problem.load
        proof.check(problem)
        assert not holds(dataclasses.replace(proof, capacity=proof.capacity + 1), problem)
    assert max(len(problem) for problem, _ in proofs) == 16


def test_numbers_near_the_ends_of_their_range() -> None:
    byte, step = 2**56, 2**62
    problem = Problem([byte, 2 * byte, 2 * byte], [-step] * 3, [step] * 3, [3 * byte, 8 * byte, 1])
    proof_of(problem, 6 * byte - 1).check(problem)
    assert memplan.refute(problem, 6 * byte) is None
    most = Problem([2**62, 2**61], [-step] * 2, [step] * 2)
    proof_of(most, 2**62 + 2**61 - 1).check(most)


def test_a_check_says_what_it_has_proven() -> None:
    problem = Problem([2, 4, 4, 1, 2, 1, 1], [0, 4, 0, 2, 5, 3, 2], [2, 6, 3, 5, 9, 5, 4])
    proof = proof_of(problem, 6)
    nodes = f"a tree of {len(proof)} nodes that branches on which of two buffers is above the other."
    assert repr(proof.check(problem)) == f"No plan of 7 buffers fits 6 bytes. Proven by {nodes}"


@pytest.mark.few(2)
@pytest.mark.parametrize("kind", REFUTED)
@pytest.mark.parametrize("count", [60, pytest.param(1500, marks=pytest.mark.slow)])
def test_small_problems_are_planned_and_refuted(kind: str, count: int) -> None:
    """Every plan is valid and at the optimum, says an oracle that tries all offsets; the proofs hold."""
    tried = branched = 0
    for made, problem, best in problems(kind, count):
        assert made.faults(memplan.plan(problem).offsets.tolist()) == 0
        if math.prod(best // a + 1 for a in made.alignment) <= 10**6:
            assert not fits(made, best - 1)
            tried += 1
        assert memplan.refute(problem, best) is None
        proof = proof_of(problem, best - 1)
        branched += len(proof) > 1
        if len(proof) < 1000:
            proof.check(problem)
            assert not holds(dataclasses.replace(proof, capacity=best), problem)
    assert tried > count / 60
    assert branched or count < 1000


@pytest.mark.slow
@pytest.mark.parametrize("count", [8, pytest.param(300, marks=pytest.mark.slow)])
def test_cp_sat_finds_nothing_better(count: int) -> None:
    pytest.importorskip("ortools")
    for kind in REFUTED:
        for made, _, best in problems(kind, count, seed=10_000):
            assert fits_by_cp_sat(made, best, 5) in (True, None)
            assert fits_by_cp_sat(made, best - 1, 5) in (False, None)


@pytest.mark.slow
def test_most_are_proven() -> None:
    """Few are left without a proof after little work, and none is large."""
    effort = "auto:effort=3000000"
    for kind in REFUTED:
        proven = [memplan.plan(Problem(**case(kind, seed).arguments()), effort).optimal for seed in range(60)]
        assert sum(proven) >= 59, kind


def test_the_stack_of_several_alignments() -> None:
    """Buffers that all conflict, of sizes that leave gaps: in no order do they end below the optimum."""
    chance = random.Random(3)
    for _ in range(12):
        count = chance.randint(3, 7)
        size = [chance.randint(1, 9) for _ in range(count)]
        alignment = [chance.choice([1, 2, 3, 4, 8]) for _ in range(count)]
        made = Case(size, list(range(count)), list(range(1, count + 1)), alignment)
        made.conflicts = [(i, j) for j in range(count) for i in range(j)]
        problem = Problem(**made.arguments())
        plan = memplan.plan(problem)
        assert plan.optimal
        assert len(proof_of(problem, plan.peak - 1)) == 1  # no branch
        proof_of(problem, plan.peak - 1).check(problem)
        assert fits_by_cp_sat(made, plan.peak - 1) is False


# What does not hold


def changed(proof: Refutation, k: int, **fields: Any) -> Refutation:
    nodes = list(proof.nodes)
    nodes[k] = nodes[k]._replace(**fields)
    return dataclasses.replace(proof, nodes=nodes)


def test_what_is_changed_does_not_hold() -> None:
    """A difference that is larger by one leaves out something, unless what is forbidden goes on; a node left out
    does; a clique without a member has room."""
    chance = random.Random(1)
    refused = tried = 0
    for kind in ("lifetimes", "conflicts", "shapes", "mixtures", "together", "layouts"):
        for made, problem, best in problems(kind, 30):
            proof = proof_of(problem, best - 1)
            if not 1 < len(proof) < 60:
                continue
            for k in range(1, len(proof)):
                less = changed(proof, k, difference=proof.nodes[k].difference + made.size[0] + 1)
                sign = changed(proof, k, lower=proof.nodes[k].upper, upper=proof.nodes[k].lower)
                gone = dataclasses.replace(proof, nodes=leaf_less(proof.nodes, k))
                for tampered in (less, sign, gone):
                    tried += 1
                    refused += not holds(tampered, problem)
            less = changed(proof, chance.randrange(1, len(proof)), parent=len(proof))
            assert not holds(less, problem)
            assert not holds(dataclasses.replace(proof, capacity=best), problem)
    assert tried > 100
    assert refused > 0.75 * tried  # the others still prove it


def leaf_less(nodes: Sequence[Node], gone: int) -> list[Node]:
    """Without what is below a node, and without what the node says of a clique."""
    below = {gone}
    place, kept = {}, []
    for k, node in enumerate(nodes):
        if k != gone and node.parent in below:
            below.add(k)
            continue
        place[k] = len(kept)
        parent = None if node.parent is None else place[node.parent]
        kept.append(node._replace(parent=parent, clique=() if k == gone else node.clique))
    return kept


@pytest.mark.slow
def test_nothing_holds_where_a_plan_fits() -> None:
    """Proofs of one problem, held against others that have a plan."""
    for kind in REFUTED:
        given = [(p, best) for _, p, best in problems(kind, 25)]
        proofs = [proof_of(p, best - 1) for p, best in given]
        for proof in proofs:
            if len(proof) > 200:
                continue
            for problem, best in given:
                known = dataclasses.replace(proof, capacity=best)
                assert not holds(known, problem)


def test_a_problem_of_less(proofs: list[tuple[Problem, Refutation]]) -> None:
    """Less of one buffer; where then a plan fits, the proof may not hold."""
    rejected = 0
    for problem, proof in proofs:
        for buffer in range(len(problem)):
            size = problem.size.copy()
            size[buffer] -= 1
            less = Problem(size, problem.first, problem.last)
            if memplan.plan(less, "valley").peak <= proof.capacity:
                assert not holds(proof, less)
                rejected += 1
    assert rejected > 50


WRONG: dict[str, tuple[Callable[[Refutation], Refutation], str]] = {
    "no nodes": (lambda p: dataclasses.replace(p, nodes=()), "node 0: there is none"),
    "a root with a parent": (lambda p: changed(p, 0, parent=0), "node 0: the root has neither"),
    "a parent that comes later": (lambda p: changed(p, 1, parent=1), "node 1: its parent must be a node before"),
    "two roots": (lambda p: changed(p, 1, parent=None), "node 1: its parent must be a node before it, got None"),
    "a buffer above itself": (lambda p: changed(p, 1, lower=p.nodes[1].upper), "node 1: it must speak of two buffers"),
    "a buffer that is not there": (lambda p: changed(p, 1, lower=9), "node 1: it must speak of two buffers of the p"),
    "a buffer named twice": (lambda p: dataclasses.replace(p, buffers=(0, 0, 1)), "buffers of the problem that have"),
    "an unknown buffer": (lambda p: dataclasses.replace(p, buffers=(0, 1, 5)), "buffers of the problem that have"),
    "an order that does not hold": (
        lambda p: dataclasses.replace(p, ordered=((0, 1),)),
        "buffers 0 and 1 cannot be exchanged",
    ),
    "an order against the list": (lambda p: dataclasses.replace(p, ordered=((1, 0),)), "as it lists them, got 1 and 0"),
    "no children": (lambda p: dataclasses.replace(p, nodes=(ROOT,)), "node 0: it has no children, and its differ"),
    "a clique with room": (
        lambda p: dataclasses.replace(p, nodes=(ROOT._replace(clique=((0, 0, 4), (1, 0, 5))),)),
        "node 0: it has no children, and the members of its clique have room",
    ),
    "a clique that may overlap": (
        lambda p: dataclasses.replace(p, nodes=(ROOT._replace(clique=((0, 0, 4), (2, 0, 6))),)),
        r"bytes \(0, 0, 4\) and \(2, 0, 6\) \(buffer, begin, end\) may overlap",
    ),
    "the same bytes twice": (
        lambda p: dataclasses.replace(p, nodes=(ROOT._replace(clique=((4, 0, 6), (4, 0, 6))),)),
        "may overlap in a plan",
    ),
    "bytes that are not there": (
        lambda p: dataclasses.replace(p, nodes=(ROOT._replace(clique=((0, 0, 13),)),)),
        "is no range of bytes of a buffer",
    ),
    "a gap between the children": (
        lambda p: changed(p, 1, difference=p.nodes[1].difference + 1),
        r"node 0: no child has buffer . at -?\d+ above buffer ., which is allowed",
    ),
    "three children": (
        lambda p: dataclasses.replace(p, nodes=(*p.nodes, p.nodes[1])),
        "node 0: it must have two children, which speak of the same two",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_said(what: str) -> None:
    change, says = WRONG[what]
    proof = proof_of(UNLIKE, memplan.plan(UNLIKE).peak - 1)
    proof.check(UNLIKE)
    assert len(proof) > 1
    with pytest.raises(memplan.proofs.RefutationError, match=says):
        change(proof).check(UNLIKE)


def test_what_can_be_exchanged_is_ordered() -> None:
    """Three of a kind, all conflicting, beside two others: without their order the proof does not hold."""
    size, pairs = [5, 5, 5, 7, 6], [(0, 1), (1, 2), (0, 2), (0, 3), (1, 3), (2, 3), (3, 4)]
    problem = Problem(size, range(5), range(1, 6), [1, 1, 1, 4, 1], conflicts=pairs)
    proof = proof_of(problem, memplan.plan(problem).peak - 1)
    proof.check(problem)
    ordered = dataclasses.replace(proof, ordered=((0, 1), (1, 2)))
    assert holds(ordered, problem)
    alone = Problem([5, 5], [0, 1], [1, 2], conflicts=[(0, 1)])
    assert not holds(Refutation(10, (0, 1), ((0, 1),), (ROOT,)), alone)
    ends = Node(0, 1, 0, 5), Node(0, 0, 1, 5)
    assert not holds(Refutation(10, (0, 1), ((0, 1),), (ROOT, *ends)), alone)
    assert holds(Refutation(9, (0, 1), ((0, 1),), (ROOT, *ends)), alone)


def test_alignments_that_differ() -> None:
    assert memplan.plan(TWO).peak == 8
    proof_of(TWO, 7).check(TWO)
    assert memplan.refute(TWO, 8) is None


def test_a_clique_of_many_is_enough() -> None:
    """Hundreds of buffers that all conflict: one node, which is checked at once."""
    count = 100
    pairs = [(i, j) for j in range(count) for i in range(j)]
    problem = Problem([4] * count, range(count), range(1, count + 1), conflicts=pairs)
    proof = proof_of(problem, 4 * count - 1)
    assert len(proof) == 1
    proof.check(problem)


def test_what_is_large_is_left() -> None:
    """Too many buffers that are hard to place: no proof, and no plan."""
    chance = random.Random(2)
    count = 120
    pairs = [(i, j) for j in range(count) for i in range(j) if chance.random() < 0.5]
    problem = Problem([chance.randint(1, 50) for _ in range(count)], range(count), range(1, count + 1), conflicts=pairs)
    clique = memplan.proofs.heaviest_clique(problem).bytes
    assert memplan.refute(problem, clique - 1) is not None
    assert memplan.refute(problem, clique, work=10**6) is None
    assert memplan.refute(UNLIKE, 14, work=0) is None


# The way in and out


def test_as_json(tmp_path: Path) -> None:
    proof = proof_of(RING, 2)
    path = tmp_path / "proof.json"
    proof.to_json(path)
    again = Refutation.from_json(path)
    assert again == proof
    again.check(RING)
    assert repr(proof) == f"<memplan.proofs.Refutation: no plan within 2 bytes, {len(proof)} nodes>"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"format": "memplan.plan"}, "expected format 'memplan.refutation' version 1"),
        ({"version": 2}, "expected format"),
        ({"capacity": 1.5}, "capacity must be an integer"),
        ({"capacity": True}, "capacity must be an integer"),
        ({"nodes": None}, "nodes must be a list"),
        ({"ordered": {}}, "ordered must be a list"),
        ({"ordered": [[1]]}, r"ordered\[0\] must be a list of 2"),
        ({"buffers": [0.5]}, r"buffers\[0\] must be an integer"),
        ({"nodes": [[None, None, None, 0]]}, r"nodes\[0\] must be a list of 5"),
        ({"nodes": [[None, None, None, None, []]]}, r"nodes\[0\].difference must be an integer"),
        ({"nodes": [[None, None, None, 0, [[1, 2]]]]}, r"nodes\[0\].clique\[0\] must be a list of 3"),
    ],
)
def test_json_that_is_something_else(change: dict[str, Any], says: str, tmp_path: Path) -> None:
    path = tmp_path / "proof.json"
    proof_of(RING, 2).to_json(path)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(memplan.errors.SourceError, match=says):
        Refutation.from_json(path)


def test_text_that_is_no_json(tmp_path: Path) -> None:
    path = tmp_path / "proof.json"
    path.write_text("{")
    with pytest.raises(memplan.errors.SourceError, match="line 1, column 2: Expecting property name"):
        memplan.proofs.Refutation.from_json(path)


def test_nothing_needs_no_bytes() -> None:
    assert memplan.refute(Problem([], [], []), 0) is None
    assert memplan.refute(Problem([0], [0], [1]), 0) is None


def test_bad_input_is_refused() -> None:
    with pytest.raises(TypeError, match="refute takes a Problem, got list"):
        memplan.refute([1], 5)  # type: ignore[arg-type]
    for value, hint in (
        ("a.csv", r"got str 'a.csv'; memplan.plan\('a.csv'\).problem is that of a file"),
        (memplan.plan(TWO), "got Plan; the problem of a plan is plan.problem"),
        ({}, r"got dict; memplan.plan\(...\).problem is that of a graph or network"),
    ):
        with pytest.raises(TypeError, match=f"refute takes a Problem, {hint}"):
            memplan.refute(value, 5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="checked against a Problem, got list"):
        proof_of(RING, 2).check([1])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="capacity must be an integer"):
        memplan.refute(TWO, 5.0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="capacity must be >= 0"):
        memplan.refute(TWO, -1)
    with pytest.raises(ValueError, match="work must be >= 0"):
        memplan.refute(TWO, 5, work=-1)
