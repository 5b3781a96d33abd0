"""What the errors of `memplan.fit` advise: what counts, and what else may be allowed."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import memplan

X = torch.zeros(4, 8)
IMAGE = torch.zeros(1, 3, 16, 16)


class Noisy(nn.Module):
    """Points with noise between two layers, as along a ray."""

    def __init__(self, scale: int = 1) -> None:
        super().__init__()
        self.wide, self.out, self.scale = nn.Linear(8, 64), nn.Linear(64, 2), scale

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.wide(x).relu()
        return self.out(hidden + torch.randn_like(hidden[:, :: self.scale]).mean())  # type: ignore[no-any-return]


def refused(source: Any, capacity: int | str, *args: Tensor, **options: Any) -> memplan.InfeasibleError:
    with pytest.raises(memplan.InfeasibleError) as caught:
        memplan.fit(source, capacity, args=args, **options)
    return caught.value


def image_net() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 3, 3, padding=1))


def test_only_what_is_in_the_arena_counts() -> None:
    """The largest tensor that the op reads is a view of a weight, which is elsewhere."""
    assert str(refused(nn.Linear(8, 8), "60%", X)) == (
        "op 'addmm' needs 128 bytes whatever is given up, capacity is 76 bytes; its largest tensor, 'addmm', takes 128 "
        "bytes; what the network returns is 128 bytes of it, which nothing gives up; the capacity is 60% of 128 B, "
        "what the network holds when it runs as it is, kernels' memory counted"
    )
    assert "which nothing gives up" in str(refused(nn.Linear(8, 8), "60%", X, allow=["order", "split"]))


def test_an_op_that_may_run_in_pieces_is_not_said_to_need_so_much_whatever_is_given_up() -> None:
    error = str(refused(image_net(), "60%", IMAGE, kernels=False))
    assert "needs 19.00 KiB (19456 bytes) unless it runs in pieces, capacity is 11.40 KiB" in error
    assert error.endswith(
        "its largest tensor, '1.relu', takes 16.00 KiB (16384 bytes); allow 'split' too: in pieces it fits; the "
        "capacity is 60% of 19.00 KiB, the peak of the network as it is"
    )
    how: dict[str, Any] = {"args": (IMAGE,), "kernels": False}
    plan = memplan.plan(image_net(), **how)
    assert memplan.fit(image_net(), "60%", allow=["recompute", "order", "split"], **how).peak < 0.6 * plan.peak


def test_pieces_are_offered_where_a_search_finds_nothing_without() -> None:
    peak = memplan.plan(image_net(), args=(IMAGE,), train=True).peak
    error = refused(image_net(), "75%", IMAGE, train=True, allow=["recompute"], kernels=False)
    assert error.capacity == peak * 3 // 4
    assert "allow 'split' too: in pieces it fits; in the given order of the ops" in str(error)


def test_pieces_are_not_offered_where_they_do_not_help() -> None:
    error = str(refused(Noisy(), "40%", torch.zeros(256, 8)))
    assert "allow 'split'" not in error
    assert "op 'randn_like' draws random numbers, which pieces would draw otherwise: it runs whole and needs" in error


@pytest.mark.parametrize("train", [False, True])
def test_random_numbers_are_said_to_forbid_pieces(train: bool) -> None:
    error = refused(Noisy(), "40%", torch.zeros(256, 8), allow=["split"], train=train)
    assert "op 'randn_like' draws random numbers, which pieces would draw otherwise: it runs whole" in str(error)


def test_a_few_random_numbers_are_not_in_the_way() -> None:
    error = str(refused(nn.Sequential(image_net(), nn.Flatten(), nn.Dropout()).train(), 40, IMAGE, allow=["split"]))
    assert "which nothing gives up" in error
    assert "random" not in error
