"""What a module holds between runs besides its weights, and whether its runs depend on that.

A plan repeats the run that was traced. Forward may bind attributes anew, append to lists, count in Python: then the
next run of the module starts from something else. That is of no account for a cache, which holds what each run would
compute anyway, and for what nothing reads. Two runs one after another tell: if the second means the same, and leaves
the same, then so does every later one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..private import REGISTERS
from .double import Double
from .failing import finding_line
from .geometry import address, geometry
from .meaning import Meaning
from .reached import CONTAINERS, attributes_of, held_by, is_atom

Path = tuple[Hashable, ...]
_GONE = object()


class Held:
    """All that a module holds at a moment: leaves by their paths, and what holds them."""

    def __init__(self, module: torch.nn.Module) -> None:
        self.leaves: dict[Path, Any] = {}
        self.holders: dict[Path, Any] = {}
        self._seen: dict[int, Path] = {}
        todo: list[tuple[Path, Any]] = [((), module)]
        while todo:
            path, value = todo.pop()
            self.leaves[path] = self._leaf(path, value)
            if isinstance(value, Tensor) or is_atom(value) or id(value) in self._seen:
                continue
            self._seen[id(value)] = path
            self.holders[path] = value
            todo += [((*path, key), item) for key, item in held_by(value)]

    def _leaf(self, path: Path, value: Any) -> Any:
        """What tells a value from another one, as it is now."""
        if isinstance(value, Tensor):
            return _Bound(value)
        if id(value) in self._seen:
            return type(value), self._seen[id(value)]
        if isinstance(value, np.ndarray):
            return value.dtype.str, value.shape, value.tobytes()
        code = getattr(value, "__code__", None)
        if code is not None:
            return type(value), id(code)
        if isinstance(value, (*CONTAINERS, tuple, frozenset)) and not isinstance(value, torch.Size):
            return type(value), len(value)
        return type(value), "" if attributes_of(value) else _text(value)

    def changed(self, later: Held, tensors: bool = True) -> list[Path]:
        """The paths of what is other later; without `tensors`, these may be others that look alike."""
        paths = {**self.leaves, **later.leaves}
        found = []
        for path in paths:
            then, now = self.leaves.get(path), later.leaves.get(path)
            if then == now:
                continue
            alike = isinstance(then, _Bound) and isinstance(now, _Bound) and then.looks == now.looks
            if tensors or not alike:
                found.append(path)
        return [path for path in found if not any(path[:end] in found for end in range(1, len(path)))]


def _text(value: Any) -> str:
    """What tells one value from another of its type; an address where nothing else does."""
    try:
        return repr(value)
    except Exception:
        return str(id(value))


class _Bound:
    """A tensor that is bound: which one, and as what."""

    def __init__(self, tensor: Tensor) -> None:
        self.looks = (geometry(tensor)[1:], str(tensor.device), tensor.requires_grad)
        self._is = (id(tensor), address(tensor), geometry(tensor))
        self._kept = tensor, tensor.untyped_storage()  # so that its address is no other's

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Bound) and self._is == other._is

    def __hash__(self) -> int:
        return hash(self._is)


class _Counted:
    """Stands for a number that forward counts with; `read` gets to know if it does anything else with it."""

    def __init__(self, kind: type, read: list[str]) -> None:
        self._kind, self._read = kind, read

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # for isinstance
        return self._kind

    def _count(self, other: Any) -> _Counted:
        return self if isinstance(other, (int, float)) else self._looked_at()

    def _looked_at(self, *_: Any) -> Any:
        self._read.append("read")
        raise TypeError("a number is read")

    __add__ = __radd__ = __sub__ = __rsub__ = __iadd__ = __isub__ = _count


for _name in (
    *("bool", "eq", "ne", "lt", "le", "gt", "ge", "hash", "int", "float", "complex", "index", "round", "trunc", "abs"),
    *("mul", "rmul", "truediv", "rtruediv", "floordiv", "rfloordiv", "mod", "rmod", "pow", "rpow", "neg", "pos"),
    *("repr", "str", "format", "iter", "len", "getitem", "contains", "call", "and", "or", "xor", "lshift", "rshift"),
):
    setattr(_Counted, f"__{_name}__", _Counted._looked_at)


def unsettled(double: Double, meaning: Meaning, run: Callable[[], object]) -> list[Path]:
    """What forward changes so that later runs may be others than the first; `run` runs the double, and tells it."""
    before = Held(double.module)
    run()
    first, between = meaning.outcome(), Held(double.module)
    meaning.anew()
    try:
        run()
    except Exception:  # as by what the first run has left
        return before.changed(between)
    after = Held(double.module)
    changing = between.changed(after, tensors=False)
    if changing:
        return [] if _only_counts(double, after, changing, meaning, run, first) else changing
    if meaning.outcome() == first:
        return []
    return between.changed(after) or before.changed(between)


def _only_counts(
    double: Double, now: Held, paths: list[Path], meaning: Meaning, run: Callable[[], object], first: Any
) -> bool:
    """Whether numbers are all that changes, and nothing is done with them but counting."""
    read: list[str] = []
    for path in paths:
        key: Any = path[-1]
        holder: Any = now.holders.get(path[:-1])
        holder = holder if isinstance(holder, (dict, list)) else attributes_of(holder)
        if now.leaves[path][0] not in (int, float) or not (isinstance(holder, list) or key in holder):
            return False
        holder[key] = _Counted(now.leaves[path][0], read)
    meaning.anew()
    try:
        run()
    except Exception:
        return False
    return not read and meaning.outcome() == first


def line_of(double: Double, path: Path, run: Callable[[], object]) -> str:
    """The line of the model that changes what is at a path, as it runs; empty if that is not found."""

    def now() -> Any:
        value: Any = double.module
        for key in path:
            value = next((item for name, item in held_by(value) if name == key), _GONE)
        size = len(value) if isinstance(value, CONTAINERS) else 0
        return _Bound(value) if isinstance(value, Tensor) else (id(value), size)

    then, found = now(), list[str]()
    try:
        with finding_line(lambda: now() != then, found):
            run()
    except Exception:
        return found[0] if found else ""
    return found[0] if found else ""


def named(path: Path) -> str:
    """How a path is written: `layers.0.cache[2]`."""
    words = [key for key in path if key not in REGISTERS]
    return ".".join(str(key[1]) if isinstance(key, tuple) else str(key) for key in words)
