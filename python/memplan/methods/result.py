"""Several methods in one arena: a plan of each, and what stays between them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .. import _core
from ..plans.crossing import Staying, crossings
from ..plans.failing import LISTED, invalid_plan
from ..plans.plan import Plan
from ..printing.units import gap_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False, repr=False)
class MethodsPlan:
    """One arena for several methods, of which one runs at a time; `memplan.plan_many` makes it.

    Attributes
    ----------
    whole : Plan
        All methods as one problem: their steps one after another, and what stays alive throughout. Its buffers are
        named "method/buffer"; what stays has its own name.
    methods : mapping of str to Plan
        The plan of each method. Its offsets are in the common arena; `peak` is the highest end of its own buffers.
    shared : tuple of Staying
        What stays between methods: name, offset, bytes, and the tensor's names in each method.
    lower_bound : int
        No arena for all methods is smaller, in their orders of ops, whichever of their tensors share bytes.
    seconds : float
        Wall time of all planning.
    """

    whole: Plan
    methods: Mapping[str, Plan]
    shared: tuple[Staying, ...]
    lower_bound: int
    seconds: float

    @property
    def problem(self) -> _core.Problem:
        """All methods as one problem."""
        return self.whole.problem

    @property
    def offsets(self) -> npt.NDArray[np.int64]:
        """Where the buffers of `problem` begin."""
        return self.whole.offsets

    @property
    def peak(self) -> int:
        """Bytes that the arena needs."""
        return self.whole.peak

    @property
    def optimal(self) -> bool:
        """Whether it is proven that no arena for all methods is smaller."""
        return self.peak == self.lower_bound

    @property
    def gap(self) -> float:
        """How far the peak may be from the best possible: peak / lower_bound - 1."""
        return self.peak / self.lower_bound - 1 if self.lower_bound else 0.0

    @property
    def separate(self) -> int:
        """Bytes that an arena for each method, with what it shares, would need at least, all added up."""
        return sum(plan.lower_bound for plan in self.methods.values())

    def __len__(self) -> int:
        return len(self.methods)

    def __iter__(self) -> Iterator[str]:
        return iter(self.methods)

    def __getitem__(self, name: str) -> Plan:
        """The plan of a method."""
        if name not in self.methods:
            raise KeyError(f"there is no method {name!r}; there are {', '.join(map(repr, self.methods))}")
        return self.methods[name]

    def verify(self, limit: int | None = LISTED) -> None:
        """Check the plan of each method, all of them as one problem, and that what stays is touched by nothing else.

        The last check looks at graphs and offsets alone; it shares nothing with the planners.

        Raises
        ------
        InvalidPlanError
            A check fails. The message names the method.
        """
        for name, plan in self.methods.items():
            try:
                plan.verify(limit)
            except _core.InvalidPlanError as error:
                raise _core.InvalidPlanError(f"method {name!r}: {error}") from error
        self.whole.verify(limit)
        faults = crossings(self.methods, self.shared, self.peak)
        if faults:
            raise invalid_plan("the plan of several methods", faults, limit)

    def arena(self) -> Any:
        """One arena of `peak` bytes in which all methods run: a `memplan.methods.MethodsArena`."""
        from .running import MethodsArena

        return MethodsArena(self)

    def plot(self, ax: Axes | None = None, *, title: str | None = None, **options: Any) -> Axes:
        """Draw all methods side by side in the arena, as one Gantt chart; options as for `Plan.plot`."""
        from .text import plot_methods

        return plot_methods(self, ax, title=title, **options)

    def to_json(self, path: str | os.PathLike[str]) -> None:
        """Write all plans as one versioned JSON, each as `Plan.to_json` writes it."""
        from .export import write_methods_json

        write_methods_json(self, path)

    def to_c_header(self, path: str | os.PathLike[str], *, prefix: str | None = None) -> None:
        """Write one header for C99 and C++11, or later: the arena, and where the tensors of each method lie.

        As `Plan.to_c_header`, with names such as ``NET_DECODE_CONV_1_OFFSET``.
        """
        from ..export.c_header import write_c_header_of_methods

        write_c_header_of_methods(self.methods, self.whole, path, prefix=prefix)

    def __str__(self) -> str:
        from ..printing.tables import text
        from .text import methods_table

        return text(methods_table(self))

    def __repr__(self) -> str:
        state = gap_text(self.peak, self.lower_bound)
        return f"<memplan.methods.MethodsPlan: {', '.join(self.methods)}, peak {self.peak} bytes, {state}>"

    def _repr_html_(self) -> str:
        from ..printing.tables import html
        from .text import methods_table

        return html(methods_table(self))
