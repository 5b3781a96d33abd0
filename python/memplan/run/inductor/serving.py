"""Kernels of compiled code get memory from its arenas: results in their places, and scratch where bytes are free."""

from __future__ import annotations

from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ...errors import UnsupportedError
from ..eager.library import CpuLibrary, cpu_if_built

_Ints = npt.NDArray[np.int64]
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
        # What memplan_offer takes: numbers, each times the scale of an arena (or 1), and addresses in it (or in none).
        cells = [(len(results), OUTSIDE, OUTSIDE), (len(free), OUTSIDE, OUTSIDE)]
        for _, arena, offset, size in results:
            cells += [(offset, arena, arena), (size, arena, OUTSIDE), (-1, OUTSIDE, OUTSIDE)]
        for arena, offset, size in free:
            cells += [(offset, arena, arena), (size, arena, OUTSIDE)]
        self.number, self.scaled, self.begins = np.array(cells, dtype=np.int64).T.copy()
        self.addresses = slice(2, 2 + 3 * len(results), 3)
        self.sizes = slice(3, 3 + 3 * len(results), 3)
        self.order = slice(4, 4 + 3 * len(results), 3)  # which of the kernel's allocations each result is
        self.free = slice(2 + 3 * len(results), None)
        self.learns = len(results) > 0

    def offered(self, *arenas: tuple[torch.Tensor, int]) -> Call:
        """The context of one call: the arenas, each with what its offsets and bytes are multiplied with."""
        return Call(self, arenas)


class Call:
    """One call of a kernel, which is offered memory of arenas on the thread that calls it."""

    elsewhere = 0  # bytes from elsewhere that it held at most, once it has ended

    def __init__(self, kernel: Kernel, arenas: tuple[tuple[torch.Tensor, int], ...]) -> None:
        self._kernel, self._wholes = kernel, [whole for whole, _ in arenas]
        scale = np.array([*(scale for _, scale in arenas), 1], dtype=np.int64)
        begin = np.array([*(whole.data_ptr() for whole, _ in arenas), 0], dtype=np.int64)
        self._row = kernel.number * scale[kernel.scaled] + begin[kernel.begins]
        self._library: CpuLibrary | None = None  # while it is open

    def __enter__(self) -> Call:
        library = cpu_if_built()
        if library is not None and library.install():
            self._library = library
            library.offer(self._row)
        return self

    def placed(self, result: Any) -> Any:
        """The result, with arenas in place of what was made there: only they say how long these bytes are held."""
        kernel = self._kernel
        if self._library is None or not kernel.paths:
            return result
        made = [_at(result, path) for path in kernel.paths]
        places = self._row[kernel.addresses].tolist()
        if kernel.learns:
            kernel.learns = False
            if any(place not in (0, tensor.data_ptr()) for place, tensor in zip(places, made, strict=True)):
                kernel.number[kernel.order] = [self._library.number_of(tensor.data_ptr()) for tensor in made]
        owned = [self._owned(*row) for row in zip(made, kernel.arenas, places, strict=True)]
        if kernel.paths == [()]:
            return owned[0]
        known = {index: tensor for (index,), tensor in zip(kernel.paths, owned, strict=True)}
        return [known[k] if k in known else self._handed_on(other) for k, other in enumerate(result)]

    def _handed_on(self, other: Any) -> Any:
        """Something that nothing here owns, such as an input or a number."""
        return self._owned(other, OUTSIDE, 0) if isinstance(other, torch.Tensor) else other

    def _owned(self, tensor: Any, arena: int, place: int) -> Any:
        address = tensor.data_ptr()
        if arena != OUTSIDE and address == place:
            whole = self._wholes[arena]
            begin = (address - whole.data_ptr()) // tensor.dtype.itemsize
            return whole.view(tensor.dtype).as_strided(tensor.shape, tensor.stride(), begin)
        begins, ends = self._offered()
        if ((begins <= address) & (address < ends)).any():  # made as if it were scratch, or another result
            self.close()
            return tensor.clone()
        return tensor

    def _offered(self) -> tuple[_Ints, _Ints]:
        """Where the ranges begin and end that were offered to the call."""
        kernel, row = self._kernel, self._row
        begins = np.concatenate([row[kernel.addresses], row[kernel.free][::2]])
        return begins, begins + np.concatenate([row[kernel.sizes], row[kernel.free][1::2]])

    def close(self) -> int:
        """End the offer: how many allocations of it are still held."""
        library, self._library = self._library, None
        if library is None:
            return 0
        _, kept, self.elsewhere = library.offered()
        library.uninstall()
        return kept

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: TracebackType | None) -> None:
        kept = self.close()
        self._wholes = []  # the code keeps this call for longer
        if kept and kind is None:
            text = f"{self._kernel.name} keeps memory past its call, so it cannot be served"
            raise UnsupportedError(f"{text}; compile with options={{'serve': False}}")


def _at(result: Any, path: Path) -> Any:
    for index in path:
        result = result[index]
    return result
