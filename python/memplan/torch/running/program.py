"""A network of torch as the importer saw it, and the same in the arena of a plan: run call by call."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from statistics import median
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, fx

from ... import _core
from ...errors import SourceError
from ...options.source import Source
from ...running import matching, poison
from ...running.program import Run
from ..installed import names_of_torch
from ..private import STEPPED, neg_view
from .fitted_recording import with_copies
from .inputs import plain_values
from .kernels import Instruction, instruction
from .memory import Memory
from .module_state import Modes
from .offering import Offering
from .pages import emptied
from .pieces.recorded_pieces import in_pieces
from .recording import CallRecord, Recording, View
from .sources import Sources

if TYPE_CHECKING:
    from ...plans.plan import Plan
    from ...running.program import Common, Program


_Step = Callable[[], object]


class TorchProgram:
    """The calls of a network, and the graph that the importer made of them.

    Attributes
    ----------
    graph : Graph
        What importing the network gives.
    recording : Recording
        The calls, in order.
    optimizer : torch.optim.Optimizer or None
        Whose step ends a run.
    """

    measures = True

    def __init__(
        self,
        source: Source,
        graph: _core.Graph,
        recording: Recording,
        held: Callable[[], Mapping[str, Tensor]],
        modes: Modes,
        made_of: Callable[[Source], Program],
    ) -> None:
        self.graph, self.recording, self.held, self.modes = graph, recording, held, modes
        self._made_of = made_of
        self._source, self._names = source, [op.name for op in graph.ops]
        self.optimizer = None
        if recording.stepped is not None:
            self.optimizer, states = recording.stepped.optimizer, recording.stepped.tensors
            self.held = lambda: {**held(), **states()}
        args, kwargs = tuple(source.reading.args), dict(source.reading.kwargs or {})
        self.planned = plain_values(recording.named(args, kwargs)) if args or kwargs else {}

    def again(self, plan: Plan, changed: str) -> TorchProgram:
        """The program of the network as it is now, of the same plan; SourceError if the plan is not of that."""
        source = (
            self._source
            if self.optimizer is None
            else replace(self._source, reading=replace(self._source.reading, optimizer=self.optimizer))
        )
        program = self._made_of(source)
        assert isinstance(program, TorchProgram)
        planned = matching.whole_graph(plan)
        assert planned is not None
        try:
            matching.require_same(planned, program.graph)
        except SourceError as error:
            raise SourceError(f"{changed}: {error}") from None
        return program

    def bind(self, plan: Plan, common: Common | None = None) -> BoundProgram:
        """Make the arena of a plan, or take a common one, and check the bounds of every tensor."""
        with names_of_torch("running a plan of torch"):
            return BoundProgram(self, plan, common)

    def planned_calls(self, plan: Plan) -> tuple[Recording, list[tuple[int, CallRecord]]]:
        """The calls in the order in which a plan runs them, each with its step: some in pieces, some again."""
        assert plan.graph is not None
        recording, graph = self.recording, self.graph
        pieces = None if plan.fitting is None else plan.fitting.pieces
        if pieces is not None:
            recording, graph = in_pieces(recording, graph, pieces), pieces.graph
        recording = with_copies(recording, graph, plan.graph)
        step = {op.name: step for step, op in enumerate(plan.graph.ops)}
        if recording is self.recording:  # the ops may have been planned in another order
            calls = [(step[self._names[call.ops.start]], call) for call in recording.calls]
        else:
            calls = [(call.ops.start, call) for call in recording.calls]
        return recording, sorted(calls, key=lambda pair: pair[0])

    def in_order(self, plan: Plan) -> fx.GraphModule:
        """The calls as a graph of torch.fx, in the order of a plan; see `Plan.program`."""
        assert plan.graph is not None
        ops = plan.graph.ops
        matching.require_no_moves(plan)
        with names_of_torch("a program of torch"):
            from .graph_module import call_like, reordered

            recording, found = self.planned_calls(plan)
            calls = [(ops[step].name, call) for step, call in found]
            given = call_like(self._source, self.recording)
            return reordered(recording, calls, given, self.held(), self._source.reading.train)


class BoundProgram:
    """A program and the arena of a plan."""

    def __init__(self, program: TorchProgram, plan: Plan, common: Common | None = None) -> None:
        self._plan, self._common = plan, common
        self._lock = threading.Lock()
        self._bind(program)

    def _bind(self, program: TorchProgram) -> None:
        plan, common = self._plan, self._common
        assert plan.graph is not None
        recording, calls = program.planned_calls(plan)
        self._program, self._recording = program, recording
        self._memory = Memory(plan, recording, None if common is None else torch.from_numpy(common.data))
        self._free = [(0, len(self._memory.arena))] if common is None else common.free
        self._numbers: dict[int, Any] = {}
        stays = frozenset[str]() if common is None else common.roots
        self._sources = Sources(recording, self._memory, program.planned, program.held, stays)
        found = [(step, call, instruction(call, self._memory, self._numbers)) for step, call in calls]
        made = [done for _, _, done in found if done is not None]
        self._ops, self._copied = len(made), 0
        given = recording.returned_views()
        returned = self._memory.unplaced({view.storage for view in given})
        self._taken = {view for view in _alone(given) if self._memory.may_be_taken(view)}
        copied = [view for view in {*given} - self._taken if self._memory.span(view) is not None]
        nbytes = sum(math.prod(view.sizes) * view.dtype.itemsize for view in copied)
        self._emptied = self._memory.pages_beside(given, nbytes)  # copies take as many bytes as leave the arena
        self._offering = Offering(plan, self._memory, common is None and plan.pools is None)
        last = {storage: place for place, (_, call, _) in enumerate(found) for storage in call.written}
        runs: list[tuple[int, bool, _Step]] = []
        self._outside = set[int]()  # what is returned from outside of the arena: memory of each run
        for place, (step, call, done) in enumerate(found):
            used = {self._memory.home(view.storage) for view in (*call.inputs, *call.outputs)}
            fresh = {view.storage for view, new in zip(call.outputs, call.fresh, strict=True) if new}
            adopted = fresh if done is not None and done.copies else set[int]()
            runs += [(step, call.grad, partial(self._memory.own, s)) for s in used & returned - self._outside - adopted]
            self._outside |= used & returned
            runs += [] if done is None else [(step, call.grad, self._counted(step, done))]
            written = [storage for storage in call.written & self._sources.storages if last[storage] == place]
            runs += [(step, call.grad, partial(self._sources.give_back, storage)) for storage in written]
        self._steps = list(_with_modes(runs))
        if recording is not program.recording:
            recording.calls = []
            self._memory.forget()
        self._let_go()

    def _counted(self, step: int, done: Instruction) -> _Step:
        offered = self._offering.around(step, done)
        if not done.copies:
            return offered

        def counted() -> None:
            self._copied += bool(offered())

        return counted

    def run(
        self,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        *,
        weights: Mapping[str, Any] | None = None,
        check: bool = False,
        views: bool = False,
        there: Collection[str] = (),
    ) -> Run:
        """Run once; see `Plan.run`. The arena holds the weights `there` already."""
        with self._lock:
            changed = self._program.modes.changed()
            if changed is not None:
                self._bind(self._program.again(self._plan, changed))
            return self._run(args, kwargs, weights or {}, check, views, there)

    def _run(
        self,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        weights: Mapping[str, Any],
        check: bool,
        views: bool,
        there: Collection[str],
    ) -> Run:
        memory = self._memory
        with torch.no_grad(), self._below_autocast():
            try:
                found = self._sources.gather(args, kwargs, weights, there)
                for begin, end in self._free if check else ():
                    memory.arena[begin:end].fill_(poison.GARBAGE)
                self._sources.place(found)
                self._copied = 0
                with self._offering.installed():
                    self._execute(check)
                for target, value in self._recording.updates:
                    self._sources.update(target, memory.tensor(value))
                if self._program.optimizer is not None:
                    vars(self._program.optimizer)[STEPPED] = True  # schedulers ask for it
                return self._result(views)
            finally:
                self._let_go()

    def seconds(self, args: Sequence[Any], kwargs: Mapping[str, Any], repeats: int) -> dict[str, float]:
        """The seconds of each op, by name: the median of some runs. Weights and states are put back."""
        assert self._plan.graph is not None
        names = [op.name for op in self._plan.graph.ops]
        held = {name: tensor for name, tensor in self._program.held().items() if tensor is not None}  # bias=False
        device, before = self._memory.arena.device, {name: tensor.detach().clone() for name, tensor in held.items()}
        taken: dict[str, list[float]] = {}
        with self._lock, torch.no_grad(), self._below_autocast(), torch.random.fork_rng(), self._offering.installed():
            try:
                for _ in range(repeats):
                    self._sources.place(self._sources.gather(args, kwargs, {}))
                    spent: dict[str, float] = {}
                    for step, run in self._steps:
                        begin = _now(device)
                        run()
                        spent[names[step]] = spent.get(names[step], 0.0) + _now(device) - begin
                    for name, value in spent.items():
                        taken.setdefault(name, []).append(value)
            finally:
                self._let_go()
                for name, tensor in before.items():
                    held[name].detach().copy_(tensor)
        return {name: median(values) for name, values in taken.items()}

    def _let_go(self) -> None:
        """Inputs, and results outside of the arena, are the caller's alone."""
        self._sources.let_go()
        for storage in self._outside:
            self._memory.release(storage)

    def _execute(self, check: bool) -> None:
        if not check:
            for _, run in self._steps:
                run()
            return
        dead = sorted(poison.deaths(self._plan).items(), reverse=True)
        for step, run in self._steps:
            while dead and dead[-1][0] <= step:
                for begin, end in dead.pop()[1]:
                    self._memory.arena[begin:end].fill_(poison.GARBAGE)
            run()

    def _result(self, views: bool) -> Run:
        recording = self._recording

        @cache
        def give(view: View) -> Tensor:
            if view.storage in recording.handed:
                return _shown(recording.handed[view.storage](), view, self._memory.tensor(view).device)
            tensor = self._memory.tensor(view)
            if views or view.storage in self._outside:
                return tensor.detach()
            taken = self._memory.taken(view) if view in self._taken else None
            return tensor.clone() if taken is None else taken

        for begin, end in () if views else self._emptied:
            emptied(begin, end)
        return Run(
            outputs=None if recording.loss is not None else recording.result_of(give, self._numbers),
            loss=None if recording.loss is None else give(recording.loss),
            gradients={name: give(view) for name, view in recording.gradients.items()},
            arena_bytes=self._plan.peak,
            ops=self._ops,
            copied=self._copied,
            outside=self._offering.outside,
        )

    @contextmanager
    def _below_autocast(self) -> Iterator[None]:
        """Ops were recorded with the casts that autocast makes."""
        device = self._memory.arena.device.type
        with torch.autocast(device, enabled=False):
            yield


def _alone(given: Sequence[View]) -> frozenset[View]:
    """What is returned with nothing else of its storage."""
    views = frozenset(given)
    times = Counter(view.storage for view in views)
    return frozenset(view for view in views if times[view.storage] == 1)


def _shown(bytes: Tensor, view: View, device: torch.device) -> Tensor:
    """A tensor of bytes that were copied out of the arena."""
    tensor = torch.empty(0, dtype=view.dtype)
    tensor.set_(bytes.untyped_storage(), view.offset, view.sizes, view.strides)
    tensor = neg_view(tensor) if view.neg else tensor
    return (tensor.conj() if view.conj else tensor).to(device, copy=True)


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def _with_modes(steps: Iterable[tuple[int, bool, _Step]]) -> Iterator[tuple[int, _Step]]:
    """The steps, with gradients switched on and off between them as they were when the network was looked at."""
    now = False
    for step, grad, run in steps:
        if grad is not now:
            yield step, partial(torch.set_grad_enabled, grad)
        now = grad
        yield step, run
    if now:
        yield step, partial(torch.set_grad_enabled, False)
