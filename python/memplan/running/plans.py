"""`Plan.run`: finds the runtime for what was planned, holds its program against the plan, and runs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from .. import frontend
from ..calls import keywords, positional
from ..importers import form_of
from ..options.checks import boolean
from ..options.declaring import made
from ..options.records import Reading
from ..options.source import Source
from ..plans.plan import Plan
from .from_file import with_graph
from .matching import require_same, whole_graph
from .program import Bound, Measured, Program, Run

_AGAIN = "give what was planned: plan.run(..., source=model)"


def run_plan(
    plan: Plan,
    inputs: Sequence[Any],
    args: Sequence[Any] | None,
    kwargs: Mapping[str, Any] | None,
    given: Mapping[str, Any],
    *,
    weights: Mapping[str, Any] | None,
    check: bool,
    views: bool,
    engine: str | None,
) -> Run:
    """Run a plan; `given` are the source and its options. See `Plan.run`."""
    for option, value in (("check", check), ("views", views)):
        boolean(value, option)
    for option in ("train", "trust", "keep_gradients"):
        boolean(given[option], option)
    call = inputs_of(inputs, args), keywords(kwargs)
    if weights is not None:
        keywords(weights, "weights")
    if given["source"] is None:
        _refuse_options(given)
        source = plan.source
    else:
        source = _source_of(given, call)
    bound = _bound(plan, source if engine is None else _by_engine(source, engine))
    return bound.run(*call, weights=weights, check=check, views=views)


def program_of(plan: Plan) -> Program:
    """The program of what was planned, which has the graph of the plan; it is kept with the plan."""
    if plan.source is None:
        raise TypeError(f"the plan holds no network: it is of a problem or graph, or was read or unpickled; {_AGAIN}")
    if "_network" not in plan.__dict__:
        program = _imported(plan.source)
        if (planned := whole_graph(plan)) is not None:
            require_same(planned, program.graph)
        plan.__dict__["_network"] = program
    kept: Program = plan.__dict__["_network"]
    return kept


def seconds_of(plan: Plan, repeats: int) -> dict[str, float]:
    """The measured seconds of each op of a network, with the inputs that it was planned with.

    TypeError: the plan holds no network, or one whose ops are not measured.
    """
    program = None if plan.source is None else program_of(plan)
    if not isinstance(program, Measured):
        kind = "none" if plan.source is None else f"of kind {plan.source.form.name}"
        raise TypeError(f"nothing measures the ops of this source, which is {kind}")
    assert plan.source is not None
    read = plan.source.reading
    return program.bind(plan).seconds(tuple(read.args), dict(read.kwargs or {}), repeats)


def _imported(source: Source) -> Program:
    if source.form.program is None:
        raise TypeError(f"plans of a source of kind {source.form.name} do not run")
    program: Program = source.form.program(source)
    return program


def _bound(plan: Plan, source: Source | None) -> Bound:
    """The plan's program in its arena: kept with the plan, until another source is given."""
    key = None if source is None else _key(source)
    kept = plan.__dict__.get("_bound")
    if kept is None or kept.key != key:
        complete = plan if source is plan.source else replace(plan, source=source)
        program = program_of(complete)
        if complete.graph is None:
            complete = with_graph(complete, program.graph)
        kept = plan.__dict__["_bound"] = _Kept(key, source, program.bind(complete))
    bound: Bound = kept.bound
    return bound


class _Kept(NamedTuple):
    key: object
    source: Source | None  # held, so that no other object gets its id
    bound: Bound


def _key(source: Source) -> tuple[Any, ...]:
    read = source.reading
    return (
        id(source.value),
        read.train,
        id(read.optimizer),
        read.keep_gradients,
        sorted((read.dims or {}).items()),
        repr(sorted((read.values or {}).items(), key=lambda pair: pair[0])),
        sorted(read.inplace_ops),
        read.trust,
        source.engine,
    )


def _by_engine(source: Source | None, engine: str) -> Source | None:
    """The source, with what is to compute the nodes of a model; None for none, which is refused later."""
    if source is not None and not source.form.engines:
        known = ", ".join(form.name for form in frontend.forms() if form.engines)
        raise TypeError(f"option engine applies to {known}, got {engine!r} for a source of kind {source.form.name}")
    return None if source is None else replace(source, engine=engine)


def _source_of(given: Mapping[str, Any], call: tuple[Sequence[Any], Mapping[str, Any]]) -> Source:
    """The source that was given again: what it is called with has the sizes that were planned, unless options do."""
    form = form_of(given["source"])
    if form.program is None:
        raise TypeError(f"source must be a network that runs, or a path to one, got a source of kind {form.name}")
    has_sizes = "args" in form.options and not given["dims"] and not given["values"]
    args, kwargs = call if has_sizes else ((), {})
    read = {name: value for name, value in given.items() if name != "source"}
    return Source(given["source"], form, made(Reading, {**read, "args": args, "kwargs": kwargs}))


def _refuse_options(given: Mapping[str, Any]) -> None:
    for option, value in given.items():
        if value:
            raise TypeError(f"option {option} goes with source=, {option}={value!r} came without; {_AGAIN}")


def by_engine(plan: Plan, engine: str) -> Plan:
    """The plan, with what is to compute the nodes of its model."""
    return replace(plan, source=_by_engine(plan.source, engine))


def inputs_of(inputs: Sequence[Any], args: Sequence[Any] | None) -> tuple[Any, ...]:
    """What a call has by position: ``run(x)`` or ``run(args=(x,))``."""
    if args is None:
        return tuple(inputs)
    if inputs:
        raise TypeError(f"give inputs as run(x) or run(args=(x,)), not both; got {len(inputs)} and args")
    return positional(args)
