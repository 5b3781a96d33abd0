"""Modules that compute again give what eager gives, or say which tensor was written to since."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import memplan  # noqa: E402
from memplan.torch.training.checkpointing import _Again  # noqa: E402
from memplan.torch.training.offloading import Store, _Outside  # noqa: E402
from memplan.torch.training.replaced_forward import replaced_forward  # noqa: E402

F = torch.nn.functional


def again(model: Any, *names: str) -> Any:
    """Let modules compute again, whatever a step holds."""
    changed = replaced_forward(model, names, _Again)
    changed.__enter__()
    return model


class Fn(nn.Module):
    """A function as a module, with a layer to train."""

    def __init__(self, function: Callable[..., Any], width: int = 6) -> None:
        super().__init__()
        self.function, self.fc = function, nn.Linear(width, width)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(self, *args, **kwargs)


def chain(*functions: Callable[..., Any]) -> Any:
    torch.manual_seed(0)
    return nn.Sequential(*(Fn(function) for function in functions))


def mix(net: Any, x: Any) -> Any:
    return torch.tanh(net.fc(x)).sigmoid() * x.exp()


def gradients(model: Any, x: Any, backward: Callable[[Any], None] = lambda out: out.square().sum().backward()) -> Any:
    torch.manual_seed(5)
    backward(model(x))
    return [p.grad for p in model.parameters()]


def equal(plain: Any, other: Any) -> bool:
    return all((a is None and b is None) or torch.equal(a, b) for a, b in zip(plain, other, strict=True))


def check(model: Any, x: Any, **options: Any) -> Any:
    """Gradients and state with all parts computing again, beside those without."""
    plain = copy.deepcopy(model)
    expected = gradients(plain, x.clone(), **options)
    again(model, *(str(k) for k in range(len(model))))
    assert equal(expected, gradients(model, x.clone(), **options))
    assert equal(plain.state_dict().values(), model.state_dict().values())
    return model


X = torch.linspace(-1, 1, 24).view(4, 6)

FORWARDS: dict[str, Callable[..., Any]] = {
    "dropout": lambda net, x: F.dropout(net.fc(x).tanh(), 0.4) * x,
    "autocast": lambda net, x: torch.autocast("cpu", torch.bfloat16)(net.fc)(x).float().tanh() * x,
    "in place": lambda net, x: net.fc(x).tanh().mul(2).add_(1).sigmoid_().mul(x),
    "twice": lambda net, x: net.fc(net.fc(x).tanh()).sigmoid() * x,
    "a gradient within": lambda net, x: (
        torch.autograd.grad(net.fc(x).tanh().square().sum(), net.fc.weight, create_graph=True)[0].sum() * x.exp()
    ),
}


@pytest.mark.parametrize("name", FORWARDS)
def test_gradients_are_those_of_eager(name: str) -> None:
    check(chain(FORWARDS[name], mix, FORWARDS[name]), X)


def test_a_second_backward_with_batch_norm() -> None:
    model = nn.Sequential(nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6), nn.Tanh()), nn.Linear(6, 6))

    def twice(out: Any) -> None:
        out.square().sum().backward(retain_graph=True)
        out.square().sum().backward()

    check(model, X, backward=twice)
    assert model[0][1].num_batches_tracked == 1


def test_backward_in_parts_and_of_gradients() -> None:
    def parts(out: Any) -> None:
        out[0].sum().backward(retain_graph=True)
        out[1:].exp().sum().backward()

    def double(out: Any) -> None:
        [first] = torch.autograd.grad(out.square().sum(), [model[0].fc.weight], create_graph=True)
        first.square().sum().backward()

    for backward in (parts, double):
        model = chain(mix, mix, mix)
        expected = gradients(model, X, backward)
        model = again(chain(mix, mix, mix), "0", "1", "2")
        assert equal(expected, gradients(model, X, backward))


def test_a_saved_tensor_that_is_read_twice() -> None:
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * (ctx.saved_tensors[0] + ctx.saved_tensors[0])

    check(chain(lambda net, x: Square.apply(net.fc(x).tanh())), X)


def test_arguments_that_are_one_tensor_stay_one() -> None:
    """As attention asks, which computes with one weight then."""

    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.inner = Fn(mix), Fn(lambda net, x, y: net.fc(x).tanh() * (y.sigmoid() if x is y else y))

        def forward(self, x: Any) -> Any:
            hidden = self.first(x)
            return self.inner(hidden, hidden)

    torch.manual_seed(0)
    model = Twice()
    expected = gradients(copy.deepcopy(model), X)
    assert equal(expected, gradients(again(model, "inner"), X))


def test_what_forward_changes_on_a_module_changes_once() -> None:
    def stateful(net: Any, x: Any) -> Any:
        net.calls = getattr(net, "calls", 0) + 1
        net.h = torch.tanh(net.fc(x) + getattr(net, "h", torch.zeros(())) * net.calls)
        vars(net).setdefault("seen", []).append(net.calls)
        return net.h.detach() * net.h * x

    model = check(chain(stateful), X)
    assert (model[0].calls, model[0].seen) == (1, [1])
    plain, other = chain(stateful), again(chain(stateful), "0")
    for net in (plain, other):
        (net(X).sum() + net(X * 2).sum()).backward()
    assert equal([p.grad for p in plain.parameters()], [p.grad for p in other.parameters()])


def test_modes_and_weights_that_are_exchanged_in_between() -> None:
    def noisy(net: Any, x: Any) -> Any:
        y = F.dropout(net.fc(x), 0.4, net.training).tanh()
        return y.sigmoid() * x * (2 if net.training else 3)

    found = []
    for model in (chain(noisy), again(chain(noisy), "0")):
        torch.manual_seed(1)
        loss, weight = model(X).square().sum(), model[0].fc.weight
        model.eval()
        model[0].fc = nn.Linear(6, 6)
        loss.backward()
        assert not model[0].training
        found.append(weight.grad)
    assert torch.equal(*found)


def test_generators_and_devices_of_the_caller() -> None:
    generators = [torch.Generator().manual_seed(3) for _ in range(2)]
    found = []
    for k, wrap in enumerate((lambda m: m, lambda m: again(m, "0"))):
        model = wrap(chain(lambda net, x: net.fc(x).tanh().sigmoid() * torch.rand(6, generator=net.generator) * x))
        model[0].generator = generators[k]
        found.append(gradients(model, X))
    assert equal(*found)
    assert torch.equal(*(torch.rand(3, generator=g) for g in generators))


WRITES: dict[str, tuple[Callable[..., Any], str]] = {
    "its weight": (lambda model, x, table: model[0].fc.weight.mul_(1.1), r"weight '0\.fc\.weight', float32\[6, 6\]"),
    "another's": (lambda model, x, table: model[2].fc.weight.mul_(1.1), r"weight '2\.fc\.weight', float32\[6, 6\]"),
    "its input": (lambda model, x, table: x.add_(1), r"argument (0|'x'), a tensor, float32\[4, 6\]"),
    "what a closure has": (lambda model, x, table: table.mul_(2), r"a tensor, float32\[6\]"),
    "a view": (lambda model, x, table: table[2:].mul_(2), r"a tensor, float32\[6\]"),
}


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("keyword", [False, True])
def test_what_was_written_to_since_is_named(name: str, keyword: bool) -> None:
    table = torch.linspace(0, 1, 6)

    def reads(net: Any, x: Any) -> Any:
        with torch.no_grad():
            scale = F.linear(table, model[2].fc.weight)
        return (net.fc(x).tanh() * scale).sigmoid() + table

    write, message = WRITES[name]
    model = again(chain(reads, mix, mix), "0")
    x = X.clone()
    loss = model[1](model[0](x=x) if keyword else model[0](x)).square().sum()
    with torch.no_grad():
        write(model, x, table)
    with pytest.raises(
        memplan.errors.UnsupportedError, match=rf"module '0' runs again and reads {message}, which was written"
    ):
        loss.backward()


def test_what_was_written_to_after_the_rerun_is_named() -> None:
    model = again(chain(lambda net, x: (net.fc(x).tanh() @ net.fc.weight.detach()).sigmoid() * x), "0")
    model[0].fc.weight.register_hook(lambda grad: None)
    x = X.clone().requires_grad_()
    out = model(x)
    out.register_hook(lambda grad: None)
    node = out.grad_fn.next_functions[0][0]  # of sigmoid: when its gradient is there, forward has run again
    node.register_hook(lambda *_: model[0].fc.weight.data.add_(0) is None or _bump(model[0].fc.weight))
    with pytest.raises(
        memplan.errors.UnsupportedError, match=r"kept weight '0\.fc\.weight', .* written to since it ran again"
    ):
        out.sum().backward()


def _bump(tensor: Any) -> None:
    with torch.no_grad():
        tensor.add_(1)


def test_updates_as_gradients_come_wait_for_who_reads_again() -> None:
    """The first block reads a weight of the last one, whose update comes first."""

    def first(net: Any, x: Any) -> Any:
        return x + net.fc(torch.sigmoid(F.linear(x, model[2].fc.weight.detach())))

    losses = []
    for wrap in (False, True):
        model = chain(first, mix, mix)
        if wrap:
            again(model, "0", "1")
        optimizer = torch.optim.SGD(model.parameters(), 0.3)
        with memplan.torch.update_as_you_go(optimizer):
            for _ in range(3):
                loss = model(X).square().sum()
                loss.backward()
                assert all(p.grad is None for p in model.parameters())
                optimizer.step()
                losses.append(loss.item())
    assert losses[:3] == losses[3:]


def test_modules_that_cannot_run_again_are_not_chosen() -> None:
    """Their input is written to after them, or the buffer that they read is another one then."""

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.act = nn.Sequential(nn.Sigmoid(), nn.Linear(16, 128), nn.Tanh(), nn.Linear(128, 16))
            self.rest = nn.Sequential(nn.Linear(16, 128), nn.Tanh(), nn.Linear(128, 16))

        def forward(self, x: Any) -> Any:
            x = x * 1.0
            x += self.act(x)
            return x + self.rest(x)

    torch.manual_seed(0)
    model, x = nn.Sequential(*[Block() for _ in range(3)]), torch.randn(128, 16)
    plain = copy.deepcopy(model)
    total = memplan.estimate(model, args=(x,), train=True).total
    found = memplan.torch.checkpoint(model, total * 3 // 4, args=(x,))
    assert found.modules
    assert not any(name.endswith("act") for name in found.modules)
    assert equal(gradients(plain, x), gradients(model, x))


def test_an_error_in_forward_leaves_all_as_it_was() -> None:
    def fails(net: Any, x: Any) -> Any:
        y = net.fc(x).tanh()
        if net.broken:
            raise KeyError("broken")
        return y.sigmoid() * x

    model = again(chain(fails), "0")
    model[0].broken = True
    with pytest.raises(KeyError, match="broken"):
        model(X)
    model[0].broken = False
    state = torch.get_rng_state()
    loss = model(X).sum()
    model[0].function = lambda net, x: 1 / 0
    loss.backward()  # with the function that was there
    assert torch.equal(torch.get_rng_state(), state)
    with pytest.raises(ZeroDivisionError):
        model(X)


def test_nested_modules_that_both_run_again() -> None:
    plain = nn.Sequential(chain(mix, mix), Fn(mix))
    model = again(again(copy.deepcopy(plain), "0.0", "0.1"), "0", "1")
    assert equal(gradients(plain, X), gradients(model, X))
    by_torch = Fn(lambda net, x: torch.utils.checkpoint.checkpoint(net.fc, x, use_reentrant=False).tanh().sigmoid() * x)
    check(nn.Sequential(by_torch, by_torch), X)


@pytest.mark.parametrize("write", [True, False])
def test_offload_sees_weights_that_were_written_to(write: bool) -> None:
    model = chain(mix, mix)
    plain = gradients(copy.deepcopy(model), X)
    replaced_forward(model, ["0"], partial(_Outside, store=Store(None))).__enter__()
    loss = model(X.requires_grad_()).square().sum()
    if not write:
        loss.backward()
        assert equal(plain, [p.grad for p in model.parameters()])
        return
    with torch.no_grad():
        model[0].fc.weight.mul_(2)
    with pytest.raises(memplan.errors.UnsupportedError, match=r"module '0' has kept weight '0\.fc\.weight', .* since"):
        loss.backward()


def test_parts_in_torchscript() -> None:
    model = nn.Sequential(nn.Sequential(torch.jit.script(nn.Sequential(nn.Linear(6, 6), nn.Tanh())), nn.Sigmoid()))
    for _ in range(3):  # TorchScript changes its code after the first runs
        model.zero_grad()
        plain = [grad.clone() for grad in gradients(model, X)]
    model.zero_grad()
    assert equal(plain, gradients(again(model, "0"), X))


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize("whole", [False, True])
def test_parts_that_are_compiled(whole: bool) -> None:
    """As a module, which is known by its name, or as a function, which is met within forward."""

    def part(net: Any, x: Any) -> Any:
        return (net.fast if hasattr(net, "fast") else net.fc)(x).sigmoid() * x

    plain, other = chain(part), chain(part)
    torch._dynamo.reset()
    try:
        for model in (plain, other):
            fast: Any = torch.compile(lambda x, layer=model[0].fc: layer(x).tanh(), backend="aot_eager")
            model[0].fast = torch.compile(nn.Sequential(model[0].fc), backend="aot_eager") if whole else fast
        again(other, "0")
        assert equal(gradients(plain, X), gradients(other, X))
    finally:
        torch._dynamo.reset()
