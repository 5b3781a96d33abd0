"""Runs graphs in real cells of memory, one per byte, as a plan lays them. Written apart: nothing here imports memplan.

A first run without a plan says what each tensor holds. Then ops run in the memory of a plan, and each reads its inputs
before, while and after it writes its outputs, byte by byte and in any order of the bytes. So an output that lies where
an input is spoils it, unless the op permits just this: this output, over this input, from this byte on; or the input
is a view of what the op overwrites on purpose. Between ops, garbage is written to all that nobody needs any more.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from random import Random
from typing import Any

GraphDict = Mapping[str, Any]
Place = tuple[str, int]  # a region of memory, and the first byte there
ARENA = ""
GIVEN = ("input", "weight")


def views(op: Mapping[str, Any], *relations: str) -> Iterator[tuple[str, str, int]]:
    """The views of an op as (output, input, offset)."""
    for relation in relations:
        for view in op.get(relation, ()):
            yield view["output"], view["input"], view.get("offset", 0)


class _Values:
    """What tensors hold without a plan, each that is no view in bytes of its own; no two values made are the same."""

    def __init__(self, graph: GraphDict) -> None:
        self.size = {t["name"]: t["bytes"] for t in graph["tensors"]}
        self.kind = {t["name"]: t.get("kind", "intermediate") for t in graph["tensors"]}
        self.root = {name: (name, 0) for name in self.size}
        self.bytes: dict[str, list[int]] = {}
        self.new = itertools.count(1)
        for name, kind in self.kind.items():
            if kind in GIVEN:
                self.bytes[name] = self.make(name)

    def make(self, name: str) -> list[int]:
        return [next(self.new) for _ in range(self.size[name])]

    def of(self, name: str) -> list[int]:
        owner, begin = self.root[name]
        return self.bytes[owner][begin : begin + self.size[name]]

    def run(self, op: Mapping[str, Any]) -> None:
        for output, source, offset in views(op, "alias", "overwrite"):
            owner, begin = self.root[source]
            self.root[output] = (owner, begin + offset)
        placed = {output for output, _, _ in views(op, "alias", "overwrite")}
        before = {source: self.of(source) for source in op["inputs"]}
        self.bytes.update((output, self.make(output)) for output in op["outputs"] if output not in placed)
        for output, source, offset in views(op, "slice"):
            self.bytes[output] = before[source][offset : offset + self.size[output]]
        for output, source, offset in views(op, "concat"):
            self.bytes[output][offset : offset + self.size[source]] = before[source]
        for output, _, _ in views(op, "overwrite"):
            owner, begin = self.root[output]
            self.bytes[owner][begin : begin + self.size[output]] = self.make(output)


class _Run:
    """A run in the memory of a plan; `faults` says what goes wrong."""

    def __init__(
        self, graph: GraphDict, place: Mapping[str, Place], scratch: Mapping[str, Place], donated: Collection[str]
    ) -> None:
        self.graph, self.place, self.scratch, self.donated = graph, place, scratch, donated
        self.values = _Values(graph)
        self.memory: dict[Place, int] = {}
        self.garbage = itertools.count(-1, -1)
        self.faults: list[str] = []
        self.there = [name for name, kind in self.values.kind.items() if kind in GIVEN]
        for name in self.there:
            self.memory.update(zip(self.cells(name), self.values.of(name), strict=True))

    def cells(self, name: str) -> list[Place]:
        region, begin = self.place[name]
        return [(region, begin + i) for i in range(self.values.size[name])]

    def check(self, name: str, what: str, but: Collection[tuple[str, int]] = ()) -> None:
        """Each byte of a tensor must hold what it does without a plan, but for some of them."""
        for i, (cell, value) in enumerate(zip(self.cells(name), self.values.of(name), strict=True)):
            if self.memory.get(cell) != value and (name, i) not in but:
                self.faults.append(f"{what} {name}, byte {i}")
                return

    def spoil(self, live: Collection[str]) -> None:
        """Garbage for all that none of these needs."""
        needed = {cell for name in live for cell in self.cells(name)}
        for cell in self.memory:
            if cell not in needed:
                self.memory[cell] = next(self.garbage)

    def execute(self, op: Mapping[str, Any], chance: Random) -> None:
        name = op["name"]
        for source in op["inputs"]:
            self.check(source, f"{name} reads")
        before = {source: self.values.of(source) for source in op["inputs"]}
        self.values.run(op)
        writes = [(cell, value, output) for output in op["outputs"] for cell, value in self.written(op, output)]
        region, begin = self.scratch.get(name, (ARENA, 0))
        scratch = [(region, begin + i) for i in range(op.get("workspace", 0) if name in self.scratch else 0)]
        writes += [(cell, next(self.garbage), "") for cell in scratch]
        chance.shuffle(writes)
        may = {(cell, output): self.permitted(op, output) for cell, _, output in writes}
        excused: set[tuple[str, int]] = set()
        read = {cell: [] for cell, _, _ in writes}
        for source in before:
            for i, cell in enumerate(self.cells(source)):
                if cell in read:
                    read[cell].append((source, i))
        for cell, value, output in writes:
            self.memory[cell] = value
            excused.update(byte for byte in read[cell] if byte[0] in may[cell, output])
        for source, held in before.items():
            for i, (cell, value) in enumerate(zip(self.cells(source), held, strict=True)):
                if self.memory[cell] != value and (source, i) not in excused:
                    self.faults.append(f"{name} writes while it reads {source}, byte {i}")
        for output in op["outputs"]:
            self.check(output, f"{name} writes")
        if any(self.memory[cell] != value for cell, value, output in writes if not output):
            self.faults.append(f"{name} writes over its workspace")
        self.there += op["outputs"]

    def written(self, op: Mapping[str, Any], output: str) -> Iterator[tuple[Place, int]]:
        """What an op writes of an output: nothing of what is there already, because it is a view or lies as one."""
        there: set[int] = set()
        for view, source, offset in views(op, "alias", "overwrite"):
            if view == output and self.values.size[output] and not self.lies_in(output, source, offset):
                self.faults.append(f"{op['name']} puts {output} outside of {source}")
        for view, source, offset in views(op, "alias", "slice"):
            if view == output and self.lies_in(output, source, offset):
                there.update(range(self.values.size[output]))
        for whole, part, offset in views(op, "concat"):
            if whole == output and self.lies_in(part, whole, offset):
                there.update(range(offset, offset + self.values.size[part]))
        for i, (cell, value) in enumerate(zip(self.cells(output), self.values.of(output), strict=True)):
            if i not in there:
                yield cell, value

    def lies_in(self, inside: str, whole: str, offset: int) -> bool:
        (region, at), (other, begin) = self.place[inside], self.place[whole]
        return region == other and at == begin + offset

    def permitted(self, op: Mapping[str, Any], output: str) -> set[str]:
        """The inputs that an output may spoil where it lies."""
        over = {view: self.values.root[view][0] for view, _, _ in views(op, "overwrite")}
        return {
            source
            for source in op["inputs"]
            if over.get(output) == self.values.root[source][0]
            or any(
                view == output and named == source and self.lies_in(output, source, offset)
                for view, named, offset in views(op, "inplace")
            )
        }

    def kept(self) -> list[str]:
        """What the caller gets, finds as it was, or as ops have overwritten it on purpose."""
        gets = {*self.graph["outputs"], *(name for name, kind in self.values.kind.items() if kind == "output")}
        lends = {
            name
            for name, kind in self.values.kind.items()
            if kind == "weight" or (kind == "input" and self.place[name][0] != ARENA and name not in self.donated)
        }
        return sorted(gets | lends)


def faults(
    graph: GraphDict,
    place: Mapping[str, Place],
    scratch: Mapping[str, Place],
    *,
    donated: Collection[str] = (),
    sequence: Sequence[int] | None = None,
    seed: int = 0,
) -> list[str]:
    """What goes wrong when a graph runs where a plan puts it; nothing where every value is kept.

    Parameters
    ----------
    place : mapping of str to (str, int)
        Per tensor, its region and its first byte there; ARENA, or whatever region the caller names.
    scratch : mapping of str to (str, int)
        The same for the workspaces of ops that are looked at.
    sequence : sequence of int, optional
        The ops in the order in which they run.
    """
    chance = Random(seed)
    run = _Run(graph, place, scratch, donated)
    order = list(range(len(graph["ops"])) if sequence is None else sequence)
    kept = run.kept()
    for step, k in enumerate(order):
        later = {source for other in order[step:] for source in graph["ops"][other]["inputs"]}
        run.spoil([name for name in run.there if name in later or name in kept])
        run.execute(graph["ops"][k], chance)
    run.spoil([name for name in run.there if name in kept])
    for name in kept:
        run.check(name, "at the end is needed")
    return run.faults


def random_sequence(graph: GraphDict, chance: Random) -> list[int]:
    """A random order of the ops that keeps data, `after`, and the order of each stream."""
    position = {op["name"]: k for k, op in enumerate(graph["ops"])}
    maker = {output: k for k, op in enumerate(graph["ops"]) for output in op["outputs"]}
    waits: list[set[int]] = []
    last: dict[int, int] = {}
    for k, op in enumerate(graph["ops"]):
        before = {maker[t] for t in op["inputs"] if t in maker} | {position[name] for name in op.get("after", ())}
        before |= {last[op.get("stream", 0)]} if op.get("stream", 0) in last else set()
        last[op.get("stream", 0)] = k
        waits.append(before)
    sequence: list[int] = []
    while len(sequence) < len(waits):
        ready = [k for k in range(len(waits)) if k not in sequence and waits[k] <= set(sequence)]
        sequence.append(chance.choice(ready))
    return sequence


def random_graph(chance: Random, ops: int, *, streams: bool = False) -> dict[str, Any]:
    """A random legal graph of small tensors in which bytes have many names, and ops read them by several."""
    return _Builder(chance, streams).graph(chance.randint(1, ops))


class _Builder:
    def __init__(self, chance: Random, streams: bool) -> None:
        self.chance, self.streams = chance, streams
        self.overwrites = not streams and chance.random() < 0.5
        self.tensors: list[dict[str, Any]] = []
        self.size: dict[str, int] = {}
        self.span: dict[str, tuple[str, int]] = {}  # per tensor, in what it must lie, and where
        self.near: dict[str, list[str]] = {}  # per tensor, others that show bytes of it
        self.intact: list[str] = []

    def add(self, size: int, kind: str = "intermediate", inside: tuple[str, int] | None = None) -> str:
        name = f"t{len(self.tensors)}"
        self.tensors.append({"name": name, "bytes": size, "kind": kind})
        self.size[name], self.span[name] = size, inside or (name, 0)
        self.near[name] = []
        self.intact.append(name)
        return name

    def graph(self, ops: int) -> dict[str, Any]:
        for _ in range(self.chance.randint(1, 2)):
            self.add(self.chance.randint(1, 6), self.chance.choice(["input", "input", "weight"]))
        made = [self.op(k) for k in range(ops)]
        outputs = [name for name in self.intact if self.chance.random() < 0.2]
        return {"tensors": self.tensors, "ops": made, "outputs": outputs}

    def reads(self) -> list[str]:
        """Some tensors, often with others that have the same bytes, or twice."""
        found = [self.chance.choice(self.intact[-6:]) for _ in range(self.chance.randint(1, 2))]
        for name in list(found):
            others = [other for other in self.near[name] if other in self.intact]
            if others and self.chance.random() < 0.6:
                found.append(self.chance.choice(others))
            if self.chance.random() < 0.1:
                found.append(name)
        self.chance.shuffle(found)
        return found

    def op(self, k: int) -> dict[str, Any]:
        op: dict[str, Any] = {"name": f"o{k}", "inputs": self.reads(), "outputs": []}
        if self.streams:
            op["stream"] = self.chance.randint(0, 1)
        if self.chance.random() < 0.15:
            op["workspace"] = self.chance.randint(1, 4)
        relations = ["alias", "alias", "slice", "slice", "concat", "inplace", "inplace", "inplace", "inplace", ""]
        if self.overwrites and self.chance.random() < 0.2:
            self.overwrite(op)
            return op
        for _ in range(self.chance.choice([1, 1, 1, 2])):
            self.output(op, self.chance.choice(relations))
        return op

    def relate(self, op: dict[str, Any], relation: str, output: str, source: str, offset: int) -> None:
        op.setdefault(relation, []).append({"output": output, "input": source, "offset": offset})
        if relation != "inplace":
            family = [source, *self.near[source]]
            for other in family:
                self.near[other].append(output)
            self.near[output] += family

    def output(self, op: dict[str, Any], relation: str) -> None:
        source = self.chance.choice(op["inputs"])
        if relation in ("alias", "slice"):
            size = self.size[source] if self.chance.random() < 0.6 else self.chance.randint(1, self.size[source])
            offset = self.chance.randint(0, self.size[source] - size)
            owner, begin = self.span[source]
            name = self.add(size, inside=(owner, begin + offset) if relation == "alias" else None)
            op["outputs"].append(name)
            self.relate(op, relation, name, source, offset)
        elif relation == "concat":
            end, parts = self.chance.randint(0, 1), []
            for part in op["inputs"]:
                parts.append((part, end))
                end += self.size[part] + self.chance.choice([0, 0, 1])
            name = self.add(end)
            op["outputs"].append(name)
            for part, offset in parts:
                self.relate(op, relation, name, part, offset)
        else:
            size = self.size[source] if self.chance.random() < 0.7 else self.chance.randint(1, 6)
            name = self.add(size)
            op["outputs"].append(name)
            for over in dict.fromkeys(op["inputs"] if relation else ()):
                if size <= self.size[over] and self.chance.random() < 0.6:
                    offset = self.chance.choice([0, 0, self.chance.randint(0, self.size[over] - size)])
                    self.relate(op, "inplace", name, over, offset)

    def overwrite(self, op: dict[str, Any]) -> None:
        source = self.chance.choice(op["inputs"])
        size = self.chance.randint(1, self.size[source])
        offset = self.chance.randint(0, self.size[source] - size)
        owner, begin = self.span[source]
        first, last = begin + offset, begin + offset + size
        for other in list(self.intact):
            at = self.span[other][1]
            if self.span[other][0] == owner and max(at, first) < min(at + self.size[other], last):
                self.intact.remove(other)
        name = self.add(size, inside=(owner, first))
        op["outputs"].append(name)
        op["overwrite"] = [{"output": name, "input": source, "offset": offset}]
