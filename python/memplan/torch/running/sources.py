"""Where the inputs and weights of a run lie: with the caller, as in eager, or copied to where the plan has them."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...errors import SourceError
from ..private import storage_key
from .inputs import (
    plain_values,
    require_fits,
    require_gradient,
    require_lies,
    require_same_values,
    same_content,
    tensors_given,
    unknown_weight,
)
from .memory import Memory
from .recording import Recording, SourceRecord, View
from .sharing import Sharing

_Owners = list[SourceRecord]
Gathered = dict[int, list[Tensor]]


class Sources:
    """The inputs and weights of a program, put where its ops read them.

    `planned` are the arguments that are no tensors, by name, as they were planned; `held` gives the weights that the
    network has now; `stays` are weights that stay in the arena: what a run leaves there is not copied to the network.
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
        self._owners = self._by_storage()
        self._sharing = Sharing(recording, self._owners)
        self._names = {
            record.name for records in self._owners.values() for record in records if record.kind == "weight"
        }
        self._passing = [s for s, owners in self._owners.items() if any(record.kind == "input" for record in owners)]
        self._at: dict[int, object] = {}  # where and how the tensors of a storage lay in the last run
        self._lent: set[int] = set()  # storages that lie where those are
        self._copied: dict[int, list[_Copied]] = {}  # what was copied in this run, and is to get its new content back
        self._given: Gathered = {}  # the tensors of those storages

    @property
    def storages(self) -> frozenset[int]:
        """The storages that inputs and weights lie in."""
        return frozenset(self._owners)

    def gather(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], weights: Mapping[str, Any], there: Collection[str] = ()
    ) -> Gathered:
        """The tensors of each storage, held against the plan, before anything is written.

        The weights `there` are in the arena already; others are not given anew.

        SourceError: they are not as planned; the message names them.
        """
        named = self._recording.named(tuple(args), kwargs)
        inputs = tensors_given(named, self._views)
        require_same_values(plain_values(named), self._planned)
        for name in weights.keys() - self._names:
            raise unknown_weight(name, self._names)
        held = self._held()
        found: dict[int, list[Tensor]] = {}
        loose: dict[int, bool] = {}
        for storage, owners in self._owners.items():
            record = self._recording.storages[storage]
            own = not any(owner.name in weights for owner in owners)
            if own and record.root in there and storage not in self._passing:
                continue
            found[storage] = [_tensor_of(owner, inputs, weights, held) for owner in owners]
            if not own:
                loose[storage] = record.written
        at = {storage: [_place(tensor) for tensor in tensors] for storage, tensors in found.items()}
        moved = [storage for storage in found if self._at.get(storage) != at[storage] or storage in loose]
        for storage in moved:
            for owner, tensor in zip(self._owners[storage], found[storage], strict=True):
                self._require(owner, tensor, weights)
        self._sharing.require_same(found, moved, loose)
        for storage in self._passing:
            found[storage] = [self._outside(storage, tensor) for tensor in found[storage]]
        self._lent -= set(moved)
        self._at.update(at)
        return found

    def place(self, found: Gathered) -> None:
        """Put all of them in their places."""
        for storage, tensors in found.items():
            copied = self._put(storage, tensors)
            if copied and self._recording.storages[storage].root not in self._stays:
                self._copied[storage], self._given[storage] = copied, tensors

    def give_back(self, storage: int) -> None:
        """Let the caller's tensors have what was written to their copies: now, while it is there."""
        for tensor, place in self._copied.pop(storage, ()):
            tensor.copy_(place)

    def update(self, target: View, value: Tensor) -> None:
        """Write a value to a source after the last op, when its place in the arena may be another's."""
        if target.storage not in self._copied:
            self._memory.tensor(target).copy_(value)
        for record, tensor in zip(self._owners[target.storage], self._given.get(target.storage, ()), strict=False):
            if record.view is target:
                tensor.copy_(value)

    def let_go(self) -> None:
        """Inputs are the caller's alone again; weights stay where they are until they move."""
        self._copied.clear()
        self._given.clear()
        for storage in self._passing:
            self._at.pop(storage, None)
            self._lent.discard(storage)
            if self._memory.offset[storage] is None:
                self._memory.release(storage)

    def _require(self, record: SourceRecord, tensor: Any, weights: Mapping[str, Any]) -> None:
        """SourceError unless a tensor is one like that which was planned.

        A weight that was given for this run counts by its content, as one of a state that is loaded.
        """
        what, device = f"{record.kind} '{record.name}'", self._recording.storages[record.view.storage].device
        require_fits(what, tensor, record.view, device)
        if record.kind == "input" or record.name not in weights:
            require_lies(what, tensor, record.view)
            if self._recording.loss is not None:
                require_gradient(what, tensor, record.requires_grad)

    def _outside(self, storage: int, tensor: Tensor) -> Tensor:
        """An input, as a copy if it is of the arena, which the run writes to, and does not lie in its place already."""
        memory = self._memory
        if storage_key(tensor.untyped_storage()) != storage_key(memory.arena.untyped_storage()):
            return tensor
        stays = self._recording.storages[storage].root in self._stays
        if stays and any(tensor.data_ptr() == memory.tensor(r.view).data_ptr() for r in self._owners[storage]):
            return tensor
        copy = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)
        return copy.copy_(tensor)

    def _put(self, storage: int, tensors: list[Tensor]) -> list[_Copied]:
        if storage in self._lent:
            return []
        owners = self._owners[storage]
        if self._lend(storage, owners, tensors):
            self._lent.add(storage)
            return []
        return self._copy(storage, owners, tensors)

    def _lend(self, storage: int, owners: _Owners, tensors: list[Tensor]) -> bool:
        """Use the caller's memory as it is, if all owners of a storage agree where that is."""
        if self._memory.offset[storage] is not None:
            return False
        begins = {t.data_ptr() - record.view.begin for record, t in zip(owners, tensors, strict=True)}
        return len(begins) == 1 and self._memory.lend(storage, tensors[0].detach(), owners[0].view)

    def _copy(self, storage: int, owners: _Owners, tensors: list[Tensor]) -> list[_Copied]:
        """Copy what the caller has into the arena, or into memory that lies as it was planned."""
        memory = self._memory
        if memory.offset[storage] is None:
            memory.own(storage)
        reach = self._sharing.reach.get(storage)
        if reach is not None:
            pairs = [self._bytes(owners[0], tensors[0], *reach)]
        else:
            pairs = [self._pair(record, tensor) for record, tensor in zip(owners, tensors, strict=True)]
        for tensor, place in pairs:
            place.copy_(tensor)
        for pair, record in zip(pairs[:-1], owners, strict=False):
            if not same_content(pair.place, pair.tensor):
                names = f"'{record.name}' and '{owners[-1].name}'"
                raise SourceError(f"{names} share bytes in the plan, and came with different content")
        return pairs if self._recording.storages[storage].written else []

    def _pair(self, record: SourceRecord, tensor: Tensor) -> _Copied:
        """A tensor and its place; if it leaves bytes out, these too: the program may see them (as_strided)."""
        view = record.view
        gaps = view.end - view.begin != math.prod(view.sizes) * view.dtype.itemsize
        if gaps and tuple(tensor.stride()) == view.strides:
            return self._bytes(record, tensor, view.begin, view.end)
        return _Copied(tensor, self._memory.tensor(view))

    def _bytes(self, record: SourceRecord, tensor: Tensor, begin: int, end: int) -> _Copied:
        """The bytes [begin, end) of a tensor's storage, and their place."""
        base = int(tensor.storage_offset()) * record.view.dtype.itemsize - record.view.begin
        bytes_of_tensor = torch.empty(0, dtype=torch.uint8, device=tensor.device)
        bytes_of_tensor.set_(tensor.untyped_storage(), base + begin, (end - begin,), (1,))
        return _Copied(bytes_of_tensor, self._memory.bytes(record.view.storage, begin, end))

    def _by_storage(self) -> dict[int, _Owners]:
        """The sources of each storage that is an input's, or that the program uses."""
        used = {view.storage for call in self._recording.calls for view in (*call.inputs, *call.outputs)}
        used |= {view.storage for view in self._recording.returned_views()}
        used |= {record.view.storage for record in self._recording.sources if record.kind == "input"}
        found: dict[int, _Owners] = {}
        for record in self._recording.sources:
            if record.view.storage in used:
                found.setdefault(record.view.storage, []).append(record)
        return found


class _Copied(NamedTuple):
    """A tensor of the caller's that the program writes to, and its copy."""

    tensor: Tensor
    place: Tensor


def _tensor_of(
    record: SourceRecord, inputs: Mapping[str, Tensor], weights: Mapping[str, Any], held: Mapping[str, Any]
) -> Any:
    if record.kind == "input":
        return inputs[record.name]
    if record.name in weights:
        return weights[record.name]
    tensor = held.get(record.name)
    return record.origin if tensor is None else tensor


def _place(tensor: Any) -> object:
    """What is the same as long as a tensor stays where and as it is."""
    if not isinstance(tensor, Tensor) or tensor.layout != torch.strided:
        return None
    return (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype, tensor.requires_grad)
