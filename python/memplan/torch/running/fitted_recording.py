"""A recording of a network that was made to fit a capacity: some of its calls again, on storages of their own.

What is moved out of the arena lies in the memory of the host meanwhile.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ... import _core, kinds
from ..private import pytree, schema_of
from .recording import CallRecord, Recording, StorageRecord, View

_AVERAGES = ("momentum", "exponential_average_factor")  # how far batch norm moves its statistics


def with_copies(recording: Recording, graph: _core.Graph, planned: _core.Graph) -> Recording:
    """The recording of a graph with copies of ops in it, whose calls have the positions of the planned ops.

    A copy, "conv~1" of "conv", writes storages of its own; later calls read the newest. Views follow their storages.
    """
    if len(planned.ops) == len(graph.ops):
        return recording
    return _Copying(recording, graph).run(planned)


class _Host:
    """What was moved out of the arena, in buffers that are kept from run to run."""

    def __init__(self) -> None:
        self._bytes: dict[str, Tensor] = {}

    def keep(self, name: str, data: Tensor) -> None:
        if name in self._bytes:
            self._bytes[name].copy_(data)
        else:
            self._bytes[name] = data.to("cpu", copy=True)

    def fetch(self, name: str) -> Tensor:
        return self._bytes[name]


class _Copying:
    def __init__(self, recording: Recording, graph: _core.Graph) -> None:
        self._place = {op.name: k for k, op in enumerate(graph.ops)}
        self._call = {call.ops.start: call for call in recording.calls}
        self._storage_of = {record.root: k for k, record in enumerate(recording.storages)}
        self._root: dict[str, str] = {}
        for op in graph.ops:
            self._root.update((view, self._root.get(of, of)) for view, of, _ in (*op.aliases, *op.overwrites))
        self._bytes = {tensor.name: tensor.bytes for tensor in graph.tensors}
        self._host = _Host()
        self._kept = {view.storage for view in recording.returned_views()}
        self._newest: dict[int, int] = {}
        self._new = recording.copied()

    def run(self, planned: _core.Graph) -> Recording:
        fetched = {name.rsplit("~", 1)[0] for op in planned.ops if op.type == kinds.FETCH for name in op.outputs}
        out = {self._root.get(name, name) for op in planned.ops if op.type == kinds.MOVE_OUT for name in op.inputs}
        self._new.handed = {self._storage_of[name]: partial(self._host.fetch, name) for name in out - fetched}
        for step, op in enumerate(planned.ops):
            if op.type in kinds.MOVES:
                self._move(op, step)
                continue
            again = op.name not in self._place
            place = self._place[op.name.rsplit("~", 1)[0] if again else op.name]
            call = self._call.get(place)
            if call is None:
                continue  # of views that a call has made
            if again:
                self._again(call, op, step)
            else:
                self._new.calls.append(self._moved(call, step))
        return self._new

    def _again(self, call: CallRecord, op: _core.Op, step: int) -> None:
        if not call.writes and not any(call.fresh):
            return  # views follow their storages
        inputs = self._moved(call, step)
        roots = {name.rsplit("~", 1)[0]: name for name in op.outputs}
        before = dict(self._newest)
        for view, fresh in zip(call.outputs, call.fresh, strict=True):
            if fresh and self._newest.get(view.storage) == before.get(view.storage):
                old = self._new.storages[view.storage]
                self._newest[view.storage] = len(self._new.storages)
                self._new.storages.append(StorageRecord(old.device, roots[old.root], old.written))
        outputs = tuple(self._view(view) for view in call.outputs)
        args, kwargs = _without_averages(call, inputs)
        result = pytree.tree_map(self._leaf, call.result)
        self._new.calls.append(replace(inputs, args=args, kwargs=kwargs, outputs=outputs, result=result))
        for storage in self._kept:  # the caller gets the first one
            self._newest.pop(storage, None)

    def _move(self, op: _core.Op, step: int) -> None:
        """A call that keeps the bytes of a storage, or one that writes them into a storage of its own."""
        [name] = op.inputs or op.outputs
        root = name if op.inputs else name.rsplit("~", 1)[0]
        root = self._root.get(root, root)
        storage = self._storage_of[root]
        ops = range(step, step + 1)
        if op.type == kinds.MOVE_OUT:
            view = self._all_of(storage)
            self._new.calls.append(CallRecord(partial(self._host.keep, root), (view,), {}, (view,), (), (), True, ops))
            return
        old = self._new.storages[storage]
        self._newest[storage] = len(self._new.storages)
        self._new.storages.append(StorageRecord(old.device, name, old.written))
        view = self._all_of(self._newest[storage])
        self._new.calls.append(CallRecord(partial(self._host.fetch, root), (), {}, (), (view,), (True,), False, ops))

    def _all_of(self, storage: int) -> View:
        """The bytes of a storage."""
        record = self._new.storages[storage]
        size = self._bytes[record.root.rsplit("~", 1)[0] if record.root not in self._bytes else record.root]
        view = View(storage, 0, (size,), (1,), torch.uint8, False, False, 0, size)
        record.views.append(view)
        return view

    def _moved(self, call: CallRecord, step: int) -> CallRecord:
        args, kwargs = pytree.tree_map(self._leaf, (call.args, dict(call.kwargs)))
        return replace(
            call,
            args=args,
            kwargs=kwargs,
            inputs=tuple(map(self._view, call.inputs)),
            outputs=tuple(map(self._view, call.outputs)),
            leaves=frozenset(map(self._view, call.leaves)),
            result=pytree.tree_map(self._leaf, call.result),
            written=frozenset(self._newest.get(storage, storage) for storage in call.written),
            ops=range(step, step + 1),
        )

    def _leaf(self, value: Any) -> Any:
        return self._view(value) if isinstance(value, View) else value

    def _view(self, view: View) -> View:
        storage = self._newest.get(view.storage, view.storage)
        if storage == view.storage:
            return view
        moved = replace(view, storage=storage)
        record = self._new.storages[storage]
        if moved not in record.views:
            record.views.append(moved)
        return moved


def _without_averages(call: CallRecord, copy: CallRecord) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a copy: batch norm leaves its statistics as they are, as the first call has moved them."""
    args, kwargs = list(copy.args), dict(copy.kwargs)
    schema = schema_of(call.function)
    if call.writes and any(call.fresh) and schema is not None:
        for place, argument in enumerate(schema.arguments):
            if argument.name in _AVERAGES and place < len(args):
                args[place] = 0.0
            elif argument.name in _AVERAGES and argument.name in kwargs:
                kwargs[argument.name] = 0.0
    return tuple(args), kwargs
