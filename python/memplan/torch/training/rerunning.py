"""A forward that runs again in the backward pass, instead of keeping what autograd needs of it.

In forward, autograd keeps an empty slot for each tensor. The first slot that the backward pass reads lets forward run
again, on the same inputs; that fills all slots, and ends at the last one. Each is emptied when it is read. So a second
backward pass, or a slot that is read twice, lets forward run once more.

A rerun gives what eager would have kept only if it reads what forward read. What has changed since is an error.

The idea is that of Chen et al. 2016, "Training deep nets with sublinear memory cost". To fill slots by hooks of
autograd is that of torch.utils.checkpoint with `use_reentrant=False`.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any
from weakref import ref

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import get_device_states, set_device_states

from ..private import NormBase, buffers_of, is_begun, is_compiled, pytree, version_of
from ..reading.module import Attributes
from .reads import ChangedError, Reads
from .replaced_forward import Wrapped

_NORM = NormBase  # whose statistics change, and do not change what it returns


class _Slot:
    """Stands for a tensor that autograd needs; `value` is there between a rerun and the read, with its version."""

    value: tuple[Tensor, int] | None = None


class _Filled(BaseException):
    """Ends a rerun: nothing that it computes from here on is needed."""


class _Inputs(torch.autograd.Function):
    """Keeps tensors as autograd keeps them, so that what is around may compute them again, or move them out."""

    @staticmethod
    def forward(ctx: Any, start: Tensor, *tensors: Tensor) -> Tensor:
        ctx.save_for_backward(*tensors)
        return torch.empty_like(start)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        raise AssertionError("nothing is computed from what keeps the inputs")


class _Moment:
    """What a forward finds when it begins, besides tensors, so that it can run again and find the same.

    These are attributes of the module and its parts, states of random numbers, autocast and the default device.

    Parameters
    ----------
    module : Module
        Whose forward begins.
    tensors : sequence of Tensor
        What it is given.
    """

    def __init__(self, module: torch.nn.Module, tensors: Sequence[Tensor]) -> None:
        self._module, self._attributes = module, Attributes(module)
        kinds = {tensor.device.type for tensor in tensors} - {"cpu", "meta"}
        self._kind = kinds.pop() if kinds else "cuda"
        self._random = torch.get_rng_state()
        begun = is_begun(self._kind)
        self._devices, self._states = get_device_states(*tensors) if begun else ([], [])
        self._autocast = [
            (kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in ("cpu", self._kind)
        ]
        self._cached = torch.is_autocast_cache_enabled()
        self._device = torch.get_default_device()

    @contextmanager
    def again(self, generators: Iterable[tuple[torch.Generator, Tensor]]) -> Iterator[None]:
        """Meanwhile, all is as it was then, and these generators have these states.

        Running statistics change in copies: they have changed already.
        """
        now = Attributes(self._module)
        with ExitStack() as stack:
            stack.enter_context(torch.random.fork_rng(devices=self._devices, device_type=self._kind))
            torch.set_rng_state(self._random)
            set_device_states(self._devices, self._states, device_type=self._kind)
            for kind, enabled, dtype in self._autocast:
                cast = torch.autocast(kind, dtype=dtype, enabled=enabled, cache_enabled=self._cached)
                stack.enter_context(cast)
            if torch.get_default_device() != self._device:
                stack.enter_context(self._device)
            for generator, state in generators:
                stack.callback(generator.set_state, generator.get_state())
                generator.set_state(state)
            stack.callback(now.restore)
            self._attributes.restore()
            for part in _statistics(self._module):
                copies = {name: b.clone() for name, b in buffers_of(part).items() if b is not None}
                buffers_of(part).update(copies)
            yield


def _statistics(module: torch.nn.Module) -> Iterator[torch.nn.Module]:
    """The parts whose running statistics change in forward."""
    return (part for part in module.modules() if isinstance(part, _NORM) and part.training)


class Rerun:
    """A call of a module whose forward runs again.

    Parameters
    ----------
    wrapped : Wrapped
        The module, its name and its forward.
    args, kwargs : tuple, mapping
        What it is called with.
    """

    def __init__(self, wrapped: Wrapped, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        self._wrapped = wrapped
        leaves, self._nest = pytree.tree_flatten((args, dict(kwargs)), is_leaf=_is_leaf)
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        self._plain = [None if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        self._places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
        self._place_of = {id(leaves[place]): place for place in self._places}
        start = torch.empty(0, requires_grad=True)
        self._inputs: Any = _Inputs.apply(start, *tensors)  # type: ignore[no-untyped-call]
        changes = [buffer for part in _statistics(wrapped.module) for buffer in buffers_of(part).values()]
        self._reads = Reads(buffer for buffer in changes if buffer is not None)
        self._watching: AbstractContextManager[Any] = self._reads
        if _has_compiled_parts(wrapped.module):  # torch.compile would compile what watches, too
            tensors_read = [*tensors, *wrapped.module.parameters(), *wrapped.module.buffers()]
            self._watching = nullcontext()
        else:
            tensors_read = tensors
        for tensor in tensors_read:
            self._reads.note(tensor)
        self._moment = _Moment(wrapped.module, tensors)
        self._slots: list[ref[_Slot]] = []
        self._kinds: list[tuple[Any, ...]] = []
        self._lock = threading.RLock()

    def first(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Run forward, and keep nothing but its inputs."""
        with saved_tensors_hooks(self._pack, self._unpack), self._watching:
            return self._wrapped.forward(*args, **kwargs)

    def _pack(self, tensor: Tensor) -> _Slot:
        if tensor.is_leaf and tensor.requires_grad:
            self._reads.note(tensor)
        slot = _Slot()
        self._slots.append(ref(slot))
        self._kinds.append(_kind(tensor))
        return slot

    def _unpack(self, slot: _Slot) -> Tensor:
        with self._lock:
            if slot.value is None:
                self._fill()
            if slot.value is None:
                raise self._error("has kept fewer tensors when it ran again", _SAME)
            (tensor, version), slot.value = slot.value, None
        if version_of(tensor) != version:
            raise self._error(
                f"has kept {self._wrapped.named(tensor)}, which was written to since it ran again", _EAGER
            )
        return tensor

    def _fill(self) -> None:
        """Run forward again, and put what autograd keeps into the slots that are still there."""
        changed = self._reads.changed()
        if changed is not None:
            what = self._argument(changed) + self._wrapped.named(changed)
            raise self._error(f"runs again and reads {what}, which was written to since", _EAGER)
        self._reads.done()
        expected, count = len(self._slots), 0
        failure: ChangedError | None = None

        def pack(tensor: Tensor) -> Tensor:
            nonlocal count, failure
            place, count = count, count + 1
            if place >= expected:
                raise _Filled
            if _kind(tensor) != self._kinds[place]:
                then, now = (f"{list(shape)} of {dtype}" for shape, dtype, _ in (self._kinds[place], _kind(tensor)))
                failure = self._error(f"has kept a tensor {then} in its forward, and {now} when it ran again", _SAME)
                raise failure
            kept = tensor.detach() if tensor.requires_grad else tensor
            slot = self._slots[place]()
            if slot is not None:
                slot.value = kept, version_of(kept)
            if count == expected:
                raise _Filled
            return kept

        args, kwargs = self._given()
        moment = self._moment.again(self._reads.generators.values())
        # Functions that torch.compile has made ask who watches: they have to find the same as in forward.
        watching = self._watching if _COMPILER in sys.modules else nullcontext()
        try:
            with moment, torch.enable_grad(), saved_tensors_hooks(pack, _as_it_is), watching:
                self._wrapped.forward(*args, **kwargs)
        except _Filled:
            pass
        except Exception:  # TorchScript makes errors of its own of those that pass through it
            if failure is not None:
                raise failure from None
            if count < expected:
                raise

    def _given(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        leaves = list(self._plain)
        for place, tensor in zip(self._places, self._inputs.grad_fn.saved_tensors, strict=True):
            leaves[place] = tensor
        args, kwargs = pytree.tree_unflatten(leaves, self._nest)
        return tuple(args), kwargs

    def _argument(self, tensor: Tensor) -> str:
        """Which argument a tensor is, and nothing if it is none."""
        place = self._place_of.get(id(tensor))
        if place is None:
            return ""
        args, kwargs = pytree.tree_unflatten(list(range(len(self._plain))), self._nest)
        named = [*((str(k), value) for k, value in enumerate(args)), *((f"'{k}'", v) for k, v in kwargs.items())]
        return next(f"argument {name}, " for name, value in named if place in pytree.tree_leaves(value))

    def _error(self, problem: str, advice: str) -> ChangedError:
        name = self._wrapped.name
        return ChangedError(name, f"memplan.torch.checkpoint(): module '{name}' {problem}: {advice}")


_COMPILER = "torch._dynamo"
_SAME = "forward must do the same each time it runs"
_EAGER = "gradients would not be those of the forward; write to it after the backward pass"


def _has_compiled_parts(module: torch.nn.Module) -> bool:
    if _COMPILER not in sys.modules:
        return False
    return any(is_compiled(part) for part in module.modules())


def _as_it_is(tensor: Tensor) -> Tensor:
    return tensor


def _is_leaf(value: Any) -> bool:
    return type(value) not in (tuple, list, dict)


def _kind(tensor: Tensor) -> tuple[Any, ...]:
    return tensor.shape, tensor.dtype, tensor.device
