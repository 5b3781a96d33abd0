"""ONNX models with their nodes in another order: valid, as good as the plan says, and with equal results."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import memplan
from builders.onnx_models import BOOL, const, model, node, onnx, value
from builders.onnx_random import Maker
from builders.onnx_running import fed, same, wanted
from builders.running import shuffled
from memplan.cli import main
from memplan.running.plans import program_of

LIGHT = sorted((Path(onnx.__file__).parent / "backend" / "test" / "data" / "light").glob("*.onnx"))


def at_random(source, seed):
    """The model with its nodes in a random order, and what they write."""
    plan = memplan.plan(source, "naive")
    graph = shuffled(plan.graph, seed)
    return program_of(plan).in_order(replace(plan, graph=graph)), [op.outputs for op in graph.ops]


def wide_first(width=64, functions=(), domain=""):
    """Branches that widen first, and only then narrow."""
    operator = {"op_type": "Widen", "domain": domain} if domain else {"op_type": "MatMul"}
    nodes = [node(inputs=["x", "up"], outputs=[f"wide{k}"], name=f"up{k}", **operator) for k in range(4)]
    nodes += [node("MatMul", [f"wide{k}", "down"], [f"narrow{k}"]) for k in range(4)]
    nodes += [node("Sum", [f"narrow{k}" for k in range(4)], ["y"])]
    weights = [
        const(name, np.ones(shape) * 0.1, np.float32) for name, shape in (("up", (4, width)), ("down", (width, 4)))
    ]
    return model(
        nodes,
        [value("x", [4, 4])],
        [value("y", [4, 4])],
        weights,
        functions=functions,
        domains=[domain] if domain else (),
    )


def outputs(source):
    return [list(node.output) for node in source.graph.node]


def test_the_nodes_stand_in_the_order_of_the_plan():
    source = wide_first()
    before = source.SerializeToString()
    plan = memplan.plan(source, order="best")
    found = plan.program
    assert outputs(found) == [op.outputs for op in plan.graph.ops] != outputs(source)
    onnx.checker.check_model(found, full_check=True)
    assert source.SerializeToString() == before
    assert memplan.plan(found).load == plan.load < memplan.plan(source).load
    feeds = fed(source)
    assert same(wanted(found, feeds), wanted(source, feeds))
    del found.graph.node[:]
    found.graph.node.extend(source.graph.node)
    assert found == source


@pytest.mark.parametrize("part", [range(10), pytest.param(range(10, 400), marks=pytest.mark.slow)])
def test_random_models_in_random_orders(part):
    for seed in part:
        maker = Maker(seed)
        source = maker.model()
        shown = [value(output.name, [maker.rows[output.name], 4]) for output in source.graph.output]
        del source.graph.output[:]
        source.graph.output.extend(shown)
        found, order = at_random(source, seed)
        assert outputs(found) == order
        onnx.checker.check_model(found)
        feeds = fed(source, seed)
        assert same(wanted(found, feeds), wanted(source, feeds))


def test_bodies_read_what_is_around_them():
    then = onnx.helper.make_graph([node("Add", ["late", "late"], ["t"])], "then", [], [value("t", [4])])
    other = onnx.helper.make_graph([node("Exp", ["early"], ["e"])], "else", [], [value("e", [4])])
    nodes = [
        node("Neg", ["x"], ["early"]),
        node("Relu", ["x"], ["late"]),
        node("If", ["b"], ["y"], then_branch=then, else_branch=other),
        node("Exp", ["x"], ["z"]),
    ]
    source = model(nodes, [value("x", [4]), value("b", [], BOOL)], [value("y", [4]), value("z", [4])])
    orders = set()
    for seed in range(8):
        found, _ = at_random(source, seed)
        onnx.checker.check_model(found)
        orders.add(tuple(node.op_type for node in found.graph.node))
        for chosen in (True, False):
            feeds = {"x": fed(source)["x"], "b": np.array(chosen)}
            assert same(wanted(found, feeds), wanted(source, feeds))
    assert len(orders) > 2


def test_constants_and_calls_of_functions_stay_as_they_are():
    opset = [onnx.helper.make_opsetid("", 21)]
    body = [node("MatMul", ["a", "b"], ["c"]), node("Relu", ["c"], ["d"])]
    function = onnx.helper.make_function("own", "Widen", ["a", "b"], ["d"], body, opset)
    source = wide_first(functions=[function], domain="own")
    source.graph.node.insert(0, node("Constant", [], ["unread"], value=const("v", [1])))
    plan = memplan.plan(source, order="best")
    found = plan.program
    onnx.checker.check_model(found)
    assert found.functions == source.functions
    assert [n.op_type for n in found.graph.node][:4] == ["Constant", "Widen", "MatMul", "Widen"]
    assert memplan.plan(found).load == plan.load < memplan.plan(source).load
    feeds = fed(source)
    assert same(wanted(found, feeds), wanted(source, feeds))


def test_nodes_that_draw_random_numbers_keep_their_order():
    branches = ["RandomNormalLike", "RandomUniformLike", "Bernoulli", "RandomNormalLike"]
    nodes = [node(kind, ["x"], [f"r{k}"]) for k, kind in enumerate(branches)]
    source = model(nodes, [value("x", [4])], [value(f"r{k}", [4]) for k in range(4)])
    assert all(at_random(source, seed)[1] == [[f"r{k}"] for k in range(4)] for seed in range(4))
    dropouts = [node("Dropout", ["x"], [f"d{k}"]) for k in range(4)]
    source = model(dropouts, [value("x", [4])], [value(f"d{k}", [4]) for k in range(4)])
    assert len({str(at_random(source, seed)[1]) for seed in range(8)}) > 1


# Files


def with_other_files(folder):
    source = wide_first(width=512)
    onnx.save(source, folder / "given.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)
    return folder / "given.onnx"


def test_a_file_keeps_what_lies_beside_it(tmp_path):
    path = with_other_files(tmp_path)
    plan = memplan.plan(path, order="best")
    plan.to_onnx(tmp_path / "best.onnx")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["best.onnx", "given.onnx", "weights.bin"]
    assert (tmp_path / "best.onnx").stat().st_size < 4000
    onnx.checker.check_model(str(tmp_path / "best.onnx"))
    feeds = fed(wide_first())
    assert same(wanted(onnx.load(tmp_path / "best.onnx"), feeds), wanted(onnx.load(path), feeds))
    (tmp_path / "other").mkdir()
    with pytest.raises(ValueError, match=r"the model's external data lie in .*: write it there"):
        plan.to_onnx(tmp_path / "other" / "best.onnx")
    assert not list((tmp_path / "other").iterdir())


def test_a_plan_without_its_model_is_given_it_again(tmp_path):
    source = wide_first()
    plan = memplan.plan(memplan.capture(source).graph, order="best")
    plan.to_onnx(tmp_path / "best.onnx", source=source)
    assert outputs(onnx.load(tmp_path / "best.onnx")) == outputs(memplan.plan(source, order="best").program)
    with pytest.raises(TypeError, match=r"give what was planned, plan\.to_onnx\(path, source=model\)"):
        plan.to_onnx(tmp_path / "no.onnx")
    with pytest.raises(TypeError, match="options dims, values, inplace_ops go with source="):
        memplan.plan(source).to_onnx(tmp_path / "no.onnx", dims={"n": 1})
    with pytest.raises(TypeError, match="to_onnx writes what came from ONNX, the plan is of a source of kind graph"):
        plan.to_onnx(tmp_path / "no.onnx", source=plan.graph)
    with pytest.raises(memplan.errors.SourceError, match="changed since"):
        plan.to_onnx(tmp_path / "no.onnx", source=wide_first(width=32))
    assert [file.name for file in tmp_path.iterdir()] == ["best.onnx"]


def test_a_plan_from_a_file_has_its_order(tmp_path):
    source, feeds = wide_first(), fed(wide_first())
    plan = memplan.plan(source, order="best")
    plan.to_json(tmp_path / "plan.json")
    read = memplan.read_plan(tmp_path / "plan.json")
    assert same(read.run(feeds, source=source, check=True).outputs, wanted(source, feeds))
    read.to_onnx(tmp_path / "best.onnx", source=source)
    assert outputs(onnx.load(tmp_path / "best.onnx")) == outputs(plan.program)
    text = (tmp_path / "plan.json").read_text()
    (tmp_path / "other.json").write_text(text.replace('"up0"', '"up9"'))
    with pytest.raises(
        memplan.errors.SourceError, match="the plan has the op 'up9', the network has none of this name"
    ):
        memplan.read_plan(tmp_path / "other.json").run(feeds, source=source)
    more = wide_first()
    more.graph.node.append(node("Neg", ["x"], ["z"], name="more"))
    with pytest.raises(memplan.errors.SourceError, match="the plan has 9 ops, the network 10"):
        read.run(feeds, source=more)


def test_the_command_line_writes_the_model(tmp_path, capsys):
    path, best = with_other_files(tmp_path), tmp_path / "best.onnx"
    assert main(["plan", str(path), "--order", "best", "--onnx", str(best), "--dims", "unused=3"]) == 2
    assert main(["plan", str(path), "--order", "best", "--onnx", str(best)]) == 0
    assert outputs(onnx.load(best)) == outputs(memplan.plan(path, order="best").program)
    assert main(["plan", "example:gpt2_infer", "--onnx", str(best)]) == 2
    assert "--onnx needs a source that ends in .onnx, got example:gpt2_infer" in capsys.readouterr().err


@pytest.mark.parametrize(
    "path", [pytest.param(p, marks=() if "squeeze" in p.stem else pytest.mark.slow, id=p.stem) for p in LIGHT]
)
def test_light_models_run_in_onnx_runtime(path):
    runtime = pytest.importorskip("onnxruntime")
    plan = memplan.plan(path, order="best")
    source, found = onnx.load(path), plan.program
    onnx.checker.check_model(found)
    assert memplan.plan(found, "first_fit").load == plan.load
    results = []
    for each in (source, found):
        session = runtime.InferenceSession(each.SerializeToString(), providers=["CPUExecutionProvider"])
        feeds = {given.name: np.ones(given.shape, np.float32) for given in session.get_inputs()}
        results.append(session.run(None, feeds))
    assert all(a.tobytes() == b.tobytes() for a, b in zip(*results, strict=True))
