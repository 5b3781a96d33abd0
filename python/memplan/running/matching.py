"""Whether a plan is of a program's graph: compared op by op."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .. import _core
from ..errors import SourceError, UnsupportedError
from ..kinds import MOVE_OUT, MOVES
from ..ops import kept_alive
from ..plans.plan import Plan

ANOTHER = "the network is not the one that was planned, or changed since"
_NO_PROGRAM = "plan.run runs it, but it cannot be given as a program"


def require_same(planned: _core.Graph, imported: _core.Graph) -> None:
    """SourceError names the first tensor or op of a network that is not as it was planned.

    The ops may have been planned in another order, and tensors kept alive.
    """
    imported = kept_alive(imported, [name for name in planned.outputs if imported.index(name) is not None])
    if planned == imported:
        return
    was, now = planned.to_dict(), imported.to_dict()
    place = {op["name"]: place for place, op in enumerate(now["ops"])}
    _leave_out_copies(was, now)
    if place.keys() == {op["name"] for op in was["ops"]}:
        was["ops"].sort(key=lambda op: place[op["name"]])
    _drop_barriers(was["ops"], now["ops"])
    for op in (*was["ops"], *now["ops"]):
        op.pop("workspace", None)  # what a kernel allocates is not the network's
        op.pop("pieces_copied", None)
        op.pop("loops", None)  # they follow from all else, and are tried in several orders
    for part in ("tensors", "ops"):
        for old, new in zip(was[part], now[part], strict=False):
            if old != new:
                raise SourceError(f"{ANOTHER}: {_difference(part, old, new)}")
        if len(was[part]) != len(now[part]):
            raise SourceError(f"{ANOTHER}: the plan has {len(was[part])} {part}, the network {len(now[part])}")
    if was["outputs"] != now["outputs"]:
        raise SourceError(f"{ANOTHER}: the plan has the outputs {was['outputs']}, the network {now['outputs']}")


def whole_graph(plan: Plan) -> _core.Graph | None:
    """The graph of a plan, if it has one; before its ops were split, if they were.

    UnsupportedError: they were split, and the plan does not know how.
    """
    if plan.fitting is not None and plan.fitting.pieces is not None:
        return plan.fitting.pieces.whole
    if plan.graph is not None and any(change.kind == "split" for change in plan.changes):
        raise UnsupportedError("ops of the plan run in pieces, and it does not say in which")
    return plan.graph


def require_no_copies(plan: Plan, imported: _core.Graph) -> None:
    """Refuse a graph with moves, copies of ops, or pieces, of which no program is written."""
    require_no_moves(plan)
    planned = plan.graph
    assert planned is not None
    if whole_graph(plan) is not planned:
        raise UnsupportedError(f"ops of the plan run in pieces: {_NO_PROGRAM}")
    if len(planned.ops) != len(imported.ops):
        raise UnsupportedError(f"ops of the plan run again: {_NO_PROGRAM}")


def require_no_moves(plan: Plan) -> None:
    """Refuse a graph that moves tensors out of the arena, of which no program is written."""
    assert plan.graph is not None
    if any(op.type in MOVES for op in plan.graph.ops):
        raise UnsupportedError(f"tensors of the plan are moved: {_NO_PROGRAM}")


def _leave_out_copies(was: dict[str, Any], now: dict[str, Any]) -> None:
    """Take out of a graph what `memplan.fit` has put into it: copies of ops and tensors, "t~1" of "t", and moves."""
    known = {part: {entry["name"] for entry in now[part]} for part in ("tensors", "ops")}
    if all(op["name"] in known["ops"] or "~" not in op["name"] for op in was["ops"]):
        return
    out = {name for op in was["ops"] if op.get("type") == MOVE_OUT for name in op["inputs"]}
    for part in ("tensors", "ops"):
        was[part] = [entry for entry in was[part] if entry["name"] in known[part] or "~" not in entry["name"]]
    was["ops"] = [op for op in was["ops"] if op.get("type") not in MOVES]
    handed = {name for name in now["outputs"] if name in out and name not in was["outputs"]}
    was["outputs"] = [name for name in now["outputs"] if name in was["outputs"] or name in handed]
    kinds = {tensor["name"]: tensor.get("kind") for tensor in now["tensors"]}
    for tensor in was["tensors"]:
        if tensor["name"] in handed:
            tensor["kind"] = kinds.get(tensor["name"])

    imported = {op["name"]: op for op in now["ops"]}
    root: dict[str, str] = {}
    for op in now["ops"]:
        root.update((view["output"], root.get(view["input"], view["input"])) for view in op.get("alias", ()))

    def original(name: str, reads: Sequence[str]) -> str:
        """The tensor of the network: what is fetched stands for all that its bytes were shown as."""
        if name in known["tensors"]:
            return name
        name = name.rsplit("~", 1)[0]
        alike = (read for read in reads if root.get(read, read) == name)
        return name if name in reads else next(alike, name)

    for op in was["ops"]:
        reads = imported.get(op["name"], op)["inputs"]
        op["inputs"] = [original(name, reads) for name in op["inputs"]]
        for relation in ("alias", "inplace", "overwrite", "slice", "concat"):
            for view in op.get(relation, ()):
                view["input"] = original(view["input"], reads)
    for op in (*was["ops"], *now["ops"]):
        op.pop("loops", None)  # they follow from all else, and name copies
        if before := sorted(name for name in op.pop("after", ()) if name in known["ops"]):
            op["after"] = before


def _drop_barriers(planned: list[dict[str, Any]], imported: list[dict[str, Any]]) -> None:
    """Take from `after` of the planned ops what it says more than the network: barriers were asked for."""
    for was, now in zip(planned, imported, strict=False):
        if set(now.get("after", ())) <= set(was.get("after", ())):
            was.pop("after", None)
            if "after" in now:
                was["after"] = now["after"]


def _difference(part: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    what = part.removesuffix("s")
    if old["name"] != new["name"]:
        return f"the plan has the {what} {old['name']!r} where the network has {new['name']!r}"
    key = next(key for key in {**old, **new} if old.get(key) != new.get(key))
    return f"{what} {old['name']!r} has {key} {old.get(key)} in the plan and {new.get(key)} in the network"
