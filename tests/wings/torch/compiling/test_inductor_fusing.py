"""Budgets of torch.compile: what counts as one loop, and what is written for others."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from sympy import Integer  # noqa: E402
from torch._inductor.dependencies import MemoryDep, WeakDep  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

from memplan.sizes import Budget  # noqa: E402
from memplan.torch.compiling import attempts, compiling, fusing, step_load, without_kernels  # noqa: E402
from memplan.torch.compiling.budget import within  # noqa: E402
from memplan.torch.compiling.compiled import Loaded, loaded, loaded_since, times_loaded  # noqa: E402
from memplan.torch.compiling.early_sums import write_sums  # noqa: E402
from memplan.torch.compiling.floor import NONE  # noqa: E402
from memplan.torch.compiling.forward_outputs import Step  # noqa: E402
from memplan.torch.compiling.part_copies import copy_parts  # noqa: E402
from memplan.torch.compiling.partitions import Partition  # noqa: E402
from memplan.torch.compiling.settings import Settings, settings_of  # noqa: E402


@pytest.mark.parametrize(("read", "far", "written"), [(2, True, True), (1, True, False), (2, False, False)])
def test_a_sum_is_written_where_that_frees_bytes(read: int, far: bool, written: bool) -> None:
    """Not where another op reads what is added, nor where the sum is read soon."""

    def compute(x: Any, y: Any) -> Any:
        one, other = x.mm(y), y.mm(x)
        total, between = one + other, x
        for _ in range(20 if far else 2):
            between = between.sin()
        return total + between, one if read == 1 else x

    nodes = traced(compute, torch.randn(8, 8), torch.randn(8, 8))
    write_sums(nodes["mm"].graph, {*nodes})
    assert (step_load.IN_MEMORY in nodes["add"].meta) == written
    assert nodes["add"] in step_load.in_registers([*nodes.values()]) or written
    assert len(step_load.written_over(nodes["add"], set())) == 2  # either of what is added


def test_what_inductor_fuses_is_not_counted_apart() -> None:
    """The usual graphs hold 158 bytes when fused, and 395 before: a budget of 158 is enough, and half of it is half."""
    asked: list[tuple[int, int]] = []

    def planned(graph: Any, inputs: Any, settings: Any, patches: Any) -> Any:
        by = patches.get("custom_partitioner_fn")
        asked.append((by._budget, by._usual) if by else (0, 0))
        loaded(Loaded("forward", {"cpu": {"planned": by._budget if by else 158}}, []).to_text())
        return "found"

    graph = torch.fx.symbolic_trace(torch.nn.Identity())
    for budget, expected in ((158, [(0, 0)] * 2), (79, [(0, 0), (79, 158), (79, 158)])):
        asked.clear()
        assert attempts.within(planned, graph, (), settings_of({}, {}, set())[0], {}, Budget("", budget)) == "found"
        assert asked == expected
    wanted: list[int] = []

    class Known:
        def usual(self) -> Any:
            return 395, NONE

        def within(self, capacity: int) -> Any:
            wanted.append(capacity)
            return Partition((None, None), capacity, 1.0)  # type: ignore[arg-type]

    assert within(Known(), 79, 158).peak == 395 // 2 == wanted[0]
    assert within(Known(), 79).peak == 79


def test_ops_that_are_far_apart_are_not_fused(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor.scheduler import Scheduler

    monkeypatch.setattr(Scheduler, "can_fuse", lambda *_: True)
    monkeypatch.setattr(Scheduler, "can_fuse", fusing.near(Scheduler.can_fuse, compiling._fuse_within))

    def fused(first: tuple[int, int], second: tuple[int, int], settings: Settings) -> bool:
        orders = (first, second)
        one, other = (SimpleNamespace(min_order=low, max_order=high, get_nodes=list) for low, high in orders)
        with compiling._planning(settings, Step(), set()):
            both = {Scheduler.can_fuse(None, one, other), Scheduler.can_fuse(None, other, one)}
        assert len(both) == 1
        return both.pop()

    assert fused((3, 3), (90, 90), Settings())
    near = Settings(fuse_within=16)
    assert fused((3, 3), (19, 19), near)
    assert not fused((3, 3), (20, 20), near)
    assert not fused((3, 4), (15, 20), near)  # what was fused reaches too far
    assert Scheduler.can_fuse(None, None, None)  # other backends compile as ever


@pytest.mark.parametrize(("total", "added", "together"), [(1000, 999, False), (1000, 1000, True)])
def test_a_total_that_is_larger_is_not_there_while_summands_are_made(
    monkeypatch: pytest.MonkeyPatch, total: int, added: int, together: bool
) -> None:
    from torch._inductor.virtualized import V

    to = SimpleNamespace(get_numel=lambda: total, get_dtype=lambda: torch.float32)
    monkeypatch.setattr(fusing, "_totals", lambda node: [(to, added, torch.float32)] if node.scatters else [])
    plain, scatter = (SimpleNamespace(min_order=0, max_order=0, scatters=scatters) for scatters in (False, True))
    can_fuse = fusing.near(lambda *_: True, lambda: 16)
    with V.set_graph_handler(SimpleNamespace(sizevars=sizes())):
        assert can_fuse(None, plain, plain)
        assert can_fuse(None, plain, scatter) == can_fuse(None, scatter, plain) == together


@pytest.mark.parametrize(
    ("reader", "staying", "together"),
    [("c", 64, False), ("OUTPUT", 64, False), ("c", 4, True), ("b", 64, True)],
    ids=["others read both", "the caller gets one", "one is small", "one is for the other"],
)
def test_loops_that_both_write_for_others_are_not_fused(reader: str, staying: int, together: bool) -> None:
    from torch._inductor.virtualized import V

    bytes = {"x": 64, "a": staying, "b": 64}

    def loop(name: str, read: str, reader: str) -> Any:
        made = SimpleNamespace(get_name=lambda: name, users=[SimpleNamespace(get_name=lambda: reader, is_weak=False)])
        reads = [MemoryDep(read, Integer(0), (), ()), WeakDep("not a tensor", "b")]
        return SimpleNamespace(
            get_operation_names=lambda: {name},
            get_outputs=lambda: [made],
            read_writes=SimpleNamespace(reads_and_writes=lambda: iter(reads)),
        )

    graph = SimpleNamespace(get_numel=bytes.__getitem__, get_dtype=lambda _: torch.uint8, sizevars=sizes())
    one, other = loop("a", "x", reader), loop("b", "a" if reader == "b" else "x", "d")
    can_fuse = fusing.one_at_a_time(lambda *_: True, compiling._fuses_writers)
    with V.set_graph_handler(graph):
        assert can_fuse(None, one, other)
        with compiling._planning(Settings(fuse_writers=False), Step(), set()):
            assert can_fuse(None, one, other) == can_fuse(None, other, one) == together


def sizes() -> Any:
    return SimpleNamespace(optimization_hint=lambda size, fallback: size)


@pytest.mark.parametrize(("own", "read", "kept"), [(65, [32, 32], False), (64, [32, 32], True), (1, [], False)])
def test_what_is_larger_than_what_it_is_computed_of_is_not_kept(own: int, read: list[int], kept: bool) -> None:
    from torch._inductor.virtualized import V

    loops = SimpleNamespace(
        get_read_names=lambda: range(len(read)), get_numel=lambda: own, get_dtype=lambda: torch.float32
    )
    graph = SimpleNamespace(get_numel=lambda k: read[k], get_dtype=lambda k: torch.float32, sizevars=sizes())
    keeps, box = fusing.unless_larger(lambda *_: True, compiling._fuse_within), SimpleNamespace(data=loops)
    with V.set_graph_handler(graph):
        assert keeps(box, 2)
        with compiling._planning(Settings(fuse_within=16), Step(), set()):
            assert keeps(box, 2) == kept
    assert not fusing.unless_larger(lambda *_: False, compiling._fuse_within)(box, 2)


def traced(compute: Any, *inputs: Any) -> dict[str, Any]:
    """The nodes of a function's graph, by name."""
    graph = make_fx(compute, tracing_mode="fake")(*inputs).graph
    return {node.name: node for node in graph.nodes}


def test_what_parts_of_one_op_read_is_computed_there_too() -> None:
    """As sigmoid in backward of SiLU."""

    def compute(x: Any, y: Any) -> Any:
        s = y.sigmoid()
        return (x * s) * (1 - s), x.exp().mm(y)

    nodes = traced(compute, torch.randn(8, 8), torch.randn(8, 8))
    inside = step_load.in_registers([*nodes.values()])
    assert {node.name for node in inside} == {"sigmoid", "mul", "rsub"}
    parts = [node.name for node in step_load.parts_of(nodes["mul_1"], inside)]
    assert parts[0] == "mul_1"
    assert parts[-1] == "sigmoid"
    assert sorted(parts) == ["mul", "mul_1", "rsub", "sigmoid"]
    apart = step_load.in_registers([*nodes.values()], lambda node, user: user.name == "rsub")
    assert {node.name for node in apart} == {"mul", "rsub"}


def test_elementwise_ops_of_prims_are_fused() -> None:
    """As in the backward of softmax, and between precisions. Inductor fuses what is counted so."""

    def compute(x: Any, y: Any) -> Any:
        less = torch.ops.prims.convert_element_type.default(x.sin(), torch.float32)
        return torch.ops.prims.fma.default(less, y, less * 2).mm(y)

    x, y = torch.randn(8, 8, dtype=torch.float64), torch.randn(8, 8)
    nodes, before = traced(compute, x, y), times_loaded()
    inside = step_load.in_registers([*nodes.values()])
    assert {node.name for node in inside} == {"sin", "convert_element_type", "mul"}
    over = [step_load.written_over(node, inside) for node in nodes.values() if node.name.startswith("fma")]
    assert over == [[*step_load.storages(nodes["y_1"])]]
    with without_kernels.without_kernels():
        compiling._planned(set(), make_fx(compute)(x, y), (x, y), Settings(), {})
    [graph] = loaded_since(before)
    assert graph.figures["cpu"]["default"] == 2 * y.nbytes  # the factor and the product


def test_what_is_computed_row_by_row_may_be_one_loop() -> None:
    """As a softmax, whose largest numbers and sums are of rows; sums of columns need all rows."""

    def compute(x: Any, y: Any) -> Any:
        rows = (x - x.amax(1, keepdim=True)).exp()
        return rows / rows.sum(-1, keepdim=True), (y / y.sum(0)).mm(y)

    nodes = traced(compute, torch.randn(8, 8), torch.randn(8, 8))
    assert {node.name for node in step_load.in_registers([*nodes.values()])} == {"sub"}
    inside = step_load.in_registers([*nodes.values()], rows=True)
    assert {node.name for node in inside} == {"amax", "sub", "exp", "sum_1"}


def test_what_is_gathered_and_put_together_is_computed_in_one_loop() -> None:
    """As an image that is made larger beside another, and the gradient of that; not what has to be there before."""

    def compute(x: Any, y: Any, places: Any) -> Any:
        both = torch.cat([x[places] * 2, y.exp(), x.mm(y)])
        return both.mm(x), y.tanh().index_put([places], x.sin(), accumulate=True).mm(x)

    nodes = traced(compute, torch.randn(8, 8), torch.randn(8, 8), torch.arange(8))
    inside = step_load.in_registers([*nodes.values()])
    assert {node.name for node in inside} == {"index", "mul", "exp", "sin"}


@pytest.mark.parametrize(("split", "again", "copied"), [(16, False, True), (8, False, False), (16, True, False)])
def test_a_small_part_that_is_read_after_the_rest_is_copied(split: int, again: bool, copied: bool) -> None:
    """Not where it is more than half, nor where the rest is read once more."""

    def compute(x: Any, y: Any) -> Any:
        whole = x.mm(y)
        rest, late = whole[:, :split], whole[:, split:]
        return rest.exp().mm(y.t()[:split]), late.sin(), rest.cos() if again else x

    given = (torch.randn(8, 8), torch.randn(8, 24))
    nodes = traced(compute, *given)
    graph = nodes["mm"].graph
    assert copy_parts(graph, {"mm"}) == copied
    order = [*graph.nodes]
    for clone in graph.find_nodes(op="call_function", target=torch.ops.aten.clone.default):
        assert order.index(clone) < order.index(nodes["exp"])
        assert [*clone.users] == [nodes["sin"]]
        assert clone not in step_load.in_registers(order)
    changed = torch.fx.GraphModule({}, graph)(*given)
    assert all(map(torch.equal, compute(*given), changed))


def test_elementwise_ops_are_written_over_what_they_read_but_for_given_gradients() -> None:
    def compute(primals: Any, tangents: Any) -> Any:
        y = primals.mm(primals)
        return (tangents * 2).mm(primals), y.view(64).exp(), y.sum()

    nodes = traced(compute, torch.randn(8, 8), torch.randn(8, 8))
    over = {name: step_load.written_over(node, set()) for name, node in nodes.items() if node.op == "call_function"}
    assert over["exp"] == [*step_load.storages(nodes["mm"])]
    assert over["mul"] == over["sum_1"] == over["mm"] == []


def test_loops_are_functions_of_their_own() -> None:
    """What a function takes is there while it runs: also what its first loop alone reads."""
    ready = fusing.alone(lambda _: False, compiling._fuse_within)
    assert not ready(None)
    for settings, alone in ((Settings(), False), (Settings(fuse_within=16), True)):
        with compiling._planning(settings, Step(), set()):
            assert ready(None) == alone
