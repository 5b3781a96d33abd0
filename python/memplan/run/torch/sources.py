"""Where the inputs and weights of a run lie: with the caller, as in eager, or copied to where the plan has them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...errors import SourceError
from .given import plain_values, require_fits, require_same_values, tensors_given, unknown_weight
from .memory import Memory
from .recording import Recording, SourceRecord

_Owners = list[SourceRecord]


class Sources:
    """The inputs and weights of a program, put where its ops read them.

    Parameters
    ----------
    recording : Recording
        Says what they are.
    memory : Memory
        Where its storages are.
    planned : mapping
        The arguments that are no tensors, by name, as they were planned.
    held : callable
        The weights that the network has now, by name.
    stays : collection of str
        Weights that stay in the arena: what a run leaves there is not copied to the network.
    """

    def __init__(
        self,
        recording: Recording,
        memory: Memory,
        planned: Mapping[str, Any],
        held: Callable[[], Mapping[str, Tensor]],
        stays: Collection[str] = (),
    ) -> None:
        self._stays = stays
        self._recording, self._memory, self._planned, self._held = recording, memory, planned, held
        self._views = {record.name: record.view for record in recording.sources if record.kind == "input"}
        used = {view.storage for call in recording.calls for view in (*call.inputs, *call.outputs)}
        used |= {view.storage for view in recording.returned_views()}
        self._inputs, self._weights = self._by_storage("input", None), self._by_storage("weight", used)
        self._names = {record.name for records in self._weights.values() for record in records}
        self._lent: dict[int, object] = {}  # where the tensors of a storage were when it was lent

    def place(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], weights: Mapping[str, Any], there: Collection[str] = ()
    ) -> list[_Copied]:
        """Put all of them in their places; those that were copied, and are to get their new content back.

        The weights `there` are in the arena already; others are not given anew.
        """
        named = self._recording.named(tuple(args), kwargs)
        inputs = tensors_given(named, self._views)
        require_same_values(plain_values(named), self._planned)
        for name in weights.keys() - self._names:
            raise unknown_weight(name, self._names)
        held = self._held()
        copied: list[_Copied] = []
        for storage, owners in self._inputs.items():
            copied += self._put("input", storage, owners, [inputs[record.name] for record in owners])
        for storage, owners in self._weights.items():
            root = self._recording.storages[storage].root
            if root in there and not any(record.name in weights for record in owners):
                continue
            tensors = [weights.get(r.name) if r.name in weights else _first(held.get(r.name), r.origin) for r in owners]
            put = self._put("weight", storage, owners, tensors)
            copied += [] if root in self._stays else put
        return copied

    def let_go(self) -> None:
        """Inputs are the caller's alone again; weights stay where they are until they move."""
        for storage in self._inputs:
            if self._memory.offset[storage] is None:
                self._memory.release(storage)
                self._lent.pop(storage, None)

    def _put(self, kind: str, storage: int, owners: _Owners, tensors: list[Any]) -> list[_Copied]:
        at = [_place(tensor) for tensor in tensors]
        if storage in self._lent and self._lent[storage] == at:
            return []
        device = self._recording.storages[storage].device
        for record, tensor in zip(owners, tensors, strict=True):
            require_fits(f"{kind} '{record.name}'", tensor, record.view, device)
        if self._lend(storage, owners, tensors):
            self._lent[storage] = at
            return []
        self._lent.pop(storage, None)
        self._copy(storage, owners, tensors)
        written = self._recording.storages[storage].written
        return [_Copied(t, self._memory.tensor(r.view)) for r, t in zip(owners, tensors, strict=True) if written]

    def _lend(self, storage: int, owners: _Owners, tensors: list[Tensor]) -> bool:
        """Use the caller's memory as it is, if all owners of a storage agree where that is."""
        if self._memory.offset[storage] is not None:
            return False
        begins = {t.data_ptr() - record.view.begin for record, t in zip(owners, tensors, strict=True)}
        return len(begins) == 1 and self._memory.lend(storage, tensors[0].detach(), owners[0].view)

    def _copy(self, storage: int, owners: _Owners, tensors: list[Tensor]) -> None:
        """Copy what the caller has into the arena, or into memory that lies as it was planned."""
        if self._memory.offset[storage] is None:
            self._memory.own(storage)
        for record, tensor in zip(owners, tensors, strict=True):
            self._memory.tensor(record.view).copy_(tensor)
        for record, tensor in zip(owners[:-1], tensors[:-1], strict=True):
            if not torch.equal(self._memory.tensor(record.view), tensor):
                names = f"'{record.name}' and '{owners[-1].name}'"
                raise SourceError(f"{names} share bytes in the plan, and came with different content")

    def _by_storage(self, kind: str, used: set[int] | None) -> dict[int, _Owners]:
        found: dict[int, _Owners] = {}
        for record in self._recording.sources:
            if record.kind == kind and (used is None or record.view.storage in used):
                found.setdefault(record.view.storage, []).append(record)
        return found


class _Copied(NamedTuple):
    """A tensor of the caller's that the program writes to, and its copy."""

    tensor: Tensor
    place: Tensor


def _first(*tensors: Any) -> Any:
    return next((tensor for tensor in tensors if tensor is not None), None)


def _place(tensor: Any) -> object:
    """What is the same as long as a tensor stays where and as it is."""
    return (tensor.data_ptr(), tensor.shape, tensor.stride()) if isinstance(tensor, Tensor) else None
