"""Small random graphs with all that a graph may say of bytes, and what they compute, byte by byte."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from typing import Any

Dict = dict[str, Any]
_KINDS = {
    **{"fresh": 10, "view": 3, "part": 2, "overwrite": 2, "slice": 2, "concat": 2},
    **{"change": 3, "silent": 2, "chance": 1, "both": 1},
}


class _Builder:
    """Makes a graph op by op. A root, which owns bytes, may be changed in place, or shared without a copy, not both."""

    def __init__(self, chance: random.Random, most: int) -> None:
        self.chance = chance
        self.tensors: list[Dict] = []
        self.ops: list[Dict] = []
        self.place: dict[str, tuple[str, int]] = {}  # of a tensor: its root, and where it begins there
        self.size: dict[str, int] = {}
        self.changes: dict[str, bool] = {}  # of a root: whether ops may change it
        self.gone: set[str] = set()  # tensors whose bytes were overwritten
        self.touched: dict[str, list[str]] = {}  # of a root: the last op that changed it, and those that used it since
        for k in range(chance.randint(1, 3)):
            self.add(f"x{k}", chance.randint(0, 8), chance.choice(["input", "weight"]))
        kinds = chance.choices(list(_KINDS), list(_KINDS.values()), k=chance.randint(3, most))
        for k, kind in enumerate(kinds):
            getattr(self, f"_{kind}")({"name": f"op{k}", "outputs": [], "cost": chance.randint(0, 9)}, f"t{k}")
        there = [name for name in self.place if name not in self.gone]
        self.outputs = list(dict.fromkeys([*(chance.choice(there) for _ in range(chance.randint(0, 2))), there[-1]]))

    def add(self, name: str, size: int, kind: str | None = None, within: tuple[str, int] | None = None) -> str:
        self.tensors.append({"name": name, "bytes": size} | ({"kind": kind} if kind else {}))
        self.place[name] = within or (name, 0)
        self.size[name] = size
        if within is None:
            self.changes[name] = self.chance.random() < 0.5
        return name

    def pick(self, changes: bool | None = None) -> str | None:
        """A tensor that is there: one of the last, or an early one again."""
        names = [n for n in self.place if n not in self.gone]
        names = [n for n in names if changes is None or self.changes[self.place[n][0]] == changes]
        if not names:
            return None
        return self.chance.choice(names[-3:] if self.chance.random() < 0.5 else names)

    def end(self, op: Dict, inputs: list[str], written: tuple[str, ...] = ()) -> None:
        """Add an op; it waits for what changed its inputs, and what changes them waits for it."""
        op["inputs"] = list(dict.fromkeys(inputs))
        after: list[str] = []
        for root in {self.place[name][0]: None for name in op["inputs"]}:
            known = self.touched.setdefault(root, [])
            if root in written:
                after += known
                known[:] = [op["name"]]
            else:
                after += known[:1]
                known.append(op["name"])
        op["after"] = list(dict.fromkeys(name for name in after if name))
        for name in op["outputs"]:
            self.touched.setdefault(self.place[name][0], [op["name"]])
        if self.chance.random() < 0.2:
            op["workspace"] = self.chance.randint(1, 5)
        if self.chance.random() < 0.05:
            op["recompute"] = False
        self.ops.append(op)

    def inputs(self) -> list[str]:
        return [name for name in (self.pick() for _ in range(self.chance.randint(1, 3))) if name is not None]

    def _fresh(self, op: Dict, name: str) -> None:
        inputs = self.inputs()
        op["outputs"] = [self.add(name, self.chance.choice([self.size[inputs[0]], self.chance.randint(1, 8)]))]
        op["inplace"] = [{"output": name, "input": one} for one in dict.fromkeys(inputs) if self.chance.random() < 0.5]
        if self.chance.random() < 0.2:
            op["outputs"].append(self.add(f"{name}b", self.chance.randint(0, 8)))
        self.end(op, inputs)

    def _chance(self, op: Dict, name: str) -> None:
        op["type"] = "aten.rand_like.default"
        self._fresh(op, name)

    def _view(self, op: Dict, name: str, size: int | None = None) -> None:
        of = op.pop("of", None) or self.inputs()[0]
        size = self.size[of] if size is None else min(size, self.size[of])
        offset = self.chance.randint(0, self.size[of] - size)
        root, begin = self.place[of]
        op |= {"type": "aten.view.default", "alias": [{"output": name, "input": of, "offset": offset}]}
        op["outputs"] = [self.add(name, size, within=(root, begin + offset)), *op["outputs"]]
        self.end(op, [of, *op.pop("also", [])])

    def _part(self, op: Dict, name: str) -> None:
        self._view(op, name, self.chance.randint(0, 5))

    def _both(self, op: Dict, name: str) -> None:
        """A view, and bytes of its own."""
        op |= {"of": self.inputs()[0], "also": self.inputs()}
        op["outputs"] = [self.add(f"{name}b", self.chance.randint(1, 8))]
        self._view(op, name)

    def _overwrite(self, op: Dict, name: str) -> None:
        of = self.pick(True)
        if of is None or any(t["name"] == self.place[of][0] and t.get("kind") for t in self.tensors):
            return self._fresh(op, name)
        size = self.chance.choice([self.size[of], self.chance.randint(0, self.size[of])])
        root, begin = self.place[of][0], self.place[of][1]
        op["overwrite"] = [{"output": name, "input": of, "offset": 0}]
        also = [other for other in self.inputs() if self.place[other][0] != root]
        for other, (owner, at) in self.place.items():
            if owner == root and max(at, begin) < min(at + self.size[other], begin + size):
                self.gone.add(other)
        op["outputs"] = [self.add(name, size, within=(root, begin))]
        self.end(op, [of, *also], (root,))

    def _change(self, op: Dict, name: str) -> None:
        of = self.pick(True)
        if of is None:
            return self._fresh(op, name)
        inputs = [of, *self.inputs()][: self.chance.randint(1, 3)]
        op |= {"type": "aten.relu_.default", "alias": [{"output": name, "input": of, "offset": 0}]}
        op["outputs"] = [self.add(name, self.size[of], within=self.place[of])]
        self.end(op, inputs, (self.place[of][0],))

    def _silent(self, op: Dict, name: str) -> None:
        of = self.pick(True)
        if of is None:
            return self._fresh(op, name)
        op["type"] = "aten.add_.Tensor"
        self.end(op, [of, *self.inputs()], (self.place[of][0],))

    def _slice(self, op: Dict, name: str) -> None:
        of = self.pick(False)
        if of is None:
            return self._fresh(op, name)
        size = self.chance.randint(0, self.size[of])
        op["outputs"] = [self.add(name, size)]
        self.changes[name] = False
        op["slice"] = [{"output": name, "input": of, "offset": self.chance.randint(0, self.size[of] - size)}]
        self.end(op, [of])

    def _concat(self, op: Dict, name: str) -> None:
        parts = list(dict.fromkeys(one for one in (self.pick(False) for _ in range(3)) if one is not None))
        if not parts:
            return self._fresh(op, name)
        op["concat"], end = [], 0
        for part in parts:
            op["concat"].append({"output": name, "input": part, "offset": end})
            end += self.size[part]
        op["outputs"] = [self.add(name, end)]
        self.changes[name] = False
        self.end(op, parts)


def related_graph(chance: random.Random, most: int = 12) -> Dict:
    """Up to `most` ops: views, changes in place, overwrites, slices, concatenations, random numbers, workspaces."""
    built = _Builder(chance, most)
    return {"tensors": built.tensors, "ops": built.ops, "outputs": built.outputs}


def computed_bytes(graph: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """What lies in graph outputs, inputs and weights at the end: for each byte, which op made it of what.

    Copies "op~1" are the same as their op, unless it draws random numbers.
    """
    size = {tensor["name"]: tensor["bytes"] for tensor in graph["tensors"]}
    made = {name for op in graph["ops"] for name in op["outputs"]}
    place = {name: (name, 0) for name in size}
    memory = {name: [hash((name, b)) for b in range(size[name])] for name in size if name not in made}
    outside: dict[str, list[int]] = {}
    runs: Counter[str] = Counter()

    def read(name: str) -> list[int]:
        root, begin = place[name]
        return memory[root][begin : begin + size[name]]

    def write(name: str, values: list[int]) -> None:
        root, begin = place[name]
        memory.setdefault(root, [0] * size[root])[begin : begin + size[name]] = values

    for op in graph["ops"]:
        name, type = op["name"].split("~")[0], op.get("type", "")
        if type == "memplan.move_out":
            outside[op["name"]] = read(op["inputs"][0])
            continue
        if type == "memplan.fetch":
            [source] = [before for before in op["after"] if before in outside]
            write(op["outputs"][0], outside[source])
            continue
        runs[name] += 1
        seen = hash((name, *(tuple(read(one)) for one in op["inputs"]), runs[name] if "rand" in type else 0))
        views = {view["output"]: view for view in (*op.get("alias", ()), *op.get("overwrite", ()))}
        for output, view in views.items():
            root, begin = place[view["input"]]
            place[output] = (root, begin + view.get("offset", 0))
        if type.endswith(("_.default", "_.Tensor")):
            changed = [view["input"] for view in op.get("alias", ())] or op["inputs"][:1]
            for one in changed:
                write(one, [hash((seen, b)) for b in range(size[one])])
        copied = {view["output"]: view for view in op.get("slice", ())}
        for output in op["outputs"]:
            if output in {view["output"] for view in op.get("alias", ())}:
                continue
            if output in copied:
                begin = copied[output].get("offset", 0)
                write(output, read(copied[output]["input"])[begin : begin + size[output]])
                continue
            write(output, [hash((seen, output.split("~")[0], b)) for b in range(size[output])])
        for part in op.get("concat", ()):
            begin = part.get("offset", 0)
            memory[part["output"]][begin : begin + size[part["input"]]] = read(part["input"])
    given = [name for name in size if name not in made]
    return {name: tuple(read(name)) for name in (*graph["outputs"], *given)}
