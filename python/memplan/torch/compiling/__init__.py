"""torch.compile inside a plan: the backend "memplan", which is Inductor with its buffers in planned arenas."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..installed import names_of_torch, require_tested, require_torch
from .settings import settings_of

_WHAT = 'torch.compile(backend="memplan")'


def backend(
    graph: Any, inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None, mode: str | None = None
) -> Callable[..., Any]:
    """Compile a graph of Dynamo with Inductor, its buffers in planned arenas: ``torch.compile(f, backend="memplan")``.

    Inductor lowers, fuses and schedules as ever. What changes is the wrapper code that calls the kernels: where it
    would allocate buffers one by one, and hand freed ones on to later ones of the same size, it allocates an arena and
    cuts the buffers from it, at the offsets of a `memplan.Plan`. Forward and backward have arenas of their own, which
    each call allocates and frees. The kernels are the same, and so are the results, bit for bit.

    Experimental: it changes private parts of torch, as they are in torch 2.13 and 2.14.

    Parameters
    ----------
    graph, inputs
        What torch.compile hands to a backend.
    options
        As in ``torch.compile(f, backend="memplan", options={...})``. memplan takes ``planner`` ("auto"), ``place``
        (["intermediate"], with "output" also what the graph returns), ``alignment`` (64 bytes, on CUDA 512),
        ``split`` (True: several arenas where one would hold more), ``serve`` (True: kernels of torch that allocate get
        memory of arenas), ``order`` ("given": Inductor's; any of `memplan.orders()`, if that holds less), ``budget``
        (bytes for all that a step holds: weights, gradients, states of the optimizer and inputs too; "60%" is of what
        it holds without a budget; "kept + 2GiB" and "kept + 60%" leave out weights, states and inputs), ``allow``
        (["recompute"], what may be done for it, with "split" also ops in pieces), ``time_limit`` (seconds of attempts
        at it; by default about as long as Inductor alone takes) and ``optimizer`` (whose states and update the budget
        counts, as for `memplan.estimate`). All others are those of Inductor,
        ``torch._inductor.config``.
    mode
        As in ``torch.compile(f, mode="max-autotune")``: a set of options of Inductor.

    Raises
    ------
    MissingDependencyError
        torch is not installed.
    UnsupportedError
        A version of torch that memplan was not tested with.
    TypeError, ValueError
        An unknown option, or one with a value that it cannot have.
    """
    require_torch(_WHAT)
    require_tested(_WHAT)
    with names_of_torch(_WHAT):
        from . import compiling
    settings, patches = settings_of(options or {}, compiling.options_of_mode(mode), compiling.known_options())
    return compiling.compiled(graph, inputs, settings, patches)
