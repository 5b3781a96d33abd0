"""What tests read of plans."""

from __future__ import annotations

import memplan


def places_of(plan: memplan.Plan) -> dict[str, int]:
    """Where tensors and workspaces lie, read from the arrays of the plan."""
    assert plan.graph is not None
    assert plan.buffers is not None
    found = {}
    for tensor, b, at in zip(
        plan.graph.tensors, plan.buffers.buffer_of_tensor.tolist(), plan.buffers.offset_in_buffer.tolist(), strict=True
    ):
        if b >= 0:
            found[tensor.name] = int(plan.offsets[b]) + at
    for op, b in zip(plan.graph.ops, plan.buffers.buffer_of_workspace.tolist(), strict=True):
        if b >= 0:
            found[f"{op.name}.workspace"] = int(plan.offsets[b])
    return found
