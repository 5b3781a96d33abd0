"""Names that begin with the path of a module, whatever door a model comes through; and finding tensors by them."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, fx, nn

import memplan
from builders.onnx_models import model, node, value
from memplan.draw.highlight import marks
from memplan.torch.reading.scopes import path_of, scoped_name

PATHS = ["layers.0.up", "layers.0.act", "layers.0", "layers.1.up", "layers.1.act", "layers.1", "head"]
X = torch.zeros(2, 8)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.act = nn.Linear(8, 8), nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return x + self.act(self.up(x))


class Blocks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers, self.head = nn.ModuleList(Block() for _ in range(2)), nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Any:
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def exported() -> torch.export.ExportedProgram:
    return torch.export.export(Blocks(), (X,))


def saved(folder: Path) -> str:
    torch.export.save(exported(), folder / "blocks.pt2")
    return str(folder / "blocks.pt2")


DOORS = {
    "module": lambda folder: Blocks(),
    "program": lambda folder: exported(),
    "functional": lambda folder: exported().run_decompositions({}),
    "pt2": saved,
    "unlifted": lambda folder: exported().module(),
    "symbolic": lambda folder: fx.symbolic_trace(Blocks()),
}


def paths(graph: memplan.Graph | memplan.Problem) -> list[str]:
    """The paths that the names of ops go through, in order, each once."""
    assert isinstance(graph, memplan.Graph)
    return list(dict.fromkeys(op.name.rpartition(".")[0] for op in graph.ops))


@pytest.mark.parametrize("door", DOORS)
def test_every_door_names_ops_and_tensors_by_their_modules(door: str, tmp_path: Path) -> None:
    source = DOORS[door](tmp_path)
    call = {"args": (X,)} if isinstance(source, nn.Module) else {}
    graph = memplan.capture(source, **call).graph
    assert paths(graph) == PATHS
    assert all(op.outputs == [op.name] for op in graph.ops)
    plan = memplan.plan(graph)
    plan.plot(colour_by="layer", highlight="layers.1")


@pytest.mark.parametrize("door", ["module", "program", "symbolic"])
def test_and_what_the_backward_pass_computes_for_them(door: str, tmp_path: Path) -> None:
    source = DOORS[door](tmp_path)
    call = {"args": (X,)} if isinstance(source, nn.Module) else {}
    found = paths(memplan.capture(source, train=True, **call).graph)
    assert found[: len(PATHS)] == PATHS
    assert found[-1] == "backward.layers.0.up"


def test_a_node_keeps_its_name_at_the_end() -> None:
    program = exported()
    plan = memplan.plan(program)
    for traced in program.graph.find_nodes(op="call_function", target=torch.ops.aten.linear.default):
        assert plan[traced.name].name.endswith(f".{traced.name}")
    assert plan["layers.1.up.linear_1"].name == "layers.1.up.linear_1"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("layers.0.up", "layers.0.up"),
        ("layers.0.up@1", "layers.0.up"),
        ("L['self'].layers[0].up", "layers.0.up"),
        ("getattr(L['self'].layers, '0').up", "layers.0.up"),
        ("L['self']", ""),
        ("", ""),
    ],
)
def test_paths_as_torch_spells_them(path: str, expected: str) -> None:
    graph = fx.Graph()
    relu = graph.call_function(torch.relu, (graph.placeholder("x"),))
    assert scoped_name(relu, "body.") == "body.relu"
    relu.meta["nn_module_stack"] = {"": ("", "Net"), "key": (path, "torch.nn.ReLU")}
    assert path_of(relu) == expected
    assert scoped_name(relu, "body.") == (f"{expected}.relu" if expected else "body.relu")


# ONNX


def scoped(op_type: str, inputs: list[str], outputs: list[str], **metadata: str) -> Any:
    made = node(op_type, inputs, outputs, name=f"node_{outputs[0]}")
    for key, text in metadata.items():
        made.metadata_props.add(key={"scopes": "pkg.torch.onnx.name_scopes", "space": "namespace"}[key], value=text)
    return made


def test_nodes_of_torchs_exporter_have_the_path_in_their_metadata() -> None:
    nodes = [
        scoped("Relu", ["x"], ["relu"], scopes="['', 'layers.0', 'layers.0.act', 'relu']"),
        scoped("Neg", ["relu"], ["neg"], space=": Net/layers.0: Block/neg: aten.neg.default"),
        scoped("Exp", ["neg"], ["exp"], scopes="['', 'exp']"),
        scoped("Abs", ["exp"], ["abs"], scopes="__import__('os')", space="abs: aten.abs"),
        scoped("Cos", ["abs"], ["cos"], scopes="['_empty_nn_module_stack_from_metadata_hook', 'sym_size_int_1']"),
        scoped("Sin", ["cos"], ["y"], scopes="['', 'head', 'sin']"),
    ]
    graph = memplan.capture(model(nodes, [value("x", [4])], [value("y", [4])])).graph
    assert isinstance(graph, memplan.Graph)
    names = ["layers.0.act.node_relu", "layers.0.node_neg", "node_exp", "node_abs", "node_cos", "head.node_y"]
    assert [op.name for op in graph.ops] == names
    tensors = ["layers.0.act.relu", "layers.0.neg", "exp", "abs", "cos", "y"]
    assert [op.outputs for op in graph.ops] == [[tensor] for tensor in tensors]
    assert graph.ops[1].inplace == [("layers.0.neg", "layers.0.act.relu", 0)]
    assert memplan.plan(graph)["neg"].name == "layers.0.neg"


def test_a_longer_name_that_is_taken_is_not_given() -> None:
    metadata = {"scopes": "['', 'a', 'relu']"}
    nodes = [
        scoped("Relu", ["x"], ["a.relu"]),
        scoped("Relu", ["a.relu"], ["relu"], **metadata),
        node("Abs", ["relu"], ["y"]),
    ]
    graph = memplan.capture(model(nodes, [value("x", [4])], [value("y", [4])])).graph
    assert isinstance(graph, memplan.Graph)
    assert [op.outputs for op in graph.ops] == [["a.relu"], ["relu"], ["y"]]


@pytest.mark.slow
def test_a_file_of_torchs_exporter() -> None:
    pytest.importorskip("onnxscript")
    program = torch.onnx.export(Blocks(), (X,), dynamo=True, verbose=False)
    assert program is not None
    graph = memplan.capture(program.model_proto).graph
    assert paths(graph) == PATHS
    memplan.plan(graph).plot(colour_by="layer")


def test_a_file_of_the_older_exporter() -> None:
    file = io.BytesIO()
    torch.onnx.export(Blocks(), (X,), file, dynamo=False)  # type: ignore[arg-type]
    import onnx

    plan = memplan.plan(onnx.load_from_string(file.getvalue()))
    plan.plot(colour_by="layer")


# Finding tensors


def net(*names: str) -> memplan.Plan:
    """A chain of ops that write tensors of these names."""
    tensors = [{"name": "x", "bytes": 4, "kind": "input"}, *({"name": name, "bytes": 4} for name in names)]
    before = ["x", *names]
    ops = [{"inputs": [source], "outputs": [name]} for source, name in zip(before, names, strict=False)]
    return memplan.plan({"tensors": tensors, "ops": ops, "outputs": [names[-1]]})


def test_the_end_of_a_name_after_a_dot_is_enough() -> None:
    plan = net("downs.0.relu_1", "downs.1.relu_2", "relu_2.x")
    assert plan["relu_1"] == plan["downs.0.relu_1"] == plan["0.relu_1"]
    assert "relu_2" in plan
    assert plan.buffer_of("relu_2") == plan.buffer_of("downs.1.relu_2")
    assert plan.reuse("relu_1") == plan.reuse("downs.0.relu_1")
    assert plan.tensors["relu_1"] == plan["relu_1"]
    assert "relu_1" in plan.tensors
    assert not {"relu", "relu_3", 3} & {key for key in ("relu", "relu_3", 3) if key in plan.tensors}
    with pytest.raises(KeyError, match="named 'relu_3'; there is"):
        plan.tensors["relu_3"]


def test_a_name_of_a_tensor_is_that_tensor_whatever_else_ends_so() -> None:
    plan = net("a.relu", "relu", "b.relu")
    assert plan["relu"].name == "relu"


@pytest.mark.parametrize(
    ("name", "offer"),
    [
        ("relu", "there is 'a.relu', 'b.relu'"),
        ("a", "there is 'a.relu'"),
        ("a.relo", "there is 'a.relu'"),
        ("sigmoit", "there is 'c.sigmoid'"),
    ],
)
def test_what_is_near_is_offered(name: str, offer: str) -> None:
    plan = net("a.relu", "b.relu", "c.sigmoid")
    with pytest.raises(KeyError, match=f"the plan has no tensor or buffer named '{name}'; {offer}"):
        plan[name]


def test_the_middle_of_a_path_stands_for_all_modules_that_have_it() -> None:
    of_kv = ["layers.0.attn.kv.up", "layers.0.attn.kv.down", "layers.1.attn.kv"]
    plan = net(*of_kv, "layers.1.attn.q", "attnkv.up", "kv.attn.up")
    assert [mark.slot.name for mark in marks(plan, "0.attn.kv")] == of_kv[:2]
    assert [mark.slot.name for mark in marks(plan, "attn")] == [*of_kv, "layers.1.attn.q", "kv.attn.up"]
    assert [mark.slot.name for mark in marks(plan, "attn.kv")] == of_kv[2:]  # a tensor's own name comes first
    with pytest.raises(KeyError, match=r"'attn'; there is 'layers.0.attn.kv.up', 'layers.0.attn.kv.down', .* 2 more"):
        plan["attn"]
    with pytest.raises(ValueError, match="highlight: the plan has no tensor or buffer named 'ttn'"):
        marks(plan, "ttn")


def test_at_most_three_are_offered_and_nothing_that_is_far() -> None:
    plan = net("a.relu", "b.relu", "c.relu", "d.relu", "e.relu")
    with pytest.raises(KeyError, match=r"there is 'a.relu', 'b.relu', 'c.relu' and 2 more"):
        plan["relu"]
    with pytest.raises(KeyError, match=r"named 'quite another'\"$"):
        plan["quite another"]


def test_what_is_not_placed_is_not_offered() -> None:
    plan = memplan.plan(
        {
            "tensors": [{"name": "fc.weight", "bytes": 4, "kind": "weight"}, {"name": "fc.out", "bytes": 4}],
            "ops": [{"inputs": ["fc.weight"], "outputs": ["fc.out"]}],
            "outputs": ["fc.out"],
        }
    )
    with pytest.raises(KeyError, match=r"named 'weight'\"$"):
        plan["weight"]
    with pytest.raises(KeyError, match=r"named 'fc.weigh'\"$"):
        plan["fc.weigh"]
    with pytest.raises(KeyError, match=r"'fc.weight' \(weight\) is not placed in the arena"):
        plan["fc.weight"]


def test_a_modules_path_brings_out_all_of_it() -> None:
    from memplan.draw.highlight import marks

    plan = net("a.0.relu", "a.1.relu", "b.relu")
    assert [mark.slot.name for mark in marks(plan, ["a", "b.relu", "a.0"])] == ["a.0.relu", "a.1.relu", "b.relu"]
    with pytest.raises(ValueError, match="highlight: the plan has no tensor or buffer named 'd'"):
        marks(plan, "d")
