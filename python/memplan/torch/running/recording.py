"""What the importer saw: the calls of a network in order, on tensors that are ranges of bytes in storages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from ..private import FakeTensor, disable_current_modes, pytree, storage_key
from ..reading.fake import map_tensors, tensors_in
from ..reading.late_numbers import LateNumber, restored, value_of
from ..reading.listening import Call, Stepped
from ..reading.loops import unread
from ..reading.relations import extent

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class View:
    """A tensor: which bytes of which storage it shows, and as what."""

    storage: int
    offset: int  # in elements
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype
    conj: bool
    neg: bool
    begin: int  # bytes [begin, end) of the storage
    end: int

    def __str__(self) -> str:
        return f"{str(self.dtype).removeprefix('torch.')}[{', '.join(map(str, self.sizes))}]"


class Number(int):
    """Stands for a number that a call reads from a tensor."""


@dataclass
class StorageRecord:
    """A storage that the run has met. `root` is its tensor in the graph."""

    device: torch.device
    root: str = ""
    written: bool = False
    views: list[View] = field(default_factory=list)


@dataclass(frozen=True)
class SourceRecord:
    """A tensor that exists before the first call: an input or a weight, by a name of its own."""

    name: str
    kind: str
    view: View
    origin: Tensor | None
    requires_grad: bool = False


@dataclass(frozen=True, slots=True)
class CallRecord:
    """A call. Its tensors are views; `outputs` are those of its `result` in order, `fresh` those in new storages.

    `leaves` are the inputs that require a gradient: what an operator is made of may depend on that, gradients or not.
    `grad` is whether gradients were on: with them, some kernels return what the backward pass needs.
    `written` are the storages that it writes to, among those of its inputs. A `piece` makes a part of what a call of
    the network makes.
    """

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    inputs: tuple[View, ...]
    outputs: tuple[View, ...]
    fresh: tuple[bool, ...]
    writes: bool
    ops: range
    leaves: frozenset[View] = frozenset()
    grad: bool = False
    number: Number | LateNumber | None = None
    result: Any = None
    written: frozenset[int] = frozenset()
    piece: bool = False


class Recording:
    """A listener that writes down what it hears."""

    def __init__(self) -> None:
        self.anew()

    def anew(self) -> None:
        self.storages: list[StorageRecord] = []
        self.sources: list[SourceRecord] = []
        self.calls: list[CallRecord] = []
        self.named: Callable[..., Mapping[str, Any]] = lambda args, kwargs: {}
        self.result: Any = None
        self.updates: list[tuple[View, View]] = []
        self.loss: View | None = None
        self.gradients: dict[str, View] = {}
        self.stepped: Stepped | None = None
        self.handed: dict[int, Callable[[], Tensor]] = {}  # storages whose bytes the caller gets from elsewhere
        self._storage_at: dict[int, int] = {}
        self._views: dict[View, View] = {}
        self._result_of: dict[int, View] = {}

    def inputs(self, named: Callable[..., Mapping[str, Any]]) -> None:
        self.named = named

    def source(self, tensor: Tensor, name: str, kind: str, origin: Tensor | None) -> None:
        self.sources.append(SourceRecord(name, kind, self._view(tensor), origin, tensor.requires_grad))

    def call(
        self,
        function: Callable[..., Any],
        call: Call,
        result: Any,
        written: Sequence[Tensor],
        ops: range,
        renewed: str = "",
    ) -> None:
        known = len(self.storages)
        args, kwargs = self._noted(call)
        given = _views_in((args, kwargs))
        place = unread(function, args)
        inputs = tuple(view for view in given if place is None or view != args[place])
        if renewed:
            index = self._storage_at.pop(int(storage_key(result.untyped_storage())))
            self.storages[index].root = renewed
        outputs = tuple(self._view(tensor) for _, tensor in tensors_in(result))
        fresh = tuple(view.storage >= known for view in outputs)
        targets = frozenset(self._view(tensor).storage for tensor in written)
        for storage in targets:
            self.storages[storage].written = True
        leaves = _leaves_in(call, given)
        grad = torch.is_grad_enabled()
        made = pytree.tree_map(self._leaf, result)
        record = CallRecord(
            function, args, kwargs, inputs, outputs, fresh, bool(written), ops, leaves, grad, None, made, targets
        )
        self.calls.append(record)

    def number(self, function: Callable[..., Any], call: Call, stand_in: Any, ops: range) -> Any:
        number = stand_in if isinstance(stand_in, LateNumber) else Number(stand_in)
        args, kwargs = self._noted(call)
        inputs = _views_in((args, kwargs))
        leaves = _leaves_in(call, inputs)
        self.calls.append(CallRecord(function, args, kwargs, inputs, (), (), False, ops, leaves, number=number))
        return number

    def returned(self, result: Any, updates: Sequence[tuple[Tensor, Tensor]]) -> None:
        def stand_in(tensor: Tensor, path: str) -> Tensor:
            with disable_current_modes():
                placeholder = torch.empty(0)
            self._result_of[id(placeholder)] = self._view(tensor)
            return placeholder

        self.result = map_tensors(result, stand_in, "output")
        self.updates = [(self._view(target), self._view(value)) for target, value in updates]
        for target, _ in self.updates:
            self.storages[target.storage].written = True

    def trained(self, loss: Tensor, gradients: Mapping[str, Tensor], stepped: Stepped | None) -> None:
        self.stepped = stepped
        self.loss = self._view(loss)
        self.gradients = {name: self._view(gradient) for name, gradient in gradients.items()}

    def ended(self, roots: Mapping[int, str]) -> None:
        for address, index in self._storage_at.items():
            self.storages[index].root = roots.get(address, "")

    def copied(self) -> Recording:
        """Another recording of the same network, without calls as yet."""
        other = copy(self)
        other.storages = [replace(record, views=list(record.views)) for record in self.storages]
        other.calls = []
        return other

    def result_of(self, tensor: Callable[[View], Tensor], numbers: Mapping[int, Any]) -> Any:
        """What the network returns, with tensors for its views, and numbers, by the ids of what stands for them."""
        result = map_tensors(self.result, lambda placeholder, _: tensor(self._result_of[id(placeholder)]), "output")
        return with_numbers(result, numbers) if numbers else result

    def returned_view(self, placeholder: Tensor) -> View:
        """The tensor that a placeholder in `result` stands for."""
        return self._result_of[id(placeholder)]

    def returned_views(self) -> list[View]:
        """All that the caller gets."""
        given = [self.loss] if self.loss is not None else []
        return [*given, *self.gradients.values(), *self._result_of.values(), *(value for _, value in self.updates)]

    def _noted(self, call: Call) -> tuple[tuple[Any, ...], dict[str, Any]]:
        args, kwargs = pytree.tree_map(self._leaf, (tuple(call[0]), dict(call[1])))
        return tuple(args), dict(kwargs)

    def _leaf(self, value: Any) -> Any:
        if isinstance(value, FakeTensor):
            return self._view(value)
        if not isinstance(value, Tensor):
            return restored(value)
        with disable_current_modes():
            return value.detach().clone()  # data that the network made itself

    def _view(self, tensor: Tensor) -> View:
        storage = self._storage(tensor)
        item, offset = tensor.dtype.itemsize, int(tensor.storage_offset())
        sizes, strides = tuple(map(int, tensor.shape)), tuple(map(int, tensor.stride()))
        begin, flags = offset * item, (tensor.is_conj(), tensor.is_neg())
        view = View(storage, offset, sizes, strides, tensor.dtype, *flags, begin, begin + extent(tensor))
        if view not in self._views:
            self._views[view] = view
            self.storages[storage].views.append(view)
        return self._views[view]

    def _storage(self, tensor: Tensor) -> int:
        address = int(storage_key(tensor.untyped_storage()))
        if address not in self._storage_at:
            self._storage_at[address] = len(self.storages)
            self.storages.append(StorageRecord(tensor.device))
        return self._storage_at[address]


def _views_in(value: Any) -> tuple[View, ...]:
    return tuple(leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, View))


def _leaves_in(call: Call, views: tuple[View, ...]) -> frozenset[View]:
    tensors = [leaf for leaf in pytree.tree_leaves((tuple(call[0]), dict(call[1]))) if isinstance(leaf, FakeTensor)]
    return frozenset(view for view, tensor in zip(views, tensors, strict=True) if tensor.requires_grad)


def with_numbers(value: T, numbers: Mapping[int, Any]) -> T:
    """A nest with numbers for what stands for them."""

    def number(leaf: Any) -> Any:
        return numbers[id(leaf)] if isinstance(leaf, Number) else value_of(leaf, numbers)

    mapped: T = pytree.tree_map(number, value)
    return mapped


def with_tensors(value: T, tensor: Callable[[View], Tensor]) -> T:
    """Arguments with tensors for their views."""
    mapped: T = pytree.tree_map(lambda leaf: tensor(leaf) if isinstance(leaf, View) else leaf, value)
    return mapped
