"""The arena of a plan, and every tensor of a recording as a view of its bytes."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from ... import _core
from ...errors import InvalidPlanError, UnsupportedError
from ...plans import usage
from ..private import set_conj, set_neg
from .pages import LEAST, mapped, page_down, page_up, taken
from .recording import Recording, StorageRecord, View

if TYPE_CHECKING:
    from ...plans.plan import Plan

_BASE = 64  # what the arena begins at a multiple of, at least; allocators of torch give as much or more
_BEHIND = 1 << 28  # bytes that may be used behind an arena besides as many as it has: addresses, not memory


class Memory:
    """Where the storages of a recording are: in the arena, in memory of their own, or where the caller keeps them.

    A tensor is one object for as long as this lives: what has taken it sees where its storage is moved to. `arena` are
    bytes to take for the arena, of which others use some too. `behind` are the bytes behind it that scratch may use:
    where there are any, pages of the arena can be moved. InvalidPlanError if a tensor would lie outside of the arena or
    of its buffer, or begin where its elements may not.
    """

    def __init__(self, plan: Plan, recording: Recording, arena: Tensor | None = None) -> None:
        assert plan.graph is not None
        assert plan.buffers is not None
        self._recording = recording
        self._graph, self._buffers = plan.graph, plan.buffers
        self._root = [self._index(record) for record in recording.storages]
        self.offset = [self._place(plan, root) for root in self._root]
        device = self._arena_device(recording.storages)
        for storage, record in enumerate(recording.storages):
            if self.offset[storage] is not None and record.device != device:
                self.offset[storage] = None  # one arena is of one device: what is elsewhere has memory of its own
        if arena is not None and arena.device != device:
            raise UnsupportedError(f"an arena for several methods is on {arena.device}, the network is on {device}")
        alignment = max([_BASE, *plan.problem.alignment.tolist()])
        self.arena, self.behind = _aligned(plan.peak, alignment, device) if arena is None else (arena, 0)
        self._storage: list[torch.UntypedStorage | None] = [None] * len(recording.storages)
        self._base = [0] * len(recording.storages)
        self._tensors: dict[View, Tensor] = {}
        self._tenants: list[list[int]] = [[] for _ in recording.storages]
        for storage in range(len(recording.storages)):
            self._check(plan, storage)
            self._tenants[self.home(storage)].append(storage)
        for storage, offset in enumerate(self.offset):
            if offset is not None:
                self._move(storage, self.arena.untyped_storage(), int(self.arena.storage_offset()) + offset)
            elif self.home(storage) == storage and not self.is_given(storage):
                self.own(storage)

    def kind(self, storage: int) -> str:
        """The kind of a storage's root: "input", "weight" or another."""
        root = self._root[storage]
        return "" if root is None else str(self._graph.tensor(root).kind)

    def is_given(self, storage: int) -> bool:
        """Whether the caller keeps what a storage holds before the first op."""
        return self.kind(storage) in ("input", "weight")

    def unplaced(self, storages: Collection[int]) -> frozenset[int]:
        """Those that have memory of their own: neither the arena's nor the caller's."""
        return frozenset(s for s in storages if self.offset[s] is None and self.home(s) == s and not self.is_given(s))

    def nbytes(self, storage: int) -> int:
        """Bytes of a storage."""
        root = self._root[storage]
        return 0 if root is None else int(self._graph.tensor(root).bytes)

    def home(self, storage: int) -> int:
        """The storage in whose bytes a storage outside of the arena lies: an input that was donated, or itself."""
        root = self._root[storage]
        owner = root if root is None else int(self._buffers.root_of_tensor[root])
        if owner == root or self.offset[storage] is not None:
            return storage
        return self._root.index(owner) if owner in self._root else storage

    def tensor(self, view: View) -> Tensor:
        """The tensor of a view."""
        if view not in self._tensors:
            made = torch.empty(0, dtype=view.dtype, device=self._recording.storages[view.storage].device)
            self._set(made, view)
            self._tensors[view] = made
        return self._tensors[view]

    def forget(self) -> None:
        """Let go of how tensors lie in the arena, of a recording that is run and not looked at: they stay there."""
        for storage, record in enumerate(self._recording.storages):
            if self.offset[storage] is not None:
                record.views = []
        self._tensors = {view: tensor for view, tensor in self._tensors.items() if self.offset[view.storage] is None}

    def span(self, view: View) -> tuple[int, int] | None:
        """The bytes of the arena that a view shows; None for what lies elsewhere."""
        offset = self.offset[view.storage]
        return None if offset is None else (offset + view.begin, offset + view.end)

    def has(self, tensor: Tensor) -> bool:
        """Whether a tensor lies in the arena."""
        return tensor.untyped_storage().data_ptr() == self.arena.untyped_storage().data_ptr()

    def may_be_taken(self, view: View) -> bool:
        """Whether the pages of the arena that a view lies in may leave it; else it is to be copied."""
        dense = view.end - view.begin == math.prod(view.sizes) * view.dtype.itemsize
        own = self.offset[view.storage] is not None and self.behind > 0
        return own and dense and view.end - view.begin >= LEAST and not (view.conj or view.neg)

    def taken(self, view: View) -> Tensor | None:
        """The tensor of a view that may be taken, with its pages; None where the system does not move them."""
        span = self.span(view)
        assert span is not None
        bytes = taken(self.arena, *span)
        if bytes is None:
            return None
        made = torch.empty(0, dtype=view.dtype)
        return made.set_(bytes.untyped_storage(), 0, view.sizes, view.strides)

    def pages_beside(self, given: Collection[View], nbytes: int) -> list[tuple[int, int]]:
        """Addresses (begin, end) of whole pages, at most `nbytes`, that hold nothing of what a run gives."""
        if not self.behind:
            return []
        spans = [span for view in given if (span := self.span(view)) is not None]
        used = np.array(spans, dtype=np.int64).reshape(-1, 2)
        address, found = self.arena.data_ptr(), []
        for offset, room in usage.free_ranges(used[:, 0], used[:, 1], len(self.arena), 1, LEAST):
            begin = page_up(address + offset)
            end = min(page_down(address + offset + room), begin + page_down(nbytes))
            found += [(begin, end)] if begin < end else []
            nbytes -= end - begin
        return found

    def bytes(self, storage: int, begin: int, end: int) -> Tensor:
        """The bytes [begin, end) of a storage, where it lies now."""
        tensor = torch.empty(0, dtype=torch.uint8, device=self._recording.storages[storage].device)
        handle = self._storage[storage]
        assert handle is not None
        tensor.set_(handle, self._base[storage] + begin, (end - begin,), (1,))
        return tensor

    def own(self, storage: int) -> None:
        """Give a storage memory of its own."""
        record = self._recording.storages[storage]
        memory = torch.empty(self.nbytes(storage), dtype=torch.uint8, device=record.device)
        self.settle(storage, memory.untyped_storage(), 0)

    def is_settled(self, storage: int) -> bool:
        """Whether a storage has memory now."""
        return self._storage[storage] is not None

    def lend(self, storage: int, tensor: Tensor, view: View) -> bool:
        """Let a storage be where the caller's tensor is, which stands for a view of it.

        False if the tensor has other strides, or less memory around it than is used.
        """
        base = int(tensor.storage_offset()) * view.dtype.itemsize - view.begin
        end = int(tensor.untyped_storage().nbytes())
        flags = (tensor.is_conj(), tensor.is_neg()) == (view.conj, view.neg)
        alike = flags and tuple(tensor.stride()) == view.strides
        used = [(v, self._inside(s)) for s in self._tenants[storage] for v in self._recording.storages[s].views]
        if not alike or not all(
            base + at + v.begin >= 0 and base + at + v.end <= end and (base + at) % v.dtype.itemsize == 0
            for v, at in used
            if v.end > v.begin
        ):
            return False
        self.settle(storage, tensor.untyped_storage(), base)
        return True

    def settle(self, storage: int, handle: torch.UntypedStorage, base: int) -> None:
        """Put a storage, and what lies in its bytes, into memory from a byte on."""
        for tenant in self._tenants[storage]:
            self._move(tenant, handle, base + self._inside(tenant))

    def _inside(self, storage: int) -> int:
        root = self._root[storage]
        return 0 if root is None or self.home(storage) == storage else int(self._buffers.offset_in_buffer[root])

    def release(self, storage: int) -> None:
        """Let go of memory that is the caller's."""
        for tenant in self._tenants[storage]:
            self._storage[tenant] = None
            for view in self._recording.storages[tenant].views:
                if view in self._tensors:
                    self._tensors[view].set_()  # type: ignore[call-overload]

    def _move(self, storage: int, handle: torch.UntypedStorage, base: int) -> None:
        self._storage[storage], self._base[storage] = handle, base
        for view in self._recording.storages[storage].views:
            if view in self._tensors:
                self._set(self._tensors[view], view)

    def _set(self, tensor: Tensor, view: View) -> None:
        handle, base = self._storage[view.storage], self._base[view.storage]
        if handle is None:
            return
        set_conj(tensor, False)
        set_neg(tensor, False)
        offset = view.offset + base // view.dtype.itemsize if view.end > view.begin else 0
        tensor.set_(handle, offset, view.sizes, view.strides)
        if view.conj:
            set_conj(tensor, True)
        if view.neg:
            set_neg(tensor, True)

    def _index(self, record: StorageRecord) -> int | None:
        return self._graph.index(record.root) if record.root else None

    def _place(self, plan: Plan, root: int | None) -> int | None:
        """Where a storage begins in the arena; None if it is not placed."""
        buffer = -1 if root is None else int(self._buffers.buffer_of_tensor[root])
        if buffer < 0:
            return None
        return int(plan.offsets[buffer]) + int(self._buffers.offset_in_buffer[root])

    def _arena_device(self, records: list[StorageRecord]) -> torch.device:
        """The device on which most of the bytes lie that are placed."""
        placed: dict[torch.device, int] = {}
        for storage, record in enumerate(records):
            if self.offset[storage] is not None:
                placed[record.device] = placed.get(record.device, 0) + self.nbytes(storage)
        return max(placed, key=lambda device: placed[device], default=torch.device("cpu"))

    def _check(self, plan: Plan, storage: int) -> None:
        """Hold a storage against its buffer and the arena, and every view of it against the storage."""
        root, offset = self._root[storage], self.offset[storage]
        if root is None:
            return
        tensor, record = self._graph.tensor(root), self._recording.storages[storage]
        for view in record.views:
            if not 0 <= view.begin <= view.end <= tensor.bytes and view.end > view.begin:
                raise _invalid(tensor, f"{view} lies in its bytes {view.begin} to {view.end}, of {tensor.bytes}")
            item = view.dtype.itemsize
            if offset is not None and offset % item and view.end > view.begin:
                what = f"lies at byte {offset}, where no {view} may begin: its elements have {item} bytes"
                raise _invalid(tensor, f"{what}; plan with alignment=64")
        if offset is not None:
            buffer = int(self._buffers.buffer_of_tensor[root])
            begin, end = int(plan.offsets[buffer]), int(plan.offsets[buffer]) + int(plan.problem.size[buffer])
            inside = 0 <= begin <= offset and offset + tensor.bytes <= end <= plan.peak
            if not inside:
                where = f"bytes {offset} to {offset + tensor.bytes}"
                raise _invalid(tensor, f"lies in {where}, of a buffer in {begin} to {end}, of an arena of {plan.peak}")


def _aligned(nbytes: int, alignment: int, device: torch.device) -> tuple[Tensor, int]:
    """Bytes that begin at a multiple of an alignment, and how many may be used behind them."""
    room = nbytes + alignment
    behind = nbytes + _BEHIND
    memory = mapped(room + behind) if device.type == "cpu" and nbytes else None
    if memory is None:
        memory, behind = torch.empty(room, dtype=torch.uint8, device=device), 0
    return memory[-memory.data_ptr() % alignment :][:nbytes], behind


def _invalid(tensor: _core.Tensor, problem: str) -> InvalidPlanError:
    return InvalidPlanError(f"the plan cannot be run: tensor {tensor.name!r} {problem}")
