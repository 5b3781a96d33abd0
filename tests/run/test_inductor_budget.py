"""`torch.compile(model, backend="memplan", options={"budget": ...})`: what forward saves is chosen within a budget."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from sympy import Integer  # noqa: E402
from torch._dynamo.backends.common import aot_autograd  # noqa: E402
from torch._inductor.dependencies import MemoryDep, WeakDep  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

import memplan  # noqa: E402
from estimating.test_estimate import peak  # noqa: E402
from memplan.inductor.wrapper import Block  # noqa: E402
from memplan.run.inductor import attempts, compiling, fusing, joint, step_load  # noqa: E402
from memplan.run.inductor.budget import Partition, WithinBudget, within  # noqa: E402
from memplan.run.inductor.compiled import Loaded, loaded, loaded_since, times_loaded  # noqa: E402
from memplan.run.inductor.copies import AGAIN  # noqa: E402
from memplan.run.inductor.floor import NONE  # noqa: E402
from memplan.run.inductor.forward_outputs import Step, given  # noqa: E402
from memplan.run.inductor.outside import Outside, outside_of  # noqa: E402
from memplan.run.inductor.part_copies import copy_parts  # noqa: E402
from memplan.run.inductor.settings import Settings, settings_of  # noqa: E402
from memplan.run.inductor.step_load import held  # noqa: E402
from memplan.run.inductor.sums import write_sums  # noqa: E402
from memplan.sizes import Budget  # noqa: E402
from run.test_checkpoint import squares, transformer  # noqa: E402

WITHOUT = 10**12


def compiled(model: Any, budget: int, found: list[int], backwards: list[Any] | None = None) -> Any:
    """A model whose graphs run op by op, partitioned within a budget; the bytes that a step holds, the backwards."""

    class Noted(WithinBudget):
        def __call__(self, gm: Any, joint_inputs: Any, **kwargs: Any) -> Any:
            graphs = super().__call__(gm, joint_inputs, **kwargs)
            found.append(held(*graphs, kwargs["num_fwd_outputs"]))
            if backwards is not None:
                backwards.append(graphs[1])
            return graphs

    def as_it_is(graph: Any, inputs: Any) -> Any:
        graph.graph.set_codegen(torch.fx.graph._BoxedCodeGen())  # frees what it is given, as Inductor does
        graph.recompile()

        def run(args: Any) -> Any:
            return graph.forward(args)

        run._boxed_call = True  # type: ignore[attr-defined]
        return run

    torch._dynamo.reset()
    return torch.compile(model, backend=aot_autograd(fw_compiler=as_it_is, partition_fn=Noted(budget)))


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each op writes its result: nothing is fused."""
    for module in (step_load, joint):
        monkeypatch.setattr(module, "in_registers", lambda *_, **__: set())
        monkeypatch.setattr(module, "written_over", lambda *_: [])


def step(model: Any, module: Any, x: Any) -> tuple[int, list[Any]]:
    """The peak of a second step of a model without chance, and its gradients."""
    squares(model(x)).backward()
    module.zero_grad()
    real = peak(lambda: squares(model(x)).backward())
    gradients = [p.grad.clone() for p in module.parameters()]
    module.zero_grad()
    return real, gradients


def test_forward_and_backward_are_within_the_budget_and_gradients_equal(apart: None) -> None:
    module, x = transformer()
    module.eval()
    found: list[int] = []
    _, gradients = step(compiled(module, WITHOUT, found), module, x)
    budget = found[0] * 6 // 10
    real, again = step(compiled(module, budget, found), module, x)
    assert found[1] <= budget < found[0]
    assert all(map(torch.equal, gradients, again))
    assert real <= budget


class Residual(torch.nn.Module):
    """Sums that each need the one before, views of them, and an op with several results."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(64, 64) for _ in range(8)])

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            first, second = x.var(-1, keepdim=True), x.view(-1, 2, 64).transpose(0, 1).contiguous().view(-1, 64)
            x = x + torch.tanh(layer(second)) / (1 + first)
        return x


def test_an_op_may_run_again_more_than_once(apart: None) -> None:
    torch.manual_seed(0)
    module, x = Residual(), torch.randn(512, 64)
    found: list[int] = []
    backwards: list[Any] = []
    _, gradients = step(compiled(module, WITHOUT, found), module, x)
    budget = found[0] * 3 // 10
    real, again = step(compiled(module, budget, found, backwards), module, x)
    assert found[1] <= budget
    assert real <= budget + x.nbytes  # the loss is not in the graphs
    assert all(map(torch.equal, gradients, again))
    copies = [node for node in backwards[0].graph.nodes if AGAIN in node.meta]
    assert sum(node.target == torch.ops.aten.tanh.default for node in copies) > len(module.layers)


class Fans(torch.autograd.Function):
    """Backward makes four large tensors, and then sums each."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.repeat(8, 1)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        large = [(gradient * (k + 0.5)).tanh() for k in range(4)]
        return sum(one.view(8, -1).sum(0).view(-1, gradient.shape[1]) for one in large)


class Fanned(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = torch.nn.Linear(64, 64), torch.nn.Linear(64, 64)

    def forward(self, x: Any) -> Any:
        return self.last(Fans.apply(self.first(x).tanh()))


@pytest.mark.parametrize("fused", [False, True])
def test_backward_runs_in_an_order_in_which_it_fits(request: pytest.FixtureRequest, fused: bool) -> None:
    """The four tensors, one after another."""
    if not fused:
        request.getfixturevalue("apart")
    torch.manual_seed(0)
    module, x = Fanned(), torch.randn(64, 64)
    large, found = 8 * x.nbytes, list[int]()
    _, gradients = step(compiled(module, WITHOUT, found), module, x)
    budget = found[0] - 3 * large // 2
    real, again = step(compiled(module, budget, found), module, x)
    assert found[1] <= budget
    assert fused or real <= budget + large  # the loss is not in the graphs
    assert all(map(torch.equal, gradients, again))


class Recurrent(torch.nn.Module):
    """A weight that each step uses."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(256, 256)

    def forward(self, x: Any) -> Any:
        for _ in range(10):
            x = x + torch.tanh(self.layer(x).sin()) * x.cos()
        return x


def test_gradients_of_a_weight_are_added_up_as_they_come() -> None:
    """Ten of them would be there at the end."""
    torch.manual_seed(0)
    module, x = Recurrent(), torch.randn(8, 256)
    found: list[int] = []
    backwards: list[Any] = []
    _, gradients = step(compiled(module, WITHOUT, found), module, x)
    budget = 4 * module.layer.weight.nbytes
    _, again = step(compiled(module, budget, found, backwards), module, x)
    assert found[1] <= budget < found[0]
    assert all(map(torch.equal, gradients, again))
    sums = [node for node in backwards[0].graph.nodes if step_load.IN_MEMORY in node.meta]
    assert {tuple(node.meta["val"].shape) for node in sums} >= {module.layer.weight.shape}


@pytest.mark.parametrize(("read", "far", "written"), [(2, True, True), (1, True, False), (2, False, False)])
def test_a_sum_is_written_where_that_frees_bytes(read: int, far: bool, written: bool) -> None:
    """Not where another op reads what is added, nor where the sum is read soon."""

    def compute(x: Any, y: Any) -> Any:
        one, other = x.mm(y), y.mm(x)
        total, between = one + other, x
        for _ in range(20 if far else 2):
            between = between.sin()
        return total + between, one if read == 1 else x

    nodes = traced(compute, torch.randn(8, 8), torch.randn(8, 8))
    write_sums(nodes["mm"].graph, {*nodes})
    assert (step_load.IN_MEMORY in nodes["add"].meta) == written
    assert nodes["add"] in step_load.in_registers([*nodes.values()]) or written
    assert len(step_load.written_over(nodes["add"], set())) == 2  # either of what is added


class Words(torch.nn.Module):
    """Scores of many words."""

    def __init__(self, returned: bool) -> None:
        super().__init__()
        self.hidden, self.scores = torch.nn.Linear(16, 32), torch.nn.Linear(32, 1000)
        self.returned = returned

    def forward(self, x: Any, words: Any) -> Any:
        scores = self.scores(self.hidden(x).relu())
        loss = torch.nn.functional.cross_entropy(scores, words)
        return (loss, scores) if self.returned else loss


@pytest.mark.parametrize("returned", [True, False])
def test_too_small_a_budget_says_what_is_needed(returned: bool) -> None:
    """The gradient of the scores; the gradient of their weight; what the caller has of the scores."""
    scores, weight, hidden, loss = 4 * 256 * 1000, 4 * 32 * 1000, 4 * 256 * 32, 4
    floor = loss + (3 * scores if returned else scores + weight + hidden)
    needs = "1000.00 KiB of add, 1000.00 KiB of tangents_2, 1000.00 KiB of addmm_1 in scores"
    if not returned:
        needs = "1000.00 KiB of .*, 125.00 KiB of mm_1 in scores, 32.00 KiB of relu"
    what = rf"no partition of the graph fits .* a step holds at least .* .{floor:,} bytes., 0 B of it .* needs {needs}"
    given = (torch.randn(256, 16), torch.randint(0, 1000, (256,)))
    with pytest.raises(Exception, match=what):
        compiled(Words(returned), floor - 1, [])(*given)
    with pytest.raises(Exception, match=r"no partition of the graph was found that fits .*; the least found"):
        compiled(Words(returned), floor, [])(*given)


def test_when_backward_begins_all_gradients_that_it_is_given_are_there() -> None:
    class Scaled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(64))

        def forward(self, x: Any) -> Any:
            return x * self.weight

    x = torch.randn(256, 64)
    what = rf"at least .* .{2 * x.nbytes:,} bytes., .* because the beginning of the backward pass needs 64.00 KiB of"
    with pytest.raises(Exception, match=what):
        compiled(Scaled(), 2 * x.nbytes - 1, [])(x)


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


def test_the_error_says_the_least_that_works() -> None:
    known = Known(1000, lambda capacity: capacity + 10 if capacity >= 400 else None)
    with pytest.raises(memplan.InfeasibleError, match=r"fits 300 bytes; the least found holds 4") as caught:
        within(known, 300)
    assert within(Known(1000, known._of), caught.value.peak).peak <= caught.value.peak


def test_what_forward_saves_counts_until_backward_has_used_it(apart: None) -> None:
    """Three layers keep three tensors, and the gradients come while the last of them are there."""
    module = torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Tanh()) for _ in range(8)])
    x = torch.randn(1024, 64)
    found: list[int] = []
    usual, _ = step(compiled(module, WITHOUT, found), module, x)
    assert abs(usual - found[0]) <= x.nbytes  # the loss is not in the graphs
    assert found[0] >= 8 * x.nbytes


def test_what_draws_random_numbers_is_saved() -> None:
    module, x = transformer()
    found: list[int] = []
    results = []
    for budget in (WITHOUT, 10**6):
        run = compiled(module, budget, found)
        torch.manual_seed(3)
        squares(run(x)).backward()
        results.append([p.grad.clone() for p in module.parameters()])
        module.zero_grad()
    assert found[1] < found[0]
    assert all(map(torch.equal, *results))


def test_seeds_of_dropout_are_drawn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inductor puts its seeds in place of dropout before the graph is cut in two."""
    layers = [torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Dropout(0.5)]
    module = torch.nn.Sequential(*layers, *layers, torch.nn.Linear(64, 64)).train()
    x = torch.randn(256, 64)
    seen: list[joint.Joint] = []
    saved = joint.Joint.saved
    monkeypatch.setattr(joint.Joint, "saved", lambda self, order: (seen.append(self), saved(self, order))[1])
    found = []
    for options in ({}, {"budget": "kept + 460000"}):
        torch._dynamo.reset()
        model = torch.compile(module, backend="memplan", options=options)
        torch.manual_seed(1)
        with torch.compiler.config.patch(force_disable_caches=True):
            squares(model(x)).backward()
        found.append([p.grad.clone() for p in module.parameters()])
        module.zero_grad()
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)
    assert seen
    for made in seen:
        again = dict(zip((op.type for op in made.graph.ops), made.again, strict=True))
        assert again["prims.inductor_seeds.default"] == "never"
        assert "same" in again.values()


def test_the_budget_is_an_option_and_part_of_the_keys_of_caches() -> None:
    small, large = (settings_of({"budget": size}, {}, set())[0] for size in ("1MiB", "2MiB"))
    assert small.budget.bytes == 2**20
    assert small.key != large.key
    assert len({WithinBudget(*given).uuid() for given in ((1, 0), (2, 0), (1, 2), (2, 1))}) == 4
    with pytest.raises(ValueError, match="budget"):
        settings_of({"budget": "much"}, {}, set())


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
    assert asked == [9400, *[4000] * 4, 3400, 3400]  # as it is, in four ways, less, and that with kernels
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


@pytest.mark.parametrize("best", range(4))
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
    assert asked == [(500, 0), (500, 1), (500, 2), (500, 3), (400, best), (400, best)]


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
    assert asked[1:] == [(500, 0), (480, 0), (470, 0), (460, 0), (444, 0), (500, 1), (480, 1), (480, 1)]


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
    assert asked[:6] == [False, False, False, False, False, not found]


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
    assert asked == [1000, *[500] * 4, 400, 450, 475, 450]


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


def test_what_inductor_fuses_is_not_counted_apart() -> None:
    """The usual graphs hold 158 bytes when fused, and 395 before: a budget of 158 is enough, and half of it is half."""
    asked: list[tuple[int, int]] = []

    def planned(graph: Any, inputs: Any, settings: Any, patches: Any) -> Any:
        by = patches.get("custom_partitioner_fn")
        asked.append((by._budget, by._usual) if by else (0, 0))
        loaded(Loaded("forward", {"cpu": {"planned": by._budget if by else 158}}, []).to_text())
        return "found"

    graph = torch.fx.symbolic_trace(torch.nn.Identity())
    for budget, expected in ((158, [(0, 0)] * 2), (79, [(0, 0), (79, 158), (79, 158)])):
        asked.clear()
        assert attempts.within(planned, graph, (), settings_of({}, {}, set())[0], {}, Budget("", budget)) == "found"
        assert asked == expected
    wanted: list[int] = []

    class Known:
        def usual(self) -> Any:
            return 395, NONE

        def within(self, capacity: int) -> Any:
            wanted.append(capacity)
            return Partition((None, None), capacity, 1.0)  # type: ignore[arg-type]

    assert within(Known(), 79, 158).peak == 395 // 2 == wanted[0]
    assert within(Known(), 79).peak == 79


def test_ops_that_are_far_apart_are_not_fused(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor.scheduler import Scheduler

    monkeypatch.setattr(Scheduler, "can_fuse", lambda *_: True)
    monkeypatch.setattr(Scheduler, "can_fuse", fusing.near(Scheduler.can_fuse, compiling._fuse_within))

    def fused(first: tuple[int, int], second: tuple[int, int], settings: Settings) -> bool:
        orders = (first, second)
        one, other = (SimpleNamespace(min_order=low, max_order=high, get_nodes=list) for low, high in orders)
        with compiling._planning(settings, Step()):
            both = {Scheduler.can_fuse(None, one, other), Scheduler.can_fuse(None, other, one)}
        assert len(both) == 1
        return both.pop()

    assert fused((3, 3), (90, 90), Settings())
    near = Settings(fuse_within=16)
    assert fused((3, 3), (19, 19), near)
    assert not fused((3, 3), (20, 20), near)
    assert not fused((3, 4), (15, 20), near)  # what was fused reaches too far
    assert Scheduler.can_fuse(None, None, None)  # other backends compile as ever


@pytest.mark.parametrize(("total", "added", "together"), [(1000, 999, False), (1000, 1000, True)])
def test_a_total_that_is_larger_is_not_there_while_summands_are_made(
    monkeypatch: pytest.MonkeyPatch, total: int, added: int, together: bool
) -> None:
    from torch._inductor.virtualized import V

    to = SimpleNamespace(get_numel=lambda: total, get_dtype=lambda: torch.float32)
    monkeypatch.setattr(fusing, "_totals", lambda node: [(to, added, torch.float32)] if node.scatters else [])
    plain, scatter = (SimpleNamespace(min_order=0, max_order=0, scatters=scatters) for scatters in (False, True))
    can_fuse = fusing.near(lambda *_: True, lambda: 16)
    with V.set_graph_handler(SimpleNamespace(sizevars=sizes())):
        assert can_fuse(None, plain, plain)
        assert can_fuse(None, plain, scatter) == can_fuse(None, scatter, plain) == together


@pytest.mark.parametrize(
    ("reader", "staying", "together"),
    [("c", 64, False), ("OUTPUT", 64, False), ("c", 4, True), ("b", 64, True)],
    ids=["others read both", "the caller gets one", "one is small", "one is for the other"],
)
def test_loops_that_both_write_for_others_are_not_fused(reader: str, staying: int, together: bool) -> None:
    from torch._inductor.virtualized import V

    bytes = {"x": 64, "a": staying, "b": 64}

    def loop(name: str, read: str, reader: str) -> Any:
        made = SimpleNamespace(get_name=lambda: name, users=[SimpleNamespace(get_name=lambda: reader, is_weak=False)])
        reads = [MemoryDep(read, Integer(0), (), ()), WeakDep("not a tensor", "b")]
        return SimpleNamespace(
            get_operation_names=lambda: {name},
            get_outputs=lambda: [made],
            read_writes=SimpleNamespace(reads_and_writes=lambda: iter(reads)),
        )

    graph = SimpleNamespace(get_numel=bytes.__getitem__, get_dtype=lambda _: torch.uint8, sizevars=sizes())
    one, other = loop("a", "x", reader), loop("b", "a" if reader == "b" else "x", "d")
    can_fuse = fusing.one_at_a_time(lambda *_: True, compiling._fuses_writers)
    with V.set_graph_handler(graph):
        assert can_fuse(None, one, other)
        with compiling._planning(Settings(fuse_writers=False), Step()):
            assert can_fuse(None, one, other) == can_fuse(None, other, one) == together


def sizes() -> Any:
    return SimpleNamespace(optimization_hint=lambda size, fallback: size)


@pytest.mark.parametrize(("own", "read", "kept"), [(65, [32, 32], False), (64, [32, 32], True), (1, [], False)])
def test_what_is_larger_than_what_it_is_computed_of_is_not_kept(own: int, read: list[int], kept: bool) -> None:
    from torch._inductor.virtualized import V

    loops = SimpleNamespace(
        get_read_names=lambda: range(len(read)), get_numel=lambda: own, get_dtype=lambda: torch.float32
    )
    graph = SimpleNamespace(get_numel=lambda k: read[k], get_dtype=lambda k: torch.float32, sizevars=sizes())
    keeps, box = fusing.unless_larger(lambda *_: True, compiling._fuse_within), SimpleNamespace(data=loops)
    with V.set_graph_handler(graph):
        assert keeps(box, 2)
        with compiling._planning(Settings(fuse_within=16), Step()):
            assert keeps(box, 2) == kept
    assert not fusing.unless_larger(lambda *_: False, compiling._fuse_within)(box, 2)


def traced(compute: Any, *inputs: Any) -> dict[str, Any]:
    """The nodes of a function's graph, by name."""
    graph = make_fx(compute, tracing_mode="fake")(*inputs).graph
    return {node.name: node for node in graph.nodes}


def test_what_parts_of_one_op_read_is_computed_there_too() -> None:
    """As sigmoid in backward of SiLU."""

    def compute(x: Any, y: Any) -> Any:
        s = y.sigmoid()
        return (x * s) * (1 - s), x.exp().mm(y)

    nodes = traced(compute, torch.randn(8, 8), torch.randn(8, 8))
    inside = step_load.in_registers([*nodes.values()])
    assert {node.name for node in inside} == {"sigmoid", "mul", "rsub"}
    parts = [node.name for node in step_load.parts_of(nodes["mul_1"], inside)]
    assert parts[0] == "mul_1"
    assert parts[-1] == "sigmoid"
    assert sorted(parts) == ["mul", "mul_1", "rsub", "sigmoid"]
    apart = step_load.in_registers([*nodes.values()], lambda node, user: user.name == "rsub")
    assert {node.name for node in apart} == {"mul", "rsub"}


def test_elementwise_ops_of_prims_are_fused() -> None:
    """As in the backward of softmax, and between precisions. Inductor fuses what is counted so."""

    def compute(x: Any, y: Any) -> Any:
        less = torch.ops.prims.convert_element_type.default(x.sin(), torch.float32)
        return torch.ops.prims.fma.default(less, y, less * 2).mm(y)

    x, y = torch.randn(8, 8, dtype=torch.float64), torch.randn(8, 8)
    nodes, before = traced(compute, x, y), times_loaded()
    inside = step_load.in_registers([*nodes.values()])
    assert {node.name for node in inside} == {"sin", "convert_element_type", "mul"}
    over = [step_load.written_over(node, inside) for node in nodes.values() if node.name.startswith("fma")]
    assert over == [[*step_load.storages(nodes["y_1"])]]
    with attempts._without_kernels():
        compiling._planned(make_fx(compute)(x, y), (x, y), Settings(), {})
    [graph] = loaded_since(before)
    assert graph.figures["cpu"]["default"] == 2 * y.nbytes  # the factor and the product


def test_what_is_computed_row_by_row_may_be_one_loop() -> None:
    """As a softmax, whose largest numbers and sums are of rows; sums of columns need all rows."""

    def compute(x: Any, y: Any) -> Any:
        rows = (x - x.amax(1, keepdim=True)).exp()
        return rows / rows.sum(-1, keepdim=True), (y / y.sum(0)).mm(y)

    nodes = traced(compute, torch.randn(8, 8), torch.randn(8, 8))
    assert {node.name for node in step_load.in_registers([*nodes.values()])} == {"sub"}
    inside = step_load.in_registers([*nodes.values()], rows=True)
    assert {node.name for node in inside} == {"amax", "sub", "exp", "sum_1"}


def test_what_is_gathered_and_put_together_is_computed_in_one_loop() -> None:
    """As an image that is made larger beside another, and the gradient of that; not what has to be there before."""

    def compute(x: Any, y: Any, places: Any) -> Any:
        both = torch.cat([x[places] * 2, y.exp(), x.mm(y)])
        return both.mm(x), y.tanh().index_put([places], x.sin(), accumulate=True).mm(x)

    nodes = traced(compute, torch.randn(8, 8), torch.randn(8, 8), torch.arange(8))
    inside = step_load.in_registers([*nodes.values()])
    assert {node.name for node in inside} == {"index", "mul", "exp", "sin"}


@pytest.mark.parametrize(("split", "again", "copied"), [(16, False, True), (8, False, False), (16, True, False)])
def test_a_small_part_that_is_read_after_the_rest_is_copied(split: int, again: bool, copied: bool) -> None:
    """Not where it is more than half, nor where the rest is read once more."""

    def compute(x: Any, y: Any) -> Any:
        whole = x.mm(y)
        rest, late = whole[:, :split], whole[:, split:]
        return rest.exp().mm(y.t()[:split]), late.sin(), rest.cos() if again else x

    given = (torch.randn(8, 8), torch.randn(8, 24))
    nodes = traced(compute, *given)
    graph = nodes["mm"].graph
    assert copy_parts(graph, {"mm"}) == copied
    order = [*graph.nodes]
    for clone in graph.find_nodes(op="call_function", target=torch.ops.aten.clone.default):
        assert order.index(clone) < order.index(nodes["exp"])
        assert [*clone.users] == [nodes["sin"]]
        assert clone not in step_load.in_registers(order)
    changed = torch.fx.GraphModule({}, graph)(*given)
    assert all(map(torch.equal, compute(*given), changed))


def test_elementwise_ops_are_written_over_what_they_read_but_for_given_gradients() -> None:
    def compute(primals: Any, tangents: Any) -> Any:
        y = primals.mm(primals)
        return (tangents * 2).mm(primals), y.view(64).exp(), y.sum()

    nodes = traced(compute, torch.randn(8, 8), torch.randn(8, 8))
    over = {name: step_load.written_over(node, set()) for name, node in nodes.items() if node.op == "call_function"}
    assert over["exp"] == [*step_load.storages(nodes["mm"])]
    assert over["mul"] == over["sum_1"] == over["mm"] == []


def test_loops_are_functions_of_their_own() -> None:
    """What a function takes is there while it runs: also what its first loop alone reads."""
    ready = fusing.alone(lambda _: False, compiling._fuse_within)
    assert not ready(None)
    for settings, alone in ((Settings(), False), (Settings(fuse_within=16), True)):
        with compiling._planning(settings, Step()):
            assert ready(None) == alone


def test_higher_targets_are_tried_where_nothing_fits_the_budget_before_fusing() -> None:
    asked: list[int] = []

    def planned(graph: Any, inputs: Any, settings: Any, patches: Any) -> Any:
        target = patches["custom_partitioner_fn"]._budget if patches else 1000
        asked.append(target)
        if target < 600:
            raise memplan.InfeasibleError("tensors need more before they are fused")
        loaded(Loaded("forward", {"cpu": {"planned": target // 2 if patches else 1000}}, []).to_text())
        return target

    graph = torch.fx.symbolic_trace(torch.nn.Identity())
    found = attempts.within(planned, graph, (), settings_of({}, {}, set())[0], {}, Budget("", 400))
    assert asked[:3] == [1000, 400, 400]
    assert found == asked[-1]
    assert 600 <= found <= 800


def test_a_share_is_of_what_a_step_holds_without(monkeypatch: pytest.MonkeyPatch) -> None:
    def planned(graph: Any, inputs: Any, settings: Any, patches: Any) -> Any:
        target = patches["custom_partitioner_fn"]._budget if patches else 10_000
        for name in ("forward", "backward"):
            loaded(Loaded(name, {"cpu": {"planned": target}}, []).to_text())
        return target

    monkeypatch.setattr(compiling, "_planned", planned)
    graph, before = torch.fx.symbolic_trace(torch.nn.Identity()), times_loaded()
    settings, _ = settings_of({"budget": "60%"}, {}, set())
    assert compiling.compiled(graph, (), settings, {}) == 6000
    assert len(loaded_since(before)) == 2  # what was compiled to know the whole is forgotten
    assert settings.key != settings_of({"budget": "70%"}, {}, set())[0].key


def test_where_nothing_can_be_counted_a_share_asks_for_nothing() -> None:
    """A graph of views alone holds nothing."""
    asked: list[Any] = []

    def planned(graph: Any, inputs: Any, settings: Any, patches: Any) -> Any:
        asked.append(patches)
        return "as it is"

    graph, share = torch.fx.symbolic_trace(torch.nn.Identity()), Budget("60%", share=Fraction(3, 5))
    assert attempts.within(planned, graph, (), settings_of({}, {}, set())[0], {}, share) == "as it is"
    assert asked == [{}, {}]


def test_weights_inputs_and_states_are_outside_and_so_is_the_update() -> None:
    """AdamW has two states of each weight, and the number of steps; its step makes two tensors for one weight."""
    model, x = torch.nn.Linear(64, 32), torch.randn(8, 64)
    weights = sum(p.nbytes for p in model.parameters())
    given = [x, *model.parameters(), model.weight.t(), 3]
    assert outside_of(given) == Outside(weights + x.nbytes)
    expected = memplan.estimate(model, args=(x,), train=True, optimizer="AdamW")
    for optimizer in (torch.optim.AdamW, "AdamW", torch.optim.AdamW(model.parameters())):
        found = outside_of(given, optimizer)
        assert found.kept == expected.kept
        assert found.updating == weights + 2 * model.weight.nbytes
        assert outside_of([x], optimizer).kept == (
            expected.kept if isinstance(optimizer, torch.optim.AdamW) else x.nbytes
        )
        with torch.no_grad():
            assert outside_of(given, optimizer) == Outside(expected.kept)


@pytest.mark.parametrize(("text", "limit"), [(5000, 3800), ("50%", 3200), ("kept + 1000", 1000), ("kept + 50%", 2200)])
def test_a_budget_is_for_all_bytes_of_a_step(monkeypatch: pytest.MonkeyPatch, text: Any, limit: int) -> None:
    """4,400 bytes and more that 1,200 are beside, and 4,500 in an update, which no partition changes."""
    asked: list[tuple[int, int]] = []

    def planned(graph: Any, inputs: Any, settings: Any, patches: Any) -> Any:
        by = patches.get("custom_partitioner_fn")
        asked.append((by._limit, by._kept) if by else (0, 0))
        loaded(Loaded("forward", {"cpu": {"planned": by._budget if by else 4400}}, []).to_text())

    monkeypatch.setattr(compiling, "_planned", planned)
    settings, _ = settings_of({"budget": text, "optimizer": "SGD"}, {}, set())
    for updating in (0, 800):
        monkeypatch.setattr(attempts, "outside_of", lambda *_, u=updating: Outside(1200, u))
        asked.clear()
        whole = {"50%": 2800 - 1200, "kept + 50%": 2200}.get(text, limit)
        compiling.compiled(torch.fx.symbolic_trace(torch.nn.Identity()), (), settings, {})
        assert asked[1] == (whole, 1200)
    monkeypatch.setattr(attempts, "outside_of", lambda *_: Outside(1200, 4500))
    with pytest.raises(
        memplan.InfeasibleError, match=r"1.17 KiB of it weights.* the optimizer's step needs 4.39 KiB"
    ) as e:
        compiling.compiled(torch.fx.symbolic_trace(torch.nn.Identity()), (), settings, {})
    assert (e.value.proven, e.value.lower_bound) == (True, 5700)


def test_an_optimizer_is_for_a_budget() -> None:
    with pytest.raises(ValueError, match="optimizer needs budget"):
        settings_of({"optimizer": "AdamW"}, {}, set())
    with pytest.raises(Exception, match=r"no partition of the graph fits 1.00 KiB .* because these are kept"):
        torch.compile(torch.nn.Linear(64, 32), backend="memplan", options={"budget": "1KiB"})(torch.randn(8, 64))


def test_a_graph_whose_buffers_cannot_be_counted_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor.graph import GraphLowering

    from memplan.errors import UnsupportedError

    def fail(*_: Any) -> Any:
        raise UnsupportedError("its wrapper is another")

    def stop(*_: Any) -> Any:
        raise RuntimeError("no code")

    monkeypatch.setattr(compiling, "rewritten", fail)
    monkeypatch.setattr(GraphLowering, "_compile_to_module_lines", stop)
    torch._dynamo.reset()
    run = torch.compile(lambda x: x.sin(), backend="memplan", options={"budget": "1GiB"})
    what = "its wrapper is another; it may hold more than the budget, which only the sizes of its tensors are within"
    with pytest.warns(RuntimeWarning, match=what), pytest.raises(Exception, match="no code"):
        run(torch.ones(4, requires_grad=True))


def test_a_copied_graph_knows_its_weights() -> None:
    """Else views of weights would be saved, and counted."""
    seen: list[Any] = []

    def keep(graph: Any, inputs: Any) -> Any:
        seen.append(graph)
        return graph

    torch._dynamo.reset()
    torch.compile(torch.nn.Linear(4, 4), backend=keep)(torch.ones(2, 4))
    (graph,) = seen
    copied = attempts._copied(graph)
    assert copied.meta == graph.meta
    sources = [getattr(node, "_dynamo_source", None) for node in graph.graph.nodes]
    assert sum(source is not None for source in sources) == 3
    assert [getattr(node, "_dynamo_source", None) for node in copied.graph.nodes] == sources


def test_views_of_weights_are_not_held_for_backward() -> None:
    blocks = [Block([name], 64, 0, 3, "given", device="cpu") for name in ("permute_1", "tanh", "tangents_1")]
    ledger: Any = SimpleNamespace(given=blocks, steps=5)
    left = [
        {"block": "", "device": "", "bytes": 0, "names": ["permute_1"], "seen": False},
        {"block": "buf1", "device": "cpu", "bytes": 64, "names": ["tanh"], "seen": False},
    ]
    assert sorted(block.name for block in given(ledger, left)) == ["tangents_1", "tanh"]


@pytest.mark.slow
def test_what_is_planned_is_held() -> None:
    """Copies that convolutions save, and results of forward that the caller keeps, count as much as all else."""
    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(8, 32, 4, stride=4), torch.nn.Flatten(2), torch.nn.GELU(), torch.nn.Linear(256, 64)]
    module, x = torch.nn.Sequential(*layers), torch.randn(8, 8, 64, 64)
    torch._dynamo.reset()
    before = times_loaded()
    run = torch.compile(module, backend="memplan")

    def kept() -> Any:
        out = run(x)
        squares(out).backward()
        return out

    kept()
    module.zero_grad()
    real = peak(kept)
    planned = max(most for graph in loaded_since(before) for most in graph.planned)
    assert abs(real - planned) <= 64


@pytest.mark.slow
def test_kernels_of_inductor_stay_within_the_budget() -> None:
    module, _ = transformer()
    x = torch.randn(2048, 32)
    module.eval()
    torch._dynamo.reset()
    usual, gradients = step(torch.compile(module, backend="memplan"), module, x)
    torch._dynamo.reset()
    budget = usual * 6 // 10
    real, again = step(torch.compile(module, backend="memplan", options={"budget": f"kept + {budget}"}), module, x)
    assert real <= budget
    assert all(map(torch.equal, gradients, again))
