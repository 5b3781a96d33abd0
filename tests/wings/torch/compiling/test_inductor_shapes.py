"""torch.compile within a budget: where backward needs a shape alone, a number in that shape stands for the tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

from builders.budgeted import compiled  # noqa: E402
from builders.inductor_gradients import gradient_of  # noqa: E402
from memplan.torch.compiling import compiling, without_kernels  # noqa: E402
from memplan.torch.compiling.compiled import loaded_since, times_loaded  # noqa: E402
from memplan.torch.compiling.settings import Settings  # noqa: E402
from memplan.torch.compiling.shapes import READS_SHAPE, keep_shapes  # noqa: E402

aten, F = torch.ops.aten, torch.nn.functional
FORWARD: list[tuple[Callable[[Any], Any], int]] = [  # with the number of axes
    (lambda x: F.avg_pool2d(x, 2, padding=1), 2),
    (lambda x: F.avg_pool3d(x, 3, 2), 3),
    (lambda x: F.adaptive_avg_pool2d(x, 3), 2),
    (lambda x: F.adaptive_avg_pool3d(x, 3), 3),
    (lambda x: F.adaptive_max_pool2d(x, 3), 2),
    (lambda x: F.adaptive_max_pool3d(x, 3), 3),
    (lambda x: F.max_pool2d(x, 3, 2), 2),
    (lambda x: F.max_pool3d(x, 3, 2), 3),
    (lambda x: F.pad(x, [1, 2], "replicate"), 1),
    (lambda x: F.pad(x, [1, 2, 3, 1], "replicate"), 2),
    (lambda x: F.pad(x, [1, 2, 3, 1, 2, 2], "replicate"), 3),
]


def test_backward_is_equal_bit_for_bit() -> None:
    torch.manual_seed(0)
    seen = set()
    for forward, axes in FORWARD:
        for lies in (torch.contiguous_format, {2: torch.channels_last, 3: torch.channels_last_3d}.get(axes)):
            if lies is None:
                continue
            x = torch.randn(2, 3, *[8] * axes).contiguous(memory_format=lies)
            module = make_fx(gradient_of(forward))(x)
            [op] = [node for node in module.graph.nodes if node.target in READS_SHAPE]
            expected, read = module(x), op.args[1]
            keep_shapes(module.graph)
            module.recompile()
            assert (op.args[1] is read) == (lies is not torch.contiguous_format)
            [found] = module(x)
            assert torch.equal(found, expected[0])
            assert found.stride() == expected[0].stride()
            seen.add(op.target)
    assert seen == READS_SHAPE


def test_symbolic_sizes_are_left() -> None:
    module = make_fx(gradient_of(FORWARD[0][0]), tracing_mode="symbolic")(torch.randn(2, 3, 8, 8))
    [op] = [node for node in module.graph.nodes if node.target in READS_SHAPE]
    read = op.args[1]
    keep_shapes(module.graph)
    assert op.args[1] is read


def test_inductor_makes_no_copy_of_the_shape() -> None:
    """Of what was padded, for a kernel that it calls."""
    x, held = torch.randn(2, 3, 64, 64), []
    for kept in (False, True):
        module, before = make_fx(gradient_of(FORWARD[-2][0]))(x), times_loaded()
        if kept:
            keep_shapes(module.graph)
            module.recompile()
        with without_kernels.without_kernels():
            compiling._planned(set(), module, (x,), Settings(serve=False), {})
        [graph] = loaded_since(before)
        held.append(graph.figures["cpu"]["load"])
    assert held[1] <= held[0] - x.nbytes // 2


def test_forward_does_not_save_what_is_pooled() -> None:
    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(3, 8, 3), torch.nn.AvgPool2d(2), torch.nn.ReplicationPad2d(1), torch.nn.Conv2d(8, 4, 3)]
    module, x = torch.nn.Sequential(*layers), torch.randn(2, 3, 32, 32)
    expected, given = gradients(module, module, x), list[Any]()
    found = gradients(compiled(module, 10**9, [], given), module, x)
    assert all(map(torch.equal, expected, found))
    saved = [node.meta["val"].shape for node in given[0].graph.find_nodes(op="placeholder")]
    assert layers[2](layers[1](layers[0](x))).shape in saved  # the last convolution reads it
    assert layers[0](x).shape not in saved
    assert layers[1](layers[0](x)).shape not in saved


def gradients(run: Any, module: Any, x: Any) -> list[Any]:
    module.zero_grad()
    run(x).square().mean().backward()
    return [weight.grad.clone() for weight in module.parameters()]
