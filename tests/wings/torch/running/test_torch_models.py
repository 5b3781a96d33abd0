"""Real architectures run inside their plans, poisoned, beside eager: random plans, and plans that are wrong."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import memplan
from builders import models
from builders.running import random_plan, shortened
from builders.torch_running import gradients, same
from memplan.running.plans import program_of

QUICK = ("gpt2", "resnet")
NAMES = [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in models.CATALOGUE]


def results(run: Any, expected: dict[str, torch.Tensor]) -> Any:
    """The loss and the gradients that eager has; a weight that is tied has one more name here."""
    return [run.loss, {name: run.gradients[name] for name in expected}]


@pytest.mark.parametrize("name", NAMES)
def test_inference(name: str) -> None:
    example = models.CATALOGUE[name]()
    inputs = models.inference_inputs(example)
    with torch.no_grad():
        expected = example.model(**inputs)
    plan = memplan.plan(example.model, kwargs=inputs, alignment=64)
    assert same(plan.run(kwargs=inputs, check=True).outputs, expected)
    for seed in range(3):
        run = program_of(plan).bind(random_plan(plan, seed)).run((), inputs, check=True)
        assert same(run.outputs, expected)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", NAMES)
def test_training(name: str) -> None:
    example = models.CATALOGUE[name]()
    inputs = dict(example.inputs)
    loss = example.model(**inputs).loss
    expected = gradients(example.model, loss)
    plan = memplan.plan(example.model, "first_fit", kwargs=inputs, train=True, alignment=64)
    for other in (plan, random_plan(plan, 0)):
        run = program_of(plan).bind(other).run((), inputs, check=True)
        assert same(results(run, expected), [loss.detach(), expected])


@pytest.mark.slow
def test_lifetimes_that_end_too_early_are_found() -> None:
    """All of the first layers of a network: what they make matters to what it returns."""
    example = models.CATALOGUE["gpt2"]()
    inputs = models.inference_inputs(example)
    plan = memplan.plan(example.model, "first_fit", kwargs=inputs, alignment=64)
    with torch.no_grad():
        expected = example.model(**inputs)
    lives = [b for b, slot in enumerate(plan) if slot.last - slot.first > 1 and "mlp" in slot.name]
    assert len(lives) > 3
    for buffer in lives:
        run = program_of(plan).bind(shortened(plan, buffer)).run((), inputs, check=True)
        assert not same(run.outputs, expected), plan.problem.name(buffer)
