"""Budgets of torch.compile: what is tried, and what is asked for next."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

import memplan  # noqa: E402
from memplan.sizes import Budget  # noqa: E402
from memplan.torch.compiling import attempts, compiling  # noqa: E402
from memplan.torch.compiling.budget import Partition, within  # noqa: E402
from memplan.torch.compiling.compiled import Loaded, loaded, loaded_since, times_loaded  # noqa: E402
from memplan.torch.compiling.floor import NONE  # noqa: E402
from memplan.torch.compiling.settings import Settings, settings_of  # noqa: E402

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
    monkeypatch.setattr(attempts.AsyncCompile, "cpp_pybinding", lambda *_: "a kernel")
    there = attempts.PyCodeCache.modules_no_attr
    make = attempts.AsyncCompile().cpp_pybinding
    assert make([], "") == "a kernel"
    with attempts._without_kernels():
        assert attempts.AsyncCompile().cpp_pybinding([], "") is None
        there["code without kernels"] = attempts  # a module
    assert "code without kernels" not in there
    assert attempts.AsyncCompile().cpp_pybinding([], "") == "a kernel"


def test_a_relu_that_is_read_twice_may_be_written() -> None:
    """Else whoever reads it late reads the product instead, which stays so long."""

    def step(x: Any, w: Any) -> Any:
        made = torch.relu((x @ w).view(8, 64, 64))
        return torch.where(made <= 0, 0, (made.view(512, 64) @ w).view(8, 64, 64))

    x, w = torch.randn(512, 64), torch.randn(64, 64)
    held = []
    for fusing in (attempts._WRITTEN, attempts._ALL_WRITTEN):
        module, before = make_fx(step)(x, w), times_loaded()
        with attempts._without_kernels():
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
