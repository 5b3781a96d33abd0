"""Programs of ExecuTorch inside memplan's plans. It is imported when a function here is called.

Tested with executorch 1.5.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ..frontend import Door, Wing
from ..planning.orders import check_order
from .arena import PlannedArena as PlannedArena
from .versions import names_of_executorch

if TYPE_CHECKING:
    from .algorithm import Algorithm
    from .memory_pass import MemoryPass


def _imports() -> None:
    with names_of_executorch():
        importlib.import_module("memplan.executorch.memory_pass")


# Its programs are planned by its own compiler, which calls what is here.
WING = Wing(doors=(Door("memory_planning_pass", _imports),), packages=("executorch",))
Capacity = int | str | Mapping[int, int | str] | None


def memory_planning_pass(
    planner: str = "auto",
    *,
    capacity: Capacity = None,
    time_limit: float | None = None,
    seed: int = 0,
    threads: int = 1,
    fallback: bool = False,
    method: str | None = None,
    memory_of: Callable[[Any], int | None] | None = None,
    order: str = "given",
    **options: Any,
) -> MemoryPass:
    """Plan the memory of ExecuTorch's programs with memplan.

    Give what it returns to ``ExecutorchBackendConfig(memory_planning_pass=...)``. It is ExecuTorch's own
    `MemoryPlanningPass` with memplan's algorithm: what is planned, and when it is alive, is as ExecuTorch says. One
    pass plans all methods of a program.

    Parameters
    ----------
    planner, time_limit, seed, threads
        As in `memplan.plan`.
    capacity
        Bytes that an arena may have at most, as an integer or text such as "256KiB"; or such bytes by memory id, as
        ``{1: "64KiB", 2: "1MiB"}``. One number is for memory 1. Each method has its own arenas. Several memories are
        filled in the order of this mapping: what the first cannot hold goes to the next, so that as few bytes as
        possible are written to and read from later ones. This is for programs whose tensors are all on the CPU.
    fallback
        If the planner fails, warn, and let ExecuTorch's greedy algorithm plan.
    method
        The name of the method, for messages and `PlannedArena.method`, if this pass plans a single one. Otherwise the
        methods are numbered in the order in which ExecuTorch plans them.
    memory_of
        A function from a node of the graph to the memory id for what it makes, or None for no choice. Tensors without
        a choice are in memory 1, or fill the memories of `capacity`.
    order
        The order in which operators run, in each graph and body: a name from `memplan.orders()`, with parameters as in
        `memplan.plan`. If a memory would hold more than in the program's own order, that one is kept.
    **options
        Those of ExecuTorch's `MemoryPlanningPass`: `alloc_graph_input`, `alloc_graph_output`, `alloc_mutable_buffers`,
        `share_mutable_buffers`, and `alignment`, in bytes, by default 16. With `share_mutable_buffers`, memories are
        not filled: memory 2 is that of the state.

    Returns
    -------
    MemoryPass
        After ``to_executorch``, its `arenas` and `plans` say what was planned. ``to_header(path)`` writes the sizes of
        the arenas as a C header.

    Raises
    ------
    MissingDependencyError
        executorch is not installed.
    UnsupportedError
        This version of executorch lacks a name that is needed here. The message lists the versions tested.
    TypeError, ValueError
        A bad option.

    Notes
    -----
    ``to_executorch`` then raises:

    - InfeasibleError: no plan fits the capacity. The message names method, memory id, and the tensors in the way.
    - PlannerError: the planner fails, and `fallback` is False.
    - SourceError: a tensor that lies in another (`storage_base`) has no valid place there.
    """
    algorithm = memory_planning_algo(
        planner,
        capacity=capacity,
        time_limit=time_limit,
        seed=seed,
        threads=threads,
        fallback=fallback,
        method=method,
    )
    with names_of_executorch():
        from .memory_pass import MemoryPass
    return MemoryPass(algorithm, memory_of, check_order(order), **options)


def memory_planning_algo(
    planner: str = "auto",
    *,
    capacity: Capacity = None,
    time_limit: float | None = None,
    seed: int = 0,
    threads: int = 1,
    fallback: bool = False,
    method: str | None = None,
) -> Algorithm:
    """memplan as an algorithm of ExecuTorch, for passes of one's own.

    Use ``MemoryPlanningPass(memory_planning_algo=MemoryPlanningAlgorithmSuite([algorithm]))``. The suite takes the
    plan with the fewest bytes if it has several algorithms. `memory_planning_pass` is simpler, and knows the names of
    control-flow bodies.

    Parameters, and what is raised, are those of `memory_planning_pass`.

    Returns
    -------
    Algorithm
        It is called with (alignment, specs, graph_module, graph_signature, extra_padding), and gives a
        `MemoryAlgoResult`. Its `arenas` and `plans` say what was planned.
    """
    with names_of_executorch():
        from .algorithm import Algorithm
    return Algorithm(
        planner,
        capacity=capacity,
        time_limit=time_limit,
        seed=seed,
        threads=threads,
        fallback=fallback,
        method=method,
    )
