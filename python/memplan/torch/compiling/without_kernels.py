"""Code that is read and not run: without kernels, and how long Inductor would take to compile these."""

from __future__ import annotations

import functools
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ..private_compiler import AsyncCompile, PyCodeCache, inductor_config

Kernel = tuple[Sequence[Any], str]  # what a kernel takes, and its code in C++
# of code that is only read, the kernels that it would get
_READ: ContextVar[list[Kernel] | None] = ContextVar("memplan.torch.compiling.without_kernels", default=None)
_ONCE = threading.Lock()


@contextmanager
def without_kernels() -> Iterator[list[Kernel]]:
    """Meanwhile, code that is loaded gets no kernels of C++, which are listed. It is loaded anew when it is to run."""
    with _ONCE:
        if not hasattr(AsyncCompile.cpp_pybinding, "_by_memplan"):
            AsyncCompile.cpp_pybinding = _unless_read(AsyncCompile.cpp_pybinding)  # type: ignore[method-assign]
    before = {*PyCodeCache.modules_no_attr}
    kernels: list[Kernel] = []
    token = _READ.set(kernels)
    try:
        yield kernels
    finally:
        _READ.reset(token)
        for path in PyCodeCache.modules_no_attr.keys() - before:
            del PyCodeCache.modules_no_attr[path]


def _unless_read(by_torch: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(by_torch)
    def cpp_pybinding(compiler: Any, takes: Any, code: str, *more: Any, **named: Any) -> Any:
        kernels = _READ.get()
        if kernels is None:
            return by_torch(compiler, takes, code, *more, **named)
        kernels.append((takes, code))
        return None

    cpp_pybinding._by_memplan = True  # type: ignore[attr-defined]
    return cpp_pybinding


def seconds_of_kernels(kernels: Sequence[Kernel]) -> float:
    """About how long Inductor takes to compile kernels, several at a time.

    It compiles the shortest, with what all need, and one of middle length, of which it takes the others to be.
    """
    distinct = sorted({code: takes for takes, code in kernels}.items(), key=lambda one: len(one[0]))
    seconds = [0.0]
    for code, takes in (*distinct[:1], *distinct[len(distinct) // 2 :][:1]):
        begin = time.perf_counter()
        made: Any = AsyncCompile().cpp_pybinding(list(takes), code)
        getattr(made, "result", lambda: None)()
        seconds.append(time.perf_counter() - begin)
    at_once = inductor_config.compile_threads or os.cpu_count() or 1
    return sum(seconds[:2]) + seconds[-1] * max(len(distinct) - 1, 0) / at_once
