"""Kernels that differ in whole numbers alone are compiled once: those of pieces read other rows in the same way.

kernel 1    loadu(in_ptr1 + static_cast<int64_t>(1152L + x0))
kernel 2    loadu(in_ptr1 + static_cast<int64_t>(1536L + x0))
both        loadu(in_ptr1 + static_cast<int64_t>(n0 + x0)), which takes n0 too
"""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ..private_compiler import AsyncCompile, CodeCacheFuture, get_compile_threads

_NUMBER = re.compile(r"(?<![\w.])\d+(?=L\b)")
_TAKES = re.compile(r"\bkernel\(([^)]*)\)")
# kernels that are asked for, in their order
_ASKED: ContextVar[list[_Kernel] | None] = ContextVar("memplan.torch.compiling.kernels_once", default=None)
_ONCE = threading.Lock()
Compile = Callable[..., Any]


@contextmanager
def kernels_once() -> Iterator[None]:
    """Meanwhile, kernels of C++ wait until code needs them, and those that are alike are compiled together."""
    with _ONCE:
        if not hasattr(AsyncCompile.cpp_pybinding, "_once_by_memplan"):
            AsyncCompile.cpp_pybinding = _asked(AsyncCompile.cpp_pybinding)  # type: ignore[method-assign]
    token = _ASKED.set([])
    try:
        yield
    finally:
        _ASKED.reset(token)


def _asked(by_torch: Compile) -> Compile:
    @functools.wraps(by_torch)
    def cpp_pybinding(compiler: Any, takes: Sequence[str], code: str, *more: Any, **named: Any) -> Any:
        asked = _ASKED.get()
        if asked is None or more or named or get_compile_threads() <= 1:
            return by_torch(compiler, takes, code, *more, **named)
        kernel = _Kernel(functools.partial(by_torch, compiler), takes, code, asked)
        asked.append(kernel)
        return kernel

    cpp_pybinding._once_by_memplan = True  # type: ignore[attr-defined]
    return cpp_pybinding


class _Kernel(CodeCacheFuture):
    """A kernel that is compiled when it is needed, with all that were asked for until then."""

    def __init__(self, compiled: Compile, takes: Sequence[str], code: str, asked: list[_Kernel]) -> None:
        self.takes, self.code, self.compiled = tuple(takes), code, compiled
        self._asked = asked
        self.made: Callable[[], Callable[..., Any]] | None = None

    def result(self, timeout: float | None = None) -> Compile:
        """The function."""
        if self.made is None:
            waiting = [kernel for kernel in self._asked if kernel.made is None]
            self._asked.clear()
            for kernels in _alike(waiting):
                _compile(kernels)
        assert self.made is not None
        return self.made()


def _alike(kernels: Sequence[_Kernel]) -> list[list[_Kernel]]:
    groups: dict[object, list[_Kernel]] = {}
    for kernel in kernels:
        groups.setdefault((kernel.takes, _NUMBER.sub("", kernel.code)), []).append(kernel)
    return list(groups.values())


def _compile(kernels: Sequence[_Kernel]) -> None:
    """Have kernels compiled that are alike: numbers in which they differ are arguments then."""
    first = kernels[0]
    numbers = [_NUMBER.findall(kernel.code) for kernel in kernels]
    columns = [column for column in zip(*numbers, strict=True) if len(set(column)) > 1]
    names = {column: f"memplan_n{k}" for k, column in enumerate(dict.fromkeys(columns))}
    found = _TAKES.search(first.code)
    if not names or found is None:
        for kernel in kernels:
            kernel.made = _later(kernel.compiled(list(kernel.takes), kernel.code))
        return
    each = iter(zip(*numbers, strict=True))
    code = _NUMBER.sub(lambda number: names.get(next(each), number.group()), first.code)
    code = re.sub(r"\b(memplan_n\d+)L\b", r"\1", code)
    more = "".join(f", const int64_t {name}" for name in names.values())
    code = _TAKES.sub(lambda taken: f"kernel({taken[1]}{more})", code, count=1)
    together = first.compiled([*first.takes, *["const int64_t"] * len(names)], code)
    for at, kernel in enumerate(kernels):
        own = tuple(int(column[at]) for column in names)
        kernel.made = functools.partial(_with_numbers, kernel, _later(together), own)


def _with_numbers(kernel: _Kernel, together: Callable[[], Any], numbers: tuple[int, ...]) -> Callable[..., Any]:
    """A function that takes what the kernel takes; compiled alone where the compiler refuses what is alike."""
    try:
        function = together()
    except Exception:
        kernel.made = _later(kernel.compiled(list(kernel.takes), kernel.code))
        return kernel.made()  # type: ignore[no-any-return]
    return lambda *args: function(*args, *numbers)


def _later(compiling: Any) -> Callable[[], Any]:
    return getattr(compiling, "result", lambda: compiling)
