"""Eager torch inside a plan: a step is recorded, planned, and later steps are served from one arena."""

from __future__ import annotations

import gc
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import memplan  # noqa: E402
from memplan.torch.training import build  # noqa: E402
from memplan.torch.training.library import cpu  # noqa: E402

Step = Callable[[], Any]


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """Every test frees its arenas, and torch has its own allocator again."""
    yield
    gc.collect()
    assert cpu().arenas() == 0
    assert not cpu().busy


def trainer(seed: int = 0) -> Step:
    torch.manual_seed(seed)
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8 * 36, 5))
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    x, y = torch.randn(16, 3, 8, 8), torch.randint(0, 5, (16,))

    def step(batch: int = 16) -> float:
        loss = torch.nn.functional.cross_entropy(net(x[:batch]), y[:batch])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return float(loss.detach())

    step()
    return step


def recorded(step: Step, **options: Any) -> memplan.importers.Tape:
    with memplan.torch.record(**options) as tape:
        step()
    return tape


def fail() -> None:
    torch.empty(10)
    raise ZeroDivisionError


def address(tensor: Any) -> int:
    return int(tensor.untyped_storage().data_ptr())


def test_a_training_loop_has_the_same_losses() -> None:
    plain, step = trainer(), trainer()
    expected = [plain() for _ in range(7)]
    losses = []
    with memplan.torch.record() as tape:
        losses.append(step())
    plan = memplan.plan(tape)
    assert plan.peak <= 1.01 * plan.load
    arena = memplan.torch.arena(plan)
    for _ in range(3):
        with arena:
            losses.append(step())
    with arena:
        for _ in range(3):
            arena.step()
            losses.append(step())
    assert losses == expected
    report = arena.report()
    assert (report.steps, report.missed, report.divergence) == (6, 0, None)
    assert report.served + report.outside == 6 * len(tape)
    assert 0.99 * plan.load <= report.arena_peak <= plan.load <= report.arena_bytes == plan.peak
    assert "0 missed" in str(report)
    assert str(plan.peak) in repr(arena)


def test_the_tape_has_births_and_deaths_in_program_order() -> None:
    kept = []

    def step() -> None:
        a = torch.empty(100)
        b = torch.empty(7, dtype=torch.float64)
        del a
        kept.append(torch.empty(3))
        thread = threading.Thread(target=lambda: torch.empty(11))
        thread.start()
        thread.join()
        del b
        torch.empty(0)  # no allocation

    tape = recorded(step)
    assert tape.size.tolist() == [400, 56, 12, 44]
    assert tape.birth.tolist() == [0, 1, 3, 4]
    assert tape.death.tolist() == [2, 6, -1, 5]
    assert tape.thread.tolist() == [0, 0, 0, 1]
    assert (tape.ticks, tape.device, tape.done) == (7, "cpu", True)


def test_two_recorded_steps_say_when_gradients_die() -> None:
    """They are freed at the beginning of the next step, and so lie in the arena."""
    torch.manual_seed(0)
    net = torch.nn.Linear(64, 64)
    x = torch.randn(8, 64)

    def step() -> float:
        net.zero_grad()
        loss = net(x).square().sum()
        loss.backward()
        with torch.no_grad():
            for parameter in net.parameters():
                parameter -= 1e-3 * parameter.grad
        return float(loss.detach())

    with memplan.torch.record() as one:
        step()
    assert one.outlives.sum() == 2
    with memplan.torch.record(stacks=True) as two:
        torch.empty(5)  # no part of a step
        for _ in range(2):
            two.step()
            step()
    assert two.crosses.sum() == 2
    assert not two.outlives.any()
    assert two.size.tolist() == one.size.tolist()
    assert len(two.stacks) == len(two)
    assert two.peak == one.peak
    arena = memplan.torch.arena(memplan.plan(two))
    with arena:
        for _ in range(3):
            arena.step()
            step()
    report = arena.report()
    assert (report.served, report.missed, report.outside) == (3 * len(two), 0, 0)
    assert report.alive == 2
    assert all(p.grad.untyped_storage().nbytes() for p in net.parameters())


def test_what_lives_longer_than_two_steps_outlives() -> None:
    kept: list[Any] = []

    def step() -> None:
        kept.append(torch.empty(10))
        torch.empty(20)
        if len(kept) > 2:
            kept.pop(0)

    with memplan.torch.record() as tape:
        for _ in range(4):
            tape.step()
            step()
    assert tape.size.tolist() == [40, 80]
    assert tape.outlives.tolist() == [True, False]


def test_stacks_say_where() -> None:
    def step() -> None:
        torch.ones(3) + 1

    tape = recorded(step, stacks=True)
    assert len(tape.stacks) == len(tape) > 1
    assert all(f"{__file__}:" in stack[0] and stack[0].endswith("step") for stack in tape.stacks)
    assert f" {Path(__file__).name}:" in memplan.plan(tape).problem.names[0]
    assert not recorded(step).stacks


def test_a_tensor_keeps_the_arena_that_it_lies_in() -> None:
    tape = recorded(lambda: torch.full((1000,), 1.0))
    arena = memplan.torch.arena(memplan.plan(tape))
    with arena:
        kept = torch.full((1000,), 1.0)
    assert arena.report().alive == 1
    del arena
    assert cpu().arenas() == 1
    others = [torch.full((1000,), 2.0) for _ in range(10)]
    assert kept.sum() == 1000
    kept = kept * 1  # outside of it
    assert cpu().arenas() == 0
    assert len(others) == 10


def test_a_slot_in_use_is_not_given_again() -> None:
    arena = memplan.torch.arena(memplan.plan(recorded(lambda: [len(torch.full((1000,), 1.0)) for _ in range(3)])))
    with arena:
        kept = [torch.full((1000,), float(value)) for value in range(3)]
    assert [float(tensor.mean()) for tensor in kept] == [0, 1, 2]
    report = arena.report()
    assert (report.served, report.missed, report.arena_bytes, report.outside_peak) == (1, 2, 4032, 8000)
    assert report.peak == 12032
    found = report.divergence
    assert found is not None
    assert (found.step, found.allocation, found.expected, found.got) == (0, 1, 4000, 4000)
    assert "its bytes are in use" in str(report)


def test_what_outlives_its_step_lies_outside_from_then_on() -> None:
    arena = memplan.torch.arena(memplan.plan(recorded(lambda: torch.full((1000,), 1.0))))
    kept = []
    with arena:
        for value in range(4):
            arena.step()
            kept.append(torch.full((1000,), float(value)))
    assert [float(tensor.mean()) for tensor in kept] == [0, 1, 2, 3]
    report = arena.report()
    assert (report.served, report.outside, report.missed, report.divergence) == (1, 3, 0, None)


def test_a_divergence_says_where() -> None:
    plan = memplan.plan(recorded(lambda: (torch.empty(10), torch.empty(20))))
    arena = memplan.torch.arena({"train": plan}, stacks=True)
    with arena:
        a = torch.empty(10)
        b = torch.empty(30)
    found = arena.report().divergence
    assert found is not None
    assert (found.plan, found.allocation, found.thread, found.expected, found.got) == ("train", 1, 0, 80, 120)
    assert found.stack[0].startswith(f"{__file__}:")
    assert "step 0, allocation 1, plan 'train': expected 80 bytes, got 120 bytes" in str(found)
    with arena:
        a, b = torch.empty(10), torch.empty(20)
        torch.empty(50)
    assert arena.report().divergence == found  # the first one stays
    del a, b


def test_an_arena_that_keeps_stacks_is_freed() -> None:
    arena = memplan.torch.arena(memplan.plan(recorded(lambda: torch.empty(10))), stacks=True)
    with arena:
        torch.empty(30)
    del arena
    assert cpu().arenas() == 0


def test_more_than_the_tape_has() -> None:
    arena = memplan.torch.arena(memplan.plan(recorded(lambda: torch.empty(10))))
    with arena:
        kept = [torch.empty(10), torch.empty(10)]
        thread = threading.Thread(target=lambda: kept.append(torch.empty(5)))
        thread.start()
        thread.join()
    report = arena.report()
    assert (report.served, report.missed) == (1, 2)
    assert report.divergence is not None
    assert report.divergence.expected is None
    assert "expected nothing, got 40 bytes (more allocations" in str(report)


def test_plans_of_several_shapes_share_an_arena() -> None:
    plain, step = trainer(), trainer()
    batches, named_batches = [16, 16, 5, 16, 5], [(5, "last"), (16, "full"), (5, "last"), (9, "last")]
    expected = [plain(batch) for batch in (16, 5, *batches, *(batch for batch, _ in named_batches))]
    losses = []
    with memplan.torch.record() as full:
        losses.append(step(16))
    with memplan.torch.record() as last:
        losses.append(step(5))
    plans = {"full": memplan.plan(full), "last": memplan.plan(last)}
    arena = memplan.torch.arena(plans)
    with arena:
        for batch in batches:
            arena.step()
            losses.append(step(batch))
    report = arena.report()
    assert report.missed <= 4  # where the first sizes are the same, the wrong plan's slots are given out
    assert report.arena_bytes == max(plan.peak for plan in plans.values())
    named = memplan.torch.arena(plans)
    with named:
        for batch, name in named_batches:
            assert named.report().missed == 0
            named.step(name)
            losses.append(step(batch))
    assert losses == expected
    found = named.report().divergence
    assert found is not None
    assert (found.step, found.plan) == (3, "last")


def test_an_exception_leaves_torch_as_it_was() -> None:
    with pytest.raises(ZeroDivisionError), memplan.torch.record() as tape:
        fail()
    assert tape.size.tolist() == [40]
    arena = memplan.torch.arena(memplan.plan(tape))
    with pytest.raises(ZeroDivisionError), arena:
        fail()
    torch.empty(10)
    assert arena.report().steps == 1


def test_one_thing_at_a_time() -> None:
    arena = memplan.torch.arena(memplan.plan(recorded(lambda: torch.empty(10))))
    with memplan.torch.record():
        with pytest.raises(RuntimeError, match=r"an arena's step cannot begin: a recording has not ended"), arena:
            pass
        with pytest.raises(RuntimeError, match="a recording has not ended"), memplan.torch.record():
            pass
    with arena, pytest.raises(RuntimeError, match=r"a recording cannot begin: an arena's step has not ended"):  # noqa: SIM117
        with memplan.torch.record():
            pass
    with pytest.raises(RuntimeError, match=r"inside of `with arena:`"):
        arena.step()
    with arena, pytest.raises(ValueError, match=r"name must be one of '0', got 'other'"):
        arena.step("other")


def test_two_arenas_one_after_another() -> None:
    plan = memplan.plan(recorded(lambda: torch.full((100,), 1.0)))
    first, second = memplan.torch.arena(plan), memplan.torch.arena(plan)
    with first:
        a = torch.full((100,), 1.0)
    with second:
        b = torch.full((100,), 2.0)
    assert address(a) != address(b)
    assert (float(a.sum()), float(b.sum())) == (100, 200)
    assert first.report().served == second.report().served == 1


def test_memory_that_grows_later() -> None:
    """A tensor keeps the allocator that it came from, and asks it again when the step is over."""
    arena = memplan.torch.arena(memplan.plan(recorded(lambda: torch.full((100,), 1.0))))
    with arena:
        a = torch.full((100,), 1.0)
    a.resize_(10_000)
    assert float(a[:100].sum()) == 100
    assert arena.report().alive == 0


def test_what_is_no_plan_of_a_tape() -> None:
    plan = memplan.plan(memplan.Problem([4], [0], [1]))
    with pytest.raises(ValueError, match=r"plan '0' is not of a tape: record a step"):
        memplan.torch.arena(plan)
    tape = recorded(lambda: torch.empty(10))
    with pytest.raises(ValueError, match="is not of a tape"):
        memplan.torch.arena(pickle.loads(pickle.dumps(memplan.plan(tape))))
    for wrong in (None, "plan", [], {}, 3):
        with pytest.raises(TypeError, match="arena takes a plan, or a sequence or mapping of plans"):
            memplan.torch.arena(wrong)
    with pytest.raises(TypeError, match=r"arena takes plans, got Tape for 'a'"):
        memplan.torch.arena({"a": tape})


def test_a_plan_outside_of_its_arena_is_refused() -> None:
    from dataclasses import replace

    plan = memplan.plan(recorded(lambda: torch.empty(100)))
    for wrong in (replace(plan, offsets=plan.offsets + 64), replace(plan, offsets=plan.offsets - 64)):
        with pytest.raises(ValueError, match=r"a slot must lie in the arena of 448 bytes, aligned to 64, got offset"):
            memplan.torch.arena(wrong)
    with pytest.raises(ValueError, match="got offset 8 "):
        memplan.torch.arena(replace(plan, offsets=plan.offsets + 8, peak=512))
    with pytest.raises(MemoryError, match="cannot be made"):
        memplan.torch.arena(replace(plan, peak=2**60))


def test_the_profiler_sees_what_is_served() -> None:
    arena = memplan.torch.arena(memplan.plan(recorded(lambda: torch.empty(1000))))
    with torch.profiler.profile(profile_memory=True) as profile, arena:
        torch.empty(1000)
    assert max(event.cpu_memory_usage for event in profile.key_averages()) == 4000


# The build


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler -x")
    with pytest.raises(memplan.errors.MissingDependencyError, match="'no-such-compiler' was not found: install g"):
        build.built()
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(memplan.errors.UnsupportedError, match="Windows"):
        build.built()


def test_a_compiler_that_fails_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path / "made"))
    monkeypatch.setenv("CXX", "c++ -fno-such-option")
    with pytest.raises(RuntimeError, match=r"(?s)the C.. compiler failed:.*no-such-option"):
        build.built()
    assert not list((tmp_path / "made").iterdir())


def test_the_library_is_built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    path = build.built()
    monkeypatch.setattr(build, "_compile", lambda command: pytest.fail("it is there"))
    assert build.built() == path


def test_without_torch() -> None:
    code = "import sys; sys.modules['torch'] = None\nimport memplan\nmemplan.torch.record().__enter__()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "this needs torch: pip install 'memplan[torch]'" in done.stderr
