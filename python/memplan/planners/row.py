"""Rows of the registry of planners, and what a planner written in Python is given and gives back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from .. import _core


@dataclass(frozen=True)
class Parameter:
    """A number or a word that a planner takes, as in "beam:k=16"."""

    name: str
    title: str
    standard: int | str  # used unless another is given
    least: int = 0
    most: int = 0
    words: tuple[str, ...] = ()  # what it can be; empty for a number in [least, most]


@dataclass(frozen=True)
class Options:
    """How to plan.

    Attributes
    ----------
    time_limit : float or None
        Seconds after which the best plan so far is kept.
    seed, threads : int
        For chance, and for planners that can use several.
    settings : dict
        The values of all parameters of the planner, by name.
    capacity : int or None
        Bytes: a search may end once it has a plan that peaks at most there, or a proof that there is none.
    tell : callable or None
        To be called with the offsets of each better plan that a search finds, and what is proven until then of every
        peak, 0 if nothing; on the thread that called the planner. What it raises ends the planner.
    """

    time_limit: float | None = None
    seed: int = 0
    threads: int = 1
    settings: dict[str, int | str] = field(default_factory=dict)
    capacity: int | None = None
    tell: Callable[[Sequence[int], int], None] | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Placement:
    """What a planner gives back.

    Attributes
    ----------
    offsets : (n,) integers
        Bytes from the beginning of the arena, in the order of the problem's buffers.
    lower_bound : int
        For exact planners: proven, no plan of the problem peaks below it; else 0.
    pools : int
        For planners that think in pools, which are laid end to end: how many; else 0.
    interrupted : bool
        A KeyboardInterrupt ended the search, and these are its best offsets until then. A planner that has none yet
        lets it pass.
    """

    offsets: Sequence[int]
    lower_bound: int = 0
    pools: int = 0
    interrupted: bool = False


@dataclass(frozen=True, repr=False)
class PlannerInfo:
    """A row of the registry: what a planner is, supports, and comes from.

    Attributes
    ----------
    name, title : str
    exact : bool
        Whether it finds an optimum, given time.
    supports : tuple of str
        What a problem may ask of it beyond sizes and lifetimes: "alignment", "shapes", "conflicts".
    complexity : str
        For n buffers and r separate byte ranges in use at a time.
    source : str
        Document, paper or project.
    parameters : tuple of Parameter
    run : callable or None
        For a planner written in Python: from a Problem and Options to a Placement. None for the core's.
    """

    name: str
    title: str
    exact: bool
    supports: tuple[str, ...]
    complexity: str
    source: str
    parameters: tuple[Parameter, ...] = ()
    run: Callable[[_core.Problem, Options], Placement] | None = None

    def __repr__(self) -> str:
        return f"<memplan planner '{self.name}'>"
