"""What kernels of torch for the CPU allocate for themselves: the most that an op holds above what it returns.

Measured with torch 2.13. `table.py` lists the operators, the other files hold the rules. An operator that is not listed
holds nothing, or it is not known what.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..effects import flat_tensors
from . import composed, convolutions
from .called import Called, name_of
from .table import KEPT, LAYERS, RULES

__all__ = ["inside_of", "kept_of", "room_of", "workspace_of"]


def workspace_of(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> int:
    """Bytes; 0 where nothing is known."""
    name = name_of(func)
    rule = RULES.get(name)
    if rule is None or not _on_cpu(args, kwargs, result):
        return 0
    return max(0, int(rule(Called(func, args, kwargs, result))))


def kept_of(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> int:
    """Bytes that the storage of a result has at least: some kernels use it for themselves before."""
    if name_of(func) not in KEPT or not _on_cpu(args, kwargs, result):
        return 0
    return composed.kept_of(Called(func, args, kwargs, result))


def room_of(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> int:
    """Bytes that hold all of it in a place of its own, where that of a result cannot be used before."""
    most = workspace_of(func, args, kwargs, result)
    name = name_of(func)
    if most and name == "convolution":
        return convolutions.room_of_convolution(Called(func, args, kwargs, result))
    return most + sum(t.nbytes for t in flat_tensors(result)) if name == "convolution_backward" else most


def inside_of(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> int:
    """Bytes of tensors inside of what torch runs as one op, a layer of a transformer; 0 for what is one operator."""
    return workspace_of(func, args, kwargs, result) if name_of(func) in LAYERS else 0


def _on_cpu(args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> bool:
    tensor = next(flat_tensors([args, kwargs, result]), None)
    return tensor is not None and tensor.device.type == "cpu"
