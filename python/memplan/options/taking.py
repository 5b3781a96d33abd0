"""Which function takes which options, which do not go together, and which need others."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, ParamSpec, TypeVar

from ..text import nearest
from .declaring import Record, made, options_of
from .records import RANGED, Layout, Reading, Search, Sharing

P = ParamSpec("P")
R = TypeVar("R")
RECORDS: tuple[type[Record], ...] = (Reading, Sharing, Layout, Search)
_RECORD_OF = {name: record for record in RECORDS for name in record.names()}

TAKES: dict[str, frozenset[str]] = {
    "capture": frozenset(Reading.names()),
    "plan": frozenset(_RECORD_OF),
    "fit": frozenset({*Reading.names(), *Sharing.names(), "barrier", "time_limit"} - {"inclusive", "overlap"}),
    "reorder": frozenset({*Reading.names(), *Sharing.names(), "barrier", "time_limit", "on_order"}),
    "order_bound": frozenset({*Reading.names(), *Sharing.names()} - {"alignment"}),
    "compare": frozenset(_RECORD_OF.keys() - {"order", "time_limit", "on_interrupt"}),
    "plan_many": frozenset({*Reading.names(), *Sharing.names(), *Layout.names(), "order", "barrier"}),
    "verify": frozenset(Reading.names()),
}

# What functions have besides: to offer it to whoever misspells it.
OWN = {
    "plan": ("planner",),
    "fit": ("planner", "allow", "cost", "transfer", "hidden", "call", "max_pieces"),
    "compare": ("planners", "orders", "time_limit", "on_row", "on_interrupt"),
    "plan_many": ("planner", "shared", "each", "capacity", "time_limit", "seed", "threads"),
}
_ABOUT = {one.name: one.metadata for one in options_of(*RECORDS)}
# An option, what it does not go with, and why.
EXCLUDED = tuple((one, other, why) for one, about in _ABOUT.items() for other, why in about["excludes"].items())
# An option, what it needs, and an example.
NEEDED = tuple((one, *about["needs"]) for one, about in _ABOUT.items() if about["needs"])
# Options of graphs, and what a problem has instead.
OF_GRAPHS = {one: about["graphs_only"] for one, about in _ABOUT.items() if about["graphs_only"]}

# Functions that are called while a plan is made.
CALLBACKS = tuple(one for one, about in _ABOUT.items() if about["is_callback"])


def naming_options(function: Callable[P, R]) -> Callable[P, R]:
    """A decorator: each record that a docstring lists is followed by its options that the function takes."""
    lines = []
    for line in (function.__doc__ or "").splitlines():
        lines.append(line)
        for record in RECORDS:
            if line.strip().startswith(f"- `memplan.options.{record.__name__}`"):
                named = ", ".join(f"`{name}`" for name in record.names() if name in TAKES[function.__name__])
                indent = " " * (len(line) - len(line.lstrip()))
                text = f"{line.strip()}: {named}"
                lines[-1:] = textwrap.wrap(text, 116, initial_indent=indent, subsequent_indent=indent + "  ")
    function.__doc__ = "\n".join(lines)
    return function


class Request(NamedTuple):
    """What was asked for, checked as far as it can be before a source is read."""

    reading: Reading
    sharing: Sharing
    layout: Layout
    search: Search


def request(function: str, given: Mapping[str, Any]) -> Request:
    """The options of a function of memplan, in their records.

    Raises
    ------
    TypeError, ValueError, MissingDependencyError, PlannerError
        The function takes no such option, or the option is none; or two do not go together. The message names the
        option, what was expected and what came.
    """
    if not given:
        return _NOTHING
    parts: dict[type[Record], dict[str, Any]] = {record: {} for record in RECORDS}
    takes = TAKES[function]
    for name, value in given.items():
        if name not in takes:
            near = nearest(name, [*takes, *OWN.get(function, ())])
            raise TypeError(
                f"{function} takes no option {name!r}"
                + (f"; did you mean {near!r}?" if near not in (None, name) else "")
            )
        parts[_RECORD_OF[name]][name] = value
    found = Request(*(made(record, parts[record]) for record in RECORDS))  # type: ignore[arg-type]
    said = {name for part in found for name, value in part.given().items() if not _is_nothing(value)}
    _check_together(said, found.reading)
    return found


def without(options: Mapping[str, Any], function: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options that a function takes, and the others."""
    taken = {name: value for name, value in options.items() if name in TAKES[function]}
    return taken, {name: value for name, value in options.items() if name not in taken}


def is_ranged(reading: Reading) -> bool:
    """Whether a size is a range."""
    return any(isinstance(size, (tuple, list)) for size in (reading.dims or {}).values())


def check_for_problems(asked: Request) -> None:
    """Refuse what only graphs have."""
    for name in (*asked.search.given(), *asked.sharing.given()):
        value = getattr(asked.search if name in Search.names() else asked.sharing, name)
        if name in OF_GRAPHS and value not in ("given", [], ()) and not _is_usual(name, value):
            raise TypeError(f"option {name} applies to graphs; {OF_GRAPHS[name]}")


def _is_usual(name: str, value: Any) -> bool:
    return name == "place" and set(value) == set(Sharing().place)


def _check_together(given: set[str], reading: Reading) -> None:
    if len(given) < 2 and "accesses" not in given:
        return
    if is_ranged(reading):
        given = {*given, RANGED}
    for one, other, why in EXCLUDED:
        if one in given and other in given:
            raise TypeError(f"option {one} does not go with {other}{why}")
    for one, other, example in NEEDED:
        if one in given and other not in given:
            raise TypeError(f"option {one} needs {other}: {example}")


def _is_nothing(value: Any) -> bool:
    return value is None or (isinstance(value, (Sequence, Mapping)) and len(value) == 0)


_NOTHING = Request(Reading(), Sharing(), Layout(), Search())
