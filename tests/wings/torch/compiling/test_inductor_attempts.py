"""Budgets of torch.compile: what is tried, and what is asked for next."""

from __future__ import annotations

import functools
import pickle
import sys
import time
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

import memplan  # noqa: E402
from memplan.sizes import Budget  # noqa: E402
from memplan.torch.compiling import anytime, attempts, compiling, without_kernels  # noqa: E402
from memplan.torch.compiling.budget import WithinBudget, within  # noqa: E402
from memplan.torch.compiling.capacity_search import Attempt, Search  # noqa: E402
from memplan.torch.compiling.compiled import Loaded, loaded, loaded_since, times_loaded  # noqa: E402
from memplan.torch.compiling.floor import NONE, Floor  # noqa: E402
from memplan.torch.compiling.partitions import Partition  # noqa: E402
from memplan.torch.compiling.settings import Settings, settings_of  # noqa: E402
from memplan.torch.compiling.step_load import Fusion  # noqa: E402

KINDS = len(attempts._KINDS)


class Known:
    """Partitions by capacity: what they hold, and cost; None where there is none."""

    def __init__(self, usual: int, of_capacity: Any) -> None:
        self._usual, self._of, self.asked = usual, of_capacity, list[int]()

    def usual(self) -> Any:
        return self._usual, NONE

    def by_torch(self) -> Any:
        return Partition(None, self._usual, 0.0)  # type: ignore[arg-type]

    def within(self, capacity: int) -> Any:
        self.asked.append(capacity)
        peak = self._of(capacity)
        if peak is None:
            raise memplan.InfeasibleError("none")
        return Partition(None, peak, 1000.0 - capacity)  # type: ignore[arg-type]


def test_less_is_asked_for_until_the_partition_fits() -> None:
    known = Known(1000, lambda capacity: capacity + 70)
    assert within(known, 1000).peak == 1000
    assert not known.asked
    assert within(known, 600).peak == 600
    assert known.asked == [600, 530]


def test_steps_double_where_less_is_not_enough() -> None:
    """Between 550 and 600 nothing changes, so that what is found at 600 is above the budget, however often."""
    known = Known(1000, lambda capacity: 610 if capacity > 550 else 540)
    assert within(known, 600).peak == 540
    assert len(known.asked) <= 10


def test_of_what_is_within_the_budget_the_cheapest_is_taken() -> None:
    known = Known(1000, lambda capacity: 610 if capacity > 505 else capacity)
    found = within(known, 600)
    assert 500 < found.peak <= 505


def test_targets_far_below_the_budget_are_tried_where_those_near_it_bring_nothing() -> None:
    known = Known(1000, lambda capacity: 610 if capacity > 400 else capacity)
    assert within(known, 600).peak <= 400


def test_a_target_that_brings_the_same_is_not_asked_for() -> None:
    """What is found for 600 holds 640, and would be found for all targets from 500 on."""
    asked: list[int] = []

    def attempt(target: int) -> Attempt[str]:
        asked.append(target)
        return Attempt("many", 640, meets=500) if target >= 500 else Attempt("few", target + 20)

    search = Search(attempt, 600)
    search.down(3)
    assert asked == [600, 460]
    assert search.best is not None


def test_the_error_says_the_least_that_works() -> None:
    known = Known(1000, lambda capacity: capacity + 10 if capacity >= 400 else None)
    with pytest.raises(memplan.InfeasibleError, match=r"fits 300 bytes; the least found holds 4") as caught:
        within(known, 300)
    assert within(Known(1000, known._of), caught.value.peak).peak <= caught.value.peak


def test_less_is_asked_for_where_kernels_hold_more() -> None:
    """What is compiled holds 600 bytes more than the partitioner thinks; what is not run is forgotten."""
    asked: list[int] = []

    def planned(graph: Any, inputs: Any, settings: Any, patches: Any) -> Any:
        target = patches["custom_partitioner_fn"]._budget if patches else 9400
        if target < 3000:
            raise memplan.InfeasibleError("less is not to be had", peak=3000)
        asked.append(target)
        for name in ("forward", "backward"):
            loaded(Loaded(name, {"cpu": {"planned": target + 600}}, []).to_text())
        return target

    graph = torch.fx.symbolic_trace(torch.nn.Identity())
    before = times_loaded()
    assert attempts.within(planned, graph, (), settings_of({}, {}, set())[0], {}, Budget("", 4000)) == 3400
    assert asked == [9400, *[4000] * KINDS, 3400, 3400]  # as it is, in all ways, less, and that with kernels
    assert len(loaded_since(before)) == 2
    with pytest.raises(memplan.InfeasibleError, match=r"fits 3.12 KiB .3,200 bytes. as .*; .* holds .* .3,650 bytes."):
        attempts.within(planned, graph, (), settings_of({}, {}, set())[0], {}, Budget("", 3200))
    assert len(loaded_since(before)) == 2


def test_what_no_partition_fits_is_tried_once() -> None:
    asked: list[int] = []

    def planned(graph: Any, inputs: Any, settings: Any, patches: Any) -> Any:
        by = patches.get("custom_partitioner_fn")
        asked.append(by._limit if by else 0)
        if by:
            raise memplan.InfeasibleError("mm needs 500", capacity=400, lower_bound=500)
        loaded(Loaded("forward", {"cpu": {"planned": 1000}}, []).to_text())

    graph, before = torch.fx.symbolic_trace(torch.nn.Identity()), times_loaded()
    with pytest.raises(memplan.InfeasibleError, match="mm needs 500"):
        attempts.within(planned, graph, (), settings_of({}, {}, set())[0], {}, Budget("", 400))
    assert asked == [0, 400]
    assert not loaded_since(before)


@pytest.mark.parametrize("allow", [["recompute"], ["recompute", "split"]])
def test_torch_leaves_pieces_in_their_order(allow: list[str]) -> None:
    """In inference, it moves ops to their first readers: all pieces of a pass to the pass that reads them."""
    moved: list[Any] = []

    def planned(graph: Any, inputs: Any, settings: Any, patches: Any) -> None:
        usual = "custom_partitioner_fn" not in patches
        moved.append(None if usual else patches.get("reorder_for_locality", True))
        loaded(Loaded("inference", {"cpu": {"planned": 1000 if usual else 400}}, []).to_text())

    graph = torch.fx.symbolic_trace(torch.nn.Identity())
    settings, _ = settings_of({"budget": "500", "allow": allow}, {}, set())
    attempts.within(planned, graph, (), settings, {}, Budget("", 500))
    assert set(moved[1:]) == {"split" not in allow}


@pytest.mark.parametrize("best", range(KINDS))
def test_it_goes_on_with_what_holds_less(best: int) -> None:
    """How ops are fused, and whether they count as written over what they read."""
    asked: list[tuple[int, int]] = []

    def planned(graph: Any, inputs: Any, settings: Any, patches: Any) -> None:
        by = patches.get("custom_partitioner_fn")
        if by is None:
            loaded(Loaded("forward", {"cpu": {"planned": 1000}}, []).to_text())
            return
        written = {key: value for key, value in patches.items() if key in attempts._WRITTEN}
        kind = attempts._KINDS.index((written, by.fusion))
        asked.append((by._budget, kind))
        assert settings.fuse_writers == by.fusion.writers
        holds = by._budget + (100 if kind == best else 200)
        loaded(Loaded("forward", {"cpu": {"planned": holds}}, []).to_text())

    graph = torch.fx.symbolic_trace(torch.nn.Identity())
    attempts.within(planned, graph, (), settings_of({}, {}, set())[0], {}, Budget("", 500))
    assert asked == [*((500, kind) for kind in range(KINDS)), (400, best), (400, best)]


def test_what_is_close_goes_on_at_once() -> None:
    """Other kinds are tried only if less does not help."""
    asked: list[tuple[int, int]] = []

    def planned(graph: Any, inputs: Any, settings: Any, patches: Any) -> None:
        by = patches.get("custom_partitioner_fn")
        written = {key: value for key, value in patches.items() if key in attempts._WRITTEN}
        kind = attempts._KINDS.index((written, by.fusion)) if by else 0
        asked.append((by._budget if by else 1000, kind))
        holds = 1000 if by is None else least if kind == 0 and by._budget < 500 else by._budget + 20
        loaded(Loaded("forward", {"cpu": {"planned": holds}}, []).to_text())

    graph = torch.fx.symbolic_trace(torch.nn.Identity())
    settings, budget = settings_of({}, {}, set())[0], Budget("", 500)
    least = 490
    attempts.within(planned, graph, (), settings, {}, budget)
    assert asked == [(1000, 0), (500, 0), (480, 0), (480, 0)]
    asked.clear()
    least = 510
    attempts.within(planned, graph, (), settings, {}, budget)
    assert asked[1:] == [(500, 0), (480, 0), (470, 0), (440, 0), (350, 0), (500, 1), (480, 1), (480, 1)]


@pytest.mark.parametrize("found", [False, True])
def test_where_nothing_is_found_rows_count_as_one_loop(found: bool) -> None:
    """It is the last that is tried."""
    asked: list[bool] = []

    def planned(graph: Any, inputs: Any, settings: Any, patches: Any) -> str:
        by = patches.get("custom_partitioner_fn")
        asked.append(by is not None and by.fusion.rows)
        if by and not by.fusion.rows and not found:
            raise memplan.InfeasibleError("op 'sub' needs 600")
        holds = 1000 if by is None else 500 if by.fusion.rows else by._budget + 100
        loaded(Loaded("forward", {"cpu": {"planned": holds}}, []).to_text())
        return "rows" if by and by.fusion.rows else "others"

    graph = torch.fx.symbolic_trace(torch.nn.Identity())
    what = attempts.within(planned, graph, (), settings_of({}, {}, set())[0], {}, Budget("", 500))
    assert what == ("others" if found else "rows")
    kinds = KINDS if found else len({fusion for _, fusion in attempts._KINDS})  # fused otherwise, it is found no more
    assert asked[: kinds + 2] == [*[False] * (kinds + 1), not found]


def test_where_much_room_is_left_more_is_saved() -> None:
    """Below 450 bytes suddenly much less is held."""
    asked: list[int] = []

    def planned(graph: Any, inputs: Any, settings: Any, patches: Any) -> int:
        target = patches["custom_partitioner_fn"]._budget if patches else 1000
        asked.append(target)
        holds = 1000 if not patches else target + 100 if target > 450 else target - 200
        loaded(Loaded("forward", {"cpu": {"planned": holds}}, []).to_text())
        return target

    graph = torch.fx.symbolic_trace(torch.nn.Identity())
    assert attempts.within(planned, graph, (), settings_of({}, {}, set())[0], {}, Budget("", 500)) == 450
    assert asked == [1000, *[500] * KINDS, 400, 450, 475, 450]


def test_only_code_that_runs_gets_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(without_kernels.AsyncCompile, "cpp_pybinding", lambda *_: "a kernel")
    there = without_kernels.PyCodeCache.modules_no_attr
    make = without_kernels.AsyncCompile().cpp_pybinding
    assert make([], "") == "a kernel"
    with without_kernels.without_kernels():
        assert without_kernels.AsyncCompile().cpp_pybinding([], "") is None
        there["code without kernels"] = attempts  # a module
    assert "code without kernels" not in there
    assert without_kernels.AsyncCompile().cpp_pybinding([], "") == "a kernel"


def test_a_relu_that_is_read_twice_may_be_written() -> None:
    """Else whoever reads it late reads the product instead, which stays so long."""

    def step(x: Any, w: Any) -> Any:
        made = torch.relu((x @ w).view(8, 64, 64))
        return torch.where(made <= 0, 0, (made.view(512, 64) @ w).view(8, 64, 64))

    x, w = torch.randn(512, 64), torch.randn(64, 64)
    held = []
    for fusing in (attempts._WRITTEN, attempts._ALL_WRITTEN):
        module, before = make_fx(step)(x, w), times_loaded()
        with without_kernels.without_kernels():
            compiling._planned(set(), module, (x, w), Settings(serve=False), fusing)
        [graph] = loaded_since(before)
        held.append(graph.figures["cpu"]["load"])
    assert held == [3 * x.nbytes, 2 * x.nbytes]


def test_higher_targets_are_tried_where_nothing_fits_the_budget_before_fusing() -> None:
    asked: list[int] = []

    def planned(graph: Any, inputs: Any, settings: Any, patches: Any) -> Any:
        target = patches["custom_partitioner_fn"]._budget if patches else 1000
        asked.append(target)
        if target < 600:
            raise memplan.InfeasibleError("tensors need more before they are fused", capacity=target, peak=600)
        loaded(Loaded("forward", {"cpu": {"planned": target // 2 if patches else 1000}}, []).to_text())
        return target

    graph = torch.fx.symbolic_trace(torch.nn.Identity())
    found = attempts.within(planned, graph, (), settings_of({}, {}, set())[0], {}, Budget("", 400))
    assert asked == [1000, 400, 400, 400, 400, 600, 800, 800]  # no kind; what is found; with less that runs again
    assert found == 800


def test_a_smaller_budget_finds_no_more_than_a_larger_one() -> None:
    """The second kind is fused well, and the first one is not; where neither fits the budget, both say their least."""

    def planned(graph: Any, inputs: Any, settings: Any, patches: Any) -> Any:
        by = patches.get("custom_partitioner_fn")
        if by is None:
            holds = 1000
        elif by._budget < 700:
            raise memplan.InfeasibleError("tensors need more", capacity=by._budget, peak=700)
        else:
            written = {key: value for key, value in patches.items() if key in attempts._WRITTEN}
            holds = by._budget + (200 if attempts._KINDS.index((written, by.fusion)) == 0 else 50)
        loaded(Loaded("forward", {"cpu": {"planned": holds}}, []).to_text())
        return holds

    graph, settings = torch.fx.symbolic_trace(torch.nn.Identity()), settings_of({}, {}, set())[0]
    assert attempts.within(planned, graph, (), settings, {}, Budget("", 800)) == 800
    with pytest.raises(memplan.InfeasibleError) as caught:
        attempts.within(planned, graph, (), settings, {}, Budget("", 400))
    assert caught.value.peak == 750
    assert attempts.within(planned, graph, (), settings, {}, Budget("", 750)) == 750


class Counted(anytime.Clock):
    """Time is up after so many looks at it."""

    looks = 0

    def check(self) -> None:
        self.looks -= 1
        if self.looks < 0:
            self.limit = 0.0
        super().check()


@pytest.mark.parametrize(("looks", "best"), [(10, 450), (KINDS, 400)])
def test_where_time_is_up_the_best_until_then_is_taken(monkeypatch: pytest.MonkeyPatch, looks: int, best: int) -> None:
    monkeypatch.setattr(Counted, "looks", looks)
    monkeypatch.setattr(attempts, "Clock", Counted)

    def planned(graph: Any, inputs: Any, settings: Any, patches: Any) -> int:
        target = patches["custom_partitioner_fn"]._budget if patches else 1000
        holds = 1000 if not patches else target + 100 if target > 450 else target - 200
        loaded(Loaded("forward", {"cpu": {"planned": holds}}, []).to_text())
        return target

    graph = torch.fx.symbolic_trace(torch.nn.Identity())
    assert attempts.within(planned, graph, (), settings_of({}, {}, set())[0], {}, Budget("", 500)) == best


def test_where_time_is_up_and_nothing_fits_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """One attempt is made in any case. What is proven is said too."""
    asked: list[int] = []

    def planned(graph: Any, inputs: Any, settings: Any, patches: Any) -> None:
        by = patches.get("custom_partitioner_fn")
        asked.append(by._budget if by else 1000)
        if by:
            by._known.usual[by.fusion] = 900, Floor(300, "mm needs 300 bytes of relu")
        loaded(Loaded("forward", {"cpu": {"planned": 1000 if by is None else 700}}, []).to_text())

    graph = torch.fx.symbolic_trace(torch.nn.Identity())
    settings = settings_of({"budget": "50%", "time_limit": 1e-9}, {}, set())[0]
    with pytest.raises(memplan.InfeasibleError) as caught:
        attempts.within(planned, graph, (), settings, {}, settings.budget)
    assert asked == [1000, 500]
    assert str(caught.value) == (
        "no partition of the graph was found that fits 500 bytes as Inductor fuses it, in 1e-09 s (time_limit); the "
        "least found holds 700 bytes at once, 0 B of it weights, inputs and states; any holds at least 300 bytes, "
        "because mm needs 300 bytes of relu; the budget is 50% of 1000 B, what the step holds as torch.compile runs it "
        "without a budget"
    )
    assert (caught.value.peak, caught.value.lower_bound, caught.value.proven) == (700, 300, False)


@pytest.mark.parametrize("late", [False, True])
def test_late_it_goes_on_with_what_holds_least_at_once(monkeypatch: pytest.MonkeyPatch, late: bool) -> None:
    """Not with other kinds of fusing; these come where that does not help."""
    asked: list[int] = []

    def planned(graph: Any, inputs: Any, settings: Any, patches: Any) -> None:
        target = patches["custom_partitioner_fn"]._budget if patches else 1000
        asked.append(target)
        loaded(Loaded("forward", {"cpu": {"planned": 1000 if not patches else max(target + 100, least)}}, []).to_text())

    monkeypatch.setattr(anytime.Clock, "is_late", late)
    graph, least = torch.fx.symbolic_trace(torch.nn.Identity()), 0
    attempts.within(planned, graph, (), settings_of({}, {}, set())[0], {}, Budget("", 500))
    assert asked == ([1000, 500, 400, 400] if late else [1000, *[500] * KINDS, 400, 400])
    asked.clear()
    least = 580
    with pytest.raises(memplan.InfeasibleError, match="the least found holds 580 bytes"):
        attempts.within(planned, graph, (), settings_of({}, {}, set())[0], {}, Budget("", 500))
    assert asked.count(500) == KINDS
    assert asked[:3] == ([1000, 500, 400] if late else [1000, 500, 500])


def test_by_default_attempts_take_as_long_as_inductor(monkeypatch: pytest.MonkeyPatch) -> None:
    limits, kernels = list[float](), list[int]()
    monkeypatch.setattr(attempts, "Clock", lambda limit: limits.append(limit) or anytime.Clock(limit))
    monkeypatch.setattr(attempts, "seconds_of_kernels", lambda kernels: 40.0 * len(kernels))

    def planned(graph: Any, inputs: Any, settings: Any, patches: Any) -> None:
        for number in range(0 if patches else kernels[-1]):
            without_kernels.AsyncCompile().cpp_pybinding(["float*"], f"void kernel{number}() {{}}")
        loaded(Loaded("forward", {"cpu": {"planned": 400 if patches else 1000}}, []).to_text())

    graph = torch.fx.symbolic_trace(torch.nn.Identity())
    for many in (0, 2):
        kernels.append(many)
        attempts.within(planned, graph, (), settings_of({}, {}, set())[0], {}, Budget("", 500))
    attempts.within(planned, graph, (), settings_of({"budget": 9, "time_limit": 7}, {}, set())[0], {}, Budget("", 500))
    assert limits == [anytime.LEAST, pytest.approx(80, abs=5), 7]


def test_kernels_are_timed_by_one_of_middle_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another comes first: with it, what all need is there."""
    compiled: list[str] = []

    class Compiler:
        def cpp_pybinding(self, takes: Any, code: str) -> Any:
            compiled.append(code)
            time.sleep(0.05 if len(code) == 3 else 0.0)

    monkeypatch.setattr(without_kernels, "AsyncCompile", Compiler)
    kernels = [((), code) for code in ("aa", "bbb", "cccc", "a", "bbb", "eeeee")]
    with without_kernels.inductor_config.patch(compile_threads=2):
        assert without_kernels.seconds_of_kernels(kernels) == pytest.approx(4 * 0.05 / 2, rel=0.5)
    assert compiled == ["a", "bbb"]
    assert without_kernels.seconds_of_kernels([]) == 0


def test_the_same_partition_is_not_lowered_twice() -> None:
    """Two targets may give it. Fused otherwise, it is another."""
    lowered: list[int] = []
    pair = (torch.fx.symbolic_trace(torch.nn.Tanh()), torch.fx.symbolic_trace(torch.nn.Sigmoid()))
    other = (pair[0], torch.fx.symbolic_trace(torch.nn.Tanh()))

    def planned(graph: Any, inputs: Any, settings: Any, patches: Any) -> str:
        by = patches.get("custom_partitioner_fn")
        if by is not None:
            by.made(pair if by._budget > 400 else other)
        lowered.append(by._budget if by else 1000)
        holds = 1000 if by is None else 600 if by._budget > 400 else 480
        loaded(Loaded("forward", {"cpu": {"planned": holds}}, []).to_text())
        return "other" if by and by._budget <= 400 else "first"

    graph = torch.fx.symbolic_trace(torch.nn.Identity())
    assert attempts.within(planned, graph, (), settings_of({}, {}, set())[0], {}, Budget("", 500)) == "other"
    kinds = {(*sorted(fusing.items()), fusion.writers) for fusing, fusion in attempts._KINDS}
    assert lowered == [1000, *[500] * len(kinds), 400, 400]


def test_a_capacity_is_looked_for_once() -> None:
    """Attempts whose graphs are fused otherwise begin with the same partition."""
    known, asked = anytime.Known(), list[int | None]()

    def looked(target: int) -> Partition:
        asked.append(target)
        if target < 500:
            raise memplan.InfeasibleError("none is within that")
        return Partition((), target, 0.0)  # type: ignore[arg-type]

    for target in (600, 600, 700):
        assert known.once(Fusion(), target, functools.partial(looked, target)).peak == target
    for _ in range(2):
        with pytest.raises(memplan.InfeasibleError, match="none is within that"):
            known.once(Fusion(), 300, functools.partial(looked, 300))
    assert asked == [600, 700, 300]


def test_only_a_terminal_is_shown_how_far_it_has_come(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(anytime, "_SOON", 0.0)
    for terminal in (False, True):
        monkeypatch.setattr(sys.stderr, "isatty", lambda terminal=terminal: terminal, raising=False)
        with anytime.shown("within a budget") as say:
            say("attempt 1, 9 B of 5 B so far, 0 of 30 s")
        assert ("within a budget: attempt 1" in capsys.readouterr().err) == terminal


def test_a_time_limit_is_of_a_budget() -> None:
    with pytest.raises(ValueError, match="time_limit needs budget"):
        settings_of({"time_limit": 3}, {}, set())
    with pytest.raises(ValueError, match="time_limit must be > 0 seconds, got 0"):
        settings_of({"budget": "50%", "time_limit": 0}, {}, set())


def test_keys_of_caches_have_only_what_is_asked_for() -> None:
    """Not what attempts have found: else what was read is compiled anew when it is to run."""
    known = anytime.Known()
    one, other = (WithinBudget(500, 900, known=found) for found in (known, None))
    known.usual[one.fusion] = 900, NONE
    one.made = lambda pair: None
    assert pickle.dumps(one) == pickle.dumps(other)
    assert pickle.dumps(one) != pickle.dumps(WithinBudget(501, 900))
    assert pickle.loads(pickle.dumps(one)).uuid() == one.uuid()
