"""One arena for several methods: each planned for itself, then all of them together as one problem."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from .. import _core
from ..importers import Captured, captured
from ..ops import without_overlap
from ..options.barriers import with_barriers
from ..options.for_core import core_options, time_left
from ..options.layouts import with_layout
from ..options.taking import Request, check_for_problems, request
from ..planning.registry import check_planner
from ..plans.crossing import Staying
from ..plans.failing import InfeasibleError
from ..plans.plan import Plan
from ..sizes import in_bytes
from ..solving.planning import storage_of
from ..text import offer
from .result import MethodsPlan
from .sharing import Known, Tensors, asked

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..options.keywords import PlanManyOptions

# A method as the core takes it, with its order of ops; and its plan, its graph in the order of that, and a bound of all
# orders.
MethodRow: TypeAlias = tuple[str, _core.Graph | _core.Problem, _core.StorageOptions, str]
MethodMade: TypeAlias = tuple[_core.Graph | None, _core.Buffers, _core.Solution, int]


def plan_many(
    methods: Mapping[str, Any],
    planner: str = "auto",
    *,
    shared: Collection[str] | Mapping[str, Any] = (),
    each: Mapping[str, Mapping[str, Any]] | None = None,
    capacity: int | str | None = None,
    time_limit: float | None = None,
    seed: int = 0,
    threads: int = 1,
    **options: Unpack[PlanManyOptions],
) -> MethodsPlan:
    """Plan several methods, of which one runs at a time, in one arena: entry points of a model, prefill and decode.

    Shared tensors lie at the same place in all methods, and nothing else ever uses their bytes. All else may overlap.

    Parameters
    ----------
    methods
        Sources by name, of any kind that `plan` takes.
    planner
        As in `plan`.
    shared
        Names of tensors that keep their values from one method to the next; or ``{"cache": {"prefill": "past_out",
        "decode": "past_in"}}`` for names that differ. A method that reads such a tensor and writes it anew has both
        names, as ``("past_in", "past_out")``; the second is then written over the first. A tensor has as many bytes in
        all methods. In a graph it is an input, a weight, or an output; it has a place whatever `place` says. In a
        problem, it is a buffer.
    each
        Options of single methods, by name: ``{"prefill": {"args": (prompt,)}, "decode": {"args": (token,)}}``. They
        come before those of all.
    capacity, time_limit, seed, threads
        As in `plan`. The capacity is that of the common arena; half of the time is for the methods alone.
    options
        For all methods: those of `capture`, and of `plan` `alignment`, `place`, `inplace`, `disable_inplace_ops`,
        `donate`, `zero_copy`, `order`, `barrier`, and those of docs/constraints.md.

    Returns
    -------
    MethodsPlan
        `methods` has an ordinary plan per method, with offsets in the common arena. All are verified, and so is that
        what stays is touched by nothing else.

    Raises
    ------
    TypeError, ValueError
        As `plan`; the message names the method. Also what cannot be shared, or has different sizes.
    InfeasibleError
        No arena within the capacity, or none was found. `plan` has all methods as one problem.
    """
    begin = time.perf_counter()
    check_planner(planner)
    how = request("plan", {"seed": seed, "threads": threads, "time_limit": time_limit}).search
    most = None if capacity is None else in_bytes(capacity, "capacity")
    asked_of = _asked(methods, each, options)
    read = {name: _read(name, source, asked_of[name]) for name, source in methods.items()}
    stays = asked(shared, Known({name: it.buffers for name, it in read.items()}))
    rows = [_row(name, it, asked_of[name], stays) for name, it in read.items()]
    staying = [(name, [list(tensors.get(method, ())) for method in methods]) for name, tensors in stays.items()]
    searching = core_options(planner, replace(how, time_limit=time_left(how.time_limit, begin)), capacity=most)
    try:
        problem, whole, found, bound = _core.solve_methods(rows, staying, searching)
    except InfeasibleError as error:
        if error.plan is not None and error.problem is not None:
            _, solution = cast(Any, error.plan)
            error.plan = Plan.of(solution, error.problem)
        raise
    plans = {row[0]: _plan(row, read[row[0]], made) for row, made in zip(rows, found, strict=True)}
    lies = zip(stays.items(), problem.size.tolist(), whole.offsets.tolist(), strict=False)
    shares = tuple(Staying(name, size, offset, tensors) for (name, tensors), size, offset in lies)
    joint = Plan.of(whole, problem)
    return MethodsPlan(joint, plans, shares, bound, time.perf_counter() - begin)


def _asked(methods: Any, each: Any, options: Mapping[str, Any]) -> dict[str, Request]:
    """What is asked of each method."""
    if not isinstance(methods, Mapping) or not methods or not all(isinstance(name, str) for name in methods):
        raise TypeError(f"methods must be sources by name, such as {{'prefill': a, 'decode': b}}, got {methods!r}")
    if each is not None and not (isinstance(each, Mapping) and all(isinstance(o, Mapping) for o in each.values())):
        raise TypeError(f"each must be options by method, such as {{'decode': {{'args': (x,)}}}}, got {each!r}")
    for name in each or {}:
        if name not in methods:
            raise ValueError(f"each must be by method, got {name!r}; {offer(str(name), list(methods), 'methods')}")
    request("plan_many", options)
    for name, own in (each or {}).items():
        try:
            request("plan_many", own)
        except (TypeError, ValueError) as error:
            raise type(error)(f"each[{name!r}]: {error}") from None
    found = {}
    for name in methods:
        with _named(name):
            found[name] = request("plan_many", {**options, **(each or {}).get(name, {})})
    return found


def _read(name: str, source: Any, asked: Request) -> Captured:
    """A method's graph or problem, with what is asked of where its tensors lie."""
    with _named(name):
        read = captured(source, asked.reading)
        return read._replace(buffers=with_layout(read.buffers, asked.layout))


def _row(name: str, read: Captured, asked: Request, stays: Mapping[str, Tensors]) -> MethodRow:
    """A method as the core takes it, its options checked."""
    with _named(name):
        if isinstance(read.buffers, _core.Problem):
            check_for_problems(asked)
            alignment = in_bytes(asked.sharing.alignment, "alignment", 1)
            return name, read.buffers, _core.StorageOptions(alignment=alignment), "given"
        storage = storage_of(read, asked.sharing)
        for shared, tensors in stays.items():
            for tensor in tensors.get(name, ()):
                if tensor in storage.donate:
                    raise ValueError(f"donate names {tensor!r}, which stays between the methods as {shared!r}")
        graph = without_overlap(with_barriers(read.buffers, asked.search.barrier))
        return name, graph, storage, asked.search.order


def _plan(row: MethodRow, read: Captured, made: MethodMade) -> Plan:
    """The plan of a method, with offsets in the common arena."""
    graph, buffers, solution, bound = made
    if graph is None:
        return Plan.of(solution, buffers.problem, source=read.source)
    plan = Plan.of(solution, buffers.problem, graph, buffers, row[2], read.source)
    plan = replace(plan, notes=read.notes, scratch=read.above_results)
    return replace(plan, ordered_by=row[3], proven_of_orders=bound)


class _named:
    """Says in errors which method they are of."""

    def __init__(self, name: str) -> None:
        self._prefix = f"method {name!r}"

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, (TypeError, ValueError)) and self._prefix not in str(error):
            error.args = (f"{self._prefix}: {error}", *error.args[1:])
