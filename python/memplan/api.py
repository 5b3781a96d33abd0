"""The one way in: from any source to a verified plan."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from . import _core
from .importers import capture_source, kind_of
from .importers.notes import notes_of
from .inplace_ops import check_types
from .kinds import PLACED
from .options.barriers import with_barriers
from .options.checks import (
    boolean,
    check_donated,
    check_for_problems,
    checked_place,
    integer,
    names,
    storage_options,
)
from .options.early import check_early
from .options.layouts import Asked, with_layout
from .plans.failing import InfeasibleError
from .plans.later import later
from .plans.plan import Plan
from .plans.pools import Pool
from .plans.source import Source
from .proofs.order_bound import OrderBound, order_bound_of
from .proofs.refutation import Refutation, refuted
from .sizes import budget_of, in_bytes
from .solving.keeping import limit_of_search, settled
from .solving.pools import Pools, pools_of
from .solving.pricing import before_prices, priced, prices_of
from .solving.solver import Solver
from .solving.wishes import starting, wishes

HAVE_PROGRAMS = ("torch", ".pt2", "onnx", ".onnx", "tape")  # kinds of sources that can be run
_ALIGNMENT_OF_CUDA = 512  # of all that torch's allocator gives


def capture(
    source: Any,
    *,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    train: bool = False,
    dims: Mapping[str, int] | None = None,
    inclusive: bool = False,
    inplace_ops: Collection[str] = (),
    trust: bool = False,
    device: Literal["cuda"] | None = None,
    optimizer: Any = None,
    keep_gradients: bool = False,
) -> _core.Graph | _core.Problem:
    """Import a source without planning it.

    Parameters
    ----------
    source
        One of these:

        - a Graph, a Problem, a graph dict, or (size, first, last) arrays
        - a Tape, which `record` makes
        - a path to .onnx, .tflite, .json (graph dict), .csv (lifetimes), .pt2 or .pickle (a memory snapshot of torch)
        - an onnx.ModelProto
        - a torch.nn.Module, torch.fx.GraphModule or torch.export.ExportedProgram
        - ``"example:NAME"``, a graph shipped with memplan
        - what ``torch.cuda.memory._snapshot()`` returned, or a `Snapshot`; see `read_snapshot`
    args, kwargs
        Example arguments for a torch source; only their shapes and dtypes matter.
    train
        For a torch source: trace forward and backward jointly. The loss and the gradients are the outputs.
    dims
        Sizes of symbolic dimensions, by name. All need one, unless `args` have the sizes; the error lists them.
    inclusive
        For a .csv source: the end of a lifetime is the last step alive, not the step after it.
    inplace_ops
        Types of ops that may write their first output over an input of as many bytes. "aten.add" stands for all types
        that begin with "aten.add." too. For ONNX and torch, these types are added to `INPLACE_OPS`, and the input must
        have the layout of the output. For graphs and graph dicts, they apply to ops that list no `inplace`.
    trust
        For a .pt2 source, parts of which torch runs to read it, as Python pickles. False: torch gets only what cannot
        run, and memplan refuses a file that needs more. True: torch reads the file as it is, and the author of the
        file can run any command. Give True only for files of people you trust. No other kind of file is ever run.
    device
        "cuda", for a torch source: what eager torch runs on a GPU, estimated without one. It chooses the kernels of
        attention and dropout, and offsets are multiples of 512. ``plan.notes`` says what is not known.
    optimizer
        With ``train=True``: whose step follows the backward pass. A ``torch.optim.Optimizer`` of the network's
        parameters; or a class or function that makes one from a list of parameters, such as ``torch.optim.AdamW``; or
        its name in torch.optim. Gradients then die in the updates, and the loss is the only output. Updates are those
        of torch for one tensor at a time (``foreach=False, fused=False``). States are weights: `fc.weight.exp_avg`.
    keep_gradients
        With an optimizer: gradients are outputs too, and live to the end.

    Raises
    ------
    TypeError
        An unknown kind of source, or an option that this kind does not take. The message lists what is accepted.
    ValueError
        An unknown device.
    SourceError, GraphError, ProblemError
        Bad input. The message names what is wrong, what was expected and what came. All are ValueErrors.
    """
    check_early(locals())
    if device not in (None, "cuda"):
        raise ValueError(f"device must be 'cuda' or None, got {device!r}")
    for name, size in (dims or {}).items():
        if isinstance(size, (tuple, list)):
            raise TypeError(f"dims[{name!r}] must be a size here, got {size!r}: memplan.plan alone takes ranges")
    return capture_source(
        source,
        args=args,
        kwargs=kwargs,
        train=train,
        dims=dims,
        inclusive=inclusive,
        inplace_ops=inplace_ops,
        trust=trust,
        device=device,
        optimizer=optimizer,
        keep_gradients=keep_gradients,
    )


def plan(
    source: Any,
    planner: str = "auto",
    *,
    alignment: int | str = 1,
    place: Collection[str] = PLACED,
    inplace: bool = True,
    disable_inplace_ops: Collection[str] = (),
    donate: Collection[str] = (),
    zero_copy: bool = True,
    order: str = "given",
    barrier: Collection[str] = (),
    pin: Mapping[str, int | str] | None = None,
    reserved: Sequence[Sequence[int | str]] = (),
    together: Sequence[Sequence[int | str]] = (),
    contiguous: Sequence[Sequence[str]] = (),
    apart: Sequence[Sequence[str]] = (),
    exclude: Collection[str] = (),
    exclusive: Sequence[Sequence[Sequence[str]]] = (),
    price: Sequence[tuple[str, str, int]] = (),
    pools: Sequence[Pool] = (),
    accesses: Mapping[str, int] | Sequence[int] | None = None,
    keep: Plan | Mapping[str, int | str] | None = None,
    start: Plan | Mapping[str, int] | None = None,
    time_limit: float | None = None,
    capacity: int | str | None = None,
    on_improvement: Callable[[Plan], object] | None = None,
    on_order: Callable[[_core.OrderProgress], object] | None = None,
    on_interrupt: Literal["keep", "raise"] = "keep",
    seed: int = 0,
    threads: int = 1,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    train: bool = False,
    dims: Mapping[str, Any] | None = None,
    inclusive: bool = False,
    inplace_ops: Collection[str] = (),
    trust: bool = False,
    device: Literal["cuda"] | None = None,
    optimizer: Any = None,
    keep_gradients: bool = False,
) -> Plan:
    """Give every buffer of a source an offset in one arena.

    Parameters
    ----------
    source, args, kwargs, train, dims, inclusive, inplace_ops, trust, device, optimizer, keep_gradients
        What to plan; see `capture`. A size in `dims` may be a range, as ``{"batch": (1, 64)}``: the offsets then hold
        for all sizes in it, ``plan.at(batch=8)`` is the plan of one, and `Plan.ranged` has the peaks. docs/methods.md.
    planner
        A name from `planners()`, with parameters as in "cp_sat:seconds=10" where it takes some.
    alignment
        Bytes, >= 1, as an integer or text such as "1KiB". Every offset is a multiple of it. If a Problem or a .csv has
        alignments of its own, the least common multiple holds.
    place
        Kinds of tensors of a graph that get a place in the arena: any of "input", "weight", "intermediate",
        "output", "workspace".
    inplace
        Let an op's output take the bytes of an input, if the op allows it, nothing reads the input later, and the load
        does not rise.
    disable_inplace_ops
        Types of ops that may not write in place: "Add", "aten.add.Tensor". "aten.add" stands for all its overloads.
        Types that the graph does not have are allowed, but for those that look misspelt; so it is with `inplace_ops`.
    donate
        Names of graph inputs whose bytes may be taken. An output that takes them lies where the input lies.
    zero_copy
        Let a slice lie in the tensor that it is cut from, and the parts of a concatenation in the whole, if that is
        safe and the load does not rise. Other slices and parts are copied. "auto" also tries a plan in which nothing
        shares bytes by choice, and keeps it if it is better.
    order
        The order in which the ops of a graph run: a name from `orders()`, with parameters as in "windows:start=newest".
        "given" is that of the source. "best" is the one of the least load that is found; the plan is never worse than
        that of the given order. Any other is taken as it is, and may be worse. Whoever runs the graph has to keep to
        `plan.order`, as `plan.run` does.
    barrier
        Names of ops that keep their place in any order: all ops listed before one of them stay before it, and all
        behind it stay behind. The graph of the plan says so by `after`.
    pin
        Offsets that tensors, workspaces ("conv1.workspace") or the buffers of a problem must have: by name, in bytes
        or as text such as "4KiB". This and the next five options add to what the source asks for itself, and
        docs/constraints.md explains them. Tensors named must have a place in the arena; see `place`.
    reserved
        Ranges (begin, end) of the arena that nothing may use, or (begin, end, first, last) for the steps
        [first, last). Those of a graph are its ops, in the order in which they run.
    together
        Rows (a, b, distance): b begins so many bytes after a, or before it if negative. (a, b): at one address.
    contiguous
        Lists of names: each begins where the one before it ends.
    apart
        Lists of names of which no two may share bytes, even one after the other.
    exclude
        Names of tensors that have no place in the arena: they lie where the caller has put them, with all that shows
        their bytes. They share no bytes by choice. Of a problem, buffers that are left out.
    exclusive
        Rows of branches, each a list of names of ops or, for a problem, of buffers: a run takes one branch of a row.
        What two of them make may share bytes. A row inside of a branch of another comes after that.
    price
        Rows (a, b, price): what it costs if these two share bytes, one after the other. The plan costs as little as
        memplan can find within the capacity, and then peaks as low. ``plan.pricing`` has the price, and what is proven.
    pools
        Memories that tensors may lie in: a list of `Pool`. Each buffer lies in one pool that takes it, so that all
        accesses cost least; among plans of equal cost, pools without a capacity peak as low as possible.
        `Plan.memories` has the pools, the cost, and a bound of it.
    accesses
        With pools: how often buffers are accessed, as counts by name; for problems also one count per buffer. By
        default 1 for problems. Tensors of graphs are written once, and read once by each op that reads them.
    keep
        An earlier plan, or offsets by name. The plan found is changed until as many buffers as memplan can lie where
        they did, and peaks no higher, or within the capacity if there is one. ``plan.moved`` names the others, and at
        least ``plan.moved_bound`` have to move. Of a time limit, half is for each of the two.
    start
        An earlier plan, or offsets by name, from which a search begins. What does not fit any more is mended first. The
        plan found is never worse than that; if nothing better is found, its `winner` is "start". Planners that do not
        search refuse.
    time_limit
        Seconds. Planners that search then keep their best plan so far: auto, valley, squeaky_wheel, beam, exhaustive,
        hill_climb, somas, cp_sat. A search that has no plan of its own yet gives that of first_fit. The others have no
        plan before they end; if that takes longer, TimeLimitError is raised. Without a time limit, "auto" ends after
        its effort, counted in work, as in "auto:effort=100000000".
    capacity
        Bytes, >= 0, as an integer or text such as "1.5GiB"; or "60%" of the peak of the plan without a capacity, its
        ops in the given order. The first plan that peaks at or below it is enough: auto, valley, squeaky_wheel,
        exhaustive, hill_climb, somas and cp_sat end there. The others run to their end.
    on_improvement
        A function that is called with each plan that peaks below all plans before it. The plan is verified. The call
        is on the thread that called `plan`. The last such plan has the peak of the plan that is returned. Planners
        that do not search call it once. An exception that it raises ends the search, and is raised here. With `price`
        it is called with each plan that is cheaper, or as cheap and lower.
    on_order
        A function that is called during the search for an order, with an `OrderProgress`: whenever an order needs less
        than all before it, and whenever a higher bound is proven. It may raise, as `on_improvement` may.
    on_interrupt
        What Ctrl-C does to a search. "keep" returns the best plan so far, whose `interrupted` is True. "raise" raises
        KeyboardInterrupt. So does "keep" if there is no plan yet, at the second Ctrl-C, and with planners that do not
        search. Signals reach the main thread only.
    seed, threads
        For planners that use chance, or several threads. For one seed, the plan is the same for any `threads`. With
        "cp_sat" only the peak is the same, and not even that if a time limit ends the search.

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
        A planner of another package cannot be used, or does not do what a planner has to.
    """
    check_early(locals())
    if isinstance(dims, Mapping) and any(isinstance(size, (tuple, list)) for size in dims.values()):
        ranged: Plan = later("plan_range")(dict(locals()))  # all options, and nothing else yet
        return ranged
    kinds = checked_place(place)
    storage = (
        boolean(inplace, "inplace"),
        names(disable_inplace_ops, "disable_inplace_ops"),
        names(donate, "donate"),
        boolean(zero_copy, "zero_copy"),
    )
    barriers = names(barrier, "barrier")
    asked = Asked(pin, reserved, together, contiguous, apart, exclude, exclusive)
    wished = wishes(keep)
    begin = starting(start)
    prices = prices_of(price)
    chosen = _pools(pools, accesses, capacity, on_improvement)
    _check_together(chosen, wished, begin, prices)
    budget = None if capacity is None else budget_of(capacity, "capacity")
    captured = capture(
        source,
        args=args,
        kwargs=kwargs,
        train=train,
        dims=dims,
        inclusive=inclusive,
        inplace_ops=inplace_ops,
        trust=trust,
        device=device,
        optimizer=optimizer,
        keep_gradients=keep_gradients,
    )
    said = notes_of(captured) if device is None else _notes(captured)
    alignment = _aligned_for(device, alignment)
    origin = Source(
        source,
        kind_of(source),
        tuple(args),
        dict(kwargs or {}),
        train,
        dict(dims or {}),
        tuple(inplace_ops),
        trust,
        optimizer=optimizer,
        keep_gradients=keep_gradients,
    )
    keeps = keep is not None
    solver = Solver(
        planner,
        limit_of_search(planner, time_limit) if keeps else time_limit,
        seed,
        threads,
        None if budget is None else budget.bytes,
        on_improvement,
        on_order,
        origin if device is None and origin.kind in HAVE_PROGRAMS else None,
        begin,
    )
    begun, priced_by = time.perf_counter(), solver
    if prices:
        solver = before_prices(solver)
    try:
        if isinstance(captured, _core.Graph):
            check_donated(captured, donate)
            check_types(captured, disable_inplace_ops, "disable_inplace_ops")
            captured = with_layout(captured, asked)
            assert isinstance(captured, _core.Graph)
            options = _core.StorageOptions(kinds, alignment, *storage)
            graph = with_barriers(captured, barriers)
            if budget is not None and budget.share is not None:
                solver = solver.within(budget, lambda free: free.graph(graph, options).peak)
            result = (
                solver.in_order(graph, options, order)
                if chosen is None
                else chosen.graph(solver, graph, options, order)
            )
        else:
            check_for_problems(kinds, disable_inplace_ops, donate, order, barriers)
            captured = _aligned(captured, alignment)
            if chosen is None:
                captured = with_layout(captured, asked)
                problem = captured
                assert isinstance(problem, _core.Problem)
                if budget is not None and budget.share is not None:
                    solver = solver.within(budget, lambda free: free.problem(problem).peak)
                result = solver.problem(problem)
            else:
                result = chosen.problem(solver, captured, asked)
    except InfeasibleError as error:
        if on_interrupt == "raise" and error.plan is not None and error.plan.interrupted:
            raise KeyboardInterrupt from error
        raise
    if prices:
        result = priced(result, prices, priced_by, begun)
    if keeps:
        left = None if time_limit is None else max(time_limit - (time.perf_counter() - begun), 1e-3)
        result = settled(result, wished, solver, left)
    if on_interrupt == "raise" and result.interrupted:
        raise KeyboardInterrupt
    return replace(result, notes=said) if said else result


def _check_together(chosen: Any, wished: Any, begin: Any, prices: Any) -> None:
    """Refuse options that do not go together."""
    if chosen is not None and wished:
        raise TypeError("option keep does not go with pools")
    if chosen is not None and begin is not None:
        raise TypeError("option start does not go with pools")
    if prices and (chosen is not None or wished):
        raise TypeError("option price does not go with pools or keep")


def _pools(pools: Any, accesses: Any, capacity: Any, on_improvement: Any) -> Pools | None:
    """The pools that were asked for, checked, and that nothing was that does not go with them."""
    if isinstance(pools, Sequence) and not isinstance(pools, str) and not pools:
        if accesses is not None:
            raise TypeError("option accesses applies to plans in several pools: pools=[memplan.Pool(...), ...]")
        return None
    for option, given in (("capacity", capacity), ("on_improvement", on_improvement)):
        if given is not None:
            instead = ": each pool has a capacity of its own" if option == "capacity" else ""
            raise TypeError(f"option {option} does not apply to plans in several pools{instead}")
    return pools_of(pools, accesses)


def reorder(
    source: Any,
    *,
    order: str = "best",
    barrier: Collection[str] = (),
    alignment: int | str = 1,
    place: Collection[str] = PLACED,
    inplace: bool = True,
    disable_inplace_ops: Collection[str] = (),
    donate: Collection[str] = (),
    zero_copy: bool = True,
    time_limit: float | None = None,
    on_order: Callable[[_core.OrderProgress], object] | None = None,
    **options: Any,
) -> _core.Graph:
    """The graph with its ops in another order: that of the least load that is found, if no other is named.

    The load is that of the buffers. Which tensors share bytes is decided anew. With "best", the load is never higher
    than in the given order. ``memplan.plan(source, order="best")`` plans the graph in that order.

    An order is legal if each op comes after those it reads from, after `after`, and, where it overwrites bytes, after
    those that used them before. With several streams, the given order is kept.

    Parameters
    ----------
    source, options
        What to reorder, as for `capture`.
    order, barrier, alignment, place, inplace, disable_inplace_ops, donate, zero_copy, on_order
        As for `plan`.
    time_limit
        Seconds. A search then ends with its best order so far, as it does at Ctrl-C.

    Raises
    ------
    TypeError
        The source is a problem, which has no ops. And as `capture`.
    ValueError
        No order has that name, or it does not take these parameters. And as `capture`.
    """
    check_early(locals() | options)
    graph = capture(source, **options)
    if not isinstance(graph, _core.Graph):
        raise TypeError("reorder takes graphs; a problem has steps, and no ops")
    graph = with_barriers(graph, names(barrier, "barrier"))
    storage = storage_options(
        graph,
        alignment=_aligned_for(options.get("device"), alignment),
        place=place,
        inplace=inplace,
        disable_inplace_ops=disable_inplace_ops,
        donate=donate,
        zero_copy=zero_copy,
    )
    found = _core.order_of(graph, order, storage, time_limit=time_limit, tell=on_order)
    return graph if found.graph is None else found.graph


def order_bound(
    source: Any,
    *,
    place: Collection[str] = PLACED,
    inplace: bool = True,
    disable_inplace_ops: Collection[str] = (),
    donate: Collection[str] = (),
    zero_copy: bool = True,
    work: int = 10**8,
    **options: Any,
) -> OrderBound:
    """What every order of the ops needs, whichever tensors share bytes, with a proof.

    `OrderBound.check` checks the proof, without the code that found it. ``plan.order_bound`` is the number alone.

    Parameters
    ----------
    source, options
        A plan of a graph, with what was asked for it; or a source, as for `capture`.
    place, inplace, disable_inplace_ops, donate, zero_copy
        As for `plan`; what a plan has been asked for counts.
    work
        Steps of work after which the search for a higher bound ends. A step takes some nanoseconds.

    Raises
    ------
    TypeError
        The source is a problem, or the plan of one: these have no ops. And as `capture`.
    """
    check_early(locals() | options)
    work = integer(work, "work", 0, 2**63 - 1)
    if isinstance(source, Plan):
        graph: Any = source.graph
        storage = source.storage
    else:
        graph = capture(source, **options)
        storage = None
    if not isinstance(graph, _core.Graph):
        raise TypeError("order_bound takes graphs and their plans; a problem has steps, and no ops")
    if storage is None:
        storage = storage_options(
            graph,
            place=place,
            inplace=inplace,
            disable_inplace_ops=disable_inplace_ops,
            donate=donate,
            zero_copy=zero_copy,
        )
    return order_bound_of(graph, storage, work)


def refute(problem: _core.Problem, capacity: int | str, *, work: int = 10**9) -> Refutation | None:
    """Prove that no plan of a problem fits a capacity. The proof's `check` checks it.

    This is for small problems, of up to 64 buffers that are hard to place, and for those in which buffers that all
    conflict are too many. A proof has at most a million nodes. The problem of a graph's plan is ``plan.problem``.

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


def _notes(graph: _core.Graph | _core.Problem) -> tuple[str, ...]:
    """What a plan for CUDA estimates."""
    from .importers.torch.cuda import notes_of as notes_of_cuda

    assert isinstance(graph, _core.Graph)
    return (*notes_of(graph), *notes_of_cuda({op.type for op in graph.ops}))


def _aligned_for(device: str | None, alignment: int | str) -> int:
    """The alignment that was asked for, as a device needs it."""
    size = in_bytes(alignment, "alignment", 1)
    return size if device is None else math.lcm(size, _ALIGNMENT_OF_CUDA)


def _aligned(problem: _core.Problem, alignment: int) -> _core.Problem:
    if alignment == 1:
        return problem
    values, inverse = np.unique(problem.alignment, return_inverse=True)
    stricter = [math.lcm(value, alignment) for value in values.tolist()]
    if max(stricter, default=1) >= 2**63:
        raise ValueError(f"alignment {alignment} and the buffers' own have no common multiple that fits int64")
    column = np.array(stricter, dtype=np.int64)[inverse]
    return (
        _core.Problem(
            problem.size, problem.first, problem.last, column, problem.names or None, problem.parts, problem.conflicts
        )
        .with_branches(problem.branches)
        .with_pins(problem.pins, problem.reserved)
        .with_together(problem.together)
    )
