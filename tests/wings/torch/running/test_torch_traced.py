"""Graphs that torch has traced, exported programs and .pt2 files, run inside their plans."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, export
from torch.fx.experimental.proxy_tensor import make_fx

import memplan
from builders.torch_effects import ARGS, Norms, random_program
from builders.torch_nets import Net, Traced
from builders.torch_running import check, gradients, planned, same


def twice(source: Any, eager: nn.Module, *args: Tensor, held: Callable[[], Tensor] | None = None) -> None:
    """Run a source inside its plan twice, and a module in eager beside it: results and the buffer are the same."""
    plan = memplan.plan(source, "first_fit", args=args, alignment=64)
    with torch.no_grad():
        for _ in range(2):
            assert same(plan.run(*args, check=True).outputs, eager(*args))
            if held is not None:
                assert torch.equal(held(), eager.count)


def test_a_symbolically_traced_graph() -> None:
    graph = torch.fx.symbolic_trace(Traced())
    twice(graph, copy.deepcopy(graph), torch.randn(6, 8), held=lambda: graph.count)


def test_weights_of_a_module_that_a_node_calls_may_be_given() -> None:
    x = torch.randn(6, 8)
    graph, other = (torch.fx.symbolic_trace(Traced()) for _ in range(2))
    plan = memplan.plan(graph, args=(x,), alignment=64)
    assert same(plan.run(x, weights=other.state_dict()).outputs, other(x))


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_make_fx(mode: str) -> None:
    def function(x: Tensor, y: Tensor) -> Any:
        a, b = x.chunk(2)
        return torch.cat([a.exp(), b + y]), y.max(0)

    x, y = torch.randn(4, 3), torch.randn(2, 3)
    graph = make_fx(function, tracing_mode=mode)(x, y)
    run = memplan.plan(graph, args=(x, y), alignment=64).run(x, y, check=True)
    assert same(run.outputs, function(x, y))


@pytest.mark.parametrize("decomposed", [False, True])
def test_an_exported_program(decomposed: bool) -> None:
    module, x = Traced(), torch.randn(6, 8)
    program = export(copy.deepcopy(module), (x,))
    program = program.run_decompositions({}) if decomposed else program
    twice(program, module, x, held=lambda: program.state_dict["count"])


def test_an_exported_program_needs_no_arguments_to_be_planned() -> None:
    x = torch.randn(3, 8)
    dynamic = export(Traced(), (torch.zeros(6, 8),), dynamic_shapes={"x": {0: Dim("batch", min=2, max=64)}})
    plan = memplan.plan(dynamic, dims={"batch": 3}, alignment=64)
    eager = copy.deepcopy(dynamic).module()
    assert same(plan.run(x, check=True).outputs, eager(x))
    with pytest.raises(
        memplan.errors.SourceError, match=r"input 'x': the plan has float32\[3, 8\], got float32\[4, 8\]"
    ):
        plan.run(torch.randn(4, 8))


def test_training_an_exported_program() -> None:
    module, x = Traced(), torch.randn(6, 8)
    program = export(copy.deepcopy(module), (x,))
    run = memplan.plan(program, args=(x,), train=True, alignment=64).run(x, check=True)
    loss = module(x)["y"].sum()
    assert torch.equal(run.loss, loss)
    assert same(run.gradients, gradients(module, loss))


@pytest.mark.parametrize("trust", [False, True])
def test_a_pt2_file_runs_with_its_own_weights(tmp_path: Path, trust: bool) -> None:
    module, x = Traced(), torch.randn(6, 8)
    torch.export.save(export(copy.deepcopy(module), (x,)), tmp_path / "net.pt2")
    plan = memplan.plan(tmp_path / "net.pt2", alignment=64, trust=trust)
    assert same(plan.run(x, check=True).outputs, module(x))
    assert same(plan.run(x, check=True).outputs, module(x))  # its buffer counts


def test_the_graph_of_torch_compile() -> None:
    graphs: list[Any] = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append((graph, inputs))
        return graph.forward

    torch.compile(Traced(), backend=backend)(torch.randn(6, 8))
    graph, inputs = graphs[0]
    mine, eager = (tuple(tensor.detach().clone() for tensor in inputs) for _ in range(2))
    run = memplan.plan(graph, args=tuple(inputs), alignment=64).run(*mine, check=True)
    with torch.no_grad():
        assert same(run.outputs, list(graph(*eager)))
    assert same(mine, eager)


# Control flow


def choice(net: Net, x: Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda x: net.fc(x).relu() + 1, lambda x: x.sin(), (x,)) * 2


def loop(net: Net, x: Tensor) -> Any:
    from torch._higher_order_ops import while_loop

    return while_loop(lambda i, v: i.sum() < 5, lambda i, v: (i + 1, v.sin() + 1), (torch.zeros(1), x))


def sums(net: Net, x: Tensor) -> Any:
    from torch._higher_order_ops import scan

    return scan(lambda carry, row: (carry + row, carry * row), torch.zeros(4), x)


def mapped(net: Net, x: Tensor) -> Any:
    from torch._higher_order_ops import map as over

    return over(lambda row, y: row.exp() + y, x, x.sum(0))


@pytest.mark.few(2)
@pytest.mark.parametrize("compute", [choice, loop, sums, mapped])
def test_bodies(compute: Callable[..., Any]) -> None:
    net, x = Net(compute), torch.randn(4, 4)
    program = export(net, (x,))
    plan = memplan.plan(program, alignment=64)
    for value in (x, -x):
        with torch.no_grad():
            assert same(plan.run(value, check=True).outputs, program.module()(value))


def test_bodies_that_change_how_they_run() -> None:
    def compute(net: Net, x: Tensor) -> Any:
        with torch.no_grad():
            y = net.fc(x)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            z = net.fc(y)
        return z, net.fc(y)

    net, x = Net(compute), torch.randn(4, 4)
    program = export(net, (x,))
    run = memplan.plan(program, alignment=64).run(x, check=True)
    assert run.outputs[0].dtype == torch.bfloat16
    assert same(run.outputs, program.module()(x))


def test_autocast_is_part_of_what_was_recorded() -> None:
    def compute(net: Net, x: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return net.fc(x) @ x

    run = check(Net(compute), torch.randn(4, 4))
    assert run.outputs.dtype == torch.bfloat16


# Numbers that depend on data


def scaled(net: Net, x: Tensor) -> Any:
    return x * x.sum().item()


def counted(net: Net, x: Tensor) -> Any:
    number = (x > 0).sum().item()
    return x + number, number * 2


@pytest.mark.parametrize("compute", [scaled, counted])
def test_numbers_read_from_tensors(compute: Callable[..., Any]) -> None:
    net, x = Net(compute), torch.randn(4, 4)
    plan = memplan.plan(export(net, (x,)), alignment=64)
    for value in (x, -x * 3):
        got, expected = plan.run(value, check=True).outputs, net(value)
        assert same(got, expected)
        if isinstance(expected, tuple):
            assert got[1] == expected[1]


def test_operators_that_are_made_of_others_run_as_in_eager() -> None:
    """What a product is made of depends on whether a weight requires a gradient, also where none is computed."""
    module, tokens = nn.GRU(16, 24, 2, batch_first=True), torch.randn(3, 7, 16)
    program = export(module, (tokens,))
    run = memplan.plan(program, alignment=64).run(tokens, check=True)
    with torch.no_grad():
        assert same(run.outputs, module(tokens))


# Programs at random


def plain(function: Callable[..., Any], *args: Tensor) -> Any:
    torch.manual_seed(0)
    return function(*args)


@pytest.mark.few(3)
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("door", ["module", "fx", "program"])
def test_programs_that_write_through_views_and_draw_random_numbers(door: str, seed: int) -> None:
    class Program(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> list[Tensor]:
            return random_program(seed)(x, y)  # type: ignore[no-any-return]

    given = tuple(tensor.clone() for tensor in ARGS)
    sources: dict[str, Callable[[], Any]] = {
        "module": Program,
        "fx": lambda: make_fx(random_program(seed))(*(tensor.clone() for tensor in ARGS)),
        "program": lambda: export(Program(), tuple(tensor.clone() for tensor in ARGS)),
    }
    plan = memplan.plan(sources[door](), args=given, alignment=64)
    mine, eager = (tuple(tensor.clone() for tensor in ARGS) for _ in range(2))
    run = plain(lambda *args: plan.run(*args, check=True), *mine)
    assert same(run.outputs, plain(random_program(seed), *eager))
    assert same(mine, eager)


@pytest.mark.few(2)
@pytest.mark.parametrize("door", ["module", "fx", "program", "functional"])
def test_a_net_with_state(door: str) -> None:
    mine = Norms()
    sources: dict[str, Callable[[], Any]] = {
        "module": lambda: mine,
        "fx": lambda: torch.fx.symbolic_trace(mine),
        "program": lambda: export(mine, ARGS),
        "functional": lambda: export(mine, ARGS).run_decompositions({}),
    }
    source = sources[door]()
    eager = copy.deepcopy(source if door == "fx" else mine)
    plan = memplan.plan(source, args=ARGS, alignment=64)
    for _ in range(2):
        run = plain(lambda *args: plan.run(*args, check=True), *ARGS)
        assert same(run.outputs, plain(eager, *ARGS))
    state = source.state_dict if isinstance(source, torch.export.ExportedProgram) else source.state_dict()
    assert same(dict(sorted(state.items())), dict(sorted(eager.state_dict().items())))


def test_methods_and_functions_of_python() -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    y = graph.call_method("unsqueeze_", (graph.call_function(torch.clone, (x,)), 0))
    graph.output((graph.call_function(operator.mul, (y, 2)), graph.call_method("split", (x, 2))))
    value = torch.randn(4, 3)
    plan = memplan.plan(torch.fx.GraphModule({}, graph), args=(value,), alignment=64)
    for _ in range(2):
        run = plan.run(value, check=True)
        assert same(run.outputs, (value.unsqueeze(0) * 2, value.split(2)))


def test_the_plan_of_a_module_that_was_compiled() -> None:
    module, x = nn.Linear(4, 4), torch.randn(2, 4)
    plan = planned(torch.compile(module, backend="eager"), x)
    assert torch.equal(plan.run(x).outputs, module(x))
