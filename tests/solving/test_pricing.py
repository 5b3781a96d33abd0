"""Pairs that may share bytes at a price."""

from __future__ import annotations

import random
import time
from typing import Any

import numpy as np
import pytest

import memplan
from builders.commands import run
from memplan import _core
from oracles.prices import instance

# one after the other: each may lie over the one before it
CHAIN: dict[str, Any] = {"size": [4, 4, 4, 4], "first": [0, 1, 2, 3], "last": [1, 2, 3, 4], "names": list("abcd")}


def problem(**columns: Any) -> memplan.Problem:
    return memplan.Problem(**(CHAIN | columns))


def plan(capacity: int | None, *rows: tuple[str, str, int], **options: Any) -> memplan.Plan:
    found = memplan.plan(problem(), capacity=capacity, price=rows, **options)
    found.verify()
    return found


def test_the_least_price_within_a_capacity() -> None:
    rows = (("a", "b", 5), ("b", "c", 1), ("c", "d", 3), ("a", "d", 2), ("a", "c", 4))  # b and d: for nothing
    for capacity, price, peak in ((16, 0, 12), (11, 3, 8), (4, 15, 4), (None, 0, 12)):
        found = plan(capacity, *rows)
        assert found.pricing is not None
        assert (found.pricing.price, found.pricing.price_bound) == (price, price)
        assert (found.peak, found.pricing.peak_bound) == (peak, peak), capacity


def test_no_price_is_worth_more_than_the_capacity() -> None:
    """One byte more would save two: the search for the lowest peak sees such plans, and takes none."""
    buffers = [(4, 1, 2), (4, 0, 3), (4, 3, 4), (4, 1, 2), (1, 4, 5), (4, 4, 5), (2, 2, 5)]
    of_pairs = [3, 5, 5, 2, 6, 6, 7, 5, 6, 4, 7, 4, 1, 2, 8, 1, 3, 3, 9, 1, 7]
    rows = [(f"#{a}", f"#{b}", of_pairs.pop(0)) for a in range(7) for b in range(a + 1, 7)]
    found = memplan.plan(memplan.Problem(*map(list, zip(*buffers, strict=True))), price=rows, capacity=14)
    assert (found.peak, found.pricing.price, found.pricing.price_bound, found.pricing.peak_bound) == (14, 10, 10, 14)


def test_prices_without_a_choice() -> None:
    found = plan(4, ("a", "b", 2), ("b", "a", 3))  # rows add up
    assert (found.pricing.price, found.pricing.sharing) == (5, (("a", "b"),))
    assert plan(None, ("a", "b", 0)).pricing.price == 0
    assert memplan.plan(problem()).pricing is None
    with pytest.raises(memplan.InfeasibleError):
        plan(3, ("a", "b", 2))


def test_pins_and_distances_may_cost() -> None:
    found = memplan.plan(problem(pins=[0, 2, -1, -1]), capacity=8, price=[("a", "b", 7), ("c", "d", 1)])
    assert (found.pricing.price, found.pricing.price_bound, found.peak) == (7, 7, 8)
    found = memplan.plan(problem(), together=[("a", "b", 2)], price=[("a", "b", 7)])
    assert (found.pricing.price, found.pricing.price_bound, found.peak) == (7, 7, 6)


def test_a_graph_has_prices_of_tensors() -> None:
    tensors = [{"name": "x", "bytes": 4, "kind": "input"}, *({"name": n, "bytes": 8} for n in "abc")]
    ops = [{"inputs": [r], "outputs": [w]} for r, w in ("xa", "ab", "bc")]
    graph = {"tensors": tensors, "ops": ops, "outputs": ["c"]}
    assert memplan.plan(graph)["c"].offset == memplan.plan(graph)["a"].offset
    found = memplan.plan(graph, price=[("a", "c", 1)])
    assert (found.peak, found.pricing.price) == (24, 0)
    found = memplan.plan(graph, price=[("a", "c", 1)], capacity=16)
    assert (found.peak, found.pricing.price, found.pricing.price_bound) == (16, 1, 1)
    tensors.append({"name": "v", "bytes": 8})
    ops.append({"inputs": ["c"], "outputs": ["v"], "alias": [{"output": "v", "input": "c"}]})
    with pytest.raises(ValueError, match=r"price\[0\]: 'c' and 'v' both lie in 'c'"):
        memplan.plan(graph, price=[("c", "v", 1)])


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        ("ab", TypeError, "price must be rows such as"),
        ([("a", "b")], TypeError, r"price\[0\] must be \(a, b, price\), got"),
        ([("a", 1, 1)], TypeError, r"price\[0\] must name two tensors or buffers, got 1"),
        ([("a", "b", -1)], ValueError, r"price\[0\] price must be >= 0"),
        ([("a", "b", 1.5)], TypeError, r"price\[0\] price must be an integer"),
        ([("a", "e", 1)], ValueError, r"price\[0\] must name buffers in the arena, got 'e'; the buffers are 'a', 'b'"),
        ([("a", "a", 1)], ValueError, r"price\[0\]: 'a' and 'a' both lie in 'a'"),
    ],
)
def test_prices_that_are_none(rows: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        memplan.plan(problem(), price=rows)
    with pytest.raises(TypeError, match="option price does not go with keep"):
        memplan.plan(problem(), price=[("a", "b", 1)], keep={"a": 0})


def test_a_time_limit_ends_it_with_a_plan() -> None:
    rows = [(f"#{a}", f"#{b}", 1 + (a * b) % 7) for a in range(30) for b in range(a)]
    given = memplan.generate.layered(30)
    found = memplan.plan(given, price=rows, capacity=given.load * 2, time_limit=0.2)
    found.verify()
    assert 0 <= found.pricing.price_bound <= found.pricing.price


@pytest.mark.parametrize("tries", [1, 2, 3, 5, 8])
def test_what_is_not_searched_proves_nothing(tries: int) -> None:
    for seed in range(12):
        made = instance(seed)
        rows = [(a, b, price) for (a, b), price in made.price.items()]
        problem = memplan.Problem(*map(list, zip(*made.buffers, strict=True)))
        start = memplan.plan(problem, capacity=made.capacity + 8)
        options = _core.PlanOptions(capacity=made.capacity + 8, lower_bound=start.lower_bound)
        least = _core.price_plan(problem, rows, start.offsets, options)
        found = _core.price_plan(problem, rows, start.offsets, options, tries=tries, work=0)
        assert found.price_bound <= least.price, seed
        if found.price == least.price:
            assert found.peak_bound <= least.peak, seed


def test_what_fits_a_wide_capacity_is_not_the_lowest_yet() -> None:
    """The pair is alive together, so that it shares nothing in any plan."""
    problem = memplan.generate.tight(10)
    meets = (problem.first[1:] < problem.last[0]) & (problem.first[0] < problem.last[1:])
    other = 1 + int(meets.argmax())
    found = memplan.plan(problem, price=[(problem.name(0), problem.name(other), 1)], capacity=2 * problem.load)
    assert found.pricing is not None
    assert memplan.plan(problem, "first_fit").peak < 2 * problem.load
    assert (found.pricing.price, found.pricing.peak_bound, found.peak) == (0, problem.load, problem.load)


def test_the_command_line(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "l.csv"
    path.write_text("id,lower,upper,size\na,0,1,4\nb,1,2,4\n")
    assert run("plan", path, "--price", "a,b,3", "--capacity", "4") == 0
    assert "price    3 for pairs that share bytes, the least there is" in capsys.readouterr().out


# Larger problems


def follows(seed: int, count: int, after: int = 20) -> tuple[memplan.Problem, list[tuple[str, str, int]]]:
    """Buffers that live for a while, each with a price for most of those that are born soon after its death."""
    chance = random.Random(seed)
    first = sorted(chance.randrange(4 * count) for _ in range(count))
    last = [begin + chance.choice([5, 20, 80]) + chance.randrange(20) for begin in first]
    size = [chance.choice([1, 2, 4, 8, 16]) * chance.randint(40, 100) for _ in range(count)]
    rows = []
    for a in range(count):
        later = [b for b in range(count) if first[b] >= last[a]][:after]
        rows += [(f"#{a}", f"#{b}", chance.randint(1, 3)) for b in later if chance.random() < 0.75]
    return memplan.Problem(size, first, last), rows


def paid(problem: memplan.Problem, rows: list[tuple[str, str, int]], offsets: Any) -> int:
    begin, end = offsets.tolist(), (offsets + problem.size).tolist()
    pairs = [(int(a[1:]), int(b[1:]), price) for a, b, price in rows]
    return sum(price for a, b, price in pairs if max(begin[a], begin[b]) < min(end[a], end[b]))


def test_a_larger_problem_pays_much_less_than_a_plan_without_prices() -> None:
    """Half of what a plan without prices pays is what a search without moves was content with."""
    problem, rows = follows(1, 150)
    capacity = problem.load
    without = memplan.plan(problem, capacity=capacity)
    pairs = [(int(a[1:]), int(b[1:]), price) for a, b, price in rows]
    options = _core.PlanOptions(capacity=capacity)
    found = _core.price_plan(problem, pairs, without.offsets, options, work=2_000_000)
    assert found.price == paid(problem, rows, found.offsets)
    assert memplan.verify(problem, found.offsets, capacity=capacity) == found.peak
    assert 0 < found.price_bound <= found.price < paid(problem, rows, without.offsets) // 8
    again = _core.price_plan(problem, pairs, without.offsets, options, work=2_000_000)
    assert again.offsets.tolist() == found.offsets.tolist()


def test_better_plans_are_told() -> None:
    problem, rows = follows(2, 60)
    told: list[memplan.Plan] = []
    found = memplan.plan(
        problem, price=rows, capacity=problem.load * 5 // 4, time_limit=0.3, on_improvement=told.append
    )
    reached = [(plan.pricing.price, plan.peak) for plan in told if plan.pricing is not None]
    assert len(reached) == len(told) > 2
    assert reached == sorted(set(reached), reverse=True)
    assert reached[-1] == (found.pricing.price, found.peak)
    assert found.found_after <= found.seconds


def test_a_callback_ends_it_with_the_best() -> None:
    problem, rows = follows(3, 60)

    def end(plan: memplan.Plan) -> None:
        if plan.found_after > 0.05:
            raise KeyboardInterrupt

    begin = time.process_time()
    found = memplan.plan(problem, price=rows, capacity=problem.load * 5 // 4, on_improvement=end)
    assert found.interrupted
    assert found.pricing.price == paid(problem, rows, found.offsets)
    assert time.process_time() - begin < 1


@pytest.mark.parametrize("capacity", [None, 3000])
def test_limits_hold_for_large_problems(capacity: int | None) -> None:
    chance = np.random.default_rng(0)
    n = 20_000
    first = chance.integers(0, n, n)
    problem = memplan.Problem(chance.integers(1, 100, n), first, np.minimum(first + chance.geometric(1 / 30, n), n + 1))
    rows = [(f"#{i}", f"#{i + 50}", i % 7 + 1) for i in range(n // 2)]
    begin = time.process_time()
    found = memplan.plan(problem, price=rows, capacity=capacity, time_limit=0.3)
    assert time.process_time() - begin < 1.5 * 0.3 + 0.2  # names, and verified
    assert found.pricing.price == paid(problem, rows, found.offsets)


# With all that a problem may have


def random_features(seed: int) -> tuple[memplan.Problem, list[tuple[int, int, int]]]:
    chance = random.Random(seed)
    count = chance.randint(5, 14)
    size = [chance.randint(0, 9) for _ in range(count)]
    first = [chance.randrange(12) for _ in range(count)]
    last = [begin + chance.randint(1, 6) for begin in first]
    columns: dict[str, Any] = {"alignment": [chance.choice([1, 1, 2, 4]) for _ in range(count)]}
    if chance.random() < 0.4:
        parts = []
        for b in range(count):
            if size[b] > 1 and last[b] - first[b] > 1 and chance.random() < 0.5:
                cut, step = chance.randrange(1, size[b]), chance.randrange(first[b] + 1, last[b])
                parts += [(b, 0, cut, first[b], step), (b, cut, size[b], first[b], last[b])]
        columns["parts"] = parts or None
    if chance.random() < 0.4:
        columns["conflicts"] = [tuple(chance.sample(range(count), 2)) for _ in range(3)]
    if chance.random() < 0.4:
        columns["reserved"] = [(5, 9, 2, 6)]
    if chance.random() < 0.4:
        columns["pins"] = [40 if b == 0 else -1 for b in range(count)]
    if chance.random() < 0.3:
        columns["branches"] = [chance.choice(["", "if/then", "if/else"]) for _ in range(count)]
    problem = memplan.Problem(size, first, last, **columns)
    rows = [(*chance.sample(range(count), 2), chance.randint(0, 9)) for _ in range(3 * count)]
    return problem, rows


@pytest.mark.parametrize(("capacity", "price"), [(4, 3), (8, 0)])
def test_branches_may_share_at_a_price(capacity: int, price: int) -> None:
    problem = memplan.Problem([4, 4], [0, 0], [2, 2], branches=["if/then", "if/else"])
    found = memplan.plan(problem, price=[("#0", "#1", 3)], capacity=capacity)
    assert (found.pricing.price, found.pricing.price_bound) == (price, price)


@pytest.mark.parametrize("seeds", [range(60), range(1350, 1370)])
def test_all_that_a_problem_may_have(seeds: range) -> None:
    """Valid, never dearer than a plan without prices, and its figures are those of its offsets."""
    proven = 0
    for seed in seeds:
        try:
            problem, rows = random_features(seed)
            chance = random.Random(seed)
            if seed % 3 == 0:
                problem = problem.with_together([(1, 2, chance.randint(0, 20))])
        except memplan.errors.ProblemError:
            continue
        low = memplan.plan(problem)
        capacity = low.peak + chance.choice([0, 2, 20])
        named = [(f"#{a}", f"#{b}", price) for a, b, price in rows]
        options = _core.PlanOptions(capacity=capacity, lower_bound=low.lower_bound)
        found = _core.price_plan(problem, rows, low.offsets, options, tries=30, work=100_000)
        assert memplan.verify(problem, found.offsets, capacity=capacity) == found.peak, seed
        assert found.price == paid(problem, named, found.offsets) <= paid(problem, named, low.offsets), seed
        assert found.price_bound <= found.price, seed
        assert low.lower_bound <= found.peak_bound <= found.peak <= capacity, seed
        free = _core.price_plan(problem, rows, low.offsets, _core.PlanOptions(lower_bound=low.lower_bound))
        assert memplan.verify(problem, free.offsets) == free.peak, seed
        assert free.price == free.price_bound <= found.price_bound, seed
        proven += found.price == found.price_bound
    assert proven > len(seeds) // 3


# Beside every offset


def check(seeds: range) -> tuple[int, int, int]:
    """How many were planned, cost something, and were proven; all are the cheapest, and of these the lowest."""
    planned = cost = proven = 0
    for seed in seeds:
        made = instance(seed)
        rows = [(f"#{a}", f"#{b}", price) for (a, b), price in made.price.items()]
        columns = zip(*made.buffers, strict=True)
        try:
            found = memplan.plan(memplan.Problem(*map(list, columns)), capacity=made.capacity, price=rows)
        except memplan.InfeasibleError:
            assert made.better(2**60, 2**60) is None, seed
            continue
        if not rows:
            continue
        offsets, pricing = found.offsets.tolist(), found.pricing
        assert pricing is not None
        assert made.is_valid(offsets), seed
        assert (made.paid(offsets), made.peak(offsets)) == (pricing.price, found.peak), seed
        assert made.better(pricing.price, found.peak) is None, seed
        planned, cost = planned + 1, cost + (pricing.price > 0)
        proven += pricing.price_bound == pricing.price and pricing.peak_bound == found.peak
    return planned, cost, proven


@pytest.mark.slow
def test_random_prices() -> None:
    planned, cost, proven = check(range(40))
    assert planned > 30
    assert cost > 10
    assert proven == planned


@pytest.mark.slow
def test_ten_thousand_random_prices() -> None:
    planned, _, proven = check(range(1000, 11_000))
    assert proven >= 0.99 * planned
