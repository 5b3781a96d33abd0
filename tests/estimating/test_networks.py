"""Estimates of whole networks of many kinds, beside what torch's allocator gives out."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import memplan  # noqa: E402
from builders.counted_nets import NETS  # noqa: E402
from oracles.allocator import peak  # noqa: E402

QUICK = {"graph_by_index_add", "masks", "bags", "masked_attention"}


@pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in NETS]
)
def test_an_estimate_is_within_a_thousandth(name: str, train: bool) -> None:
    torch.manual_seed(0)
    network, args = NETS[name]()
    network.train(train)
    found = memplan.estimate(network, args=args, train=train)

    def step() -> object:
        with torch.set_grad_enabled(train):
            out = network(*args)
            if train:
                out.sum().backward()
        return out

    step()  # what is kept from the first step on is none of its peak
    network.zero_grad()
    assert found.total - found.kept == pytest.approx(peak(step), rel=1e-3)
