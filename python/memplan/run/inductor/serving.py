"""Kernels of compiled code get memory from its arenas: results in their places, and scratch where bytes are free."""

from __future__ import annotations

import struct
from types import TracebackType
from typing import Any

import numpy as np
import torch

from ...errors import UnsupportedError
from ..eager.library import CpuLibrary, cpu_if_built

_guards: Any = torch._C._dynamo.guards  # whose type lacks what it has
_reinterpreted = _guards._reinterpret_tensor
Path = tuple[int, ...]  # where in the result of a call: () is the result itself, (2,) the third of several
OUTSIDE = -1  # the arena of a result that lies in none


class Kernel:
    """A call in compiled code: where its results belong, and which bytes of the arenas are free meanwhile.

    Parameters
    ----------
    name
        The kernel, for messages.
    results
        Each tensor that it returns: its path, which of the arenas it belongs to, offset and bytes. If it lies outside,
        as what the graph returns does, the arena is `OUTSIDE`.
    free
        Ranges that nothing uses during the call: which arena, offset, bytes.
    """

    def __init__(self, name: str, results: list[tuple[Path, int, int, int]], free: list[tuple[int, int, int]]) -> None:
        self.name, self.paths, self.arenas = name, [path for path, *_ in results], [arena for _, arena, *_ in results]
        self.whole = self.paths == [()]  # it returns a tensor, not several
        self.number_of = {path[0] if path else 0: number for number, path in enumerate(self.paths)}
        self._results, self._offsets = results, [offset for _, _, offset, _ in results]
        # What memplan_offer takes: each result has the number of its allocation, which is not known yet.
        rows = [[len(results), len(free)], *([*place, -1] for _, *place in results), *free]
        self._row = np.array([number for row in rows for number in row], dtype=np.int64)
        self._numbers = slice(5, 2 + 4 * len(results), 4)
        self.row = self._row.ctypes.data
        self.learns = len(results) > 0

    def beside(self, arena: int, size: int) -> Kernel:
        """The same call, where the first bytes of another arena are free."""
        kernel = Kernel(self.name, self._results, [(arena, 0, size)])
        kernel.learns = self.learns
        kernel.learn([int(number) for number in self._row[self._numbers]])
        return kernel

    def offered(self, *arenas: tuple[torch.Tensor, int]) -> Call:
        """The context of one call: the arenas, each with what its offsets and bytes are multiplied with."""
        return Call(self, arenas)

    def place(self, result: int, arenas: tuple[int, ...]) -> int:
        """The address of a result, where arenas are addresses and scales, in turn; 0 if it lies outside."""
        arena = self.arenas[result]
        return 0 if arena == OUTSIDE else arenas[2 * arena] + self._offsets[result] * arenas[2 * arena + 1]

    def learn(self, numbers: list[int]) -> None:
        """Which of the kernel's allocations each result is."""
        self._row[self._numbers] = numbers


class Call:
    """One call of a kernel, which is offered memory of arenas on the thread that calls it."""

    __slots__ = ("_arenas", "_kernel", "_library", "_wholes", "elsewhere")

    def __init__(self, kernel: Kernel, arenas: tuple[tuple[torch.Tensor, int], ...]) -> None:
        self._kernel, self._wholes = kernel, [whole for whole, _ in arenas]
        self._arenas = tuple([number for whole, scale in arenas for number in (whole.data_ptr(), scale)])
        self._library: CpuLibrary | None = None  # while it is open
        self.elsewhere = 0  # bytes from elsewhere that it held at most, once it has ended

    def __enter__(self) -> Call:
        library = cpu_if_built()
        if library is not None and library.open(self._kernel.row, _packed(self._arenas)):
            self._library = library
        return self

    def placed(self, result: Any) -> Any:
        """The result, with arenas in place of what was made there: only they say how long these bytes are held."""
        kernel = self._kernel
        if self._library is None or not kernel.paths:
            return result
        if kernel.learns:
            kernel.learns = False
            places = [kernel.place(number, self._arenas) for number in range(len(kernel.paths))]
            made = [_at(result, path) for path in kernel.paths]
            if any(place not in (0, tensor.data_ptr()) for place, tensor in zip(places, made, strict=True)):
                kernel.learn([self._library.number_of(tensor.data_ptr()) for tensor in made])
        found = [result] if kernel.whole else list(result)
        lost = []
        for at, tensor in enumerate(found):
            number = kernel.number_of.get(at)
            if number is not None:
                found[at] = self._owned(tensor, kernel.arenas[number], kernel.place(number, self._arenas))
            elif isinstance(tensor, torch.Tensor):  # nothing here owns it: an input, for example
                found[at] = self._owned(tensor, OUTSIDE, 0)
            if found[at] is None and tensor is not None:
                lost.append((at, tensor))
        if lost:
            self.close()
        for at, tensor in lost:
            found[at] = tensor.clone()
        return found[0] if kernel.whole else found

    def _owned(self, tensor: Any, arena: int, place: int) -> Any:
        """The tensor that holds its bytes; None if it was made as if it were scratch, or another result."""
        address = tensor.data_ptr()
        if arena != OUTSIDE and address == place:
            whole, dtype = self._wholes[arena], tensor.dtype
            begin = (address - self._arenas[2 * arena]) // dtype.itemsize
            same = whole if whole.dtype == dtype else whole.view(dtype)
            return _reinterpreted(same, tensor.size(), tensor.stride(), begin)
        assert self._library is not None
        return None if self._library.offers(address) else tensor

    def close(self) -> int:
        """End the offer: how many allocations of it are still held."""
        library, self._library = self._library, None
        if library is None:
            return 0
        kept, self.elsewhere = library.close()
        return kept

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: TracebackType | None) -> None:
        kept = self.close()
        self._wholes = []  # the code keeps this call for longer
        if kept and kind is None:
            text = f"{self._kernel.name} keeps memory past its call, so it cannot be served"
            raise UnsupportedError(f"{text}; compile with options={{'serve': False}}")


def _packed(numbers: tuple[int, ...]) -> bytes:
    """As 64-bit numbers side by side."""
    return struct.pack(f"{len(numbers)}q", *numbers)


def _at(result: Any, path: Path) -> Any:
    for index in path:
        result = result[index]
    return result
