"""Which operands an instruction may write its result over.

Rules of XLA's dataflow analysis, as far as they hold on every backend: element by element, the value at a place is read
before that place is written; an update in place changes a part of its first operand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from .shapes import Shape
from .text import Computation, Instruction, names_in

_ELEMENTWISE = frozenset(
    (
        "abs",
        "add",
        "and",
        "atan2",
        "cbrt",
        "ceil",
        "clamp",
        "compare",
        "complex",
        "convert",
        "cosine",
        "cosh",
        "divide",
        "erf",
        "exponential",
        "exponential-minus-one",
        "floor",
        "imag",
        "is-finite",
        "log",
        "log-plus-one",
        "logistic",
        "maximum",
        "minimum",
        "multiply",
        "negate",
        "not",
        "or",
        "popcnt",
        "power",
        "real",
        "reduce-precision",
        "remainder",
        "round-nearest-afz",
        "round-nearest-even",
        "rsqrt",
        "select",
        "shift-left",
        "shift-right-arithmetic",
        "shift-right-logical",
        "sign",
        "sine",
        "sinh",
        "sqrt",
        "subtract",
        "tan",
        "tanh",
        "xor",
        "count-leading-zeros",
        "copy",
        "acos",
        "acosh",
        "asin",
        "asinh",
        "atan",
        "atanh",
        "stochastic-convert",
        "bitcast-convert",
    )
)
_UPDATES = frozenset(("dynamic-update-slice", "scatter"))  # of operand 0
_WITHIN = {"cholesky": 0, "triangular-solve": 1}  # what is worked on in place, by position


Computations = Mapping[str, Computation]


def written_over(instruction: Instruction, shapes: Mapping[str, Shape], computations: Computations) -> list[int]:
    """The positions of operands whose bytes the only result of an instruction may take."""
    if instruction.shape.elements is not None:
        return []
    if instruction.opcode in _UPDATES or (instruction.opcode == "sort" and len(instruction.operands) == 1):
        candidates = [0]
    elif instruction.opcode in _WITHIN:
        candidates = [_WITHIN[instruction.opcode]]
    elif instruction.opcode in _ELEMENTWISE:
        candidates = [*range(len(instruction.operands))]
    elif instruction.opcode == "fusion" and instruction.attributes.get("kind") == "kLoop":
        called = computations.get(next(iter(names_in(instruction.attributes.get("calls", ""))), ""))
        candidates = [] if called is None else [*_read_in_place(called)]
    else:
        return []
    return [
        position
        for position in candidates
        if position < len(instruction.operands)
        and (operand := shapes.get(instruction.operands[position])) is not None
        and _same_places(operand, instruction.shape)
    ]


def sorted_over(instruction: Instruction) -> bool:
    """Whether each result may be written over the operand in its place: arrays that are sorted by one of them."""
    elements = instruction.shape.elements
    return instruction.opcode == "sort" and elements is not None and len(elements) == len(instruction.operands)


def _same_places(operand: Shape, result: Shape) -> bool:
    """Whether the elements of one lie where those of the other do, in the same order."""
    if operand.elements is not None or operand.nbytes != result.nbytes or operand.bits != result.bits:
        return False
    if operand.dims == result.dims:
        return operand.lies_as(result)
    return operand.lies_by_rows and result.lies_by_rows and operand.space == result.space


def _read_in_place(called: Computation) -> Iterator[int]:
    """The parameters that a loop reads at no other place than the one that it writes."""
    users: dict[str, list[Instruction]] = {}
    for instruction in called.instructions.values():
        for operand in dict.fromkeys(instruction.operands):
            users.setdefault(operand, []).append(instruction)
    for instruction in called.instructions.values():
        if instruction.opcode != "parameter" or not instruction.literal.isdecimal():
            continue
        if _keeps_places(instruction, called, users) or _is_updated(instruction, called, users):
            yield int(instruction.literal)


def _keeps_places(parameter: Instruction, called: Computation, users: Mapping[str, list[Instruction]]) -> bool:
    """Whether all that is computed of it is computed element by element, up to the root."""
    waiting, seen = [parameter], {parameter.name}
    while waiting:
        instruction = waiting.pop()
        for user in users.get(instruction.name, []):
            if user.opcode in ("bitcast", "reshape"):
                same = _same_places(instruction.shape, user.shape)
            else:
                same = user.opcode in _ELEMENTWISE and user.shape.dims == instruction.shape.dims
            if not same:
                return False
            if user.name not in seen:
                seen.add(user.name)
                waiting.append(user)
    return called.root in seen


def _is_updated(parameter: Instruction, called: Computation, users: Mapping[str, list[Instruction]]) -> bool:
    """Whether the root updates a part of it, and nothing else reads it."""
    root = called.instructions[called.root]
    while root.opcode in ("bitcast", "reshape", "copy") and root.operands and root.operands[0] in called.instructions:
        if root.opcode == "copy":
            return False
        root = called.instructions[root.operands[0]]
    if root.opcode not in _UPDATES:
        return False
    at = parameter
    while len(users.get(at.name, [])) == 1:
        (user,) = users[at.name]
        if user is root:
            return root.operands[0] == at.name and root.operands.count(at.name) == 1
        if user.opcode not in ("bitcast", "reshape"):
            return False
        at = user
    return False
