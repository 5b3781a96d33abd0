"""Enlarged pictures and reflected borders in graphs that torch.compile splits: whole while regions are looked for."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch._inductor.decomposition import select_decomp_table  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

from memplan.torch.compiling.resizing import decompose, enlarge, with_borders  # noqa: E402
from memplan.torch.compiling.splitting import split_graph  # noqa: E402

aten = torch.ops.aten
NEAREST = {aten.upsample_nearest1d.default, aten.upsample_nearest2d.default, aten.upsample_nearest3d.default}


def targets(module: Any) -> set[Any]:
    return {node.target for node in module.graph.nodes if node.op == "call_function"}


def enlarged(*sizes: int) -> Any:
    return lambda x: nn.functional.interpolate(x, sizes) + 1


@pytest.mark.parametrize(
    ("before", "after"), [((6,), (12,)), ((4, 6), (8, 18)), ((5, 3), (7, 8)), ((2, 3, 4), (4, 6, 8))]
)
def test_gathers_of_nearest_neighbours_are_one_op_and_gathers_again(before: tuple[int], after: tuple[int]) -> None:
    x = torch.randn(1, 2, *before)
    graph = make_fx(enlarged(*after), decomposition_table=select_decomp_table(), tracing_mode="fake")(x)
    assert aten._unsafe_index.Tensor in targets(graph)
    expected = graph(x)
    enlarge(graph.graph)
    graph.recompile()
    assert len(targets(graph) & NEAREST) == 1
    assert aten._unsafe_index.Tensor not in targets(graph)
    assert torch.equal(graph(x), expected)
    decompose(graph)
    graph.recompile()
    assert not targets(graph) & NEAREST
    assert torch.equal(graph(x), expected)


@pytest.mark.parametrize(
    "index",
    [
        lambda x: [None, None, torch.arange(4)[:, None], torch.tensor([0, 0, 1, 2])],
        lambda x: [None, None, torch.arange(4).flip(0)[:, None], torch.arange(4)],
        lambda x: [None, torch.arange(2)[:, None, None], torch.arange(4)[:, None], torch.arange(4)],
        lambda x: [None, None, x[0, 0, :, :1].to(torch.int64).clamp(0, 3), torch.arange(4)],
    ],
    ids=["others", "backwards", "channels too", "of data"],
)
def test_other_gathers_stay(index: Any) -> None:
    x = torch.randn(1, 2, 4, 4)
    graph = make_fx(lambda x: aten._unsafe_index.Tensor(x, index(x)), tracing_mode="fake")(x)
    enlarge(graph.graph)
    assert not targets(graph) & NEAREST


def test_random_indices_are_no_neighbours() -> None:
    x = torch.randn(1, 2, 1, 1)
    index = lambda: torch.randint(1, (2,))  # noqa: E731
    graph = make_fx(
        lambda x: aten._unsafe_index.Tensor(x, [None, None, index()[:, None], index()]), tracing_mode="fake"
    )(x)
    before = torch.get_rng_state()
    enlarge(graph.graph)
    assert not targets(graph) & NEAREST
    assert torch.equal(torch.get_rng_state(), before)


class Painted(nn.Module):
    """Borders that are reflected, instance norms, and a picture that is enlarged."""

    def __init__(self) -> None:
        super().__init__()
        pad, norm = nn.ReflectionPad2d(1), nn.InstanceNorm2d(8, affine=True)
        layers = [pad, nn.Conv2d(3, 8, 3), norm, nn.ReLU(), nn.Upsample(scale_factor=2), pad, nn.Conv2d(8, 8, 3)]
        self.layers = nn.Sequential(*layers, nn.ReLU(), pad, nn.Conv2d(8, 3, 3))

    def forward(self, x: Any) -> Any:
        return self.layers(x)


def traced(net: nn.Module, x: Any) -> tuple[Any, list[Any]]:
    """The graph of a network, and what it takes: its weights too."""
    state = dict(net.state_dict())

    def call(x: Any, *weights: Any) -> Any:
        return torch.func.functional_call(net, dict(zip(state, weights, strict=True)), (x,))

    given = [x, *state.values()]
    with torch.no_grad():
        return make_fx(call, decomposition_table=with_borders(), tracing_mode="fake")(*given), given


def test_pieces_go_through_borders_and_enlarged_pictures() -> None:
    torch.manual_seed(0)
    net, x = Painted().eval(), torch.randn(1, 3, 32, 32)
    graph, given = traced(net, x)
    split = split_graph(graph, 100_000, again=True)
    split.module.recompile()
    [most] = [change for change in split.changes if len(change.ops) > 5]
    assert any("reflection_pad2d" in op for op in most.ops)
    assert any("upsample_nearest2d" in op for op in most.ops)
    assert not targets(split.module) & {*NEAREST, aten.reflection_pad2d.default}
    with torch.no_grad():
        assert torch.allclose(split.module(*given), net(x), atol=1e-5)


def test_without_pieces_they_are_decomposed_too() -> None:
    graph, _ = traced(Painted().eval(), torch.randn(1, 3, 32, 32))
    split = split_graph(graph, 10**9)
    assert not split.changes
    assert not targets(split.module) & {*NEAREST, aten.reflection_pad2d.default}
