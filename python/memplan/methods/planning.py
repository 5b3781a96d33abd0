"""One arena for several methods: each planned for itself, then all of them together as one problem."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .. import _core
from ..facade import Plan, as_plan
from ..importers import Captured, captured
from ..options.checks import check_donated
from ..options.layouts import with_layout
from ..options.taking import Request, request
from ..planning.registry import check_planner, solve_problem
from ..plans.crossing import Staying
from ..plans.failing import InfeasibleError
from ..plans.record import PlanRecord
from ..sizes import in_bytes
from ..solving.planning import plan, storage_of
from ..text import offer
from .graphs import Prepared, prepared, with_state
from .joined import Joined, joined
from .result import MethodsPlan
from .sharing import Asked, asked

_FIRST, _LAST, _PARTS = 1, 2, 5  # in the state of a problem


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
    **options: Any,
) -> MethodsPlan:
    """Plan several methods, of which one runs at a time, in one arena: entry points of a model, prefill and decode.

    What stays between them lies at the same place in all, and nothing else ever uses its bytes. The rest overlaps.

    Parameters
    ----------
    methods
        Sources by name, of any kind that `plan` takes.
    planner
        As in `plan`.
    shared
        What stays: names of tensors, each in one method or several; or ``{"cache": {"prefill": "past_out", "decode":
        "past_in"}}`` for names that differ. A method that reads a tensor and gives it anew has both names, as
        ``("past_in", "past_out")``; the second is then written over the first. A tensor has as many bytes in all
        methods. In a graph it is an input, a weight, or an output; it has a place whatever `place` says. In a problem,
        it is a buffer.
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
    limit = how.time_limit
    most = None if capacity is None else in_bytes(capacity, "capacity")
    asked_of = _asked(methods, each, options)
    read = {name: _read(name, source, asked_of[name]) for name, source in methods.items()}
    stays = asked(shared, {name: it.buffers for name, it in read.items()})
    part = None if limit is None else limit / 2 / len(methods)
    searching = {"seed": how.seed, "threads": how.threads, "time_limit": part}
    alone = [_Alone(name, it, stays, planner, asked_of[name], searching) for name, it in read.items()]
    found = _each(alone)
    together = joined(found, stays)
    enough = max(together.problem.load, *(plan.peak for plan in found.values()))
    left = None if limit is None else max(limit - (time.perf_counter() - begin), 1e-3)
    whole = _whole(together.problem, {**searching, "planner": planner, "time_limit": left}, enough, most)
    bound = max(plan.lower_bound for plan in found.values())
    if not any(_may_choose(plan) for plan in found.values()):
        bound = max(bound, whole.lower_bound)
    result = _result(found, stays, together, whole, bound)
    result.verify()
    return replace(result, seconds=time.perf_counter() - begin)


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


class _Alone:
    """A method that is planned in an arena of its own, with what stays."""

    def __init__(
        self,
        name: str,
        read: Captured,
        stays: Sequence[Asked],
        planner: str,
        asked: Request,
        searching: Mapping[str, Any],
    ) -> None:
        self.name, self._planner, self._origin = name, planner, read.source
        search = {option: value for option, value in asked.search.given().items() if option in ("order", "barrier")}
        self._options = {**asked.sharing.given(), **search, **searching}
        self._ready: Prepared | None = None
        with _named(name):
            if isinstance(read.buffers, _core.Problem):
                self._source: Any = _throughout(read.buffers, stays, name)
                self.load = self._source.load
                return
            _check_donated(read.buffers, stays, name, asked.sharing.donate)
            self._storage = storage_of(read, asked.sharing)
            self._ready = prepared(read.buffers, stays, name, list(asked.sharing.place))
            self._source, self._options["place"] = self._ready.graph, self._ready.place
            self._options["alignment"] = self._storage.alignment
            storage = storage_of(Captured(self._ready.graph), replace(asked.sharing, place=self._ready.place))
            self.load = _core.buffers_of(self._source, storage).problem.load

    def plan(self, enough: int) -> Plan:
        """The plan of the method. The first that peaks at or below `enough` will do, if there is one."""
        with _named(self.name):
            try:
                found = plan(self._source, self._planner, capacity=enough or None, **self._options)
            except InfeasibleError:
                found = plan(self._source, self._planner, **self._options)
        if self._ready is not None:
            found = self._ready.plan(found, self._storage)
        return as_plan(replace(found, source=self._origin))


def _each(methods: Sequence[_Alone]) -> dict[str, Plan]:
    """A plan of each, the one that needs most first: the others have to fit where that one does."""
    found: dict[str, Plan] = {}
    for method in sorted(methods, key=lambda it: -it.load):
        found[method.name] = method.plan(max((plan.peak for plan in found.values()), default=0))
    return {method.name: found[method.name] for method in methods}


def _check_donated(graph: _core.Graph, stays: Sequence[Asked], method: str, donate: Collection[str]) -> None:
    """Weights cannot be donated, whatever they are called while the method is planned; nor can what stays."""
    check_donated(graph, donate)
    for each in stays:
        for name in each.tensors.get(method, ()):
            if name in donate:
                raise ValueError(f"donate names {name!r}, which stays between the methods as {each.name!r}")


def _throughout(problem: _core.Problem, stays: Sequence[Asked], method: str) -> _core.Problem:
    """The problem in which what stays is alive from the first step to the last."""
    staying = {name for each in stays for name in each.tensors.get(method, ())}
    kept = [b for b in range(len(problem)) if problem.name(b) in staying]
    if not kept:
        return problem
    state: list[Any] = list(problem.__getstate__())
    first, last, parts = (None if state[k] is None else np.array(state[k]) for k in (_FIRST, _LAST, _PARTS))
    assert first is not None
    assert last is not None
    first[kept], last[kept] = first.min(), last.max()
    if parts is not None:
        parts = parts[~np.isin(parts[:, 0], kept)]
    state[_FIRST], state[_LAST], state[_PARTS] = first, last, parts
    return with_state(state)


def _may_choose(plan: Plan) -> bool:
    """Whether tensors of a graph might share other bytes by choice than they do."""
    if plan.graph is None or plan.storage is None:
        return False
    ops, storage = plan.graph.ops, plan.storage
    in_place = storage.inplace and any(op.inplace for op in ops)
    return bool(in_place or (storage.zero_copy and any(op.slices or op.concats for op in ops)))


def _whole(problem: _core.Problem, how: Mapping[str, Any], enough: int, capacity: int | None) -> Plan:
    """The plan of all methods. The first that peaks at or below `enough` will do: a method alone needs as much."""
    asked = enough if capacity is None else min(enough, capacity)
    try:
        found = solve_problem(problem, **how, capacity=asked)
    except InfeasibleError as error:
        best: Any = error.plan
        if best is None and asked < error.lower_bound <= (error.lower_bound if capacity is None else capacity):
            return _whole(problem, how, error.lower_bound, capacity)  # pins and reserved bytes may need more
        if best is not None:
            error.plan = PlanRecord.of(best, problem)
        error.problem = problem
        if best is None or (capacity is not None and best.peak > capacity):
            raise
        found = best
    return as_plan(PlanRecord.of(found, problem))


def _result(
    found: Mapping[str, Plan], stays: Sequence[Asked], together: Joined, whole: Plan, bound: int
) -> MethodsPlan:
    plans = {}
    for name, alone in found.items():
        offsets = together.offsets(name, whole.offsets)
        peak = int((offsets + alone.problem.size).max(initial=0))
        plans[name] = replace(
            alone,
            offsets=offsets,
            peak=peak,
            optimal=peak == alone.lower_bound,
            winner=whole.winner,
            seconds=whole.seconds,
            found_after=whole.found_after,
            interrupted=alone.interrupted or whole.interrupted,
        )
    shared = tuple(Staying(each.name, each.bytes, int(whole.offsets[s]), each.tensors) for s, each in enumerate(stays))
    return MethodsPlan(whole, plans, shared, bound, whole.seconds)


class _named:
    """Says in errors which method they are of."""

    def __init__(self, name: str) -> None:
        self._prefix = f"method {name!r}"

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, (TypeError, ValueError)) and self._prefix not in str(error):
            error.args = (f"{self._prefix}: {error}", *error.args[1:])
