"""Random problems and random legal graph dicts, for hypothesis."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import assume, settings
from hypothesis import strategies as st

import memplan
from memplan import _core
from memplan.kinds import KINDS

QUICK = 20  # examples of the quick profile
# The same examples in every run, as many as the profile says (see conftest), and no deadlines: machines differ.
BOUNDED = settings(derandomize=True, deadline=None)


def bounded(quick: int) -> settings:
    """The same with so many examples; ten times as many with --slow."""
    return settings(BOUNDED, max_examples=quick * settings.default.max_examples // QUICK)


@st.composite
def columns(
    draw: st.DrawFn, max_buffers: int = 24, alignments: tuple[int, ...] = (1, 1, 2, 3, 4, 8, 12, 64)
) -> tuple[list[int], list[int], list[int], list[int]]:
    """Columns of a problem: size, first, last, alignment; small numbers, so that things meet."""
    rows = draw(
        st.lists(
            st.tuples(st.integers(0, 20), st.integers(-3, 12), st.integers(1, 6), st.sampled_from(alignments)),
            max_size=max_buffers,
        )
    )
    size, first, length, alignment = (list(column) for column in zip(*rows, strict=True)) if rows else ([], [], [], [])
    return size, first, [f + n for f, n in zip(first, length, strict=True)], alignment


@st.composite
def shapes(draw: st.DrawFn, problem: tuple[list[int], ...]) -> list[tuple[int, int, int, int, int]]:
    """Parts for some of the buffers, in any order: strips of bytes, each in use for one or two spans of steps."""
    parts = []
    for buffer, (size, first, last) in enumerate(zip(*problem[:3], strict=True)):
        if size == 0 or draw(st.booleans()):
            continue
        cuts = sorted({0, size, *draw(st.lists(st.integers(0, size), max_size=3))})
        for begin, end in pairwise(cuts):
            steps = sorted(draw(st.sets(st.integers(first, last), min_size=2, max_size=4)))
            spans = zip(steps[::2], steps[1::2], strict=False)
            parts += [(buffer, begin, end, birth, death) for birth, death in spans]
    return draw(st.permutations(parts))


@st.composite
def shaped_problems(
    draw: st.DrawFn, max_buffers: int = 10
) -> tuple[tuple[list[int], ...], list[tuple[int, int, int, int, int]], list[tuple[int, int]]]:
    """Columns as `columns` draws them, parts and conflicts as a Problem takes them; possibly none."""
    problem = draw(columns(max_buffers))
    buffer = st.integers(0, max(len(problem[0]) - 1, 0))
    pairs = st.tuples(buffer, buffer).filter(lambda pair: pair[0] != pair[1])
    conflicts = draw(st.lists(pairs, max_size=6)) if len(problem[0]) > 1 else []
    return problem, draw(shapes(problem)), conflicts


class _Builder:
    """Adds ops that are legal: reads only of what is intact, views inside what they look at."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.tensors: list[dict[str, Any]] = []
        self.ops: list[dict[str, Any]] = []
        self.place: dict[str, tuple[str, int]] = {}  # root and offset in it
        self.destroyed: dict[str, set[int]] = {}  # bytes of a tensor that an overwrite has taken

    def tensor(self, kind: str, size: int, place: tuple[str, int] | None = None) -> str:
        name = f"t{len(self.tensors)}"
        self.tensors.append({"name": name, "bytes": size, "kind": kind})
        self.place[name] = place or (name, 0)
        self.destroyed[name] = set()
        return name

    def size(self, name: str) -> int:
        return int(self.tensors[int(name[1:])]["bytes"])

    def readable(self) -> list[str]:
        return [t["name"] for t in self.tensors if t["kind"] != "workspace" and not self.destroyed[t["name"]]]

    def part_of(self, name: str) -> tuple[int, int]:
        offset = self.draw(st.integers(0, self.size(name)))
        return offset, self.draw(st.integers(0, self.size(name) - offset))

    def add_op(self) -> None:
        choices = self.readable()
        inputs = self.draw(st.lists(st.sampled_from(choices), max_size=3)) if choices else []
        op: dict[str, Any] = {"name": f"op{len(self.ops)}", "inputs": inputs, "outputs": []}
        op["workspace"] = self.draw(st.sampled_from([0, 0, 3, 7]))
        plans = ["new", "new", "alias", "overwrite", "scratch"] if inputs else ["new", "scratch"]
        overwritten = False
        for plan in self.draw(st.lists(st.sampled_from(plans), max_size=3)):
            if plan in ("new", "scratch"):
                kind = "workspace" if plan == "scratch" else "intermediate"
                op["outputs"].append(self.tensor(kind, self.draw(st.integers(0, 9))))
            elif plan == "alias" and not overwritten:
                self.add_view(op, "alias")
            elif plan == "overwrite" and not overwritten and "alias" not in op:
                overwritten = True
                self.destroy(self.add_view(op, "overwrite"))
        self.ops.append(op)

    def add_view(self, op: dict[str, Any], relation: str) -> str:
        source = self.draw(st.sampled_from(op["inputs"]))
        offset, size = self.part_of(source)
        root, begin = self.place[source]
        output = self.tensor("intermediate", size, (root, begin + offset))
        op["outputs"].append(output)
        op.setdefault(relation, []).append({"output": output, "input": source, "offset": offset})
        return output

    def destroy(self, output: str) -> None:
        root, begin = self.place[output]
        taken = set(range(begin, begin + self.size(output)))
        for name, (other, at) in self.place.items():
            if other == root and name != output:
                self.destroyed[name] |= taken & set(range(at, at + self.size(name)))

    def finish(self) -> dict[str, Any]:
        intact = self.readable()
        outputs = self.draw(st.lists(st.sampled_from(intact), max_size=3)) if intact else []
        for tensor in self.tensors:
            if tensor["kind"] == "intermediate" and tensor["name"] in intact and self.draw(st.integers(0, 7)) == 0:
                tensor["kind"] = "output"
        return {"tensors": self.tensors, "ops": self.ops, "outputs": outputs}


@st.composite
def graph_dicts(draw: st.DrawFn, max_ops: int = 7) -> dict[str, Any]:
    """A legal graph dict with aliases, views of views, overwrites, workspaces and outputs of every sort."""
    builder = _Builder(draw)
    for kind in draw(st.lists(st.sampled_from(["input", "weight"]), max_size=3)):
        builder.tensor(kind, draw(st.integers(0, 9)))
    for _ in range(draw(st.integers(0, max_ops))):
        builder.add_op()
    return builder.finish()


places = st.sets(st.sampled_from(KINDS)).map(sorted)


class _Relations(_Builder):
    """Adds what ops may do with bytes, in place, slices and concatenations, and streams and what runs after what."""

    def __init__(self, draw: st.DrawFn) -> None:
        super().__init__(draw)
        self.streams = draw(st.sampled_from([1, 1, 2, 3]))
        self.overwrites = self.streams == 1 or draw(st.integers(0, 3)) == 0  # they race easily

    def add_op(self) -> None:
        choices = self.readable()[-5:]
        inputs = self.draw(st.lists(st.sampled_from(choices), min_size=1, max_size=3)) if choices else []
        op: dict[str, Any] = {"name": f"op{len(self.ops)}", "inputs": inputs, "outputs": []}
        op["workspace"] = self.draw(st.sampled_from([0, 0, 3]))
        op["stream"] = self.draw(st.integers(0, self.streams - 1))
        if self.ops and self.draw(st.integers(0, 4)) == 0:
            op["after"] = [f"op{self.draw(st.integers(0, len(self.ops) - 1))}"]
        must = ["alias", *["overwrite"][: self.overwrites]]
        plans = ["new", "inplace", "inplace", "slice", "concat", *must] if inputs else ["new"]
        chosen = self.draw(st.lists(st.sampled_from(plans), min_size=1, max_size=2))
        if "overwrite" in chosen and ("alias" in chosen or chosen.count("overwrite") == 2):
            chosen = ["overwrite"]
        for plan in chosen:
            self.add_output(op, plan)
        self.ops.append(op)

    def add_output(self, op: dict[str, Any], plan: str) -> None:
        if plan == "alias":
            self.add_view(op, plan)
        elif plan == "overwrite":
            self.destroy(self.add_view(op, plan))
        elif plan == "concat":
            self.add_concat(op)
        elif plan == "slice":
            source = self.draw(st.sampled_from(op["inputs"]))
            offset, size = self.part_of(source)
            self.relate(op, plan, self.add_new(op, size), source, offset)
        else:
            same = op["inputs"] and self.draw(st.booleans())
            output = self.add_new(op, self.size(op["inputs"][0]) if same else self.draw(st.integers(0, 9)))
            for source in dict.fromkeys(op["inputs"] if plan == "inplace" else []):
                offset = self.draw(st.sampled_from([0, 0, 2]))
                if not offset or offset + self.size(output) <= self.size(source):
                    self.relate(op, plan, output, source, offset)

    def add_new(self, op: dict[str, Any], size: int) -> str:
        output = self.tensor("intermediate", size)
        op["outputs"].append(output)
        return output

    def add_concat(self, op: dict[str, Any]) -> None:
        begins, end = [], 0
        for source in op["inputs"]:
            end += self.draw(st.sampled_from([0, 0, 0, 2]))
            begins.append(end)
            end += self.size(source)
        output = self.add_new(op, end)
        for source, begin in zip(op["inputs"], begins, strict=True):
            self.relate(op, "concat", output, source, begin)

    @staticmethod
    def relate(op: dict[str, Any], relation: str, output: str, source: str, offset: int) -> None:
        op.setdefault(relation, []).append({"output": output, "input": source, "offset": offset})


@st.composite
def relation_graphs(draw: st.DrawFn, max_ops: int = 6) -> dict[str, Any]:
    """A legal graph dict with every relation that an op may state."""
    builder = _Relations(draw)
    for kind in draw(st.lists(st.sampled_from(["input", "weight"]), min_size=1, max_size=2)):
        builder.tensor(kind, draw(st.integers(1, 9)))
    for _ in range(draw(st.integers(1, max_ops))):
        builder.add_op()
    graph = builder.finish()
    if builder.overwrites and builder.streams > 1:  # they may race
        try:
            _core.buffers_of(memplan.capture(graph).graph, _core.StorageOptions([]))
        except memplan.errors.GraphError as error:
            assume("which of them runs first" not in str(error))
    return graph
