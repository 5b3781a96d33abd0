"""One network through every door: module, exported program, its decompositions, fx graph, .pt2 file, recorded tape.

The doors of torch differ in one thing: what counts as one op. A module is seen as the operators that its kernels are
called by. A node of an exported program is one op, and what runs inside it is its workspace.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import ExportedProgram, export

import memplan
from memplan import Plan


class Residual(nn.Module):
    """Each of its nodes is one operator that leaves nothing behind."""

    def __init__(self) -> None:
        super().__init__()
        self.wide, self.narrow = nn.Linear(16, 64), nn.Linear(64, 16)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.narrow(nn.functional.gelu(self.wide(x)))  # type: ignore[no-any-return]


class Dense(nn.Module):
    """Concatenations whose parts may lie in place."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv2d(4 * (i + 1), 4, 3, padding=1) for i in range(3))

    def forward(self, x: Tensor) -> Tensor:
        found = [x]
        for layer in self.layers:
            found.append(torch.relu(layer(torch.cat(found, 1))))
        return torch.cat(found, 1)


class Recurrent(nn.Module):
    """A node with many operators inside, two directions of them."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.GRU(8, 8, batch_first=True, bidirectional=True)

    def forward(self, x: Tensor) -> Tensor:
        return torch.sigmoid(self.rnn(x)[0])


class Attention(nn.Module):
    """A node in which a kernel returns more than the node does."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(16, 48)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (t.unflatten(-1, (2, 8)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        return nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "residual": (Residual, (4, 16)),
    "dense": (Dense, (1, 4, 8, 8)),
    "recurrent": (Recurrent, (2, 6, 8)),
    "attention": (Attention, (2, 6, 16)),
}
ALIKE = ("residual", "dense")  # nothing is left behind inside a node


class Doors:
    """A network, and what it comes to through each door."""

    def __init__(self, name: str, folder: Path) -> None:
        torch.manual_seed(0)
        make, shape = NETWORKS[name]
        self.module, self.x = make().eval(), torch.randn(shape)
        self.program: ExportedProgram = export(self.module, (self.x,))
        self.file = folder / f"{name}.pt2"
        torch.export.save(self.program, self.file)

    def of_module(self, **options: Any) -> Plan:
        return memplan.plan(self.module, args=(self.x,), **options)


@pytest.fixture(scope="module", params=NETWORKS)
def doors(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Doors:
    return Doors(request.param, tmp_path_factory.mktemp("doors"))


AS_EAGER: dict[str, Any] = {"inplace": False, "zero_copy": False}


@pytest.mark.few(1)
def test_a_program_is_the_same_as_object_graph_and_file(doors: Doors) -> None:
    exported = memplan.plan(doors.program)
    assert memplan.plan(doors.file).peak == exported.peak
    assert memplan.plan(doors.program.module(), args=(doors.x,)).peak == exported.peak


@pytest.mark.slow
@pytest.mark.few(2)
def test_what_the_exporter_of_torch_writes_needs_as_much(doors: Doors, request: Any, tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    pytest.importorskip("onnxscript")
    if request.node.callspec.params["doors"] != "residual":
        pytest.skip("one suffices: the exporter takes seconds")
    torch.onnx.export(doors.program, (), str(tmp_path / "net.onnx"), dynamo=True, verbose=False)
    assert memplan.plan(tmp_path / "net.onnx").peak == doors.of_module().peak


@pytest.mark.few(2)
def test_an_exported_program_needs_more_by_what_its_nodes_hold_inside(doors: Doors, request: Any) -> None:
    module, exported = doors.of_module(**AS_EAGER), memplan.plan(doors.program, **AS_EAGER)
    assert exported.graph is not None
    inside = max(op.workspace for op in exported.graph.ops)
    assert module.load <= exported.load <= module.load + inside
    if request.node.callspec.params["doors"] in ALIKE:
        assert inside == 0
        assert doors.of_module().peak == memplan.plan(doors.program).peak
    else:
        assert inside > 0


@pytest.mark.few(2)
def test_the_figure_of_a_module_is_true(doors: Doors) -> None:
    """It runs in that many bytes, dead bytes poisoned, and its results are those of eager."""
    plan = doors.of_module()
    run = plan.run(doors.x, check=True)
    with torch.no_grad():
        assert torch.equal(run.outputs, doors.module(doors.x))
    assert run.arena_bytes == plan.peak


def test_eager_holds_what_a_plan_without_permissions_needs(doors: Doors) -> None:
    """Or more: what variables hold after the last use, and what kernels allocate."""
    with torch.no_grad():
        doors.module(doors.x)
        with memplan.torch.record() as tape:
            doors.module(doors.x)
    assert doors.of_module(**AS_EAGER).load <= memplan.plan(tape).peak


@pytest.mark.parametrize("layer", ["attention", "encoder"])
def test_layers_that_torch_runs_as_one_op_say_what_they_hold(layer: str) -> None:
    """In eval mode torch has a kernel for the whole layer: as a module it is one op, exported it is in parts."""
    x = torch.randn(2, 8, 32)
    module: nn.Module = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True).eval()
    args: tuple[Tensor, ...] = (x,)
    if layer == "attention":
        module, args = nn.MultiheadAttention(32, 4, batch_first=True).eval(), (x, x, x)
    plan, exported = memplan.plan(module, args=args), memplan.plan(export(module, args))
    with torch.no_grad():
        module(*args)
        with memplan.torch.record() as tape:
            module(*args)
    really = memplan.plan(tape).peak
    assert 0.8 * really <= plan.peak <= 1.25 * really
    assert 0.8 * really <= exported.peak <= 1.25 * really


def test_the_summary_says_what_an_op_holds_inside() -> None:
    program = export(Recurrent().eval(), (torch.randn(2, 6, 8),))
    plan = memplan.plan(program)
    assert plan.graph is not None
    held = next(op.workspace for op in plan.graph.ops if op.type.startswith("aten.gru"))
    line = next(line for line in plan.summary().splitlines() if line.startswith("inside"))
    assert "of the peak" in line
    assert "workspace of rnn.gru" in line
    assert f"{held:,} bytes" in line
    assert "inside " not in memplan.plan(export(Residual(), (torch.randn(4, 16),))).summary()


class Modes(nn.Module):
    """Two layers that ask for the mode."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.drop, self.norm = nn.Linear(4, 4), nn.Dropout(0.1), nn.BatchNorm1d(4)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.drop(self.fc(x)))  # type: ignore[no-any-return]


@pytest.mark.parametrize("as_file", [False, True])
def test_training_a_program_that_was_exported_in_eval_mode_is_said(as_file: bool, tmp_path: Path) -> None:
    def source(*, train: bool) -> Any:
        program = export(Modes().train(train), (torch.randn(8, 4),))
        if as_file:
            torch.export.save(program, tmp_path / "net.pt2")
        return tmp_path / "net.pt2" if as_file else program

    plan = memplan.plan(source(train=False), train=True)
    (note,) = plan.notes
    assert "exported in eval mode" in note
    assert "dropout and batch_norm" in note
    assert note in plan.summary()
    assert memplan.plan(source(train=True), train=True).notes == ()
    assert memplan.plan(source(train=False)).notes == ()


def test_inference_of_a_program_that_was_exported_in_train_mode_is_said() -> None:
    plan = memplan.plan(export(Modes().train(), (torch.randn(8, 4),)))
    (note,) = plan.notes
    assert "exported in train mode" in note
    assert memplan.estimate(export(Modes().eval(), (torch.randn(8, 4),)), train=True).notes[0].startswith("exported")


def test_networks_without_modes_get_no_note() -> None:
    program = export(Residual().eval(), (torch.randn(4, 16),))
    assert memplan.plan(program, train=True).notes == ()
