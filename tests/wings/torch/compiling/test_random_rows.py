"""Random numbers that Inductor draws, by rows: those of the whole, bit for bit, wherever rows begin."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

from memplan.torch.compiling.compiled import loaded_since, times_loaded  # noqa: E402
from memplan.torch.compiling.random_rows import lower_random_rows  # noqa: E402
from memplan.torch.compiling.splitting import split_graph  # noqa: E402
from memplan.torch.private_compiler import inductor_prims  # noqa: E402
from memplan.torch.running.pieces.random_rows import RANDOM_ROWS  # noqa: E402

ROWS, WIDTH = 60, 512


def masked(x: Any, first: Any, last: Any, seed: Any) -> Any:
    """A feed-forward block, whose hidden numbers are dropped by chance."""
    kept = inductor_prims.random([ROWS, WIDTH], seed, "rand") > 0.5
    return (x @ first).relu() * kept @ last


def test_random_numbers_run_in_pieces() -> None:
    given = torch.randn(ROWS, 4), torch.randn(4, WIDTH), torch.randn(WIDTH, 4), torch.tensor(3)
    graph = make_fx(masked, tracing_mode="fake")(*given)
    found = split_graph(graph, None)
    assert found.pieces > 1, found.reason
    nodes = found.module.graph
    assert not nodes.find_nodes(op="call_function", target=inductor_prims.random)
    calls = [node.args for node in nodes.find_nodes(op="call_function", target=RANDOM_ROWS)]
    rows = [(begin, size) for *_, begin, size in calls]
    whole, axis = calls[0][0], calls[0][3]
    assert [begin for begin, _ in rows] == [sum(size for _, size in rows[:k]) for k in range(len(rows))]
    assert sum(size for _, size in rows) == whole[axis]
    assert max(node.meta["val"].numel() for node in nodes.nodes if node.op == "call_function") < ROWS * WIDTH


@pytest.mark.few(1)
@pytest.mark.parametrize("mode", ["rand", "randn"])
def test_rows_are_those_of_the_whole(mode: str) -> None:
    lower_random_rows()
    sizes = [3, 21, 10]

    def numbers(seed: Any) -> Any:
        whole = inductor_prims.random(sizes, seed, mode)
        by_rows = [torch.ops.memplan.random_rows(sizes, seed, mode, 1, begin, 7) for begin in (0, 7, 14)]
        taken_together = [torch.ops.memplan.random_rows([1, 63, 10], seed, mode, 1, k, 9) for k in range(0, 63, 9)]
        return whole, torch.cat(by_rows, 1), torch.cat(taken_together, 1).view(sizes)

    whole, by_rows, taken_together = torch.compile(numbers)(torch.tensor(2**40 + 11))
    assert torch.equal(whole, by_rows)
    assert torch.equal(whole, taken_together)
    assert whole.unique().numel() == whole.numel()


@pytest.mark.slow
def test_dropout_in_pieces_drops_the_same() -> None:
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        *(torch.nn.Linear(16, 1024), torch.nn.GELU(), torch.nn.Dropout(0.4), torch.nn.Linear(1024, 16)),
        torch.nn.Dropout(0.1),
    )
    x = torch.randn(256, 16)

    def made(run: Any) -> Any:
        torch.manual_seed(5)
        with torch.no_grad():
            return run(x)

    expected = made(torch.compile(net))
    torch._dynamo.reset()
    before = times_loaded()
    found = made(torch.compile(net, backend="memplan", options={"budget": "kept + 300KiB", "allow": ["split"]}))
    torch.testing.assert_close(found, expected)
    assert torch.equal(found == 0, expected == 0)
    [loaded] = loaded_since(before)
    assert max(loaded.planned) <= 300 * 1024  # hidden numbers of all rows take a megabyte
