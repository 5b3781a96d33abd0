"""Updates in pieces: what whole updates compute, bit for bit, with temporaries as large as a piece."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import memplan  # noqa: E402
from builders.optimizing import OPTIMIZERS, Make, equal  # noqa: E402
from memplan.torch.training.update_pieces import needs_no_room, pieces_of, update  # noqa: E402

COUNT = 77_357  # numbers: three threads get chunks that end within a vector
AMPLE = 10**9


@pytest.fixture(autouse=True)
def three_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def updated(make: Make, room: int, form: Any = torch.contiguous_format) -> list[Any]:
    """A weight and its states after three updates."""
    torch.manual_seed(5)
    shape = (COUNT,) if form == torch.contiguous_format else (33, 41, 7, 5)
    weight = torch.nn.Parameter(torch.randn(shape).contiguous(memory_format=form))
    optimizer = make([weight])
    for _ in range(3):
        weight.grad = torch.randn(shape).contiguous(memory_format=form)
        update(optimizer, optimizer.param_groups[0], weight, room)
    states = optimizer.state[weight]
    return [weight.detach(), list(states), *states.values()]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_pieces_give_what_the_whole_gives(optimizer: str) -> None:
    make = OPTIMIZERS[optimizer]
    assert equal(updated(make, 0), updated(make, AMPLE))


def test_pieces_of_other_formats() -> None:
    form = torch.channels_last
    pieces, whole = (updated(OPTIMIZERS["adam"], room, form) for room in (0, AMPLE))
    assert equal(pieces, whole)
    assert pieces[2 + pieces[1].index("exp_avg")].is_contiguous(memory_format=form)


@pytest.mark.parametrize("threads", [1, 2, 3, 16])
@pytest.mark.parametrize("most", [1, 200, 8192, 40_000, 10**6])
def test_pieces_end_where_vectors_or_chunks_end(most: int, threads: int) -> None:
    for count in (1, 128, 32_768, 32_769, COUNT, 3_000_001):
        pieces = list(pieces_of(count, most, threads))
        assert [p.start for p in pieces] == [0, *(p.stop for p in pieces[:-1])]
        assert pieces[-1].stop == count
        parts = 1 if count <= 32_768 else min(threads, -(-count // 32_768))
        chunk = -(-count // parts)
        for piece in pieces:
            assert piece.start // chunk == (piece.stop - 1) // chunk or threads == 1
            assert piece.stop in (count, (piece.start // chunk + 1) * chunk) or (piece.stop - piece.start) % 128 == 0
            size = piece.stop - piece.start
            assert size <= max(most, 128)
            if size > 32_768 and threads > 1:  # torch cuts it again, where vectors end
                assert size % (threads * 32_768) == 0


def test_what_cannot_run_in_pieces() -> None:
    weight = torch.nn.Parameter(torch.randn(8, 6))
    weight.grad = torch.randn(8, 6)

    def can(make: Make) -> bool:
        optimizer = make([weight])
        return needs_no_room(optimizer, optimizer.param_groups[0], weight)

    class Own(torch.optim.SGD):
        pass

    adam = OPTIMIZERS["adam"]
    assert can(adam)
    assert can(OPTIMIZERS["fused"])
    assert not can(OPTIMIZERS["adafactor"])
    assert not can(Own)
    weight.grad = torch.randn(6, 8).t()
    assert not can(adam)


class Beside(torch.nn.Module):
    """The gradient of the table comes first, while all activations are held."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(6)))
        self.table = torch.nn.Embedding(4000, 64)

    def forward(self, ids: Any) -> Any:
        x = torch.ones(len(ids), 64)
        for layer in self.layers:
            x = torch.nn.functional.gelu(layer(x))
        return x + self.table(ids)


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "rmsprop", "adafactor"])
def test_the_peak_is_never_above_that_of_the_usual_loop(optimizer: str) -> None:
    peaks = []
    for as_you_go in (False, True):
        torch.manual_seed(0)
        net, ids = Beside(), torch.arange(1500)
        made = OPTIMIZERS[optimizer](net.parameters())

        def step(net: Any = net, ids: Any = ids, made: Any = made) -> None:
            net(ids).square().sum().backward()
            made.step()
            made.zero_grad()

        with memplan.torch.update_as_you_go(made) if as_you_go else nullcontext():
            step()
            with memplan.torch.record() as tape:
                step()
        peaks.append(tape.peak)
    assert peaks[1] <= peaks[0]
