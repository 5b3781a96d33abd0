"""What a plan records: an offset for every buffer of a problem, and what is known about it."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .. import _core
from ..options.source import Source
from ..printing.units import gap_text
from .beside import beside
from .changes import Change, Fitting
from .failing import LISTED, invalid_plan
from .pools import PlannedPools
from .pricing import Pricing
from .ranged import Ranged
from .slots import Coalescing, Overlap, Slot, Slots
from .steps import Steps

if TYPE_CHECKING:
    from typing_extensions import Self

    from .tensors import Tensors

_WORK_OF_BOUND = 25_000_000  # of a search for the bound of all orders: tenths of a second


@dataclass(frozen=True)
class FiledOrder:
    """What the file of a plan says of orders: the ops by name as they run, and the bound of all orders in bytes."""

    ops: tuple[str, ...]
    bound: int


@dataclass(frozen=True, eq=False, repr=False)
class PlanRecord:
    """A verified layout of one arena.

    Attributes
    ----------
    problem : Problem
        The buffers that were placed.
    offsets : (n,) int64
        Where each buffer begins, in bytes from the beginning of the arena. In the order of the problem's buffers;
        read-only.
    peak : int
        Bytes that the arena needs: the highest offset + size. If kernels' memory was counted, it is in the arena; see
        the option `kernels`. If not, `held` adds it.
    lower_bound : int
        Bytes below which no plan can peak. For a problem, it holds for every placement of its buffers. For a graph, it
        holds in its order of ops and with the given options, whichever tensors share bytes.
    optimal : bool
        True if the peak equals the lower bound: no plan peaks lower, for a graph in this order of its ops.
    placement_bound : int
        Bytes below which no plan of `problem` can peak. For a graph it may be above `lower_bound`, because it holds
        only for the tensors that share bytes in this plan.
    objects : int
        Number of shared objects, for planners that make such, laid end to end; 0 for the others.
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
    pools : PlannedPools or None
        The pools of a plan in several pools, by name. `offsets`, `peak` and the bounds then count all pools as one
        arena, one behind the other; ``plan["x"].pool`` and ``plan["x"].address`` say where a tensor lies.
    ranged : Ranged or None
        For a plan with ``dims`` in a range: what it needs at each size. The plan is that of the largest sizes, and its
        offsets hold for all.
    capacity : int or None
        Bytes that were asked for: the search ended with the first plan that fits. Files of plans do not keep it.
    scratch : mapping of str to int
        By op, the bytes that its kernel is known to allocate above its results, where the arena does not count them.
    """

    problem: _core.Problem
    offsets: npt.NDArray[np.int64]
    peak: int
    lower_bound: int
    optimal: bool
    planner: str
    winner: str
    seconds: float
    objects: int = 0
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
    pools: PlannedPools | None = None
    ranged: Ranged | None = None
    pricing: Pricing | None = None
    capacity: int | None = field(default=None, compare=False)
    scratch: Mapping[str, int] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        if self.placement_bound < 0:
            object.__setattr__(self, "placement_bound", self.lower_bound)

    @classmethod
    def of(
        cls,
        solution: _core.Solution,
        problem: _core.Problem,
        graph: _core.Graph | None = None,
        buffers: _core.Buffers | None = None,
        storage: _core.StorageOptions | None = None,
        source: Source | None = None,
    ) -> Self:
        """The plan that a planner found for a problem, with the graph that the problem came from."""
        return cls(
            problem=problem,
            offsets=solution.offsets,
            peak=solution.peak,
            lower_bound=solution.lower_bound,
            optimal=solution.optimal,
            planner=solution.planner,
            winner=solution.winner,
            seconds=solution.seconds,
            objects=solution.objects,
            graph=graph,
            buffers=buffers,
            interrupted=solution.interrupted,
            found_after=solution.found_after,
            storage=storage,
            placement_bound=solution.placement_bound,
            unshared=None if buffers is None else buffers.unshared,
            source=source,
        )

    @cached_property
    def held(self) -> int:
        """Bytes that a run holds: the arena, and what kernels are known to allocate beside it.

        Not what lies outside of the arena by choice, such as inputs and weights. Equal to `peak` if kernels' memory was
        counted, or if nothing is known of it: it is known for modules of torch on the CPU.
        """
        return self.peak + beside(self)

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

    @cached_property
    def steps(self) -> Steps:
        """When the ops of a graph run: op k at step k, unless outputs may lie over inputs that are still being read."""
        if self.graph is None or self.buffers is None:
            return Steps(len(self.order))
        return Steps(len(self.graph.ops), self.buffers.begin_of_op)

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
    def sharing(self) -> tuple[Coalescing, ...]:
        """The tensors of a graph that share bytes by choice, op by op; see the options `inplace` and `zero_copy`."""
        if self.graph is None or self.buffers is None:
            return ()
        tensors, ops = self.graph.tensors, self.graph.ops
        return tuple(
            Coalescing(how, ops[op].name, tensors[output].name, tensors[source].name, offset)
            for how, op, output, source, offset in self.buffers.shared
        )

    @cached_property
    def overlaps(self) -> tuple[Overlap, ...]:
        """The outputs that lie over inputs which their op is still reading, op by op; see the option `overlap`."""
        if self.graph is None or self.buffers is None:
            return ()
        buffers, found = self.buffers.buffer_of_tensor.tolist(), list[Overlap]()
        for op in self.graph.ops:
            for output, source in product(op.outputs, dict.fromkeys(op.inputs)) if op.ordered else ():
                placed = [buffers[t] for name in (output, source) if (t := self.graph.index(name)) is not None]
                if min(placed) < 0 or placed[0] == placed[1]:
                    continue
                made, read = self[output], self[source]
                common = min(made.end, read.end) - max(made.offset, read.offset)
                if common > 0:
                    found.append(Overlap(op.name, output, source, common))
        return tuple(found)

    @cached_property
    def tensors(self) -> Tensors:
        """Where every placed tensor lies, and when: a mapping from names to slots, and a table with numpy columns."""
        from .tensors import Tensors

        return Tensors(self)

    @cached_property
    def _slots(self) -> Slots:
        return Slots(self.problem, self.offsets, self.graph, self.buffers, self.pools)

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
        if self.pools is not None:
            faults += self.pools.faults(self)
        if faults:
            raise invalid_plan("the plan", faults, limit)

    def __repr__(self) -> str:
        state = gap_text(self.peak, self.lower_bound) + ", interrupted" * self.interrupted
        return f"<memplan.Plan: {len(self)} buffers, peak {self.peak} bytes, {state}, planner {self.planner!r}>"

    def __getstate__(self) -> dict[str, Any]:
        kept = {key: value for key, value in self.__dict__.items() if key not in ("program", "_network", "_bound")}
        return {**kept, "source": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.offsets.flags.writeable = False

    def _identity(self) -> tuple[Any, ...]:
        bounds = (self.lower_bound, self.optimal, self.placement_bound)
        return (self.peak, *bounds, self.planner, self.winner, self.objects, self.interrupted)

    def __eq__(self, other: object) -> bool:
        """Equal in everything but `seconds` and `found_after`."""
        if not isinstance(other, PlanRecord):
            return NotImplemented
        return (
            self._identity() == other._identity()
            and bool(np.array_equal(self.offsets, other.offsets))
            and self.problem == other.problem
            and self.graph == other.graph
            and self.pools == other.pools
        )

    __hash__ = None  # type: ignore[assignment]
