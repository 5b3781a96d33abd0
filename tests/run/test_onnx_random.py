"""Random ONNX models, run: elementwise ops, products, views, parts and wholes, whose plans share what they can."""

from __future__ import annotations

import numpy as np
import pytest

import memplan
from builders.onnx_models import const, model, node, value
from builders.onnx_running import caught, plans_of, same, wanted
from builders.running import on_streams, random_order, random_plan
from memplan.onnx.running import program_of
from memplan.onnx.wing import MODEL
from memplan.options.source import Source

WIDTH = 4  # of all tensors, which have any even number of rows


class Maker:
    """Writes nodes that read what is there, at random."""

    def __init__(self, seed):
        self.chance = np.random.default_rng(seed)
        self.nodes, self.weights, self.rows = [], [const("w", np.eye(WIDTH) * 0.5, np.float32)], {"x": 4, "z": 2}

    def add(self, op_type, inputs, rows, **attributes):
        outputs = [f"t{len(self.rows) + k}" for k in range(len(rows))]
        self.nodes.append(node(op_type, inputs, outputs, name=f"n{len(self.nodes)}", **attributes))
        self.rows.update(zip(outputs, rows, strict=True))

    def constant(self, values):
        self.weights.append(const(f"c{len(self.weights)}", values))
        return self.weights[-1].name

    def step(self):
        name = str(self.chance.choice(list(self.rows)[-8:]))
        rows = self.rows[name]
        alike = [other for other, n in self.rows.items() if n == rows]
        other = str(self.chance.choice(alike))
        match self.chance.integers(10):
            case 0:
                self.add(str(self.chance.choice(["Relu", "Neg", "Tanh", "Identity"])), [name], [rows])
            case 1 | 2:
                self.add(str(self.chance.choice(["Add", "Sub", "Max"])), [name, other], [rows])
            case 3:
                self.add("MatMul", [name, "w"], [rows])
            case 4 if rows % 4 == 0:
                self.add("Split", [name], [rows // 2] * 2, num_outputs=2)
            case 5 if rows <= 8:
                parts = [name, *(str(p) for p in self.chance.choice(list(self.rows), self.chance.integers(1, 3)))]
                self.add("Concat", parts, [sum(self.rows[part] for part in parts)], axis=0)
            case 6 if rows > 2:
                begin = int(self.chance.integers(rows // 2)) * 2
                ends = [self.constant([begin]), self.constant([begin + 2])]
                self.add("Slice", [name, *ends], [2])
            case 7:
                self.add("Reshape", [name, self.constant([rows, WIDTH])], [rows])
            case 8:
                self.add("Dropout", [name], [rows])
            case _:
                at = self.constant(self.chance.permutation(rows)[:, None])
                self.add("ScatterND", [name, at, other], [rows])

    def model(self):
        for _ in range(int(self.chance.integers(8, 30))):
            self.step()
        written = [output for made in self.nodes for output in made.output]
        read = {name for made in self.nodes for name in made.input}
        returned = {*written} - read | {str(self.chance.choice(written))}  # so that every value matters
        inputs = [value(name, [rows, WIDTH]) for name, rows in self.rows.items() if name in ("x", "z")]
        return model(self.nodes, inputs, [value(name, None) for name in sorted(returned)], self.weights)


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
