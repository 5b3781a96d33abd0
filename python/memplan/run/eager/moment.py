"""What a forward finds when it begins, besides tensors: so that it can run again and find the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor
from torch.utils.checkpoint import get_device_states, set_device_states

from ...importers.torch.module import Attributes

_NORM = torch.nn.modules.batchnorm._NormBase  # whose statistics change, and do not change what it returns


class Moment:
    """The attributes of a module and its parts, states of random numbers, autocast and the default device.

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
        begun = getattr(getattr(torch, self._kind, None), "_initialized", False)
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
            for part in statistics(self._module):
                copies = {name: b.clone() for name, b in part._buffers.items() if b is not None}
                part._buffers.update(copies)
            yield


def statistics(module: torch.nn.Module) -> Iterator[torch.nn.Module]:
    """The parts whose running statistics change in forward."""
    return (part for part in module.modules() if isinstance(part, _NORM) and part.training)
