"""A machine that runs methods byte by byte: each tensor in bytes of its own, or all in one arena as a plan says.

It is written apart: nothing here imports memplan. What an op computes is a hash of what it reads, so that a byte that
something else wrote shows in all that follows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

GraphDict = Mapping[str, Any]
GIVEN = ("input", "weight")


def noise(size: int, *what: object) -> bytes:
    """Bytes that follow from what is given."""
    return hashlib.shake_128(repr(what).encode()).digest(size)


def roots(graph: GraphDict) -> dict[str, tuple[str, int]]:
    """Per tensor what must own its bytes, and where it lies there."""
    found = {tensor["name"]: (tensor["name"], 0) for tensor in graph["tensors"]}
    for op in graph["ops"]:
        for view in (*op.get("alias", ()), *op.get("overwrite", ())):
            root, at = found[view["input"]]
            found[view["output"]] = (root, at + view["offset"])
    return found


class Machine:
    """Runs methods, and remembers what stays.

    Parameters
    ----------
    shared : mapping
        Per name and method, the names there.
    places : mapping, optional
        Per method, where tensors lie in the arena, and workspaces, as "op.workspace". Without it, each root has bytes
        of its own, and what stays is kept beside.
    """

    def __init__(
        self,
        graphs: Mapping[str, GraphDict],
        shared: Mapping[str, Mapping[str, Sequence[str]]],
        places: Mapping[str, Mapping[str, int]] | None = None,
        size: int = 0,
    ) -> None:
        self.graphs, self.shared, self.places = graphs, shared, places
        self.sizes = {m: {t["name"]: t["bytes"] for t in graph["tensors"]} for m, graph in graphs.items()}
        self.arena = bytearray(noise(size, "arena"))
        self.kept = {}
        for name, by_method in shared.items():
            method, names = next(iter(by_method.items()))
            self.kept[name] = noise(self.sizes[method][names[0]], "state", name)
            if places is not None:
                at = places[method][names[0]]
                self.arena[at : at + len(self.kept[name])] = self.kept[name]

    def run(self, method: str, turn: int) -> list[bytes]:
        """What the method returns, and then all that stays."""
        self.method, self.graph = method, self.graphs[method]
        self.root, self.own = roots(self.graph), dict[str, bytearray]()
        self.take(turn)
        for op in self.graph["ops"]:
            self.execute(op)
        returned = [self.read(name) for name in self.graph["outputs"]]
        for name, by_method in self.shared.items():
            if method in by_method:
                self.kept[name] = self.read(by_method[method][-1])
        return [*returned, *(self.staying(name) for name in self.shared)]

    def take(self, turn: int) -> None:
        """The caller's inputs, and the weights; but what stays is there already."""
        mine = {name: by[self.method][0] for name, by in self.shared.items() if self.method in by}
        before = {name: self.staying(name) for name in mine}
        for tensor in self.graph["tensors"]:
            if tensor["kind"] in GIVEN:
                at = turn if tensor["kind"] == "input" else 0
                self.write(tensor["name"], noise(tensor["bytes"], self.method, tensor["name"], at))
        for name, tensor in mine.items():
            root = self.root[tensor][0]
            if next(t["kind"] for t in self.graph["tensors"] if t["name"] == root) in GIVEN:
                self.write(tensor, before[name])

    def staying(self, name: str) -> bytes:
        if self.places is None:
            return self.kept[name]
        method, names = next(iter(self.shared[name].items()))
        at = self.places[method][names[0]]
        return bytes(self.arena[at : at + self.sizes[method][names[0]]])

    def execute(self, op: Mapping[str, Any]) -> None:
        read = [self.read(name) for name in op["inputs"]]
        workspace = f"{op['name']}.workspace"
        if self.places is not None and workspace in self.places[self.method]:
            at = self.places[self.method][workspace]
            self.arena[at : at + op["workspace"]] = noise(op["workspace"], "workspace")
        shown = {view["output"] for view in op.get("alias", ())}
        made = {}
        for name in op["outputs"]:
            if name in shown:
                continue
            size = self.sizes[self.method][name]
            value = bytearray(noise(size, op["name"], name, *read))
            for view in op.get("slice", ()):
                if view["output"] == name:
                    value = bytearray(self.read(view["input"])[view["offset"] :][:size])
            for view in op.get("concat", ()):
                if view["output"] == name:
                    part = self.read(view["input"])
                    value[view["offset"] : view["offset"] + len(part)] = part
            made[name] = bytes(value)
        for name, value in made.items():
            self.write(name, value)

    def where(self, name: str) -> tuple[bytearray, int]:
        if self.places is not None and name in self.places[self.method]:
            return self.arena, self.places[self.method][name]
        root, at = self.root[name]
        size = self.sizes[self.method][root]
        return self.own.setdefault(root, bytearray(noise(size, "unwritten"))), at

    def read(self, name: str) -> bytes:
        memory, at = self.where(name)
        return bytes(memory[at : at + self.sizes[self.method][name]])

    def write(self, name: str, value: bytes) -> None:
        memory, at = self.where(name)
        memory[at : at + len(value)] = value
