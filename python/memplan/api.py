"""The functions that people call: from any source to a network, a plan, an order, a proof."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from . import _core
from .fitting.fit import USUAL
from .fitting.fit import fit as fitted
from .importers import Captured, Network, captured, read_once
from .importers.plan_files import read_plan as plan_of_file
from .options.barriers import with_barriers
from .options.checks import integer
from .options.taking import is_ranged, naming_options, request
from .planning.orders import check_order
from .planning.registry import check_planner
from .plans.plan import Plan
from .proofs.order_bound import OrderBound, order_bound_of
from .proofs.refutation import Refutation, refuted
from .ranges.planning import plan_range
from .sizes import in_bytes
from .solving.planning import solved, storage_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .options.keywords import (
        CaptureOptions,
        FitOptions,
        OrderBoundOptions,
        PlanOptions,
        ReorderOptions,
    )


def capture(source: Any, **reading: Unpack[CaptureOptions]) -> Network | _core.Problem:
    """Read a source once, for all functions: ``net = memplan.capture(model, args=(x,))``, then ``memplan.plan(net)``.

    Parameters
    ----------
    source
        One of these:

        - a Network, a Graph, a Problem, a graph dict, or (size, first, last) arrays
        - a Tape, which `record` makes
        - a path to .onnx, .tflite, .json (graph dict), .csv (lifetimes), .pt2 or .pickle (a memory snapshot of torch)
        - an onnx.ModelProto
        - a torch.nn.Module, torch.fx.GraphModule or torch.export.ExportedProgram
        - ``"example:NAME"``, a graph shipped with memplan
        - the dict that ``torch.cuda.memory._snapshot()`` returns, or a `Snapshot`; see `read_snapshot`
    reading
        How it is read: see `memplan.options.Reading`.

    Returns
    -------
    Network or Problem
        A `Network`, whose `graph` has the ops. All functions take it in place of the source, and its plans run. From
        lifetimes, tapes and snapshots, which have no ops, a `Problem`.

    Raises
    ------
    TypeError
        An unknown kind of source, or an option that this kind does not take. The message lists what is accepted.
    ValueError
        An unknown device.
    SourceError, GraphError, ProblemError
        Bad input. The message names what is wrong, what was expected and what came. All are ValueErrors.
    """
    return read_once(source, reading)


@naming_options
def plan(source: Any, planner: str = "auto", **options: Unpack[PlanOptions]) -> Plan:
    """Give every buffer of a source an offset in one arena: ``memplan.plan(model, args=(x,), train=True)``.

    Parameters
    ----------
    source
        A network of torch, ONNX or TFLite, a graph, lifetimes, or a file of one; see `capture`.
    planner
        A name from `planners()`, with parameters as in "cp_sat:seconds=10" where it takes some.
    options
        By name, in any order. `help` of a record explains its own:

        - `memplan.options.Reading`, how the source is read
        - `memplan.options.Sharing`, which tensors are placed and may share bytes
        - `memplan.options.Layout`, where things must lie
        - `memplan.options.Search`, how to search, and in which pools

    Returns
    -------
    Plan
        Verified on the problem and, for a graph, replayed on the graph.

    Raises
    ------
    TypeError, ValueError
        Bad input, an unknown planner, or a feature that the planner does not support.
    InfeasibleError
        No plan fits the capacity, or none was found. The error has the bound, the best plan found, and the buffers
        alive at the tightest step. If the load alone exceeds the capacity, nothing is searched.
    TimeLimitError
        A planner that does not search did not end within its time limit.
    KeyboardInterrupt
        See `on_interrupt`.
    MissingDependencyError
        The planner needs a package that is not installed. The message names the extra that brings it.
    PlannerError
        A planner of another package cannot be used, or breaks the rules of planners.
    """
    check_planner(planner)
    asked = request("plan", options)
    if is_ranged(asked.reading):
        return plan_range(source, planner, asked)
    return solved(source, planner, asked)


def fit(
    source: Any,
    capacity: int | str,
    planner: str = "auto",
    *,
    allow: Collection[str] = USUAL,
    cost: str | Mapping[str, float] = "auto",
    transfer: float | None = None,
    hidden: float = 0.0,
    call: float | None = None,
    max_pieces: int = 1024,
    **options: Unpack[FitOptions],
) -> Plan:
    """Make a network fit into a capacity, at the least cost that is found, and plan it.

    A tensor that is idle for long leaves the arena, and the op that makes it runs again before its next use. The plan
    is of the changed graph, and is verified as any other.

    Parameters
    ----------
    source
        A graph or network, as for `plan`.
    capacity
        Bytes that the arena may have, >= 0, as an integer or text such as "8GiB". For modules of torch on the CPU, what
        kernels allocate besides results is in the arena, unless ``kernels=False``. What lies outside of it, such as
        weights and states, does not count: for a budget of all bytes of a step see `memplan.torch.fit`. "60%" is 60 %
        of what the unchanged network holds when it runs, if kernels' memory counts and is known; else of the peak of
        the unchanged network, its ops in the given order. "least" is the least that the search reaches. No schedule in
        this order of the ops has a lower load than `plan.fitting.load_bound`.
    allow
        All changes that may be made. "recompute": ops run again, except ops that draw random numbers, and ops that read
        tensors which have been changed since. "offload": tensors are copied out of the arena, and fetched. "order": the
        ops run in another order. "donate": outputs take the bytes of graph inputs, whose values are lost. "split": ops
        that say their ``loops`` run in pieces, so that tensors between them are never whole; with "recompute" too, rows
        may be made again for later pieces. `Plan.run` runs such plans of torch, `Plan.to_onnx` writes those of ONNX.
    cost
        The cost of an op. "bytes": the bytes that it touches. "flops": its floating-point operations and its bytes.
        "profile": its seconds, for networks of torch; the network runs op by op three times, in as much memory as it
        needs unchanged. A mapping from names of ops gives costs in any unit. "auto": the cost that the graph has
        (``cost`` in a graph dict), else "flops".
    transfer
        The cost of moving a byte out, and the same cost again to fetch it, in the unit of `cost`. By default 2, because
        a byte is read and written; for ``cost="profile"`` the seconds of a copy. With a mapping as `cost`, there is no
        default.
    hidden
        The share of each move, in [0, 1], that costs nothing because other ops compute meanwhile.
    call
        The cost of calling a kernel once more, where ops run in pieces, in the unit of `cost`. By default 10,000
        operations, or 5 microseconds for ``cost="profile"``; 0 if the graph or a mapping says the costs.
    max_pieces
        The most pieces in which a region of ops may run, >= 2.
    options
        As for `plan`: all of `memplan.options.Reading` but `inclusive`, all of `memplan.options.Sharing`, `barrier`,
        and `time_limit`, after which the search ends with its best schedule so far.

    Returns
    -------
    Plan
        Of the changed graph. `plan.changes` lists the changes, and `plan.added_cost` is their cost. In this order of
        the ops, no schedule costs less than `plan.cost_bound`; if ops may be split, nothing is proven of the cost, and
        `plan.fitting.load_bound` holds for every order, with each op split along any one of its loops.

    Raises
    ------
    InfeasibleError
        No schedule fits, and the error names the op that needs too much; or none was found.
    TypeError, ValueError
        As `plan`.
    UnsupportedError
        The ops are on several streams.
    """
    return fitted(
        source,
        capacity,
        planner,
        allow=allow,
        cost=cost,
        transfer=transfer,
        hidden=hidden,
        call=call,
        max_pieces=max_pieces,
        **options,
    )


def reorder(source: Any, order: str = "best", **options: Unpack[ReorderOptions]) -> _core.Graph:
    """The graph with its ops in another order: by default, the order of the least load that is found.

    The load is that of the buffers, and memplan decides again which tensors share bytes. With "best", the load is
    never higher than in the given order. ``memplan.plan(source, order="best")`` plans the graph in that order.

    An order is legal if each op comes after the ops that it reads from and the ops in its `after`. An op that
    overwrites bytes also comes after the ops that used these bytes before. With several streams, the given order is
    kept.

    Parameters
    ----------
    source, order
        As for `plan`.
    options
        As for `plan`: those of `memplan.options.Reading` and `memplan.options.Sharing`, `barrier`, `on_order`, and
        `time_limit`, after which a search ends with its best order so far, as it does at Ctrl-C.

    Raises
    ------
    TypeError
        The source is a problem, which has no ops. And as `capture`.
    ValueError
        No order has that name, or it does not take these parameters. And as `capture`.
    """
    check_order(order)
    asked = request("reorder", options)
    read = captured(source, asked.reading)
    if not isinstance(read.buffers, _core.Graph):
        raise TypeError("reorder takes graphs; a problem has steps, and no ops")
    graph, search = with_barriers(read.buffers, asked.search.barrier), asked.search
    storage = storage_of(read, asked.sharing)
    found = _core.order_of(graph, order, storage, time_limit=search.time_limit, tell=search.on_order)
    return graph if found.graph is None else found.graph


def order_bound(source: Any, *, work: int = 10**8, **options: Unpack[OrderBoundOptions]) -> OrderBound:
    """The bytes that every order of the ops needs, whichever tensors share bytes, with a proof.

    `OrderBound.check` checks the proof, without the code that found it. ``plan.order_bound`` is the number alone.

    Parameters
    ----------
    source
        A plan of a graph, with the options that it was made with; or a source, as for `capture`.
    work
        Steps of work after which the search for a higher bound ends. A step takes some nanoseconds.
    options
        As for `plan`: those of `memplan.options.Reading`, and of `memplan.options.Sharing` but `alignment`.

    Raises
    ------
    TypeError
        The source is a problem, or the plan of one: these have no ops. And as `capture`.
    """
    asked = request("order_bound", options)
    work = integer(work, "work", 0, 2**63 - 1)
    read = Captured(source.graph or source.problem) if isinstance(source, Plan) else captured(source, asked.reading)
    graph = read.buffers
    if not isinstance(graph, _core.Graph):
        raise TypeError("order_bound takes graphs and their plans; a problem has steps, and no ops")
    own = source.storage if isinstance(source, Plan) else None
    return order_bound_of(graph, storage_of(read, asked.sharing) if own is None else own, work)


def read_plan(path: str | os.PathLike[str], *, inclusive: bool = False) -> Plan:
    """Read a plan from a CSV file with a column of offsets, or from the JSON that `Plan.to_json` writes.

    Parameters
    ----------
    inclusive
        For CSV: the ends of lifetimes are the last step alive, not the step after it.

    Raises
    ------
    SourceError
        The file is not one of these.
    InvalidPlanError
        The plan in the file breaks its own problem.
    """
    return plan_of_file(path, inclusive=inclusive)


def refute(problem: _core.Problem, capacity: int | str, *, work: int = 10**9) -> Refutation | None:
    """Prove that no plan of a problem fits a capacity. The proof's `check` checks it.

    This is for small problems, of up to 64 buffers that are hard to place. A larger problem has a proof if buffers that
    all conflict need more than the capacity. A proof has at most a million nodes. The problem of a
    graph's plan is ``plan.problem``.

    Parameters
    ----------
    capacity
        Bytes, >= 0, as an integer or text such as "1.5GiB".
    work
        Steps of work after which the search gives up. A step takes some nanoseconds; see "valley:work=N".

    Returns
    -------
    Refutation or None
        None if a plan fits, or if neither a plan nor a proof was found within the work and a million nodes.

    Raises
    ------
    TypeError, ValueError
        Bad input.
    KeyboardInterrupt
        Ctrl-C ends the search.
    """
    if not isinstance(problem, _core.Problem):
        raise TypeError(_no_problem(problem))
    capacity, work = in_bytes(capacity, "capacity"), integer(work, "work", 0, 2**63 - 1)
    return refuted(problem, capacity, work)


def _no_problem(value: Any) -> str:
    """Why `refute` does not take a value, and where the problem is that may have been meant."""
    got = f"refute takes a Problem, got {type(value).__name__}"
    if isinstance(value, Plan):
        return f"{got}; the problem of a plan is plan.problem"
    if isinstance(value, (str, os.PathLike)):
        return f"{got} {os.fspath(value)!r}; memplan.plan({os.fspath(value)!r}).problem is that of a file"
    return f"{got}; memplan.plan(...).problem is that of a graph or network"
