"""somas against a plain version of its combinations, and what sets them apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memplan
from builders.paths import DATA
from builders.strategies import BOUNDED, columns
from oracles.reference import Columns, align_up

Pairs = set[tuple[int, int]]

Gap = tuple[int, int]  # begin, and what it has beyond the bytes asked for
FITS: list[Callable[[Gap], tuple[int, int]]] = [
    lambda gap: (gap[1], gap[0]),
    lambda gap: (gap[0], 0),
    lambda gap: (-gap[0], 0),
    lambda gap: (-gap[1], gap[0]),
]
ORDERS = [(0, 1), (0, -1), (1, 1), (1, -1), (-1, 1), (-1, -1)]  # factors of conflicts and index
ENDLESS = 2**70


class Plain:
    def __init__(self, problem: Columns, pairs: Pairs) -> None:
        self.size, self.first, self.last, self.alignment = problem
        self.pairs = pairs | {(b, a) for a, b in pairs}
        everyone = [i for i in range(len(self.size)) if self.size[i]]
        span = min((self.first[i] for i in everyone), default=0), max((self.last[i] for i in everyone), default=0)
        self.throughout = [i for i in everyone if (self.first[i], self.last[i]) == span]
        self.movable = [i for i in everyone if i not in self.throughout]

    def conflict(self, a: int, b: int) -> bool:
        return (self.first[a] < self.last[b] and self.first[b] < self.last[a]) or (a, b) in self.pairs

    def ordered(self, conflicts: int, index: int) -> list[int]:
        degree = {i: sum(self.conflict(i, j) for j in self.movable if j != i) for i in self.movable}
        return sorted(self.movable, key=lambda i: (-self.size[i], conflicts * degree[i], index * i))

    def find(self, i: int, taken: Iterable[Gap], begin: int, end: int, fit: int) -> int | None:
        """The offset among what is taken in [begin, end)."""
        gaps = []
        for low, high in [*sorted(taken), (end, end)]:
            offset = align_up(begin, self.alignment[i])
            if offset + self.size[i] <= low and begin < low:
                gaps.append((begin, low - begin - self.size[i]))
            begin = max(begin, high)
        return align_up(min(gaps, key=FITS[fit])[0], self.alignment[i]) if gaps else None

    def in_pools(self, order: list[int], fit: int) -> tuple[dict[int, int], int]:
        offsets: dict[int, int] = {}
        pools: list[tuple[int, int]] = []
        for i in order:
            taken = [(offsets[j], offsets[j] + self.size[j]) for j in offsets if self.conflict(i, j)]
            for begin, end in pools:
                inside = [(low, high) for low, high in taken if begin <= low < end]
                if (offset := self.find(i, inside, begin, end, fit)) is not None:
                    offsets[i] = offset
                    break
            else:
                offsets[i] = align_up(pools[-1][1] if pools else 0, self.alignment[i])
                pools.append((offsets[i], offsets[i] + self.size[i]))
        return self.with_throughout(offsets), len(pools) + len(self.throughout)

    def in_arena(self, order: list[int], fit: int) -> tuple[dict[int, int], int]:
        offsets: dict[int, int] = {}
        for i in order:
            taken = [(offsets[j], offsets[j] + self.size[j]) for j in offsets if self.conflict(i, j)]
            found = self.find(i, taken, 0, ENDLESS, fit)
            assert found is not None
            offsets[i] = found
        return self.with_throughout(offsets), 0

    def with_throughout(self, offsets: dict[int, int]) -> dict[int, int]:
        for i in self.throughout:
            offsets[i] = align_up(self.peak(offsets), self.alignment[i])
        return offsets

    def peak(self, offsets: dict[int, int]) -> int:
        return max((offset + self.size[i] for i, offset in offsets.items()), default=0)

    def best(self, orders: int, fits: int, margin: int, load: int) -> tuple[list[int], int]:
        best: tuple[dict[int, int], int] | None = None
        for share in (self.in_pools, self.in_arena):
            for order in ORDERS[:orders]:
                for fit in range(fits):
                    if best is not None and self.peak(best[0]) == load:
                        continue
                    found = share(self.ordered(*order), fit)
                    saved = self.peak(best[0]) - self.peak(found[0]) if best is not None else ENDLESS
                    needed = margin if best is not None and best[1] > 0 and found[1] == 0 else 0
                    if saved > needed:
                        best = found
        assert best is not None
        return [best[0].get(i, 0) for i in range(len(self.size))], best[1]


@given(columns(), st.integers(1, 6), st.integers(1, 4), st.sampled_from([0, 0, 1, 5]))
@BOUNDED
def test_same_offsets_as_the_reference(problem: Columns, orders: int, fits: int, margin: int) -> None:
    plan = memplan.plan(memplan.Problem(*problem), f"somas:orders={orders},fits={fits},margin={margin}")
    assert (plan.offsets.tolist(), plan.objects) == Plain(problem, set()).best(orders, fits, margin, plan.load)


@given(columns(max_buffers=14), st.data())
@BOUNDED
def test_same_offsets_with_conflicts(problem: Columns, data: st.DataObject) -> None:
    count = len(problem[0])
    pair = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)).filter(lambda p: p[0] != p[1])
    pairs = data.draw(st.sets(pair, max_size=30)) if count > 1 else set()
    plan = memplan.plan(memplan.Problem(*problem, conflicts=sorted(pairs) or None), "somas")
    assert (plan.offsets.tolist(), plan.objects) == Plain(problem, pairs).best(6, 2, 0, plan.load)


def test_a_pool_holds_several_beside_one_another() -> None:
    plan = memplan.plan(([8, 3, 5, 1], [0, 1, 1, 0], [1, 3, 3, 3]), "somas")
    assert plan.offsets.tolist() == [0, 5, 0, 8]
    assert plan.objects == 2  # that of 8 bytes, and the one that lives throughout
    assert plan.optimal


def test_one_arena_has_to_save_more_than_the_margin() -> None:
    resnet = memplan.read_problem(DATA / "somas" / "resnet50.csv")
    pools, arena = (memplan.plan(resnet, f"somas:margin={margin}") for margin in (2**40, 0))
    assert pools.objects > 0
    assert arena.objects == 0
    assert arena.peak < pools.peak
    saved = pools.peak - arena.peak
    assert memplan.plan(resnet, f"somas:margin={saved - 1}").peak == arena.peak
    assert memplan.plan(resnet, f"somas:margin={saved}").peak == pools.peak


@pytest.mark.parametrize("instance", ["minimalloc/A.1048576.csv", "minimalloc/K.1048576.csv", "somas/resnet50.csv"])
def test_more_combinations_are_never_worse(instance: str) -> None:
    problem = memplan.read_problem(DATA / instance)
    peaks = [
        memplan.plan(problem, f"somas:orders={n},fits={fits}").peak for n, fits in [(1, 1), (1, 2), (6, 2), (6, 4)]
    ]
    assert peaks == sorted(peaks, reverse=True)
    assert peaks[-1] < peaks[0]


def test_without_work_there_is_still_a_plan() -> None:
    problem = memplan.read_problem(DATA / "minimalloc" / "A.1048576.csv")
    plan = memplan.plan(problem, "somas:work=0")
    assert plan.objects == 0
    assert plan.peak > memplan.plan(problem, "somas").peak


def test_shapes_count_in_one_arena() -> None:
    """The one of 8 bytes is half free from step 1 on, where 4 bytes find room."""
    plain = memplan.Problem([8, 4, 1], [0, 1, 0], [2, 2, 3])
    shaped = memplan.Problem([8, 4, 1], [0, 1, 0], [2, 2, 3], parts=[(0, 0, 8, 0, 1), (0, 0, 4, 1, 2)])
    assert memplan.plan(plain, "somas").peak == 13
    assert memplan.plan(shaped, "somas").peak == 9
