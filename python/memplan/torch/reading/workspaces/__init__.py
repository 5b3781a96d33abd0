"""What kernels of torch for the CPU allocate for themselves: the most that an op holds above what it returns.

Measured with torch 2.13. `table.py` lists the operators, the other files hold the rules. An operator that is not listed
holds nothing, or it is not known what.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..effects import flat_tensors
from ..loops import Loop
from . import composed
from .called import Called, name_of
from .pieces import NO_NEEDS, Needs, needs_of
from .table import KEPT, LAYERS, RULES, above, room

__all__ = ["NO_NEEDS", "Needs", "inside_of", "kept_of", "pieces_of", "room_of", "workspace_of"]


def workspace_of(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> int:
    """Bytes; 0 where nothing is known."""
    call = _call(func, args, kwargs, result)
    return 0 if call is None else above(call)


def kept_of(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> int:
    """Bytes that the storage of a result has at least: some kernels use it for themselves before."""
    if name_of(func) not in KEPT or not _on_cpu(args, kwargs, result):
        return 0
    return composed.kept_of(Called(func, args, kwargs, result))


def room_of(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> int:
    """Bytes that hold all of it in a place of its own, where that of a result cannot be used before."""
    call = _call(func, args, kwargs, result)
    return 0 if call is None else room(call)


def pieces_of(
    func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any, loops: Sequence[Loop]
) -> list[Needs]:
    """What pieces of a call along each of its loops need of that."""
    call = _call(func, args, kwargs, result) if loops else None
    return [NO_NEEDS] * len(loops) if call is None else needs_of(call, loops)


def inside_of(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> int:
    """Bytes of tensors inside of what torch runs as one op, a layer of a transformer; 0 for what is one operator."""
    return workspace_of(func, args, kwargs, result) if name_of(func) in LAYERS else 0


def _call(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> Called | None:
    """A call of an operator that has a rule."""
    known = name_of(func) in RULES and _on_cpu(args, kwargs, result)
    return Called(func, args, kwargs, result) if known else None


def _on_cpu(args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> bool:
    tensor = next(flat_tensors([args, kwargs, result]), None)
    return tensor is not None and tensor.device.type == "cpu"
