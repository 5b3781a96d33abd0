"""Memory that compiled code allocates lies in pages of its own, which go back to the system when it is freed.

In malloc's heap, what is freed between living buffers stays with the process.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from functools import cache
from typing import Any

from ..training.library import CpuLibrary, cpu_if_built


def in_pages(call: Callable[..., Any]) -> Callable[..., Any]:
    """The function of a wrapper, whose large allocations have pages of their own, whatever becomes of them."""
    library = _installed()
    if library is None:
        return call
    want = library.want_pages

    @functools.wraps(call)
    def called(*args: Any) -> Any:
        want(1)
        try:
            return call(*args)
        finally:
            want(-1)

    return called


@cache
def _installed() -> CpuLibrary | None:
    """The allocator of the CPU, in torch's place for good; None where there is none, or another one stays there."""
    library = cpu_if_built()
    return library if library is not None and library.install() else None
