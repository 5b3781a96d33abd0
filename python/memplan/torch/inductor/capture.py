"""torch.compile's memory beside memplan's: the buffers that Inductor schedules, and what each makes of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ... import _core, calls
from ...plans.plan import Plan
from ..installed import require_tested, require_torch
from .wrapper import Block, Pool

ALIGNMENT = 64  # bytes, of the buffers in torch's pools


@dataclass(frozen=True, repr=False)
class InductorCapture:
    """One graph that torch.compile made, and what its wrapper code holds in memory, in bytes.

    A step is the code of the wrapper between two runs of lines about memory, as torch's memory planner counts steps.

    These bytes are counted: the buffers that the wrapper allocates, the results that kernels allocate themselves, and
    donated inputs from the step at which a buffer takes over their bytes. These are not: other inputs and parameters,
    what a kernel frees again, and the rounding of an allocator. A buffer that Inductor writes in place of another is in
    the same block.

    Attributes
    ----------
    name : str
        "inference 0", "forward 1", "backward 1": what the graph is, and torch's number for it.
    inference : bool
        Compiled without a backward. Torch uses pools only then.
    steps : int
        Steps of the wrapper; all blocks live within [1, steps).
    needed : list of Block
        The blocks as long as they are needed: from their allocation to where they are freed or, if returned, to the
        end.
    held : list of Block
        The blocks of torch's default (``memory_planning=False``). It keeps some freed blocks for a later buffer of the
        same size and dtype.
    in_place, handed_on : list of (str, str)
        Pairs of buffers, of which the first takes the bytes of the second: written in place, which both planners keep,
        and by the default's reuse.
    pools : list of Pool
        The pools that torch's memory planner (``memory_planning=True``) allocates for the buffers of the wrapper. A
        pool is held from its first use to its last. They are made for training too, where torch would not use them.
    pools_error : str or None
        Why there are no pools: torch's planner recurses by the depth of its pools, and fails on large ones.
    code : str
        The wrapper as torch would have run it by default.
    """

    name: str
    inference: bool
    steps: int
    needed: list[Block]
    held: list[Block]
    in_place: list[tuple[str, str]]
    handed_on: list[tuple[str, str]]
    pools: list[Pool]
    pools_error: str | None = None
    code: str = ""

    @property
    def problem(self) -> _core.Problem:
        """The buffers that the wrapper allocates: those that a planner may place."""
        return self._problem({"wrapper"})

    @property
    def whole(self) -> _core.Problem:
        """The buffers of `problem`, and what kernels allocate: all that could be placed if kernels took addresses."""
        return self._problem({"wrapper", "kernel"})

    @property
    def load(self) -> int:
        """The most bytes of all blocks that are needed at one step. No planner holds less.

        `plan` places less if kernels allocate, or inputs are donated. The load of what it places is ``problem.load``.
        """
        return _load(self.needed)

    @property
    def reuse_peak(self) -> int:
        """The most bytes that torch's default holds at one step."""
        return _load(self.held)

    @property
    def pool_bytes(self) -> int | None:
        """The sum of the pools' sizes, without what kernels allocate."""
        return None if self.pools_error else sum(pool.bytes for pool in self.pools)

    @property
    def pool_peak(self) -> int | None:
        """The most bytes held at one step with pools, including what kernels allocate and donated inputs."""
        others = [block for block in self.needed if block.source != "wrapper"]
        return None if self.pools_error else _load([*self.pools, *others])

    def plan(
        self, planner: str = "auto", *, kernels: bool = False, alignment: int | str = ALIGNMENT, **options: Any
    ) -> Plan:
        """The same buffers in an arena by memplan: `problem`, or with ``kernels`` the `whole`; options as of `plan`."""
        from ...solving.planning import plan

        return plan(self.whole if kernels else self.problem, planner, alignment=alignment, **options)

    def peak_with(self, plan: Plan) -> int:
        """The most bytes held at one step with that plan's arena, kept throughout, and all that is not in it."""
        placed = set(plan.problem.names)
        return plan.peak + _load([block for block in self.needed if block.name not in placed])

    def _problem(self, sources: set[str]) -> _core.Problem:
        rows = [block for block in self.needed if block.source in sources]
        return _core.Problem(*_columns(rows), names=[block.name for block in rows])

    def __str__(self) -> str:
        from ... import sizes

        load = self.load
        made = sum(block.source == "wrapper" for block in self.needed)
        lines = [
            f"{self.name}: {made} buffers of the wrapper, {len(self.needed) - made} more by kernels or from inputs"
        ]
        peaks = {"load of all": load, "torch.compile": self.reuse_peak, "with pools": self.pool_peak}
        for what, peak in peaks.items():
            figure = (
                self.pools_error if peak is None else f"{sizes.format_bytes(peak)}  {peak / max(load, 1):.3f} x load"
            )
            lines.append(f"  {what:14} {figure}")
        placed, whole = (sizes.format_bytes(problem.load) for problem in (self.problem, self.whole))
        lines.append(f"  {'to be placed':14} {placed}  load of what plan() places, the buffers of the wrapper")
        if placed != whole:
            lines.append(f"  {'':14} {whole}  load of what plan(kernels=True) places, those of kernels too")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"InductorCapture({self.name!r}, {len(self.needed)} blocks, load {self.load})"


def capture_inductor(
    fn_or_module: Callable[..., Any],
    args: Sequence[Any] = (),
    *,
    kwargs: Mapping[str, Any] | None = None,
    train: bool = False,
) -> list[InductorCapture]:
    """Read what torch.compile would hold in memory, graph by graph. Experimental: needs torch 2.13 or 2.14.

    It reads private parts of torch.compile, which change from one release of torch to the next. Any other version is
    refused.

    torch.compile runs up to the wrapper code of each graph; no kernel is compiled or run. In place of a compiled graph,
    its operators run one by one in eager torch, on the arguments given. So graphs behind a graph break, and those of
    the backward pass, are reached too. A module's state is put back afterwards; what a function holds is not. What
    torch.compile had compiled before is compiled anew when it is next called (``torch._dynamo.reset``).

    Parameters
    ----------
    fn_or_module
        A function or torch.nn.Module, on the CPU with real tensors; a module in the mode (train or eval) it is in.
    args, kwargs
        What it is called with; copied before.
    train
        False: under no_grad. True: forward and backward, of the result's `loss` or else of the sum of all tensors of
        the result that require a gradient.

    Returns
    -------
    list of InductorCapture
        In the order in which torch.compile makes them: one per graph, several where the graph breaks, and those of the
        backward pass after those of the forward.

    Raises
    ------
    MissingDependencyError
        torch, or a C++ compiler, is not installed; Inductor asks the compiler which vectors the processor has.
    UnsupportedError
        Another torch than 2.13 and 2.14; or a graph with nested wrappers (control flow).
    SourceError
        torch.compile fails or makes no graph; a tensor is not on the CPU; with train, nothing requires a gradient.
    TypeError
        Arguments of the wrong kind.
    """
    if not callable(fn_or_module) or isinstance(fn_or_module, type):
        raise TypeError(f"fn_or_module must be a function or a torch.nn.Module, got {fn_or_module!r}")
    call = calls.positional(args), calls.keywords(kwargs)
    require_torch("capture_inductor")
    require_tested("capture_inductor")
    from .compiled import compiled_wrappers

    return compiled_wrappers(fn_or_module, *call, train)


def _load(blocks: Sequence[Block | Pool]) -> int:
    """The most bytes of them that are held at one step."""
    return _core.Problem(*_columns(blocks)).load


def _columns(blocks: Sequence[Block | Pool]) -> tuple[list[int], list[int], list[int]]:
    return [block.bytes for block in blocks], [block.first for block in blocks], [block.last for block in blocks]
