"""torch.compile within a budget: the backward of max pooling gathers, without indices that are whole."""

from __future__ import annotations

import functools
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch._dynamo.backends.common import aot_autograd  # noqa: E402
from torch._inductor.compile_fx import compile_fx  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

from builders.inductor_gradients import gradient_of  # noqa: E402
from memplan.torch.compiling import joint, step_load  # noqa: E402
from memplan.torch.compiling.budget import WithinBudget  # noqa: E402
from memplan.torch.compiling.pooling import gathering, gathers  # noqa: E402

aten, F = torch.ops.aten, torch.nn.functional
POOLS: list[dict[str, Any]] = [
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": 3, "stride": 1, "padding": 1},
    {"kernel_size": (3, 2), "stride": (2, 3), "ceil_mode": True},
    {"kernel_size": 2, "dilation": 2},
    {"kernel_size": 6, "stride": 1},
]
IN_LOOPS = 4  # the first of them; the others are kernels


@pytest.mark.slow
def test_gradients_are_equal_bit_for_bit() -> None:
    torch.manual_seed(0)
    given = [torch.randn(2, 3, 16, 16).round() for _ in POOLS]  # there are many equal numbers
    given[1::2] = [x.contiguous(memory_format=torch.channels_last) for x in given[1::2]]
    tangents = [torch.randn(F.max_pool2d(x, **pool).shape) for x, pool in zip(given, POOLS, strict=True)]

    def pooled(*inputs: Any) -> Any:
        return [F.max_pool2d(x * 2, **pool) for x, pool in zip(inputs, POOLS, strict=True)]

    run = torch.compile(pooled, backend=lambda graph, given: compile_fx(graph, given, decompositions=gathering()))
    found = []
    for how in (pooled, run):
        inputs = [x.clone().requires_grad_() for x in given]
        found.append(torch.autograd.grad(how(*inputs), inputs, tangents))
    assert all(map(torch.equal, *found))


def test_indices_are_not_in_memory() -> None:
    for k, pool in enumerate(POOLS):
        backward = gradient_of(functools.partial(F.max_pool2d, **pool))
        graph = make_fx(backward, decomposition_table=gathering())(torch.randn(2, 3, 16, 16)).graph
        [op] = graph.find_nodes(op="call_function", target=aten.max_pool2d_with_indices_backward.default)
        assert gathers(op) == (k < IN_LOOPS)
        inside = step_load.in_registers([*graph.nodes])
        assert (op.args[7] in inside) == (k < IN_LOOPS)
        assert op.args[0] not in inside  # gradients are read at several places


def test_backward_makes_indices_of_small_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it reads them, so that forward need not save indices, nor backward hold them."""
    ops: list[str] = []

    def noted(self: Any, capacity: int) -> Any:
        ops.extend(op.type for op in self.graph.ops)
        return within(self, capacity)

    within = joint.Joint.within
    monkeypatch.setattr(joint.Joint, "within", noted)
    torch._dynamo.reset()
    backend = aot_autograd(
        fw_compiler=lambda graph, _: graph, partition_fn=WithinBudget(160_000), decompositions=gathering()
    )
    conv, tanh = functools.partial(torch.nn.Conv2d, 8, 8, 3), torch.nn.Tanh()
    layers = [torch.nn.Conv2d(3, 8, 3), torch.nn.MaxPool2d(2), tanh, conv(), tanh, conv(), tanh, conv()]
    run = torch.compile(torch.nn.Sequential(*layers), backend=backend)
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="no partition of the graph"):
        run(torch.randn(4, 3, 32, 32))
    assert any("_low_memory_max_pool_with_offsets" in kind for kind in ops)
    assert not any("_low_memory_max_pool_offsets_to_indices" in kind for kind in ops)
