"""Modules in pieces that draw random numbers, and whole models: each row gets the numbers that it gets without."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import memplan  # noqa: E402
from memplan.errors import SourceError  # noqa: E402
from memplan.torch.training.fitted_modules import Step  # noqa: E402
from memplan.torch.training.row_pieces import in_pieces  # noqa: E402

ROWS, WIDTH = 21, 8  # rows of which the last piece has fewer


class Does(nn.Module):
    """A layer, and what a function makes of its result."""

    def __init__(self, function: Callable[[Any, Tensor], Any]) -> None:
        super().__init__()
        self.layer, self.function = nn.Linear(WIDTH, WIDTH), function
        self.attention = nn.MultiheadAttention(WIDTH, 2, dropout=0.2, batch_first=True)

    def forward(self, x: Tensor) -> Any:
        return self.function(self, self.layer(x))


def noise(_: Any, x: Tensor) -> Tensor:
    return x * torch.rand(x.shape[0], 5, 1) + torch.randn_like(x) + x.new_empty(x.shape).normal_(1.0, 2.0)


def attention(_: Any, x: Tensor) -> Tensor:
    heads = x.view(*x.shape[:2], 2, -1).transpose(1, 2)
    y = F.scaled_dot_product_attention(heads, heads, heads, dropout_p=0.2)
    return y.transpose(1, 2).flatten(2)


def merged(_: Any, x: Tensor) -> Tensor:
    """Rows of several axes in one, as heads of a batch are for `bmm`."""
    flat = x.reshape(-1, 4)
    return (F.dropout(flat, 0.4) * torch.rand_like(flat)).view(x.shape)


def with_itself(does: Any, x: Tensor) -> Tensor:
    """A layer that asks whether its arguments are one tensor, and computes along the tokens first."""
    made: Tensor = does.attention(x, x, x, need_weights=False)[0]
    return made


def paths(_: Any, x: Tensor) -> Tensor:
    """One number for all, and one for each row."""
    y = x * torch.randint(1, 5, (1,)) * torch.rand(())
    kept = torch.empty(x.shape[0], 1, 1).bernoulli_(0.5)
    return y.square() * kept / 0.5


DRAWING: dict[str, Callable[[Any, Tensor], Any]] = {
    "dropout": lambda _, x: F.dropout(x, 0.3) * 2,
    "channels": lambda _, x: F.dropout1d(x, 0.3).square(),
    "alpha": lambda _, x: F.alpha_dropout(x, 0.3),
    "noise": noise,
    "gumbel": lambda _, x: F.gumbel_softmax(x, dim=-1),
    "attention": attention,
    "merged": merged,
    "with itself": with_itself,
    "paths": paths,
    "several": lambda _, x: {"a": F.dropout(x).sum(1), "b": [x.square() * torch.rand_like(x), None, 3]},
}


def total(result: Any) -> Tensor:
    tensors = [result] if isinstance(result, Tensor) else [result["a"], result["b"][0]]
    return sum(((one * one).sum() for one in tensors), torch.zeros(()))


def ran(model: nn.Module, x: Tensor) -> list[Tensor]:
    """The loss, gradients, and the state of the generator after forward and after backward."""
    torch.manual_seed(7)
    model.zero_grad()
    leaf = x.clone().requires_grad_()
    loss = total(model(leaf))
    after = torch.get_rng_state()
    loss.backward()
    gradients = [leaf.grad, *(p.grad for p in model.parameters())]
    return [loss.detach(), *(g for g in gradients if g is not None), after, torch.get_rng_state()]


@pytest.mark.parametrize("name", DRAWING)
def test_rows_get_the_numbers_of_the_whole(name: str) -> None:
    torch.manual_seed(0)
    model, x = Does(DRAWING[name]).double(), torch.randn(ROWS, 5, WIDTH).double()
    expected = ran(model, x)
    noted = Step(model, (x,), loss=total).noted()
    assert "" in noted.independent(), noted.why_whole()
    with torch.no_grad():
        torch.manual_seed(7)
        plain = total(model(x))
    with in_pieces(model, noted.independent()).applied([""]):
        assert Step(model, (x,), loss=total).run()  # without data, where pieces are compared with the whole
        for _ in range(2):
            torch.testing.assert_close(ran(model, x), expected)
        with torch.no_grad():
            torch.manual_seed(7)
            torch.testing.assert_close(total(model(x)), plain)
        torch.manual_seed(7)
        model.zero_grad()
        loss = total(model(x))
        loss.backward(retain_graph=True)
        loss.backward()  # which draws the same again
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        torch.testing.assert_close(gradients, [2 * gradient for gradient in expected[2:-2]])
    torch.testing.assert_close(ran(model, x), expected, rtol=0, atol=0)


def test_arguments_that_are_one_tensor_stay_one() -> None:
    torch.manual_seed(0)
    model, x = Does(with_itself).double(), torch.randn(ROWS, 5, WIDTH).double()
    expected = ran(model, x)
    step = Step(model, (x,), loss=total)
    with in_pieces(model, step.noted().independent()).applied(["attention"]):
        assert step.run()
        torch.testing.assert_close(ran(model, x), expected)


def count(does: Any, x: Tensor) -> Tensor:
    does.calls = getattr(does, "calls", 0) + 1
    return x * does.calls


WHOLE: dict[str, tuple[Callable[[Any, Tensor], Any], str]] = {
    "chances of each": (lambda _, x: x * torch.bernoulli(x.sigmoid()), "aten.bernoulli.default draws random numbers"),
    "own generator": (
        lambda _, x: x * torch.empty_like(x).uniform_(generator=torch.Generator()),
        "aten.uniform_.default draws random numbers",
    ),
    "batch norm": (lambda _, x: F.batch_norm(x.mT, None, None, training=True).mT, "does not keep its rows apart"),
    "no rows": (lambda _, x: x.sum(), "it returns something that has no rows"),
    "other rows": (lambda _, x: x.flip(0), "aten.flip.default does not keep its rows apart"),
    "an object": (lambda _, x: (x, object()), "it takes or returns a object"),
    "counts": (count, "it sets attributes"),
    "keeps": (lambda does, x: setattr(does, "kept", [x * 2]) or x * 3, "it sets attributes"),
}


@pytest.mark.parametrize("name", WHOLE)
def test_why_a_model_is_not_in_pieces_is_said(name: str) -> None:
    function, reason = WHOLE[name]
    x = torch.randn(ROWS, 5, WIDTH)
    loss = lambda y: (y[0] if isinstance(y, tuple) else y).square().sum()  # noqa: E731
    with pytest.raises(memplan.InfeasibleError, match="the model is not in pieces as a whole: ") as caught:
        memplan.torch.fit(Does(function), "1%", args=(x,), allow=["split"], loss=loss)
    assert reason in str(caught.value)


SAME_AS_ROWS: dict[str, Callable[[Any, Tensor], Any]] = {
    "numbers of another axis": lambda _, x: x * torch.rand(ROWS, 1, 1),
    "a table": lambda _, x: x + torch.ones(ROWS, 5, WIDTH),
    "a share of the batch": lambda _, x: x / len(x),
    "another number of ops": lambda _, x: x * 2 if len(x) == ROWS else x.exp() * 2,
}


@pytest.mark.parametrize("name", SAME_AS_ROWS)
def test_what_has_the_size_of_the_batch_by_chance_is_found(name: str) -> None:
    model, x = Does(SAME_AS_ROWS[name]), torch.randn(ROWS, 5, WIDTH)
    found = Step(model, (x,), loss=total).noted().independent()
    with in_pieces(model, found).applied([""]), pytest.raises(SourceError, match="module ''"):
        Step(model, (x,), loss=total).run()
    with memplan.torch.fit(model, "least", args=(x,), allow=["split"], loss=total) as fitted:
        assert "" not in fitted.split


def test_other_rows_of_another_batch_are_found() -> None:
    model = Does(lambda _, x: x * 2 if len(x) > 2 else x[:1] * 2)
    x = torch.randn(ROWS, 5, WIDTH)
    with in_pieces(model, Step(model, (x,), loss=total).noted().independent()).applied([""]):
        model(x)
        with pytest.raises(memplan.errors.UnsupportedError, match="module '' returned other rows"):
            model(x[:16])


class Field(nn.Module):
    """A small radiance field: points along rays at random distances, and what is seen of them, outside of modules."""

    def __init__(self, points: int = 16, width: int = 32) -> None:
        super().__init__()
        self.points = points
        self.trunk = nn.Sequential(nn.Linear(3, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.color, self.density = nn.Linear(width, 3), nn.Linear(width, 1)

    def forward(self, origin: Tensor, *, direction: Tensor, far: float = 4.0) -> dict[str, Tensor]:
        count = len(origin)
        near = torch.linspace(1.0, far, self.points).expand(count, -1)
        at = near + torch.rand(count, self.points) * (far - 1.0) / self.points
        features = self.trunk(origin[:, None] + direction[:, None] * at[..., None])
        density = self.density(features).squeeze(-1)
        density = torch.relu(density + torch.randn_like(density) / 10)
        steps = torch.cat([at.diff(dim=-1), torch.full((count, 1), 1e3)], -1)
        seen = 1 - torch.exp(-density * steps)
        left = torch.cumprod(torch.cat([torch.ones(count, 1), 1 - seen], -1), -1)[:, :-1]
        weight = seen * left
        return {"color": (weight[..., None] * self.color(features).sigmoid()).sum(1), "depth": (weight * at).sum(1)}


def test_code_outside_of_modules_runs_in_pieces() -> None:
    torch.manual_seed(0)
    model, rays, seen = Field(), torch.randn(2, 512, 3), torch.rand(512, 3)
    how: dict[str, Any] = {"args": (rays[0],), "kwargs": {"direction": rays[1]}}
    how["loss"] = lambda made: (made["color"] - seen).square().mean() + made["depth"].mean() / 100

    def gradients() -> list[Tensor]:
        torch.manual_seed(3)
        model.zero_grad()
        how["loss"](model(rays[0], direction=rays[1])).backward()
        return [p.grad for p in model.parameters()]

    expected = gradients()
    with pytest.raises(memplan.InfeasibleError):
        memplan.torch.fit(model, "40%", allow=["recompute"], **how)
    with memplan.torch.fit(model, "40%", **how) as found:
        assert found.after.total <= 0.4 * found.before.total
        torch.testing.assert_close(gradients(), expected)
    assert all(map(torch.equal, gradients(), expected))
