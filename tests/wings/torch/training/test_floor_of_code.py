"""What the code of forward holds is a floor of `memplan.torch.fit`, whatever modules do."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import memplan  # noqa: E402

ROWS, WIDTH, MAPS = 256, 64, 4
BYTES = ROWS * WIDTH * 4  # of a map


class Fused(torch.nn.Module):
    """Holds maps beside their concatenation, as many decoders do; the norm mixes all rows."""

    def __init__(self) -> None:
        super().__init__()
        self.maps = torch.nn.ModuleList(torch.nn.Linear(WIDTH, WIDTH) for _ in range(MAPS))
        self.fuse = torch.nn.Linear(MAPS * WIDTH, WIDTH)
        self.norm = torch.nn.BatchNorm1d(WIDTH)

    def forward(self, x: Any) -> Any:
        maps = [layer(x) for layer in self.maps]
        return self.norm(self.fuse(torch.cat(maps, 1))).sum()


class Wide(torch.nn.Module):
    """What lies within is much larger than what goes in and comes out."""

    def __init__(self, wide: int = 40 * WIDTH) -> None:
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.Linear(WIDTH, wide), torch.nn.GELU(), torch.nn.Linear(wide, WIDTH))
        self.norm = torch.nn.BatchNorm1d(WIDTH)

    def forward(self, x: Any) -> Any:
        return self.norm(self.inner(x)).sum()


class Other(torch.nn.Module):
    """Runs other ops where autograd keeps nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(WIDTH)

    def forward(self, x: Any) -> Any:
        if not torch.is_grad_enabled():
            x = torch.cat([x] * 100).sum() + x
        return self.norm(x).sum()


class Words(torch.nn.Module):
    """Logits that are never whole in a fitted step."""

    def __init__(self) -> None:
        super().__init__()
        self.head = torch.nn.Linear(WIDTH, 3000)

    def forward(self, x: Any) -> Any:
        return torch.nn.functional.cross_entropy(self.head(x), torch.zeros(len(x), dtype=torch.int64))


class Sliced(torch.nn.Module):
    """A module returns a small view of what is large; in pieces, it returns no more than it shows."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Narrow()
        self.norm = torch.nn.BatchNorm1d(WIDTH)

    def forward(self, x: Any) -> Any:
        y = self.inner(x)
        with torch.no_grad():
            z = torch.cat([y] * 60, 1).amax()
        return self.norm(y * z).sum()


class Layer(torch.nn.Linear):
    """No head, whose rows would wait."""


class Narrow(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = Layer(WIDTH, 60 * WIDTH)

    def forward(self, x: Any) -> Any:
        return torch.nn.functional.gelu(self.layer(x))[:, :WIDTH]


class Larger(Other):
    """The same ops make more where autograd is off."""

    def forward(self, x: Any) -> Any:
        return self.norm(x + x.repeat(1 if torch.is_grad_enabled() else 100, 1).sum()).sum()


class Collecting(Other):
    """The same ops, and code holds more where autograd is off."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(WIDTH, WIDTH) for _ in range(14))

    def forward(self, x: Any) -> Any:
        kept = []
        for layer in self.layers:
            x = layer(x)
            if not torch.is_grad_enabled():
                kept.append(x)
        return self.norm(x).sum()


class Scored(torch.nn.Module):
    """Logits that need not be whole, and a larger peak elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.head = Large(), torch.nn.Linear(WIDTH, 1000)

    def forward(self, x: Any) -> Any:
        return torch.nn.functional.cross_entropy(self.head(self.inner(x)), torch.zeros(len(x), dtype=torch.int64))


class Large(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        with torch.no_grad():
            z = torch.cat([x] * 100, 1).amax(1, keepdim=True)
        return x * z


class Trained(Other):
    """Runs only where autograd keeps what it needs."""

    def forward(self, x: Any) -> Any:
        if not torch.is_grad_enabled():
            raise ValueError("it is only trained")
        return super().forward(x)


def refused(model: Any, budget: int = 1, rows: int = ROWS, **how: Any) -> Any:
    """The error of a budget that nothing fits, and the bytes of weights, states and inputs."""
    how |= {"args": (torch.randn(rows, WIDTH),), "optimizer": torch.optim.SGD(model.parameters())}
    with pytest.raises(memplan.InfeasibleError) as caught:
        memplan.torch.fit(model, budget, **how)
    assert caught.value.lower_bound <= caught.value.peak
    how.pop("allow", None)
    return caught.value, memplan.estimate(model, train=True, **how).kept


@pytest.mark.slow
def test_the_code_of_forward_holds_what_no_module_can_give_up() -> None:
    held = (2 * MAPS + 1) * BYTES  # maps, what they are put together to, and what comes of that
    error, kept = refused(Fused())
    assert error.lower_bound == kept + held
    assert "at aten.addmm in 'fuse', the code of forward holds" in str(error)
    assert "256.00 KiB made by aten.cat" in str(error)
    assert refused(Fused(), kept + held - 1)[0].proven


@pytest.mark.slow
def test_what_lies_within_modules_that_run_in_pieces_does_not_count() -> None:
    error, kept = refused(Wide())
    assert 2 * BYTES <= error.lower_bound - kept < 3 * BYTES  # what goes in and comes out of the norm
    assert error.peak - kept < 80 * BYTES  # within is more
    error, kept = refused(Wide(), allow=["recompute", "offload"])
    assert error.lower_bound - kept >= 80 * BYTES


@pytest.mark.few(1)
@pytest.mark.parametrize("make", [Other, Larger])
def test_a_forward_of_other_ops_is_no_floor(make: Any) -> None:
    error, kept = refused(make())
    assert error.lower_bound < kept + 50 * BYTES


@pytest.mark.slow
def test_what_code_holds_where_autograd_is_off_is_no_floor() -> None:
    error, kept = refused(Collecting())
    assert error.lower_bound < kept + 10 * BYTES


@pytest.mark.slow
def test_a_view_from_a_module_in_pieces_counts_as_what_it_shows() -> None:
    error, kept = refused(Sliced(), rows=2048)
    assert error.lower_bound >= kept + 60 * 8 * BYTES  # the concatenation


@pytest.mark.slow
def test_logits_that_need_not_be_whole_do_not_count() -> None:
    error, kept = refused(Scored(), rows=1024)
    assert error.lower_bound < kept + 2 * 1024 * 1000 * 4


def test_a_forward_that_only_trains_has_a_floor_of_ops() -> None:
    error, kept = refused(Trained())
    assert error.lower_bound > kept


@pytest.mark.slow
def test_logits_that_are_never_whole_do_not_count() -> None:
    rows = 1024
    error, kept = refused(Words(), rows=rows)
    assert error.peak - kept < rows * 3000 * 4
