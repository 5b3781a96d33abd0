"""Pairs that may share bytes at a price."""

from __future__ import annotations

import random
from itertools import combinations
from typing import Any

import pytest

import memplan
from commands import run
from memplan.solving import pricing
from memplan.solving.pricing import cheapest
from price_oracle import instance

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
    with pytest.raises(TypeError, match="option price does not go with pools, keep or hint"):
        memplan.plan(problem(), price=[("a", "b", 1)], hint={"a": 0})


def test_a_time_limit_ends_it_with_a_plan() -> None:
    rows = [(f"#{a}", f"#{b}", 1 + (a * b) % 7) for a in range(30) for b in range(a)]
    given = memplan.generate.layered(30)
    found = memplan.plan(given, price=rows, capacity=given.load * 2, time_limit=0.2)
    found.verify()
    assert 0 <= found.pricing.price_bound <= found.pricing.price


def test_the_cheapest_set() -> None:
    price = {(0, 1): 3, (1, 2): 2, (2, 3): 4, (0, 3): 1}
    cores = [frozenset({(0, 1), (1, 2)}), frozenset({(1, 2), (2, 3)}), frozenset({(0, 3), (2, 3)})]
    assert cheapest(cores, price) == ({(1, 2), (0, 3)}, 3)
    assert cheapest([], price) == (set(), 0)
    assert cheapest([*cores, frozenset()], price)[1] == 11


def test_the_cheapest_set_beside_all_sets() -> None:
    for seed in range(200):
        chance = random.Random(seed)
        price = {(k, k + 1): chance.randint(1, 9) for k in range(7)}
        cores = [frozenset(chance.sample(list(price), chance.randint(1, 4))) for _ in range(chance.randint(1, 5))]
        sets = (frozenset(taken) for count in range(8) for taken in combinations(price, count))
        hitting = [taken for taken in sets if all(taken & core for core in cores)]
        found, cost = cheapest(cores, price)
        assert found in hitting, seed
        assert cost == sum(price[pair] for pair in found), seed
        assert cost == min(sum(price[pair] for pair in taken) for taken in hitting), seed


@pytest.mark.parametrize("tries", [1, 2, 3, 5, 8])
def test_what_is_not_searched_proves_nothing(tries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(12):
        made = instance(seed)
        rows = [(f"#{a}", f"#{b}", price) for (a, b), price in made.price.items()]
        problem = memplan.Problem(*map(list, zip(*made.buffers, strict=True)))
        least = memplan.plan(problem, capacity=made.capacity + 8, price=rows)
        with monkeypatch.context() as patch:
            patch.setattr(pricing, "_MOST_TRIES", tries)
            found = memplan.plan(problem, capacity=made.capacity + 8, price=rows)
        if found.pricing is None or least.pricing is None:
            continue
        assert found.pricing.price_bound <= least.pricing.price, seed
        if found.pricing.price == least.pricing.price:
            assert found.pricing.peak_bound <= least.peak, seed


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


def test_random_prices() -> None:
    planned, cost, proven = check(range(40))
    assert planned > 30
    assert cost > 10
    assert proven == planned


@pytest.mark.slow
def test_ten_thousand_random_prices() -> None:
    planned, _, proven = check(range(1000, 11_000))
    assert proven >= 0.99 * planned
