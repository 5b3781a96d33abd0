"""What left the arena between two uses and came back, of a plan that `memplan.fit` made: gaps in tensors' lives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .slots import Slot

if TYPE_CHECKING:
    from .plan import Plan


@dataclass(frozen=True)
class Return:
    """A tensor that is away for some steps."""

    kind: str  # "recompute" or "offload", as of the `Change`
    tensor: str  # its name in the graph as it was
    left: Slot  # where it lay before, and where it lies from then on
    back: Slot


def returns_of(plan: Plan) -> tuple[Return, ...]:
    """All that came back, in the order in which it did; () for a plan that was not fitted."""
    made = {} if plan.graph is None else {op.name: op.outputs for op in plan.graph.ops}
    newest: dict[str, str] = {}
    found: list[Return] = []
    for change in plan.changes:
        if change.kind not in ("recompute", "offload"):
            continue
        outputs = [name for op in change.ops for name in made.get(op, ())]
        for tensor in change.tensors:
            before = newest.get(tensor, tensor)
            copies = [name for name in outputs if _is_copy(name, tensor)] or [_next(before, tensor)]
            newest[tensor] = copies[-1]
            if before in plan and copies[-1] in plan:
                found.append(Return(change.kind, tensor, _slot(plan, before), _slot(plan, copies[-1])))
    return tuple(found)


def _is_copy(name: str, tensor: str) -> bool:
    return name.startswith(f"{tensor}~") and name[len(tensor) + 1 :].isdecimal()


def _next(before: str, tensor: str) -> str:
    """The name that the next copy has in a plan from a file, which has no ops."""
    return f"{tensor}~{int(before[len(tensor) + 1 :] or 0) + 1}"


def _slot(plan: Plan, name: str) -> Slot:
    """That of the buffer which the tensor owns: it lives as long as its views; else that of the tensor."""
    buffer = plan[plan.buffer_of(name)]
    return buffer if buffer.name == name else plan[name]
