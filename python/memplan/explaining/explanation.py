"""Explain: what makes the peak of a plan, how far it is from the best possible, and what would lower it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ..importers.tape import Tape
from ..plans.dataflow import Dataflow
from ..plans.inplace import Blocked, blocked_at
from ..plans.usage import Ints, holes, load_curve, next_hill, rectangles, step_of_peak, steps_above
from ..proofs.clique import heaviest_clique
from .advice import Advice, is_worth, options_to_change
from .alive import Alive, alive_at
from .idle import Idle, idle_at
from .orders import Orders, orders_of
from .reuse import Chain, Shared, chains, shared_by_choice
from .splits import in_pieces

if TYPE_CHECKING:
    from ..plans.plan import Plan

CROWDED = 0.9  # of the load
_MOST_STEPS = 16  # of those at the load, that are looked at for outputs that are not in place


@dataclass(frozen=True)
class Moment:
    """A step, its op (names are empty for plain problems), and the bytes in use there."""

    step: int
    load: int
    op: str = ""
    op_type: str = ""


@dataclass(frozen=True, repr=False)
class Explanation:
    """What makes the peak of a plan, what its tensors share, and what would lower the load.

    Or of all that a step or a compiled graph holds: then its arenas count as a whole in the peak, and with the bytes
    that are in use in the load.

    Sizes are in bytes; ranges of steps are half-open.

    Attributes
    ----------
    peak, load, lower_bound, naive, optimal, planner, buffers
        Figures of the plan; ``buffers`` is the number of buffers.
    of_graph : bool
        True if the plan is of a graph: then this is about tensors and ops. False if it is of a plain problem: then this
        is about buffers and steps.
    peak_step : Moment or None
        The step that makes the peak. The buffers that end at the peak are alive at some steps; this is the one of these
        steps with the highest load. None in a plan without bytes.
    load_step : Moment or None
        The step with the highest load. If several have it, and `peak_step` is one of them, it is `peak_step`.
    alive, alive_at_load : tuple of Alive
        The tensors in use at these two steps, the largest first. Their bytes add up to all bytes in use there.
    holes : tuple of (offset, bytes)
        The bytes below the peak that are free at `peak_step`.
    next_step : Moment or None
        The highest step of another hill of the load. Changes to the highest hill alone save at most
        ``load - next_step.load``.
    steps, crowded : int
        The number of steps from the first birth to the last death, and how many of them have at least nine tenths of
        the load.
    shared : tuple of Shared
        Tensors that share bytes by choice, the largest first.
    chains : tuple of Chain
        Buffers that take over each other's bytes. The chain that saves most comes first.
    blocked : tuple of Blocked
        Outputs of the ops where the load is highest that a rule keeps out of the bytes of an input.
    idle : tuple of Idle
        Tensors that are alive where the load is highest, although nothing uses them there.
    advice : tuple of Advice
        Changes that would lower the load by a thousandth or more. The change that lowers it most comes first.
    apart : tuple of (buffer, bytes)
        Where it is not the load that proves the lower bound, but a clique: the buffers of which no two may share bytes,
        and how many of their bytes may not. Empty otherwise.
    orders : Orders or None
        What the best order of the ops would bring, and what every order needs. None for a problem, which has no ops,
        and for ops on several streams.
    curve : tuple of (step, bytes)
        The load over time, as a staircase.
    what : str
        What is explained where that is no plan, such as "forward 0 on cpu": all that it holds. Else empty.
    plan : Plan or None
        The plan that is explained.
    """

    planner: str
    of_graph: bool
    buffers: int
    peak: int
    load: int
    lower_bound: int
    optimal: bool
    naive: int
    conflicts: int
    peak_step: Moment | None = None
    load_step: Moment | None = None
    next_step: Moment | None = None
    steps: int = 0
    crowded: int = 0
    alive: tuple[Alive, ...] = ()
    alive_at_load: tuple[Alive, ...] = ()
    holes: tuple[tuple[int, int], ...] = ()
    shared: tuple[Shared, ...] = ()
    chains: tuple[Chain, ...] = ()
    blocked: tuple[Blocked, ...] = ()
    idle: tuple[Idle, ...] = ()
    advice: tuple[Advice, ...] = ()
    apart: tuple[tuple[str, int], ...] = ()
    orders: Orders | None = None
    curve: tuple[tuple[int, int], ...] = ()
    what: str = ""
    plan: Plan | None = field(default=None, repr=False, compare=False, metadata={"fact": False})

    def apply(self, *advice: Advice | str, planner: str | None = None, transfer: float | None = None) -> Plan:
        """A plan of the graph with advice applied.

        Parameters
        ----------
        advice
            Of `advice`, or kinds of it: "recompute", "offload", "hand_over", "order", "split", "donate" and options.
            By default the first. Of idle tensors, those leave that may; see docs/fit.md.
        planner
            By default that of the plan.
        transfer
            The cost of a byte that is moved, as for `memplan.fit`.

        Returns
        -------
        Plan
            `plan.changes` says what was done. It adds `plan.added_cost`; what such a plan adds at least is not known.

        Raises
        ------
        TypeError
            The plan is not of a graph.
        ValueError
            There is no such advice.
        GraphError
            None of the idle tensors may leave.
        """
        from .apply import apply

        return apply(self, advice, planner, transfer)

    @property
    def sentences(self) -> tuple[str, ...]:
        """What makes the peak, how far it is from the best possible, and what would lower it: how the text begins.

        For a graph, the last one says what another order would bring, and why not more.
        """
        from .text import explanation_report

        return explanation_report(self).sentences

    def __repr__(self) -> str:
        return (
            f"<memplan.explaining.Explanation: {(self.what or self.planner)!r}, peak {self.peak:,}, load {self.load:,}>"
        )

    def __str__(self) -> str:
        from ..printing.tables import report_text
        from .text import explanation_report

        return report_text(explanation_report(self))

    def _repr_html_(self) -> str:
        from ..printing.tables import report_html
        from .picture import load_svg
        from .text import explanation_report

        return report_html(explanation_report(self), load_svg(self))

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write it as a page that needs no other file."""
        from ..files import write_text
        from ..printing.tables import report_page
        from .picture import load_svg
        from .text import explanation_report

        write_text(path, report_page(explanation_report(self), load_svg(self)))

    def to_json(self, path: str | os.PathLike[str]) -> None:
        """Write it as versioned JSON; see docs/explain.md."""
        from ..export.facts import write_facts

        write_facts(self, path, "memplan.explanation", 1)


@dataclass(frozen=True)
class Scene:
    """A plan with bytes: its load over time as a staircase of `step` and `load`, and two places on it.

    ``at_load`` has the highest load, and ``at_peak`` makes the peak: the highest of the steps at which buffers that end
    at the peak are alive. They are one place if that can be.
    """

    plan: Plan
    rows: Ints
    dataflow: Dataflow | None
    step: Ints
    load: Ints
    at_peak: int
    at_load: int

    @staticmethod
    def of(plan: Plan) -> Scene | None:
        """None for a plan without bytes."""
        rows = rectangles(plan.problem)
        if len(rows) == 0:
            return None
        step, load = load_curve(rows)
        at = int(np.searchsorted(step, step_of_peak(plan) or 0))
        top = at if load[at] == load.max() else int(np.argmax(load))
        return Scene(plan, rows, Dataflow(plan) if plan.graph is not None else None, step, load, at, top)

    def moment(self, k: int) -> Moment:
        """A place on the staircase, and the op that runs there."""
        at = int(self.step[k])
        runs = self.dataflow is not None and at < self.dataflow.steps.end
        op = self.dataflow.op_at(at) if self.dataflow is not None and runs else None
        return Moment(at, int(self.load[k]), *((op.name, op.type) if op is not None else ()))

    def alive(self, k: int) -> tuple[Alive, ...]:
        """What is in use at a place on the staircase."""
        return alive_at(self.plan.problem, self.dataflow, self.rows, int(self.step[k]), self.plan.peak)


def explain(plan: Plan) -> Explanation:
    """See `Plan.explain`."""
    tape = None if plan.source is None else plan.source.value
    if isinstance(tape, Tape) and tape.outlives.any():
        from .recorded import held_by_tape

        return held_by_tape(plan, tape, "a recorded step", plan.peak).explain()
    figures = {name: getattr(plan, name) for name in ("planner", "peak", "load", "lower_bound", "optimal", "naive")}
    pairs = plan.problem.conflicts
    figures |= {
        "of_graph": plan.graph is not None,
        "buffers": len(plan),
        "conflicts": 0 if pairs is None else len(pairs),
    }
    scene = Scene.of(plan)
    if scene is None:
        return Explanation(**figures, plan=plan)
    rows, dataflow, step, load = scene.rows, scene.dataflow, scene.step, scene.load
    at, top = scene.at_peak, scene.at_load
    other = next_hill(step, load, top)
    peak_step, load_step = scene.moment(at), scene.moment(top)
    blocked = _blocked(dataflow, step, load)
    idle, advice = idle_at(plan.problem, dataflow, rows, load_step.step)
    if dataflow is not None:
        advice += options_to_change(dataflow, blocked, plan.load, dataflow.steps.op_at(load_step.step))
    orders = None
    if dataflow is not None and dataflow.storage is not None and load_step.step < dataflow.steps.end:
        op = dataflow.steps.op_at(load_step.step)
        orders = orders_of(dataflow.graph, dataflow.storage, op)
        advice += in_pieces(dataflow.graph, dataflow.storage, plan.load, op)
    if orders is not None and orders.load < plan.load and orders.found_by != "given":
        advice.append(Advice("order", (), orders.load, plan.load - orders.at_op))
    return Explanation(
        **figures,
        peak_step=peak_step,
        load_step=load_step,
        next_step=None if other is None else scene.moment(other),
        steps=int(step[-1] - step[0]),
        crowded=steps_above(step, load, CROWDED),
        alive=scene.alive(at),
        alive_at_load=scene.alive(top),
        holes=tuple(holes(plan, rows, peak_step.step)),
        shared=shared_by_choice(plan),
        chains=chains(plan),
        blocked=tuple(blocked),
        idle=idle,
        advice=tuple(sorted((a for a in advice if is_worth(a, plan.load)), key=lambda a: a.load)),
        apart=_apart(plan),
        orders=orders,
        curve=tuple(zip(step.tolist(), load.tolist(), strict=True)),
        plan=plan,
    )


def _apart(plan: Plan) -> tuple[tuple[str, int], ...]:
    """The buffers of the clique that proves the lower bound, where one does."""
    if plan.lower_bound == plan.load or (plan.problem.conflicts is None and plan.problem.parts is None):
        return ()
    clique = heaviest_clique(plan.problem)
    if clique.bytes != plan.lower_bound:
        return ()
    needed: dict[str, int] = {}
    for buffer, begin, end in clique.members:
        needed[plan.problem.name(buffer)] = needed.get(plan.problem.name(buffer), 0) + end - begin
    return tuple(sorted(needed.items(), key=lambda item: -item[1]))


def _blocked(dataflow: Dataflow | None, step: Ints, load: Ints) -> list[Blocked]:
    """The outputs of the first ops at the highest load."""
    if dataflow is None:
        return []
    pieces = np.flatnonzero(load == load.max()).tolist()
    steps = [s for k in pieces for s in range(int(step[k]), int(step[k + 1]))][:_MOST_STEPS]
    ops = dict.fromkeys(dataflow.steps.op_at(s) for s in steps if s < dataflow.steps.end)
    return [blocked for k in ops for blocked in blocked_at(dataflow, dataflow.steps.of(k)[0])]
