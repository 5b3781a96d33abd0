"""From a module of HLO to a graph dict.

Tuples, bitcasts and elements of tuples are no ops: they show what is there. A call is the ops that it runs. So is a
loop: the ops of its body are there once, and what it carries is written where it was. Another op that runs
computations, such as `conditional`, holds the peak of these as workspace. Parameters that are given away
(`donate_argnums`) lie in the arena, as results may take their bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import PurePath
from typing import Any

from ...importers.graph_dict import peak_of
from . import branching
from .branching import Branch
from .lying_over import Carrying, LyingOver
from .shapes import Shape
from .text import Computation, HloError, Instruction, Module, fields_of, names_in
from .writing_over import sorted_over, written_over

_CALLS = ("calls", "branch_computations", "true_computation", "false_computation")
_SHOWN = ("bitcast", "opt-barrier", "optimization-barrier", "add-dependency", "domain")  # they show their operand
_DRAWS = ("rng", "rng-bit-generator", "rng-get-and-update-state")
_ACTS = ("infeed", "outfeed", "send", "recv", "custom-call", "all-reduce", "all-gather", "all-to-all", "reduce-scatter")
_INSIDE = ("intermediate", "workspace")  # what a body needs beside what it is given and what it returns
_SHOWS = {"copy-start": 1, "send": 0}  # the element that shows the operand; in other ops that begin, the first may
_GIVEN = "donated parameters"  # the op that begins with them
_MOST_CALLS = 100_000
_MOST_DEPTH = 100  # of bodies in bodies

Tree = Any  # the name of a tensor, None for what takes no bytes, or a list of trees


def graph_of_module(module: Module, source: str, space: int = 0) -> dict[str, Any]:
    """The graph dict of the entry computation; tensors in other spaces than this one are excluded from the arena."""
    return _Reader(module, source, space).graph(module.computations[module.entry], donated_of(module))


def spaces_of(module: Module) -> list[int]:
    """The memory spaces that arrays of a module lie in."""
    ops = (one for each in module.computations.values() for one in each.instructions.values())
    return sorted({shape.space for one in ops for shape in one.shape.leaves()})


def donated_of(module: Module) -> set[int]:
    """Numbers of the parameters whose bytes results may take."""
    text = module.attributes.get("input_output_alias", "")
    return {int(number) for number in re.findall(r"\{[\d, ]*\}:\s*\((\d+),", text)}


class _Reader:
    """What all computations of a module have in common."""

    def __init__(self, module: Module, source: str, space: int) -> None:
        self._module, self._source, self.space = module, source, space
        self.computations = module.computations
        self._peaks: dict[str, int] = {}
        self._branches: dict[str, Branch] = {}
        self._open: list[str] = []
        self._entered = 0

    def graph(self, computation: Computation, donated: Collection[int] = ()) -> dict[str, Any]:
        return _Body(self, computation).graph(donated)

    def branch(self, computation: Computation) -> Branch:
        """A computation by itself."""
        if computation.name not in self._branches:
            with self.inside(computation):
                self._branches[computation.name] = _Body(self, computation).branch()
        return self._branches[computation.name]

    def peak(self, computation: Computation) -> int:
        """Bytes that a computation holds at most, besides parameters and results."""
        if computation.name not in self._peaks:
            self._peaks[computation.name] = peak_of({**self.branch(computation).graph}, _INSIDE)
        return self._peaks[computation.name]

    @contextmanager
    def inside(self, computation: Computation) -> Iterator[None]:
        """While a computation is read; HloError if it is being read already."""
        name = computation.name
        if name in self._open or len(self._open) > _MOST_DEPTH:
            raise HloError(f"{self._source}: line {computation.line}: computation {name!r} calls itself")
        self._entered += 1
        if self._entered > _MOST_CALLS:
            raise HloError(f"{self._source}: expected at most {_MOST_CALLS:,} calls, got more")
        self._open.append(name)
        yield
        self._open.pop()

    def called(self, name: str, otherwise: Callable[[], HloError]) -> Computation:
        if name not in self._module.computations:
            raise otherwise()
        return self._module.computations[name]

    def place(self, instruction: Instruction) -> str:
        """The line of code that an instruction comes from, as ``net.py:12``; empty if that is not known."""
        said = fields_of(instruction.attributes.get("metadata", ""))
        frame = said.get("stack_frame_id", "")
        file, line = said.get("source_file", ""), said.get("source_line", "")
        if frame.isdecimal() and int(frame) in self._module.frames:
            file, line = self._module.frames[int(frame)].file, str(self._module.frames[int(frame)].line)
        return f"{PurePath(file).name}:{line}" if file else ""

    def error(self, computation: Computation, instruction: Instruction, message: str) -> HloError:
        where = f"line {instruction.line} of computation {computation.name!r}"
        return HloError(f"{self._source}: {where}: {instruction.opcode} {instruction.name!r} {message}")


class _Body:
    """Ops and tensors of one computation."""

    def __init__(
        self,
        reader: _Reader,
        computation: Computation,
        caller: _Body | None = None,
        call: Instruction | None = None,
        given: Tree = None,
    ) -> None:
        """With a caller, its ops and tensors are those of the computation too, and parameters are what is given."""
        self._reader, self._computation, self._handed = reader, computation, given
        self.prefix, self.base, self.path = "", "", ""  # of names; of them, of the loop around; bodies around
        if caller is not None and call is not None:
            self.prefix, self.base, self.path = f"{caller.prefix}{call.name}/", caller.base, caller.path
            if call.opcode == "while":
                self.path = f"{self.path}/{self.prefix[len(self.base) : -1].replace('/', '.')}".lstrip("/")
                self.base = self.prefix
        self._values: dict[str, Tree] = {}
        self.tensors: dict[str, dict[str, Any]] = {} if caller is None else caller.tensors
        self.ops: list[dict[str, Any]] = [] if caller is None else caller.ops
        self.elsewhere: list[str] = [] if caller is None else caller.elsewhere  # what lies in other memory spaces
        self.lying: LyingOver = LyingOver(self.tensors, self.ops) if caller is None else caller.lying
        self._shapes = {name: one.shape for name, one in computation.instructions.items()}

    def graph(self, donated: Collection[int]) -> dict[str, Any]:
        returned = list(dict.fromkeys(_leaves(self.result())))
        for name in returned:
            if self.tensors[name]["kind"] == "intermediate":
                self.tensors[name]["kind"] = "output"
        barriers = self._given(donated)
        self.lying.decide({*returned, *self.elsewhere})
        outside = [name for name in self.elsewhere if name in self.tensors]
        found = {"tensors": [*self.tensors.values()], "ops": self.ops, "outputs": returned, "barriers": barriers}
        demands = {"exclude": outside, "together": self.lying.together}
        return found | {key: demanded for key, demanded in demands.items() if demanded}

    def branch(self) -> Branch:
        graph = self.graph(())
        parameters = [one for one in self._computation.instructions.values() if one.opcode == "parameter"]
        given = [name for one in parameters for name in _leaves(self._values[one.name])]
        return Branch(graph, given, [*_leaves(self._values[self._computation.root])], self.lying.by_choice)

    def result(self) -> Tree:
        """What the computation returns, after its ops."""
        for one in self._computation.instructions.values():
            self._values[one.name] = self._value(one)
        return self._values[self._computation.root]

    def _value(self, one: Instruction) -> Tree:
        operands = [self._operand(one, name) for name in one.operands]
        if one.opcode == "parameter" and self._handed is not None:
            return self._parameter(one)
        if one.opcode in ("parameter", "constant"):
            return self._new(one, one.shape, "input" if one.opcode == "parameter" else "weight")
        if one.opcode == "tuple":
            return self._checked(one, operands)
        if one.opcode == "get-tuple-element":
            return self._checked(one, self._element(one, operands))
        if one.opcode in _SHOWN and operands:
            return operands[0] if one.opcode == "bitcast" else self._checked(one, operands[0])
        if one.opcode == "while":
            return self._loop(one, operands)
        if one.opcode == "call":
            return self._call(one, operands)
        if one.opcode == "conditional":
            return self._conditional(one, operands)
        if one.opcode.endswith("-start") or one.opcode == "send":
            return self._start(one, operands)
        if one.opcode.endswith("-update") and operands:
            return self._update(one, operands)
        if one.opcode.endswith("-done") and operands:
            return self._done(one, operands[0])
        made = self._new(one, one.shape, "intermediate")
        self._op(one, operands, _leaves(made), self._inside(one))
        self._may_write_over(one, operands, made)
        return made

    # Values

    def _operand(self, one: Instruction, name: str) -> Tree:
        if name not in self._values:
            known = name in self._computation.instructions
            raise self._error(one, f"reads {name!r}, which {'comes later' if known else 'is not there'}")
        return self._values[name]

    def _element(self, one: Instruction, operands: list[Tree]) -> Tree:
        index = one.attributes.get("index", "")
        whole = operands[0] if operands else None
        if not isinstance(whole, list) or not index.isdecimal() or int(index) >= len(whole):
            raise self._error(one, f"has index={index or 'nothing'} of what is no such tuple")
        return whole[int(index)]

    def _parameter(self, one: Instruction) -> Tree:
        if not one.literal.isdecimal() or int(one.literal) >= len(self._handed):
            raise self._error(one, f"is number {one.literal or 'nothing'} of {len(self._handed)} operands")
        return self._checked(one, self._handed[int(one.literal)])

    def _call(self, one: Instruction, operands: list[Tree]) -> Tree:
        """The ops of a computation that is called run here."""
        name = next(iter(names_in(one.attributes.get("to_apply", ""))), "")
        called = self._called(one, name)
        with self._reader.inside(called):
            return self._checked(one, _Body(self._reader, called, self, one, operands).result())

    def _checked(self, one: Instruction, value: Tree) -> Tree:
        """What an instruction shows, which has the form that its shape says."""
        if not _fits(value, one.shape):
            raise self._error(one, "has another shape than what it shows")
        return value

    def _new(self, one: Instruction, shape: Shape, kind: str, *path: int) -> Tree:
        """A tensor for each array of a shape; elements of a tuple are named as XLA does, such as ``fusion{1}``."""
        if shape.elements is not None:
            return [self._new(one, each, kind, *path, k) for k, each in enumerate(shape.elements)]
        place, element = self._reader.place(one), f"{{{','.join(map(str, path))}}}" if path else ""
        name = f"{self.prefix}{one.name}{element}{f' ({place})' if place else ''}"
        said = {"bytes": shape.nbytes, "kind": kind, "dtype": shape.dtype, "shape": [*shape.dims]}
        self.tensors[name] = {"name": name, **said}
        if shape.space != self._reader.space:
            self.elsewhere.append(name)
        return name

    # Ops

    def _op(
        self,
        one: Instruction,
        operands: Sequence[Tree],
        outputs: Iterable[str],
        workspace: int = 0,
        path: str | None = None,
    ) -> None:
        target = one.attributes.get("custom_call_target", "").strip('"')
        op: dict[str, Any] = {
            "name": f"{self.prefix}{one.name}",
            "type": f"{one.opcode}:{target}" if target else one.opcode,
            "inputs": list(dict.fromkeys(leaf for operand in operands for leaf in _leaves(operand))),
            "outputs": list(outputs),
            "workspace": workspace,
            "body": self.path if path is None else path,
        }
        before = names_in(one.attributes.get("control-predecessors", ""))
        if before:
            made = {other["name"] for other in self.ops}
            op["after"] = [f"{self.prefix}{name}" for name in before if f"{self.prefix}{name}" in made]
        if one.opcode in _DRAWS or one.opcode.startswith(_ACTS):
            op["recompute"] = False
        self.ops.append(op)

    def _may_write_over(self, one: Instruction, operands: list[Tree], made: Tree) -> None:
        for output, given in self._said_to_lie_in(one, operands, made):
            self.lying.pairs.append((output, given))
        if sorted_over(one) and len({*operands}) == len(operands):
            self.ops[-1]["inplace"] = [{"output": a, "input": b} for a, b in zip(made, operands, strict=True)]
            return
        over = {*written_over(one, self._shapes, self._reader.computations)}
        elsewhere = {leaf for k, operand in enumerate(operands) if k not in over for leaf in _leaves(operand)}
        free = dict.fromkeys(operands[k] for k in sorted(over) if operands[k] not in elsewhere)
        if free:
            self.ops[-1]["inplace"] = [{"output": made, "input": name} for name in free]

    def _said_to_lie_in(self, one: Instruction, operands: list[Tree], made: Tree) -> Iterator[tuple[str, str]]:
        """Results of which the instruction says that they lie in operands."""
        text = one.attributes.get("output_to_operand_aliasing", "")
        for out, position, inside in re.findall(r"\{([\d, ]*)\}:\s*\((\d+),\s*\{([\d, ]*)\}", text):
            output = _at(made, out)
            given = _at(operands[int(position)], inside) if int(position) < len(operands) else None
            if isinstance(output, str) and isinstance(given, str):
                yield output, given

    def _inside(self, one: Instruction) -> int:
        """Bytes that the computations hold that an instruction runs, where these are more than functions of scalars."""
        if one.opcode not in ("conditional", "async-start"):
            return 0
        names = [name for key in _CALLS for name in names_in(one.attributes.get(key, ""))]
        return max((self._reader.peak(self._called(one, name)) for name in names), default=0)

    def _conditional(self, one: Instruction, operands: list[Tree]) -> Tree:
        """What each branch passes through is the same tensor afterwards."""
        made = self._new(one, one.shape, "intermediate")
        names = [name for key in _CALLS for name in names_in(one.attributes.get(key, ""))]
        called = [self._reader.branch(self._called(one, name)) for name in names]
        given, results = [[*_leaves(operand)] for operand in operands[1:]], [*_leaves(made)]
        counts = [(len(branch.given), len(branch.returned)) for branch in called]
        if not called or counts != [(len(each), len(results)) for each in given]:
            raise self._error(one, "has branches that take or return something else")
        branches = [*zip(called, given, strict=True)]
        through = branching.passed_through(branches, results)
        for name in through:
            del self.tensors[name]
        self._op(one, operands, [name for name in results if name not in through], self._inside(one))
        over = branching.written_over(branches, results)
        over = [(a, b) for a, b in over if a not in through and self._size(a) <= self._size(b)]
        if over:
            self.ops[-1]["inplace"] = [{"output": a, "input": b} for a, b in over]
        return _replaced(made, through)

    def _size(self, name: str) -> int:
        return int(self.tensors[name]["bytes"])

    # Loops

    def _loop(self, one: Instruction, operands: list[Tree]) -> Tree:
        """The ops of the body are there once. What they return is written where the loop began with it.

        The last op stands for the condition. It reads all that the next iteration needs.
        """
        body, condition = (names_in(one.attributes.get(key, ""))[:1] for key in ("body", "condition"))
        if len(operands) != 1 or not body or not _fits(operands[0], one.shape):
            raise self._error(one, "needs a body and one operand that has the shape of its result")
        called, begin = self._called(one, body[0]), len(self.ops)
        inside = _Body(self._reader, called, self, one, operands)
        with self._reader.inside(called):
            root = self._checked(one, inside.result())
        news = self._new(one, one.shape, "intermediate")
        carrying = Carrying(self.lying, begin)
        read, shown, carried = list[str](), dict[str, str](), set[str]()
        for given, result, new in zip(*map(_leaves, (operands[0], root, news)), strict=True):
            if result == given:
                shown[new] = given
            elif result in carrying.made and result not in carried:
                shown[new] = result
                carried.add(result)
                carrying.carry(given, result)
            else:
                read += [given]
                self.lying.pairs.append((new, given))
            read += [result]
        for name in shown:
            del self.tensors[name]
        needs = max((self._reader.peak(self._called(one, name)) for name in condition), default=0)
        self._op(one, [read], [name for name in _leaves(news) if name not in shown], needs, inside.path)
        return _replaced(news, shown)

    # Ops in two parts, and what is given

    def _start(self, one: Instruction, operands: list[Tree]) -> Tree:
        """One element shows the operands, which are read until the op is done; the others are new.

        What begins to be reduced lies in the operands.
        """
        elements = one.shape.elements
        if elements is None or len(elements) < 2 or one.opcode == "all-reduce-start":
            made = self._new(one, one.shape, "intermediate")
            self._op(one, operands, _leaves(made), self._inside(one))
            if one.opcode == "all-reduce-start":
                self.lying.pairs.extend(zip(_leaves(made), _leaves(operands), strict=False))
            return made
        shown = _SHOWS.get(one.opcode, 0)
        given = operands if elements[shown].elements is not None else next(iter(operands), None)
        made = [
            given if k == shown and _fits(given, each) else self._new(one, each, "intermediate", k)
            for k, each in enumerate(elements)
        ]
        read = {leaf for operand in operands for leaf in _leaves(operand)}
        self._op(one, operands, [leaf for leaf in _leaves(made) if leaf not in read], self._inside(one))
        return made

    def _update(self, one: Instruction, operands: list[Tree]) -> Tree:
        """More operands come, and maybe results."""
        started, elements = operands[0], one.shape.elements or ()
        if not isinstance(started, list) or not started or len(elements) < 2:
            raise self._error(one, "has another shape than what it goes on with")
        shown = [[*started[0], *operands[1:]] if isinstance(started[0], list) else started[0], *started[1:]]
        made = [
            shown[k] if k < len(shown) and _fits(shown[k], each) else self._new(one, each, "intermediate", k)
            for k, each in enumerate(elements)
        ]
        known = {leaf for operand in operands for leaf in _leaves(operand)}
        self._op(one, operands, [leaf for leaf in _leaves(made) if leaf not in known])
        return made

    def _done(self, one: Instruction, started: Tree) -> Tree:
        """What was made is there; where nothing was yet, it is made now."""
        found = self._found(one, started)
        made = self._new(one, one.shape, "intermediate") if found == [] else None
        self._op(one, [started], _leaves(made))
        return self._checked(one, found) if made is None else made

    def _found(self, one: Instruction, started: Tree) -> Tree:
        if not isinstance(started, list) or _fits(started, one.shape):
            return started
        if one.opcode in ("send-done", "recv-done"):
            return [*started[:1], *started[2:]] if one.shape.elements is not None else started[-1]
        found = [*started, None, None][0 if one.opcode == "copy-done" else 1]
        while isinstance(found, list) and len(found) == 1 and one.shape.elements is None:
            found = found[0]
        return found

    def _given(self, donated: Collection[int]) -> list[str]:
        """Parameters that are given away are there from the beginning until they are read for the last time."""
        given = [
            name
            for one in self._computation.instructions.values()
            if one.opcode == "parameter" and one.literal.isdecimal() and int(one.literal) in donated
            for name in _leaves(self._values[one.name])
        ]
        if not given:
            return []
        for name in given:
            self.tensors[name]["kind"] = "intermediate"
        self.ops.insert(0, {"name": _GIVEN, "type": "parameter", "inputs": [], "outputs": given, "recompute": False})
        return [_GIVEN]

    def _called(self, one: Instruction, name: str) -> Computation:
        return self._reader.called(name, lambda: self._error(one, f"calls {name!r}, which is not there"))

    def _error(self, one: Instruction, message: str) -> HloError:
        return self._reader.error(self._computation, one, message)


def _leaves(tree: Tree) -> Iterator[str]:
    if isinstance(tree, list):
        for each in tree:
            yield from _leaves(each)
    elif tree is not None:
        yield tree


def _at(tree: Tree, path: str) -> Tree:
    for index in filter(None, path.replace(" ", "").split(",")):
        if not isinstance(tree, list) or int(index) >= len(tree):
            return None
        tree = tree[int(index)]
    return tree


def _fits(tree: Tree, shape: Shape) -> bool:
    if shape.elements is None:
        return isinstance(tree, str)
    return (
        isinstance(tree, list)
        and len(tree) == len(shape.elements)
        and all(_fits(each, element) for each, element in zip(tree, shape.elements, strict=True))
    )


def _replaced(tree: Tree, by: dict[str, str]) -> Tree:
    return [_replaced(each, by) for each in tree] if isinstance(tree, list) else by.get(tree, tree)
