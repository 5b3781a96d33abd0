"""Random programs under an arena: no wrong value, no crash, and all memory goes back."""

from __future__ import annotations

import gc
import random
import threading
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import memplan  # noqa: E402
from memplan.torch.training.library import cpu  # noqa: E402

Program = list[tuple[str, int, int]]  # what, a tensor's name, elements


class Stop(Exception):
    """What a program raises in its middle."""


def program(chance: random.Random) -> Program:
    """Births and deaths; some tensors are made by other threads, some are resized, and some are never freed."""
    made: Program = []
    alive: list[int] = []
    for name in range(chance.randrange(1, 60)):
        what = chance.choices(("make", "in_thread", "compute"), (8, 1, 3))[0]
        made.append((what, name, chance.choice((1, 3, 16, 1000, 1500, 5000, chance.randrange(1, 9000)))))
        alive.append(name)
        while alive and chance.random() < 0.45:
            made.append(("free", alive.pop(chance.randrange(len(alive))), 0))
        if alive and chance.random() < 0.05:
            made.append(("resize", chance.choice(alive), chance.randrange(1, 9000)))
        if chance.random() < 0.01:
            made.append(("raise", 0, 0))
    return made


def changed(steps: Program, chance: random.Random) -> Program:
    """The program with sizes, births and deaths that differ."""
    share = chance.choice((0, 0, 0.02, 0.1, 0.5))
    other: Program = []
    for what, name, size in steps:
        kind = chance.random() / share if share else 1
        if kind < 0.3:
            size = max(1, int(size * chance.uniform(0.5, 1.5)))
        elif kind < 0.5:
            other.append(("make", 1000 + len(other), chance.randrange(1, 9000)))
        elif kind < 0.7 and what == "free":
            continue
        other.append((what, name, size))
    return other


def run(steps: Program, kept: list[tuple[Any, float]]) -> list[float]:
    """The sums of what dies, each tensor filled with a number of its own; what is left is kept."""
    alive: dict[int, tuple[Any, float]] = {}
    sums = []
    try:
        for what, name, size in steps:
            value = float(name + 1)
            if what == "make":
                alive[name] = (torch.full((size,), value), value)
            elif what == "compute":
                alive[name] = (torch.ones(size).mul(value).sort().values, value)
            elif what == "in_thread":
                thread = threading.Thread(target=make, args=(alive, name, size, value))
                thread.start()
                thread.join()
            elif what == "resize" and name in alive:
                alive[name][0].resize_(size).fill_(alive[name][1])
            elif what == "free" and name in alive:
                tensor, value = alive.pop(name)
                sums.append(float(tensor.double().sum()))
                assert bool((tensor == value).all()), (name, value)
            elif what == "raise":
                raise Stop
    except Stop:
        pass
    kept.extend(alive.values())
    return sums


def make(alive: dict[int, tuple[Any, float]], name: int, size: int, value: float) -> None:
    alive[name] = (torch.full((size,), value), value)


def check(kept: list[tuple[Any, float]]) -> None:
    for tensor, value in kept:
        assert bool((tensor == value).all()), value


def trial(seed: int) -> memplan.torch.training.report.Report:
    chance = random.Random(seed)
    recorded = [program(chance) for _ in range(chance.choice((1, 1, 2)))]
    plans = []
    for steps in recorded:
        with memplan.torch.record() as tape:
            for _ in range(chance.choice((1, 2))):
                tape.step()
                run(steps, [])
        plans.append(memplan.plan(tape, chance.choice(("first_fit", "greedy_by_size"))))
    arena = memplan.torch.arena(plans)
    kept: list[tuple[Any, float]] = []
    for _ in range(4):
        name = chance.randrange(len(plans))
        steps = changed(recorded[name], chance)
        plain: list[tuple[Any, float]] = []
        expected = run(steps, plain)
        with arena:
            arena.step(str(name) if chance.random() < 0.3 else None)
            assert run(steps, kept) == expected
        check(kept)
        del kept[: chance.randrange(len(kept) + 1)]
    report = arena.report()
    others = [torch.full((5000,), -1.0) for _ in range(3)]
    del arena
    check(kept)
    del others
    return report


def try_many(seeds: range) -> None:
    before = cpu().arenas()
    served = missed = 0
    for seed in seeds:
        report = trial(seed)
        served += report.served
        missed += report.missed
        assert cpu().arenas() == before, seed
    assert served > missed > 0


def test_random_programs() -> None:
    try_many(range(60))


@pytest.mark.slow
@pytest.mark.parametrize("begin", range(60, 3000, 490))
def test_more_random_programs(begin: int) -> None:
    try_many(range(begin, begin + 490))


def planned_trial(seed: int) -> int:
    """A step that plans itself runs programs that change from call to call; gives how many allocations were served."""
    chance = random.Random(seed)
    known = [program(chance) for _ in range(chance.choice((1, 2)))]
    kept: list[tuple[Any, float]] = []
    step = memplan.torch.planned(lambda like, steps: run(steps, kept), warmup=chance.choice((0, 1)), quiet=True)
    for _ in range(12):
        number = chance.randrange(len(known))
        steps = changed(known[number], chance)
        expected = run(steps, [])
        assert step(torch.empty(number), steps) == expected
        check(kept)
        del kept[: chance.randrange(len(kept) + 1)]
    report = step.report()
    return 0 if report is None else report.served


@pytest.mark.slow
def test_random_programs_plan_themselves() -> None:
    assert sum(map(planned_trial, range(40))) > 1000
    gc.collect()
    assert cpu().arenas() == 0
    assert not cpu().busy


@pytest.mark.slow
@pytest.mark.parametrize("begin", range(40, 2000, 280))
def test_more_random_programs_plan_themselves(begin: int) -> None:
    assert sum(map(planned_trial, range(begin, begin + 280))) > 1000


def test_threads_at_once() -> None:
    """Threads allocate and free at the same time, each other's tensors too, in an order that no tape has."""
    shared: list[tuple[Any, float]] = []
    lock = threading.Lock()
    wrong = []

    def work(number: int) -> None:
        chance = random.Random(number)
        for i in range(200):
            value = float(number * 1000 + i)
            tensor = torch.full((chance.choice((10, 2000, 3000)),), value)
            with lock:
                shared.append((tensor, value))
                tensor, value = shared.pop(chance.randrange(len(shared)))
            if not bool((tensor == value).all()):
                wrong.append(value)

    def step() -> None:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        shared.clear()

    with memplan.torch.record() as tape:
        step()
    arena = memplan.torch.arena(memplan.plan(tape, "first_fit"))
    for _ in range(5):
        with arena:
            step()
    assert not wrong
    assert arena.report().served > 0
    assert arena.report().alive == 0


def test_a_process_forked_in_a_step(tmp_path: Any) -> None:
    """Its tensors are its own: workers of data loaders are such processes."""
    import os

    with memplan.torch.record() as tape:
        torch.full((5000,), 1.0)
    arena = memplan.torch.arena(memplan.plan(tape))
    with arena:
        child = os.fork()
        value = 2.0 if child else 3.0
        tensor = torch.full((5000,), value)
        right = bool((tensor == value).all()) and arena.report().served == 1
        if not child:
            os._exit(0 if right else 1)
    assert right
    assert os.waitpid(child, 0)[1] == 0
