"""Tapes: births and deaths as a problem, and in files. No torch is needed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import memplan
from memplan.importers import Tape


def tape_of(**more: Any) -> Tape:
    """Four allocations: two that overlap, one that outlives the step, and one of another thread."""
    columns = {"size": [100, 50, 70, 30], "birth": [0, 1, 3, 5], "death": [2, 4, -1, 6], "thread": [0, 0, 0, 1]}
    tape = Tape(ticks=7, **more)
    for name, values in columns.items():
        setattr(tape, name, np.array(values, dtype=np.int64))
    return tape


def test_what_outlives_the_step_is_no_part_of_the_problem() -> None:
    tape = tape_of()
    assert len(tape) == 4
    assert tape.outlives.tolist() == [False, False, True, False]
    problem = tape.problem()
    assert problem.size.tolist() == [128, 64, 64]  # rounded up to the alignment
    assert problem.first.tolist() == [0, 1, 5]
    assert problem.last.tolist() == [2, 4, 6]
    assert set(problem.alignment.tolist()) == {64}
    assert problem.names == ["0", "1", "3@1"]
    assert repr(tape) == "<memplan.importers.Tape: 4 allocations, 1 outlive the step, peak 150 bytes>"


def crossing() -> Tape:
    """Three allocations, of which the first dies in the next step after the second, and the last at its beginning."""
    tape = Tape(ticks=5)
    columns = {"size": [64, 128, 192], "birth": [1, 2, 4], "death": [-1, 3, 5], "thread": [0, 0, 0]}
    for name, values in columns.items():
        setattr(tape, name, np.array(values, dtype=np.int64))
    tape.death[0] = tape.ticks + 1
    return tape


def test_what_dies_in_the_next_step_is_at_the_beginning_of_every_step() -> None:
    tape = crossing()
    assert tape.crosses.tolist() == [True, False, True]
    assert not tape.outlives.any()
    assert tape.until.tolist() == [4, 2, 4]
    problem = tape.problem()
    assert (problem.first.tolist(), problem.last.tolist()) == ([0, 2, 4], [5, 3, 5])
    assert problem.parts.tolist() == [[0, 0, 64, 0, 1], [0, 0, 64, 1, 5]]
    assert problem.load == tape.peak == 256
    assert memplan.plan(tape).peak == 256


def test_a_step_begins_while_steps_are_recorded_only() -> None:
    with pytest.raises(RuntimeError, match=r"inside of `with memplan\.torch\.record\(\) as tape:`"):
        crossing().step()


def test_a_tape_is_a_source() -> None:
    tape = tape_of()
    plan = memplan.plan(tape)
    assert plan.peak >= 150
    assert plan.source is not None
    assert plan.source.value is tape
    assert memplan.capture(tape) == tape.problem()
    with pytest.raises(TypeError, match="option train does not apply to a source of kind tape"):
        memplan.plan(tape, train=True)
    with pytest.raises(TypeError, match=r"memplan\.torch\.arena\(plan\) serves steps"):
        plan.run()


def test_an_empty_tape_has_an_empty_plan() -> None:
    assert memplan.plan(Tape()).peak == 0
    assert Tape().peak == 0


def test_a_tape_that_is_still_recorded_has_no_plan() -> None:
    with pytest.raises(ValueError, match="still recorded"):
        memplan.plan(Tape(done=False))
    assert "still recorded" in repr(Tape(done=False))


def test_names_say_where_an_allocation_was_made() -> None:
    model, train, load = "/home/me/model.py:3 Net.forward", "train.py:8 step", "load.py:1 read"
    tape = tape_of(stacks=[(model, train), (), (train,), (load,)])
    assert tape.problem().names == ["0 model.py:3 Net.forward", "1", "3@1 load.py:1 read"]


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "tape.json"
    for tape in (tape_of(), tape_of(stacks=[("a.py:1 f",), (), (), ()]), tape_of(device="cuda"), Tape(), crossing()):
        tape.to_json(path)
        read = memplan.importers.read_tape(path)
        assert read.problem() == tape.problem()
        assert (read.ticks, read.device, list(read.stacks)) == (tape.ticks, tape.device, list(tape.stacks))
        assert np.array_equal(read.death, tape.death)
        assert np.array_equal(read.thread, tape.thread)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "other"}, "expected format 'memplan.tape' version 1, got 'other' version 1"),
        ({"version": 2}, "got 'memplan.tape' version 2"),
        ({"size": [1, "x"]}, "size must be a list of integers"),
        ({"size": [1, True]}, "size must be a list of integers"),
        ({"size": None}, "size must be a list of integers"),
        ({"size": [1, 2**63]}, "size must fit int64"),
        ({"birth": [0]}, "birth must have 2 entries, as size has, got 1"),
        ({"size": [1, 0]}, "size must be > 0, got 0 for allocation 1"),
        ({"birth": [0, -1]}, "birth must be >= 0 and below ticks, 4, got -1 for allocation 1"),
        ({"birth": [4, 1]}, "birth must be >= 0 and below ticks, 4, got 4 for allocation 0"),
        (
            {"death": [0, -1]},
            "death must be -1, or after the birth and at most a step of 4 ticks later, got 0 for allocation 0",
        ),
        ({"death": [2, -2]}, "got -2 for allocation 1"),
        ({"death": [5, -1]}, "got 5 for allocation 0"),
        ({"thread": [0, -1]}, "thread must be >= 0, got -1 for allocation 1"),
        ({"device": "tpu"}, "device must be 'cpu' or 'cuda', got 'tpu'"),
        ({"ticks": "4"}, "ticks must be an integer, got '4'"),
        ({"stacks": [[]]}, "stacks must be a list with an entry for each allocation"),
    ],
)
def test_files_that_are_no_tape(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    spec = {"format": "memplan.tape", "version": 1, "device": "cpu", "ticks": 4}
    spec |= {"size": [8, 8], "birth": [0, 1], "death": [2, 3], "thread": [0, 0]}
    path = tmp_path / "tape.json"
    path.write_text(json.dumps(spec))
    assert len(memplan.importers.read_tape(path)) == 2
    path.write_text(json.dumps(spec | change))
    with pytest.raises(memplan.errors.SourceError) as error:
        memplan.importers.read_tape(path)
    assert message in str(error.value)
    assert str(path) in str(error.value)
