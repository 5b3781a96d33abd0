"""Numbers that depend on no input are known while a network is traced, and code may branch on them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402

import memplan  # noqa: E402

X = torch.randn(3, 8, generator=torch.Generator().manual_seed(0))


class Module(torch.nn.Module):
    """Runs a function of its weight and its input."""

    def __init__(self, function: Callable[[Any, Tensor], Any]) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(8, 8)
        self.function = function

    def forward(self, x: Tensor) -> Any:
        return self.function(self, self.layer(x))


def packed(_: Any, x: Tensor) -> Tensor:
    """As models of language look for sequences that begin within one."""
    positions = torch.arange(8).unsqueeze(0).expand(3, -1)
    begins = (torch.diff(positions, prepend=positions[:, :1] - 1, dim=-1) != 1).cumsum(-1)
    return x.relu() if (begins[:, -1] == 0).all() else x.tanh()


def numbers(_: Any, x: Tensor) -> Tensor:
    steps = torch.arange(1, 4)
    return x * int(steps[2]) if torch.equal(steps, steps.clone()) and steps.tolist() == [1, 2, 3] else x.tanh()


def written(_: Any, x: Tensor) -> Tensor:
    mask = torch.ones(8, dtype=torch.bool)
    mask[4:] = False
    mask[:2].logical_not_()
    return x.masked_fill(mask, 0.0).relu() if int(mask.sum()) == 2 else x.tanh()


def returned(_: Any, x: Tensor) -> Any:
    positions = torch.arange(8)
    return {"out": x + positions, "positions": positions, "later": positions[2:]}


def kept(module: Any, x: Tensor) -> Tensor:
    module.positions = torch.arange(8)
    return x * module.positions


@pytest.mark.parametrize("function", [packed, numbers, returned, kept])
def test_code_branches_as_in_eager_and_runs_equal(function: Any) -> None:
    module = Module(function)
    plan = memplan.plan(module, args=(X,))
    assert not any("tanh" in op.type for op in plan.graph.ops)
    assert not hasattr(module, "positions")
    expected, found = module(X), plan.run(X).outputs
    if isinstance(expected, dict):
        assert expected.keys() == found.keys()
        assert all(torch.equal(found[key], expected[key]) for key in expected)
    else:
        assert torch.equal(found, expected)


@pytest.mark.parametrize("function", [packed, numbers])
def test_training(function: Any) -> None:
    module = Module(function)
    run = memplan.plan(module, args=(X,), train=True).run(X)
    loss = module(X).sum()
    loss.backward()
    assert torch.equal(run.loss, loss)
    assert all(torch.equal(run.gradients[name], p.grad) for name, p in module.named_parameters())


def test_attention_without_a_mask_keeps_few_heads() -> None:
    """As eager torch: keys and values are not repeated where no mask has to be made."""

    def attention(_: Any, x: Tensor) -> Tensor:
        positions = torch.arange(x.shape[0])
        begins = positions.diff().ne(1).any()
        mask = torch.ones(x.shape[0], x.shape[0], dtype=torch.bool).tril() if begins else None
        heads = x.view(1, 4, -1, 2)
        few = heads[:, :2]
        if mask is not None:
            few = few.repeat_interleave(2, 1)
        attend = torch.nn.functional.scaled_dot_product_attention
        return attend(heads, few, few, mask, is_causal=mask is None, enable_gqa=mask is None)

    module = Module(attention)
    plan = memplan.plan(module, args=(X,))
    assert torch.equal(plan.run(X).outputs, module(X))
    assert not any("index" in op.type or "tril" in op.type for op in plan.graph.ops)


def shrunk(_: Any, x: Tensor) -> Tensor:
    places = torch.arange(8)
    places.resize_(2)
    return x[: places.shape[0]]


def reshaped(_: Any, x: Tensor) -> Tensor:
    places = torch.arange(8)
    places.mul_(x[0].long()).unsqueeze_(1)
    return x * places.shape[-1]


def replaced(_: Any, x: Tensor) -> Tensor:
    places = torch.arange(8)
    places.data = torch.zeros(8, dtype=torch.int64)
    return x + places


def copied(module: Any, x: Tensor) -> Tensor:
    places = torch.ops.aten.lift_fresh_copy(module.places)
    return x + places.add_(1)


def shared(_: Any, x: Tensor) -> Tensor:
    places = torch.arange(8)
    torch.from_numpy(places.numpy()[2:]).add_(1)
    return x + places


def caught(_: Any, x: Tensor) -> Tensor:
    places = torch.arange(8)
    try:
        places.mul_(2)
    except Exception:
        return x
    return x + places


@pytest.mark.parametrize("function", [shrunk, reshaped, replaced, copied, caught])
def test_what_is_written_is_as_if_nothing_had_been_known(function: Any) -> None:
    module = Module(function)
    module.places = torch.arange(8)
    assert torch.equal(memplan.plan(module, args=(X,)).run(X).outputs, module(X))
    assert torch.equal(module.places, torch.arange(8))
    training = memplan.plan(module, args=(X,), train=True).run(X)
    assert torch.equal(training.loss, module(X).sum())


def test_writes_that_are_not_seen_raise() -> None:
    def by_numpy(_: Any, x: Tensor) -> Tensor:
        places = torch.arange(8)
        places.numpy()[1] = 7
        return x + places

    for function in (by_numpy, shared):
        with pytest.raises(memplan.errors.SourceError, match="numpy"):
            memplan.plan(Module(function), args=(X,))


ARRAY = np.arange(8)


def arrays(_: Any, x: Tensor) -> Tensor:
    return x + torch.as_tensor(ARRAY).add_(1)


def test_memory_of_numpy_stays_as_it_is() -> None:
    before = ARRAY.copy()
    memplan.plan(Module(arrays), args=(X,))
    assert (before == ARRAY).all()


def by_input(_: Any, x: Tensor) -> Tensor:
    mask = torch.ones(8, dtype=torch.bool)
    mask[2:].logical_and_(x[0, 2:] > 0)
    return x.relu() if mask.all() else x


def by_input_through_a_large_view(_: Any, x: Tensor) -> Tensor:
    mask = torch.ones(8, dtype=torch.bool)
    mask.expand(10_000, 8)[0].logical_and_(x[0] > 0)
    return x.relu() if mask.all() else x


def as_a_list(_: Any, x: Tensor) -> Tensor:
    mask = torch.ones(8, dtype=torch.bool)
    mask.logical_and_(x[0] > 0)
    return x * len(mask.tolist())


def drawn(_: Any, x: Tensor) -> Tensor:
    return x.relu() if torch.randint(2, (1,)) else x


def drawn_in_place(_: Any, x: Tensor) -> Tensor:
    return x.relu() if torch.zeros(1, dtype=torch.int64).random_(0, 2) else x


def resized(_: Any, x: Tensor) -> Tensor:
    return x.relu() if torch.zeros(1, dtype=torch.int64).resize_(2).any() else x


def unwritten(_: Any, x: Tensor) -> Tensor:
    return x.relu() if torch.empty(1, dtype=torch.int64) else x


def unwritten_too(_: Any, x: Tensor) -> Tensor:
    return x.relu() if torch.empty_permuted((1,), (0,), dtype=torch.int64) else x


def many(_: Any, x: Tensor) -> Tensor:
    return x.relu() if all(torch.arange(1 << 16).sum() for _ in range(20)) else x


def large(_: Any, x: Tensor) -> Tensor:
    return x.relu() if torch.arange(100_000).any() else x


def floating(_: Any, x: Tensor) -> Tensor:
    return x.relu() if torch.linspace(0, 1, 3).any() else x


@pytest.mark.parametrize(
    "function",
    [
        written,
        by_input,
        by_input_through_a_large_view,
        as_a_list,
        drawn,
        drawn_in_place,
        resized,
        unwritten,
        unwritten_too,
        many,
        large,
        floating,
    ],
)
def test_what_depends_on_more_is_not_known(function: Any) -> None:
    with pytest.raises(memplan.errors.SourceError):
        memplan.plan(Module(function), args=(X,))
