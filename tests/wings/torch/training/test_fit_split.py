"""`memplan.torch.fit` with "split": modules in pieces, and logits that are never whole."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import memplan  # noqa: E402
from memplan.torch.training.fitted_modules import Step  # noqa: E402
from memplan.torch.training.heads import heads_in, with_heads  # noqa: E402
from memplan.torch.training.waiting import Waiting  # noqa: E402

ROWS, WIDTH, WORDS = 640, 8, 300


class Model(nn.Module):
    """Hidden states, a head, and a loss in `score`."""

    def __init__(self, score: Callable[[Tensor, Tensor], Any], bias: bool = True, tied: bool = False) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.first, self.head = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WORDS, bias=bias)
        if tied:
            self.head.weight = self.embed.weight
        self.score = score

    def forward(self, ids: Tensor) -> Any:
        return self.score(self.head(self.first(self.embed(ids)).tanh()), ids)


def ids_of(shape: tuple[int, ...] = (4, ROWS // 4)) -> Tensor:
    ids = torch.randint(0, WORDS, shape, generator=torch.Generator().manual_seed(0))
    return ids


def shifted(logits: Tensor, ids: Tensor) -> Tensor:
    return F.cross_entropy(logits[..., :-1, :].contiguous().view(-1, WORDS), ids[..., 1:].reshape(-1))


def with_ignored(logits: Tensor, ids: Tensor) -> Tensor:
    target = ids.masked_fill(ids < WORDS // 3, -100)
    return F.cross_entropy(logits.flatten(0, 1).float(), target.flatten(), label_smoothing=0.1)


LOSSES: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "weighted": lambda logits, ids: F.cross_entropy(
        logits.flatten(0, 1), ids.flatten(), weight=torch.arange(WORDS).double()
    ),
    "each": lambda logits, ids: F.cross_entropy(logits.flatten(0, 1), ids.flatten(), reduction="none").square().mean(),
    "read too": lambda logits, ids: LOSSES["flat"](logits, ids) + logits.square().mean(),
    "part": lambda logits, ids: LOSSES["flat"](logits[..., : WORDS // 2], ids % (WORDS // 2)),
    "one token": lambda logits, ids: F.cross_entropy(logits[:, -1], ids[:, -1]),
    "flat": lambda logits, ids: F.cross_entropy(logits.view(-1, logits.size(-1)), ids.view(-1)),
    "shifted": shifted,
    "ignored and smoothed": with_ignored,
    "a sum": lambda logits, ids: F.cross_entropy(logits.flatten(0, 1), ids.flatten(), reduction="sum") * 0.01,
    "classes first": lambda logits, ids: F.cross_entropy(logits.transpose(1, 2), ids),
    "all ignored": lambda logits, ids: F.cross_entropy(logits.flatten(0, 1), ids.flatten() * 0 - 100, reduction="sum"),
    "none left": lambda logits, ids: F.cross_entropy(logits.flatten(0, 1), ids.flatten() * 0 - 100),
    "a module": lambda logits, ids: nn.CrossEntropyLoss(ignore_index=0)(logits.reshape(-1, WORDS), ids.reshape(-1)),
    "two losses": lambda logits, ids: sum((LOSSES["flat"](logits, ids), LOSSES["classes first"](logits, ids))),
}
WHOLE: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "changed": lambda logits, ids: LOSSES["flat"](logits.mul_(0.5), ids),
    "changed behind": lambda logits, ids: [logits.view(-1, WORDS), logits.mul_(0.5)][0].logsumexp(-1).sum(),
    "probabilities": lambda logits, ids: F.cross_entropy(logits.flatten(0, 1), F.one_hot(ids.flatten(), WORDS) * 1.0),
}


def step(model: nn.Module, ids: Tensor, scale: float = 1.0, times: int = 1) -> list[Tensor]:
    model.zero_grad()
    for _ in range(times):
        loss = model(ids)
        (loss * scale).backward()
    return [loss.detach(), *(p.grad for p in model.parameters())]


def double(score: Callable[[Tensor, Tensor], Any], **how: Any) -> nn.Module:
    torch.manual_seed(0)
    return Model(score, **how).double()


def held_whole(model: nn.Module, ids: Tensor) -> bool:
    """Whether a tensor as large as the logits is made in a step."""
    run = Step(model, (ids,), heads=("head",)).run(watch=True)
    return max(run.size) >= ids.numel() * WORDS * 8


@pytest.mark.few(3)
@pytest.mark.parametrize("name", [*LOSSES, *WHOLE])
def test_losses_in_pieces_equal_those_of_eager(name: str) -> None:
    model, ids = double({**LOSSES, **WHOLE}[name]), ids_of()
    expected = step(model, ids, 3.0, 2)
    with with_heads(model, ["head"]):
        torch.testing.assert_close(step(model, ids, 3.0, 2), expected, equal_nan=True)
        with torch.no_grad():
            torch.testing.assert_close(model(ids), expected[0], equal_nan=True)
    assert held_whole(model, ids) == (name in WHOLE)


@pytest.mark.parametrize("how", [{"bias": False}, {"tied": True}])
def test_heads_of_other_kinds(how: dict[str, Any]) -> None:
    model, ids = double(LOSSES["flat"], **how), ids_of()
    expected = step(model, ids)
    with with_heads(model, ["head"]):
        torch.testing.assert_close(step(model, ids), expected)
    model.head.weight.requires_grad_(False)
    model.zero_grad()
    model(ids).backward()
    expected = [p.grad for p in model.parameters() if p.requires_grad]
    with with_heads(model, ["head"]):
        model.zero_grad()
        model(ids).backward()
    assert model.head.weight.grad is None
    torch.testing.assert_close([p.grad for p in model.parameters() if p.requires_grad], expected)


def test_a_second_backward_pass_gives_the_same() -> None:
    model, ids = double(LOSSES["flat"]), ids_of()
    expected = step(model, ids)
    with with_heads(model, ["head"]):
        model.zero_grad()
        loss = model(ids)
        loss.backward(retain_graph=True)
        first = [p.grad.clone() for p in model.parameters()]
        for p in model.parameters():
            p.grad.fill_(7.0)  # what the first one gave away is the caller's
        model.zero_grad()
        loss.backward()
    torch.testing.assert_close(first, expected[1:])
    torch.testing.assert_close([p.grad for p in model.parameters()], expected[1:])


def test_half_precision() -> None:
    torch.manual_seed(0)
    model, ids = Model(LOSSES["flat"]).bfloat16(), ids_of()
    expected = step(model, ids)
    with with_heads(model, ["head"]):
        found = step(model, ids)
    torch.testing.assert_close(found, expected, rtol=0.05, atol=2e-4)
    small = Model(lambda logits, _: logits)
    with with_heads(small, ["head"]):
        assert isinstance(small(ids), Waiting)
        with torch.autocast("cpu"):
            assert not isinstance(small(ids), Waiting)  # what is computed later would have another dtype
        assert not isinstance(small.half()(ids), Waiting)  # losses are scaled there


def test_a_loss_under_autocast_gets_whole_logits() -> None:
    torch.manual_seed(0)
    model, ids = Model(lambda logits, _: logits), ids_of()

    def loss() -> Tensor:
        logits = model(ids)
        with torch.autocast("cpu"):
            return LOSSES["flat"](logits, ids)  # type: ignore[no-any-return]

    expected = loss()
    with with_heads(model, ["head"]):
        assert torch.equal(loss(), expected)


def test_whatever_reads_logits_gets_them() -> None:
    model, ids = double(lambda logits, _: logits), ids_of()
    expected = model(ids)
    with with_heads(model, ["head"]):
        logits = model(ids)
        assert (type(logits), logits.shape, logits.dtype) == (Waiting, expected.shape, expected.dtype)
        assert logits.requires_grad
        assert torch.equal(logits.argmax(-1), expected.argmax(-1))
        assert torch.equal(pickle.loads(pickle.dumps(model(ids).detach())), expected)
        assert torch.equal(copy.deepcopy(model(ids).detach()), expected)
        assert model(ids).tolist() == expected.tolist()
        assert torch.equal(torch.stack([model(ids)[0, 0], expected[0, 1]])[0], expected[0, 0])
        late, early = model(ids), model(ids)
        assert torch.equal(early.view(-1, WORDS), expected.view(-1, WORDS))
        with torch.no_grad():
            model.head.weight.add_(1.0)
        assert torch.equal(early, expected)
        with pytest.raises(
            memplan.errors.UnsupportedError, match=r"logits of module 'head' are read after weight 'head.weight'"
        ):
            late.argmax()
        with pytest.raises(memplan.errors.UnsupportedError, match=r"are read after weight 'head.weight'"):
            F.cross_entropy(late.view(-1, WORDS), ids.view(-1))  # would be the loss of other weights


def test_pieces_of_logits_have_few_rows_only_where_the_budget_asks_for_it() -> None:
    model, ids = double(LOSSES["flat"]), ids_of((2, 40))  # 16 rows of logits hold more than the hidden states
    model(ids).backward()
    expected = [parameter.grad for parameter in model.parameters()]

    def fitted(budget: Any) -> tuple[int, int]:
        model.zero_grad()
        with memplan.torch.fit(model, budget, args=(ids,), allow=["split"]) as fit:
            model(ids).backward()
            for parameter, gradient in zip(model.parameters(), expected, strict=True):
                torch.testing.assert_close(parameter.grad, gradient)
            return fit.after.total, model.head.forward.narrow

    least, narrow = fitted("least")
    assert narrow
    usual, narrow = fitted(2 * least)
    assert not narrow
    assert least < usual
    assert fitted((least + usual) // 2) == (least, True)
    assert fitted(usual) == (usual, False)
    with pytest.raises(memplan.InfeasibleError):
        fitted(least - 1)


class FeedForward(nn.Sequential):
    def __init__(self, *between: nn.Module) -> None:
        super().__init__(nn.Linear(WIDTH, 8 * WIDTH), *(between or (nn.GELU(),)), nn.Linear(8 * WIDTH, WIDTH))


class WithPositions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.positions = nn.Parameter(torch.randn(ROWS, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.positions


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x * 2


class Attention(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(x, x, x)


class Heads(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        heads = x.unflatten(-1, (2, -1)).transpose(1, 2)
        return F.scaled_dot_product_attention(heads, heads, heads).transpose(1, 2).flatten(2)


MODULES: dict[str, tuple[Callable[[], nn.Module], Any]] = {
    "feed forward": (FeedForward, (0, 1)),
    "written in place": (lambda: FeedForward(nn.ReLU(inplace=True)), (0, 1)),
    "norm": (lambda: nn.Sequential(nn.LayerNorm(WIDTH), nn.Softmax(-1)), (0, 1)),
    "flattened": (lambda: nn.Sequential(nn.Flatten(0, 1), nn.Linear(WIDTH, 3), nn.Unflatten(0, (2, ROWS))), (0, 1)),
    "along tokens": (lambda: nn.Softmax(1), (0, 0)),
    "attention": (Attention, (0, 0)),
    "heads": (Heads, (0, 0)),
    "positions": (WithPositions, (0, 0)),
    "chance": (lambda: FeedForward(nn.Dropout(0.5)), (0, 1)),
    "no chance": (lambda: FeedForward(nn.Dropout(0.0)), (0, 1)),
    "batch norm": (lambda: nn.BatchNorm1d(ROWS), None),
    "along the batch": (lambda: nn.Softmax(0), None),
    "counting": (Counting, None),
    "another shape": (lambda: nn.Flatten(0, 1), None),
}


@pytest.mark.parametrize("name", MODULES)
def test_rows_are_independent_where_they_are(name: str) -> None:
    make, expected = MODULES[name]
    torch.manual_seed(0)
    part, x = make(), torch.randn(2, ROWS, WIDTH)
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), part)
    found = Step(model, (x,), loss=lambda y: y.sum()).noted().independent().get("1")
    assert (found and found.axes) == expected
    if expected is None:
        return
    other = x.clone()
    other[1, 3] += torch.randn(WIDTH)
    made = []
    for given in (x, other):
        torch.manual_seed(1)
        made.append(part(given))
    changed = (made[0] != made[1]).flatten(2).any(-1)
    assert changed[1].any()
    assert not changed[0].any()
    if expected == (0, 1):
        assert changed.nonzero().tolist() == [[1, 3]]


@pytest.mark.slow
def test_modules_in_pieces_hold_less_with_equal_gradients() -> None:
    torch.manual_seed(0)
    model, x = nn.Sequential(*(FeedForward() for _ in range(3))).double(), torch.randn(2, ROWS, WIDTH).double()
    how: dict[str, Any] = {"args": (x,), "loss": lambda y: y.square().mean()}

    def gradients() -> list[Tensor]:
        model.zero_grad()
        how["loss"](model(x)).backward()
        return [p.grad for p in model.parameters()]

    expected = gradients()
    with memplan.torch.fit(model, "least", allow=["recompute"], **how) as again:
        pass
    with memplan.torch.fit(model, "least", allow=["split"], **how) as found:
        torch.testing.assert_close(gradients(), expected)
        with torch.no_grad():
            torch.testing.assert_close(model(x), model(x))
    assert found.split == ("0", "1", "2")
    assert found.after.total < 0.7 * again.after.total
    assert "run in pieces: 0, 1, 2" in str(found)
    assert all(map(torch.equal, gradients(), expected))  # as it was


def test_a_head_is_found_behind_layers_that_would_wait_too() -> None:
    class Adapted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.down, self.up = nn.Linear(WIDTH, 2), nn.Linear(2, WIDTH)

        def forward(self, x: Tensor) -> Tensor:
            return x + self.up(self.down(x))

    model = nn.Sequential(nn.Embedding(WORDS, WIDTH), Adapted(), nn.Linear(WIDTH, WORDS))
    ids = ids_of()
    step = Step(model, (ids,), loss=lambda made: F.cross_entropy(made.flatten(0, 1), ids.flatten()))
    assert list(heads_in(step)) == ["2"]


def test_a_loss_fits_where_whole_logits_do_not() -> None:
    model, ids = double(LOSSES["flat"]), ids_of()
    usual = memplan.estimate(model, args=(ids,), train=True).total
    with pytest.raises(memplan.InfeasibleError, match="a step holds at least") as caught:
        memplan.torch.fit(model, "50%", args=(ids,), allow=["recompute", "offload"])
    assert caught.value.proven
    expected = step(model, ids)
    with memplan.torch.fit(model, "50%", args=(ids,)) as found:
        assert found.split == ("head",)
        assert found.after.total <= usual // 2
        assert found.added_cost == 0
        torch.testing.assert_close(step(model, ids), expected)
    assert type(model.head(torch.randn(2, WIDTH).double())) is Tensor
    with memplan.torch.fit(model, "99%", args=(ids,)) as exact:
        assert not exact.split  # as long as something else fits, results are equal bit for bit
    with pytest.raises(memplan.InfeasibleError) as least:
        memplan.torch.fit(model, "1KiB", args=(ids,))
    assert 1024 < least.value.lower_bound < caught.value.lower_bound
