"""Inputs of backward that nothing in it reads: their bytes go before the first kernel runs.

Of some tensors backward needs the shape alone, which is known when it is compiled: of what was pooled, for instance.
Inductor lets an input go after the last kernel that reads it. What no kernel reads would be held to the end.
"""

from __future__ import annotations

from typing import Any

from ..private_compiler import V, ir, wrapper


def letting_go(codegen: Any) -> list[wrapper.FreeLine]:
    """Lines that let go of the tensors that no kernel of a graph reads or writes, and that it does not return."""
    graph: Any = V.graph
    renamed = graph.scheduler.mutation_real_name
    used = {renamed.get(name, name) for node in graph.scheduler.nodes for name in node.used_or_aliased_buffer_names()}
    used.update(graph.get_output_names())
    boxes = [value.data for value in graph.graph_inputs.values() if isinstance(value, ir.TensorBox)]
    inputs = [box.data for box in boxes if isinstance(box, ir.StorageBox)]
    unread = [node for node in inputs if isinstance(node, ir.InputBuffer) and node.get_name() not in used]
    return [wrapper.FreeLine(codegen, node) for node in unread]
