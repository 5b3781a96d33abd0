"""It has run on a stand-in for CUDA's runtime only, never on a GPU: memplan gives out torch's memory on GPUs.

It is installed before CUDA begins, for recording and for arenas. Only who asks for it imports it.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import UnsupportedError
from ...importers.torch.private import TESTED, require_torch
from ..eager.build import built
from ..eager.library import Library, installed, library_of

_FIGURES = (
    *("reserved", "reserved_peak", "allocated", "allocated_peak", "arenas"),
    *("taken", "given_back", "reused", "waiting"),
)
_FUNCTIONS = {"set_record_stream_fn": "memplan_cuda_record_stream", "set_reset_fn": "memplan_cuda_empty"}
_WHAT = "memplan.run.cuda_unproven.install()"
_SOURCE = Path(__file__).parent / "csrc" / "cuda.cpp"


@dataclass(frozen=True)
class CudaMemory:
    """What memplan's allocator holds of a GPU, in bytes.

    Attributes
    ----------
    reserved, reserved_peak : int
        Taken from CUDA: now, and at most. Arenas are part of it.
    allocated, allocated_peak : int
        In use outside of arenas, each allocation rounded up to 512: now, and at most.
    arenas : int
        Reserved for arenas.
    taken, given_back : int
        How often CUDA was asked for memory, and how often some went back.
    reused : int
        Allocations outside of arenas that found memory which was free.
    waiting : int
        Allocations that were freed, and wait until another stream has done what it does with them.
    """

    reserved: int
    reserved_peak: int
    allocated: int
    allocated_peak: int
    arenas: int
    taken: int
    given_back: int
    reused: int
    waiting: int


class CudaLibrary(Library):
    """The allocator of GPUs. It records and serves allocations of the stream that is current when a step begins."""

    def __init__(self, path: Path, runtime: str, current: Callable[[], tuple[int, int]]) -> None:
        super().__init__(path)
        self._current = current
        self._device = 0
        self._devices: dict[int, int] = {}  # of arenas
        if not self._c.memplan_cuda_driver(runtime.encode()):
            raise UnsupportedError(f"{_WHAT} needs CUDA's runtime, a shared library: {self._error()}")

    def begin(self, what: str) -> None:
        super().begin(what)
        try:
            self._serve()
        except BaseException:
            self.end()
            raise

    def arena(self, *args: Any) -> int:
        self._serve()
        handle = super().arena(*args)
        self._devices[handle] = self._device
        return handle

    def step(self, arena: int, *args: Any) -> None:
        self._serve()
        made_on = self._devices[arena]
        if made_on != self._device:
            raise RuntimeError(f"the arena is on cuda:{made_on}, and the step is on cuda:{self._device}")
        super().step(arena, *args)

    def pointer(self, function: str) -> int:
        """The address of a function, for torch."""
        address = ctypes.cast(getattr(self._c, function), ctypes.c_void_p).value
        assert address is not None
        return address

    def memory(self, device: int | None, reset_peaks: bool) -> CudaMemory:
        out = np.zeros(len(_FIGURES), dtype=np.int64)
        number = self._current()[0] if device is None else device
        column = out.ctypes.data_as(ctypes.POINTER(ctypes.c_int64))
        self._c.memplan_cuda_figures(ctypes.c_int64(number), int(reset_peaks), column)
        return CudaMemory(**dict(zip(_FIGURES, out.tolist(), strict=True)))

    def _serve(self) -> None:
        self._device, stream = self._current()
        if not self._c.memplan_cuda_serve(ctypes.c_int64(self._device), ctypes.c_void_p(stream)):
            raise RuntimeError(f"CUDA fails: {self._error()}")

    def _error(self) -> str:
        return str(self._c.memplan_error().decode(errors="replace"))


def install() -> None:
    """It has run on a stand-in for CUDA's runtime only, never on a GPU: let memplan give out the memory of GPUs.

    Then steps on them can be recorded and served from arenas.

    Call it before anything is put on a GPU: torch cannot change its allocator later. What no arena serves comes from a
    cache, as with torch's own allocator: memory goes back to the stream that it was allocated in, and if another stream
    was said to use it (``tensor.record_stream``), only when that stream is done. Calling it again does nothing.

    The first use builds a small library with the C++ compiler; it needs no CUDA to be built. CUDA graphs cannot be
    captured, and torch.cuda's statistics of memory are not there: see `memory`. Tested with torch 2.13.

    Raises
    ------
    MissingDependencyError
        No torch, or no C++ compiler.
    UnsupportedError
        This torch is built without CUDA, or is not as memplan expects it.
    RuntimeError
        CUDA has begun already.
    """
    if "cuda" in installed:
        return
    require_torch(_WHAT)
    import torch

    if torch.version.cuda is None:
        raise UnsupportedError(f"{_WHAT} needs a torch that is built with CUDA, got torch {torch.__version__}")
    cuda: Any = torch.cuda  # of which some is not typed
    if cuda.is_initialized():
        raise RuntimeError(f"{_WHAT} is too late: CUDA has begun. Call it before anything is put on a GPU")
    path = built(_SOURCE)
    library = CudaLibrary(path, _runtime(torch.version.cuda), partial(_current, torch))
    allocator = cuda.memory.CUDAPluggableAllocator(str(path), "memplan_cuda_alloc", "memplan_cuda_free")
    inner = allocator.allocator()
    for setter, function in _FUNCTIONS.items():
        if not hasattr(inner, setter):
            raise UnsupportedError(
                f"{_WHAT} needs {setter} of torch's pluggable allocator, as in torch {', '.join(TESTED)}; this is "
                f"torch {torch.__version__}"
            )
        getattr(inner, setter)(library.pointer(function))
    cuda.memory.change_current_allocator(allocator)
    installed["cuda"] = library


def memory(device: int | None = None, *, reset_peaks: bool = False) -> CudaMemory:
    """What memplan's allocator holds of a GPU; `torch.cuda.memory_stats` does not know it.

    Parameters
    ----------
    device
        The number of a GPU, by default the current one.
    reset_peaks
        Peaks begin anew, after this.

    Raises
    ------
    RuntimeError
        `install` was not called.
    """
    library = library_of("cuda")
    assert isinstance(library, CudaLibrary)
    return library.memory(device, reset_peaks)


def _current(torch: Any) -> tuple[int, int]:
    """The device and stream on which torch works now."""
    return torch.cuda.current_device(), torch.cuda.current_stream().cuda_stream


def _runtime(version: str, maps: Path = Path("/proc/self/maps")) -> str:
    """The library of CUDA's runtime that torch has loaded; else the one that the system finds."""
    loaded = re.search(r"/\S*libcudart\.so\S*", maps.read_text()) if maps.exists() else None
    return loaded[0] if loaded else f"libcudart.so.{version.partition('.')[0]}"
