"""`torch.compile(model, backend="memplan", options={"budget": ...})`: what forward saves is chosen within a budget."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from functorch.compile import make_boxed_func  # noqa: E402
from torch._dynamo.backends.common import aot_autograd  # noqa: E402

import memplan  # noqa: E402
from memplan.run.inductor.budget import Partition, WithinBudget, held, within  # noqa: E402
from memplan.run.inductor.settings import settings_of  # noqa: E402
from test_estimate import peak  # noqa: E402
from test_run_checkpoint import squares, transformer  # noqa: E402

WITHOUT = 10**12


def compiled(model: Any, budget: int, found: list[tuple[int, int]]) -> Any:
    """A model whose graphs run op by op, partitioned within a budget; the bytes that forward and backward hold."""

    class Noted(WithinBudget):
        def __call__(self, gm: Any, joint_inputs: Any, **kwargs: Any) -> Any:
            graphs = super().__call__(gm, joint_inputs, **kwargs)
            found.append((held(graphs[0]), held(graphs[1])))
            return graphs

    def as_it_is(graph: Any, inputs: Any) -> Any:
        return make_boxed_func(graph.forward)

    torch._dynamo.reset()
    return torch.compile(model, backend=aot_autograd(fw_compiler=as_it_is, partition_fn=Noted(budget)))


def step(model: Any, module: Any, x: Any) -> tuple[int, list[Any]]:
    """The peak of a second step of a model without chance, and its gradients."""
    squares(model(x)).backward()
    module.zero_grad()
    real = peak(lambda: squares(model(x)).backward())
    gradients = [p.grad.clone() for p in module.parameters()]
    module.zero_grad()
    return real, gradients


def test_forward_and_backward_are_within_the_budget_and_gradients_equal() -> None:
    module, x = transformer()
    module.eval()
    found: list[tuple[int, int]] = []
    usual, gradients = step(compiled(module, WITHOUT, found), module, x)
    budget = max(found[0]) * 6 // 10
    real, again = step(compiled(module, budget, found), module, x)
    assert max(found[1]) <= budget < max(found[0])
    assert all(map(torch.equal, gradients, again))
    assert real < 0.9 * usual


def test_too_small_a_budget_says_what_is_needed() -> None:
    module, x = transformer()
    with pytest.raises(Exception, match=r"no partition of the graph was found that fits 1,000 bytes; the least found"):
        squares(compiled(module, 1000, [])(x)).backward()


def cut_of(peaks: dict[float, tuple[int, float]], nodes: dict[str, float]) -> Any:
    """A partitioner that knows peaks and costs by share; what is saved by name costs and holds as it says."""

    def cut(share: float, solver: Any = None) -> Partition:
        if solver is not None and solver.again is None:
            solver.cost, solver.again = nodes, frozenset(nodes)
        elif solver is not None:
            saved = set(nodes) - solver.again
            return Partition(None, 100 + 10 * len(saved), sum(nodes[n] for n in solver.again))  # type: ignore[arg-type]
        nearest = min(peaks, key=lambda known: abs(known - share))
        return Partition(None, *peaks[nearest])  # type: ignore[arg-type]

    return cut


def test_the_cheapest_that_fits_is_taken_and_what_is_dear_is_saved_where_it_fits() -> None:
    nodes = {"a": 1.0, "b": 50.0, "c": 3.0}
    cut = cut_of({1.0: (400, 0.0), 0.5: (150, 60.0), 0.0: (300, 54.0)}, nodes)
    assert within(cut, 400).cost == 0
    assert within(cut, 120) == Partition(None, 120, 50.0)  # type: ignore[arg-type]
    assert within(cut, 150) == Partition(None, 130, 0.0)  # type: ignore[arg-type]
    with pytest.raises(memplan.InfeasibleError, match="the least found holds 120 at once"):
        within(cut, 50)


def test_the_budget_is_an_option_and_part_of_the_keys_of_caches() -> None:
    small, large = (settings_of({"budget": size}, {}, set())[0] for size in ("1MiB", "2MiB"))
    assert small.budget == 2**20
    assert small.key != large.key
    assert WithinBudget(1).uuid() != WithinBudget(2).uuid()
    with pytest.raises(ValueError, match="budget"):
        settings_of({"budget": "much"}, {}, set())


@pytest.mark.slow
def test_kernels_of_inductor_stay_within_the_budget() -> None:
    module, _ = transformer()
    x = torch.randn(2048, 32)
    module.eval()
    torch._dynamo.reset()
    usual, gradients = step(torch.compile(module, backend="memplan"), module, x)
    torch._dynamo.reset()
    budget = usual * 7 // 10
    real, again = step(torch.compile(module, backend="memplan", options={"budget": budget}), module, x)
    assert real <= 1.02 * budget
    for one, other in zip(gradients, again, strict=True):
        torch.testing.assert_close(one, other)
