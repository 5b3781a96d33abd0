"""What the loops of an op are made from: its shapes, and names of loops along the axes of its tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from .loops import Axis, Loop, Operand, broadcast, loops, nested

Shape = Sequence[int]
Axes = Sequence[Axis]


@dataclass(frozen=True)
class Seen:
    """The shapes of what an op reads and writes; None where it has no tensor."""

    inputs: Sequence[Shape | None]
    outputs: Sequence[Shape | None]
    dtypes: Sequence[str | None]  # of the inputs

    def has(self, position: int) -> bool:
        return position < len(self.inputs) and self.inputs[position] is not None

    def shape(self, position: int) -> Shape:
        shape = self.inputs[position]
        if shape is None:
            raise ValueError("the op has no such input")
        return shape

    @property
    def made(self) -> Shape:
        """The shape of its first output."""
        shape = self.outputs[0]
        if shape is None:
            raise ValueError("the op has no first output")
        return shape

    @property
    def is_float(self) -> bool:
        """Whether its first input is of numbers that may be added up in parts."""
        return self.dtypes[0] in ("float16", "bfloat16", "float32", "float64")


class Claim(NamedTuple):
    """The loops along the axes of each input and output, by position; an input without is read whole.

    `sums` are loops that add to the outputs.
    """

    reads: Sequence[Axes | None]
    writes: Sequence[Axes | None]
    sums: Iterable[str] = ()


def loops_of(claim: Claim, seen: Seen, inputs: Sequence[str], outputs: Sequence[str]) -> list[Loop]:
    """The loops of an op whose tensors have these names."""
    reads, writes = _operands(inputs, seen.inputs, claim.reads), _operands(outputs, seen.outputs, claim.writes)
    return loops(reads, writes, claim.sums) if writes else []


def nested_of(claim: Claim, seen: Seen, inputs: Sequence[str], outputs: Sequence[str], depth: int) -> list[Loop]:
    """The loops of a kernel that goes through the first `depth` axes of its output in order, the outermost first."""
    reads, writes = _operands(inputs, seen.inputs, claim.reads), _operands(outputs, seen.outputs, claim.writes)
    return nested(reads, writes, depth) if writes else []


def _operands(names: Sequence[str], shapes: Sequence[Shape | None], axes: Sequence[Axes | None]) -> list[Operand]:
    along = [*axes, *[None] * (len(shapes) - len(axes))]
    tensors = [(name, shape, a) for name, shape, a in zip(names, shapes, along, strict=False) if shape is not None]
    found = [Operand(name, shape, [None] * len(shape) if a is None else a) for name, shape, a in tensors]
    if any(len(operand.shape) != len(operand.axes) for operand in found):
        raise ValueError("a tensor of another rank")
    return found


def like(text: str, sums: Iterable[str] = ()) -> Callable[[Seen], Claim]:
    """The rule of an operator whose inputs and outputs always have these loops along their axes.

    "nc+, c -> nc*": a letter is a loop, _ an axis without; + are all further axes, a loop each, 0, 1, ...; * are all
    further axes, without loops.
    """
    inputs, outputs = ([term.strip() for term in side.split(",")] for side in text.split("->"))

    def rule(seen: Seen) -> Claim:
        reads, writes = (
            [None if shape is None else along(term, shape) for term, shape in zip(terms, shapes, strict=False)]
            for terms, shapes in ((inputs, seen.inputs), (outputs, seen.outputs))
        )
        return Claim(reads, writes, sums)

    return rule


def along(term: str, shape: Shape) -> list[Axis]:
    """The loops along the axes of a tensor; along what has one row there are none."""
    further = len(shape) - len(term.rstrip("+*"))
    names = [*term.rstrip("+*"), *(str(k) if term.endswith("+") else "_" for k in range(further))]
    if len(names) != len(shape) and shape:
        raise ValueError(f"a tensor of rank {len(shape)} where {term!r} was expected")
    return [None if name == "_" or size == 1 else name for name, size in zip(names, shape, strict=False)]


def each(rank: int, whole: Iterable[int] = ()) -> list[Axis]:
    """A loop along each axis, named by it, but along those that are taken whole."""
    without = {axis % max(1, rank) for axis in whole}
    return [None if axis in without else str(axis) for axis in range(rank)]


def as_made(seen: Seen, axes: Axes) -> Claim:
    """Of an operator whose inputs are broadcast to its first output; others are as that, or have size 1 along an axis.

    `axes` are the loops along the axes of the output.
    """
    reads, writes = (
        [None if shape is None else broadcast(shape, seen.made, axes) for shape in shapes]
        for shapes in (seen.inputs, seen.outputs)
    )
    return Claim(reads, writes)
