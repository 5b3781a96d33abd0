"""torch.compile with memplan: what is added to a total is written over it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from memplan.torch.compiling.compiled import loaded_since, times_loaded  # noqa: E402
from memplan.torch.compiling.step_load import total_of  # noqa: E402
from memplan.torch.compiling.sums_in_place import scatter_over_totals  # noqa: E402

SIDE = 64
BYTES = SIDE * SIDE * 4
Function = Callable[..., Any]


def over_a_product(a: Any, b: Any, c: Any) -> Any:
    return torch.addmm(torch.mm(a, b), b, c)


def over_a_sum_of_three(a: Any, b: Any, c: Any) -> Any:
    return torch.addmm(torch.addmm(torch.mm(a, b), b, c), c, a, beta=0.5, alpha=2)


def over_an_input(a: Any, b: Any, c: Any) -> Any:
    return torch.addmm(a, b, c)


def over_what_is_read_later(a: Any, b: Any, c: Any) -> Any:
    total = torch.mm(a, b)
    return torch.mm(torch.addmm(total, b, c), total)


def over_a_factor(a: Any, b: Any, c: Any) -> Any:
    total = torch.mm(a, b)
    return torch.addmm(total, total, c)


def over_what_is_returned(a: Any, b: Any, c: Any) -> Any:
    total = torch.mm(a, b)
    return torch.addmm(total, b, c), total


def over_a_row(a: Any, b: Any, c: Any) -> Any:
    return torch.addmm(torch.mm(a, b)[0], b, c)


def scattered_to_a_product(a: Any, b: Any, c: Any) -> Any:
    return torch.mm(a, b).scatter_add(0, torch.zeros_like(c, dtype=torch.int64), c)


def scattered_to_what_is_read_later(a: Any, b: Any, c: Any) -> Any:
    total = torch.mm(a, b)
    return torch.mm(total.scatter_add(0, torch.zeros_like(c, dtype=torch.int64), c), total)


def over_its_transpose(a: Any, b: Any, c: Any) -> Any:
    return torch.addmm(torch.mm(a, b).t(), b, c)


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("function", "held"),  # squares that the graph holds at its worst step
    [
        (over_a_product, 1),
        (over_a_sum_of_three, 1),
        (over_an_input, 1),
        (over_what_is_read_later, 3),
        (over_a_factor, 2),
        (over_what_is_returned, 2),
        (over_a_row, 2),
        (over_its_transpose, 2),
        (scattered_to_a_product, 1),
        (scattered_to_what_is_read_later, 3),
    ],
)
def test_a_product_lies_over_the_total_that_it_is_added_to(function: Function, held: int) -> None:
    torch.manual_seed(0)
    given = [torch.randn(SIDE, SIDE) for _ in range(3)]
    before = [one.clone() for one in given]
    torch._dynamo.reset()
    expected = torch.compile(function)(*given)
    torch._dynamo.reset()
    begin = times_loaded()
    found = torch.compile(function, backend="memplan")(*given)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    torch.testing.assert_close(given, before, rtol=0, atol=0)
    [plan] = loaded_since(begin)
    assert max(plan.planned) == held * BYTES


def traced(function: Function, *given: Any) -> Any:
    from torch.fx.experimental.proxy_tensor import make_fx

    return make_fx(torch.func.functionalize(function), tracing_mode="fake")(*given)


@pytest.mark.parametrize(
    ("function", "is_over"),
    [
        (over_a_product, True),
        (over_an_input, False),
        (over_what_is_read_later, False),
        (over_a_factor, False),
        (scattered_to_a_product, True),
        (scattered_to_what_is_read_later, False),
    ],
)
def test_a_graph_says_what_lies_over_totals(function: Function, is_over: bool) -> None:
    graph = traced(function, *(torch.ones(4, 4) for _ in range(3))).graph
    adding = (torch.ops.aten.addmm.default, torch.ops.aten.scatter_add.default)
    [node] = [node for node in graph.nodes if node.target in adding]
    assert (total_of(node) is not None) == is_over


def rows_of(head: Any, at: Any, rows: Any) -> Any:
    zeros = torch.full((head.shape[1], rows.shape[1]), 0.0)
    return torch.mm(head.t(), rows) + torch.ops.aten._unsafe_index_put(zeros, [at], rows, True)


def rows_that_replace(head: Any, at: Any, rows: Any) -> Any:
    zeros = torch.full((head.shape[1], rows.shape[1]), 0.0)
    return torch.mm(head.t(), rows) + torch.ops.aten._unsafe_index_put(zeros, [at], rows, False)


def rows_of_ones(head: Any, at: Any, rows: Any) -> Any:
    ones = torch.full((head.shape[1], rows.shape[1]), 1.0)
    return torch.mm(head.t(), rows) + torch.ops.aten._unsafe_index_put(ones, [at], rows, True)


def rows_and_one_row(head: Any, at: Any, rows: Any) -> Any:
    zeros = torch.full((head.shape[1], rows.shape[1]), 0.0)
    return torch.mm(head[:, :1].t(), rows) + torch.ops.aten._unsafe_index_put(zeros, [at], rows, True)


@pytest.mark.parametrize(
    ("function", "sums"), [(rows_of, 0), (rows_that_replace, 1), (rows_of_ones, 1), (rows_and_one_row, 1)]
)
def test_rows_are_added_to_a_total(function: Function, sums: int) -> None:
    torch.manual_seed(0)
    given = (torch.randn(5, 9), torch.tensor([0, 3, 3, 8, 0]), torch.randn(5, 4))
    module = traced(function, *given)
    scatter_over_totals(module.graph)
    module.graph.lint()
    assert len(module.graph.find_nodes(op="call_function", target=torch.ops.aten.add.Tensor)) == sums
    module.recompile()
    torch.testing.assert_close(module(*given), function(*given))
