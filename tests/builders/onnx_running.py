"""What the tests of running ONNX share: inputs, what onnx's reference gives, and plans of many kinds.

onnx's reference hands on transposed arrays as they are, and numpy multiplies those in another order. Tensors of an
arena are dense, so the reference is made to hand on dense arrays too.
"""

from __future__ import annotations

import numpy as np
import pytest

import memplan
from builders.onnx_models import onnx
from builders.running import random_plan, shortened
from memplan.errors import SourceError
from memplan.onnx.running import program_of
from memplan.onnx.wing import MODEL
from memplan.options.source import Source

reference = pytest.importorskip("onnx.reference")


def wanted(source, feeds):
    """The outputs of onnx's reference, by name."""
    evaluator = reference.ReferenceEvaluator(source)
    for kernel in evaluator.rt_nodes_:
        kernel.run = dense(kernel.run)
    with np.errstate(all="ignore"):
        outputs = evaluator.run(None, feeds)
    return {o.name: np.asarray(array) for o, array in zip(source.graph.output, outputs, strict=True)}


def dense(run):
    return lambda *args, **kwargs: tuple(np.array(array, order="C") for array in run(*args, **kwargs))


def same(found, expected):
    return all(found[name].tobytes() == array.tobytes() for name, array in expected.items())


def fed(source, seed=0):
    """Inputs for a model of fixed sizes: small numbers."""
    chance = np.random.default_rng(seed)
    feeds = {}
    initialised = {tensor.name for tensor in source.graph.initializer}
    for given in source.graph.input:
        if given.name not in initialised:
            tensor = given.type.tensor_type
            dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
            shape = [d.dim_value for d in tensor.shape.dim]
            array = chance.standard_normal(shape) if dtype.kind == "f" else chance.integers(0, 2, shape)
            feeds[given.name] = np.asarray(array).astype(dtype)
    return feeds


def runs(source, feeds, expected, plans, **options):
    """Run each plan with poison; every one must give what is expected."""
    program = program_of(Source(source, MODEL, **options))
    for plan in plans:
        plan.verify()
        assert same(program.bind(plan).run([feeds], check=True).outputs, expected)


def plans_of(source, seeds=2):
    """Plans by several planners, with and without sharing, and at random."""
    free = memplan.plan(source)
    apart = memplan.plan(source, "first_fit", inplace=False, zero_copy=False)
    inputs = memplan.plan(source, "first_fit", place=["input", "intermediate", "output", "workspace"], alignment=64)
    return [free, apart, inputs, *(random_plan(plan, seed) for seed in range(seeds) for plan in (free, inputs))]


def caught(program, plan, feeds, expected, most=1000):
    """How many lifetimes are seen that end a step too early, and of how many: at most so many, spread evenly."""
    problem, seen = plan.problem, 0
    workspaces = set(plan.buffers.buffer_of_workspace.tolist())
    long = [b for b in range(len(problem)) if problem.last[b] - problem.first[b] > 1 and b not in workspaces]
    chosen = long[:: -(-len(long) // most)] if long else []
    for buffer in chosen:
        try:
            seen += not same(program.bind(shortened(plan, buffer)).run([feeds], check=True).outputs, expected)
        except SourceError:  # a kernel, or the comparison with what shares bytes
            seen += 1
    return seen, len(chosen)
