"""Random networks inside their plans, with kernels served, beside eager."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

import memplan
from builders.random_nets import RandomNet
from memplan.running.plans import program_of
from memplan.torch.running import offering

Results = list[torch.Tensor]
WAYS = ("inference", "training", "recorded")
RUNS = 4  # the first ones say what kernels allocate


def held(way: str, seed: int) -> Counter[str]:
    """How a network went: "equal", "rounding" or "differ"; "copied", "served"."""
    return {"inference": inference, "training": training, "recorded": recorded}[way](seed)


def inference(seed: int) -> Counter[str]:
    module, x = network(seed, train=False)
    with torch.no_grad():
        torch.manual_seed(1)
        expected = list(module(x))
    plan = memplan.plan(module, "first_fit", args=(x,), alignment=64)
    return judged(plan, x, expected, lambda run: list(run.outputs))


def training(seed: int) -> Counter[str]:
    module, x = network(seed, train=True)
    before = [tensor.clone() for tensor in module.buffers()]
    expected = gradients(module, x)
    restore(module, before)
    plan = memplan.plan(Loss(module), "first_fit", args=(x,), train=True, alignment=64)

    def results(run: Any) -> Results:
        restore(module, before)
        return [run.loss, *(run.gradients.get(f"net.{name}") for name, _ in module.named_parameters())]

    return judged(plan, x, expected, results)


def judged(plan: Any, x: torch.Tensor, expected: Results, results: Callable[[Any], Results]) -> Counter[str]:
    """The plan's runs beside what was expected."""
    count, other = Counter[str](), None
    for _ in range(RUNS):
        torch.manual_seed(1)
        run = plan.run(x, check=True)
        found = results(run)
        if not same(found, expected):
            if other is None:
                other = apart(plan, x, results)
            if not same(found, other):
                return Counter(differ=1)
    count["equal" if other is None else "rounding"] += 1
    count["copied"] += run.copied > 0
    count["served"] += run.outside is not None
    return count


def apart(plan: Any, x: torch.Tensor, results: Callable[[Any], Results]) -> Results:
    """What the same ops give where nothing shares bytes, and kernels allocate as they always do."""
    with unserved():
        bound = program_of(plan).bind(memplan.plan(plan.graph, "naive", inplace=False, zero_copy=False, alignment=64))
        torch.manual_seed(1)
        return results(bound.run((x,), {}))


@contextmanager
def unserved() -> Iterator[None]:
    served, offering.cpu_if_built = offering.cpu_if_built, lambda: None
    try:
        yield
    finally:
        offering.cpu_if_built = served


def recorded(seed: int) -> Counter[str]:
    """A training step that plans itself, beside one that does not: losses and gradients of six steps."""
    plain, x = network(seed, train=True)
    expected = [gradients(plain, x) for _ in range(6)]
    module, x = network(seed, train=True)
    step = memplan.torch.planned(lambda x: gradients(module, x), quiet=True)
    right = all(same(step(x), values) for values in expected)
    made = step.report()
    return Counter(equal=int(right), differ=int(not right), served=int(made is not None and made.served > 0))


def network(seed: int, train: bool) -> tuple[RandomNet, torch.Tensor]:
    module = RandomNet(seed, in_place=not train).train(train)
    torch.manual_seed(seed)
    return module, torch.randn(module.shape)


class Loss(torch.nn.Module):
    """The loss of a network alone."""

    def __init__(self, net: RandomNet) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)[0]


def gradients(module: RandomNet, x: torch.Tensor) -> Results:
    torch.manual_seed(1)
    module.zero_grad()
    loss = module(x)[0]
    loss.backward()  # type: ignore[no-untyped-call]
    return [loss.detach(), *(parameter.grad for parameter in module.parameters())]  # type: ignore[misc]


def restore(module: RandomNet, before: Results) -> None:
    """The running statistics as they were."""
    for tensor, value in zip(module.buffers(), before, strict=True):
        tensor.copy_(value)


def same(a: Results, b: Results) -> bool:
    """Bit for bit, NaN being NaN; gradients may be missing in both."""
    return len(a) == len(b) and all(
        (x is None and y is None)
        or (x is not None and y is not None and x.shape == y.shape and torch.equal(x.nan_to_num(), y.nan_to_num()))
        for x, y in zip(a, b, strict=True)
    )
