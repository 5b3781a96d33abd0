"""The steps of the twelve networks of `paid_networks`, in all ways that their bytes and seconds are measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from paid_networks import NETWORKS
from torch.nn import Module

import memplan

SPLIT_SECONDS = 60.0  # for a plan with ops in pieces


@dataclass
class Steps:
    """A network, or what returns its loss, that runs in one way.

    ``step`` runs it once, and gives the loss, or the first of its outputs. ``held``: the bytes of torch's allocator at
    the worst moment, where these are not what the profiler sees. ``plan`` and ``run``: of `plan.run`.
    """

    module: Module
    batch: dict[str, Any]
    network: Module
    step: Callable[[], Any] = lambda: None
    held: Callable[[], int] | None = None
    plan: Any = None
    run: Any = None


def steps_of(name: str, way: str, mode: str) -> Steps:
    """A network that is ready to run, with the states of its optimizer."""
    torch.manual_seed(0)
    torch.set_num_threads(2)
    module, batch, loss_of = NETWORKS[name]()
    module.train(mode != "inference")
    found = Steps(module, batch, WithLoss(module, loss_of) if mode == "gradients" else module)
    if is_plan(way):
        _planned(found, way, mode)
        return found
    forward, backend = module, way.removeprefix("planned-")
    if backend in ("inductor", "memplan"):
        torch.compile(lambda x: x + 1, backend=backend)(torch.ones(4))  # the compiler's own code is in memory
        forward = torch.compile(module, backend=backend)
    optimizer = None
    if mode == "training":
        optimizer = torch.optim.AdamW(module.parameters())
        make_states(module, optimizer)

    def train() -> Any:
        torch.manual_seed(1)  # dropout
        module.zero_grad()
        loss = loss_of(forward(**batch), batch)
        loss.backward()
        if optimizer is not None:
            optimizer.step()
        return loss.detach()

    def infer() -> Any:
        with torch.no_grad():
            return first_of(forward(**batch))

    found.step = infer if mode == "inference" else train
    if way.startswith("planned"):
        step = found.step = memplan.torch.planned(found.step, quiet=True)
        found.held = lambda: step.report().arena_bytes + outside(step.arena)
    return found


def is_plan(way: str) -> bool:
    """Whether a way is a plan that `plan.run` runs."""
    return way in ("plan.run", "split") or way.startswith("within:")


def _planned(found: Steps, way: str, mode: str) -> None:
    plan = found.plan = plan_of(way, found.network, kwargs=found.batch, alignment=64, train=mode == "gradients")

    def step() -> Any:
        found.run = None
        torch.manual_seed(1)
        found.run = plan.run(kwargs=found.batch)
        return found.run.loss if mode == "gradients" else first_of(found.run.outputs)

    def viewed() -> Any:  # no copies of results
        return plan.run(kwargs=found.batch, views=True)

    found.step = step
    found.held = lambda: plan.peak + behind(plan) + max(allocated(viewed), allocated(step) - emptied(plan))


def plan_of(way: str, network: Any, **how: Any) -> Any:
    """The plan of a way that `plan.run` runs."""
    if way == "plan.run":
        return memplan.plan(network, **how)
    how |= {"allow": ("split",), "time_limit": SPLIT_SECONDS}
    if way == "split":
        return memplan.fit(network, "least", kernels=False, **how)
    return memplan.fit(network, int(way.removeprefix("within:")), kernels=True, **how)


def make_states(module: Any, optimizer: Any) -> None:
    """The states of an optimizer, before any step: weights stay as they are."""
    before = [parameter.detach().clone() for parameter in module.parameters()]
    for parameter in module.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    with torch.no_grad():
        for parameter, value in zip(module.parameters(), before, strict=True):
            parameter.copy_(value)
            parameter.grad = None


class WithLoss(Module):
    """A network that returns its loss."""

    def __init__(self, network: Any, loss_of: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self.network, self.loss_of = network, loss_of

    def forward(self, **batch: Any) -> Any:
        return self.loss_of(self.network(**batch), batch)


def behind(plan: Any) -> int:
    """Bytes behind the arena of a plan that kernels have had."""
    return int(vars(plan)["_bound"].bound._offering._behind)


def emptied(plan: Any) -> int:
    """Bytes of the arena of a plan that are given back before results are copied."""
    return sum(end - begin for begin, end in vars(plan)["_bound"].bound._emptied)


def outside(arena: Any) -> int:
    """Bytes that live outside of the arena after a step."""
    return int(arena._library.figures(arena._handle)["outside_bytes"])


def first_of(outputs: Any) -> Any:
    """The first tensor of what a network returns."""
    from torch.utils._pytree import tree_leaves

    return next(leaf for leaf in tree_leaves(outputs) if hasattr(leaf, "dtype"))


def allocated(step: Callable[[], Any]) -> int:
    """Bytes of torch's allocator that a step holds at most, above those that are held at its beginning."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        step()
    now = most = 0
    for event in seen.profiler.kineto_results.events():
        if event.name() == "[memory]":
            now += event.nbytes()
            most = max(most, now)
    return most


def memory() -> dict[str, int]:
    """What the process holds, in bytes."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    found = dict(line.split(":", 1) for line in lines)
    return {key: int(found[key].split()[0]) * 1024 for key in ("VmHWM", "RssAnon", "RssFile")}
