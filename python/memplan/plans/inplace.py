"""Why the outputs of an op do not lie in the bytes of its inputs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .. import _core
from ..inplace_ops import INPLACE_OPS, matches
from ..sizes import with_bytes
from .dataflow import Dataflow

# From the rule that is lifted most easily to those that no option lifts.
RULES = ("disabled", "not donated", "not listed", "harmful", "reads for others", "read later", "kept", "too small")

# Beginnings of the last word of types of ops of which an element of the output depends on many elements of an input.
_READS_FOR_OTHERS = (
    *("conv", "matmul", "mm", "bmm", "addmm", "baddbmm", "gemm", "linear", "einsum", "attention", "_scaled_dot"),
    *("averagepool", "maxpool", "globalaveragepool", "avg_pool", "max_pool", "adaptive", "_adaptive", "upsample"),
    *("transpose", "gather", "index", "embedding", "sort", "topk", "cumsum", "resize", "scatter"),
)


@dataclass(frozen=True)
class Blocked:
    """An output that lies apart from the inputs of its op, and the rule that keeps it out of their bytes.

    ``bytes`` is how much less the step would need without the rule. ``input`` is the input that comes closest to
    giving its bytes. ``rule`` is the first of `RULES` that keeps the output out of it, or "" if the op has no input.
    ``rules`` are all rules that do.
    """

    step: int
    op: str
    op_type: str
    output: str
    input: str
    bytes: int
    rule: str
    reason: str
    rules: tuple[str, ...] = ()


def blocked_at(dataflow: Dataflow, step: int) -> list[Blocked]:
    """The placed outputs of an op that have bytes of their own, those with most bytes first."""
    op = dataflow.op_at(step)
    roots = {dataflow.root[dataflow.index[name]] for name in op.inputs}
    found = []
    for name in op.outputs:
        t = dataflow.index[name]
        size = dataflow.tensors[t].bytes
        if dataflow.buffer[t] < 0 or size == 0 or dataflow.root[t] in roots:
            continue
        all_rules = {i: list(_rules(dataflow, step, t, dataflow.index[i])) for i in dict.fromkeys(op.inputs)}
        source = min(all_rules, key=lambda i: RULES.index(all_rules[i][0][0]), default="")
        rules = all_rules.get(source, [("", "it reads nothing")])
        names = tuple(dict.fromkeys(rule for rule, _ in rules))
        found.append(Blocked(step, op.name, op.type, name, source, size, *rules[0], names))
    return sorted(found, key=lambda blocked: -blocked.bytes)


def rules_of(dataflow: Dataflow, step: int, output: int, source: int) -> list[str]:
    """The names of the rules that keep an output out of the bytes of an input; the load comes last."""
    return [rule for rule, _ in _rules(dataflow, step, output, source)]


def _rules(dataflow: Dataflow, step: int, output: int, source: int) -> Iterator[tuple[str, str]]:
    """The rules that keep an output out of the bytes of an input, and how each applies; the first says it best."""
    op, root = dataflow.op_at(step), dataflow.root[source]
    name, kind = dataflow.tensors[source].name, dataflow.tensors[root].kind
    relations = [offset for out, inp, offset in op.inplace if (out, inp) == (dataflow.tensors[output].name, name)]
    offset, size = next(iter(relations), 0), dataflow.tensors[output].bytes
    if dataflow.tensors[source].bytes < offset + size:
        yield "too small", f"{name} has {with_bytes(dataflow.tensors[source].bytes)}"
    if kind == "weight":
        yield "kept", f"{name} is a weight"
    begin = dataflow.offset[source] + offset
    others = [t for t in dataflow.tensors_of_root[root] if _meet(dataflow.span(t), (begin, begin + size))]
    for t in others:
        if t in dataflow.kept:
            yield "kept", f"{_as(dataflow, source, t)} is a graph output"
    uses = [(use, t) for t in others for use in dataflow.uses[t] if not (use == step or dataflow.before(use, step))]
    if uses:
        use, t = max(uses)
        how = "is" if use > step else "may still be"
        yield "read later", f"{_as(dataflow, source, t)} {how} read by {dataflow.op_at(use).name}"
    in_the_way = [t for t in others if t != source and _in_the_way(dataflow, step, t, output, begin)]
    if in_the_way:
        yield "harmful", f"the op also uses {dataflow.tensors[in_the_way[0]].name}, which has bytes of {name}"
    if kind == "input" and root not in dataflow.donated:
        yield "not donated", f"{dataflow.tensors[root].name} is a graph input that is not donated"
    if not relations:
        if reads_for_others(op.type) and not matches(op.type, INPLACE_OPS):
            yield "reads for others", f"{op.type} reads each element of {name} for many of its own"
        has = "; memplan.inplace_ops.INPLACE_OPS has it" if matches(op.type, INPLACE_OPS) else ""
        yield "not listed", f"{op.type or 'the op'} is not said to write over {name}{has}"
    asked = dataflow.storage
    if asked is not None and not (asked.inplace and not matches(op.type, asked.disable_inplace_ops)):
        yield "disabled", f"{op.type or 'the op'} is forbidden to write over {name}"
    yield "harmful", f"in the bytes of {name} it would raise the load, or lie at no multiple of the alignment"


def reads_for_others(type: str) -> bool:
    """Whether an element of an op's output depends on many of its input, as far as the name of its type says."""
    word = type.split("::")[-1].removeprefix("aten.").removeprefix("prims.").lower()
    return word.startswith(_READS_FOR_OTHERS)


def _in_the_way(dataflow: Dataflow, step: int, other: int, output: int, begin: int) -> bool:
    """Whether an op uses a tensor, over which it does not say that the output may be written from that byte on."""
    if step not in dataflow.uses[other] or dataflow.maker[other] == step:
        return step in dataflow.uses[other]
    names = dataflow.tensors[output].name, dataflow.tensors[other].name
    first = dataflow.span(other)[0]
    return not any((out, inp) == names and first + offset == begin for out, inp, offset in dataflow.op_at(step).inplace)


def _as(dataflow: Dataflow, source: int, other: int) -> str:
    """The input, and if it is not itself what counts, the other tensor in its bytes."""
    name = dataflow.tensors[source].name
    return name if other == source else f"{name}, as {dataflow.tensors[other].name},"


def _meet(a: tuple[int, int], b: tuple[int, int]) -> bool:
    return max(a[0], b[0]) < min(a[1], b[1])


def may_be_over_inputs(graph: _core.Graph) -> list[str]:
    """The graph inputs that some op may write over, if they are donated."""
    source = {out: inp for op in graph.ops for out, inp, _ in op.aliases}
    kinds = {tensor.name: tensor.kind for tensor in graph.tensors}
    over = []
    for op in graph.ops:
        for _, name, _ in op.inplace:
            while name in source:
                name = source[name]
            over.append(name)
    return [name for name in dict.fromkeys(over) if kinds[name] == "input"]
