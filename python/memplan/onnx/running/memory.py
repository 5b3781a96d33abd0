"""Where the tensors of a plan lie: views of one arena; what the plan does not place has bytes of its own."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ... import _core, dtypes
from ...errors import InvalidPlanError
from ...plans import usage
from ...running.poison import GARBAGE
from ...running.program import aligned
from .values import Array, Bytes, described, from_bytes, is_packed, numpy_dtype, to_bytes

if TYPE_CHECKING:
    from ...plans.plan import Plan


class Place:
    """The bytes of one tensor. Any address will do for numpy: `read` copies what an element's size does not divide."""

    def __init__(self, tensor: _core.Tensor, data: Bytes) -> None:
        self.name, self.dtype = tensor.name, tensor.dtype
        # rows along several axes taken together have no shape
        self.shape = (len(data) * 8 // dtypes.bits(self.dtype),) if tensor.shape is None else tuple(tensor.shape)
        self.data = data
        self._packed = is_packed(self.dtype)
        self._array = None if self._packed else from_bytes(data, self.dtype, self.shape)
        self._read = None if self._array is None else self._array.view()
        if self._read is not None:
            self._read.flags.writeable = False

    @property
    def address(self) -> int:
        """Of the first byte."""
        return int(self.data.ctypes.data)

    def read(self) -> Array:
        """The value; a view of the bytes that cannot be written to, where their address allows it."""
        if self._read is None:
            return from_bytes(self.data, self.dtype, self.shape)
        return np.require(self._read, requirements="A")

    def view(self) -> Array:
        """The value as a view of the bytes; packed elements are copied."""
        return from_bytes(self.data, self.dtype, self.shape)

    def write(self, value: Array) -> None:
        """Store a value of the tensor's dtype and shape; it may be a view of any bytes."""
        if self._array is None:
            self.data[:] = to_bytes(value, self.dtype)
        else:
            np.copyto(self._array, value, casting="no")

    def holds(self, value: Array) -> bool:
        """Whether a value lies here, byte by byte."""
        return bool(np.array_equal(self.data, to_bytes(value, self.dtype)))

    def fault(self, value: Array) -> str | None:
        """What is wrong with a value that is to lie here: "float32[2,3], got float64[2,3]"; None if nothing."""
        return _fault(value, self.dtype, self.shape)


class RowsOf(NamedTuple):
    """Rows [begin, end) along axes of a tensor that are taken together, `ones` axes before the last of them.

    `outer` and `inner` are the sizes of the tensor before and behind these axes. A tensor that holds some rows has the
    row `base` first.
    """

    outer: tuple[int, ...]
    ones: int
    inner: tuple[int, ...]
    begin: int
    end: int
    base: int

    @property
    def sizes(self) -> tuple[int, ...]:
        """The shape of these rows, of the rank of the tensor."""
        return (*self.outer, *[1] * self.ones, self.end - self.begin, *self.inner)

    def of(self, array: Array) -> Array:
        """A view of these rows, of a tensor that holds them."""
        rows = array.reshape(*self.outer, -1, *self.inner)
        return rows[(slice(None),) * len(self.outer) + (slice(self.begin - self.base, self.end - self.base),)]

    def write(self, value: Array, array: Array) -> None:
        """Store these rows in a tensor that holds them."""
        rows = self.of(array)
        np.copyto(rows, value.reshape(rows.shape), casting="no")


class PlaceOfRows:
    """The bytes of rows of a tensor, as a place."""

    def __init__(self, whole: Place, rows: RowsOf) -> None:
        self._whole, self._rows = whole, rows

    def read(self) -> Array:
        """The value of these rows."""
        return self._rows.of(self._whole.read()).reshape(self._rows.sizes)

    def write(self, value: Array) -> None:
        """Store these rows; the others stay."""
        array = self._whole.view()
        self._rows.write(value, array)
        if is_packed(self._whole.dtype):
            self._whole.write(array)

    def holds(self, value: Array) -> bool:
        """Whether a value lies here, byte by byte."""
        return self.read().tobytes() == value.tobytes()

    def fault(self, value: Array) -> str | None:
        """What is wrong with a value that is to lie here; None if nothing."""
        return _fault(value, self._whole.dtype, self._rows.sizes)


def _fault(value: Array, dtype: str, shape: tuple[int, ...]) -> str | None:
    if value.dtype == numpy_dtype(dtype) and value.shape == shape:
        return None
    return f"{described(np.broadcast_to(np.zeros((), numpy_dtype(dtype)), shape))}, got {described(value)}"


class Memory:
    """The arena of a plan, made once or given, and a place for each tensor of its graph.

    Raises
    ------
    InvalidPlanError
        A tensor would lie outside of the arena. The message names it.
    """

    def __init__(self, plan: Plan, arena: Bytes | None = None) -> None:
        assert plan.graph is not None
        assert plan.buffers is not None
        self.arena = aligned(plan.peak) if arena is None else arena
        self._plan, self._tensors = plan, plan.graph.tensors
        self._root: list[int] = plan.buffers.root_of_tensor.tolist()
        self._inside: list[int] = plan.buffers.offset_in_buffer.tolist()
        self._buffer: list[int] = plan.buffers.buffer_of_tensor.tolist()
        self._given = {t.name for t in self._tensors if t.kind in ("input", "weight")}
        self.places: dict[str, Place] = {}
        for t, tensor in enumerate(self._tensors):
            if self._buffer[t] >= 0:
                self.places[tensor.name] = Place(tensor, self._in_arena(t))
        self._own = [t for t in range(len(self._tensors)) if self._buffer[t] < 0]

    def give(self, values: dict[str, Array], donated: frozenset[str], there: Collection[str] = ()) -> None:
        """Put the inputs and weights where they belong, and make room for what else has no place in the arena.

        Those `there` are in the arena already.
        A value outside of the arena is used as it is, without a copy, unless ops may write over it.
        """
        own: dict[int, Bytes] = {}
        for t in self._own:
            root = self._tensors[self._root[t]]
            if self._root[t] not in own:
                own[self._root[t]] = self._outside(root, values, donated)
            begin, size = self._inside[t], self._tensors[t].bytes
            self.places[self._tensors[t].name] = Place(self._tensors[t], own[self._root[t]][begin : begin + size])
        for t, tensor in enumerate(self._tensors):
            if tensor.name in self._given and self._buffer[t] >= 0 and tensor.name not in there:
                self.places[tensor.name].write(values[tensor.name])

    def poison(self, spans: list[usage.Span]) -> None:
        """Overwrite bytes of the arena."""
        for begin, end in spans:
            self.arena[begin:end] = GARBAGE

    def shows(self, value: Array) -> bool:
        """Whether an array may be made of bytes of the arena."""
        return bool(np.may_share_memory(value, self.arena))

    def _outside(self, root: _core.Tensor, values: dict[str, Array], donated: frozenset[str]) -> Bytes:
        if root.name not in self._given:
            return np.zeros(root.bytes, np.uint8)
        data = to_bytes(values[root.name], root.dtype)
        if root.name in donated:
            return data.copy()
        data = data.view()
        data.flags.writeable = False
        return data

    def _in_arena(self, t: int) -> Bytes:
        tensor, b = self._tensors[t], self._buffer[t]
        begin = int(self._plan.offsets[b]) + self._inside[t]
        inside_buffer = 0 <= self._inside[t] <= int(self._plan.problem.size[b]) - tensor.bytes
        if not inside_buffer or not 0 <= begin <= len(self.arena) - tensor.bytes:
            raise InvalidPlanError(
                f"tensor {tensor.name!r} lies at the bytes [{begin}, {begin + tensor.bytes}), which are not all in "
                f"its buffer and in the arena of {len(self.arena)} bytes"
            )
        return self.arena[begin : begin + tensor.bytes]
