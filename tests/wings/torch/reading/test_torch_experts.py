"""Mixtures of experts: products by groups, and what to do where the groups depend on data."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import memplan
from builders.experts import mixtral
from builders.torch_nets import tensor
from memplan.errors import SourceError
from memplan.torch.reading import import_torch

grouped_mm = getattr(torch, "_grouped_mm", None)


class Experts(nn.Module):
    def forward(self, x: Tensor, weights: Tensor, ends: Tensor) -> Tensor:
        return grouped_mm(x, weights, offs=ends)  # type: ignore[misc,no-any-return]


@pytest.mark.skipif(grouped_mm is None, reason="this torch has no products by groups")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("width", [12, 32])
def test_products_by_groups_take_what_their_kernel_takes(dtype: torch.dtype, width: int) -> None:
    ends = torch.tensor([2, 4, 6, 8], dtype=torch.int32)
    args = torch.ones(8, 16, dtype=dtype), torch.ones(4, 16, width, dtype=dtype), ends
    try:
        expected = Experts()(*args)
    except RuntimeError:
        with pytest.raises(SourceError, match=r"\(aten._grouped_mm.default\): RuntimeError: Expected mat_b stride"):
            import_torch(Experts(), args=args)
        return
    found = tensor(import_torch(Experts(), args=args), "_grouped_mm")
    assert found["bytes"] == expected.untyped_storage().nbytes()
    assert (found["shape"], found["dtype"]) == (list(expected.shape), str(dtype).removeprefix("torch."))


@pytest.mark.skipif(grouped_mm is None, reason="this torch has no products by groups")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("width", [6, 10, 12])
def test_rows_of_products_by_groups_are_padded(dtype: torch.dtype, width: int) -> None:
    class ByColumns(nn.Module):
        def forward(self, x: Tensor, weights: Tensor, ends: Tensor) -> Tensor:
            return Experts()(x, weights.transpose(1, 2), ends)

    ends = torch.tensor([2, 4, 6, 8], dtype=torch.int32)
    args = torch.ones(8, 16, dtype=dtype), torch.ones(4, width, 16, dtype=dtype), ends
    found = tensor(import_torch(ByColumns(), args=args), "_grouped_mm")
    assert found["bytes"] == ByColumns()(*args).untyped_storage().nbytes()


@pytest.mark.slow
def test_a_model_of_transformers_through_every_door() -> None:
    model, tokens = mixtral(), torch.ones(2, 16, dtype=torch.int64)
    plan = memplan.plan(model, args=(tokens,))
    assert memplan.plan(model, kwargs={"input_ids": tokens, "labels": tokens}, train=True).peak > plan.peak
    program = torch.export.export(model, (), {"input_ids": tokens})
    assert memplan.plan(program).optimal
    assert memplan.plan(program.module(), kwargs={"input_ids": tokens}).optimal
    model.set_experts_implementation("eager")
    message = (
        r"op 'model.layers.0.mlp.experts.nonzero' \(aten.nonzero.default\): the size of its output depends on data, "
        r"which cannot be planned; at .*; model.set_experts_implementation\('grouped_mm'\) runs experts without"
    )
    with pytest.raises(SourceError, match=message):
        memplan.plan(model, args=(tokens,))
