"""From ExecuTorch's tensor specs to what is placed: specs that lie in others (`storage_base`) form one storage.

A spec is alive from `lifetime[0]` to `lifetime[1]`, both included; its bytes are `allocated_memory`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import SourceError


@dataclass(eq=False)
class Storage:
    """A spec that lies in no other, and all that lie in it, with their offsets in it.

    It is alive in the steps [first, last): from the first to the last of its specs.
    """

    name: str
    bytes: int
    first: int
    last: int
    members: list[tuple[Any, int]] = field(default_factory=list)


def storages_of(specs: Iterable[Any], names: Mapping[int, str]) -> dict[int, list[Storage]]:
    """The storages by memory id; `names` are by the identity of specs.

    SourceError: A spec has no lifetime, a memory id below 1, or no valid place in its `storage_base`.
    """
    specs = list(specs)
    known = {id(spec) for spec in specs}
    storages: dict[int, Storage] = {}
    for spec in specs:
        if spec.storage_base is None:
            storages[id(spec)] = Storage(_name(spec, names), spec.allocated_memory, *_life(spec, names), [(spec, 0)])
    for spec in specs:
        if spec.storage_base is None:
            continue
        root, offset = _place_in_root(spec, known, names)
        storage = storages[id(root)]
        first, last = _life(spec, names)
        storage.first, storage.last = min(storage.first, first), max(storage.last, last)
        storage.members.append((spec, offset))
    by_memory: dict[int, list[Storage]] = {}
    for storage in storages.values():
        by_memory.setdefault(memory_of(storage.members[0][0], names), []).append(storage)
    return by_memory


def memory_of(spec: Any, names: Mapping[int, str]) -> int:
    """The memory that a spec was put into; 1 if a pass has not said where."""
    memory = 1 if spec.mem_id is None else int(spec.mem_id)
    if memory < 1:
        raise SourceError(f"tensor {_name(spec, names)!r} must be in a memory >= 1 (0 has constants), got {memory}")
    return memory


def _place_in_root(spec: Any, known: set[int], names: Mapping[int, str]) -> tuple[Any, int]:
    """The storage that a spec lies in, through all that it lies in on the way, and its offset there."""
    root, offset, seen = spec, 0, {id(spec)}
    while root.storage_base is not None:
        base = root.storage_base
        what = f"tensor {_name(root, names)!r} lies in {_name(base, names)!r}"
        if id(base) not in known:
            raise SourceError(f"{what}, which is not planned (a constant, or an input or output that is not allocated)")
        if id(base) in seen:
            raise SourceError(f"{what}, and that lies in it: storage_base goes in a circle")
        begin, end = root.storage_base_offset, root.storage_base_offset + root.allocated_memory
        if begin < 0 or end > base.allocated_memory:
            raise SourceError(f"{what} at bytes [{begin}, {end}), which must be in [0, {base.allocated_memory})")
        if begin % root.alignment:
            raise SourceError(f"{what} at byte {begin}, which must be a multiple of {root.alignment}")
        seen.add(id(base))
        root, offset = base, offset + begin
    return root, offset


def _life(spec: Any, names: Mapping[int, str]) -> tuple[int, int]:
    first, last = spec.lifetime
    if first is None or last is None or last < first:
        raise SourceError(f"tensor {_name(spec, names)!r} must have a lifetime [first, last], got {spec.lifetime}")
    return int(first), int(last) + 1


def _name(spec: Any, names: Mapping[int, str]) -> str:
    return names.get(id(spec)) or f"{list(spec.shape)} {spec.dtype}"
