"""Graph dicts in few words, and two small graphs that many tests plan."""

from __future__ import annotations

from typing import Any

import memplan
from memplan import _core

Dict = dict[str, Any]


def tensor(name: str, size: int = 8, kind: str | None = None) -> Dict:
    return {"name": name, "bytes": size} | ({"kind": kind} if kind else {})


def op(name: str, inputs: str, outputs: str, **more: Any) -> Dict:
    """An op of tensors named by words; a relation is a list of words "output input offset"."""
    for relation in ("alias", "inplace", "overwrite", "slice", "concat"):
        views = [view.split() for view in more.get(relation, ())]
        if views:
            more[relation] = [{"output": v[0], "input": v[1], "offset": int((*v, "0")[2])} for v in views]
    return {"name": name, "inputs": inputs.split(), "outputs": outputs.split(), **more}


def graph(tensors: list[Dict] | str, *ops: Dict, outputs: str = "") -> Dict:
    """With these tensors, as words "name bytes kind, ...", and one of 8 bytes for each other that an op writes."""
    if isinstance(tensors, str):
        rows = [row.split() for row in tensors.split(",")]
        tensors = [tensor(row[0], int(row[1]), *row[2:]) for row in rows]
    known = {t["name"] for t in tensors}
    written = dict.fromkeys(name for o in ops for name in o["outputs"] if name not in known)
    return {"tensors": [*tensors, *map(tensor, written)], "ops": list(ops), "outputs": outputs.split()}


X = tensor("x", kind="input")


W = tensor("w", kind="weight")


def buffers(source: Dict, **options: Any) -> _core.Buffers:
    found = memplan.plan(source, **options).buffers
    assert found is not None
    return found


def shared(source: Dict, **options: Any) -> set[str]:
    """What shares bytes by choice: "inplace y x"."""
    names = [t["name"] for t in source["tensors"]]
    return {f"{how} {names[out]} {names[into]}" for how, _, out, into, _ in buffers(source, **options).shared}


def load(source: Dict, **options: Any) -> int:
    return int(memplan.plan(source, **options).problem.load)


def two_branches() -> dict[str, Any]:
    """Each branch makes much and leaves little; as listed, both are in memory at once."""
    return {
        "tensors": [
            {"name": "x", "bytes": 1, "kind": "input"},
            *({"name": name, "bytes": size} for name, size in [("a", 10), ("b", 10), ("r", 1), ("s", 1), ("y", 1)]),
        ],
        "ops": [
            {"name": "left", "inputs": ["x"], "outputs": ["a"]},
            {"name": "right", "inputs": ["x"], "outputs": ["b"]},
            {"name": "less", "inputs": ["a"], "outputs": ["r"]},
            {"name": "fewer", "inputs": ["b"], "outputs": ["s"]},
            {"name": "join", "inputs": ["r", "s"], "outputs": ["y"]},
        ],
        "outputs": ["y"],
    }


def chain(length: int = 6, size: int = 100) -> Dict:
    """Forwards t0 to tn, and backwards: each step reads what came before and what went forwards."""
    tensors: list[Dict] = [{"name": "x", "bytes": size, "kind": "input"}]
    ops: list[Dict] = []
    before = "x"
    for k in range(length):
        tensors.append({"name": f"t{k}", "bytes": size})
        ops.append({"name": f"f{k}", "inputs": [before], "outputs": [f"t{k}"], "cost": 1})
        before = f"t{k}"
    for k in reversed(range(length)):
        tensors.append({"name": f"g{k}", "bytes": size})
        ops.append({"name": f"b{k}", "inputs": [before, f"t{k}"], "outputs": [f"g{k}"], "cost": 1})
        before = f"g{k}"
    return {"tensors": tensors, "ops": ops, "outputs": [before]}
