"""Rows of the registry of planners; what a planner written in Python gets, and what it returns."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from .. import _core

LEAST, MOST = -(2**63), 2**63 - 1  # of int64


@dataclass(frozen=True)
class Parameter:
    """A number or a word that a planner takes, as in "beam:k=16".

    Attributes
    ----------
    name, title : str
    standard : int or str
        The default value.
    least, most : int or None
        For a number: the least and the greatest value. None: no limit but that of int64.
    words : tuple of str
        For a word: the possible values. Empty for a number.

    Raises
    ------
    TypeError, ValueError
        The name is not a word, or the default is not a possible value.
    """

    name: str
    title: str
    standard: int | str
    least: int | None = None
    most: int | None = None
    words: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_name(self.name, r"\w+")
        _check_tuple("words", self.words, str)
        if self.words:
            if self.standard not in self.words:
                raise ValueError(f"standard must be one of {', '.join(self.words)}, got {self.standard!r}")
            return
        for name, limit in (("least", self.least), ("most", self.most)):
            if limit is not None and not _is_int64(limit):
                raise TypeError(f"{name} must be an integer that fits int64, or None, got {limit!r}")
        least, most = LEAST if self.least is None else self.least, MOST if self.most is None else self.most
        if not _is_int64(self.standard) or not least <= int(self.standard) <= most:
            raise ValueError(f"standard must be {self.expected}, got {self.standard!r}")

    @property
    def expected(self) -> str:
        """What a value must be: "one of birth, size", "an integer in [1, 64]", "an integer >= 1"."""
        if self.words:
            return f"one of {', '.join(self.words)}"
        if self.least is not None and self.most is not None:
            return f"an integer in [{self.least}, {self.most}]"
        least = "" if self.least is None else f" >= {self.least}"
        return f"an integer{least}" if self.most is None else f"an integer <= {self.most}"


def parameters_of(rows: Sequence[_core.Parameter]) -> tuple[Parameter, ...]:
    """Those of a row of the core."""
    return tuple(
        Parameter(p.name, p.title, p.standard, words=tuple(p.words))
        if p.words
        else Parameter(p.name, p.title, p.standard, p.least, p.most)
        for p in rows
    )


@dataclass(frozen=True)
class Options:
    """How to plan.

    Attributes
    ----------
    time_limit : float or None
        Seconds after which the planner should return its best plan so far.
    seed, threads : int
        The seed for random numbers, and the number of threads that a planner may use.
    settings : dict
        The values of all parameters of the planner, by name.
    capacity : int or None
        Bytes. A search may end when it has a plan that peaks at or below it, or a proof that there is none.
    tell : callable or None
        A search calls ``tell(offsets, lower_bound)`` with each better plan, on the thread that called the planner. The
        bound is what the search has proven so far, or None. Let an exception of it pass.
    """

    time_limit: float | None = None
    seed: int = 0
    threads: int = 1
    settings: dict[str, int | str] = field(default_factory=dict)
    capacity: int | None = None
    tell: Callable[[Sequence[int], int | None], None] | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Placement:
    """What a planner returns.

    Attributes
    ----------
    offsets : (n,) integers
        Where each buffer begins, in bytes from the beginning of the arena. In the order of the problem's buffers.
    lower_bound : int or None
        For exact planners: bytes below which it is proven that no plan of the problem peaks. Otherwise 0, or None.
    objects : int
        For planners that make shared objects, laid end to end: their number. Otherwise 0.
    interrupted : bool
        A KeyboardInterrupt ended the search, and these are its best offsets so far. A planner that has no plan yet lets
        the KeyboardInterrupt pass.

    Raises
    ------
    TypeError
        A bound or number of objects is not an integer.
    """

    offsets: Sequence[int]
    lower_bound: int | None = 0
    objects: int = 0
    interrupted: bool = False

    def __post_init__(self) -> None:
        for name in ("lower_bound", "objects") if self.lower_bound is not None else ("objects",):
            object.__setattr__(self, name, _integer(name, getattr(self, name)))


@dataclass(frozen=True, repr=False)
class PlannerInfo:
    """A row of the registry: what a planner is, supports, and comes from.

    Attributes
    ----------
    name, title : str
    exact : bool
        Whether the planner finds an optimum, given time.
    supports : tuple of str
        Features of problems that the planner supports: any of "alignment", "shapes", "conflicts", "pins",
        "reserved".
    complexity : str
        For n buffers and r separate byte ranges in use at a time.
    source : str
        Document, paper or project.
    parameters : tuple of Parameter
    run : callable or None
        For a planner written in Python: a function from a Problem and Options to a Placement. None for planners of the
        core.
    package : str
        The package that brings the planner, with its version; memplan fills it in. Empty for memplan's own planners,
        and for those that `register` adds.
    alias : str
        Another name of the planner, or empty. Only memplan's own planners have one.
    ready : callable or None
        Is called before a source is read; raises MissingDependencyError where what the planner needs is not installed.

    Raises
    ------
    TypeError, ValueError
        A field is not of its type, or the name is not a word.
    """

    name: str
    title: str
    exact: bool
    supports: tuple[str, ...]
    complexity: str
    source: str
    parameters: tuple[Parameter, ...] = ()
    run: Callable[[_core.Problem, Options], Placement] | None = None
    package: str = ""
    alias: str = ""
    ready: Callable[[], object] | None = None

    def __post_init__(self) -> None:
        _check_name(self.name, r"\w[\w.-]*")
        for name in ("title", "complexity", "source"):
            if not isinstance(getattr(self, name), str):
                raise TypeError(f"{name} must be a str, got {getattr(self, name)!r}")
        _check_tuple("supports", self.supports, str)
        _check_tuple("parameters", self.parameters, Parameter)
        if self.run is not None and not callable(self.run):
            raise TypeError(f"run must be callable with a Problem and Options, got {self.run!r}")
        if self.ready is not None and not callable(self.ready):
            raise TypeError(f"ready must be callable, got {self.ready!r}")

    @property
    def label(self) -> str:
        """What errors call it."""
        return f"planner {self.name!r}" + (f" of package {self.package!r}" if self.package else "")

    def __repr__(self) -> str:
        return f"<memplan planner {self.name!r}>"


def _check_name(name: Any, pattern: str) -> None:
    if not isinstance(name, str) or not re.fullmatch(pattern, name):
        raise ValueError(f"name must be a word such as 'first_fit', got {name!r}")


def _check_tuple(field: str, values: Any, kind: type) -> None:
    if not isinstance(values, tuple) or not all(isinstance(value, kind) for value in values):
        raise TypeError(f"{field} must be a tuple of {kind.__name__}, got {values!r}")


def _is_int64(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and LEAST <= value <= MOST


def _integer(field: str, value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{field} must be an integer, got {value!r}") from None
