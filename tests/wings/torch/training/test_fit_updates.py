"""`memplan.torch.fit` with updates as gradients come, and the floor below which no step goes."""

from __future__ import annotations

import copy
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import memplan  # noqa: E402
from builders.optimizing import equal  # noqa: E402
from builders.transformers_small import Block, squares, transformer  # noqa: E402
from memplan.torch.training.fitted_modules import Step  # noqa: E402
from memplan.torch.training.floor import floor_of  # noqa: E402
from oracles.allocator import peak  # noqa: E402


def network(width: int = 64, blocks: int = 2) -> tuple[Any, Any]:
    torch.manual_seed(0)
    return torch.nn.Sequential(*[Block(width) for _ in range(blocks)]), torch.randn(128, width)


def trained(model: Any, x: Any, optimizer: Any, steps: int = 3) -> list[Any]:
    torch.manual_seed(7)
    found: list[Any] = []
    for _ in range(steps):
        loss = squares(model(x))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        found.append(loss.detach())
    states = optimizer.state_dict()["state"]
    return [*found, *model.state_dict().values(), *(states[k][name] for k in sorted(states) for name in states[k])]


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize(("name", "begun"), [("SGD", False), ("AdamW", False), ("AdamW", True), ("Adagrad", True)])
def test_updates_and_modules_fit_together_what_neither_fits_alone(name: str, begun: bool) -> None:
    model, x = network(blocks=1)
    plain, optimizers = copy.deepcopy(model), []
    for one in (model, plain):
        optimizers.append(getattr(torch.optim, name)(one.parameters(), lr=1e-6))
        if begun:
            trained(one, x, optimizers[-1], 1)
    optimizer = optimizers[0]
    how: dict[str, Any] = {"args": (x,), "optimizer": optimizer, "loss": squares}
    kept = memplan.estimate(model, train=True, **how).kept
    budget = floor_of(Step(model, **how).run(watch=True), kept, False).total - 1
    with pytest.raises(memplan.InfeasibleError):
        memplan.torch.fit(model, budget, allow=["update"], **how)
    with memplan.torch.fit(model, budget, **how) as found:
        assert found.updates is not None
        assert found.modules
        assert "update as gradients come: the optimizer" in str(found)
        assert "the optimizer update" not in repr(found).replace("the optimizer update as gradients come", "")
        assert equal(trained(model, x, optimizer), trained(plain, x, optimizers[1]))

        def step() -> Any:
            out = model(x)
            squares(out).backward()
            optimizer.step()
            return out

        real = found.after.kept + peak(step)
        assert found.before.kept == found.after.kept
        assert real <= budget
        assert found.after.total - real <= 6 * 5056  # states of random numbers
    assert "step" not in vars(optimizer)
    assert not any("forward" in vars(part) for part in model.modules())


@pytest.mark.slow
def test_updates_are_left_out_where_modules_fit_without_at_the_same_cost() -> None:
    model, x = network()
    optimizer = torch.optim.AdamW(model.parameters())
    with memplan.torch.fit(model, "90%", args=(x,), optimizer=optimizer) as found:
        assert found.modules
        assert found.updates is None


class Functional(torch.nn.Module):
    """What relu keeps belongs to no module but the model itself."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(64, 64) for _ in range(6)])

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = x + layer(x).relu()
        return x


def test_the_model_itself_may_move_out_what_it_keeps() -> None:
    torch.manual_seed(0)
    model, x = Functional(), torch.randn(1024, 64)
    plain = copy.deepcopy(model)
    first, second = (torch.optim.SGD(one.parameters(), lr=1e-6) for one in (plain, model))
    expected = trained(plain, x, first)
    usual = memplan.estimate(model, args=(x,), train=True, loss=squares).total
    with pytest.raises(memplan.InfeasibleError):
        memplan.torch.checkpoint(model, "50%", args=(x,), loss=squares)
    with memplan.torch.fit(model, "50%", args=(x,), loss=squares) as found:
        assert found.offloaded == ("",)
        assert "keep tensors in a file: the whole model" in str(found)
        assert equal(trained(model, x, second), expected)
        real = peak(lambda: squares(model(x)).backward())
        assert found.after.kept + real <= usual // 2
    assert "forward" not in vars(model)


def test_updates_alone_cost_nothing() -> None:
    torch.manual_seed(0)
    model, x = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(8))), torch.randn(2, 64)
    optimizer = torch.optim.SGD(model.parameters())
    with memplan.torch.fit(model, "70%", args=(x,), optimizer=optimizer) as found:
        assert (found.modules, found.added_cost) == ((), 0.0)
        assert found.after.total <= found.before.total * 7 // 10
        assert found.updates is not None


def test_states_of_what_gets_no_gradient_are_not_counted() -> None:
    model, x = network()
    model.unused = torch.nn.Linear(300, 300)
    model.forward = lambda x: torch.nn.Sequential.forward(model[:2], x)
    optimizer = torch.optim.AdamW(model.parameters())
    with memplan.torch.fit(model, "least", args=(x,), optimizer=optimizer, allow=["update"]) as found:
        assert found.after.kept == found.before.kept


@pytest.mark.slow
def test_optimizers_that_cannot() -> None:
    model, x = network()
    parameters = list(model.parameters())
    how: dict[str, Any] = {"args": (x,), "allow": ["update"]}
    with pytest.raises(TypeError, match="takes an optimizer of torch, got a type; a class has no parameters yet"):
        memplan.torch.fit(model, "60%", optimizer=torch.optim.AdamW, **how)
    with pytest.raises(
        memplan.InfeasibleError, match="updates as gradients come hold less, if optimizer= is an instance"
    ):
        memplan.torch.fit(model, "1%", args=(x,), optimizer=torch.optim.AdamW)

    class Counts(torch.optim.SGD):
        def step(self, closure: Any = None) -> None:
            super().step(closure)
            for group in self.param_groups:
                group["count"] = group["count"] + 1

    counts = Counts(parameters)
    counts.param_groups[0]["count"] = 0
    with pytest.raises(
        memplan.errors.UnsupportedError, match="the updates of Counts cannot run one by one in a step without"
    ):
        memplan.torch.fit(model, "60%", optimizer=counts, **how)
    with memplan.torch.fit(model, "least", args=(x,), optimizer=counts) as found:
        assert found.updates is None
    optimizer = torch.optim.SGD(parameters)
    with memplan.torch.update_as_you_go(optimizer):
        with pytest.raises(memplan.errors.UnsupportedError, match="is updated as you go already; remove that first"):
            memplan.torch.fit(model, "60%", optimizer=optimizer, **how)
        with memplan.torch.fit(model, "90%", args=(x,), optimizer=optimizer) as found:
            assert found.updates is None
    with pytest.raises(TypeError, match="a step has args, kwargs, optimizer, autocast, loss, device, got optimiser="):
        memplan.torch.checkpoint(model, "60%", optimiser="SGD")


class Words(torch.nn.Module):
    """A large vocabulary: no choice of modules saves the logits."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = Block(16), torch.nn.Linear(16, 3000)

    def forward(self, x: Any) -> Any:
        return self.head(self.body(x))


def entropy(out: Any) -> Any:
    return torch.nn.functional.cross_entropy(out, torch.zeros(len(out), dtype=torch.int64))


@pytest.mark.few(1)
@pytest.mark.parametrize("updates", [False, True])
def test_the_floor_names_what_stands_in_the_way(updates: bool) -> None:
    model, x = Words(), torch.randn(100, 16)
    optimizer = torch.optim.SGD(model.parameters())
    allow = ["recompute", "offload", "update"] if updates else ["recompute", "offload"]
    logits = 100 * 3000 * 4
    with pytest.raises(memplan.InfeasibleError) as caught:
        memplan.torch.fit(model, 3 * logits, args=(x,), optimizer=optimizer, loss=entropy, allow=allow)
    error = caught.value
    assert error.proven
    assert "aten._log_softmax_backward_data in the backward pass needs" in str(error)
    names = [f"1.14 MiB made by aten.{name}" for name in ("_log_softmax", "nll_loss_backward in")]
    names.append("1.14 MiB made by aten.addmm in 'head' and returned by forward")
    assert all(name in str(error) for name in names)
    kept = memplan.estimate(model, args=(x,), train=True, optimizer=optimizer).kept
    assert kept + 3 * logits <= error.lower_bound <= error.peak


@pytest.mark.few(1)
@pytest.mark.parametrize("make", [transformer, lambda: (Words(), torch.randn(100, 16))])
def test_nothing_that_is_found_is_below_the_floor(make: Any) -> None:
    model, x = make()
    optimizer = torch.optim.SGD(model.parameters())
    for allow in (["recompute"], ["offload"], ["update"], ["recompute", "offload"], ["offload", "update"]):
        with pytest.raises(memplan.InfeasibleError) as caught:
            memplan.torch.fit(model, 1, args=(x,), optimizer=optimizer, allow=allow)
        assert caught.value.lower_bound <= caught.value.peak
