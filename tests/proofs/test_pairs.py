"""Proofs by pairs: the search's hold, what is changed in them does not, and none holds where a plan fits."""

from __future__ import annotations

import dataclasses
import json
import math
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import memplan
from memplan import PairRefutation, Problem
from memplan.proofs.pair_checker import PairNode
from oracles.exactness import REFUTED, Case, case, fits, fits_by_cp_sat

ROOT = PairNode(None, None, None, 0)
# A ring of five, each of which conflicts with the next: 2 bytes are in any clique, and 3 are needed.
RING = Problem([1] * 5, range(5), range(1, 6), conflicts=[(i, (i + 1) % 5) for i in range(5)])
# The same of different sizes, so that no two can be exchanged.
UNLIKE = Problem([4, 5, 6, 5, 6], range(5), range(1, 6), conflicts=[(i, (i + 1) % 5) for i in range(5)])
# Multiples of 2 and of 3: whichever is below, the other ends at 9 or at 8; they add up to 7.
TWO = Problem([2, 5], [0, 1], [1, 2], [2, 3], conflicts=[(0, 1)])


def proof_of(problem: Problem, capacity: int) -> PairRefutation:
    proof = memplan.refute(problem, capacity)
    assert isinstance(proof, PairRefutation)
    return proof


def holds(proof: PairRefutation, problem: Problem) -> bool:
    try:
        proof.check(problem)
    except memplan.RefutationError:
        return False
    return True


def by_pairs(problem: Problem) -> bool:
    asked = (problem.parts, problem.conflicts, problem.pins, problem.reserved, problem.together)
    return any(rows is not None for rows in asked)


def problems(kind: str, count: int, seed: int = 0) -> Iterator[tuple[Case, Problem, int]]:
    """Random ones that need bytes, with their optimum."""
    for k in range(seed, seed + count):
        made = case(kind, k)
        problem = Problem(**made.arguments())
        plan = memplan.plan(problem)
        if plan.optimal:
            yield made, problem, plan.peak


# What is planned, and what the search finds


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
        if not by_pairs(problem):
            continue
        proof = proof_of(problem, best - 1)
        branched += len(proof) > 1
        if len(proof) < 1000:
            proof.check(problem)
            assert not holds(dataclasses.replace(proof, capacity=best), problem)
    assert tried > count / 60
    assert branched or count < 1000


@pytest.mark.parametrize("count", [8, pytest.param(300, marks=pytest.mark.slow)])
def test_cp_sat_finds_nothing_better(count: int) -> None:
    pytest.importorskip("ortools")
    for kind in REFUTED:
        for made, _, best in problems(kind, count, seed=10_000):
            assert fits_by_cp_sat(made, best, 5) in (True, None)
            assert fits_by_cp_sat(made, best - 1, 5) in (False, None)


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


def changed(proof: PairRefutation, k: int, **fields: Any) -> PairRefutation:
    nodes = list(proof.nodes)
    nodes[k] = nodes[k]._replace(**fields)
    return dataclasses.replace(proof, nodes=nodes)


def test_what_is_changed_does_not_hold() -> None:
    """A difference that is larger by one leaves out something, unless what is forbidden goes on; a node left out
    does; a clique without a member has room."""
    chance = random.Random(1)
    refused = tried = 0
    for kind in ("conflicts", "shapes", "mixtures", "together", "layouts"):
        for made, problem, best in problems(kind, 30):
            if not by_pairs(problem):
                continue
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


def leaf_less(nodes: Sequence[PairNode], gone: int) -> list[PairNode]:
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


def test_nothing_holds_where_a_plan_fits() -> None:
    """Proofs of one problem, held against others that have a plan."""
    for kind in REFUTED:
        given = [(p, best) for _, p, best in problems(kind, 25) if by_pairs(p)]
        proofs = [proof_of(p, best - 1) for p, best in given]
        for proof in proofs:
            if len(proof) > 200:
                continue
            for problem, best in given:
                known = dataclasses.replace(proof, capacity=best)
                assert not holds(known, problem)


WRONG: dict[str, tuple[Callable[[PairRefutation], PairRefutation], str]] = {
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
    with pytest.raises(memplan.RefutationError, match=says):
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
    assert not holds(PairRefutation(10, (0, 1), ((0, 1),), (ROOT,)), alone)
    ends = PairNode(0, 1, 0, 5), PairNode(0, 0, 1, 5)
    assert not holds(PairRefutation(10, (0, 1), ((0, 1),), (ROOT, *ends)), alone)
    assert holds(PairRefutation(9, (0, 1), ((0, 1),), (ROOT, *ends)), alone)


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
    clique = memplan.heaviest_clique(problem).bytes
    assert memplan.refute(problem, clique - 1) is not None
    assert memplan.refute(problem, clique, work=10**6) is None
    assert memplan.refute(UNLIKE, 14, work=0) is None


# The way in and out


def test_as_json(tmp_path: Path) -> None:
    proof = proof_of(RING, 2)
    path = tmp_path / "proof.json"
    proof.to_json(path)
    again = PairRefutation.from_json(path)
    assert again == proof
    again.check(RING)
    assert repr(proof) == f"<memplan.PairRefutation: no plan within 2 bytes, {len(proof)} nodes>"
    with pytest.raises(memplan.SourceError, match=r"expected format 'memplan\.refutation' version 1"):
        memplan.Refutation.from_json(path)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"format": "memplan.refutation"}, "expected format 'memplan.pair_refutation' version 1"),
        ({"capacity": None}, "capacity must be an integer"),
        ({"nodes": None}, "nodes must be a list"),
        ({"ordered": {}}, "ordered must be a list"),
        ({"ordered": [[1]]}, r"ordered\[0\] must be \[buffer, buffer\]"),
        ({"buffers": [0.5]}, "buffers must be a list of integers"),
        ({"nodes": [[None, None, None, 0]]}, r"nodes\[0\] must be \[parent, lower"),
        ({"nodes": [[None, None, None, None, []]]}, r"nodes\[0\] must hold integers"),
        ({"nodes": [[None, None, None, 0, [[1, 2]]]]}, r"nodes\[0\]: a member of its clique must be \[buffer"),
    ],
)
def test_json_that_is_something_else(change: dict[str, Any], says: str, tmp_path: Path) -> None:
    path = tmp_path / "proof.json"
    proof_of(RING, 2).to_json(path)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(memplan.SourceError, match=says):
        PairRefutation.from_json(path)


def test_bad_input_is_refused() -> None:
    with pytest.raises(TypeError, match="checked against a Problem, got list"):
        proof_of(RING, 2).check([1])  # type: ignore[arg-type]
