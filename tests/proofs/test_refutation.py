"""Proofs that no plan fits: the search's hold, what is changed in them does not, and none holds where a plan fits."""

from __future__ import annotations

import dataclasses
import itertools
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given

import memplan
from builders.strategies import bounded, columns
from memplan import _core
from memplan.generate import tight
from memplan.proofs import checker
from memplan.proofs.checker import Node
from oracles import plain as oracle

Nodes = list[Node]
# One byte at 0 or 3, …, two at 0 or 8, two anywhere: 5 bytes are alive, and 6 are needed.
APART = memplan.Problem([1, 2, 2], [0] * 3, [1] * 3, [3, 8, 1])
TWO = memplan.Problem([3, 4], [0, 1], [2, 3])


def optimum(problem: memplan.Problem) -> int:
    plan = memplan.plan(problem, "exhaustive")
    assert plan.optimal
    return int(plan.peak)


def proof_of(problem: memplan.Problem, capacity: int) -> memplan.Refutation:
    proof = memplan.refute(problem, capacity)
    assert isinstance(proof, memplan.Refutation)
    return proof


def holds(proof: memplan.Refutation, problem: memplan.Problem) -> bool:
    try:
        proof.check(problem)
    except memplan.RefutationError:
        return False
    return True


def small(chance: random.Random, most: int) -> oracle.Columns:
    """Columns of few small buffers; a third have alignments of all sorts, a third one that all share."""
    count = chance.randint(1, most)
    size = [chance.randint(0 if chance.random() < 0.1 else 1, 12) for _ in range(count)]
    first = [chance.randint(-2, 4) for _ in range(count)]
    last = [f + chance.randint(1, 4) for f in first]
    one = chance.choice([2, 4, 8])
    kinds: list[Callable[[], int]] = [lambda: 1, lambda: one, lambda: chance.choice([1, 1, 2, 3, 4, 8])]
    kind = chance.choice(kinds)
    return size, first, last, [kind() for _ in range(count)]


def hard() -> Iterator[memplan.Problem]:
    """Each of them, looked for once."""
    for k in itertools.count():
        if k == len(FOUND):
            FOUND.append(next(LOOKING))
        yield FOUND[k]


def looking() -> Iterator[memplan.Problem]:
    """Problems of 10 to 16 buffers that need more than their load, without alignments, no two buffers the same.

    In units of ten bytes the load is the same at every step; of those, up to two are missing from each buffer.
    """
    for seed in itertools.count():
        puzzle = tight(10 + seed % 7, steps=8, units=24, unit=1, pinwheels=1, exchanges=40, seed=seed)
        if memplan.plan(puzzle, "valley").peak > puzzle.load:
            less = np.random.default_rng(seed).integers(0, 3, len(puzzle))
            problem = memplan.Problem(10 * puzzle.size - less, puzzle.first, puzzle.last)
            rows = set(zip(problem.size.tolist(), problem.first.tolist(), problem.last.tolist(), strict=True))
            if len(rows) == len(problem) and memplan.plan(problem, "valley").peak > problem.load:
                yield problem


FOUND: list[memplan.Problem] = []
LOOKING = looking()


@pytest.fixture(scope="module")
def proofs() -> list[tuple[memplan.Problem, memplan.Refutation]]:
    """Proofs that branch, of at most a few hundred nodes."""
    found = ((p, proof_of(p, int(memplan.plan(p, "valley").peak) - 1)) for p in hard())
    return list(itertools.islice(((p, proof) for p, proof in found if 20 < len(proof) < 400), 25))


# What the search finds


@pytest.mark.parametrize("problems", [3_000, pytest.param(60_000, marks=pytest.mark.slow)])
def test_thousands_of_small_problems(problems: int) -> None:
    chance = random.Random(1)
    branched = 0
    for _ in range(problems):
        problem = memplan.Problem(*small(chance, 8))
        best = optimum(problem)
        assert memplan.refute(problem, best) is None
        if best > 0:
            proof = proof_of(problem, best - 1)
            if len(proof) < 2000:
                proof.check(problem)
            branched += len(proof) > 1
    assert branched > problems / 16


def test_tiny_problems_all_of_whose_placements_are_tried() -> None:
    chance = random.Random(2)
    for _ in range(300):
        size, first, last, alignment = small(chance, 3)
        rows = [-(-s // 3) for s in size], first, last, alignment
        problem = memplan.Problem(*rows)
        for capacity in range(9):
            offsets = itertools.product(*(range(0, capacity + 1, a) for a in alignment))
            fits = any(not oracle.violations(rows, list(o), capacity) for o in offsets)
            proof = memplan.refute(problem, capacity)
            assert (proof is None) == fits
            if proof is None:
                break
            proof.check(problem)


@given(columns(max_buffers=8))
@bounded(80)
def test_every_capacity_below_the_optimum(rows: oracle.Columns) -> None:
    problem = memplan.Problem(*rows)
    best = optimum(problem)
    for capacity in {0, best // 2, problem.load - 1, problem.load, best - 1} & set(range(best)):
        proof = proof_of(problem, capacity)
        if len(proof) < 5000:
            proof.check(problem)


def test_puzzles_that_need_more_than_their_load(proofs: list[tuple[memplan.Problem, memplan.Refutation]]) -> None:
    for problem, proof in proofs:
        assert proof.capacity >= problem.load
        proof.check(problem)
    assert max(len(problem) for problem, _ in proofs) == 16


def test_a_check_says_what_it_has_proven() -> None:
    problem = memplan.Problem([2, 4, 4, 1, 2, 1, 1], [0, 4, 0, 2, 5, 3, 2], [2, 6, 3, 5, 9, 5, 4])
    proof = memplan.refute(problem, 6)
    assert proof is not None
    nodes = f"a tree of {len(proof)} nodes, from step to step."
    assert repr(proof.check(problem)) == f"No plan of 7 buffers fits 6 bytes. Proven by {nodes}"
    apart = memplan.Problem([2, 2], [0, 2], [1, 3], conflicts=[(0, 1)])
    by_pairs = memplan.refute(apart, 3)
    assert by_pairs is not None
    assert str(by_pairs.check(apart)).startswith("No plan of 2 buffers fits 3 bytes. Proven by a tree of ")


def test_numbers_near_the_ends_of_their_range() -> None:
    byte, step = 2**59, 2**62
    problem = memplan.Problem([byte, 2 * byte, 2 * byte], [-step] * 3, [step] * 3, [3 * byte, 8 * byte, 1])
    proof = proof_of(problem, 6 * byte - 1)
    assert len(proof) > 1
    proof.check(problem)
    assert memplan.refute(problem, 6 * byte) is None


# What does not hold


def without(nodes: Nodes, gone: set[int]) -> Nodes:
    """The nodes without some and all below them."""
    number: dict[int, int] = {}
    kept: Nodes = []
    for k, node in enumerate(nodes):
        if k in gone or (node.parent is not None and node.parent not in number):
            continue
        number[k] = len(kept)
        kept.append(node._replace(parent=None if node.parent is None else number[node.parent]))
    return kept


def changed(proof: memplan.Refutation, k: int, **fields: Any) -> memplan.Refutation:
    nodes = list(proof.nodes)
    nodes[k] = nodes[k]._replace(**fields)
    return dataclasses.replace(proof, nodes=nodes)


Proofs = list[tuple[memplan.Problem, memplan.Refutation]]
Some = Callable[[list[int]], list[int]]


@pytest.fixture
def some(request: pytest.FixtureRequest) -> Some:
    """The first of many nodes, and sixteen at random; all of them with --slow. A check takes as long as the proof."""
    if request.config.getoption("--slow"):
        return lambda nodes: nodes
    chance = random.Random(6)
    return lambda nodes: nodes if len(nodes) < 18 else [nodes[0], *chance.sample(nodes[1:], 16)]


def placing(proof: memplan.Refutation) -> list[int]:
    return [k for k, node in enumerate(proof.nodes) if node.buffer is not None]


@pytest.mark.no_cover
def test_without_a_child_that_places_a_buffer(proofs: Proofs, some: Some) -> None:
    for problem, proof in proofs[:16]:
        for k in some(placing(proof)):
            left = dataclasses.replace(proof, nodes=without(list(proof.nodes), {k}))
            with pytest.raises(memplan.RefutationError):
                left.check(problem)


def test_without_a_child_in_which_all_lie_higher(proofs: Proofs) -> None:
    """A third of them can be spared: the search is content with the floors beyond a valley, which nothing may touch."""
    rejected = spared = 0
    for problem, proof in proofs:
        for k, node in enumerate(proof.nodes):
            if k > 0 and node.buffer is None:
                held = holds(dataclasses.replace(proof, nodes=without(list(proof.nodes), {k})), problem)
                spared += held
                rejected += not held
    assert rejected > spared


@pytest.mark.no_cover
def test_a_buffer_placed_higher_or_lower(proofs: Proofs, some: Some) -> None:
    for problem, proof in proofs[:8]:
        for k in some(placing(proof)):
            height = proof.nodes[k].height
            assert not holds(changed(proof, k, height=height + 1), problem)
            assert not holds(changed(proof, k, height=height - 1), problem)


def test_more_ruled_out_than_there_is_reason_for(proofs: Proofs) -> None:
    rejected = changes = 0
    for problem, proof in proofs:
        for k, node in enumerate(proof.nodes):
            if k > 0 and node.buffer is None:
                rejected += not holds(changed(proof, k, height=proof.capacity + 1), problem)
                changes += 1
    assert rejected > changes / 2  # the others can be spared as well


@pytest.mark.no_cover
def test_another_buffer(proofs: Proofs, some: Some) -> None:
    for problem, proof in proofs[:2]:
        for k in some(placing(proof)):
            for other in set(range(len(problem))) - {proof.nodes[k].buffer}:
                assert not holds(changed(proof, k, buffer=other), problem)


@pytest.mark.no_cover
def test_a_leaf_that_is_alive(proofs: Proofs, some: Some) -> None:
    for problem, proof in proofs[:12]:
        parents = {node.parent for node in proof.nodes}
        for k in some([k for k in range(len(proof)) if k in parents]):
            below = {child for child, node in enumerate(proof.nodes) if node.parent == k}
            cut = without(list(proof.nodes), below)
            assert not holds(dataclasses.replace(proof, nodes=cut), problem)


def test_a_problem_of_less(proofs: Proofs) -> None:
    """Less of one buffer; where then a plan fits, the proof may not hold."""
    rejected = 0
    for problem, proof in proofs[:20]:
        for buffer in range(len(problem)):
            size = problem.size.copy()
            size[buffer] -= 1
            less = memplan.Problem(size, problem.first, problem.last)
            if memplan.plan(less, "valley").peak <= proof.capacity:
                assert not holds(proof, less)
                rejected += 1
    assert rejected > 50


def test_a_capacity_in_which_a_plan_fits(proofs: Proofs) -> None:
    for problem, proof in proofs:
        assert not holds(dataclasses.replace(proof, capacity=proof.capacity + 1), problem)


def test_nothing_at_random_holds_where_a_plan_fits(proofs: Proofs) -> None:
    """The search's proofs, cut and changed here and there."""
    chance = random.Random(3)
    for problem, proof in proofs:
        for _ in range(60):
            nodes = list(proof.nodes)
            for k in chance.sample(range(len(nodes)), chance.randint(1, 3)):
                node = nodes[k]
                nodes[k] = chance.choice(
                    [
                        node._replace(height=node.height + chance.choice([-1, 1])),
                        node._replace(step=chance.randrange(8)),
                        node._replace(parent=chance.randrange(k) if k else None),
                        node._replace(buffer=chance.choice([None, chance.randrange(len(problem))]) if k else None),
                    ]
                )
            nodes = without(nodes, set(chance.sample(range(1, len(nodes)), chance.randint(0, 2))))
            assert not holds(memplan.Refutation(proof.capacity + 1, nodes), problem)


class Prover:
    """Makes the most of the checker's rules, branching at random wherever they allow it."""

    def __init__(self, rows: oracle.Columns, capacity: int, chance: random.Random) -> None:
        self.problem, self.capacity, self.chance = checker.Problem(*rows), capacity, chance
        self.nodes: Nodes = []
        self.expand(Node(None, None, 0, 0), [0 if size > 0 else None for size in rows[0]])

    def there(self, step: int, base: list[int | None]) -> list[tuple[int, int]]:
        return self.problem.at(step, base)

    def may_branch(self, step: int, base: list[int | None]) -> bool:
        """Nothing that is to come may lie below what would be placed."""
        p, there = self.problem, self.there(step, base)
        floor = min((b for _, b in there), default=0)
        beside = (y for x, b in there if b == floor for y in p.conflicts[x])
        ends = (b + p.size[y] for y in beside if (b := base[y]) is not None)
        return bool(there) and all(end > floor for end in ends)

    def expand(self, node: Node, base: list[int | None]) -> None:
        p, me = self.problem, len(self.nodes)
        steps = sorted({f for f, b in zip(p.first, base, strict=True) if b is not None})
        full = [
            s for s in steps if min(b for _, b in self.there(s, base)) + p.needed(self.there(s, base)) > self.capacity
        ]
        if full or not steps or (node.buffer is not None and node.height + p.size[node.buffer] > self.capacity):
            self.nodes.append(node._replace(step=full[0] if full else node.step))
            return
        step = self.chance.choice([s for s in steps if self.may_branch(s, base)])
        self.nodes.append(node._replace(step=step))
        there = self.there(step, base)
        floor = min(b for _, b in there)
        for x, b in there:
            if b == floor:
                self.expand(Node(me, x, floor, 0), p.placed(x, floor, base))
        rise = p.rise(there, floor, base)
        if rise is not None and rise + p.needed(there) <= self.capacity:
            self.expand(Node(me, None, rise, 0), p.raised(step, rise, base))


@pytest.mark.no_cover
@pytest.mark.parametrize("problems", [500, pytest.param(15_000, marks=pytest.mark.slow)])
def test_the_rules_prove_what_is_so_and_nothing_else_wherever_one_branches(problems: int) -> None:
    chance = random.Random(4)
    branched = 0
    for _ in range(problems):
        rows = small(chance, 6)
        problem = memplan.Problem(*rows)
        best = optimum(problem)
        for capacity in range(max(best - 1, 0), best + 1):
            nodes = Prover(rows, capacity, chance).nodes
            branched += len(nodes) > 1
            assert holds(memplan.Refutation(capacity, nodes), problem) == (capacity < best)
    assert branched > problems


# By hand


def test_a_proof_by_hand() -> None:
    """Whichever of the three lies at 0, the others end at 6 at least."""
    nodes = [
        Node(None, None, 0, 0),
        Node(0, 2, 0, 0),  # then nothing lies below 3, and 3 bytes are to come
        Node(0, 1, 0, 0),  # then the other 2 lie at 2, or else nothing lies below 3
        Node(2, 2, 2, 0),  # and the byte lies at 6
        Node(0, 0, 0, 0),  # then the 2 at multiples of 8 end at 10, when the other 2 lie at 1
        Node(4, 2, 1, 0),
    ]
    memplan.Refutation(5, nodes).check(APART)
    assert not holds(memplan.Refutation(6, nodes), APART)
    for gone in (1, 2, 3, 4, 5):
        assert not holds(memplan.Refutation(5, without(nodes, {gone})), APART)


def test_one_node_is_enough_where_the_load_is() -> None:
    proof = proof_of(TWO, 6)
    assert list(proof.nodes) == [Node(None, None, 0, 1)]
    proof.check(TWO)
    assert not holds(dataclasses.replace(proof, capacity=7), TWO)
    assert not holds(changed(proof, 0, step=0), TWO)


@pytest.mark.parametrize(
    ("nodes", "says"),
    [
        ([], "node 0: there is none"),
        ([Node(0, None, 0, 1)], "node 0: the root has neither"),
        ([Node(None, 0, 0, 1)], "node 0: the root has neither"),
        ([Node(None, None, 0, 1), Node(1, 0, 0, 1)], "node 1: its parent must be a node before it"),
        ([Node(None, None, 0, 1), Node(None, 0, 0, 1)], "node 1: its parent must be a node before it"),
        ([Node(None, None, 0, 1), Node(0, 2, 0, 1)], "node 1: there is no buffer 2"),
        ([Node(None, None, 0, 7), Node(0, 0, 0, 1)], "node 0: nothing is to come at step 7"),
        ([Node(None, None, 0, 7)], "node 0: it has no children"),
        ([Node(None, None, 0, 1), Node(0, 0, 0, 1)], "node 0: no child places buffer 1, which may lie at 0 at step 1"),
        ([Node(None, None, 0, 0), Node(0, 0, 0, 1)], "node 0: no child has all at step 0 above 0, though"),
        ([Node(None, None, 0, 0), Node(0, 0, 0, 1), Node(0, None, 5, 0)], "node 0: at step 0 something may lie at 4"),
        ([Node(None, None, 0, 0), Node(0, 1, 0, 1)], "node 0: buffer 1 is placed at 0 where the floor at step 0"),
    ],
)
def test_what_is_wrong_is_said(nodes: Nodes, says: str) -> None:
    with pytest.raises(memplan.RefutationError, match=says) as caught:
        memplan.Refutation(7, nodes).check(TWO)
    assert f"node {caught.value.node}: " in says


def test_what_may_lie_below_is_not_closed_off() -> None:
    """The byte of step 1 may lie below the three that are told to lie at 1 or higher, at step 0 alone."""
    problem = memplan.Problem([3, 1, 1], [0, 1, 0], [2, 2, 1])
    nodes = [Node(None, None, 0, 0), Node(0, 2, 0, 0), Node(1, 0, 1, 0), Node(0, 0, 0, 0)]
    with pytest.raises(memplan.RefutationError, match="node 1: buffer 1 may lie below buffer 0, which is placed at 1"):
        memplan.Refutation(4, nodes).check(problem)


# The way in and out


def test_as_json(tmp_path: Path) -> None:
    proof = proof_of(APART, 5)
    path = tmp_path / "proof.json"
    proof.to_json(path)
    again = memplan.Refutation.from_json(path)
    assert again == proof
    assert len(again) == len(proof.nodes) > 1
    again.check(APART)
    assert repr(proof) == f"<memplan.Refutation: no plan within 5 bytes, {len(proof)} nodes>"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"format": "memplan.plan"}, "expected format 'memplan.refutation' version 1"),
        ({"version": 2}, "expected format"),
        ({"capacity": 1.5}, "capacity must be an integer"),
        ({"capacity": True}, "capacity must be an integer"),
        ({"nodes": {}}, "nodes must be a list"),
        ({"nodes": [[None, None, 0]]}, r"nodes\[0\] must be \[parent"),
        ({"nodes": [[None, None, 0, 0], [0, 1, None, 0]]}, r"nodes\[1\] must hold integers"),
        ({"nodes": [[None, None, 0, 0.5]]}, r"nodes\[0\] must hold integers"),
    ],
)
def test_json_that_is_something_else(change: dict[str, Any], says: str, tmp_path: Path) -> None:
    path = tmp_path / "proof.json"
    proof_of(TWO, 6).to_json(path)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(memplan.SourceError, match=says):
        memplan.Refutation.from_json(path)


def test_text_that_is_no_json(tmp_path: Path) -> None:
    path = tmp_path / "proof.json"
    path.write_text("{")
    with pytest.raises(memplan.SourceError, match="line 1, column 2: Expecting property name"):
        memplan.Refutation.from_json(path)


def test_work_ends_it() -> None:
    assert memplan.refute(APART, 5, work=0) is None
    assert memplan.refute(tight(60, exchanges=60, seed=1), 1023 * 1024, work=0) is not None  # the load alone


def test_nothing_needs_no_bytes() -> None:
    assert memplan.refute(memplan.Problem([], [], []), 0) is None
    assert memplan.refute(memplan.Problem([0], [0], [1]), 0) is None


def test_shapes_and_conflicts_are_refused() -> None:
    shaped = memplan.Problem([3, 3], [0, 1], [2, 3], parts=[(0, 0, 1, 0, 2)])
    apart = memplan.Problem([3, 3], [0, 2], [2, 3], conflicts=[(0, 1)])
    for problem, name in ((shaped, "shapes"), (apart, "conflicts")):
        with pytest.raises(memplan.UnsupportedError, match=f"refute does not support {name}.*; refute_pairs does"):
            _core.refute(problem, 1, 10**6)
        with pytest.raises(memplan.UnsupportedError, match=r"plain buffers.*a PairRefutation"):
            proof_of(TWO, 6).check(problem)


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
        proof_of(TWO, 6).check([1])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="capacity must be an integer"):
        memplan.refute(TWO, 5.0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="capacity must be >= 0"):
        memplan.refute(TWO, -1)
    with pytest.raises(ValueError, match="work must be >= 0"):
        memplan.refute(TWO, 5, work=-1)


# Another exact planner


@pytest.mark.parametrize("count", [20, pytest.param(60, marks=pytest.mark.slow)])
def test_infeasible_where_cp_sat_says_so(count: int) -> None:
    pytest.importorskip("ortools")
    chance = random.Random(5)
    refuted = fitted = 0
    for problem in itertools.chain(
        itertools.islice(hard(), count), (memplan.Problem(*small(chance, 8)) for _ in range(2 * count))
    ):
        for capacity in {problem.load, optimum_by_valley(problem) - 1}:
            if capacity < problem.load:
                continue
            verdicts = {planner: fits(problem, planner, capacity) for planner in ("valley", "cp_sat")}
            assert verdicts["valley"] == verdicts["cp_sat"]
            refuted += not verdicts["valley"]
            fitted += verdicts["valley"]
    assert refuted > count
    assert fitted > count


def optimum_by_valley(problem: memplan.Problem) -> int:
    return int(memplan.plan(problem, "valley").peak)


def fits(problem: memplan.Problem, planner: str, capacity: int) -> bool:
    try:
        memplan.plan(problem, planner, capacity=capacity)
    except memplan.InfeasibleError as error:
        if not error.proven:
            pytest.fail(f"{planner} gave up at {capacity}")
        return False
    return True
