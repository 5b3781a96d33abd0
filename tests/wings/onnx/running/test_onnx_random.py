"""Random ONNX models, run: elementwise ops, products, views, parts and wholes, whose plans share what they can."""

from __future__ import annotations

import numpy as np
import pytest

import memplan
from builders.onnx_random import WIDTH, Maker
from builders.onnx_running import caught, plans_of, same, wanted
from builders.running import on_streams, random_order, random_plan
from memplan.onnx.running import program_of
from memplan.onnx.wing import MODEL
from memplan.options.source import Source


def check(seed):
    """How many plans were run."""
    source = Maker(seed).model()
    chance = np.random.default_rng(seed)
    feeds = {"x": chance.standard_normal((4, WIDTH)), "z": chance.standard_normal((2, WIDTH))}
    feeds = {name: array.astype(np.float32) for name, array in feeds.items()}
    program, expected = program_of(Source(source, MODEL)), wanted(source, feeds)
    plans = [*plans_of(source), memplan.plan(source, donate=["x", "z"], place=["input", "weight", "intermediate"])]
    plans.append(memplan.plan(source, "first_fit", donate=["x"], alignment=3))
    runs = [(plan, None) for plan in plans]
    spread = memplan.plan(on_streams(program.graph, 2, seed), donate=["x"])
    for plan in (spread, random_plan(spread, seed)):
        runs += [(plan, random_order(plan, k)) for k in range(2)]
    for plan, order in runs:
        found = program.bind(plan).run([feeds], check=True, order=order)
        assert same(found.outputs, expected), (seed, plan, order)
        unchecked = program.bind(plan).run([feeds], order=order)
        assert same(unchecked.outputs, expected)
        assert (unchecked.ops, unchecked.copied) == (found.ops, found.copied)
    return caught(program, plans[0], feeds, expected)


@pytest.mark.slow
def test_random_models():
    found = np.array([check(seed) for seed in range(20)])
    seen, of = found.sum(axis=0)
    assert of > 50
    assert seen > 0.9 * of  # what a ScatterND writes over does not matter


@pytest.mark.slow
@pytest.mark.no_cover
@pytest.mark.parametrize("part", range(4))
def test_many_random_models(part):
    for seed in range(1000 + 50 * part, 1050 + 50 * part):
        check(seed)
