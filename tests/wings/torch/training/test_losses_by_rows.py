"""Losses that work by rows: logits wait through what is made of them, and are computed a few rows at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import memplan  # noqa: E402
from builders.row_losses import LOSSES, Model, Scored  # noqa: E402
from memplan.torch.training import row_losses  # noqa: E402
from memplan.torch.training.checkpointing import again  # noqa: E402
from memplan.torch.training.fitted_modules import Step  # noqa: E402
from memplan.torch.training.heads import Event, heads_in, with_heads  # noqa: E402
from memplan.torch.training.waiting import Waiting  # noqa: E402

WORDS, WIDTH, ROWS = 300, 8, 80
IDS = torch.randint(0, WORDS, (4, ROWS // 4), generator=torch.Generator().manual_seed(0))
Score = Callable[[Tensor, Tensor], Any]


class Small(nn.Module):
    """Hidden states, a head, and whatever reads its logits."""

    def __init__(self, score: Score) -> None:
        super().__init__()
        self.hidden = nn.Parameter(torch.randn(4, ROWS // 4, WIDTH))
        self.head, self.scale = nn.Linear(WIDTH, WORDS), nn.Parameter(torch.tensor(1.5))
        self.each = nn.Parameter(torch.rand(4, ROWS // 4))
        self.score = score

    def forward(self, ids: Tensor) -> Any:
        return self.score(self, ids)  # type: ignore[call-arg, arg-type]


def gradients(model: nn.Module, ids: Tensor = IDS) -> list[Tensor]:
    model.zero_grad()
    loss = model(ids)
    loss.backward()
    return [loss.detach() * 1, *(p.grad for p in model.parameters() if p.grad is not None)]


def same(model: nn.Module, whole: bool = False, heads: tuple[str, ...] = ("head",)) -> list[Event]:
    """What happens in a step whose loss and gradients are equal to eager's."""
    expected, events = gradients(model), list[Event]()
    with with_heads(model, heads, events):
        torch.testing.assert_close(gradients(model), expected)
    assert any(event.whole for event in events) == whole
    return events


def small(score: Any) -> nn.Module:
    torch.manual_seed(0)
    return Small(score).double()


@pytest.mark.few(4)
@pytest.mark.parametrize("name", LOSSES)
def test_losses_and_gradients_equal_those_of_eager(name: str) -> None:
    torch.manual_seed(0)
    model = Model(WORDS, WIDTH, LOSSES[name]).double()
    events = same(model, heads=("head", "teacher"))
    assert (sum(event.again for event in events) > 0) == (name == "DPO")
    expected = gradients(model)[0]
    with with_heads(model, ("head", "teacher"), events), torch.no_grad():
        torch.testing.assert_close(model(IDS) * 1, expected)
    assert not any(event.whole for event in events)
    assert heads_in(Step(model, (IDS,))).keys() == {"head", "teacher"}


FOLLOWED: dict[str, Any] = {
    "each row's loss": lambda m, ids: (
        F.cross_entropy(m.head(m.hidden).flatten(0, 1), ids.flatten(), reduction="none").sort()[0][:9].prod()
    ),
    "a temperature": lambda m, ids: -(m.head(m.hidden) * m.scale).log_softmax(-1).gather(-1, ids[..., None]).mean(),
    "weights of rows": lambda m, ids: (m.head(m.hidden).logsumexp(-1) * m.each).sum(),
    "weights of places": lambda m, ids: (m.head(m.hidden).logsumexp(-1) * m.each[0]).sum(),
    "weights of samples": lambda m, ids: (m.head(m.hidden).logsumexp(-1) * m.each[:, :1]).sum(),
    "some rows": lambda m, ids: F.cross_entropy(m.head(m.hidden)[ids % 2 == 0], ids[ids % 2 == 0]),
    "rows in another order": lambda m, ids: (m.head(m.hidden).transpose(0, 1).logsumexp(-1) * m.each.t()).sum(),
    "classes second": lambda m, ids: F.cross_entropy(m.head(m.hidden).mT, ids, label_smoothing=0.1),
    "several results": lambda m, ids: m.head(m.hidden).max(-1).values.sum() - m.head(m.hidden).topk(2)[0].mean(),
    "detached": lambda m, ids: _detached(m.head(m.hidden)),
    "both": lambda m, ids: F.kl_div(*(m.head(m.hidden * k).log_softmax(-1) for k in (1, 2)), None, None, "sum", True),
    "a total, a number": lambda m, ids: 3 - (2 * m.head(m.hidden).logsumexp(-1).mean() / torch.tensor(4.0) + 1) / 2,
    "no rows count": lambda m, ids: F.cross_entropy(
        m.head(m.hidden).flatten(0, 1), ids.flatten() * 0 - 100
    ).nan_to_num(),
}
READ: dict[str, Any] = {
    "rows together": lambda m, ids: m.head(m.hidden).softmax(1).square().sum(),
    "written to": lambda m, ids: _written_to(m.head(m.hidden)),
    "chance": lambda m, ids: _by_chance(m.head(m.hidden)),
    "a product": lambda m, ids: (m.head(m.hidden) @ torch.eye(WORDS).double()[:, :99]).square().sum(),
    "places in another order": lambda m, ids: m.head(m.hidden[0])[torch.arange(ROWS // 4).flip(0), ids[0]].sum(),
    "a norm of all": lambda m, ids: torch.linalg.vector_norm(m.head(m.hidden)),
}


def _detached(logits: Tensor) -> Tensor:
    return ((logits - logits.detach().amax(-1, keepdim=True)).exp().sum(-1) + logits.detach()[..., 0]).log1p().sum()


def _by_chance(logits: Tensor) -> Tensor:
    torch.manual_seed(0)
    return F.dropout(logits).logsumexp(-1).sum()


def _written_to(logits: Tensor) -> Tensor:
    log = logits.log_softmax(-1)  # of the logits before
    logits.mul_(0.5)
    return log.amax(-1).sum() + logits.logsumexp(-1).sum()


@pytest.mark.few(5)
@pytest.mark.parametrize("name", FOLLOWED)
def test_what_works_by_rows_is_followed(name: str) -> None:
    same(small(FOLLOWED[name]))


@pytest.mark.parametrize("name", READ)
def test_what_does_not_gets_whole_logits(name: str) -> None:
    same(small(READ[name]), whole=True)


def test_totals_of_the_same_logits_are_computed_together(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    linear = F.linear

    def counting(x: Tensor, *weights: Tensor) -> Tensor:
        sizes.append(len(x))
        return linear(x, *weights)

    def score(m: Any, ids: Tensor) -> Tensor:
        logits = m.head(m.hidden)
        lost = F.cross_entropy(logits.flatten(0, 1), ids.flatten())
        m.seen = lost, logits.logsumexp(-1).square().mean()
        return lost + 0.1 * m.seen[1]

    model = small(score)
    expected = gradients(model)
    known = [one.item() for one in model.seen]
    with with_heads(model, ["head"]), monkeypatch.context() as patch:
        patch.setattr("torch.nn.functional.linear", counting)
        torch.testing.assert_close(gradients(model), expected)
        assert sum(sizes) == ROWS
        with torch.no_grad():
            model.head.weight.mul_(2.0)
        assert [one.item() for one in model.seen] == pytest.approx(known)  # they are known since
        assert sum(sizes) == ROWS


def test_numbers_of_rows_may_have_several_backward_passes() -> None:
    model = small(lambda m, ids: m.head(m.hidden).logsumexp(-1))
    given = torch.randn(2, *IDS.shape, dtype=torch.float64)
    expected = [torch.autograd.grad(model(IDS), [*model.head.parameters()], one) for one in given]
    with with_heads(model, ["head"]):
        rows = model(IDS)
        for one, known in zip(given, expected, strict=True):
            found = torch.autograd.grad(rows, [*model.head.parameters()], one, retain_graph=True)
            torch.testing.assert_close(found, known)
        rows = model(IDS) * 1.0
        with torch.no_grad():
            model.head.weight.add_(1.0)
        with pytest.raises(memplan.errors.UnsupportedError, match=r"read after weight 'head.weight'"):
            rows.sum(0)
        rows = model(IDS).sum(0)
        with torch.no_grad():
            model.head.weight.add_(1.0)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            rows.sum().backward()


class Twice(torch.autograd.Function):
    """Takes a tensor as it is, without asking what it is."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient * 2


@pytest.mark.parametrize("of", [lambda x: x, lambda x: x.logsumexp(-1), lambda x: x.logsumexp(-1).mean()])
def test_functions_of_autograd_give_gradients_back(of: Any) -> None:
    same(small(lambda m, ids: Twice.apply(of(m.head(m.hidden))).square().sum()), whole=of(torch.ones(2, 3)).dim() == 2)


def test_metrics_have_their_numbers_at_once() -> None:
    model = small(lambda m, ids: m.head(m.hidden))
    expected = model(IDS).argmax(-1)
    with with_heads(model, ["head"], events := []):
        found = model(IDS).argmax(-1)
        assert (type(found), events) == (Tensor, [Event("head")])
        assert torch.equal(found, expected)


def test_autocast_inside_needs_whole_logits() -> None:
    def score(m: Any, ids: Tensor) -> Tensor:
        logits = m.head(m.hidden)
        with torch.autocast("cpu"):
            return logits.logsumexp(-1).sum()

    model = small(score)
    same(model, whole=True)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_losses_that_hold_rows_once_equal_torchs(smoothing: float, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    logits = (torch.randn(12, 30) * 5).to(dtype)
    target = torch.randint(0, 30, (12,)).where(torch.arange(12) % 4 > 0, -100)
    target[target == 5] = 6
    logits[:, 5] = 0.0 if smoothing else -torch.inf
    given = torch.randn(12).to(dtype)
    exact = logits.to(torch.promote_types(dtype, torch.float32)).requires_grad_()
    for expected, of in (
        (
            F.cross_entropy(exact, target, reduction="none", label_smoothing=smoothing),
            lambda x, owned: row_losses.cross_entropy(x, target, -100, smoothing, owned),
        ),
        (exact.logsumexp(-1), row_losses.logsumexp),
    ):
        (known,) = torch.autograd.grad(expected, exact, given.to(exact.dtype))
        for owned in (False, True):
            x = logits.clone().requires_grad_()
            found = of(x, owned)
            torch.testing.assert_close(found, expected.to(dtype))
            torch.testing.assert_close(torch.autograd.grad(found, x, given)[0], known.to(dtype))
            assert owned or torch.equal(x, logits)


def test_a_step_holds_little_beside_its_gradients() -> None:
    torch.manual_seed(0)
    hidden, ids = torch.randn(4, 64, 64, requires_grad=True), torch.randint(0, 4000, (4, 64))
    for name in ("masked", "DPO"):
        model = Scored(4000, 64, LOSSES[name])
        how: dict[str, Any] = {"args": (hidden, hidden.detach(), ids)}
        weights = model.head.weight.nbytes
        with memplan.torch.fit(model, "least", allow=["split"], **how) as found:
            assert found.split == ("head", "teacher")
            assert isinstance(model.head(hidden), Waiting)
        assert found.before.total - found.before.kept > 10 * weights
        assert found.after.total - found.after.kept < 1.6 * weights
        assert (found.added_cost > 0.1) == (name == "DPO")


def test_modules_that_run_again_may_hold_heads() -> None:
    model = nn.Sequential(Model(WORDS, WIDTH, LOSSES["z-loss"]), nn.Identity()).double()
    with again(model, "cpu").applied(["0"]):
        same(model, heads=("0.head",))


def test_a_step_without_data_runs_a_few_pieces() -> None:
    model = small(lambda m, ids: m.head(m.hidden).logsumexp(-1).mean())
    ops = []
    for rows in (100, 1000):
        model.hidden = nn.Parameter(torch.randn(4, rows, WIDTH).double())
        ops.append(len(Step(model, (IDS,), heads=("head",)).run().size))
    assert ops[0] == ops[1]
    same(model)
