"""Planning for CUDA without a GPU: what depends on the device is taken apart as CUDA does."""

from __future__ import annotations

import threading
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

import memplan  # noqa: E402
from memplan.torch.reading import import_torch  # noqa: E402
from memplan.torch.reading.cuda import kernels_of_cuda  # noqa: E402

FLASH, EFFICIENT = "_scaled_dot_product_flash_attention", "_scaled_dot_product_efficient_attention"


class Attention(nn.Module):
    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options = options

    def forward(self, q: Any, k: Any, v: Any, mask: Any = None) -> Any:
        return functional.scaled_dot_product_attention(q, k, v, mask, **self.options)


def heads(length: int = 128, size: int = 64, count: int = 8, dtype: Any = torch.float16) -> Any:
    return torch.empty(2, count, length, size, dtype=dtype, device="meta", requires_grad=True)


def types(graph: memplan.Graph) -> list[str]:
    return [op.type.removeprefix("aten.").removesuffix(".default") for op in graph.ops]


def captured(*args: Any, train: bool = False, **options: Any) -> memplan.Graph:
    graph = memplan.capture(Attention(**options), args=args, train=train, device="cuda").graph
    assert isinstance(graph, memplan.Graph)
    return graph


def attention(*args: Any, **options: Any) -> str:
    """The kernel that computes the attention."""
    found = types(captured(*args, **options))
    return next((t for t in found if "scaled_dot_product" in t), "math" if "bmm" in found else "")


@pytest.mark.parametrize(
    ("args", "options", "kernel"),
    [
        ((heads(),) * 3, {}, FLASH),
        ((heads(dtype=torch.bfloat16),) * 3, {"is_causal": True}, FLASH),
        ((heads(), heads(64), heads(64)), {"is_causal": True}, EFFICIENT),  # not square
        ((heads(), heads(count=2), heads(count=2)), {"enable_gqa": True}, FLASH),
        ((heads(size=264),) * 3, {}, EFFICIENT),  # too large for flash attention
        ((heads(dtype=torch.float32),) * 3, {}, EFFICIENT),
        ((heads(dtype=torch.float32, size=6),) * 3, {}, "math"),  # rows of 24 bytes
        ((heads(dtype=torch.float64),) * 3, {}, "math"),
        ((heads(), heads(), heads(), torch.empty(128, 128, dtype=torch.bool, device="meta")), {}, EFFICIENT),
        ((heads(dtype=torch.float32), *(heads(count=2, dtype=torch.float32),) * 2), {"enable_gqa": True}, "math"),
    ],
)
def test_the_kernel_of_attention_is_that_of_cuda(args: Any, options: Any, kernel: str) -> None:
    assert attention(*args, **options) == kernel


def test_attention_saves_what_its_backward_pass_needs() -> None:
    """Flash attention keeps a number per row, and no matrix of all pairs."""
    graph = captured(*(heads(1024),) * 3, train=True)
    assert f"{FLASH}_backward" in types(graph)
    sizes = {t.name: t.bytes for t in graph.tensors}
    assert max(sizes.values()) == 2 * 8 * 1024 * 64 * 2
    saved = [t for t in graph.tensors if t.shape == [2, 8, 1024] and t.dtype == "float32"]
    assert len(saved) == 1
    efficient = captured(*(heads(130, dtype=torch.float32),) * 3, train=True)
    assert f"{EFFICIENT}_backward" in types(efficient)
    assert any(t.shape == [2, 8, 160] for t in efficient.tensors)  # rows are padded to 32
    infers = captured(*(heads(130, dtype=torch.float32),) * 3)
    assert any(t.shape == [2, 8, 0] for t in infers.tensors)


def test_odd_heads_are_padded_and_cut() -> None:
    graph = captured(*(heads(size=60),) * 3, train=True)
    assert sum("constant_pad" in t for t in types(graph)) >= 3
    assert any(t.shape == [2, 8, 128, 64] for t in graph.tensors)


def test_a_mask_becomes_a_padded_bias() -> None:
    mask = torch.empty(130, 130, dtype=torch.bool, device="meta")
    graph = captured(*(heads(130),) * 3, mask)
    assert any(t.shape == [130, 136] and t.dtype == "float16" for t in graph.tensors)


def test_dropout_keeps_a_mask_of_bytes() -> None:
    net = nn.Sequential(nn.Linear(64, 64), nn.Dropout(0.1), nn.Linear(64, 64))
    x = torch.empty(8, 64, device="meta")
    graph = memplan.capture(net, args=(x,), train=True, device="cuda").graph
    assert isinstance(graph, memplan.Graph)
    assert {"native_dropout", "native_dropout_backward"} <= set(types(graph))
    assert any(t.shape == [8, 64] and t.dtype == "bool" for t in graph.tensors)
    for quiet in (net.eval(), nn.Dropout(0.0), nn.Dropout(1.0)):
        found = memplan.capture(quiet, args=(x,), device="cuda").graph
        assert isinstance(found, memplan.Graph)
        assert "native_dropout" not in types(found)


def test_a_transformer_is_planned_for_both_passes() -> None:
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    x = torch.empty(2, 16, 64, device="meta")
    plan = memplan.plan(layer, args=(x,), train=True, device="cuda")
    on_cpu = memplan.plan(layer, args=(x,), train=True, alignment=512)
    assert plan.peak < on_cpu.peak  # masks of bytes, in place of floats
    assert set((plan.offsets % 512).tolist()) == {0}
    assert plan.graph is not None
    assert any(EFFICIENT in op.type for op in plan.graph.ops)


def test_the_plan_says_that_it_is_an_estimate() -> None:
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8))
    plan = memplan.plan(net, args=(torch.empty(1, 3, 8, 8),), train=True, device="cuda")
    assert plan.notes[0].startswith("for CUDA, without a GPU: an estimate")
    assert [note.partition(" ")[0] for note in plan.notes[1:]] == ["cuDNN's", "what"]
    assert "note     for CUDA, without a GPU" in plan.summary()
    assert memplan.plan(net, args=(torch.empty(1, 3, 8, 8),)).notes == ()
    with pytest.raises(TypeError, match="the plan holds no network"):
        plan.run(torch.empty(1, 3, 8, 8))


def test_other_devices_and_sources_are_refused() -> None:
    with pytest.raises(ValueError, match="device must be 'cuda' or None, got 'xpu'"):
        memplan.capture(nn.Linear(2, 2), args=(torch.empty(1, 2),), device="xpu")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="option device does not apply to a source of kind arrays; it applies"):
        memplan.plan(([4], [0], [1]), device="cuda")


def test_alignments_are_multiples_of_both() -> None:
    plan = memplan.plan(nn.Linear(2, 2), args=(torch.empty(1, 2),), device="cuda", alignment=3)
    assert set(plan.problem.alignment.tolist()) == {1536}


def test_what_others_run_meanwhile_is_as_it_was() -> None:
    q = torch.randn(1, 2, 4, 8, requires_grad=True)
    expected = functional.scaled_dot_product_attention(q, q, q)
    found: list[Any] = []

    class Slow(nn.Module):
        def forward(self, x: Any) -> Any:
            thread = threading.Thread(target=lambda: found.append(functional.scaled_dot_product_attention(q, q, q)))
            thread.start()
            thread.join()
            thread = threading.Thread(target=lambda: found.append(functional.dropout(q, 0.5)))
            thread.start()
            thread.join()
            return x + 1

    import_torch(Slow(), args=(torch.empty(2),), device="cuda")
    assert torch.equal(found[0], expected)
    found[0].sum().backward()
    assert found[1].shape == q.shape
    torch.manual_seed(0)
    plain = functional.dropout(q, 0.5)
    with kernels_of_cuda():
        torch.manual_seed(0)
        assert torch.equal(functional.dropout(q, 0.5), plain)
