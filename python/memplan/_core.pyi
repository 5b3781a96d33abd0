"""
The C++ core of memplan.
"""

from __future__ import annotations
import collections.abc
import numpy
import numpy.typing
import typing

__all__: list[str] = [
    "AsItIs",
    "Buffers",
    "CachingReplay",
    "CachingRun",
    "CachingSettings",
    "CachingTrace",
    "FitChange",
    "Fitted",
    "FittedPlan",
    "FoundSplit",
    "Graph",
    "GraphError",
    "GraphInPools",
    "HappensBefore",
    "InvalidPlanError",
    "Layout",
    "Loop",
    "Op",
    "Order",
    "OrderInfo",
    "OrderProgress",
    "PART_BEFORE_KEEP",
    "PART_BEFORE_PRICES",
    "Parameter",
    "Piece",
    "PlanInPools",
    "PlanOptions",
    "PlannerInfo",
    "PoolFault",
    "PricedPlan",
    "Problem",
    "ProblemError",
    "PythonPlanner",
    "RangePlan",
    "ReplayFault",
    "Solution",
    "SplitChange",
    "SplitGraph",
    "SplitPlan",
    "StorageOptions",
    "Tensor",
    "TimeLimitError",
    "UnsupportedError",
    "UsedPool",
    "Violation",
    "again_of",
    "at_size",
    "beside_reserved",
    "buffers_of",
    "check_order",
    "check_planner",
    "crossings",
    "find_split",
    "fit_graph",
    "heaviest_clique",
    "keep",
    "lives_of",
    "obstruction",
    "op_costs",
    "op_names",
    "order_bound",
    "order_of",
    "orders",
    "paying_pairs",
    "peak_of",
    "placed_near",
    "plan_graph_pools",
    "plan_pools",
    "planners",
    "pool_faults",
    "positions_of",
    "price_plan",
    "refute",
    "reordered",
    "replay",
    "replay_places",
    "require_alike",
    "rerun_graph",
    "reserve",
    "reserved_by_caching",
    "reuse_edges",
    "reused_by",
    "says_costs",
    "solve_fit",
    "solve_graph",
    "solve_in_order",
    "solve_methods",
    "solve_problem",
    "solve_range",
    "solve_split",
    "split",
    "split_floor",
    "targets_of",
    "verify",
    "why_too_large",
]

class GraphError(ValueError):
    """
    A graph that cannot be; the message names op and tensor.
    """

class ProblemError(ValueError):
    """
    Buffers that cannot be; the message names column and row.
    """

class UnsupportedError(ValueError):
    """
    A feature that a planner or a stage does not support.
    """

class InvalidPlanError(ValueError):
    """
    A plan that breaks its problem or graph; lists how.
    """

class TimeLimitError(TimeoutError):
    """
    A planner that does not search did not end within its time limit, and so has no plan.
    """

class Tensor:
    """
    A value of a graph: name, bytes, kind, and for people its shape and dtype.
    """

    __hash__: typing.ClassVar[None] = None
    def __eq__(self, other: typing.Any) -> bool: ...
    def __init__(
        self,
        name: str,
        bytes: typing.SupportsInt | typing.SupportsIndex,
        kind: str = "intermediate",
        shape: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex] | None = None,
        dtype: str = "",
        permuted: bool = False,
    ) -> None: ...
    def __reduce__(self) -> tuple: ...
    def __repr__(self) -> str: ...
    @property
    def bytes(self) -> int: ...
    @property
    def dtype(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def permuted(self) -> bool:
        """
        Whether its axes lie in memory in another order than in the shape.
        """
    @property
    def shape(self) -> list[int] | None: ...

class Loop:
    """
    Along which rows an op goes while it runs. Inputs and outputs are positions in the op.

    reads are (input, first axis, last axis, step, window, before, per); of the last four, rows are the
    first three over the fourth. writes are (output, first axis, last axis, step); early are (output,
    inputs); statistics are (inputs, bytes), or None. A piece needs workspace bytes of the op's workspace whole,
    and its share of the rest. It copies rows of inputs that are copied, where they lie scattered.
    """

    __hash__: typing.ClassVar[None] = None
    def __eq__(self, other: typing.Any) -> bool: ...
    def __init__(
        self,
        extent: typing.SupportsInt | typing.SupportsIndex,
        reads: collections.abc.Sequence[
            tuple[
                typing.SupportsInt | typing.SupportsIndex,
                typing.SupportsInt | typing.SupportsIndex,
                typing.SupportsInt | typing.SupportsIndex,
                typing.SupportsInt | typing.SupportsIndex,
                typing.SupportsInt | typing.SupportsIndex,
                typing.SupportsInt | typing.SupportsIndex,
                typing.SupportsInt | typing.SupportsIndex,
            ]
        ] = [],
        writes: collections.abc.Sequence[
            tuple[
                typing.SupportsInt | typing.SupportsIndex,
                typing.SupportsInt | typing.SupportsIndex,
                typing.SupportsInt | typing.SupportsIndex,
                typing.SupportsInt | typing.SupportsIndex,
            ]
        ] = [],
        sums: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex] = [],
        early: collections.abc.Sequence[
            tuple[
                typing.SupportsInt | typing.SupportsIndex,
                collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex],
            ]
        ] = [],
        statistics: tuple[
            collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex],
            typing.SupportsInt | typing.SupportsIndex,
        ]
        | None = None,
        workspace: typing.SupportsInt | typing.SupportsIndex = 0,
        copied: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex] = [],
    ) -> None: ...
    def __reduce__(self) -> tuple: ...
    def __repr__(self) -> str: ...
    @property
    def copied(self) -> list[int]: ...
    @property
    def early(self) -> list[tuple[int, list[int]]]: ...
    @property
    def extent(self) -> int: ...
    @property
    def reads(self) -> list[tuple[int, int, int, int, int, int, int]]: ...
    @property
    def statistics(self) -> tuple[list[int], int] | None: ...
    @property
    def sums(self) -> list[int]: ...
    @property
    def workspace(self) -> int: ...
    @property
    def writes(self) -> list[tuple[int, int, int, int]]: ...

class Op:
    """
    A step of a graph. Tensors are referred to by name; relations are (output, input, offset): aliases, inplace,
    overwrites and slices put output inside input, offset bytes from its beginning; concats put input
    inside output. workspace is in bytes; `after` names ops that must have run before.
    """

    __hash__: typing.ClassVar[None] = None
    def __eq__(self, other: typing.Any) -> bool: ...
    def __init__(
        self,
        name: str,
        type: str = "",
        inputs: collections.abc.Sequence[str] = [],
        outputs: collections.abc.Sequence[str] = [],
        workspace: typing.SupportsInt | typing.SupportsIndex = 0,
        aliases: collections.abc.Sequence[tuple[str, str, typing.SupportsInt | typing.SupportsIndex]] = [],
        inplace: collections.abc.Sequence[tuple[str, str, typing.SupportsInt | typing.SupportsIndex]] = [],
        overwrites: collections.abc.Sequence[tuple[str, str, typing.SupportsInt | typing.SupportsIndex]] = [],
        stream: typing.SupportsInt | typing.SupportsIndex = 0,
        slices: collections.abc.Sequence[tuple[str, str, typing.SupportsInt | typing.SupportsIndex]] = [],
        concats: collections.abc.Sequence[tuple[str, str, typing.SupportsInt | typing.SupportsIndex]] = [],
        after: collections.abc.Sequence[str] = [],
        cost: typing.SupportsFloat | typing.SupportsIndex | None = None,
        recompute: bool = True,
        branch: str = "",
        flops: typing.SupportsFloat | typing.SupportsIndex | None = None,
        loops: collections.abc.Sequence[Loop] = [],
        ordered: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex] = [],
        reads_first: bool = False,
        body: str = "",
        pieces_copied: bool = False,
    ) -> None: ...
    def __reduce__(self) -> tuple: ...
    def __repr__(self) -> str: ...
    @property
    def after(self) -> list[str]:
        """
        Names of ops that must have run before.
        """
    @property
    def aliases(self) -> list[tuple[str, str, int]]: ...
    @property
    def body(self) -> str:
        """
        Of a loop in which it runs, such as 'loop1'; empty: in none.
        """
    @property
    def branch(self) -> str:
        """
        In which it runs, such as 'if1/then'; empty: in every run.
        """
    @property
    def concats(self) -> list[tuple[str, str, int]]: ...
    @property
    def cost(self) -> float | None:
        """
        Of running it, in any unit; None where nothing is said.
        """
    @property
    def flops(self) -> float | None:
        """
        Floating-point operations; None where nothing is said.
        """
    @property
    def inplace(self) -> list[tuple[str, str, int]]: ...
    @property
    def inputs(self) -> list[str]: ...
    @property
    def loops(self) -> list[Loop]:
        """
        Loops, along each of which it may run in pieces.
        """
    @property
    def name(self) -> str: ...
    @property
    def ordered(self) -> list[int]:
        """
        Positions in `loops`: its kernel runs these in ascending order, the outermost first.
        """
    @property
    def outputs(self) -> list[str]: ...
    @property
    def overwrites(self) -> list[tuple[str, str, int]]: ...
    @property
    def pieces_copied(self) -> bool:
        """
        Whether rows that lie scattered in memory are computed apart, and then copied there.
        """
    @property
    def reads_first(self) -> bool:
        """
        Whether an iteration of these reads all that it reads before it writes.
        """
    @property
    def recompute(self) -> bool:
        """
        Whether it may run again: it gives what it gave before.
        """
    @property
    def slices(self) -> list[tuple[str, str, int]]: ...
    @property
    def stream(self) -> int: ...
    @property
    def type(self) -> str: ...
    @property
    def workspace(self) -> int: ...

class Layout:
    """
    What is asked of where the tensors and workspaces of a graph lie, by name; see memplan.plan.
    """

    __hash__: typing.ClassVar[None] = None
    def __bool__(self) -> bool: ...
    def __eq__(self, other: typing.Any) -> bool: ...
    def __init__(
        self,
        pins: collections.abc.Sequence[tuple[str, typing.SupportsInt | typing.SupportsIndex]] = [],
        reserved: collections.abc.Sequence[
            tuple[
                typing.SupportsInt | typing.SupportsIndex,
                typing.SupportsInt | typing.SupportsIndex,
                typing.SupportsInt | typing.SupportsIndex,
                typing.SupportsInt | typing.SupportsIndex,
            ]
        ] = [],
        together: collections.abc.Sequence[tuple[str, str, typing.SupportsInt | typing.SupportsIndex]] = [],
        apart: collections.abc.Sequence[tuple[str, str]] = [],
        exclude: collections.abc.Sequence[str] = [],
        pool_pins: collections.abc.Sequence[tuple[str, str, typing.SupportsInt | typing.SupportsIndex]] = [],
        pool_reserved: collections.abc.Sequence[
            tuple[
                str,
                typing.SupportsInt | typing.SupportsIndex,
                typing.SupportsInt | typing.SupportsIndex,
                typing.SupportsInt | typing.SupportsIndex,
                typing.SupportsInt | typing.SupportsIndex,
            ]
        ] = [],
    ) -> None: ...
    def __reduce__(self) -> tuple: ...
    @property
    def apart(self) -> list[tuple[str, str]]:
        """
        Pairs that never share bytes.
        """
    @property
    def exclude(self) -> list[str]:
        """
        Tensors that have no place in the arena.
        """
    @property
    def pins(self) -> list[tuple[str, int]]:
        """
        (name, offset).
        """
    @property
    def pool_pins(self) -> list[tuple[str, str, int]]:
        """
        (name, pool, offset there).
        """
    @property
    def pool_reserved(self) -> list[tuple[str, int, int, int, int]]:
        """
        (pool, begin, end, first, last).
        """
    @property
    def reserved(self) -> list[tuple[int, int, int, int]]:
        """
        (begin, end, first, last).
        """
    @property
    def together(self) -> list[tuple[str, str, int]]:
        """
        (a, b, distance): b begins so many bytes after a.
        """

class Graph:
    """
    Tensors, ops in execution order and graph outputs; validated and immutable.

    Raises GraphError, naming op and tensor, for unknown or repeated names, a tensor written twice or never,
    a use before its producer, cycles, negative sizes and views outside their root.
    """

    __hash__: typing.ClassVar[None] = None
    def __eq__(self, other: typing.Any) -> bool: ...
    def __init__(
        self,
        tensors: collections.abc.Sequence[Tensor],
        ops: collections.abc.Sequence[Op],
        outputs: collections.abc.Sequence[str] = [],
        layout: Layout = ...,
    ) -> None: ...
    def __reduce__(self) -> tuple: ...
    def __repr__(self) -> str: ...
    def _repr_html_(self) -> str:
        """
        Tensors by kind, ops by type, and the load over the steps.
        """
    def index(self, name: str) -> int | None:
        """
        Position of a tensor in `tensors`; None when there is none.
        """
    def tensor(self, index: typing.SupportsInt | typing.SupportsIndex) -> Tensor:
        """
        The tensor at that position in `tensors`.
        """
    def to_dict(self) -> dict[str, typing.Any]:
        """
        The graph as a graph dict.
        """
    @property
    def layout(self) -> Layout:
        """
        What is asked of where tensors and workspaces lie.
        """
    @property
    def ops(self) -> list[Op]:
        """
        All ops; op k runs at step k.
        """
    @property
    def outputs(self) -> list[str]:
        """
        Names of the graph's outputs.
        """
    @property
    def tensors(self) -> list[Tensor]:
        """
        All tensors, as declared.
        """

class HappensBefore:
    """
    Which ops have ended when others begin, in every order in which they may run.
    """
    def __init__(self, graph: Graph) -> None: ...
    def before(
        self, a: typing.SupportsInt | typing.SupportsIndex, b: typing.SupportsInt | typing.SupportsIndex
    ) -> bool:
        """
        Whether op a has ended when op b begins, by their positions.
        """

class Problem:
    """
    Buffers to be placed: buffer i has size[i] bytes, lives in the half-open steps [first[i], last[i]), and its
    offset must be a multiple of alignment[i].

    Parameters
    ----------
    size, first, last : (n,) int64
        Bytes, first step, and the step after the last: any arrays or sequences of integers. They are copied.
        first and last may be (n, k): the vector clocks, of k numbers, of the events at which a buffer begins and
        ends. An event happens before another if none of its numbers is above the other's, and one is below.
    alignment : int or (n,) int64
        Bytes, >= 1.
    names : sequence of str, optional
        One name per buffer.
    parts : (m, 5) int64, optional
        Rows (buffer, begin, end, first, last): a buffer that has some is in use only there, at its bytes
        [begin, end) in the steps [first, last). They lie within its size and life and do not overlap.
    conflicts : (m, 2) int64, optional
        Pairs of buffers that may not share bytes whatever their lifetimes.
    happens_before : (m, 2) int64, optional
        Pairs of steps (earlier, later), the earlier with the lower number. Then steps are events in a partial
        order: what these pairs and all that follows from them say. A buffer takes another's bytes only if its
        first event is the other's last, or comes after that. What else is apart becomes `conflicts`. So it does
        with vector clocks, and `first` and `last` are then ranks of the clocks.
    pins : (n,) int64, optional
        Per buffer its offset, -1 where the planner is free to choose.
    reserved : (m, 4) int64, optional
        Rows (begin, end, first, last): bytes [begin, end) of the arena that no buffer may use in the steps
        [first, last). The least and the largest int64 as steps stand for always.
    together : (m, 3) int64, optional
        Rows (a, b, distance): buffer b begins so many bytes after buffer a, or before it if negative.
    branches : sequence of str, optional
        Per buffer the branch in which alone it exists, such as 'if1/then', or 'if1/then/if2/else' for a switch
        inside of it; '' where it exists in every run. Buffers of two branches of one switch may share bytes
        whatever their lifetimes.

    Raises
    ------
    ProblemError
        Naming column and row: unequal lengths, size < 0, last <= first, alignment < 1, or sizes
        that add up to more than int64.
    """

    __hash__: typing.ClassVar[None] = None
    def __eq__(self, other: typing.Any) -> bool: ...
    def __init__(
        self,
        size: typing.Any,
        first: typing.Any,
        last: typing.Any,
        alignment: typing.Any = 1,
        names: typing.Any = None,
        parts: typing.Any = None,
        conflicts: typing.Any = None,
        happens_before: typing.Any = None,
        pins: typing.Any = None,
        reserved: typing.Any = None,
        together: typing.Any = None,
        branches: typing.Any = None,
    ) -> None: ...
    def __len__(self) -> int: ...
    def __reduce__(self) -> tuple: ...
    def __repr__(self) -> str: ...
    def _repr_html_(self) -> str:
        """
        Counts, bytes, and the load over the steps.
        """
    def load_curve(self) -> tuple[numpy.typing.NDArray[numpy.int64], numpy.typing.NDArray[numpy.int64]]:
        """
        The load over time as a staircase: (step, bytes), two int64 arrays; bytes[k] are alive in
        [step[k], step[k + 1]), and the last entry is 0.
        """
    def name(self, buffer: typing.SupportsInt | typing.SupportsIndex) -> str:
        """
        The buffer's name, or '#i' where buffers have none.
        """
    def replace(self, **kwargs: typing.Any) -> Problem:
        """
        The same problem, with these columns in the place of its own: by the names that they have when a Problem is
        made, but for happens_before, which has become conflicts.
        """
    def subset(self, buffers: typing.Any) -> Problem:
        """
        Some of the buffers, in this order, with all that holds of and among them, and with what is reserved.
        """
    def with_branches(self, branches: typing.Any = None) -> Problem:
        """
        The same buffers, in these branches instead of those that they are in.
        """
    def with_conflicts(self, conflicts: typing.Any = None) -> Problem:
        """
        The same buffers, with these conflicts instead of those that they have.
        """
    def with_pins(self, pins: typing.Any = None, reserved: typing.Any = None) -> Problem:
        """
        The same buffers, with these pins and reserved bytes instead of those that they have.
        """
    def with_together(self, together: typing.Any = None) -> Problem:
        """
        The same buffers, which lie together as these rows say instead of as they did.
        """
    @property
    def aligned_load(self) -> int:
        """
        The load with the gaps that alignments leave at one step: no plan peaks below it.
        """
    @property
    def alignment(self) -> numpy.typing.NDArray[numpy.int64]: ...
    @property
    def branches(self) -> list[str] | None:
        """
        The branch of each buffer, '' where it exists in every run; None where all do.
        """
    @property
    def conflicts(self) -> numpy.typing.NDArray[numpy.int64] | None:
        """
        (m, 2) int64: what conflicts beyond lifetimes, or None when nothing does.
        """
    @property
    def first(self) -> numpy.typing.NDArray[numpy.int64]: ...
    @property
    def last(self) -> numpy.typing.NDArray[numpy.int64]: ...
    @property
    def load(self) -> int:
        """
        The largest sum of bytes alive at one step: no plan peaks below it.
        """
    @property
    def names(self) -> list[str]:
        """
        Names, or an empty list.
        """
    @property
    def parts(self) -> numpy.typing.NDArray[numpy.int64] | None:
        """
        (m, 5) int64, or None when all buffers are plain rectangles.
        """
    @property
    def pins(self) -> numpy.typing.NDArray[numpy.int64] | None:
        """
        (n,) int64, -1 where a buffer is free; None when all are.
        """
    @property
    def reserved(self) -> numpy.typing.NDArray[numpy.int64] | None:
        """
        (m, 4) int64, or None when no bytes are reserved.
        """
    @property
    def size(self) -> numpy.typing.NDArray[numpy.int64]: ...
    @property
    def together(self) -> numpy.typing.NDArray[numpy.int64] | None:
        """
        (m, 3) int64, or None when no buffers lie together.
        """

class CachingSettings:
    """
    What PYTORCH_ALLOC_CONF sets, in bytes; see memplan/caching.hpp.
    """
    def __init__(
        self,
        *,
        max_split_size: typing.SupportsInt | typing.SupportsIndex = 9223372036854775807,
        max_non_split_rounding: typing.SupportsInt | typing.SupportsIndex = 20971520,
        large_segment: typing.SupportsInt | typing.SupportsIndex = 20971520,
        roundup_divisions: typing.Annotated[
            collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex], "FixedSize(16)"
        ] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        garbage_collection_threshold: typing.SupportsFloat | typing.SupportsIndex = 0.0,
        expandable_segments: bool = False,
        limit: typing.SupportsInt | typing.SupportsIndex = 9223372036854775807,
        capacity: typing.SupportsInt | typing.SupportsIndex = 9223372036854775807,
        preallocated: typing.SupportsInt | typing.SupportsIndex = 0,
        ties: str = "segment",
    ) -> None: ...
    def rounded(self, size: typing.SupportsInt | typing.SupportsIndex) -> int:
        """
        The bytes of a block for a request.
        """
    @property
    def large_segment(self) -> int: ...

class CachingReplay:
    """
    A replay with the settings and addresses of a record.
    """
    @property
    def allocated(self) -> int: ...
    @property
    def allocated_after(self) -> numpy.typing.NDArray[numpy.int64]: ...
    @property
    def allocations(self) -> int: ...
    @property
    def before(self) -> int: ...
    @property
    def contradiction(self) -> str: ...
    @property
    def contradictions(self) -> int: ...
    @property
    def equal_addresses(self) -> int: ...
    @property
    def equal_segments(self) -> int: ...
    @property
    def parts_at(self) -> int: ...
    @property
    def parts_because(self) -> str: ...
    @property
    def recorded_after(self) -> numpy.typing.NDArray[numpy.int64]: ...
    @property
    def recorded_reserved(self) -> int: ...
    @property
    def reserved(self) -> int: ...
    @property
    def reserved_after(self) -> numpy.typing.NDArray[numpy.int64]: ...
    @property
    def segments(self) -> int: ...

class CachingRun:
    """
    What a run of requests reserves.
    """
    @property
    def allocated(self) -> int: ...
    @property
    def allocated_after(self) -> numpy.typing.NDArray[numpy.int64]: ...
    @property
    def peak_at(self) -> int: ...
    @property
    def ran_out_at(self) -> int: ...
    @property
    def reserved(self) -> int: ...
    @property
    def reserved_after(self) -> numpy.typing.NDArray[numpy.int64]: ...
    @property
    def retries(self) -> int: ...

class CachingTrace:
    """
    What torch recorded of one device, to be replayed and run again.
    """
    def __init__(
        self,
        *,
        pools: typing.Any,
        events: typing.Any,
        segments: typing.Any,
        blocks: typing.Any,
        large_segment: typing.SupportsInt | typing.SupportsIndex = 20971520,
    ) -> None:
        """
        Tables of int64: pools (stream, group), events (action, address, size, pool), segments (address, size,
        pool, small, expandable), blocks (address, size, requested, pool).
        """
    def replay(self, settings: CachingSettings) -> CachingReplay:
        """
        The replay with the settings of the record, to the address.
        """
    def reserve(self, settings: CachingSettings) -> CachingRun:
        """
        A run of the same requests, with other settings.
        """
    def state_after(
        self, settings: CachingSettings, event: typing.SupportsInt | typing.SupportsIndex, *, as_recorded: bool
    ) -> dict:
        """
        Segments and blocks after an event, by column.
        """

class Parameter:
    """
    A number or a word that a planner takes, as in 'beam:k=16'.
    """
    @property
    def least(self) -> int: ...
    @property
    def most(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def standard(self) -> int | str:
        """
        The value used unless another is given.
        """
    @property
    def title(self) -> str: ...
    @property
    def words(self) -> list[str]:
        """
        The words that it can be; empty for a number in [least, most].
        """

class PlannerInfo:
    """
    A row of the registry: what a planner is, supports, and comes from.
    """
    def __repr__(self) -> str: ...
    @property
    def alias(self) -> str:
        """
        Another name that it goes by; empty for none.
        """
    @property
    def complexity(self) -> str:
        """
        For n buffers and r separate byte ranges in use at a time.
        """
    @property
    def exact(self) -> bool:
        """
        Whether it finds an optimum, given time.
        """
    @property
    def name(self) -> str: ...
    @property
    def parameters(self) -> list[Parameter]: ...
    @property
    def source(self) -> str:
        """
        Document, paper or project.
        """
    @property
    def supports(self) -> list[str]:
        """
        Names of the features that it supports.
        """
    @property
    def title(self) -> str: ...

class PythonPlanner:
    """
    A planner written in Python, as the core runs it. `run` is called with (problem, time_limit,
    seed, threads, capacity, settings, tell) and gives (offsets, lower_bound, objects, interrupted).
    """
    def __init__(
        self,
        name: str,
        package: str,
        supports: collections.abc.Sequence[str],
        parameters: collections.abc.Sequence[
            tuple[
                str,
                typing.SupportsInt | typing.SupportsIndex,
                typing.SupportsInt | typing.SupportsIndex,
                typing.SupportsInt | typing.SupportsIndex,
                collections.abc.Sequence[str],
            ]
        ],
        run: collections.abc.Callable,
    ) -> None: ...

class PlanOptions:
    """
    What a planner is asked for, whole; see memplan/plan_options.hpp. `in_python` is the planner that `planner`
    names, where it is written in Python. A search begins where buffers were: `earlier` has offsets by name, for
    graphs, and `warm` one per buffer, for problems, -1 for one that is new. `tell` is called with each better
    plan, and `on_order` with each OrderProgress. Interruptible, Ctrl-C ends a search with what was found, on the
    main thread.
    """
    def __init__(
        self,
        planner: str = "auto",
        in_python: PythonPlanner | None = None,
        time_limit: typing.SupportsFloat | typing.SupportsIndex | None = None,
        seed: typing.SupportsInt | typing.SupportsIndex = 0,
        threads: typing.SupportsInt | typing.SupportsIndex = 1,
        capacity: typing.SupportsInt | typing.SupportsIndex | None = None,
        lower_bound: typing.SupportsInt | typing.SupportsIndex = 0,
        earlier: collections.abc.Mapping[str, typing.SupportsInt | typing.SupportsIndex] | None = None,
        warm: typing.Any | None = None,
        tell: typing.Any = None,
        on_order: typing.Any = None,
        interruptible: bool = False,
    ) -> None: ...

class StorageOptions:
    """
    What may be done with a graph's memory; see memplan.plan.
    """
    def __init__(
        self,
        place: collections.abc.Sequence[str] = ["intermediate", "output", "workspace"],
        alignment: typing.SupportsInt | typing.SupportsIndex = 1,
        inplace: bool = True,
        disable_inplace_ops: collections.abc.Sequence[str] = [],
        donate: collections.abc.Sequence[str] = [],
        zero_copy: bool = True,
    ) -> None: ...
    def __reduce__(self) -> tuple: ...
    @property
    def alignment(self) -> int: ...
    @property
    def disable_inplace_ops(self) -> list[str]: ...
    @property
    def donate(self) -> list[str]: ...
    @property
    def inplace(self) -> bool: ...
    @property
    def place(self) -> list[str]: ...
    @property
    def zero_copy(self) -> bool: ...

class Buffers:
    """
    The problem of a graph, and the way back from its buffers to tensors and ops.
    """
    def __init__(
        self,
        problem: Problem,
        buffer_of_tensor: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex],
        offset_in_buffer: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex],
        root_of_tensor: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex],
        buffer_of_workspace: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex],
        shared: collections.abc.Sequence[
            tuple[
                str,
                typing.SupportsInt | typing.SupportsIndex,
                typing.SupportsInt | typing.SupportsIndex,
                typing.SupportsInt | typing.SupportsIndex,
                typing.SupportsInt | typing.SupportsIndex,
            ]
        ],
        donated: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex],
        unshared: typing.SupportsInt | typing.SupportsIndex,
        begin_of_op: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex] = [],
    ) -> None: ...
    def __reduce__(self) -> tuple: ...
    @property
    def begin_of_op(self) -> numpy.typing.NDArray[numpy.int64]:
        """
        (ops + 1,) int64: the first step of each op, and the end; empty where op k is step k.
        """
    @property
    def buffer_of_tensor(self) -> numpy.typing.NDArray[numpy.int32]:
        """
        (tensors,) int32; -1 where the tensor is not placed.
        """
    @property
    def buffer_of_workspace(self) -> numpy.typing.NDArray[numpy.int32]:
        """
        (ops,) int32; -1 where the op has no placed workspace.
        """
    @property
    def donated(self) -> list[int]:
        """
        Positions of the graph inputs whose bytes may be taken.
        """
    @property
    def offset_in_buffer(self) -> numpy.typing.NDArray[numpy.int64]:
        """
        (tensors,) int64, bytes.
        """
    @property
    def problem(self) -> Problem: ...
    @property
    def root_of_tensor(self) -> numpy.typing.NDArray[numpy.int32]:
        """
        (tensors,) int32: the tensor that owns the bytes, itself unless it shares another's.
        """
    @property
    def shared(self) -> list[tuple[str, int, int, int, int]]:
        """
        What shares bytes by choice: (how, op, output, input, offset), how being 'inplace',
        'slice' or 'concat', the others positions in the graph, and bytes.
        """
    @property
    def unshared(self) -> int:
        """
        Bytes that would be placed if nothing shared bytes by choice, summed up.
        """

class Order:
    """
    An order of a graph's ops; see memplan/order.hpp.
    """
    @property
    def bound(self) -> int: ...
    @property
    def found_by(self) -> str: ...
    @property
    def graph(self) -> Graph:
        """
        The graph in that order; None where it is the given one.
        """
    @property
    def interrupted(self) -> bool: ...
    @property
    def load(self) -> int: ...
    @property
    def ops(self) -> list[int]: ...

class OrderProgress:
    """
    What a search for an order of the ops has found so far.
    """
    def __repr__(self) -> str: ...
    @property
    def bound(self) -> int:
        """
        Bytes that every order needs; 0 if nothing is proven.
        """
    @property
    def found_by(self) -> str:
        """
        The rule or search that found the best order.
        """
    @property
    def needed(self) -> int:
        """
        Bytes that this order needs: each content counts once, whatever tensors share bytes.
        """

class OrderInfo:
    """
    A row of the table of orders: what an order is, and where it comes from.
    """
    def __repr__(self) -> str: ...
    @property
    def complexity(self) -> str:
        """
        For n ops and m waits between them.
        """
    @property
    def name(self) -> str: ...
    @property
    def parameters(self) -> list[Parameter]: ...
    @property
    def source(self) -> str:
        """
        Paper or project.
        """
    @property
    def title(self) -> str: ...

class Solution:
    """
    What a planner found: offsets and what is known about them.
    """
    @property
    def found_after(self) -> float: ...
    @property
    def interrupted(self) -> bool:
        """
        It was asked to end before it was done.
        """
    @property
    def lower_bound(self) -> int: ...
    @property
    def objects(self) -> int:
        """
        Shared objects that the planner thought in; 0 when it does not.
        """
    @property
    def offsets(self) -> numpy.typing.NDArray[numpy.int64]:
        """
        (n,) int64, bytes; read-only.
        """
    @property
    def optimal(self) -> bool: ...
    @property
    def peak(self) -> int: ...
    @property
    def placement_bound(self) -> int: ...
    @property
    def planner(self) -> str: ...
    @property
    def seconds(self) -> float: ...
    @property
    def winner(self) -> str: ...

class UsedPool:
    """
    A pool with what lies in it; see pools.hpp.
    """
    @property
    def accessed(self) -> int: ...
    @property
    def begin(self) -> int: ...
    @property
    def buffers(self) -> int: ...
    @property
    def lower_bound(self) -> int: ...
    @property
    def peak(self) -> int: ...

class PlanInPools:
    """
    Which buffer lies in which pool, and where; see pools.hpp.
    """
    @property
    def accessed(self) -> list[int]: ...
    @property
    def cost_bound(self) -> int: ...
    @property
    def pins(self) -> list[tuple[int, int, int]]: ...
    @property
    def plan(self) -> Solution: ...
    @property
    def pool(self) -> numpy.typing.NDArray[numpy.int32]: ...
    @property
    def pools(self) -> list[UsedPool]: ...
    @property
    def problem(self) -> Problem: ...
    @property
    def reserved(self) -> list[tuple[int, int, int, int, int]]: ...
    @property
    def takes(self) -> numpy.typing.NDArray[numpy.bool]:
        """
        Which pools take which buffers: (n, pools) bool.
        """

class GraphInPools:
    """
    The plan of a graph in several pools; see pools.hpp.
    """
    @property
    def buffers(self) -> Buffers: ...
    @property
    def found(self) -> PlanInPools: ...
    @property
    def graph(self) -> Graph: ...
    @property
    def order_bound(self) -> int: ...

class PoolFault:
    """
    What is wrong with a plan in several pools.
    """
    @property
    def message(self) -> str: ...

class RangePlan:
    """
    One plan of a network at several sizes; see memplan/ranges.hpp.
    """
    @property
    def buffers(self) -> Buffers: ...
    @property
    def graph(self) -> Graph:
        """
        Of the largest sizes, in the order of the plan.
        """
    @property
    def order_bound(self) -> int:
        """
        Of all orders.
        """
    @property
    def plan(self) -> Solution: ...

class FitChange:
    """
    A tensor that comes back before an op; see memplan/fit.hpp.
    """
    @property
    def after(self) -> str: ...
    @property
    def before(self) -> str: ...
    @property
    def bytes(self) -> int: ...
    @property
    def cost(self) -> float: ...
    @property
    def moved(self) -> bool: ...
    @property
    def ops(self) -> list[str]: ...
    @property
    def tensors(self) -> list[str]: ...

class Fitted:
    """
    A graph whose load is within a capacity; see memplan/fit.hpp.
    """
    @property
    def added_cost(self) -> float: ...
    @property
    def changes(self) -> list[FitChange]: ...
    @property
    def cost_bound(self) -> float: ...
    @property
    def graph(self) -> Graph: ...
    @property
    def interrupted(self) -> bool: ...
    @property
    def load(self) -> int: ...
    @property
    def load_bound(self) -> int: ...

class AsItIs:
    """
    A graph as it is planned where nothing is given up, and the options of that plan.
    """
    def __init__(self, graph: Graph, storage: StorageOptions) -> None: ...

class FittedPlan:
    """
    A plan of a graph that was made to fit; see memplan/solve_fit.hpp.
    """
    @property
    def added_cost(self) -> float: ...
    @property
    def as_it_is(self) -> bool: ...
    @property
    def buffers(self) -> Buffers: ...
    @property
    def changes(self) -> list[FitChange]: ...
    @property
    def cost_bound(self) -> float: ...
    @property
    def graph(self) -> Graph: ...
    @property
    def load_bound(self) -> int: ...
    @property
    def plan(self) -> Solution: ...
    @property
    def reordered(self) -> bool: ...

class Piece:
    """
    What an op of a split graph does: 'whole', 'part', 'statistics', 'early', 'keep' or 'gather'. `of` is an op of the
    graph. Reads and writes are (tensor of the split graph, None or (first axis, last axis, begin, end, base)).
    statistics is the tensor of the split graph that they are in, read or made; None if there are none.
    """
    def __init__(
        self,
        does: str,
        of: typing.SupportsInt | typing.SupportsIndex,
        loop: typing.SupportsInt | typing.SupportsIndex,
        iterations: tuple[typing.SupportsInt | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex],
        reads: collections.abc.Sequence[
            tuple[
                typing.SupportsInt | typing.SupportsIndex,
                tuple[
                    typing.SupportsInt | typing.SupportsIndex,
                    typing.SupportsInt | typing.SupportsIndex,
                    typing.SupportsInt | typing.SupportsIndex,
                    typing.SupportsInt | typing.SupportsIndex,
                    typing.SupportsInt | typing.SupportsIndex,
                ]
                | None,
            ]
        ],
        writes: collections.abc.Sequence[
            tuple[
                typing.SupportsInt | typing.SupportsIndex,
                tuple[
                    typing.SupportsInt | typing.SupportsIndex,
                    typing.SupportsInt | typing.SupportsIndex,
                    typing.SupportsInt | typing.SupportsIndex,
                    typing.SupportsInt | typing.SupportsIndex,
                    typing.SupportsInt | typing.SupportsIndex,
                ]
                | None,
            ]
        ],
        statistics: typing.SupportsInt | typing.SupportsIndex | None = None,
    ) -> None: ...
    def __reduce__(self) -> tuple: ...
    @property
    def does(self) -> str: ...
    @property
    def iterations(self) -> tuple[int, int]: ...
    @property
    def loop(self) -> int: ...
    @property
    def of(self) -> int: ...
    @property
    def reads(self) -> list: ...
    @property
    def statistics(self) -> int | None: ...
    @property
    def writes(self) -> list: ...

class SplitGraph:
    """
    A graph with ops in pieces, and what each of its ops does.
    """
    @property
    def graph(self) -> Graph: ...
    @property
    def kept_bytes(self) -> int: ...
    @property
    def pieces(self) -> list[Piece]: ...

class SplitChange:
    """
    A region of ops that runs in pieces; see memplan/solve_split.hpp.
    """
    @property
    def again(self) -> list[str]: ...
    @property
    def blocks(self) -> list[str]: ...
    @property
    def bytes(self) -> int: ...
    @property
    def cost(self) -> float: ...
    @property
    def kept(self) -> int: ...
    @property
    def loops(self) -> list[int | None]: ...
    @property
    def ops(self) -> list[str]: ...
    @property
    def over(self) -> list[tuple[str, str]]: ...
    @property
    def pieces(self) -> int: ...
    @property
    def reruns(self) -> list[str]: ...
    @property
    def tensors(self) -> list[str]: ...

class SplitPlan:
    """
    A plan of a graph with ops in pieces; see memplan/solve_split.hpp.
    """
    @property
    def fitted(self) -> FittedPlan: ...
    @property
    def pieces(self) -> list[Piece]: ...
    @property
    def split(self) -> Graph: ...
    @property
    def splits(self) -> list[SplitChange]: ...
    @property
    def whole(self) -> Graph: ...

class FoundSplit:
    """
    A graph with ops in pieces, of as little load as was found.
    """
    @property
    def added_cost(self) -> float: ...
    @property
    def changes(self) -> list[SplitChange]: ...
    @property
    def graph(self) -> Graph: ...
    @property
    def load(self) -> int: ...
    @property
    def pieces(self) -> list[Piece]: ...

class PricedPlan:
    """
    A plan, and what its pairs pay that share bytes; see pricing.hpp.
    """
    @property
    def found_after(self) -> float: ...
    @property
    def interrupted(self) -> bool: ...
    @property
    def offsets(self) -> numpy.typing.NDArray[numpy.int64]: ...
    @property
    def peak(self) -> int: ...
    @property
    def peak_bound(self) -> int: ...
    @property
    def price(self) -> int: ...
    @property
    def price_bound(self) -> int: ...
    @property
    def seconds(self) -> float: ...

class Violation:
    """
    One way in which a plan breaks its problem.
    """
    def __repr__(self) -> str: ...
    def __str__(self) -> str: ...
    @property
    def buffer(self) -> int:
        """
        Position of the buffer.
        """
    @property
    def kind(self) -> str:
        """
        'overlap', 'misaligned', 'outside', 'moved' (from its pin) or 'reserved'.
        """
    @property
    def message(self) -> str: ...
    @property
    def other(self) -> int | None:
        """
        Position of the second buffer of an overlap, or None.
        """

class ReplayFault:
    """
    A step of a graph at which a plan has destroyed a value.
    """
    def __repr__(self) -> str: ...
    def __str__(self) -> str: ...
    @property
    def message(self) -> str: ...
    @property
    def op(self) -> int:
        """
        Position of the op; the number of ops for what the caller gets at the end.
        """
    @property
    def tensor(self) -> int | None:
        """
        Position of the tensor; None for a workspace.
        """

def again_of(graph: Graph) -> list[str]:
    """
    What running each op again does: same, changes or never.
    """

def at_size(range: RangePlan, graph: tuple[str, Graph]) -> tuple[Graph, Buffers, Solution, int, int]:
    """
    The plan at one size: graph, buffers, plan; bytes used with the offsets of the range; the position of the
    sizes whose order of buffers it has. Verified.
    """

def beside_reserved(graph: Graph, bytes: typing.SupportsInt | typing.SupportsIndex) -> int:
    """
    The lowest address below which so many bytes lie beside what is reserved at all steps.
    """

def buffers_of(graph: Graph, options: StorageOptions = ...) -> Buffers:
    """
    The problem of a graph: storages, lifetimes and conflicts.
    """

def check_order(order: str) -> None:
    """
    Raises ValueError where the text asks for no order.
    """

def check_planner(planner: str, in_python: PythonPlanner | None = None) -> None:
    """
    Raises ValueError where the text asks for no planner, or gives it what it does not take.
    """

def crossings(
    methods: collections.abc.Sequence[tuple[str, Graph | None, Buffers | None, Problem, typing.Any]],
    shared: collections.abc.Sequence[
        tuple[
            str,
            typing.SupportsInt | typing.SupportsIndex,
            typing.SupportsInt | typing.SupportsIndex,
            collections.abc.Sequence[collections.abc.Sequence[str]],
        ]
    ],
    peak: typing.SupportsInt | typing.SupportsIndex,
) -> list[str]:
    """
    What is wrong across methods, rows (name, graph, buffers, problem, offsets), in an arena of so many bytes:
    rows of `shared` are (name, bytes, offset, per method its tensors there).
    """

def find_split(
    graph: Graph,
    cost: collections.abc.Sequence[typing.SupportsFloat | typing.SupportsIndex],
    storage: StorageOptions,
    capacity: typing.SupportsInt | typing.SupportsIndex,
    work: typing.SupportsInt | typing.SupportsIndex,
    byte: typing.SupportsFloat | typing.SupportsIndex = 0.0,
    max_pieces: typing.SupportsInt | typing.SupportsIndex = 1024,
    again: bool = False,
) -> FoundSplit:
    """
    Ops in pieces, so that the load is within the capacity, or as low as so much work finds.
    """

def fit_graph(
    graph: Graph,
    cost: collections.abc.Sequence[typing.SupportsFloat | typing.SupportsIndex],
    again: collections.abc.Sequence[str],
    storage: StorageOptions,
    capacity: typing.SupportsInt | typing.SupportsIndex | None,
    recompute: bool = True,
    transfer: typing.SupportsFloat | typing.SupportsIndex | None = None,
    work: typing.SupportsInt | typing.SupportsIndex = 1000000000,
    states: typing.SupportsInt | typing.SupportsIndex = 100000,
    time_limit: typing.SupportsFloat | typing.SupportsIndex | None = None,
    interruptible: bool = False,
) -> Fitted:
    """
    The graph within the capacity, or of as little load as is reached where that is None.
    """

def heaviest_clique(
    problem: Problem, work: typing.SupportsInt | typing.SupportsIndex = 40000000
) -> tuple[int, numpy.typing.NDArray[numpy.int64]]:
    """
    Bytes that every plan needs, and why: rows (buffer, begin, end) of bytes of which no two may overlap.
    """

def keep(
    problem: Problem, offsets: typing.Any, wishes: typing.Any, options: PlanOptions = ...
) -> tuple[numpy.typing.NDArray[numpy.int64], list[int], int, bool, float]:
    """
    A plan as high as one with these offsets, or as the capacity, of which few are not as wished, -1 for nowhere:
    its offsets, which buffers lie elsewhere, how many do at least, whether Ctrl-C ended it, and seconds. It is
    verified. The GIL is released.
    """

def lives_of(graph: Graph) -> list[tuple[int, int]]:
    """
    Per tensor, the steps [first, last) from its write to its last read.
    """

def obstruction(
    problem: Problem,
    capacity: typing.SupportsInt | typing.SupportsIndex,
    effort: typing.SupportsInt | typing.SupportsIndex,
) -> tuple[list[int], bool, int, int, list[int], list[int], list[int]] | None:
    """
    Buffers that cannot be placed together, or None: (buffers, irreducible, lower bound and peak of the whole,
    buffers, pins and rows of `reserved` of which each is enough to go). The GIL is released; Ctrl-C ends it.
    """

def op_costs(graph: Graph, by: str) -> list[float]:
    """
    What ops cost: by auto, bytes or flops.
    """

def op_names(graph: Graph) -> list[str]:
    """
    The names of the ops, in their order.
    """

def order_bound(
    graph: Graph, storage: StorageOptions = ..., work: typing.SupportsInt | typing.SupportsIndex = 100000000
) -> tuple[
    int,
    list[int],
    list[
        tuple[
            int,
            list[int],
            list[int],
            int,
            list[tuple[int, int, int, int]],
            list[tuple[int, int, int]],
            list[tuple[int, int, bool]],
        ]
    ],
]:
    """
    What every order needs: bytes, ops, and needs (op, before, after, bytes, held, passed, alive), -1 for none;
    held are (tensor, begin, user, bytes), passed (op, before, bytes), alive (tensor, bytes, always). The GIL is released.
    """

def order_of(
    graph: Graph,
    order: str,
    storage: StorageOptions = ...,
    time_limit: typing.SupportsFloat | typing.SupportsIndex | None = None,
    interruptible: bool = True,
    tell: typing.Any = None,
) -> Order: ...
def orders() -> list[OrderInfo]:
    """
    The rows, in their order.
    """

def paying_pairs(
    problem: Problem, prices: typing.Annotated[numpy.typing.ArrayLike, numpy.int64], offsets: typing.Any
) -> list[tuple[str, str]]:
    """
    The names of the pairs with a price that share bytes, by position.
    """

def peak_of(problem: Problem, offsets: typing.Any) -> int:
    """
    The highest offset + size, in bytes.
    """

def placed_near(problem: Problem, wishes: typing.Any) -> numpy.typing.NDArray[numpy.int64]:
    """
    Offsets (int64, bytes): where they are wished, -1 for nowhere, or as little above as is free in their order.
    """

def plan_graph_pools(
    graph: Graph,
    order: str,
    pools: collections.abc.Sequence[
        tuple[
            str,
            typing.SupportsInt | typing.SupportsIndex | None,
            typing.SupportsInt | typing.SupportsIndex,
            typing.SupportsInt | typing.SupportsIndex,
            typing.SupportsInt | typing.SupportsIndex,
            collections.abc.Sequence[str] | None,
            collections.abc.Sequence[
                tuple[
                    typing.SupportsInt | typing.SupportsIndex,
                    typing.SupportsInt | typing.SupportsIndex,
                    typing.SupportsInt | typing.SupportsIndex,
                    typing.SupportsInt | typing.SupportsIndex,
                ]
            ],
        ]
    ],
    storage: StorageOptions,
    accesses: collections.abc.Mapping[str, typing.SupportsInt | typing.SupportsIndex],
    options: PlanOptions,
) -> GraphInPools:
    """
    The same of a graph, in an order by name.
    """

def plan_pools(
    problem: Problem,
    pools: collections.abc.Sequence[
        tuple[
            str,
            typing.SupportsInt | typing.SupportsIndex | None,
            typing.SupportsInt | typing.SupportsIndex,
            typing.SupportsInt | typing.SupportsIndex,
            typing.SupportsInt | typing.SupportsIndex,
            collections.abc.Sequence[str] | None,
            collections.abc.Sequence[
                tuple[
                    typing.SupportsInt | typing.SupportsIndex,
                    typing.SupportsInt | typing.SupportsIndex,
                    typing.SupportsInt | typing.SupportsIndex,
                    typing.SupportsInt | typing.SupportsIndex,
                ]
            ],
        ]
    ],
    fixed: Layout,
    accesses: typing.Any,
    options: PlanOptions,
) -> PlanInPools:
    """
    Plans a problem in several pools: (name, capacity, alignment, base, cost of a byte, what it accepts,
    reserved rows). `fixed` says what is pinned and reserved, `accesses` how often each buffer is accessed.
    """

def planners() -> list[PlannerInfo]:
    """
    The registry's rows, in its order.
    """

def pool_faults(
    problem: Problem,
    offsets: typing.Any,
    pools: collections.abc.Sequence[
        tuple[
            str,
            typing.SupportsInt | typing.SupportsIndex | None,
            typing.SupportsInt | typing.SupportsIndex,
            typing.SupportsInt | typing.SupportsIndex,
            typing.SupportsInt | typing.SupportsIndex,
            typing.SupportsInt | typing.SupportsIndex,
        ]
    ],
    pool: typing.Any,
    takes: typing.Annotated[numpy.typing.ArrayLike, numpy.bool] | None = None,
) -> list[PoolFault]:
    """
    What is wrong with where buffers lie, in pools (name, capacity, alignment, base, begin, peak).
    """

def positions_of(
    names: list, problem: Problem, graph: Graph = None, buffers: Buffers = None
) -> numpy.typing.NDArray[numpy.int64]:
    """
    Of names, the positions of buffers; -1 for what names none.
    """

def price_plan(
    problem: Problem,
    prices: typing.Annotated[numpy.typing.ArrayLike, numpy.int64],
    start: typing.Any,
    options: PlanOptions = ...,
    tries: typing.SupportsInt | typing.SupportsIndex = 1000,
    work: typing.SupportsInt | typing.SupportsIndex = 80000000,
) -> PricedPlan:
    """
    From a plan, by its offsets, to one that pays less: rows of `prices` are (buffer, buffer, price). `tell` of
    the options is called with each better plan. No plan peaks below their `lower_bound`.
    """

def refute(
    problem: Problem,
    capacity: typing.SupportsInt | typing.SupportsIndex,
    work: typing.SupportsInt | typing.SupportsIndex,
) -> tuple[list[int], list[tuple[int, int]], list[tuple[int, int, int, int, list[tuple[int, int, int]]]]] | None:
    """
    A proof that no plan fits: (buffers, ordered pairs of them, nodes), a node being (parent, lower, upper,
    difference, clique as (buffer, begin, end)), -1 for none. Or None. The GIL is released; Ctrl-C ends it.
    """

def reordered(graph: Graph, ops: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex]) -> Graph: ...
def replay(
    graph: Graph, buffers: Buffers, offsets: typing.Any, limit: typing.SupportsInt | typing.SupportsIndex | None = None
) -> list[ReplayFault]:
    """
    All steps at which the planned graph would read destroyed bytes; shares no code with liveness.
    """

def replay_places(
    graph: Graph,
    tensors: typing.Any,
    regions: typing.Any,
    workspaces: typing.Any,
    donated: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex],
    limit: typing.SupportsInt | typing.SupportsIndex | None = None,
) -> list[ReplayFault]:
    """
    The same for a plan that another tool made: offsets per tensor, each in the arena (region -1) or in a place
    outside that it shares with the tensors of its region, and per op (-1 where it has no workspace there).
    """

def require_alike(one: tuple[str, Graph], other: tuple[str, Graph]) -> None:
    """
    Raises UnsupportedError unless both have the same ops, tensors and views.
    """

def rerun_graph(
    graph: Graph,
    cost: collections.abc.Sequence[typing.SupportsFloat | typing.SupportsIndex],
    again: collections.abc.Sequence[str],
    storage: StorageOptions,
    reruns: collections.abc.Sequence[
        tuple[typing.SupportsInt | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex]
    ],
    fetches: collections.abc.Sequence[
        tuple[typing.SupportsInt | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex]
    ] = [],
    transfer: typing.SupportsFloat | typing.SupportsIndex = 0.0,
) -> Fitted:
    """
    The graph with ops that run again: pairs of the op that follows, and the op, by position. And with tensors that are moved out, and fetched: pairs of the op that follows, and the tensor, by position.
    """

def reserve(rows: typing.Any, size: typing.Any, settings: CachingSettings) -> CachingRun:
    """
    What a program reserves: rows >= 0 allocate their size, row -k - 1 frees what row k allocated.
    """

def reserved_by_caching(problem: Problem) -> int:
    """
    Bytes that torch's caching allocator for CUDA reserves for the buffers, born and freed in their order.
    """

def reuse_edges(graph: Graph, buffers: Buffers, offsets: typing.Any) -> list[tuple[int, int]]:
    """
    Pairs of ops (before, after) whose order the plan relies on and the graph does not imply, the fewest that
    imply the others.
    """

def reused_by(problem: Problem, offsets: typing.Any) -> numpy.typing.NDArray[numpy.int32]:
    """
    Per buffer, the first other that takes over some of its bytes after it has used them (int32; -1 for none).
    """

def says_costs(graph: Graph) -> bool:
    """
    Whether the graph says what some op costs.
    """

def solve_fit(
    graph: Graph,
    cost: collections.abc.Sequence[typing.SupportsFloat | typing.SupportsIndex],
    again: collections.abc.Sequence[str],
    storage: StorageOptions,
    options: PlanOptions,
    recompute: bool,
    transfer: typing.SupportsFloat | typing.SupportsIndex | None,
    reorder: bool,
    as_it_is: AsItIs | None = None,
) -> FittedPlan:
    """
    A plan within the capacity, or of as little as is reached where that is None. `as_it_is`: the graph as it is planned where nothing is given up, and its options; by default, this graph with these.
    """

def solve_graph(graph: Graph, storage: StorageOptions, options: PlanOptions = ...) -> tuple[Buffers, Solution]:
    """
    Plans a graph, verifies and replays the result; otherwise as solve_problem. `tell` is given Buffers too.
    """

def solve_in_order(
    graph: Graph, order: str, storage: StorageOptions, options: PlanOptions = ...
) -> tuple[Graph, Buffers, Solution, int]:
    """
    Plans a graph in the order of a rule or search; "best" is never worse than given. The graph in that order,
    and the bound of all orders, come with what solve_graph gives. `tell` is given the graph too.
    """

def solve_methods(
    methods: collections.abc.Sequence[tuple[str, Graph | Problem, StorageOptions | None, str]],
    shared: collections.abc.Sequence[tuple[str, collections.abc.Sequence[collections.abc.Sequence[str]]]],
    options: PlanOptions = ...,
) -> tuple[Problem, Solution, list[tuple[Graph | None, Buffers, Solution, int]], int]:
    """
    Plans methods, rows (name, graph or problem, storage options, order), in one arena, and verifies the result.
    Rows of `shared` are (name, per method its tensors there). All methods as one problem, its plan, per method
    the graph in the order of the plan, buffers, plan and bound of all orders, and what every arena needs. Of a
    problem, there is no graph, and the buffers have only that. Ctrl-C ends searches with what was found.
    """

def solve_problem(problem: Problem, options: PlanOptions = ...) -> Solution:
    """
    Plans a problem and verifies the result; the GIL is released. `tell` of the options is called with the
    Solution of each better plan that is found.
    """

def solve_range(
    graphs: collections.abc.Sequence[tuple[str, Graph]], order: str, storage: StorageOptions, options: PlanOptions
) -> RangePlan:
    """
    One plan of a network at several sizes, the largest last: rows (sizes, graph). Verified.
    """

def solve_split(
    graph: Graph,
    cost: collections.abc.Sequence[typing.SupportsFloat | typing.SupportsIndex],
    storage: StorageOptions,
    options: PlanOptions,
    recompute: bool,
    transfer: typing.SupportsFloat | typing.SupportsIndex | None,
    reorder: bool,
    call: typing.SupportsFloat | typing.SupportsIndex,
    byte: typing.SupportsFloat | typing.SupportsIndex,
    max_pieces: typing.SupportsInt | typing.SupportsIndex,
    as_it_is: AsItIs | None = None,
) -> SplitPlan:
    """
    A plan within the capacity, or as low as is found where that is None, with ops in pieces.
    """

def split(
    graph: Graph,
    regions: collections.abc.Sequence[
        tuple[
            collections.abc.Sequence[
                tuple[typing.SupportsInt | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex | None, bool]
            ],
            typing.SupportsInt | typing.SupportsIndex,
        ]
        | tuple[
            collections.abc.Sequence[
                tuple[typing.SupportsInt | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex | None, bool]
            ],
            typing.SupportsInt | typing.SupportsIndex,
            bool,
        ]
    ],
    storage: StorageOptions = ...,
) -> SplitGraph:
    """
    The graph with the ops of each region in pieces. A region is ([(op, loop, again), ...], pieces),
    and may have True behind them: what it makes for other regions stays in blocks.
    An op whose loop is None runs whole, between two passes.
    """

def split_floor(graph: Graph, storage: StorageOptions) -> int:
    """
    A bound of the load, however ops are split, ordered and run again.
    """

def targets_of(
    problem: Problem, wished: collections.abc.Mapping[str, typing.SupportsInt | typing.SupportsIndex]
) -> tuple[numpy.typing.NDArray[numpy.int64], bool]:
    """
    Per buffer, the offset that is wished by its name, -1 for none; and whether all names are those of buffers.
    """

def verify(
    problem: Problem,
    offsets: typing.Any,
    capacity: typing.SupportsInt | typing.SupportsIndex | None = None,
    limit: typing.SupportsInt | typing.SupportsIndex | None = None,
) -> list[Violation]:
    """
    All violations of offsets (int64, bytes) on a problem, at most `limit`; shares no code with planners.
    """

def why_too_large(
    problem: Problem,
    capacity: typing.SupportsInt | typing.SupportsIndex,
    lower_bound: typing.SupportsInt | typing.SupportsIndex,
    peak: typing.SupportsInt | typing.SupportsIndex,
    planner: str,
) -> str:
    """
    What an InfeasibleError says where the best plan of a planner peaks above the capacity.
    """

PART_BEFORE_KEEP: float = 0.5
PART_BEFORE_PRICES: float = 0.4
__version__: str = "0.1.0"
