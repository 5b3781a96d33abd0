"""Kernels of compiled code get memory from its arenas: results in their places, and scratch where bytes are free."""

from __future__ import annotations

import logging
import sysconfig
from collections.abc import Callable, Sequence
from functools import cache
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

import torch

from ...errors import UnsupportedError
from ..training.build import built
from ..training.library import cpu_if_built

ResultPath = tuple[int, ...]  # where in the result of a call: () is the result itself, (2,) the third of several
Results = Sequence[tuple[ResultPath, int, int, int]]
Ranges = Sequence[tuple[int, int, int]]
OUTSIDE = -1  # the arena of a result that lies in none

log = logging.getLogger("memplan.torch")
_CALLS = Path(__file__).parent / "csrc" / "calls.cpp"


def can_serve() -> bool:
    """Whether kernels get memory from arenas: with an allocator of our own, and a compiler."""
    return _calls() is not None


def served(name: str, results: Results, free: Ranges) -> Callable[..., Any]:
    """What is called in place of a kernel: first with arenas, then with the kernel and its arguments.

    Each arena is followed by what offsets and bytes in it are multiplied with. The result owns the arenas that it lies
    in. Code that was compiled where kernels are served runs elsewhere too: then the kernel is called, and no more.
    """
    if can_serve():
        run: Callable[..., Any] = kernel_of(name, results, free).run
        return run
    at = 2 * _arenas(results, free)
    return lambda *given, **named: given[at](*given[at + 1 :], **named)


def kernel_of(name: str, results: Results, free: Ranges, numbers: Sequence[int] = ()) -> Any:
    """A kernel in C++: where its results belong, and which bytes of the arenas are free meanwhile.

    ``run`` is what is called in its place; ``elsewhere`` the bytes from elsewhere that the last call has held at most;
    ``numbers`` which of the kernel's allocations the results are, as the first call has shown. See `csrc/calls.cpp`.

    Parameters
    ----------
    name
        The kernel, for messages.
    results
        Each tensor that it returns: its path, which of the arenas it belongs to, offset and bytes. If it lies outside,
        as what the graph returns does, the arena is `OUTSIDE`.
    free
        Ranges that nothing uses during the call: which arena, offset, bytes.
    numbers
        What another kernel has learned, for the same results.
    """
    return _calls().Kernel(name, _arenas(results, free), list(results), list(free), list(numbers))


def _arenas(results: Results, free: Ranges) -> int:
    return 1 + max([OUTSIDE, *(arena for _, arena, _, _ in results), *(arena for arena, _, _ in free)])


@cache
def _calls() -> Any:
    """The module in C++; None where it, or the allocator, cannot be built."""
    library, headers = cpu_if_built(), Path(sysconfig.get_path("include"))
    if library is None or not (headers / "Python.h").exists():
        return None
    try:
        module = _loaded(built(_CALLS, "-isystem", str(headers)))
    except (RuntimeError, ImportError) as error:
        log.debug("kernels are not served: %s", error)
        return None
    functions = library.addresses("open", "close", "offers", "number_of")
    module.connect(*functions, torch.Tensor, UnsupportedError)
    return module


def _loaded(path: Path) -> Any:
    loader = ExtensionFileLoader("memplan_calls", str(path))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module
