"""What binds the order of torch's ops besides data: tensors that are written to, and random numbers."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, fx, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

import memplan
from builders.paths import DATA
from builders.torch_effects import ARGS, Norms, call_of, overloads, random_program
from memplan.torch.reading import import_torch
from memplan.torch.reading.effects import UPDATES, flat_tensors, mutated
from memplan.torch.reading.scopes import scoped_name

Graph = Mapping[str, Any]


# Every operator that writes to an argument


class Call(nn.Module):
    """Reads what an operator writes to, calls it, and reads it again; each time by another view."""

    def __init__(self, func: Any, dtype: torch.dtype) -> None:
        super().__init__()
        self.func, self.dtype = func, dtype

    def forward(self) -> list[Tensor]:
        args, kwargs = call_of(self.func, self.dtype)
        written = mutated(self.func, args, kwargs)
        before = [tensor[1:].clone() for tensor in written]
        self.func(*args, **kwargs)
        return before + [torch.ops.aten.alias(tensor).clone() for tensor in written]


def works(func: Any, dtype: torch.dtype) -> bool:
    try:
        with torch.device("meta"):  # fake tensors report at length what does not work
            Call(func, dtype)()
        with FakeTensorMode():
            Call(func, dtype)()
    except Exception:
        return False
    return True


def is_out(func: Any) -> bool:
    return any(argument.kwarg_only and argument.alias_info for argument in func._schema.arguments)


# What these change lies beside the bytes of a tensor
UNCHANGED = {"aten::detach_", "aten::requires_grad_", "aten::set_", "aten::set_data"}


def mutating_calls() -> dict[str, Call]:
    """A call for each operator of aten that writes to an argument and runs without data; of `out=` a twentieth."""
    mutating = [func for func in overloads() if func._schema.is_mutable and func._schema.name not in UNCHANGED]
    taken = [func for func in mutating if not is_out(func)] + [func for func in mutating if is_out(func)][::20]
    calls: dict[str, Call] = {}
    for func in taken:
        dtype = next((d for d in (torch.float32, torch.int64, torch.bool) if works(func, d)), None)
        if dtype is not None:
            calls[str(func).replace(".", "_")] = Call(func, dtype)
    return calls


def earlier(graph: Graph) -> dict[str, set[str]]:
    """The ops that come before each op in every order that data and `after` allow."""
    maker = {name: op["name"] for op in graph["ops"] for name in op["outputs"]}
    found: dict[str, set[str]] = {}
    for op in graph["ops"]:
        direct = {maker[name] for name in op["inputs"] if name in maker} | set(op.get("after", ()))
        found[op["name"]] = direct.union(*(found[name] for name in direct))
    return found


class Calls(nn.Module):
    def __init__(self, calls: Mapping[str, Call]) -> None:
        super().__init__()
        self.calls = nn.ModuleDict(calls)

    def forward(self, x: Tensor) -> list[Tensor]:
        return [x, *(tensor for call in self.calls.values() for tensor in call())]


def is_anew(graph: Graph, readers: list[str]) -> bool:
    """Whether what these ops read was made anew, and not written over what others read."""
    read = {name for op in graph["ops"] if op["name"] in readers for name in op["inputs"]}
    roots = {alias["input"] for op in graph["ops"] for alias in op.get("alias", ()) if alias["output"] in read} | read
    makers = [op for op in graph["ops"] if roots & set(op["outputs"]) and not op.get("alias")]
    return any(op["name"].rpartition(".")[2].rpartition("_")[0] and "inplace" in op for op in makers)


@pytest.mark.slow
def test_what_reads_before_an_operator_writes_comes_first_and_what_reads_later_comes_after() -> None:
    calls = mutating_calls()
    assert len(calls) > 300
    graph = import_torch(Calls(calls), args=(torch.zeros(1),))
    before = earlier(graph)
    for name in calls:
        clones = [op["name"] for op in graph["ops"] if op["name"].startswith(f"calls.{name}.clone")]
        half = len(clones) // 2
        if is_anew(graph, clones[half:]):
            continue
        assert all(old in before[new] for old, new in zip(clones[:half], clones[half:], strict=True)), name


# Legal orders give the same results


def with_edges(module: fx.GraphModule, graph: Graph, edges: bool = True) -> dict[fx.Node, set[fx.Node]]:
    """What has to run before each node: what makes its arguments, and what the imported graph says."""
    node_of: dict[str, fx.Node] = {}
    for node in module.graph.nodes:
        name = scoped_name(node) if node.op != "output" else "output"
        called = sum(other.rpartition("_")[0] == name for other in node_of)
        node_of[f"{name}_{called + 1}" if name in node_of else name] = node
    maker = {name: op["name"] for op in graph["ops"] for name in op["outputs"]}
    before = {node: set(node.all_input_nodes) for node in module.graph.nodes}
    if edges:
        for op in graph["ops"]:
            names = {maker[name] for name in op["inputs"] if name in maker} | set(op.get("after", ()))
            before[node_of[op["name"]]] |= {node_of[name] for name in names}
    return before


def random_order(before: Mapping[fx.Node, set[fx.Node]], rng: random.Random) -> list[fx.Node]:
    """One of the orders in which every node comes after those that have to run before it."""
    waiting, order, done = list(before), [], set()
    while waiting:
        ready = [node for node in waiting if node.op != "output" and before[node] <= done] or waiting
        node = rng.choice(ready)
        waiting.remove(node)
        order.append(node)
        done.add(node)
    return order


def results(module: fx.GraphModule, order: list[fx.Node], args: tuple[Tensor, ...]) -> list[Tensor]:
    """What the graph returns, and leaves in its inputs and state, if its nodes run in this order."""
    module = copy.deepcopy(module)
    given = [tensor.clone() for tensor in args]
    run = fx.Interpreter(module)
    run.args_iter = iter(given)
    own = {node.name: node for node in module.graph.nodes}
    torch.manual_seed(0)
    with torch.no_grad():
        for node in module.graph.find_nodes(op="placeholder"):
            run.env[node] = run.run_node(node)
        for node in (own[node.name] for node in order if node.op != "placeholder"):
            run.env[node] = run.run_node(node)
    result = run.env[own["output"]]
    return [*flat_tensors(result), *given, *module.buffers()]


def same_in_any_order(module: fx.GraphModule, args: tuple[Tensor, ...], edges: bool = True, orders: int = 4) -> bool:
    graph = import_torch(module, args=args)
    before = with_edges(module, graph, edges)
    expected = results(module, list(module.graph.nodes), args)
    rng = random.Random(0)
    for _ in range(orders):
        got = results(module, random_order(before, rng), args)
        if not all(torch.equal(a, b) for a, b in zip(got, expected, strict=True)):
            return False
    return True


def traced(seed: int) -> fx.GraphModule:
    module = make_fx(random_program(seed))(*(tensor.clone() for tensor in ARGS))
    assert isinstance(module, fx.GraphModule)
    return module


@pytest.mark.few(3)
@pytest.mark.parametrize("seed", range(15))
def test_legal_orders_of_a_traced_graph_compute_the_same(seed: int) -> None:
    assert same_in_any_order(traced(seed), ARGS)


def exported_norms() -> fx.GraphModule:
    return torch.export.export(Norms(), ARGS).module()


def functional_norms() -> fx.GraphModule:
    return torch.export.export(Norms(), ARGS).run_decompositions({}).module()


def symbolic_norms() -> fx.GraphModule:
    return fx.symbolic_trace(Norms())


NORMS = [exported_norms, functional_norms, symbolic_norms]


@pytest.mark.parametrize("build", NORMS)
def test_legal_orders_of_a_net_with_state_compute_the_same(build: Any) -> None:
    assert same_in_any_order(build(), ARGS)


@pytest.mark.slow
def test_without_the_edges_of_mutation_and_chance_they_do_not() -> None:
    assert sum(not same_in_any_order(traced(seed), ARGS, edges=False) for seed in range(8)) >= 6
    assert not same_in_any_order(exported_norms(), ARGS, edges=False)


# One by one


class Function(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Tensor) -> Any:
        return self.function(*args)


def ops_of(function: Any, *args: Tensor) -> dict[str, Any]:
    graph = import_torch(function if isinstance(function, nn.Module) else Function(function), args=args or ARGS)
    return {op["name"].removeprefix("function."): op for op in graph["ops"]}


def test_batch_norm_in_training_writes_its_running_statistics() -> None:
    ops = ops_of(Norms())
    norm = ops["bn.native_batch_norm"]
    assert {"bn.running_mean", "bn.running_var"} <= {view["input"] for view in norm["alias"]}
    assert norm["after"][-2:] == ["mul", "add"]
    assert "alias" not in ops_of(Norms().eval())["bn.native_batch_norm"]


def test_every_operator_with_running_statistics_says_that_it_writes_them_or_is_listed_or_does_not() -> None:
    silent = {
        func._schema.name.removeprefix("aten::")
        for func in overloads()
        if func._overloadname == "default"
        for argument in func._schema.arguments
        if argument.name == "running_mean" and argument.alias_info is None
    }
    functional = {name for name in silent if name.endswith(("_backward", "_functional", "no_training", "no_update"))}
    composite = {"batch_norm", "instance_norm", "_batch_norm_impl_index"}  # run as operators of the list
    assert silent - functional - composite == {name.removeprefix("aten::") for name in UPDATES}


def test_random_numbers_are_drawn_in_order() -> None:
    ops = ops_of(lambda x, y: (torch.rand(3), x + 1, nn.functional.dropout(y), torch.randn(2)))
    assert [name for name, op in ops.items() if op.get("after")] == ["bernoulli_", "randn"]
    assert ops["bernoulli_"]["after"] == ["rand"]
    assert ops["randn"]["after"] == ["bernoulli_"]


def test_generators_do_not_wait_for_each_other() -> None:
    own = torch.Generator()
    ops = ops_of(lambda x, y: (torch.rand(3), torch.rand(3, generator=own), torch.rand(3), x.uniform_(generator=own)))
    assert {name: op.get("after") for name, op in ops.items()} == {
        "rand": None,
        "rand_1": None,
        "rand_2": ["rand"],
        "uniform_": ["rand_1"],
    }


def test_attention_without_dropout_draws_nothing() -> None:
    q = torch.zeros(1, 2, 4, 8)
    attend = nn.functional.scaled_dot_product_attention
    assert not any(op.get("after") for op in ops_of(lambda q: (attend(q, q, q), attend(q, q, q)), q).values())


def test_a_node_draws_what_the_operators_inside_it_draw() -> None:
    def run(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        return nn.functional.dropout(x), nn.functional.dropout(y)

    module = fx.symbolic_trace(run)
    assert ops_of(module)["dropout_1"]["after"] == ["dropout"]


@torch.library.custom_op("memplan_effects::double_", mutates_args={"x"})
def double_(x: Tensor) -> None:
    x.mul_(2)


def test_operators_of_others() -> None:
    def run(x: Tensor, y: Tensor) -> list[Tensor]:
        z = x + y
        before = z.sum()
        torch.ops.memplan_effects.double_(z.t())
        return [before, z * 3]

    ops = ops_of(run)
    assert ops["double_"]["after"] == ["sum"]
    assert ops["mul"]["inputs"] == ["add", "double_"]


def test_a_body_that_writes_to_what_it_is_given() -> None:
    """Which of the operands it writes to is not known: it comes after all that read one of them."""

    class Branches(nn.Module):
        def forward(self, p: Tensor, x: Tensor) -> tuple[Tensor, ...]:
            return x.sum(), torch.cond(p, lambda a: a.sin(), lambda a: a.cos(), (x,)), x.exp()

    module = torch.export.export(Branches(), (torch.tensor(True), ARGS[0])).module()
    body = module.get_submodule("true_graph_0")
    node = next(node for node in body.graph.nodes if node.target is torch.ops.aten.sin.default)
    assert ops_of(module, torch.tensor(True), ARGS[0])["exp"]["inputs"] == ["x"]
    node.target = torch.ops.aten.sin_.default
    ops = ops_of(module, torch.tensor(True), ARGS[0])
    assert ops["cond"]["after"] == ["sum_1"]
    assert set(ops["exp"]["inputs"]) <= set(ops["cond"]["outputs"])


SHIPPED = sorted([*(Path(memplan.__file__).parent / "examples").glob("*.json"), *(DATA / "torch").glob("*.json")])


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_the_graphs_that_are_shipped_order_what_writes(path: Path) -> None:
    graph = json.loads(path.read_text())
    before, written = earlier(graph), 0
    for position, op in enumerate(graph["ops"]):
        if not op["type"].partition(".")[2].partition(".")[0].endswith("_"):
            continue
        written += 1
        for place, other in enumerate(graph["ops"]):
            if place != position and op["inputs"][0] in other["inputs"]:
                first, second = sorted([position, place])
                assert graph["ops"][first]["name"] in before[graph["ops"][second]["name"]]
    assert written > 0 or path.stem in ("gpt2_infer", "bert_b8_infer")
