"""What would lower the load, and to what: every figure is the load of the problem with that change."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import _core
from ...inplace_ops import INPLACE_OPS, matches, with_inplace
from ..dataflow import Dataflow
from .inplace import Blocked, may_be_over_inputs

_TRIED = 8  # types of ops, and inputs, that are tried one by one


@dataclass(frozen=True)
class Advice:
    """A change and the load that it leads to, at most.

    ``kind`` is an option of `memplan.plan`: "inplace", "zero_copy" or "disable_inplace_ops" that forbade it, inputs to
    "donate", types of ops in the graph that "INPLACE_OPS" has, or others for "inplace_ops", if their kernels allow it;
    or what to do with idle tensors: "recompute", "offload" until the next use, "hand_over" graph outputs when they are
    made, or a problem "without" buffers that live on both sides. ``names`` are its types, inputs, tensors or buffers,
    ``bytes`` those that it takes away where the load is highest.
    """

    kind: str
    names: tuple[str, ...]
    load: int
    bytes: int


def options_to_change(dataflow: Dataflow, blocked: Collection[Blocked], load: int, step: int) -> list[Advice]:
    """Changes of what `memplan.plan` is asked for, found by trying them: those that lower the load."""
    asked = dataflow.storage
    if asked is None:
        return []
    graph, most = dataflow.graph, min(load, _core.buffers_of(dataflow.graph, asked).problem.load)
    found = []

    def try_(kind: str, names: list[str], graph: _core.Graph, storage: _core.StorageOptions) -> bool:
        problem = _core.buffers_of(graph, storage).problem
        if problem.load < most:
            found.append(Advice(kind, tuple(names), problem.load, load - _load_at(problem, step)))
        return problem.load < most

    if not asked.inplace:
        try_("inplace", [], graph, _changed(asked, inplace=True))
    if not asked.zero_copy:
        try_("zero_copy", [], graph, _changed(asked, zero_copy=True))
    off = sorted({b.op_type for b in blocked if b.rule == "disabled" and asked.inplace})
    for type in off[:_TRIED]:
        still = [name for name in asked.disable_inplace_ops if not matches(type, [name])]
        try_("disable_inplace_ops", [type], graph, _changed(asked, disable_inplace_ops=still))
    donors = [name for name in may_be_over_inputs(graph) if name not in asked.donate]
    if asked.inplace and donors and try_("donate", donors, graph, _changed(asked, donate=[*asked.donate, *donors])):
        all_donors = found.pop()
        fewest = _fewest(dataflow, donors, all_donors.load)
        found.append(Advice("donate", tuple(fewest), all_donors.load, all_donors.bytes))
    listed = _listed(dataflow)
    if asked.inplace and listed:
        try_("INPLACE_OPS", listed, with_inplace(graph, INPLACE_OPS), asked)
    unlisted = sorted({b.op_type for b in blocked if b.rule == "not listed" and b.op_type} - set(listed))
    for type in unlisted[:_TRIED] if asked.inplace else []:
        try_("inplace_ops", [type], with_inplace(graph, {type}), asked)
    return found


def _listed(dataflow: Dataflow) -> list[str]:
    """The types of ops that `INPLACE_OPS` has and the graph says nothing of."""
    silent = {op.type for op in dataflow.ops if not op.inplace}
    said = {op.type for op in dataflow.ops if op.inplace}
    return sorted(type for type in silent - said if matches(type, INPLACE_OPS))


def _fewest(dataflow: Dataflow, donors: list[str], load: int) -> list[str]:
    """The inputs that have to be donated for the load that all of them lead to."""
    asked, needed = dataflow.storage, list(donors)
    assert asked is not None
    for name in donors if len(donors) <= _TRIED else []:
        fewer = [other for other in needed if other != name]
        storage = _changed(asked, donate=[*asked.donate, *fewer])
        if _core.buffers_of(dataflow.graph, storage).problem.load <= load:
            needed = fewer
    return needed


def _changed(asked: _core.StorageOptions, **changes: Any) -> _core.StorageOptions:
    names = ("place", "alignment", "inplace", "disable_inplace_ops", "donate", "zero_copy")
    return _core.StorageOptions(**{name: getattr(asked, name) for name in names} | changes)


def _load_at(problem: _core.Problem, step: int) -> int:
    steps, load = problem.load_curve()
    return int(load[np.searchsorted(steps, step, side="right") - 1]) if len(steps) else 0
