"""Bytes that a step reads or keeps, and writes to before it reads them again.

autograd refuses to read a tensor that was written to after it was kept: its version says so. Tensors that share bytes
may have versions of their own: `x.data`, the parts that `unsafe_chunk` makes, what `_unsafe_view` returns. After a
write to one, the backward pass reads what is there then. A copy, or what is computed again, would be something else.
"""

from __future__ import annotations

import sys
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..private import NormBase, base_of, schema_of, version_of
from .effects import flat_tensors, mutated
from .failing import line_of_user

if TYPE_CHECKING:
    from .dry_run import Call, DryRun

_WORK = 100_000  # steps of numpy's search for a byte that two tensors share
_TOO_HARD = getattr(np, "exceptions", np).TooHardError


class _Bytes(NamedTuple):
    """Elements of a storage: where they lie, and how wide they are."""

    first: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    width: int

    @property
    def __array_interface__(self) -> dict[str, Any]:
        strides = tuple(stride * self.width for stride in self.strides)
        kind = {"shape": self.shape, "typestr": f"|V{self.width}", "strides": strides, "version": 3}
        return {**kind, "data": (_SOMEWHERE + self.first, False)}


_SOMEWHERE = 1 << 20  # an address; nobody reads there


class Write(NamedTuple):
    """A write to a storage by an op, and where in the code it is said."""

    op: int
    storage: int
    bytes: _Bytes
    where: str


class Kept(NamedTuple):
    """What autograd keeps since an op."""

    op: int
    storage: int
    bytes: _Bytes


class _Packed(NamedTuple):
    """A tensor, the version of it that autograd has kept, and since which op."""

    tensor: weakref.ref[Tensor]
    version: int
    op: int


class Rewriting:
    """Notes reads and writes, op by op, and what autograd keeps.

    Parameters
    ----------
    number : callable
        A number for each storage: no two have the same.
    passed : iterable of Tensor
        Writes to these are of no account.
    """

    def __init__(self, number: Callable[[Tensor], int], passed: Iterable[Tensor]) -> None:
        self._number = number
        self._passed = {number(tensor) for tensor in passed}
        self._writes: dict[int, list[Write]] = defaultdict(list)
        self._reads: dict[int, list[Kept]] = defaultdict(list)
        self._kept: list[tuple[Kept, Write]] = []  # what was written to before it was read
        self._packed: dict[int, _Packed] = {}  # by the tensor: what autograd kept first of it, at its last version
        self._kept_anew: list[tuple[Kept, Write]] = []  # what was kept before as well, with other bytes and one version

    def ran(self, op: int, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Note an op, and the tensors that it is given."""
        for tensor in flat_tensors([args, kwargs]):
            self._reads[self._number(tensor)].append(self.keep(op, tensor))
        if getattr(schema_of(func), "is_mutable", False):
            for tensor in mutated(func, args, kwargs):
                storage = self._number(tensor)
                if storage not in self._passed:
                    where = f"{func} at {line_of_user(sys._getframe())}"
                    self._writes[storage].append(Write(op, storage, _bytes(tensor), where))

    def keep(self, op: int, tensor: Tensor) -> Kept:
        """What autograd keeps before an op."""
        return Kept(op, self._number(tensor), _bytes(tensor))

    def pack(self, op: int, tensor: Tensor) -> Kept:
        """autograd keeps a tensor."""
        kept = self.keep(op, tensor)
        root = base_of(tensor)
        before = self._packed.get(id(root))
        if before is None or before.tensor() is not root or before.version != version_of(root):
            self._packed[id(root)] = _Packed(weakref.ref(root), version_of(root), op)
        elif (written := self._between(kept._replace(op=before.op), op)) is not None:
            self._kept_anew.append((kept, written))
        return kept

    def read(self, op: int, kept: Kept) -> None:
        """autograd reads what it has kept."""
        found = self._between(kept, op)
        if found is not None:
            self._kept.append((kept, found))

    def look_back(self, found: DryRun, backward: int) -> None:
        """Note which modules may not give up what they keep; the backward pass has begun at the op `backward`."""
        for call in found.calls:
            kept = _kept_by(call, self._kept)
            moved = kept or _kept_by(call, self._kept_anew)  # elsewhere, it is one copy with what was kept before
            if moved is not None:
                found.rewritten.setdefault(call.module, moved)
            reads = [save.read for save in found.saves if call.first <= save.op <= call.last and save.read >= 0]
            again = kept or self._read_by(call, min(reads, default=-1), found.first)
            if again is not None:
                found.not_again.setdefault(call.module, again)
        early = (write for _, write in self._kept if write.op >= backward and write.storage < 0)
        found.too_early = next(early, None)

    def _read_by(self, call: Call, back: int, born: Sequence[int]) -> Write | None:
        """A write that lets a call find something else at the op `back` than it found; None for none.

        Either it writes itself to what was there before, or others write to what it has read.
        """
        for storage, writes in self._writes.items():
            if storage >= 0 and born[storage] >= call.first:
                continue
            inside = next((write for write in writes if call.first <= write.op < call.last), None)
            if inside is not None:
                return inside
            after = any(call.last <= write.op < back for write in writes)
            for read in self._reads[storage] if after else ():
                found = self._between(read, back) if call.first <= read.op < call.last else None
                if found is not None:
                    return found
        return None

    def _between(self, kept: Kept, end: int) -> Write | None:
        writes = self._writes.get(kept.storage, ())
        return next((w for w in writes if kept.op <= w.op < end and _meet(w.bytes, kept.bytes)), None)


def _kept_by(call: Call, written: Iterable[tuple[Kept, Write]]) -> Write | None:
    """A write to what autograd has kept of a call; None for none."""
    return next((write for kept, write in written if call.first <= kept.op <= call.last), None)


def statistics_of_norms(module: torch.nn.Module, weights: Mapping[str, Tensor]) -> Iterator[Tensor]:
    """Running statistics among the weights of a module: a forward that runs again changes copies."""
    for name, part in module.named_modules():
        if isinstance(part, NormBase):
            yield from (weights[key] for key, _ in part.named_buffers(name, recurse=False))


def _bytes(tensor: Tensor) -> _Bytes:
    width = tensor.dtype.itemsize
    return _Bytes(int(tensor.storage_offset()) * width, tuple(tensor.shape), tuple(tensor.stride()), width)


def _meet(a: _Bytes, b: _Bytes) -> bool:
    """Whether two tensors of one storage share a byte; True also if that is hard to say."""
    try:
        return bool(np.shares_memory(np.asarray(a), np.asarray(b), max_work=_WORK))  # type: ignore[arg-type]  # stubs of numpy know -1 and 0 alone
    except _TOO_HARD:
        return True
