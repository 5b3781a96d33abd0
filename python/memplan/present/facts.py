"""What a graph knows of the buffers of its plan: kind, shape, the ops that make and read them, and who shares them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .units import printable

if TYPE_CHECKING:
    from .. import _core
    from ..plan import Plan, Slot

KINDS = ("weight", "input", "output", "intermediate", "workspace")


@dataclass
class Facts:
    """Of one buffer, for people; all empty where the plan has no graph.

    Attributes
    ----------
    kind : str
        One of KINDS: the first that any of its tensors has.
    shape : str
        Of the tensor that owns the bytes, such as "float32[8, 64]".
    made_by, op_type : str
        The op that writes it first, and that op's type.
    last_read : str
        The op that reads it last.
    tenants : list of Slot
        The other tensors that lie in its bytes.
    """

    kind: str = ""
    shape: str = ""
    made_by: str = ""
    op_type: str = ""
    last_read: str = ""
    tenants: list[Slot] = field(default_factory=list)


def facts_of(plan: Plan) -> list[Facts]:
    """The facts of every buffer, in the problem's order."""
    facts = [Facts() for _ in range(len(plan))]
    if plan.graph is not None and plan.buffers is not None:
        _tell_of_tensors(plan, plan.graph, plan.buffers, facts)
        _tell_of_ops(plan.graph, plan.buffers, facts)
    return facts


def _tell_of_tensors(plan: Plan, graph: _core.Graph, buffers: _core.Buffers, facts: list[Facts]) -> None:
    returned = set(graph.outputs)
    columns = (buffers.buffer_of_tensor.tolist(), buffers.root_of_tensor.tolist())
    for i, (tensor, buffer, root) in enumerate(zip(graph.tensors, *columns, strict=True)):
        if buffer < 0:
            continue
        fact = facts[buffer]
        kind = "output" if tensor.name in returned and tensor.kind == "intermediate" else tensor.kind
        fact.kind = min(fact.kind or kind, kind, key=KINDS.index)
        if root == i:
            fact.shape = _shape(tensor)
            fact.made_by = "" if tensor.kind not in ("input", "weight") else f"graph {tensor.kind}"
        else:
            fact.tenants.append(plan[tensor.name])
        if tensor.name in returned:
            fact.last_read = "the caller (a graph output)"


def _tell_of_ops(graph: _core.Graph, buffers: _core.Buffers, facts: list[Facts]) -> None:
    buffer_of = buffers.buffer_of_tensor.tolist()
    home = {tensor.name: facts[b] for tensor, b in zip(graph.tensors, buffer_of, strict=True) if b >= 0}
    returned = {id(fact) for fact in facts if fact.last_read}
    for op, workspace in zip(graph.ops, buffers.buffer_of_workspace.tolist(), strict=True):
        label = _label(op)
        if workspace >= 0:
            facts[workspace] = Facts("workspace", "", label, op.type, label)
        for name in op.outputs:
            if name in home and not home[name].made_by:
                home[name].made_by, home[name].op_type = label, op.type
        for name in op.inputs:
            if name in home and id(home[name]) not in returned:
                home[name].last_read = label


def _label(op: _core.Op) -> str:
    return printable(f"{op.name} ({op.type})" if op.type else op.name)


def _shape(tensor: _core.Tensor) -> str:
    sizes = "" if tensor.shape is None else f"[{', '.join(map(str, tensor.shape))}]"
    return f"{tensor.dtype}{sizes}"
