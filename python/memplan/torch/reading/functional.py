"""Operators that write over their first argument, and what makes the same anew: `relu` of `relu_`.

If the bytes that such an operator writes to are seen by nobody else, or by those alone that read them later, it is as
well one that makes a new tensor. A plan may still put that over the argument, and an op that makes its result anew may
be moved, computed again, or run in pieces.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ...inplace_ops import reusable
from ..private import schema_of, storage_key
from . import kernels
from .effects import flat_tensors
from .loops import loops_of, unread
from .relations import extent, is_dense


def functional(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The operator that makes anew what a call writes over all bytes of its first argument's storage; None if none is.

    Each element of the result depends on the same element of the argument, and it lies in memory as the argument does.
    """
    twin = _twin(func)
    if twin is None or not args or not isinstance(args[0], Tensor):
        return None
    target = args[0]
    if not is_dense(target) or extent(target) != target.untyped_storage().nbytes():
        return None
    operands = list(flat_tensors([list(args), dict(kwargs)]))
    if any(_shares(target, other) for other in operands if other is not target):
        return None
    over = reusable(str(twin), operands)
    if not over or over[0] is not target or unread(twin, tuple(args)) is not None:
        return None
    try:
        result = kernels.run(twin, list(args), dict(kwargs))
    except Exception:  # some kernels that write over their argument take what others do not
        return None
    if not isinstance(result, Tensor) or _form(result) != _form(target):
        return None
    loops = loops_of(twin, args, kwargs, result)
    goes_along = loops and all(any(tensor is target and rows for tensor, rows in loop.inputs) for loop in loops)
    return twin if goes_along else None


def _twin(func: Any) -> Any:
    """The overload without a write, with the same arguments, of `aten.relu_.default`."""
    schema = schema_of(func)
    if schema is None or not schema.is_mutable or not schema.name.startswith("aten::"):
        return None
    name = schema.name.removeprefix("aten::")
    if not name.endswith("_") or name.endswith("__"):
        return None
    packet = getattr(torch.ops.aten, name[:-1], None)
    twin = getattr(packet, schema.overload_name or "default", None)
    if twin is None or schema_of(twin).is_mutable or len(schema_of(twin).returns) != 1:
        return None
    own, its = ([(a.name, str(a.type)) for a in one.arguments] for one in (schema, schema_of(twin)))
    return twin if own == its else None


def _shares(a: Tensor, b: Tensor) -> bool:
    return bool(storage_key(a.untyped_storage()) == storage_key(b.untyped_storage()))


def _form(tensor: Tensor) -> tuple[Any, ...]:
    return tensor.shape, tensor.stride(), tensor.storage_offset(), tensor.dtype, tensor.device
