"""Plan: an offset for every buffer of a problem, and what is known about it."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .. import _core
from ..errors import LISTED, invalid_plan
from .slots import Sharing, Slot, Slots

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .diff import PlanDiff
    from .explain.explanation import Explanation
    from .explain.reuse import Reuse
    from .tensors import Tensors


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """A verified layout of one arena.

    Attributes
    ----------
    problem : Problem
        The buffers that were placed.
    offsets : (n,) int64
        Bytes from the beginning of the arena, in the order of the problem's buffers; read-only.
    peak : int
        Bytes that the arena needs: the highest offset + size.
    lower_bound : int
        Bytes below which no plan can peak: of a graph, in its order and with the given options, whatever tensors share
        bytes; of a problem, wherever its buffers lie.
    optimal : bool
        Proven: the peak equals the lower bound.
    placement_bound : int
        Bytes below which no plan of `problem` can peak. For a graph it may be above `lower_bound`, since it holds only
        for the tensors that share bytes in this plan.
    pools : int
        For planners that think in pools, which are laid end to end: how many; 0 for the others.
    planner, winner : str
        The planner asked for with its parameters, and the one whose offsets these are (they differ for "auto").
    seconds : float
        Wall time of planning, without import and verification.
    found_after : float
        Seconds of those until these offsets were found; the rest went into looking for better ones, or the proof.
    interrupted : bool
        Ctrl-C ended the search, which might have gone on.
    graph : Graph or None
        The graph that was planned, when the source was one.
    buffers : Buffers or None
        For a graph: which tensor lies in which buffer, and where in it.
    storage : StorageOptions or None
        For a graph: what was asked of its memory.
    unshared : int or None
        Bytes of the tensors if nothing shared bytes by choice, where the graph says so, or the file that a plan was
        read from.
    """

    problem: _core.Problem
    offsets: npt.NDArray[np.int64]
    peak: int
    lower_bound: int
    optimal: bool
    planner: str
    winner: str
    seconds: float
    pools: int = 0
    graph: _core.Graph | None = None
    buffers: _core.Buffers | None = field(default=None)
    interrupted: bool = False
    found_after: float = 0.0
    storage: _core.StorageOptions | None = None
    unshared: int | None = None
    placement_bound: int = -1  # that of `lower_bound`

    def __post_init__(self) -> None:
        if self.placement_bound < 0:
            object.__setattr__(self, "placement_bound", self.lower_bound)

    @staticmethod
    def of(
        solution: _core.Solution,
        problem: _core.Problem,
        graph: _core.Graph | None = None,
        buffers: _core.Buffers | None = None,
        storage: _core.StorageOptions | None = None,
    ) -> Plan:
        """The plan that a planner found for a problem, with the graph that the problem came from."""
        return Plan(
            problem=problem,
            offsets=solution.offsets,
            peak=solution.peak,
            lower_bound=solution.lower_bound,
            optimal=solution.optimal,
            planner=solution.planner,
            winner=solution.winner,
            seconds=solution.seconds,
            pools=solution.pools,
            graph=graph,
            buffers=buffers,
            interrupted=solution.interrupted,
            found_after=solution.found_after,
            storage=storage,
            placement_bound=solution.placement_bound,
            unshared=None if buffers is None else buffers.unshared,
        )

    @property
    def placement_optimal(self) -> bool:
        """Proven: no plan of `problem` peaks lower, whether another choice of sharing could or not."""
        return self.peak == self.placement_bound

    @property
    def gap(self) -> float:
        """How far the peak may be from the best possible: peak / lower_bound - 1."""
        return self.peak / self.lower_bound - 1 if self.lower_bound else 0.0

    @property
    def naive(self) -> int:
        """Bytes that would be needed if nothing shared bytes: neither in time, nor in place, nor without a copy.

        The sum of all tensors that own bytes, without padding. Of a plan without a graph it is the sum of its buffers;
        the JSON of `to_json` holds what the graph said, a CSV does not.
        """
        return int(self.problem.size.sum()) if self.unshared is None else self.unshared

    @property
    def load(self) -> int:
        """The largest sum of bytes alive at one step."""
        return self.problem.load

    @cached_property
    def sharing(self) -> tuple[Sharing, ...]:
        """Which tensors of a graph share bytes by choice, by op; see the options `inplace` and `zero_copy`."""
        if self.graph is None or self.buffers is None:
            return ()
        tensors, ops = self.graph.tensors, self.graph.ops
        return tuple(
            Sharing(how, ops[op].name, tensors[output].name, tensors[source].name, offset)
            for how, op, output, source, offset in self.buffers.shared
        )

    @cached_property
    def tensors(self) -> Tensors:
        """Where every placed tensor lies, and when: a mapping from names to slots, and a table with numpy columns."""
        from .tensors import Tensors

        return Tensors(self)

    @cached_property
    def _slots(self) -> Slots:
        return Slots(self.problem, self.offsets, self.graph, self.buffers)

    def __len__(self) -> int:
        return len(self.problem)

    def __iter__(self) -> Iterator[Slot]:
        """The buffers' slots, in the problem's order."""
        return iter(self._slots)

    def __getitem__(self, key: str | int) -> Slot:
        """The slot of a tensor or buffer by name, or of a buffer by position.

        A tensor of a graph lives from the op that writes it to the op that reads it last, inputs from step 0 and
        outputs and weights to the end. Tensors that share its bytes may keep them longer: its buffer, whose slot has
        the same name as the tensor that owns the bytes, lives as long as any of them. ``plan["t"]`` is the tensor;
        iteration and positions give buffers. ``plan.reuse("t")`` says who has its bytes before and after it.
        """
        return self._slots.named(key) if isinstance(key, str) else self._slots.at(key)

    def __contains__(self, key: object) -> bool:
        """Whether `plan[key]` gives a slot."""
        try:
            return isinstance(key, (str, int)) and bool(self[key])
        except (KeyError, IndexError):
            return False

    def buffer_of(self, key: str | int) -> int:
        """The position of the buffer in which a tensor lies, or of a buffer; as in `plan[key]`."""
        return self._slots.buffer_named(key) if isinstance(key, str) else range(len(self))[operator.index(key)]

    def reuse(self, key: str | int) -> Reuse:
        """Who has the bytes of a tensor or buffer before and after it, and what shares them with it by choice.

        O(n) for n buffers. ``print(plan.reuse("relu_1"))`` shows it as a table.

        Raises
        ------
        KeyError, IndexError
            As `plan[key]`.
        """
        from .explain.reuse import reuse_of

        return reuse_of(self, key)

    def explain(self) -> Explanation:
        """What makes the peak, how far it is from the best possible, and what would lower it; as text, HTML or JSON."""
        from .explain.explanation import explain

        return explain(self)

    def diff(self, other: Plan) -> PlanDiff:
        """What is different in another plan, of a new version of a model perhaps, or by another planner.

        Tensors are matched by name, or buffers where one of the plans has no graph, as those read from files.
        """
        from .diff import diff

        return diff(self, other)

    def reuse_edges(self) -> list[tuple[str, str]]:
        """Orderings of ops that the plan newly relies on: pairs (before, after) of names.

        What neither data nor `after` nor overwrites imply, reduced to the fewest that imply the others: a runtime that
        keeps them, and these, may run all other ops side by side, whatever the order of the list.

        Raises
        ------
        ValueError
            The plan is of a problem: lifetimes do not say which op they belong to.
        """
        if self.graph is None or self.buffers is None:
            raise ValueError("reuse_edges needs the plan of a graph; this one is of a problem, which has no ops")
        names = [op.name for op in self.graph.ops]
        edges = _core.reuse_edges(self.graph, self.buffers, self.offsets)
        return [(names[before], names[after]) for before, after in edges]

    def verify(self, limit: int | None = LISTED) -> None:
        """Check the plan again, independently of every planner.

        Parameters
        ----------
        limit
            Violations that are listed at most; None for all, however many.

        Raises
        ------
        InvalidPlanError
            With the violations in the message and in its attribute `violations`: on the problem (pairs alive
            together that share bytes, alignment, offsets outside the arena), and for a graph on its replay.
        """
        more = None if limit is None else limit + 1
        faults: list[Any] = list(_core.verify(self.problem, self.offsets, capacity=self.peak, limit=more))
        if self.graph is not None and self.buffers is not None:
            faults += _core.replay(self.graph, self.buffers, self.offsets, limit=more)
        if faults:
            raise invalid_plan("the plan", faults, limit)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        title: str | None = None,
        highlight: str | Iterable[str] = (),
        colour_by: str = "order",
        zoom: str | Sequence[int] | None = None,
    ) -> Axes:
        """Draw the plan as a Gantt chart: steps across, bytes up, one box per buffer, with the load and the peak.

        Parameters
        ----------
        ax
            Where to draw; a new figure when not given.
        title
            By default planner, peak and gap.
        highlight
            Names of tensors or buffers to bring out: they keep their colour and are labelled, the others fade.
        colour_by
            "order" (neighbours differ), "size", "lifetime", "kind", "op_type" or "layer" (the module path in names).
        zoom
            "peak" for the steps around the peak, or the steps (first, last) to show, half-open.

        Returns
        -------
        matplotlib.axes.Axes
            What was drawn into; ``.figure.savefig("plan.svg")`` writes it. `memplan.plot_plans` draws several plans.

        Raises
        ------
        ValueError
            An unknown name or option, or one that needs a graph; it says which, and what is expected.
        """
        from ..present.gantt import plot_plan

        return plot_plan(self, ax, title=title, highlight=highlight, colour_by=colour_by, zoom=zoom)

    def to_html(self, path: str | os.PathLike[str], *, title: str = "memory plan") -> None:
        """Write the plan as an interactive page, one HTML file that needs no network; see `memplan.write_page`."""
        from ..present.page import write_page

        write_page(self, path, title=title)

    def layout(self, limit: int | None = None) -> str:
        """Where each tensor lies, as a table: one row per buffer and view, sorted by birth.

        With a `limit` it has at most that many rows, and is made for a terminal; names that are too long are cut.
        """
        from ..present.layout import layout_text

        return layout_text(self, limit)

    def summary(self) -> str:
        """All figures, a line each: buffers, naive bytes, load, peak, proof, planner and seconds."""
        from ..present.layout import summary_text

        return summary_text(self)

    def to_csv(self, path: str | os.PathLike[str], *, form: str = "minimalloc") -> None:
        """Write the plan as CSV; `form` is "minimalloc" (id,lower,upper,size,alignment,offset) or "gantt"
        (tensor_name,size,offset,start_time,end_time). Half-open ends in both."""
        from ..export.csv import write_plan_csv

        write_plan_csv(self, path, form=form)

    def to_json(self, path: str | os.PathLike[str]) -> None:
        """Write the plan as versioned JSON."""
        from ..export.json import write_plan_json

        write_plan_json(self, path)

    def to_layout(self, path: str | os.PathLike[str]) -> None:
        """Write the whole layout table as text."""
        from ..files import write_text

        write_text(path, self.layout())

    def to_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write a trace (JSON) that Perfetto and chrome://tracing open: ops, buffers in rows by address, and the load
        and the top of the arena as counters. One step is one microsecond."""
        from ..export.chrome_trace import write_chrome_trace

        write_chrome_trace(self, path)

    def to_memory_viz(self, path: str | os.PathLike[str]) -> None:
        """Write a memory snapshot (pickle) as torch does, for the page pytorch.org/memory_viz: the arena is a segment,
        buffers are allocated and freed in it at their addresses. Torch is not needed."""
        from ..export.memory_viz import write_memory_viz

        write_memory_viz(self, path)

    def __str__(self) -> str:
        """The peak, how good it is, and who found it, in one line; `summary` has all figures, `layout` the table."""
        from ..present.layout import line_text

        return line_text(self)

    def __repr__(self) -> str:
        state = "optimal" if self.optimal else f"gap {self.gap:.3%}"
        state += ", interrupted" if self.interrupted else ""
        return f"<memplan.Plan: {len(self)} buffers, peak {self.peak} bytes, {state}, planner {self.planner!r}>"

    def _repr_html_(self) -> str:
        from ..present.notebook import plan_html

        return plan_html(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.offsets.flags.writeable = False

    def _identity(self) -> tuple[Any, ...]:
        bounds = (self.lower_bound, self.optimal, self.placement_bound)
        return (self.peak, *bounds, self.planner, self.winner, self.pools, self.interrupted)

    def __eq__(self, other: object) -> bool:
        """Equal in everything but `seconds` and `found_after`."""
        if not isinstance(other, Plan):
            return NotImplemented
        return (
            self._identity() == other._identity()
            and bool(np.array_equal(self.offsets, other.offsets))
            and self.problem == other.problem
            and self.graph == other.graph
        )

    __hash__ = None  # type: ignore[assignment]
