"""Several methods run in one arena, in which what they share stays."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from ..calls import keywords
from ..options.checks import boolean
from ..plans.plan import Plan
from ..running.plans import by_engine, inputs_of, program_of
from ..running.program import Bound, Common, Run, aligned

if TYPE_CHECKING:
    from .result import MethodsPlan


class MethodsArena:
    """One arena in which the methods of a plan run, one at a time, in any order; `MethodsPlan.arena` makes it.

    What stays is in the arena alone. A weight that stays, such as a buffer of a torch module, is copied into it when a
    method that has it runs for the first time; later runs find there what the run before has left. The network's own is
    not changed. An input that stays is given like any other; what a run before returned with ``views=True`` lies where
    it must.

    Attributes
    ----------
    plan : MethodsPlan
        What is run.
    data : (peak,) uint8
        The arena.
    """

    def __init__(self, plan: MethodsPlan) -> None:
        self.plan = plan
        alignments = set(plan.problem.alignment.tolist())
        self.data = aligned(plan.peak, math.lcm(1, *alignments))
        self._bound: dict[tuple[str, str | None], Bound] = {}
        self._there: set[str] = set()  # names of what stays that the arena holds

    def __getitem__(self, name: str) -> npt.NDArray[np.uint8]:
        """The bytes of what stays, by its name: a view of the arena."""
        for stays in self.plan.shared:
            if stays.name == name:
                return self.data[stays.offset : stays.offset + stays.bytes]
        names = ", ".join(repr(stays.name) for stays in self.plan.shared)
        raise KeyError(f"{name!r} does not stay in the arena; what does is {names}")

    def run(
        self,
        method: str,
        *inputs: Any,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        weights: Mapping[str, Any] | None = None,
        check: bool = False,
        views: bool = False,
        engine: Literal["reference", "onnxruntime"] | None = None,
    ) -> Run:
        """Run one method; parameters and errors are those of `Plan.run`.

        With ``check=True`` garbage fills all bytes of the arena before the run, but for what stays.
        """
        plan = self.plan[method]
        for option, value in (("check", check), ("views", views)):
            boolean(value, option)
        call = inputs_of(inputs, args), keywords(kwargs)
        given = keywords(weights, "weights")
        mine = {stays.name: stays.tensors[method] for stays in self.plan.shared if method in stays.tensors}
        there = _roots(plan, [names for name, names in mine.items() if name in self._there])
        bound = self._bind(method, plan, list(mine.values()), engine)
        result = bound.run(*call, weights=given, check=check, views=views, there=there)
        self._there |= mine.keys()
        return result

    def _bind(self, method: str, plan: Plan, mine: Sequence[Sequence[str]], engine: str | None) -> Bound:
        if (method, engine) not in self._bound:
            if engine is not None:
                plan = by_engine(plan, engine)
            stays = [(stays.offset, stays.offset + stays.bytes) for stays in self.plan.shared]
            common = Common(self.data, stays, _roots(plan, mine))
            self._bound[method, engine] = program_of(plan).bind(plan, common)
        return self._bound[method, engine]


def _roots(plan: Plan, names: Sequence[Sequence[str]]) -> frozenset[str]:
    """The tensors that own the bytes of others, by name."""
    if plan.graph is None or plan.buffers is None:
        return frozenset()
    root = plan.buffers.root_of_tensor
    owners = [int(root[plan.graph.index(name)]) for each in names for name in each]
    return frozenset(plan.graph.tensor(t).name for t in owners)
