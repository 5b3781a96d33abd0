"""`torch.compile(model, backend="memplan", options={"budget": ...})`: what forward saves is chosen within a budget."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")


import memplan  # noqa: E402
from builders.budgeted import compiled  # noqa: E402
from builders.transformers_small import squares, transformer  # noqa: E402
from memplan.sizes import Budget  # noqa: E402
from memplan.torch.compiling import attempts, compiling, joint, step_load  # noqa: E402
from memplan.torch.compiling.budget import WithinBudget  # noqa: E402
from memplan.torch.compiling.bytes_outside import Outside, outside_of  # noqa: E402
from memplan.torch.compiling.compiled import Loaded, loaded, loaded_since, times_loaded  # noqa: E402
from memplan.torch.compiling.copies import AGAIN  # noqa: E402
from memplan.torch.compiling.forward_outputs import given  # noqa: E402
from memplan.torch.compiling.settings import settings_of  # noqa: E402
from memplan.torch.inductor.wrapper import Block  # noqa: E402
from oracles.allocator import peak  # noqa: E402

WITHOUT = 10**12


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
    module, x = transformer(3)
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


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.few(1)
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
        for _ in range(6):
            x = x + torch.tanh(self.layer(x).sin()) * x.cos()
        return x


@pytest.mark.slow
def test_gradients_of_a_weight_are_added_up_as_they_come() -> None:
    """Six of them would be there at the end."""
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


def test_what_forward_saves_counts_until_backward_has_used_it(apart: None) -> None:
    """Three layers keep three tensors, and the gradients come while the last of them are there."""
    module = torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Tanh()) for _ in range(8)])
    x = torch.randn(1024, 64)
    found: list[int] = []
    usual, _ = step(compiled(module, WITHOUT, found), module, x)
    assert abs(usual - found[0]) <= x.nbytes  # the loss is not in the graphs
    assert found[0] >= 8 * x.nbytes


@pytest.mark.slow
def test_what_draws_random_numbers_is_saved() -> None:
    module, x = transformer(3)
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
    module = torch.nn.Sequential(*layers, torch.nn.Linear(64, 64)).train()
    x = torch.randn(256, 64)
    seen: list[joint.Joint] = []
    saved = joint.Joint.saved
    monkeypatch.setattr(joint.Joint, "saved", lambda self, order: (seen.append(self), saved(self, order))[1])
    found = []
    for options in ({}, {"budget": "kept + 330000"}):
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


def test_a_share_is_of_what_a_step_holds_without(monkeypatch: pytest.MonkeyPatch) -> None:
    def planned(said: Any, graph: Any, inputs: Any, settings: Any, patches: Any) -> Any:
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

    def planned(said: Any, graph: Any, inputs: Any, settings: Any, patches: Any) -> Any:
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
