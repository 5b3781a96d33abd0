"""A step of a module run without data: births and deaths of all storages, as torch itself holds and frees them.

A graph says when a tensor is read last. Eager torch holds it for as long as something refers to it: a variable of
Python, a node of autograd, the caller. Fake tensors are held and freed as real ones are, so their deaths are those of
a real step. What kernels allocate for themselves is not seen.
"""

from __future__ import annotations

import sys
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim import Optimizer

from ...errors import SourceError
from ..private import TorchDispatchMode, disable_current_modes, version_of
from . import _ONE_AT_A_TIME, kernels, kernels_of
from .biased import Biased, caller
from .costs import cost_of
from .cuda_autocast import cuda_autocast
from .double import Double
from .effects import flat_tensors
from .failing import place_of, ways_out
from .fake import Fakes, describe, explain, map_tensors, tensors_in
from .module import call_text, eager, label_of, loss_of, weights_of
from .optimizers import alike, optimizer_of, step_of
from .recurrent import with_kept, workspace_of_layer
from .rewriting import Kept, Rewriting, Write, statistics_of_norms
from .workspaces import kept_of, workspace_of

FORWARD, BACKWARD, UPDATE = range(3)  # phases of a step


@dataclass
class DryRun:
    """What a step allocates, in bytes: storages that were there before it, and those that are born in it."""

    # storages of parameters and buffers, of arguments, and of states of the optimizer: there before the step and after
    # it
    weights: list[int] = field(default_factory=list)
    names: list[str] = field(default_factory=list)  # of weights
    inputs: list[int] = field(default_factory=list)
    states: list[int] = field(default_factory=list)
    # of each storage that is born in the step: bytes, and the ops [first, last) at which it is alive
    size: list[int] = field(default_factory=list)
    first: list[int] = field(default_factory=list)
    last: list[int] = field(default_factory=list)
    phase: list[int] = field(default_factory=list)  # whether it is born FORWARD, BACKWARD or in the UPDATE
    gradient: set[int] = field(default_factory=set)  # positions of those that are gradients of parameters
    # positions of states that the update replaces, from the first op on, and of those that take their place
    replaced: list[int] = field(default_factory=list)
    replacing: list[int] = field(default_factory=list)
    ops: list[str] = field(default_factory=list)  # the operators that ran, by type
    phases: list[int] = field(default_factory=list)  # in which phase each op runs
    workspaces: list[int] = field(default_factory=list)  # what the kernels of each op are known to need besides
    cost: list[float] = field(default_factory=list)  # of each op: floating-point operations, and bytes that it touches
    # what autograd keeps for the backward pass, in the order of forward
    saves: list[Save] = field(default_factory=list)
    touched: list[frozenset[int]] = field(default_factory=list)  # by each op, positions of storages
    calls: list[Call] = field(default_factory=list)  # the calls of modules, in the order in which they begin
    # modules that may not give up what they keep, or not compute it again: what is written to in between
    rewritten: dict[str, Write] = field(default_factory=dict)
    not_again: dict[str, Write] = field(default_factory=dict)
    too_early: Write | None = None  # a write in the backward pass to what was there before, and is read after it


@dataclass
class Save:
    """A tensor that autograd keeps: the position of its storage, and the ops at which it is kept and first read."""

    storage: int
    op: int
    read: int = -1


@dataclass
class Call:
    """A call of a module: its name, its ops [first, last), and the storages of what it returns."""

    module: str
    first: int
    last: int = -1
    returned: dict[int, int] = field(default_factory=dict)  # by storage, bytes of the elements that are returned


def dry_run(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    train: bool,
    optimizer: Any = None,
    autocast: torch.dtype | None = None,
    device: str | None = None,
    loss: Callable[[Any], Tensor] | None = None,
    watch: bool = False,
    going: Callable[[Optimizer], AbstractContextManager[Any]] | None = None,
    around: Callable[[torch.nn.Module], AbstractContextManager[Any]] | None = None,
) -> DryRun:
    """Run a step on stand-ins: forward, with `train` backward, with an optimizer its update.

    What forward returns is held until the step ends, and gradients are. See `memplan.estimate` for the arguments.
    With `watch`, saves, calls and what ops touch are noted too. `going` is a context in which an optimizer updates as
    gradients come; it needs an instance. `around` gives the context in which forward and
    backward of the module that it gets run: of the module's double.

    SourceError if the step fails, or depends on data.
    """
    state = weights_of(module)
    fakes = Fakes([*state.values(), *(t for _, t in tensors_in([args, kwargs]))])
    weights = {name: fakes(tensor, name) for name, tensor in state.items()}
    args, kwargs = map_tensors((args, dict(kwargs)), fakes, "args")
    own = [weight.untyped_storage() for weight in weights.values()]
    first = {id(storage): name for name, storage in reversed([*zip(weights, own, strict=True)])}
    names = [first[key] for key in dict.fromkeys(map(id, own))]
    found = DryRun(
        weights=_sizes(weights.values()), names=names, inputs=_sizes(t for _, t in tensors_in([args, kwargs]))
    )
    double = Double(module, weights, state)
    traced = double.module
    births = Births(found, [*weights.values(), *(t for _, t in tensors_in([args, kwargs]))], watch)

    def step() -> None:
        with _autocast(autocast, device):
            result = traced(*args, **kwargs)
            start = None if not train else loss_of(label_of(module), result) if loss is None else loss(result)
        births.phase = BACKWARD
        if start is not None:
            start.backward()  # type: ignore[no-untyped-call]
            for weight in weights.values():
                births.found_gradient(weight.grad)
        births.end()

    alone = _ONE_AT_A_TIME
    with alone, fakes.running(), torch.set_grad_enabled(train), double.sharing(), eager(), kernels_of(device):
        try:
            updates: AbstractContextManager[Any] = nullcontext()
            if going is not None:
                stand_ins = {id(real): weights[name] for name, real in state.items()}
                updates = births.updating(_as_fake(optimizer, stand_ins, fakes, device), going)
            others = nullcontext() if around is None else around(traced)
            with births, births.watching(traced, weights) if watch else nullcontext(), updates, others:
                step()
        except SourceError:
            raise
        except Exception as error:
            where = f"op '{births.failed}': " if births.failed else ""
            why = f"{explain(error)}{place_of(error, traced)}{ways_out(error, kwargs)}"
            raise SourceError(f"{label_of(module)}: {where}{why}; it was given {call_text(args, kwargs)}") from error
    if optimizer is not None and going is None:
        gradients = [weight.grad is not None for weight in weights.values()]
        _update(found, optimizer, dict(zip(state.values(), gradients, strict=True)), device)
    return _ended(found)


def dry_update(optimizer: Any, parameters: Iterable[Tensor], device: str | None) -> DryRun:
    """The update alone, of parameters that all get a gradient: states of the optimizer, and what its step makes."""
    found = DryRun()
    _update(found, optimizer, dict.fromkeys(parameters, True), device)
    return _ended(found)


def _ended(found: DryRun) -> DryRun:
    found.last = [len(found.ops) if last < 0 else last for last in found.last]  # what the loop holds to the end
    return found


class Births(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes the storages that operators make, and when they are freed."""

    supports_higher_order_operators = True

    def __init__(self, found: DryRun, known: list[Tensor], watch: bool = False) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._watch = watch
        self.phase = FORWARD
        self.failed = ""
        self._found = found
        self._refs: dict[int, weakref.ref[Any]] = {}  # a storage's id, while it is alive
        self._place: dict[int, int] = {}  # of a storage's id
        self._known: list[Any] = []  # kept, so that their ids stay theirs
        self._outside: set[int] = set()
        self._others: dict[int, tuple[int, Any]] = {}  # by id, storages that the step finds, and their numbers
        self._know(known)
        self._rewriting: Rewriting | None = None
        self._done = False
        self._states: list[tuple[int, int]] = []  # of states before the step: bytes, and the op that frees them
        self._linear = Biased()
        self._end_of: dict[int, int] = {}  # of a storage's id, the op that writes over it in eager torch

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if getattr(func, "namespace", "") == "prim":  # asks what a tensor is
            return func(*args, **(kwargs or {}))
        self._found.ops.append(str(func))
        self._found.phases.append(self.phase)
        if self._rewriting is not None:
            self._rewriting.ran(len(self._found.ops) - 1, func, args, kwargs or {})
        self._linear.called(func, args, caller(sys._getframe()))
        if self._linear.biased is not None:
            self._end_of[self._linear.biased] = len(self._found.ops) - 1
        try:
            result = with_kept(func, args, kernels.run(func, args, kwargs or {}))
        except Exception:
            self.failed = str(func)
            raise
        self._found.workspaces.append(workspace_of(func, args, kwargs or {}, result) + workspace_of_layer(func, args))
        self._found.cost.append(float(cost_of(func, args, kwargs or {}, result)))
        self._linear.made(func, result)
        kept = kept_of(func, args, kwargs or {}, result)
        for tensor in flat_tensors(result):
            self._meet(tensor, kept)
        if self._watch:
            places = (self._place.get(id(t.untyped_storage())) for t in flat_tensors([args, kwargs or {}, result]))
            self._found.touched.append(frozenset(place for place in places if place is not None))
        return result

    def found_gradient(self, gradient: Tensor | None) -> None:
        """Note that a storage is a gradient's."""
        place = None if gradient is None else self._place.get(id(gradient.untyped_storage()))
        if place is not None:
            self._found.gradient.add(place)

    @contextmanager
    def watching(self, module: torch.nn.Module, weights: Mapping[str, Tensor]) -> Iterator[None]:
        """Meanwhile, note the calls of modules, which have these weights, and what autograd keeps."""
        names = {id(part): name for name, part in module.named_modules()}
        found, open_calls = self._found, list[Call]()
        rewriting = self._rewriting = Rewriting(self._number, statistics_of_norms(module, weights))

        def begin(part: torch.nn.Module, _: Any) -> None:
            if id(part) in names and self.phase == FORWARD:
                found.calls.append(Call(names[id(part)], len(found.ops)))
                open_calls.append(found.calls[-1])

        def finish(part: torch.nn.Module, _: Any, result: Any) -> None:
            if id(part) in names and self.phase == FORWARD:
                call = open_calls.pop()
                for _, tensor in tensors_in(result):
                    place = self._place.get(id(tensor.untyped_storage()))
                    if place is not None:
                        call.returned[place] = max(call.returned.get(place, 0), tensor.nbytes)
                call.last = len(found.ops)

        def pack(tensor: Tensor) -> tuple[Tensor, Save | None, Kept]:
            place = self._place.get(id(tensor.untyped_storage()))
            save = None if place is None else Save(place, len(found.ops))
            found.saves += [] if save is None else [save]
            return tensor, save, rewriting.pack(len(found.ops), tensor)

        def unpack(packed: tuple[Tensor, Save | None, Kept]) -> Tensor:
            tensor, save, kept = packed
            if save is not None and save.read < 0:
                save.read = len(found.ops)
            rewriting.read(len(found.ops), kept)
            return tensor

        hooks = [register_module_forward_pre_hook(begin), register_module_forward_hook(finish)]
        try:
            with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
                yield
        finally:
            for hook in hooks:
                hook.remove()
            self._rewriting = None
        rewriting.look_back(found, found.phases.index(BACKWARD) if BACKWARD in found.phases else len(found.ops))

    @contextmanager
    def updating(
        self, optimizer: Optimizer, going: Callable[[Optimizer], AbstractContextManager[Any]]
    ) -> Iterator[None]:
        """Meanwhile, an optimizer updates its parameters as their gradients come."""
        parameters = [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
        versions = [version_of(p) for p in parameters]
        states = {p: [t for t in own.values() if isinstance(t, Tensor)] for p, own in optimizer.state.items()}
        self._know([t for own in states.values() for t in own])
        for p in parameters:
            p.register_post_accumulate_grad_hook(lambda p: self.found_gradient(p.grad))
        with going(optimizer):
            yield
        changed = [p for p, version in zip(parameters, versions, strict=True) if version_of(p) > version]
        self._found.states = _sizes(t for p in changed for t in states.get(p, ()))

    def watch_states(self, storages: Iterable[Any]) -> None:
        """These states are there before the step, which may replace them."""
        this = weakref.ref(self)

        def freed(number: int, key: int) -> Callable[[Any], None]:
            def note(_: Any) -> None:
                births = this()
                if births is not None and births._refs.pop(key, None) is not None and not births._done:
                    births._states[number] = births._states[number][0], len(births._found.ops)

            return note

        for number, storage in enumerate(storages):
            self._states.append((storage.nbytes(), -1))
            self._refs[id(storage)] = weakref.ref(storage, freed(number, id(storage)))

    def sort_states(self, storages: Iterable[Any]) -> None:
        """Tell states that stay from those that the step replaced, and find what took their place."""
        self._done = True
        found = self._found
        found.states = [size for size, end in self._states if end < 0]
        found.replacing = [place for s in storages if (place := self._place.get(id(s))) is not None]
        for size, end in self._states:
            if end >= 0:
                found.replaced.append(len(found.size))
                found.size.append(size)
                found.first.append(0)
                found.last.append(end)
                found.phase.append(UPDATE)

    def end(self) -> None:
        """What is alive now is alive to the end of the phase, or as a gradient to the end of the step."""
        self._done = True

    def _know(self, tensors: list[Tensor]) -> None:
        """These were there before the step."""
        self._known += [tensor.untyped_storage() for tensor in tensors]
        self._outside = {id(storage) for storage in self._known}

    def _number(self, tensor: Tensor) -> int:
        """A number for a storage: its position, or one below 0 if it is not born in the step."""
        storage = tensor.untyped_storage()
        place = self._place.get(id(storage))
        return self._others.setdefault(id(storage), (-1 - len(self._others), storage))[0] if place is None else place

    def _meet(self, tensor: Tensor, least: int) -> None:
        storage = tensor.untyped_storage()
        key = id(storage)
        if key in self._refs or key in self._outside:
            return
        found, place = self._found, len(self._found.size)
        found.size.append(max(least, storage.nbytes()))
        found.first.append(len(found.ops) - 1)
        found.last.append(-1)
        found.phase.append(self.phase)
        self._place[key] = place
        this = weakref.ref(self)

        def freed(_: Any) -> None:
            births = this()
            if births is not None:
                births._refs.pop(key, None)
                births._place.pop(key, None)
                if not births._done:
                    end = births._end_of.pop(key, len(births._found.ops))
                    births._found.last[place] = max(end, births._found.first[place] + 1)

        self._refs[key] = weakref.ref(storage, freed)


def _update(found: DryRun, given: Any, parameters: Mapping[Tensor, bool], device: str | None) -> None:
    """The second step of an optimizer, on tensors of the meta device: the first one makes its states."""
    metas = {
        id(p): torch.nn.Parameter(torch.empty_like(p, device="meta"), requires_grad=p.requires_grad) for p in parameters
    }
    real = [p for p in parameters if isinstance(p, torch.nn.Parameter)]
    optimizer = optimizer_of(given, [metas[id(p)] for p in real] if not isinstance(given, Optimizer) else [])
    if isinstance(given, Optimizer):
        optimizer = _as_meta(given, metas)
    _as_on(device, optimizer)
    try:
        for recorded in (False, True):
            for p, gets_one in parameters.items():
                metas[id(p)].grad = torch.empty_like(metas[id(p)]) if gets_one else None
            if not recorded:
                step_of(optimizer)
        gradients = [meta.grad for meta in metas.values() if meta.grad is not None]
        births = Births(found, [*metas.values(), *gradients])
        births.phase = UPDATE
        births.watch_states(_states(optimizer))
        with torch.no_grad(), births:
            step_of(optimizer)
        births.sort_states(_states(optimizer))
    except SourceError:
        raise
    except Exception as error:
        raise SourceError(f"optimizer {type(optimizer).__name__}: {explain(error)}") from error


def _states(optimizer: Optimizer) -> Iterator[Any]:
    """The storages of its states, each once."""
    tensors = (t for value in optimizer.state.values() for t in value.values() if isinstance(t, Tensor))
    yield from {id(t.untyped_storage()): t.untyped_storage() for t in tensors}.values()


def _as_on(device: str | None, optimizer: Optimizer) -> None:
    """Let an optimizer do what torch chooses on a device."""
    for group in optimizer.param_groups if device == "cuda" else ():
        if "foreach" in group and group["foreach"] is None and not group.get("fused"):
            group["foreach"] = True


def _as_meta(optimizer: Optimizer, metas: Mapping[int, Tensor]) -> Optimizer:
    """An optimizer of the same kind for tensors of the meta device; small states, which its step reads, stay real."""

    def meta(value: Tensor) -> Tensor:
        return value.detach().clone() if value.dim() == 0 else torch.empty_like(value, device="meta")

    return _for_others(optimizer, metas, meta)


def _as_fake(optimizer: Optimizer, stand_ins: Mapping[int, Tensor], fakes: Fakes, device: str | None) -> Optimizer:
    """An optimizer of the same kind for stand-ins, with the states that it has after a step."""

    def fake(value: Tensor) -> Tensor:
        if value.dim():
            return fakes(value, "a state")
        with disable_current_modes():
            number = value.item()
        return torch.tensor(number, dtype=value.dtype)  # a stand-in whose number is known: a step reads it

    optimizer = _for_others(optimizer_of(optimizer, []), stand_ins, fake)
    _as_on(device, optimizer)
    parameters = [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
    new = [p for p in parameters if not optimizer.state.get(p)]
    for p in new:
        p.grad = torch.empty_like(p)
    step_of(optimizer)
    for p in new:
        p.grad = None
    return optimizer


def _for_others(optimizer: Optimizer, others: Mapping[int, Tensor], copy: Callable[[Tensor], Tensor]) -> Optimizer:
    """An optimizer of the same kind for other parameters, by their ids, with copies of its tensors."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if id(parameter) not in others:
                raise SourceError(
                    f"optimizer {type(optimizer).__name__}: a parameter, {describe(parameter)}, is not the network's"
                )

    def copied(value: Any) -> Any:
        return copy(value) if isinstance(value, Tensor) else value

    groups = [
        {key: copied(value) for key, value in group.items()} | {"params": [others[id(p)] for p in group["params"]]}
        for group in optimizer.param_groups
    ]
    state: defaultdict[Any, Any] = defaultdict(dict)
    for p, own in optimizer.state.items():
        state[others[id(p)]] = {key: copied(value) for key, value in own.items()}
    return alike(optimizer, groups, state)


def _sizes(tensors: Iterable[Tensor]) -> list[int]:
    """Bytes of each storage."""
    storages = [tensor.untyped_storage() for tensor in tensors]
    return list({id(storage): storage.nbytes() for storage in storages}.values())


def _autocast(dtype: torch.dtype | None, device: str | None) -> AbstractContextManager[Any]:
    if dtype is None:
        return nullcontext()
    return cuda_autocast(dtype) if device == "cuda" else torch.autocast("cpu", dtype)
