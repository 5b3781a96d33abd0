"""A recording of a network that was made to fit a capacity: some of its calls again, on storages of their own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch.utils import _pytree as pytree

from ... import _core
from .recording import CallRecord, Recording, StorageRecord, View

_AVERAGES = ("momentum", "exponential_average_factor")  # how far batch norm moves its statistics


def with_copies(recording: Recording, graph: _core.Graph, planned: _core.Graph) -> Recording:
    """The recording of a graph with copies of ops in it, whose calls have the positions of the planned ops.

    A copy, "conv~1" of "conv", writes storages of its own; later calls read the newest. Views follow their storages.
    """
    if len(planned.ops) == len(graph.ops):
        return recording
    return _Copying(recording, graph).run(planned)


class _Copying:
    def __init__(self, recording: Recording, graph: _core.Graph) -> None:
        self._place = {op.name: k for k, op in enumerate(graph.ops)}
        self._call = {call.ops.start: call for call in recording.calls}
        self._kept = {view.storage for view in recording.returned_views()}
        self._newest: dict[int, int] = {}
        self._new = recording.copied()

    def run(self, planned: _core.Graph) -> Recording:
        for step, op in enumerate(planned.ops):
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
        self._new.calls.append(replace(inputs, args=args, kwargs=kwargs, outputs=outputs))
        for storage in self._kept:  # the caller gets the first one
            self._newest.pop(storage, None)

    def _moved(self, call: CallRecord, step: int) -> CallRecord:
        args, kwargs = pytree.tree_map(self._leaf, (call.args, dict(call.kwargs)))
        return replace(
            call,
            args=args,
            kwargs=kwargs,
            inputs=tuple(map(self._view, call.inputs)),
            outputs=tuple(map(self._view, call.outputs)),
            leaves=frozenset(map(self._view, call.leaves)),
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
    schema = getattr(call.function, "_schema", None)
    if call.writes and any(call.fresh) and schema is not None:
        for place, argument in enumerate(schema.arguments):
            if argument.name in _AVERAGES and place < len(args):
                args[place] = 0.0
            elif argument.name in _AVERAGES and argument.name in kwargs:
                kwargs[argument.name] = 0.0
    return tuple(args), kwargs
