"""Plans of ONNX networks, run in their arena and held against the whole model by the same operators, bit by bit.

The models of single operators are run where they are imported, in wings/onnx/reading/test_onnx_models.py.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from torch import nn

import memplan
from builders.onnx_exported import Cache, Layer, Masked, exported, optimised
from builders.onnx_models import const, graph, model, node, onnx, value
from builders.onnx_package_models import DATA, LIGHT
from builders.onnx_running import caught, fed, plans_of, runs, same, wanted
from builders.onnx_sessions import loop, session_options
from builders.running import on_streams, random_order, random_plan
from memplan.errors import SourceError
from memplan.onnx.running import program_of
from memplan.onnx.wing import MODEL
from memplan.options.source import Source
from memplan.running import plans

# Networks


def test_squeezenet_by_onnx_runtime(tmp_path):
    """The reference takes minutes for a convolution of this size."""
    ort = pytest.importorskip("onnxruntime")
    path = DATA / "light" / "light_squeezenet.onnx"
    for source in (onnx.load(path), optimised(str(path), "ALL", tmp_path)):
        feeds = fed(source)
        session = ort.InferenceSession(source.SerializeToString(), session_options(ort), ["CPUExecutionProvider"])
        expected = dict(zip([o.name for o in source.graph.output], session.run(None, feeds), strict=True))
        runs(source, feeds, expected, plans_of(source, 1), engine="onnxruntime")


@pytest.mark.slow
@pytest.mark.parametrize("name", LIGHT)
def test_light_models_by_onnx_runtime(name, tmp_path):
    ort = pytest.importorskip("onnxruntime")
    source = onnx.load(DATA / "light" / name)
    feeds = fed(source)
    session = ort.InferenceSession(source.SerializeToString(), session_options(ort), ["CPUExecutionProvider"])
    expected = dict(zip([o.name for o in source.graph.output], session.run(None, feeds), strict=True))
    runs(source, feeds, expected, plans_of(source, 1), engine="onnxruntime")


class Convolutions(nn.Module):
    """A residual block with normalisation and pooling, then a classifier."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.norm, self.head = nn.BatchNorm2d(8), nn.Linear(8, 5)

    def forward(self, x):
        x = torch.relu(self.first(x))
        x = torch.cat([x + torch.relu(self.norm(self.second(x))), x[:, :3]], dim=1)
        return self.head(nn.functional.adaptive_avg_pool2d(x[:, 3:], 1).flatten(1)).softmax(-1)


def dynamo(module, *args):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.onnx.export(module.eval(), args, dynamo=True, verbose=False).model_proto


NETWORKS = {
    "convolutions": lambda: (Convolutions(), torch.zeros(2, 3, 8, 8)),
    "layer": lambda: (Layer(), torch.zeros(2, 5, 16)),
    "cache": lambda: (Cache(), torch.zeros(2, 40, 16)),
    "masked": lambda: (Masked(), torch.zeros(2, 16)),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_of_the_older_exporter(name):
    module, x = NETWORKS[name]()
    source = exported(module, x)
    feeds = fed(source)
    runs(source, feeds, wanted(source, feeds), plans_of(source))


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["convolutions", "layer"])
def test_networks_of_the_newer_exporter(name):
    pytest.importorskip("onnxscript")
    module, x = NETWORKS[name]()
    source = dynamo(module, x)
    feeds = fed(source)
    runs(source, feeds, wanted(source, feeds), plans_of(source))
    with torch.no_grad():
        eager = module.eval()(torch.from_numpy(next(iter(feeds.values())))).numpy()
    found = next(iter(memplan.plan(source).run(feeds).outputs.values()))
    np.testing.assert_allclose(found, eager, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("level", ["EXTENDED", "ALL"])
def test_networks_that_onnx_runtime_has_optimised(level, tmp_path):
    """The reference has not all of the operators, so ONNX Runtime steps in for some."""
    ort = pytest.importorskip("onnxruntime")
    for name in ("layer", "convolutions"):
        module, x = NETWORKS[name]()
        source = optimised(exported(module, x), level, tmp_path)
        feeds = fed(source)
        session = ort.InferenceSession(source.SerializeToString(), session_options(ort), ["CPUExecutionProvider"])
        expected = session.run(None, feeds)
        found = list(memplan.plan(source, alignment=64).run(feeds, check=True).outputs.values())
        for array, one in zip(found, expected, strict=True):
            np.testing.assert_allclose(array, one, rtol=1e-4, atol=1e-5)
        by_runtime = {o.name: array for o, array in zip(source.graph.output, expected, strict=True)}
        runs(source, feeds, by_runtime, plans_of(source, 1), engine="onnxruntime")


# Control flow


def numpy_loop(x, trips=4):
    w = (np.arange(9).reshape(3, 3) / 9).astype(np.float32)
    h = first = np.maximum(x, 0)
    collected = []
    for _ in range(trips):
        m = h @ w
        h = np.tanh(m)
        collected.append(m)
    return {"y": -np.stack(collected), "z": np.exp(np.arange(trips, dtype=np.float32)), "u": h + first}


@pytest.mark.parametrize("condition", ["", "yes"])
def test_loops_with_branches_inside(condition):
    source = loop(condition)
    x = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)
    expected = numpy_loop(x)
    for plan in plans_of(source):
        found = program_of(Source(source, MODEL)).bind(plan).run([x], check=True).outputs
        for name, array in expected.items():
            np.testing.assert_array_equal(found[name], array)


def test_a_loop_that_ends_before_the_trips_that_were_planned():
    source = loop(until=1)
    with pytest.raises(
        SourceError, match=r"op 'loop' \(Loop\) must give 'all' as float32\[4,2,3\], got float32\[2,2,3\]"
    ):
        memplan.plan(source).run(np.zeros((2, 3), np.float32))


def test_a_loop_that_never_runs():
    source = loop()
    source.graph.initializer[0].CopyFrom(const("trips", 0))
    found = memplan.plan(source).run(np.ones((2, 3), np.float32), check=True).outputs
    assert (found["y"].shape, found["z"].shape, found["u"].tolist()) == ((0, 2, 3), (0,), [[2] * 3] * 2)


@pytest.mark.parametrize("backwards", [0, 1])
@pytest.mark.parametrize("axis", [0, 1])
def test_scans_along_any_axis_and_backwards(axis, backwards):
    body = graph(
        [node("Add", ["h", "step"], ["h_next"]), node("Mul", ["h_next", "w"], ["item"])],
        [value("h", [3]), value("step", [3])],
        [value("h_next", None), value("item", None)],
    )
    scan = node(
        *("Scan", ["x0", "steps"], ["last", "all"]),
        body=body,
        num_scan_inputs=1,
        scan_input_axes=[axis],
        scan_output_axes=[1 - axis],
        scan_input_directions=[backwards],
        scan_output_directions=[backwards],
    )
    steps = np.random.default_rng(1).standard_normal((5, 3) if axis == 0 else (3, 5)).astype(np.float32)
    inputs = [value("x0", [3]), value("steps", steps.shape)]
    source = model([scan], inputs, [value("last", None), value("all", None)], [const("w", 2.0, np.float32)])
    x = np.ones(3, np.float32)
    along = steps if axis == 0 else steps.T
    sums, h = [], x
    for step in along[:: -1 if backwards else 1]:
        h = h + step
        sums.append(h * np.float32(2))
    stacked = np.stack(sums)[:: -1 if backwards else 1]
    found = memplan.plan(source).run(x, steps, check=True).outputs
    np.testing.assert_array_equal(found["last"], h)
    np.testing.assert_array_equal(found["all"], stacked if axis == 1 else stacked.T)


def test_a_scan_of_opset_8_is_refused():
    body = graph(
        [node("Add", ["h", "step"], ["h_next"]), node("Identity", ["h_next"], ["item"])],
        [value("h", [3]), value("step", [3])],
        [value("h_next", [3]), value("item", [3])],
    )
    scan = node("Scan", ["", "x0", "steps"], ["last", "all"], body=body, num_scan_inputs=1, name="scan")
    inputs, outputs = [value("x0", [1, 3]), value("steps", [1, 5, 3])], [value("last", None), value("all", None)]
    source = model([scan], inputs, outputs, opset=8, ir=3)
    with pytest.raises(SourceError, match=r"node 'scan' \(Scan\) is of opset 8, which scans a batch"):
        memplan.plan(source).run(np.zeros((1, 3), np.float32), np.zeros((1, 5, 3), np.float32))


# Streams, and lifetimes that are wrong


def branches():
    """Branches that join: elementwise, cut, joined and reduced."""
    module, x = NETWORKS["convolutions"]()
    return exported(module, x)


@pytest.mark.parametrize("seed", range(3))
def test_streams_in_any_legal_order(seed):
    source = branches()
    feeds = fed(source, seed)
    program, expected = program_of(Source(source, MODEL)), wanted(source, feeds)
    spread = on_streams(program.graph, 3, seed)
    plan = memplan.plan(spread)
    for placed in (plan, random_plan(plan, seed)):
        bound = program.bind(placed)
        for k in range(3):
            run = bound.run([feeds], check=True, order=random_order(placed, k))
            assert same(run.outputs, expected)


def test_an_order_that_the_plan_does_not_allow_is_seen():
    nodes = [node("Neg", ["x"], ["a"]), node("Exp", ["a"], ["b"]), node("Sum", ["b", "b"], ["c"]),
             node("Abs", ["x"], ["d"]), node("Exp", ["d"], ["e"]), node("Sub", ["c", "e"], ["y"])]  # fmt: skip
    source = model(nodes, [value("x", [64])], [value("y", None)])
    program = program_of(Source(source, MODEL))
    plan = memplan.plan(program.graph, "first_fit", inplace=False)
    assert plan["d"].offset == plan["b"].offset  # as c is there before d, in the order of the list
    x = {"x": np.linspace(1, 2, 64, dtype=np.float32)}
    bound, expected = program.bind(plan), wanted(source, x)
    assert same(bound.run([x], order=range(6)).outputs, expected)
    assert not same(bound.run([x], check=True, order=[0, 3, 1, 4, 2, 5]).outputs, expected)


def test_a_lifetime_that_is_a_step_too_short_is_seen():
    source = branches()
    feeds = fed(source)
    plan = memplan.plan(source)
    seen, of = caught(plans.program_of(plan), plan, feeds, wanted(source, feeds))
    assert (seen, of) == (of, of)
    assert of >= 5
