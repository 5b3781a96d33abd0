"""From recorded operators to a graph dict: tensors that share a storage become one root and views of it.

What torch hands out are tensors; what memory is made of are storages. A storage's first tensor is its root
and stands for all of its bytes; every other tensor in it is an alias at a byte offset:

    storage   0                                   nbytes
              ├────────────── root ──────────────┤
                    ├── y = x.chunk(2)[1] ──┤          offset = storage_offset * itemsize

An operator that mutates a tensor gives the same bytes a new name, and whoever reads these bytes later reads
that name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ...errors import SourceError

Geometry = tuple[int, tuple[int, ...], tuple[int, ...], torch.dtype, bool]


@dataclass(eq=False)
class _Value:
    name: str
    kind: str
    nbytes: int
    shape: list[int]
    dtype: str
    serial: int


@dataclass(eq=False)
class _Storage:
    handle: torch.UntypedStorage  # held, so that no later storage can get its address
    root: _Value
    names: dict[Geometry, _Value]  # the newest name of every range of bytes that was handed out
    written: _Value | None = None  # the newest name that a mutation gave


@dataclass(eq=False)
class _Op:
    name: str
    type: str
    inputs: dict[_Value, None]
    workspace: int = 0
    outputs: list[_Value] = field(default_factory=list)
    alias: list[tuple[_Value, _Value, int]] = field(default_factory=list)


class _Names:
    """Names that are handed out once: a second `relu` becomes `relu_1`."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}

    def __call__(self, name: str) -> str:
        name = name or "unnamed"
        count = self._next.setdefault(name, 0)
        if count == 0:
            self._next[name] = 1
            return name
        while (candidate := f"{name}_{count}") in self._next:
            count += 1
        self._next[name] = count + 1
        self._next[candidate] = 1
        return candidate


class GraphRecorder:
    """A graph in the making: sources first, then ops in execution order, then `graph` gives the dict.

    Every storage that it has seen is kept until it goes away itself: with fake tensors that takes no memory,
    and a storage stays recognisable by its address.
    """

    def __init__(self) -> None:
        self._values: list[_Value] = []
        self._ops: list[_Op] = []
        self._storages: dict[int, _Storage] = {}
        self._tensor_name = _Names()
        self._op_name = _Names()
        self._constants = 0

    def source(self, tensor: Tensor, name: str, kind: str) -> None:
        """Declare a tensor that exists before the first op.

        Parameters
        ----------
        tensor : Tensor
            Any tensor of the storage; one whose storage is known already changes nothing.
        name : str
            Its name; a number is added where it is taken.
        kind : str
            `input` or `weight`.
        """
        if _address(tensor, name) not in self._storages:
            self._root(tensor, self._tensor_name(name), kind)

    def constant(self, tensor: Tensor) -> None:
        """Declare a weight that has no name of its own: `constant_0`, `constant_1`, ..."""
        if not self.knows(tensor):
            self.source(tensor, f"constant_{self._constants}", "weight")
            self._constants += 1

    def knows(self, tensor: Tensor) -> bool:
        """Whether the tensor's storage has been seen."""
        return _address(tensor, "a tensor") in self._storages

    def op(
        self,
        name: str,
        type: str,
        inputs: Iterable[Tensor],
        outputs: Sequence[Tensor],
        mutated: Iterable[Tensor] = (),
        workspace: int = 0,
    ) -> None:
        """Append an op.

        Parameters
        ----------
        name : str
            The op's name and its outputs': `name`, or `name.0`, `name.1`, ... where there are several. A
            number is added where it is taken.
        type : str
            What the op computes, `aten.relu.default`.
        inputs : iterable of Tensor
            What it reads, repetitions allowed. An unknown storage is declared as a constant.
        outputs : sequence of Tensor
            What it yields. One in a known storage is an alias.
        mutated : iterable of Tensor
            The inputs that it writes to: those it does not also yield are given new names as outputs.
        workspace : int
            Bytes that it needs while it runs.

        Raises
        ------
        SourceError
            If a tensor has no storage of its own, as sparse ones.
        """
        changed = list(mutated)
        written = {_address(t, f"op '{name}'") for t in changed}
        op = _Op(self._op_name(name), type, {}, workspace)
        self._ops.append(op)
        for tensor in [*inputs, *changed]:
            op.inputs.update(dict.fromkeys(self._read(tensor)))
        results = _distinct([*outputs, *changed], f"op '{name}'")
        for number, tensor in enumerate(results):
            label = op.name if len(results) == 1 else f"{op.name}.{number}"
            self._write(op, tensor, self._tensor_name(label), written)

    def rename(self, tensor: Tensor, name: str) -> None:
        """Give the newest name of a recorded tensor's bytes another name, unless an op did not make it."""
        value = self._newest(tensor)
        if value.kind == "intermediate":
            value.name = self._tensor_name(name)

    def graph(self, outputs: Iterable[Tensor], free: Collection[Tensor] = ()) -> dict[str, Any]:
        """The graph dict.

        Parameters
        ----------
        outputs : iterable of Tensor
            What the caller gets; an unknown storage is declared as a constant.
        free : collection of Tensor
            Tensors whose storages are counted elsewhere: they are given 0 bytes.

        Returns
        -------
        dict
            `tensors`, `ops` and `outputs`.
        """
        names = list(dict.fromkeys(self._read(tensor)[0] for tensor in outputs))
        for storage in self._storages.values():
            self._grow(storage)
        outside = self._outside({_address(t, "a tensor") for t in free})
        return {
            "tensors": [_tensor_entry(value, value in outside) for value in self._values],
            "ops": [_op_entry(op, outside) for op in self._ops],
            "outputs": [value.name for value in names],
        }

    def inner_bytes(self, free: Collection[Tensor]) -> int:
        """Bytes of all storages that ops made, save those of `free`: a bound on what a plan of them needs."""
        outside = {_address(t, "a tensor") for t in free}
        return sum(
            storage.root.nbytes
            for address, storage in self._storages.items()
            if storage.root.kind == "intermediate" and address not in outside
        )

    def mutated(self, tensor: Tensor) -> bool:
        """Whether an op has mutated the tensor's storage."""
        storage = self._storages.get(_address(tensor, "a tensor"))
        return storage is not None and storage.written is not None

    def _outside(self, addresses: set[int]) -> set[_Value]:
        storages = [self._storages[address] for address in addresses & self._storages.keys()]
        return {value for storage in storages for value in self._members(storage)}

    def _members(self, storage: _Storage) -> list[_Value]:
        members = [storage.root]
        for op in self._ops:
            members += [view for view, root, _ in op.alias if root is storage.root]
        return members

    def _value(self, name: str, kind: str, nbytes: int, tensor: Tensor) -> _Value:
        dtype = str(tensor.dtype).removeprefix("torch.")
        value = _Value(name, kind, nbytes, [int(n) for n in tensor.shape], dtype, len(self._values))
        self._values.append(value)
        return value

    def _root(self, tensor: Tensor, name: str, kind: str) -> _Value:
        handle = tensor.untyped_storage()
        root = self._value(name, kind, int(handle.nbytes()), tensor)
        self._storages[handle._cdata] = _Storage(handle, root, {_geometry(tensor): root})
        return root

    def _newest(self, tensor: Tensor) -> _Value:
        storage = self._storages[_address(tensor, "a tensor")]
        return storage.names.get(_geometry(tensor), storage.root)

    def _read(self, tensor: Tensor) -> list[_Value]:
        """The tensor's name, and the name of a mutation that has changed its bytes since."""
        self.constant(tensor)
        value = self._newest(tensor)
        written = self._storages[_address(tensor, "a tensor")].written
        return [value, written] if written is not None and written.serial > value.serial else [value]

    def _write(self, op: _Op, tensor: Tensor, name: str, written: set[int]) -> None:
        storage = self._storages.get(_address(tensor, f"op '{op.name}'"))
        if storage is None:
            op.outputs.append(self._root(tensor, name, "intermediate"))
            return
        self._grow(storage)
        if storage.root in op.outputs:
            op = self._view_op(op)
        view = self._value(name, "intermediate", _extent(tensor), tensor)
        offset = tensor.storage_offset() * tensor.dtype.itemsize if view.nbytes else 0
        op.outputs.append(view)
        op.inputs.setdefault(storage.root)
        op.alias.append((view, storage.root, int(offset)))
        storage.names[_geometry(tensor)] = view
        if _address(tensor, f"op '{op.name}'") in written:
            storage.written = view

    def _view_op(self, op: _Op) -> _Op:
        """An op of its own for views of what `op` has just made: an alias needs an earlier op's output."""
        views = _Op(self._op_name(f"{op.name}.views"), "views", {})
        self._ops.append(views)
        return views

    @staticmethod
    def _grow(storage: _Storage) -> None:
        """An `out=` variant may have resized the storage: it counts with the most that it ever had."""
        storage.root.nbytes = max(storage.root.nbytes, int(storage.handle.nbytes()))


def _address(tensor: Tensor, what: str) -> int:
    if tensor.layout != torch.strided:
        raise SourceError(f"{what}: expected a dense (strided) tensor, got {tensor.layout}")
    return int(tensor.untyped_storage()._cdata)


def _geometry(tensor: Tensor) -> Geometry:
    lazy = tensor.is_conj() or tensor.is_neg()
    return int(tensor.storage_offset()), tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype, lazy


def _extent(tensor: Tensor) -> int:
    """Bytes from the tensor's first element to its last."""
    if tensor.numel() == 0:
        return 0
    steps = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return int(1 + steps) * tensor.dtype.itemsize


def _distinct(tensors: Iterable[Tensor], what: str) -> list[Tensor]:
    """The tensors without those that show the same bytes in the same way as an earlier one."""
    first: dict[tuple[int, Geometry], Tensor] = {}
    for tensor in tensors:
        first.setdefault((_address(tensor, what), _geometry(tensor)), tensor)
    return list(first.values())


def _tensor_entry(value: _Value, outside: bool) -> dict[str, Any]:
    nbytes = 0 if outside else value.nbytes
    return {
        "name": value.name,
        "bytes": nbytes,
        "kind": value.kind,
        "shape": value.shape,
        "dtype": value.dtype,
    }


def _op_entry(op: _Op, outside: set[_Value]) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": op.name,
        "type": op.type,
        "inputs": [value.name for value in op.inputs],
        "outputs": [value.name for value in op.outputs],
    }
    if op.workspace:
        entry["workspace"] = op.workspace
    if op.alias:
        entry["alias"] = [
            {"output": view.name, "input": root.name, "offset": 0 if view in outside else offset}
            for view, root, offset in op.alias
        ]
    return entry
