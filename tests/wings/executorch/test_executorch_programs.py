"""Programs of ExecuTorch inside memplan's plans: lowered, run by its runtime, and held against its own plans."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import memplan

pytest.importorskip("torch")
pytest.importorskip("executorch")

import torch
from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig, to_edge, to_edge_transform_and_lower
from executorch.exir.memory_planning import MemoryPlanningAlgorithmSuite, Verifier
from executorch.exir.pass_base import PassResult
from executorch.exir.passes import MemoryPlanningPass
from executorch.exir.schema import DeviceType
from torch import Tensor, nn

from builders.executorch_programs import Args, program_of, runs, sizes, widths

memory_planning_pass = memplan.executorch.memory_planning_pass


def exported(model: Callable[..., Any], *inputs: Tensor, **options: Any) -> Any:
    class Model(nn.Module):
        def forward(self, *args: Tensor) -> Any:
            return model(*args)

    return torch.export.export(Model().eval(), inputs, **options)


def test_a_program_runs_inside_the_plan_as_it_does_inside_executorchs() -> None:
    model, inputs = widths()
    memory = memory_planning_pass()
    ours, theirs = program_of(model, memory), program_of(model, MemoryPlanningPass())
    assert torch.equal(runs(ours, inputs)[0][0], runs(theirs, inputs)[0][0])
    (arena,) = memory.arenas
    (plan,) = memory.plans
    sizes = [program.executorch_program.execution_plan[0].non_const_buffer_sizes for program in (ours, theirs)]
    assert sizes == [[0, arena.bytes], [0, arena.greedy_bytes]]
    assert arena.bytes == plan.peak == plan.load == arena.load < arena.greedy_bytes
    assert plan["aten_convolution_default_1"].bytes == 8 * 16 * 16 * 4
    assert str(arena).startswith(f"method 1, memory 1: {arena.bytes / 1024:.2f} KiB ({arena.bytes:,} bytes); peak")
    assert "1 arenas" in repr(memory.algorithm)


@pytest.mark.parametrize("allocated", [(True, False), (False, True), (False, False)])
def test_inputs_and_outputs_are_placed_only_if_asked_for(allocated: tuple[bool, bool]) -> None:
    model, inputs = widths()
    memory = memory_planning_pass(alloc_graph_input=allocated[0], alloc_graph_output=allocated[1])
    program = program_of(model, memory)
    expected = widths()[0].module()(*inputs)
    torch.testing.assert_close(runs(program, inputs)[0][0], expected)
    assert ("x" in memory.plans[0]) == allocated[0]
    assert ("aten_add_tensor" in memory.plans[0]) == allocated[1]


def greedy(**options: Any) -> MemoryPlanningPass:
    return MemoryPlanningPass(**options)


def same_as_eager(model: Callable[..., Any], calls: Sequence[Args], memory: Any, **config: Any) -> bool:
    """Whether a program gives what its model gives, call by call."""
    found = runs(program_of(exported_once(model, *calls[0]), memory, **config), *calls, *calls)
    return all(
        torch.allclose(a, b)
        for run, args in zip(found, [*calls, *calls], strict=True)
        for a, b in zip(run, tensors(model(*args)), strict=True)
    )


def tensors(outputs: Any) -> list[Tensor]:
    return list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]


@cache
def exported_once(model: Callable[..., Any], *inputs: Tensor) -> Any:
    return exported(model, *inputs)


UP = torch.arange(32.0).reshape(4, 8) / 32
DOWN = -UP


def one_after_another(x: Tensor) -> Tensor:
    first = torch.cond(x.sum() > 0, lambda v: v * 2 + 1, lambda v: v - 1, [x])
    second = torch.cond(x.sum() > 1, lambda v: v * 3 + 1, lambda v: v - 5, [x])
    return first - second


def one_in_another(x: Tensor) -> Tensor:
    def positive(v: Tensor) -> Tensor:
        first = torch.cond(v.max() > 0, lambda w: w * 2, lambda w: w + 1, [v])
        return first + torch.cond(v.max() > 3, lambda w: w * 5, lambda w: w + 7, [v])

    return torch.cond(x.sum() > 0, positive, lambda v: v - 1, [x + 1]) + x


def viewed(x: Tensor) -> Tensor:
    return torch.cond(x.sum() > 0, lambda v: v * 2 + 1, lambda v: v - 1, [x]).reshape(8, 4) * 3


def handed_through(x: Tensor) -> Tensor:
    """The result of a branch is the result of a `cond` in it, and comes out with another."""

    def inner(v: Tensor) -> Tensor:
        return torch.cond(v.max() > 3, lambda w: w * 5, lambda w: w + 7, [v * 2])

    first, other = torch.cond(x.sum() > 0, lambda v: (inner(v), v * 4), lambda v: (v - 1, v * 5), [x + 1])
    return first * torch.cond(other.sum() > 0, lambda v: v / 2, lambda v: v * 3, [other]) + other


def returned(x: Tensor) -> Any:
    first = torch.cond(x.sum() > 0, lambda v: v * 2 + 1, lambda v: v - 1, [x])
    return first, torch.cond(x.sum() > 1, lambda v: v * 3 + 1, lambda v: v - 5, [first])


BRANCHES = (one_after_another, one_in_another, viewed, handed_through, returned)


@pytest.mark.parametrize("model", BRANCHES, ids=lambda model: model.__name__)
def test_results_of_branches_stay_until_they_are_read(model: Callable[..., Any]) -> None:
    """By ExecuTorch's own plans they do not: a later body, or what follows, takes their bytes."""
    for allocated in (True, False):
        memory = memory_planning_pass(alloc_graph_input=allocated, alloc_graph_output=allocated)
        assert same_as_eager(model, [(UP,), (DOWN,)], memory)
        whole = next(arena for arena in memory.arenas if not arena.body)
        assert whole.bytes == whole.load


def test_executorchs_own_plans_lose_results_of_branches() -> None:
    """Why memplan does not keep bodies at the bottom as ExecuTorch does. If this fails, it has been mended there."""
    assert not same_as_eager(one_after_another, [(UP,)], greedy())
    assert not same_as_eager(viewed, [(UP,)], greedy())


def test_bodies_are_named_by_their_paths_and_what_greedy_needs_counts_its_own_bodies() -> None:
    memory = memory_planning_pass()
    model = exported_once(one_in_another, UP)
    program_of(model, memory)
    assert [arena.body for arena in memory.arenas][-1] == ""
    assert "submodule_0.submodule_1" in [arena.body for arena in memory.arenas]
    assert memory.arenas[0].name == "method 1, body submodule_0.submodule_0, memory 1"
    assert memory.arenas[-1].bytes < memory.arenas[-1].greedy_bytes == sizes(program_of(model, greedy()))[0][1]


@pytest.mark.parametrize("model", [one_after_another, one_in_another, handed_through], ids=lambda model: model.__name__)
def test_an_algorithm_that_does_not_know_branches_keeps_their_arenas(model: Callable[..., Any]) -> None:
    """In a pass of one's own; and where greedy may plan the graph around them, which places no results."""
    algorithm = memplan.executorch.memory_planning_algo()
    for memory in (
        greedy(memory_planning_algo=MemoryPlanningAlgorithmSuite([algorithm])),
        memory_planning_pass(fallback=True),
    ):
        assert same_as_eager(model, [(UP,), (DOWN,)], memory)
    assert {arena.body for arena in algorithm.arenas} == {""}


def test_map_and_scan_run_their_bodies_beside_what_is_alive() -> None:
    from torch._higher_order_ops.map import map as map_over
    from torch._higher_order_ops.scan import scan

    def mapped(x: Tensor, y: Tensor) -> Tensor:
        before = x.sum(0) * 3
        return map_over(lambda row, other: (row + other).relu() * 2, x, y) + before

    def scanned(x: Tensor, y: Tensor) -> Any:
        last, all_of_them = scan(lambda carry, row: ((carry + row).clone(), (carry * row).clone()), y, x)
        return last + y, all_of_them * 2

    for model in (mapped, scanned):
        memory = memory_planning_pass()
        assert same_as_eager(model, [(torch.randn(4, 8), torch.randn(8))], memory)
        assert all(arena.bytes <= arena.greedy_bytes for arena in memory.arenas)


def clones(x: Tensor) -> Tensor:
    def nested(v: Tensor) -> Tensor:
        return torch.cond(v.sum() > 0, lambda w: w.clone(), lambda w: w + 1, [v])

    first = torch.cond(x.sum() > 0, lambda v: v * 3, lambda v: v - 1, [x])
    made = torch.cond(x.sum() > 0, lambda v: v.clone(), lambda v: v - 1, [x * 2])
    again = torch.cond(x.sum() > 0, lambda v: v.clone(), lambda v: v - 1, [first])
    inside = torch.cond(x.sum() > 0, nested, lambda v: v - 1, [x * 7])
    kept = (x + 5).relu() * 3
    return (kept + made) * again + (kept * 2 + 1) * inside


@pytest.mark.parametrize("fallback", [False, True])  # True: branches keep what they return in their arenas
def test_a_result_that_is_an_operand_keeps_its_bytes(fallback: bool) -> None:
    """A pass that removes clones lets a branch return its input."""
    removed = WithoutClones()
    assert same_as_eager(clones, [(UP,), (DOWN,)], memory_planning_pass(fallback=fallback), passes=[removed])
    assert removed.count == 3


def test_operators_that_run_the_same_bodies_share_their_arena() -> None:
    """What no exporter makes yet: the second `cond` is given the branches of the first."""

    def model(x: Tensor) -> Tensor:
        other = x.exp()
        first = torch.cond(x.sum() > 0, lambda v: v * 2 + 1, lambda v: v - 1, [x])
        both = first * other + x
        return torch.cond(both.sum() > 1, lambda v: v * 2 + 1, lambda v: v - 1, [both])

    memory = memory_planning_pass()
    run = memory.run

    def merged(graph_module: torch.fx.GraphModule, signature: Any) -> Any:
        first, second = (node for node in graph_module.graph.nodes if node.target is torch.ops.higher_order.cond)
        second.args = (second.args[0], *first.args[1:3], second.args[3])
        return run(graph_module, signature)

    memory.run = merged
    assert same_as_eager(model, [(UP,), (DOWN,)], memory)
    assert [name for name in memory.plans[-1].problem.names if "bodies" in name] == ["cond: bodies"]


def test_what_a_branch_returns_twice_is_placed_once() -> None:
    """What no exporter makes: it would be in the bytes of two results."""

    def model(x: Tensor) -> Any:
        kept, early = torch.cond(x.sum() > 0, lambda v: (v * 2, v * 2), lambda v: (v - 1, v - 1), [x])
        return (x * 3).relu() * early.sum() + kept + x.exp()

    memory = memory_planning_pass()
    run = memory.run

    def doubled(graph_module: torch.fx.GraphModule, signature: Any) -> Any:
        for branch in (graph_module.submodule_0, graph_module.submodule_1):
            output = branch.graph.output_node()
            output.args, output.meta["spec"] = ((output.args[0][0],) * 2,), [output.meta["spec"][0]] * 2
        return run(graph_module, signature)

    memory.run = doubled
    assert same_as_eager(model, [(UP,), (DOWN,)], memory)


def test_what_a_branch_returns_may_lie_in_what_it_returns_too() -> None:
    def model(x: Tensor) -> Any:
        def positive(v: Tensor) -> Any:
            made = v * 2
            return made, made.clone()

        early, kept = torch.cond(x.sum() > 0, positive, lambda v: (v - 1, v - 2), [x])
        return (x * 3).relu() * early.sum() + kept + x.exp()

    memory = memory_planning_pass()
    run = memory.run

    def aliased(graph_module: torch.fx.GraphModule, signature: Any) -> Any:
        made, clone = graph_module.submodule_0.graph.output_node().meta["spec"]
        clone.storage_base = made
        return run(graph_module, signature)

    memory.run = aliased
    assert same_as_eager(model, [(UP + 1,), (DOWN,)], memory)


@pytest.mark.parametrize("model", [one_after_another, one_in_another, handed_through], ids=lambda model: model.__name__)
def test_branches_may_use_several_memories(model: Callable[..., Any]) -> None:
    def memory_of(node: torch.fx.Node) -> int:
        assert "alloc" not in node.name
        return 1 + len(node.name) % 2

    assert same_as_eager(model, [(UP,), (DOWN,)], memory_planning_pass(memory_of=memory_of))


class WithoutClones:
    """A pass that removes the clones in branches."""

    count = 0

    def __call__(self, graph_module: torch.fx.GraphModule) -> Any:
        for module in graph_module.modules():
            for node in list(module.graph.nodes) if isinstance(module, torch.fx.GraphModule) else []:
                if "clone" in str(node.target) and module is not graph_module:
                    node.replace_all_uses_with(node.args[0])
                    module.graph.erase_node(node)
                    self.count += 1
        return PassResult(graph_module, True)


class Cache(nn.Module):
    """A cache of keys that each call adds to."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("keys", torch.zeros(8, 4))
        self.made = nn.Linear(4, 4).requires_grad_(False)

    def forward(self, x: Tensor, position: Tensor) -> Tensor:
        key = self.made(x)
        self.keys.index_copy_(0, position, key)
        return (self.keys @ key.T).softmax(0)


@pytest.mark.parametrize("allocated", [True, False])
def test_state_lives_from_call_to_call(allocated: bool) -> None:
    torch.manual_seed(0)
    calls = [(torch.randn(1, 4), torch.tensor([k])) for k in range(3)]
    model = torch.export.export(Cache(), calls[0])
    names = {"emit_mutable_buffer_names": True}  # what is not placed needs one
    memory = memory_planning_pass(alloc_mutable_buffers=allocated)
    ours, theirs = (program_of(model, one, **names) for one in (memory, greedy(alloc_mutable_buffers=allocated)))
    assert sizes(ours) == sizes(theirs)
    assert ("b_keys" in memory.plans[0]) == allocated
    if allocated:
        assert all(torch.equal(a[0], b[0]) for a, b in zip(runs(ours, *calls), runs(theirs, *calls), strict=True))
        assert memory.plans[0]["b_keys"].last == memory.plans[0].problem.last.max()


class Put(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("state", torch.arange(4.0))

    def forward(self, x: Tensor) -> Tensor:
        self.state.add_(x)
        return self.state * 2


class Halve(Put):
    def forward(self, x: Tensor) -> Tensor:
        self.state.mul_(0.5)
        return (self.state + x).relu() * 3


@cache
def methods() -> dict[str, Any]:
    inputs = (torch.ones(4),)
    return {"put": torch.export.export(Put(), inputs), "halve": torch.export.export(Halve(), inputs)}


def test_methods_may_share_state(tmp_path: Path) -> None:
    memory = memory_planning_pass(share_mutable_buffers=True, capacity={2: 16})
    for _ in range(2):  # one pass, one program after another
        program = program_of(methods(), memory)
        assert sizes(program) == sizes(program_of(methods(), greedy(share_mutable_buffers=True)))
        assert [arena.method for arena in memory.arenas] == ["method 1", "method 2"]
    x = torch.ones(4)
    assert [out.tolist() for (out,) in runs(program, (x,), (x,), method="put")] == [4 * [2.0], 4 * [4.0]]
    memory.to_header(tmp_path / "planned.h")
    assert "#define SHARED_MEMORY_2_BYTES 16\n" in (tmp_path / "planned.h").read_text()
    with pytest.raises(memplan.InfeasibleError, match="shared buffers, memory 2: no plan fits a capacity of 15 bytes"):
        program_of(methods(), memory_planning_pass(share_mutable_buffers=True, capacity={2: 15}))


def test_each_method_may_have_a_pass_with_its_name() -> None:
    passes = {name: memory_planning_pass(method=name) for name in ("put", "halve")}
    program = program_of(methods(), passes)
    for name, memory in passes.items():
        assert [arena.name for arena in memory.arenas] == [f"{name}, memory 1"]
    methods_by_name = {method.name: method for method in program.executorch_program.execution_plan}
    for name, memory in passes.items():
        assert methods_by_name[name].non_const_buffer_sizes == [0, memory.arenas[0].bytes]


def test_dynamic_shapes_are_placed_by_their_upper_bounds() -> None:
    def model(x: Tensor) -> Tensor:
        return torch.cat([x * 2, x + 1], 0).relu().sum(1)

    at_most_16 = [{0: torch.export.Dim("n", max=16)}]
    model_16 = exported(model, torch.randn(5, 3), dynamic_shapes={"args": tuple(at_most_16)})
    memory = memory_planning_pass()
    program = program_of(model_16, memory)
    assert memory.plans[0]["aten_cat_default"].bytes == 2 * 16 * 3 * 4
    for n in (1, 5, 16):
        x = torch.randn(n, 3)
        assert torch.allclose(runs(program, (x,))[0][0], model(x))


def test_outputs_that_lie_in_inputs_stay_there() -> None:
    from executorch.exir.dialects._ops import ops

    def model(x: Tensor) -> Tensor:
        y = x * 2
        return torch.minimum(y, x + 1).exp() + 1

    in_place = {"run_reinplace_pass": True, "reinplace_extra_ops": frozenset({ops.edge.aten.minimum.default})}
    memory = memory_planning_pass()
    assert same_as_eager(model, [(torch.randn(8, 8),)], memory, **in_place)
    assert "aten_minimum_default" not in memory.plans[0]
    assert "aten_mul_tensor" in memory.plans[0]


@pytest.mark.slow  # imports what quantizes; test_executorch.py has padding too
def test_what_delegates_read_behind_the_plan_is_kept() -> None:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).eval(), (torch.randn(2, 8),)
    cumulative = torch.export.export(nn.Sequential(model, Cumulative()), x)
    results = []
    for memory in (memory_planning_pass(), greedy()):
        lowered = to_edge_transform_and_lower(cumulative, partitioner=[XnnpackPartitioner()])
        program = lowered.to_executorch(ExecutorchBackendConfig(memory_planning_pass=memory))
        results.append((sizes(program), runs(program, x)[0][0]))
        if not results[1:]:
            assert [arena.padding for arena in memory.arenas] == [64]
            assert sizes(program)[0][1] == memory.plans[0].peak + 64
            assert "executorch_call_delegate" in memory.plans[0]
    assert results[0][0] <= results[1][0]
    assert torch.equal(results[0][1], results[1][1])


class Cumulative(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.cumsum(x, 0) + 1


def test_a_program_above_its_capacity_is_refused_with_the_names_of_tensors() -> None:
    with pytest.raises(memplan.InfeasibleError, match="method 1, memory 1: no plan fits a capacity of 1024") as caught:
        program_of(widths()[0], memory_planning_pass(capacity="1KiB"))
    assert caught.value.buffers[0] == "aten_convolution_default"
    assert "buffer 'aten_convolution_default_1' with 8192 bytes" in str(caught.value)


@pytest.fixture
def broken() -> Any:
    """A planner that fails where there is much to place."""
    from memplan.planning import registry

    def run(problem: memplan.Problem, options: memplan.planning.Options) -> memplan.planning.Placement:
        if len(problem) > 3:
            raise RuntimeError("no luck")
        return memplan.planning.Placement([*itertools.accumulate(problem.size.tolist(), initial=0)][:-1])

    memplan.register(
        memplan.planning.PlannerInfo("broken", "fails", False, ("alignment",), "O(1)", "this test", run=run)
    )
    yield "broken"
    del registry._registered["broken"]


def test_greedy_may_plan_around_bodies_that_memplan_has_planned(broken: str) -> None:
    def model(x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda v: v * 2, lambda v: v - 1, [x]) + x

    memory = memory_planning_pass(broken, fallback=True)
    with pytest.warns(RuntimeWarning, match="greedy"):
        assert same_as_eager(model, [(UP,), (DOWN,)], memory)
    assert [arena.plan is None for arena in memory.arenas] == [False, False, True]


def test_a_planner_that_fails_is_named_or_greedy_plans_instead(broken: str) -> None:
    model, inputs = widths()
    with pytest.raises(memplan.errors.PlannerError, match=r"method 1, memory 1: .*broken.*no luck"):
        program_of(model, memory_planning_pass(broken))
    memory = memory_planning_pass(broken, fallback=True)
    edge = to_edge(model, compile_config=EdgeCompileConfig(_check_ir_validity=False))
    with pytest.warns(RuntimeWarning, match=r"no luck.*; ExecuTorch's greedy algorithm plans instead"):
        program = edge.to_executorch(ExecutorchBackendConfig(memory_planning_pass=memory))
    (arena,) = memory.arenas
    assert (arena.plan, arena.load, memory.plans) == (None, None, [])
    assert sizes(program) == [[0, arena.bytes]] == [[0, arena.greedy_bytes]]
    assert "no luck" in arena.fallback
    assert str(arena) == f"method 1, memory 1: {arena.bytes / 1024:.2f} KiB ({arena.bytes:,} bytes), by greedy"
    assert torch.allclose(runs(program, inputs)[0][0], model.module()(*inputs), atol=1e-5)


def test_executorchs_verifier_finds_nothing_wrong() -> None:
    for model in (widths()[0], torch.export.export(Cache(), (torch.randn(1, 4), torch.tensor([1])))):
        program = program_of(model, memory_planning_pass()).exported_program()
        verifier = Verifier(program.graph_module, True, True, True, program.graph_signature)
        assert verifier.verify_storage_reuse() > 0
        verifier.verify_graph_input_output()


def test_an_algorithm_without_its_suite_is_refused_by_executorch() -> None:
    algorithm = memplan.executorch.memory_planning_algo()
    with pytest.raises(TypeError):
        program_of(widths()[0], MemoryPlanningPass(memory_planning_algo=algorithm))


def test_each_memory_is_a_plan_of_its_own(tmp_path: Path) -> None:
    model, inputs = widths()

    def memory_of(node: torch.fx.Node) -> int | None:
        assert node.op != "output"
        return 3 if "convolution" in node.name or node.name.startswith("p_") else None  # weights are not placed

    memory = memory_planning_pass(memory_of=memory_of, capacity={3: "28KiB"}, method="see & tell")
    program = program_of(model, memory)
    assert [arena.memory for arena in memory.arenas] == [1, 3]
    assert all("convolution" in name for name in memory.plans[1].problem.names)
    assert sizes(program) == [[0, memory.arenas[0].bytes, 0, memory.arenas[1].bytes]]
    assert torch.allclose(runs(program, inputs)[0][0], model.module()(*inputs), atol=1e-5)
    memory.to_header(tmp_path / "planned.h")
    assert (tmp_path / "planned.h").read_text().splitlines() == [
        "#pragma once",
        "#define PLANNED_ALIGNMENT 16",
        f"#define SEE_TELL_MEMORY_1_BYTES {memory.arenas[0].bytes}",
        f"#define SEE_TELL_MEMORY_3_BYTES {memory.arenas[1].bytes}",
    ]


def test_devices_have_memories_of_their_own() -> None:
    """As `apply_algo` numbers them; nothing runs, for there is no such device."""
    memory = memory_planning_pass(capacity={2: 8192})
    run, moved = memory.run, []

    def on_device(graph_module: torch.fx.GraphModule, signature: Any) -> Any:
        for node in graph_module.graph.nodes:
            if node.name == "aten_convolution_default_1":
                moved.append(node.meta["spec"])
                node.meta["spec"].device, node.meta["spec"].device_index = DeviceType.CUDA, 0
        return run(graph_module, signature)

    memory.run = on_device
    program = program_of(widths()[0], memory)
    assert [(arena.device, arena.memory) for arena in memory.arenas] == [("CPU:0", 1), ("CUDA:0", 2)]
    assert sizes(program) == [[0, memory.arenas[0].bytes, 8192]]
    assert [(spec.mem_id, spec.mem_offset) for spec in moved] == [(2, 0)]
    assert memory.arenas[0].greedy_bytes >= memory.arenas[0].bytes
