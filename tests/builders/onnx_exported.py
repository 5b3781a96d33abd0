"""Networks of torch as ONNX writes and optimises them."""

from __future__ import annotations

import io

import pytest
import torch
from torch import nn

from builders.onnx_models import onnx


def exported(module, *args):
    file = io.BytesIO()
    torch.onnx.export(module.eval(), args, file, dynamo=False)
    return onnx.load_from_string(file.getvalue())


class Cache(nn.Module):
    """Writes to ranges and rows of a tensor: ScatterND, whose indices and updates have computed shapes."""

    def forward(self, x):
        batch, length, width = x.shape
        cache = torch.zeros(batch, 100, width)
        cache[:, 3 : 3 + length] = x
        cache.index_copy_(1, torch.tensor([0]), x[:, :1])
        cache[:, torch.arange(length)] += torch.arange(length * width).reshape(length, width)
        return cache


class Masked(nn.Module):
    """A mask that is made of ranges, expanded and used in Where."""

    def forward(self, x):
        at = torch.arange(x.shape[1])
        mask = (at[:, None] >= at[None, :]).expand(x.shape[0], -1, -1)
        scores = x.unsqueeze(1).expand(-1, x.shape[1], -1)
        return torch.where(mask, scores, torch.zeros(())).reshape(x.shape[0], -1).scatter(1, at[None].expand(2, -1), x)


def optimised(source, level, folder):
    ort = pytest.importorskip("onnxruntime")
    options = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, f"ORT_ENABLE_{level}")
    options.optimized_model_filepath = str(folder / "optimised.onnx")
    options.log_severity_level = 4
    given = source if isinstance(source, str) else source.SerializeToString()
    ort.InferenceSession(given, options, providers=["CPUExecutionProvider"])
    return onnx.load(folder / "optimised.onnx")


class Layer(nn.Module):
    """A layer of a transformer."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.norm, self.last = nn.LayerNorm(16), nn.LayerNorm(16)
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x):
        x = self.norm(x + self.attention(x, x, x, need_weights=False)[0])
        return self.last(x + self.down(nn.functional.gelu(self.up(x))))
