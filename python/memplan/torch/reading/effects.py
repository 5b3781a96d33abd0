"""What an operator does besides returning something: tensors that it writes to, and generators that it draws from.

The schema of an operator says which arguments it writes to, and a tag that it draws random numbers. Both bind the
order of ops although nothing passes from one to the next.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ..private import schema_of

_aten = torch.ops.aten
LIFTS = {_aten.lift.default, _aten.lift_fresh.default, _aten.lift_fresh_copy.default}  # of data that was just made
ZEROS = {_aten.zeros.default, _aten.zeros_like.default, _aten.new_zeros.default}
ONES = {_aten.ones.default, _aten.ones_like.default, _aten.new_ones.default}
# Operators that update running statistics in training although their schemas do not say so
UPDATES = {
    f"aten::{name}"
    for name in (
        "native_batch_norm",
        "cudnn_batch_norm",
        "miopen_batch_norm",
        "batch_norm_update_stats",
        "batch_norm_gather_stats",
        "batch_norm_gather_stats_with_counts",
    )
}
_STATISTICS = ("running_mean", "running_var")


def flat_tensors(value: Any) -> Iterator[Tensor]:
    """The tensors of an operator's arguments or results, in order."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from flat_tensors(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from flat_tensors(item)


def mutated(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Tensor]:
    """The tensors that a call of an operator writes to."""
    schema = schema_of(func)
    if not schema.is_mutable and schema.name not in UPDATES:
        return []
    given = _given(func, args, kwargs)
    names = [a.name for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write]
    if schema.name in UPDATES and given.get("training", True):
        names += _STATISTICS
    return [tensor for name in names for tensor in flat_tensors(given.get(name))]


def generator(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], tensors: Sequence[Tensor]) -> Hashable:
    """What stands for the generator that a call of an operator draws from; None if it draws from none.

    `tensors` are those that it reads and returns, whose device has the generator that is used by default.
    """
    if not draws(func, args, kwargs):
        return None
    own = _given(func, args, kwargs).get("generator")
    if own is not None and own is not torch.default_generator:
        return id(own)
    return str(tensors[0].device) if tensors else "cpu"


def draws(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether a call draws random numbers. Attention does not where its dropout is 0, whatever its operator says."""
    if torch.Tag.nondeterministic_seeded not in getattr(func, "tags", ()):
        return False
    return schema_of(func) is None or _given(func, args, kwargs).get("dropout_p") != 0


def _given(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """All arguments by name; where torch leaves one out, its default."""
    parameters = schema_of(func).arguments
    defaults = {parameter.name: parameter.default_value for parameter in parameters if parameter.has_default_value()}
    return {**defaults, **{p.name: value for p, value in zip(parameters, args, strict=False)}, **kwargs}
