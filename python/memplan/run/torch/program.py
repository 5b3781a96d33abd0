"""A network of torch as the importer saw it, and the same in the arena of a plan: run call by call."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ... import _core
from ...errors import SourceError
from ...facts.source import Source
from ..poison import GARBAGE, deaths
from ..result import Run
from .given import plain_values, require_fits, require_same_values, tensors_given, weights_for
from .kernels import instruction
from .memory import Memory
from .recording import Recording, SourceRecord, View

if TYPE_CHECKING:
    from ...facts.plan import Plan


class TorchProgram:
    """The calls of a network, and the graph that the importer made of them.

    Attributes
    ----------
    graph : Graph
        What importing the network gives.
    recording : Recording
        The calls, in order.
    """

    def __init__(
        self, source: Source, graph: _core.Graph, recording: Recording, held: Callable[[], Mapping[str, Tensor]]
    ) -> None:
        self.graph, self.recording, self.held = graph, recording, held
        given = source.args or source.kwargs
        self.planned = plain_values(recording.named(tuple(source.args), source.kwargs)) if given else {}

    def bind(self, plan: Plan) -> BoundProgram:
        """Make the arena of a plan, and check the bounds of every tensor."""
        return BoundProgram(self, plan)


class BoundProgram:
    """A program and the arena of a plan."""

    def __init__(self, program: TorchProgram, plan: Plan) -> None:
        recording = program.recording
        self._program, self._recording, self._plan = program, recording, plan
        self._memory = Memory(plan, recording)
        self._numbers: dict[int, Any] = {}
        self._inputs = [record for record in recording.sources if record.kind == "input"]
        used = {view.storage for call in recording.calls for view in (*call.inputs, *call.outputs)}
        used |= {view.storage for view in recording.returned_views()}
        self._weights = [r for r in recording.sources if r.kind == "weight" and r.view.storage in used]
        calls = sorted(zip(self._steps_of(plan), recording.calls, strict=True), key=lambda pair: pair[0])
        found = [(step, instruction(call, self._memory, self._numbers)) for step, call in calls]
        self._steps = [(step, made.run) for step, made in found if made is not None]
        self._copied = sum(made.copied for _, made in found if made is not None)
        self._lent: dict[int, tuple[Any, ...]] = {}
        self._lock = threading.Lock()

    def run(
        self,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        *,
        weights: Mapping[str, Any] | None = None,
        check: bool = False,
        views: bool = False,
    ) -> Run:
        """Run once; see `Plan.run`."""
        with self._lock, torch.no_grad(), self._below_autocast():
            if check:
                self._memory.arena.fill_(GARBAGE)
            given = [*self._given_inputs(args, kwargs), *self._given_weights(weights or {})]
            changed = self._place(given)
            self._execute(check)
            for target, value in self._recording.updates:
                self._memory.tensor(target).copy_(self._memory.tensor(value))
            for tensor, place in changed:
                tensor.copy_(place)
            result = self._result(views)
            self._let_go()
        return result

    def _steps_of(self, plan: Plan) -> list[int]:
        """At which step of the plan each call runs: the ops may have been planned in another order."""
        assert plan.graph is not None
        names = [op.name for op in self._program.graph.ops]
        step = {op.name: step for step, op in enumerate(plan.graph.ops)}
        return [step[names[call.ops.start]] for call in self._recording.calls]

    def _execute(self, check: bool) -> None:
        if not check:
            for _, run in self._steps:
                run()
            return
        dead = sorted(deaths(self._plan).items(), reverse=True)
        for step, run in self._steps:
            while dead and dead[-1][0] <= step:
                for begin, end in dead.pop()[1]:
                    self._memory.arena[begin:end].fill_(GARBAGE)
            run()

    def _given_inputs(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[tuple[SourceRecord, Tensor]]:
        named = self._recording.named(tuple(args), kwargs)
        given = tensors_given(named, {record.name: record.view for record in self._inputs})
        require_same_values(plain_values(named), self._program.planned)
        for record in self._inputs:
            require_fits(f"input '{record.name}'", given[record.name], record.view, self._device(record))
            yield record, given[record.name]

    def _given_weights(self, given: Mapping[str, Any]) -> Iterator[tuple[SourceRecord, Tensor]]:
        for record, tensor in weights_for(self._weights, given, self._program.held()):
            require_fits(f"weight '{record.name}'", tensor, record.view, self._device(record))
            yield record, tensor.detach()

    def _device(self, record: SourceRecord) -> torch.device:
        return self._recording.storages[record.view.storage].device

    def _place(self, given: list[tuple[SourceRecord, Tensor]]) -> list[tuple[Tensor, Tensor]]:
        """Put every input and weight where its ops read it; the tensors that are to get their new content back."""
        by_storage: dict[int, list[tuple[SourceRecord, Tensor]]] = {}
        for record, tensor in given:
            by_storage.setdefault(record.view.storage, []).append((record, tensor))
        changed: list[tuple[Tensor, Tensor]] = []
        for storage, owners in by_storage.items():
            written = self._recording.storages[storage].written or any(
                target.storage == storage for target, _ in self._recording.updates
            )
            if not self._lend(storage, owners):
                self._copy_in(storage, owners)
                if written:
                    changed += [(tensor, self._memory.tensor(record.view)) for record, tensor in owners]
        return changed

    def _lend(self, storage: int, owners: list[tuple[SourceRecord, Tensor]]) -> bool:
        """Use the caller's memory as it is, if all owners of a storage agree where that is."""
        if self._memory.offset[storage] is not None:
            return False
        places = {(_key(tensor), record.view.begin) for record, tensor in owners}
        begins = {tensor.data_ptr() - record.view.begin for record, tensor in owners}
        key = tuple(places)
        if self._lent.get(storage) == key:
            return True
        record, tensor = owners[0]
        if len(begins) > 1 or not self._memory.lend(storage, tensor, record.view):
            return False
        self._lent[storage] = key
        return True

    def _copy_in(self, storage: int, owners: list[tuple[SourceRecord, Tensor]]) -> None:
        """Copy what the caller has into the arena, or into memory that lies as it was planned."""
        if self._memory.offset[storage] is None:
            self._memory.own(storage)
            self._lent.pop(storage, None)
        for record, tensor in owners:
            self._memory.tensor(record.view).copy_(tensor)
        for record, tensor in owners[:-1]:
            if not torch.equal(self._memory.tensor(record.view), tensor):
                last = owners[-1][0].name
                raise SourceError(
                    f"'{record.name}' and '{last}' share bytes in the plan, and came with different content"
                )

    def _result(self, views: bool) -> Run:
        def give(view: View) -> Tensor:
            tensor = self._memory.tensor(view)
            return tensor.detach() if views else tensor.clone()

        recording = self._recording
        return Run(
            outputs=None if recording.loss is not None else recording.result_of(give, self._numbers),
            loss=None if recording.loss is None else give(recording.loss),
            gradients={name: give(view) for name, view in recording.gradients.items()},
            arena_bytes=self._plan.peak,
            ops=len(self._steps),
            copied=self._copied,
        )

    def _let_go(self) -> None:
        """Inputs are the caller's again; weights stay where they are until they move."""
        for record in self._inputs:
            if self._memory.offset[record.view.storage] is None:
                self._memory.release(record.view.storage)
                self._lent.pop(record.view.storage, None)

    @contextmanager
    def _below_autocast(self) -> Iterator[None]:
        """Ops were recorded with the casts that autocast makes."""
        device = self._memory.arena.device.type
        with torch.autocast(device, enabled=False):
            yield


def _key(tensor: Tensor) -> tuple[Any, ...]:
    return tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.untyped_storage().nbytes()
