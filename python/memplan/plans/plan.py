"""Plan: an offset for every buffer of a problem, and what is known about it.

The file is long because all that a plan can be asked is documented here; what answers is in the files around it.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from .. import _core
from ..printing.units import gap_text
from .changes import Change, Fitting
from .failing import LISTED, invalid_plan
from .later import later
from .pools import Memories
from .pricing import Pricing
from .ranged import Ranged
from .slots import Sharing, Slot, Slots
from .source import Source

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..diffs.diff import PlanDiff
    from ..explaining.explanation import Explanation
    from ..explaining.reuse import Reuse
    from ..fitting.curve import Pareto
    from ..run.result import Run
    from .tensors import Tensors

_WORK_OF_BOUND = 25_000_000  # of a search for the bound of all orders: tenths of a second


@dataclass(frozen=True)
class FiledOrder:
    """What the file of a plan says of orders: the ops by name as they run, and the bound of all orders in bytes."""

    ops: tuple[str, ...]
    bound: int


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """A verified layout of one arena.

    Attributes
    ----------
    problem : Problem
        The buffers that were placed.
    offsets : (n,) int64
        Where each buffer begins, in bytes from the beginning of the arena. In the order of the problem's buffers;
        read-only.
    peak : int
        Bytes that the arena needs: the highest offset + size.
    lower_bound : int
        Bytes below which no plan can peak. For a problem, it holds for every placement of its buffers. For a graph, it
        holds in its order of ops and with the given options, whichever tensors share bytes.
    optimal : bool
        True if the peak equals the lower bound: no plan peaks lower, for a graph in this order of its ops.
    placement_bound : int
        Bytes below which no plan of `problem` can peak. For a graph it may be above `lower_bound`, because it holds
        only for the tensors that share bytes in this plan.
    pools : int
        Number of pools, for planners that use pools, laid end to end; 0 for the others.
    planner, winner : str
        The planner asked for, with its parameters, and the planner that found these offsets. They differ for "auto".
    seconds : float
        Wall time of planning, without import and verification.
    found_after : float
        Seconds of planning until these offsets were found. The rest of the time went into looking for better ones, or
        for the proof.
    interrupted : bool
        Ctrl-C ended the search before its end.
    graph : Graph or None
        The graph that was planned, when the source was one.
    buffers : Buffers or None
        For a graph: which tensor lies in which buffer, and where in it.
    storage : StorageOptions or None
        For a graph: the options that say what is placed and what may share bytes.
    unshared : int or None
        Bytes of all tensors if nothing shared bytes by choice. None if neither a graph nor the file of the plan says.
    source : Source or None
        For a network of torch or ONNX: what was planned, which `run` runs. For a tape: the tape. It holds the network,
        and is left out of pickles and of comparisons.
    placed : mapping of str to (int, int, int) or None
        For a plan from a JSON file, if it was of a graph: each tensor's buffer, its offset in the arena and its bytes.
    ordered_by : str
        The order of the ops that was asked for, with its parameters. "given" for the plan of a problem.
    proven_of_orders : int
        Bytes that every order needs, as far as the search for the order has proven. `order_bound` is at least that.
    filed_order : FiledOrder or None
        For a plan from a JSON file, if it was of a graph: the order of its ops, and the bound of all orders.
    notes : tuple of str
        What to know about the source: what is an estimate with ``device="cuda"``, and that a program was exported in
        another mode than it is planned for. Files of plans do not keep it.
    fitting : Fitting or None
        How the graph was changed to fit a capacity, for a plan that `memplan.fit` made.
    moved : tuple of str or None
        For a plan that was to keep offsets, by ``keep``: the buffers that lie elsewhere.
    moved_bound : int or None
        With `moved`: so many buffers at least lie elsewhere in every plan of the problem that is no higher than the
        plan that was changed, or than the capacity.
    pricing : Pricing or None
        For a plan with ``price``: what it pays for pairs that share bytes, and what every plan pays at least.
    memories : Memories or None
        The pools of a plan in several pools, by name. `offsets`, `peak` and the bounds then count all pools as one
        arena, one behind the other; ``plan["x"].memory`` and ``plan["x"].address`` say where a tensor lies.
    ranged : Ranged or None
        For a plan with ``dims`` in a range: what it needs at each size. The plan is that of the largest sizes, and its
        offsets hold for all.
    capacity : int or None
        Bytes that were asked for: the search ended with the first plan that fits. Files of plans do not keep it.
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
    source: Source | None = None
    placed: Mapping[str, tuple[int, int, int]] | None = None
    ordered_by: str = "given"
    proven_of_orders: int = 0
    filed_order: FiledOrder | None = None
    notes: tuple[str, ...] = ()
    fitting: Fitting | None = None
    moved: tuple[str, ...] | None = None
    moved_bound: int | None = None
    memories: Memories | None = None
    ranged: Ranged | None = None
    pricing: Pricing | None = None
    capacity: int | None = field(default=None, compare=False)

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
        source: Source | None = None,
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
            pools=solution.objects,
            graph=graph,
            buffers=buffers,
            interrupted=solution.interrupted,
            found_after=solution.found_after,
            storage=storage,
            placement_bound=solution.placement_bound,
            unshared=None if buffers is None else buffers.unshared,
            source=source,
        )

    @property
    def changes(self) -> tuple[Change, ...]:
        """What `memplan.fit` has changed in the graph, in the order in which it runs; () for other plans."""
        return () if self.fitting is None else self.fitting.changes

    @property
    def added_cost(self) -> float:
        """The cost of all changes, in the unit of the ops' costs.

        These are seconds for ``cost="profile"``, what the graph's own costs are in, or else bytes touched and
        floating-point operations. `fitting.cost` is the cost of all ops.
        """
        return 0.0 if self.fitting is None else self.fitting.added_cost

    @property
    def cost_bound(self) -> float:
        """What any schedule within the capacity adds at least, in this order of ops; see docs/fit.md."""
        return 0.0 if self.fitting is None else self.fitting.cost_bound

    @property
    def placement_optimal(self) -> bool:
        """Whether it is proven that no plan of `problem` peaks lower. Another choice of sharing still might."""
        return self.peak == self.placement_bound

    @cached_property
    def order(self) -> tuple[str, ...]:
        """The names of the ops in the order in which they run; empty for the plan of a problem."""
        if self.filed_order is not None:
            return self.filed_order.ops
        return () if self.graph is None else tuple(op.name for op in self.graph.ops)

    @cached_property
    def order_bound(self) -> int | None:
        """Bytes below which no plan of the graph can peak, in any order of its ops and with any sharing of bytes.

        It is found when it is asked for: by minimum cuts, and where these do not reach the peak, by a search through
        the sets of ops that may have run. What is reserved at all steps comes on top. For a plan from a file, it is
        what the file says. None for the plan of a problem; 0 for a graph on several streams, of which nothing is known.
        """
        if self.filed_order is not None:
            return self.filed_order.bound
        if self.graph is None or self.storage is None:
            return None
        if self.proven_of_orders == self.peak > 0:
            return self.peak
        needed = int(_core.order_bound(self.graph, self.storage)[0])
        bound = max(_core.beside_reserved(self.graph, needed), self.proven_of_orders)
        if bound in (0, self.peak):
            return bound
        found = _core.order_of(self.graph, f"exact:work={_WORK_OF_BOUND}", self.storage)
        if found.interrupted:
            raise KeyboardInterrupt
        return max(bound, _core.beside_reserved(self.graph, found.bound))

    @property
    def order_optimal(self) -> bool:
        """Whether it is proven that no plan of the graph peaks lower, in any order of its ops."""
        return self.order_bound is not None and self.peak == self.order_bound

    @property
    def gap(self) -> float:
        """How far the peak may be from the best possible: peak / lower_bound - 1."""
        return self.peak / self.lower_bound - 1 if self.lower_bound else 0.0

    @property
    def naive(self) -> int:
        """Bytes that would be needed if nothing shared bytes: neither over time, nor in place, nor without a copy.

        It is the sum of all tensors that own bytes, without padding. For a plan without a graph, it is the sum of the
        buffers. A JSON file keeps the figure of the graph, a CSV does not.
        """
        return int(self.problem.size.sum()) if self.unshared is None else self.unshared

    @property
    def load(self) -> int:
        """The largest sum of bytes alive at one step."""
        return self.problem.load

    @cached_property
    def sharing(self) -> tuple[Sharing, ...]:
        """The tensors of a graph that share bytes by choice, op by op; see the options `inplace` and `zero_copy`."""
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
        return Slots(self.problem, self.offsets, self.graph, self.buffers, self.memories)

    def __len__(self) -> int:
        return len(self.problem)

    def __iter__(self) -> Iterator[Slot]:
        """The buffers' slots, in the problem's order."""
        return iter(self._slots)

    def __getitem__(self, key: str | int) -> Slot:
        """The slot of a tensor or buffer by name, or of a buffer by position.

        A tensor of a graph lives from the op that writes it to the op that reads it last. Inputs live from step 0;
        outputs and weights live to the end. The buffer of a tensor may live longer: as long as any tensor in its bytes.

        A name gives the slot of the tensor. Iteration and positions give the slots of buffers; a buffer has the name of
        the tensor that owns its bytes. ``plan.reuse("t")`` says who has the bytes before and after.
        """
        return self._slots.named(key) if isinstance(key, str) else self._slots.at(key)

    def __contains__(self, key: object) -> bool:
        """Whether `plan[key]` gives a slot."""
        try:
            return isinstance(key, (str, int)) and bool(self[key])
        except (KeyError, IndexError):
            return False

    def buffer_of(self, key: str | int) -> int:
        """The position of a buffer, or of the buffer in which a tensor lies. `key` is as in `plan[key]`."""
        return self._slots.buffer_named(key) if isinstance(key, str) else range(len(self))[operator.index(key)]

    def at(self, **sizes: int) -> Plan:
        """The plan at one size, for a plan with `dims` in a range: ``plan.at(batch=8)``.

        Each buffer begins where the highest of those ends that lie below it in this plan. The result is an ordinary
        plan, verified at this size; `ranged` has its peak for the sizes that were looked at.

        Raises
        ------
        ValueError
            The plan has no range, or the sizes are not in it.
        UnsupportedError
            The network has other ops at this size.
        """
        if self.ranged is None:
            raise ValueError("the plan is for one size: plan with dims={'batch': (1, 64)} for a range")
        return self.ranged.at(sizes)

    def reuse(self, key: str | int) -> Reuse:
        """Who has the bytes of a tensor or buffer before and after it, and what shares them with it by choice.

        O(n) for n buffers. ``print(plan.reuse("relu_1"))`` shows it as a table.

        Raises
        ------
        KeyError, IndexError
            As `plan[key]`.
        """
        from ..explaining.reuse import reuse_of

        return reuse_of(self, key)

    def pareto(self, capacities: Sequence[int | str] | None = None, **options: Any) -> Pareto:
        """Cost over capacity, for the graph of the plan with its options: see `memplan.pareto`.

        For a plan in several pools, it is over the capacity of the first of them, or of ``pool="sram"``.

        Raises
        ------
        TypeError
            The plan is of a problem without pools, or from a file.
        """
        found: Pareto = later("pareto")(self, capacities, **options)
        return found

    def explain(self) -> Explanation:
        """What makes the peak, how far it is from the best possible, and what would lower it; as text, HTML or JSON."""
        from ..explaining.explanation import explain

        return explain(self)

    def diff(self, other: Plan) -> PlanDiff:
        """What differs in another plan: of a new version of a model, or by another planner.

        Tensors are matched by name. If a plan has no graph, as a plan from a file, buffers are matched instead.
        """
        from ..diffs.diff import diff

        return diff(self, other)

    def reuse_edges(self) -> list[tuple[str, str]]:
        """Orderings of ops that the plan adds: pairs (before, after) of names.

        Data, `after` and overwrites already order some ops. These are the orderings that the plan needs besides, and
        only the fewest that imply the others. A runtime that keeps both may run all other ops side by side, whatever
        the order of the list.

        Raises
        ------
        ValueError
            The plan is of a problem, which has no ops.
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
            How many violations are listed at most; None for all.

        Raises
        ------
        InvalidPlanError
            The plan breaks its problem: buffers alive together share bytes, or a buffer is not aligned, or lies outside
            of the arena. Or the replay of its graph fails. Or a buffer lies in a pool that does not take it, or
            outside of it. The message and the attribute `violations` say where.
        """
        more = None if limit is None else limit + 1
        faults: list[Any] = list(_core.verify(self.problem, self.offsets, capacity=self.peak, limit=more))
        if self.graph is not None and self.buffers is not None:
            faults += _core.replay(self.graph, self.buffers, self.offsets, limit=more)
        if self.memories is not None:
            faults += self.memories.faults(self)
        if faults:
            raise invalid_plan("the plan", faults, limit)

    def run(
        self,
        *inputs: Any,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        weights: Mapping[str, Any] | None = None,
        check: bool = False,
        views: bool = False,
        engine: Literal["reference", "onnxruntime"] | None = None,
        source: Any = None,
        train: bool = False,
        dims: Mapping[str, int] | None = None,
        inplace_ops: Collection[str] = (),
        trust: bool = False,
        optimizer: Any = None,
        keep_gradients: bool = False,
    ) -> Run:
        """Run the network that was planned, in one arena of `peak` bytes: every placed tensor lies where the plan says.

        Plan with ``alignment=64``, so that every tensor begins where its elements may.

        Parameters
        ----------
        inputs, args, kwargs
            What the network is called with: ``run(x)``, or ``run(args=(x,))`` as for `memplan.plan`. For ONNX,
            arrays in the order of the inputs, or by name in `kwargs`. Shapes and dtypes are those that were planned.
        weights
            Tensors by name, in place of those that the network holds.
        check
            Fill the arena with garbage before the run, and every tensor's bytes when the plan says that it is dead. A
            plan that is wrong then gives wrong results.
        views
            Return tensors as views of the arena, which are valid until the next run. By default, copies.
        engine
            For ONNX: what computes the nodes. "reference", the default, are the operators that onnx brings, which are
            slow; "onnxruntime" needs the extra of this name. A node that the one cannot run is run by the other.
        source, train, dims, inplace_ops, trust, optimizer, keep_gradients
            What was planned, as `memplan.plan` was given it: for a plan from a JSON file, a pickle, or of a graph.

        Returns
        -------
        memplan.run.Run
            What the network returned, or the loss and the gradients. With an optimizer, weights and states have
            changed as its step changes them.

        Raises
        ------
        TypeError, SourceError
            No network to run, or inputs, weights or a source that do not fit the plan. The message names what was
            expected and what came.
        InvalidPlanError
            A tensor would lie outside of its place, or begin where its elements may not.
        """
        from ..run.plans import run_plan

        given = {"source": source, "train": train, "dims": dims, "inplace_ops": inplace_ops, "trust": trust}
        given |= {"optimizer": optimizer, "keep_gradients": keep_gradients}
        return run_plan(self, inputs, args, kwargs, given, weights=weights, check=check, views=views, engine=engine)

    @cached_property
    def program(self) -> Any:
        """The network with its ops in the order of the plan; it is made when it is asked for first.

        A `torch.fx.GraphModule` of what was planned from torch: the operators that the importer saw, with the weights
        of the network, called as the network is. With ``train=True`` it returns the loss, and the gradients by name. An
        `onnx.ModelProto` of a model: its nodes in another order. Results are equal bit for bit.

        Raises
        ------
        TypeError
            The plan holds no network: it is of a problem or graph, or was read or unpickled.
        SourceError
            The network changed since it was planned.
        UnsupportedError
            A network that cannot be written down so. The message says why.
        """
        from ..run.plans import program_of

        return program_of(self).in_order(self)

    @property
    def optimizer(self) -> Any:
        """The optimizer whose step ends each `run`, with its states and options; None if none was planned.

        The one that was given to `memplan.plan`; or, if that was a class, a function or a name, the one that it made.
        """
        from ..run.plans import program_of

        return getattr(program_of(self), "optimizer", None)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        title: str | None = None,
        highlight: str | Iterable[str] = (),
        colour_by: str = "buffer",
        zoom: str | Sequence[int] | None = None,
    ) -> Axes:
        """Draw the plan as a Gantt chart: steps across, bytes up, one box per buffer, with the load and the peak.

        Parameters
        ----------
        ax
            Where to draw. By default, a new figure.
        title
            By default, the planner, peak and gap.
        highlight
            Names of tensors, buffers or modules to bring out. They keep their colour and get a label; the others fade.
            A part of a module's path, such as "attn.kv", stands for all modules that have it.
        colour_by
            "buffer" (neighbours differ), "order" (of birth), "size", "lifetime", "kind", "op_type" or "layer" (the
            module path in names).
        zoom
            "peak" for the steps around the peak, or the steps (first, last) to show, half-open.

        Returns
        -------
        matplotlib.axes.Axes
            The axes with the picture; ``.figure.savefig("plan.svg")`` writes it. `memplan.plot_plans` draws several
            plans.

        Raises
        ------
        ValueError
            An unknown name or option, or an option that needs a graph. The message says what is expected.
        """
        from ..draw.gantt import plot_plan

        return plot_plan(self, ax, title=title, highlight=highlight, colour_by=colour_by, zoom=zoom)

    def to_html(
        self,
        path: str | os.PathLike[str],
        *,
        title: str = "memory plan",
        highlight: str | Iterable[str] = (),
        colour_by: str = "buffer",
    ) -> None:
        """Write the plan as an interactive page, one HTML file that needs no network; see `memplan.write_page`."""
        from ..draw.page import write_page

        write_page(self, path, title=title, highlight=highlight, colour_by=colour_by)

    def layout(self, limit: int | None = None) -> str:
        """Where each tensor lies, as a table: one row per buffer and view, sorted by birth.

        With a `limit`, the table is for a terminal: it has at most that many rows, and long names are cut.
        """
        from ..draw.layout import layout_text

        return layout_text(self, limit)

    def summary(self) -> str:
        """All figures, a line each: buffers, naive bytes, load, peak, proof, planner and seconds."""
        from ..draw.layout import summary_text

        return summary_text(self)

    def to_csv(self, path: str | os.PathLike[str], *, form: str = "minimalloc") -> None:
        """Write the plan as CSV.

        `form` is "minimalloc" (id,lower,upper,size,alignment,offset) or "gantt"
        (tensor_name,size,offset,start_time,end_time). Lifetimes are half-open in both.
        """
        from ..export.csv import write_plan_csv

        write_plan_csv(self, path, form=form)

    def to_json(self, path: str | os.PathLike[str]) -> None:
        """Write the plan as versioned JSON."""
        from ..export.json import write_plan_json

        write_plan_json(self, path)

    def to_onnx(
        self,
        path: str | os.PathLike[str],
        *,
        source: Any = None,
        dims: Mapping[str, int] | None = None,
        inplace_ops: Collection[str] = (),
    ) -> None:
        """Write the ONNX model that was planned with its nodes in the order of the plan.

        Nothing else changes: weights, functions and bodies stay as they are, and payload in other files stays there. A
        call of a function stands where its last result is made.

        Parameters
        ----------
        path
            A file, which is written beside and then renamed. A model with payload in other files is to be written into
            their folder.
        source, dims, inplace_ops
            The model again, with its options, for a plan that holds none: one of a file, a pickle, or of a graph.

        Raises
        ------
        TypeError, SourceError
            No model of ONNX, or not the one that was planned.
        ValueError
            Another folder than that of the payload.
        """
        from ..run.plans import write_onnx

        write_onnx(self, path, source, dims, inplace_ops)

    def to_layout(self, path: str | os.PathLike[str]) -> None:
        """Write the whole layout table as text."""
        from ..files import write_text

        write_text(path, self.layout())

    def to_c_header(self, path: str | os.PathLike[str], *, prefix: str | None = None) -> None:
        """Write a header for C11 and C++17: the arena's size and alignment, and each tensor's offset and size.

        The compiler checks that each tensor lies in the arena and is aligned: of C99 or later, or of C++11 or later.
        See docs/devices.md.

        Parameters
        ----------
        prefix
            What all names begin with. By default, the name of the file: "net.h" has ``NET_ARENA_BYTES``,
            ``NET_ARENA_ALIGNMENT``, and for the tensor "conv.1" ``NET_CONV_1_OFFSET`` and ``NET_CONV_1_BYTES``. A
            number makes names unique.

        Raises
        ------
        ValueError
            The prefix is no name in C, or the alignments of the buffers have no power of two as a common multiple.
        """
        from ..export.c_header import write_c_header

        write_c_header(self, path, prefix=prefix)

    def to_tflite(
        self, path: str | os.PathLike[str], model: str | os.PathLike[str], *, inplace_ops: Collection[str] = ()
    ) -> None:
        """Write a TFLite model with the plan in its metadata, which the allocator of TFLite Micro takes.

        Nothing else of the model changes. A tensor without a place in the plan is placed when the model is loaded. Plan
        with ``place=("input", "intermediate", "output"), alignment=16``, so that all have one. See docs/devices.md.

        Parameters
        ----------
        path
            A file, which is written beside and then renamed.
        model
            The file that was planned.
        inplace_ops
            As it was planned with.

        Raises
        ------
        InvalidPlanError
            The plan does not hold for this model.
        ValueError
            The plan has other ops, or in another order, or a tensor begins where its elements may not.
        """
        from ..run.tflite import write_tflite

        write_tflite(self, path, model, inplace_ops)

    def to_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write a trace (JSON) that Perfetto and chrome://tracing open.

        It has the ops, the buffers in rows by address, and counters of the load and of the top of the arena. One step
        is one microsecond.
        """
        from ..export.chrome_trace import write_chrome_trace

        write_chrome_trace(self, path)

    def to_memory_viz(self, path: str | os.PathLike[str]) -> None:
        """Write a memory snapshot (pickle) like torch's, for the page pytorch.org/memory_viz.

        The arena is a segment, in which buffers are allocated and freed at their addresses. Torch is not needed.
        """
        from ..export.memory_viz import write_memory_viz

        write_memory_viz(self, path)

    def __str__(self) -> str:
        """The peak, how good it is, and its planner, in one line. `summary` has all figures, `layout` the table."""
        from ..draw.layout import line_text

        return line_text(self)

    def __repr__(self) -> str:
        state = gap_text(self.peak, self.lower_bound) + ", interrupted" * self.interrupted
        return f"<memplan.Plan: {len(self)} buffers, peak {self.peak} bytes, {state}, planner {self.planner!r}>"

    def _repr_html_(self) -> str:
        from ..draw.notebook import plan_html

        return plan_html(self)

    def __getstate__(self) -> dict[str, Any]:
        kept = {key: value for key, value in self.__dict__.items() if key not in ("program", "_network", "_bound")}
        return {**kept, "source": None}

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
            and self.memories == other.memories
        )

    __hash__ = None  # type: ignore[assignment]
