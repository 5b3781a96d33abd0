"""Traced graphs with ops in pieces make what whole ones make."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch._inductor import lowering  # noqa: E402
from torch._inductor.decomposition import select_decomp_table  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

from memplan import _core  # noqa: E402
from memplan.errors import UnsupportedError  # noqa: E402
from memplan.torch.running.pieces.graph import in_pieces  # noqa: E402
from memplan.torch.running.pieces.network import traced  # noqa: E402

assert lowering  # some decompositions need it


def convolutions() -> tuple[Any, Any]:
    layers = [nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1, stride=2), nn.GELU()]
    layers += [nn.MaxPool2d(2), nn.Conv2d(8, 4, 3, padding=1), nn.Upsample(scale_factor=2)]
    net = nn.Sequential(*layers, nn.ConvTranspose2d(4, 3, 4, 2, 1))
    weights = {name: weight.detach() for name, weight in net.named_parameters()}
    return lambda weights, x: torch.func.functional_call(net, weights, (x,)), (weights, torch.randn(1, 3, 32, 32))


def feed_forward() -> tuple[Any, Any]:
    def run(x: Any, up: Any, down: Any) -> Any:
        return x + torch.nn.functional.gelu(x @ up) @ down

    return run, (torch.randn(2, 16, 8), torch.randn(8, 64), torch.randn(64, 8))


def loss() -> tuple[Any, Any]:
    def run(hidden: Any, weight: Any, target: Any) -> Any:
        hidden, weight = hidden.detach().requires_grad_(), weight.detach().requires_grad_()
        lost = nn.functional.cross_entropy(hidden @ weight.t(), target, label_smoothing=0.1)
        return lost, torch.autograd.grad(lost, (hidden, weight))

    return run, (torch.randn(24, 4), torch.randn(60, 4), torch.randint(0, 60, (24,)))


@pytest.mark.few(2)
@pytest.mark.parametrize("decomposed", [False, True])
@pytest.mark.parametrize("case", [convolutions, feed_forward, loss])
def test_pieces_make_what_the_whole_makes(case: Any, decomposed: bool) -> None:
    torch.manual_seed(0)
    run, args = case()
    table = select_decomp_table() if decomposed else {}
    whole = make_fx(run, decomposition_table=table, tracing_mode="fake")(*args)
    read = traced(whole.graph)
    found = _core.find_split(read.graph, list(read.cost), _core.StorageOptions(), 0, 3_000_000, 1.0, 8)
    assert found.changes
    made = in_pieces(whole, read, found.pieces, table)
    assert len(made.graph.nodes) > len(whole.graph.nodes)
    torch.testing.assert_close(made(*args), whole(*args))


def test_symbolic_sizes_are_refused() -> None:
    symbolic = make_fx(lambda x: x.relu(), tracing_mode="symbolic")(torch.randn(4, 4))
    with pytest.raises(UnsupportedError, match="sizes are symbolic: x_1"):
        traced(symbolic.graph)
