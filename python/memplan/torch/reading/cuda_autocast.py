"""Autocast as on CUDA, without a GPU: the ops that compute in float32 there, and in the given dtype on the CPU.

Source: the lists of aten/src/ATen/autocast_mode.h. The ops that compute in the given dtype are those of the CPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

# Inputs are cast, so each cast makes a tensor
_CASTS = frozenset(
    (
        "__pow__",
        "__rpow__",
        "__rtruediv__",
        "acos",
        "asin",
        "cosh",
        "erfinv",
        "exp",
        "expm1",
        "log",
        "log10",
        "log2",
        "log1p",
        "reciprocal",
        "rsqrt",
        "sinh",
        "tan",
        "pow",
        "softplus",
        "layer_norm",
        "native_layer_norm",
        "rms_norm",
        "group_norm",
        "frobenius_norm",
        "nuclear_norm",
        "cosine_similarity",
        "poisson_nll_loss",
        "cosine_embedding_loss",
        "nll_loss",
        "hinge_embedding_loss",
        "kl_div",
        "l1_loss",
        "smooth_l1_loss",
        "huber_loss",
        "mse_loss",
        "margin_ranking_loss",
        "multilabel_margin_loss",
        "soft_margin_loss",
        "triplet_margin_loss",
        "multi_margin_loss",
        "binary_cross_entropy_with_logits",
        "dist",
        "pdist",
        "cdist",
        "renorm",
        "logsumexp",
        "interpolate",
    )
)
# The dtype of the result is float32; the op casts as it computes, or before
_RESULTS = frozenset(
    ["prod", "softmax", "log_softmax", "cumprod", "cumsum", "sum", "linalg_vector_norm", "linalg_matrix_norm"]
)
_LOW = (torch.float16, torch.bfloat16)


class _Casting(TorchFunctionMode):
    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        name, named = getattr(func, "__name__", ""), dict(kwargs or {})
        if name == "cross_entropy" and torch.is_autocast_enabled("cpu"):
            return _cross_entropy(func, *args, **named)
        if not torch.is_autocast_enabled("cpu") or name not in _CASTS | _RESULTS:
            return func(*args, **named)
        if name in _RESULTS:
            first = args[0] if args else named.get("input")
            if isinstance(first, Tensor) and first.dtype in _LOW and named.get("dtype") is None:
                named["dtype"] = torch.float32
            return func(*args, **named)
        with torch.autocast("cpu", enabled=False):
            return func(*map(_raised, args), **{key: _raised(value) for key, value in named.items()})


def _cross_entropy(func: Any, input: Tensor, target: Tensor, *args: Any, **kwargs: Any) -> Any:
    """Of logits in the lower dtype: a softmax in float32, then the loss."""
    if input.dtype not in _LOW or args or target.is_floating_point() or kwargs.get("label_smoothing"):
        return func(_raised(input), _raised(target), *args, **kwargs)
    likely = torch.log_softmax(input, 1 if input.dim() > 1 else 0, dtype=torch.float32)
    kwargs.pop("label_smoothing", None)
    return torch.nn.functional.nll_loss(likely, target, **kwargs)


def _raised(value: Any) -> Any:
    return value.float() if isinstance(value, Tensor) and value.dtype in _LOW else value


@contextmanager
def cuda_autocast(dtype: torch.dtype) -> Iterator[None]:
    """Autocast to a dtype, by the rules of CUDA."""
    with torch.autocast("cpu", dtype), _Casting():
        yield
