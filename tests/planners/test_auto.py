"""auto: the same plan for any number of threads, what its effort and its time limit allow, and who found the plan."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import memplan
from builders.paths import DATA
from builders.strategies import BOUNDED, columns, shaped_problems
from memplan.generate import layered, tight

MINIMALLOC = DATA / "minimalloc"
MEMBERS = {"first_fit", "valley", "squeaky_wheel"}
EFFORT = 8_000_000  # a few rounds


@functools.cache
def problem_of(name: str) -> memplan.Problem:
    kind, _, seed = name.partition(":")
    if kind == "tight":
        return tight(60, exchanges=40, steps=16, seed=int(seed))
    return memplan.read_problem(MINIMALLOC / f"{kind}.1048576.csv")


NEED_ROUNDS = ["A", "E", "K", "tight:0", "tight:1", "tight:2", "tight:3"]
MORE = [pytest.param("tight:2", 0, marks=pytest.mark.slow), pytest.param("tight:3", 9, marks=pytest.mark.slow)]


@pytest.mark.few(3)
@pytest.mark.parametrize(("name", "seed"), [("A", 0), ("E", 9), ("K", 0), ("tight:0", 0), ("tight:1", 9), *MORE])
def test_threads_change_nothing(name: str, seed: int) -> None:
    problem = problem_of(name)
    planner = f"auto:effort={EFFORT}"
    one, *others = (memplan.plan(problem, planner, seed=seed, threads=threads) for threads in (1, 2, 4, 4))
    for plan in others:
        assert plan.offsets.tobytes() == one.offsets.tobytes()
        assert (plan.lower_bound, plan.winner) == (one.lower_bound, one.winner)


@pytest.mark.parametrize("name", NEED_ROUNDS)
def test_rounds_beat_what_comes_first(name: str) -> None:
    problem = problem_of(name)
    first = memplan.plan(problem, "auto:effort=0")
    assert first.winner == "first_fit"
    assert first.peak == memplan.plan(problem, "first_fit").peak
    plan = memplan.plan(problem, f"auto:effort={EFFORT}")
    assert plan.winner in MEMBERS - {"first_fit"}
    assert plan.peak < first.peak


# Lowest first ends at 130, and so does all that begins there, as far as the effort goes; tightest first at 129.
SEVERAL_ALIGNMENTS = ([1, 1, 1, 2, 2], [0, 0, 0, 1, 1], [1, 2, 2, 2, 2], [1, 1, 64, 64, 64])


@example(SEVERAL_ALIGNMENTS)
@given(columns())
@BOUNDED
def test_auto_is_above_none_of_the_greedy_ones(rows: tuple[list[int], ...]) -> None:
    problem = memplan.Problem(*rows)
    plan = memplan.plan(problem, "auto:effort=2000000")
    greedy = ("first_fit", "best_fit", "greedy_by_size")
    assert plan.peak <= min(memplan.plan(problem, name).peak for name in greedy)
    assert plan.winner in ("first_fit", "greedy_by_size", "valley", "squeaky_wheel")


def test_more_effort_is_never_worse() -> None:
    for seed in range(3):
        problem = problem_of(f"tight:{seed}")
        peaks = [memplan.plan(problem, f"auto:effort={effort}").peak for effort in (0, 10**6, 10**7)]
        assert peaks == sorted(peaks, reverse=True)


@given(columns(max_buffers=10), st.sampled_from([1, 2, 4]))
@BOUNDED
def test_small_problems_are_proven(rows: tuple[list[int], ...], threads: int) -> None:
    problem = memplan.Problem(*rows)
    plan = memplan.plan(problem, threads=threads)
    assert plan.optimal
    assert plan.peak == memplan.plan(problem, "exhaustive").peak


@given(shaped_problems(), st.sampled_from([1, 3]))
@BOUNDED
def test_shapes_and_conflicts_count(problem, threads: int) -> None:  # type: ignore[no-untyped-def]
    rows, parts, conflicts = problem
    shaped = memplan.Problem(*rows, parts=parts or None, conflicts=conflicts or None)
    plan = memplan.plan(shaped, "auto:effort=300000", threads=threads)  # verified there
    assert plan.load <= plan.lower_bound <= plan.peak
    again = memplan.plan(shaped, "auto:effort=300000")
    assert again.offsets.tolist() == plan.offsets.tolist()


def test_the_proof_for_rectangles_is_none_for_shapes() -> None:
    """One gives up its upper half when the other takes its lower: rectangles need 8 bytes, these shapes 6."""
    rows = ([4, 4], [0, 0], [2, 2])
    parts = [(0, 0, 4, 0, 1), (0, 0, 2, 1, 2), (1, 2, 4, 0, 1), (1, 0, 4, 1, 2)]
    assert memplan.plan(memplan.Problem(*rows)).lower_bound == 8
    shaped = memplan.plan(memplan.Problem(*rows, parts=parts))
    assert (shaped.lower_bound, shaped.peak) == (6, 6)


def test_shapes_of_few_buffers_are_proven() -> None:
    """What cp_sat proves; squeaky wheel ends at 43."""
    rows = ([9, 20, 18, 18, 14], [7, 6, 8, 3, 6], [11, 10, 12, 6, 10])
    parts = [
        *[(0, 0, 9, 7, 8), (0, 0, 4, 8, 10), (0, 0, 9, 10, 11), (1, 0, 20, 6, 7), (1, 0, 20, 9, 10)],
        *[(2, 0, 18, 8, 9), (2, 0, 18, 11, 12), (4, 0, 14, 6, 7), (4, 0, 7, 7, 9), (4, 0, 14, 9, 10)],
    ]
    plan = memplan.plan(memplan.Problem(*rows, parts=parts))
    assert (plan.peak, plan.optimal) == (38, True)
    backwards = [(4 - i, *rest) for i, *rest in parts]  # an order of rows that is no plan
    plan = memplan.plan(memplan.Problem(*(column[::-1] for column in rows), parts=backwards))
    assert (plan.peak, plan.optimal, plan.winner) == (38, True, "pairs")


@pytest.mark.parametrize("threads", [1, 3])
def test_many_conflicts_are_searched_by_orders(threads: int) -> None:
    """Streams that never meet: far below hill_climb's plan, and the same for any number of threads."""
    rng = np.random.default_rng(1)
    stream, first = np.repeat(range(4), 25), np.tile(range(25), 4)
    conflicts = [(a, b) for a in range(100) for b in range(a) if stream[a] != stream[b]]
    last, size = first + rng.integers(1, 9, 100), rng.integers(1, 10**6, 100)
    problem = memplan.Problem(size, first, last, conflicts=conflicts)
    plan = memplan.plan(problem, "auto:effort=20000000", threads=threads)
    assert plan.peak <= memplan.plan(problem, "hill_climb").peak
    again = memplan.plan(problem, "auto:effort=20000000")
    assert again.offsets.tolist() == plan.offsets.tolist()


def tiles(rng: np.random.Generator, pieces: int, steps: int, size: int) -> list[tuple[int, int, int]]:
    """(first, last, bytes) of a rectangle that is cut across again and again: all its bytes are in use at each step."""
    cut = [(0, steps, size)]
    while len(cut) < pieces:
        first, last, bytes_ = cut.pop(int(rng.integers(len(cut))))
        if rng.random() < 0.5 and last - first > 1:
            at = int(rng.integers(first + 1, last))
            cut += [(first, at, bytes_), (at, last, bytes_)]
        elif bytes_ > 1:
            low = int(rng.integers(1, bytes_))
            cut += [(first, last, low), (first, last, bytes_ - low)]
        else:
            cut.append((first, last, bytes_))
    return cut


def threads_of_tiles(seed: int, threads: int, pieces: int, messages: int) -> memplan.Problem:
    """Each thread has tiles of its own, and vector clocks; what one thread has done, another learns by a message."""
    rng = np.random.default_rng(seed)
    steps, size = 10_000, 1 << 16
    knows = [[0] * threads for _ in range(threads)]
    learnt: list[list[tuple[int, list[int]]]] = [[(0, [0] * threads)] for _ in range(threads)]
    for step in sorted(rng.choice(np.arange(1, steps), messages, replace=False).tolist()):
        one, other = rng.choice(threads, 2, replace=False).tolist()
        knows[one][one] = step
        knows[other] = [max(pair) for pair in zip(knows[one], knows[other], strict=True)]
        learnt[other].append((step, knows[other]))

    def clock(thread: int, step: int) -> list[int]:
        known = [known for at, known in learnt[thread] if at <= step][-1]
        return [*known[:thread], step, *known[thread + 1 :]]

    rows = [(thread, *tile) for thread in range(threads) for tile in tiles(rng, pieces, steps, size)]
    rng.shuffle(rows)
    first = [clock(thread, first) for thread, first, _, _ in rows]
    last = [clock(thread, last) for thread, _, last, _ in rows]
    return memplan.Problem([bytes_ for *_, bytes_ in rows], first, last)


@pytest.mark.parametrize("as_pairs", [False, True])
def test_threads_that_hardly_meet_are_planned_alone(as_pairs: bool) -> None:
    problem = threads_of_tiles(1, threads=4, pieces=100, messages=12)
    if as_pairs:  # lifetimes mean nothing then
        first, last, n = problem.first, problem.last, len(problem)
        meet = {(a, b) for b in range(n) for a in range(b) if first[a] < last[b] and first[b] < last[a]}
        pairs = meet | {(min(pair), max(pair)) for pair in problem.conflicts}
        problem = memplan.Problem(problem.size, range(n), range(1, n + 1), conflicts=sorted(pairs))
    plan = memplan.plan(problem, "auto:effort=5000000")
    assert (plan.peak, plan.optimal, plan.winner) == (4 << 16, True, "bands")


def test_threads_that_never_meet_are_proven_one_by_one() -> None:
    """Each thread needs more than its load, so no clique proves it; nor do sizes have the alignment that all have."""
    size, first, last = [2, 4, 4, 1, 2, 1, 1], [0, 4, 0, 2, 5, 3, 2], [2, 6, 3, 5, 9, 5, 4]
    apart = [(a, 7 + b) for a in range(7) for b in range(7)]
    both = memplan.Problem(size * 2, first * 2, last * 2, conflicts=apart)
    plan = memplan.plan(both)
    assert (both.load, plan.peak, plan.optimal) == (12, 14, True)
    assert memplan.plan(memplan.Problem(size * 20, first * 20, last * 20, conflicts=apart_of(20, 7))).optimal


def test_cores_between_barriers_are_proven_above_the_load() -> None:
    """What two cores do before a barrier meets nothing of what they do after it. The load is that of one core."""
    size, first, last, phase = [], [], [], []
    for core, barrier in [(0, 0), (0, 1), (1, 0), (1, 1)]:
        work = tight(60, units=24, seed=10 * core + barrier)
        begin = max(last, default=0)
        size += work.size.tolist()
        first += (begin + work.first).tolist()
        last += (begin + work.last).tolist()
        phase += [(barrier, core)] * len(work)
    n = len(size)
    beside = [(a, b) for b in range(n) for a in range(b) if phase[a][0] == phase[b][0] and phase[a] != phase[b]]
    problem = memplan.Problem(size, first, last, conflicts=beside)
    plan = memplan.plan(problem, "auto:effort=3000000")
    assert (plan.peak, plan.optimal) == (2 * problem.load, True)


def apart_of(groups: int, each: int) -> list[tuple[int, int]]:
    n = groups * each
    return [(a, b) for b in range(n) for a in range(b) if a // each != b // each]


def ragged(n: int, seed: int) -> memplan.Problem:
    """Buffers that need other bytes in each half of their life."""
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 2 * n, n)
    half = 1 + rng.integers(0, n // 4, n)
    size = rng.integers(8, 1000, n)
    parts = []
    for i, (begin, middle, whole) in enumerate(
        zip(first.tolist(), (first + half).tolist(), size.tolist(), strict=True)
    ):
        for a, b in ((begin, middle), (middle, 2 * middle - begin)):
            low, high = sorted(rng.choice(whole + 1, 2, replace=False).tolist())
            parts.append((i, low, high, a, b))
    return memplan.Problem(size, first, first + 2 * half, parts=parts)


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", [2, 3])
def test_auto_is_not_behind_squeaky_wheel_on_shapes(seed: int) -> None:
    problem = ragged(120, seed)
    assert memplan.plan(problem, "auto:effort=12000000").peak <= memplan.plan(problem, "squeaky_wheel").peak


def test_conflicts_of_few_buffers_are_proven() -> None:
    ring = [(i, (i + 1) % 5) for i in range(5)]
    plan = memplan.plan(memplan.Problem([1] * 5, range(5), range(1, 6), conflicts=ring))
    assert (plan.load, plan.peak, plan.optimal) == (1, 3, True)


@pytest.mark.few(2)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("seconds", [0.05, 0.5])
def test_the_time_limit_is_kept(threads: int, seconds: float) -> None:
    problem = tight(400, exchanges=600, steps=48, seed=2)
    plan = memplan.plan(problem, time_limit=seconds, threads=threads)
    assert not plan.optimal
    assert plan.seconds < seconds + 1  # a busy machine may hold it up
    assert plan.peak <= memplan.plan(problem, "first_fit").peak


def test_effort_ends_it_before_the_time_does() -> None:
    problem = tight(400, exchanges=600, steps=48, seed=2)
    plan = memplan.plan(problem, "auto:effort=1000000", time_limit=60)
    assert not plan.optimal
    assert plan.seconds < 10
    assert plan.offsets.tolist() == memplan.plan(problem, "auto:effort=1000000").offsets.tolist()


def replaced(seed: int, parameters: int) -> memplan.Problem:
    """Two states of each parameter are replaced one after the other. Before and after come large temporaries."""
    draw = np.random.default_rng(seed)
    kinds = draw.integers(3, 4000, 4)
    large = int(draw.integers(2, 4) * kinds.max() + draw.integers(1, 1000))
    rows = [(large, k // 2, 6 + k // 2) for k in range(5)]
    end = 10 + 6 * parameters
    for begin in range(10, end, 6):
        size = int(draw.choice(kinds))
        for state in range(2):
            new, temporary = begin + 2 * state, begin + 2 * state + 1
            rows += [(size, -1, begin + 5 + state), (size, new, end + 9), (size, temporary, temporary + 2)]
    rows += [(large, end + k // 2, end + 6 + k // 2) for k in range(5)]
    return memplan.Problem(*zip(*rows, strict=True))


@pytest.mark.parametrize("seed", range(3))
def test_what_is_replaced_between_two_peaks_is_planned_at_the_load(seed: int) -> None:
    """New states need holes that old ones leave a thousand births later: searches end above the load."""
    plan = memplan.plan(replaced(seed, 1500), "auto:effort=100000")
    assert plan.optimal
    assert plan.winner == "between_peaks"


def test_peaks_whose_buffers_meet_are_left_to_searches() -> None:
    """All that is new is born before the old dies, so it may not follow it."""
    rows = [(3, 0, 6), (4, 0, 7), (5, 0, 9), (3, 4, 12), (4, 5, 12), (7, 0, 2), (7, 10, 12)]
    plan = memplan.plan(memplan.Problem(*zip(*rows, strict=True)))
    assert plan.optimal
    assert plan.winner != "between_peaks"


def test_large_networks_are_proven_at_the_load() -> None:
    problem = layered(20_000)
    plan = memplan.plan(problem)
    assert plan.peak == plan.lower_bound == problem.load


def test_a_capacity_that_ends_within_a_granule_is_met_beside_reserved_bytes() -> None:
    """All alignments are 4; the optimum is 29, which 7 granules do not reach, and 8 do, less what the last leaves."""
    sizes, first = [5, 4, 12, 4, 20, 1, 20, 6, 12, 9, 6], [6, 6, 0, 3, 3, 1, 6, 7, 4, 5, 0]
    last = [7, 7, 3, 6, 4, 5, 7, 8, 6, 6, 1]
    problem = memplan.Problem(sizes, first, last, 4, reserved=[(46, 56, 3, 7), (46, 63, 2, 3)])
    plan = memplan.plan(problem)
    assert plan.peak == 29
    assert plan.optimal
