"""What something holds, explained: arenas as a whole, kinds, and what would bring less; against sums over all steps."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import memplan
from memplan.explaining.held import ARENA, NOWHERE, Held, Whole

STEPS = 12


def example() -> Held:
    """An arena of 160 bytes with two buffers, a saved tensor that is idle in steps 1 to 2, and weights."""
    names = ["a", "b", "saved", "w"]
    problem = memplan.Problem([100, 50, 70, 1000], [0, 1, 0, 0], [2, 3, 4, 4], names=names)
    return Held(
        "forward 0 on cpu",
        problem,
        kinds=[ARENA, ARENA, "saved for backward", "weights"],
        made=["relu in 0", "", "", ""],
        ops=["kernel0", "kernel1", "kernel2", "kernel3"],
        arenas=[Whole(160, 0, 3)],
        arena=[0, 0, NOWHERE, NOWHERE],
        cures={"saved for backward": "computed again"},
    )


def test_an_arena_counts_as_a_whole() -> None:
    found = example().explain()
    assert (found.peak, found.load, found.lower_bound, found.naive) == (1230, 1220, 1220, 1220)
    assert found.peak_step is not None
    assert (found.peak_step.step, found.peak_step.op) == (1, "kernel1")  # where most of the arena is in use
    assert [(a.name, a.bytes, a.why, a.op) for a in found.alive] == [
        ("w", 1000, "weights", ""),
        ("a", 100, ARENA, "relu in 0"),
        ("saved", 70, "saved for backward", ""),
        ("b", 50, ARENA, ""),
    ]
    assert not found.optimal
    assert "forward 0 on cpu" in repr(found)


def test_advice_takes_away_what_is_idle() -> None:
    (advice,) = example().explain().advice
    assert (advice.kind, advice.names, advice.load, advice.bytes) == ("saved for backward", ("saved",), 1170, 70)
    held = example()
    used = replace(held, idle=[(0, 0), (0, 0), (2, 4), (0, 0)])  # it is used at the worst step
    assert used.explain().advice == ()


def test_what_brings_next_to_nothing_is_not_said() -> None:
    """Another tensor of 100,000 bytes makes 70 bytes a small part."""
    held = example()
    for heavy, count in ((10_000, 1), (100_000, 0)):
        size = [100, 50, 70, heavy]
        problem = memplan.Problem(size, held.problem.first, held.problem.last, names=held.problem.names)
        assert len(replace(held, problem=problem).explain().advice) == count


def test_as_text_and_json(tmp_path: Path) -> None:
    found = example().explain()
    text = " ".join(str(found).split())
    assert "Step 1, kernel1, makes the peak of 1.20 KiB" in text
    assert "1000 B weights (1, 81%), 150 B in the arena (2, 12%) and 70 B saved for backward (1, 6%)" in text
    assert "10 B are free" in text
    assert "saved for backward (1 buffer) away while not in use, at best: computed again (1.14 KiB, 4.1% less)" in text
    assert "The same by kind" in text
    found.to_json(tmp_path / "held.json")
    assert json.loads((tmp_path / "held.json").read_text())["what"] == "forward 0 on cpu"
    found.to_html(tmp_path / "held.html")
    assert "saved for backward" in (tmp_path / "held.html").read_text()
    with pytest.raises(TypeError, match="of what is held"):
        found.apply()


def test_nothing_is_held() -> None:
    assert "nothing to place" in str(Held("a step", memplan.Problem([], [], []), []).explain())


@pytest.mark.parametrize("seed", range(30))
def test_figures_are_sums_over_steps(seed: int) -> None:
    """Of buffers in two arenas and outside: peak, load, what is alive, and what each kind would bring."""
    chance = random.Random(seed)
    count = chance.randint(1, 9)
    first = [chance.randrange(STEPS - 1) for _ in range(count)]
    last = [chance.randint(begin + 1, STEPS) for begin in first]
    size = [chance.randint(1, 9) for _ in range(count)]
    place = [chance.choice([NOWHERE, 0, 1]) for _ in range(count)]
    kinds = [ARENA if arena != NOWHERE else chance.choice("xy") for arena in place]
    alive = np.array([[f <= t < e for t in range(STEPS)] for f, e in zip(first, last, strict=True)])
    use = np.array(size) @ alive
    wholes, held = [], use.copy()
    for arena in (0, 1):
        inside = np.array(place) == arena
        if inside.any():
            own = np.array(size)[inside] @ alive[inside]
            begin, end = min(np.flatnonzero(own)), max(np.flatnonzero(own)) + 1
            wholes.append(Whole(int(own.max()) + chance.randrange(3), int(begin), int(end)))
            held[begin:end] += wholes[-1].bytes - own[begin:end]
            place = [len(wholes) - 1 if p == arena else p for p in place]
    names = [f"t{k}" for k in range(count)]
    problem = memplan.Problem(size, first, last, names=names)
    found = Held("it", problem, kinds, arenas=wholes, arena=place, cures={"x": "so", "y": "thus"}).explain()
    assert (found.peak, found.load) == (held.max(), use.max())
    assert found.peak_step is not None
    worst = found.peak_step.step
    assert held[worst] == held.max()
    assert use[worst] == use[held == held.max()].max()
    assert {a.name: a.bytes for a in found.alive} == {names[k]: size[k] for k in range(count) if alive[k, worst]}
    for advice in found.advice:
        away = alive.copy()
        for k in range(count):
            if kinds[k] == advice.kind:
                away[k, first[k] + 1 : last[k] - 1] = False
        assert advice.load == (np.array(size) @ away).max() < use.max()


def test_a_recorded_step_with_what_outlives_it() -> None:
    tape = memplan.importers.Tape(
        size=np.array([100, 40, 8]),
        birth=np.array([0, 1, 3]),
        death=np.array([2, -1, 4]),
        thread=np.zeros(3, np.int64),
        ticks=5,
    )
    plan = memplan.plan(tape)
    found = plan.explain()
    assert found.what == "a recorded step"
    assert found.peak == plan.peak + 40
    assert [(a.name, a.why) for a in found.alive] == [("0", ARENA), ("1", "kept past the step")]
