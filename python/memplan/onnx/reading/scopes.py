"""Names of what torch has exported: the module that a node was traced in, and the file's own name.

The exporter of torch >= 2.5 writes the path into the metadata of each node: the node `node_linear_4`, traced in the
module `layers.0.up`, becomes `layers.0.up.node_linear_4`, and its output `linear_4` becomes `layers.0.up.linear_4`.
What the model takes and gives keeps its name. (The older exporter has the path in the name, `/layers.0/up/Gemm`.)
"""

from __future__ import annotations

import ast
from typing import Any

from onnx import ModelProto, NodeProto

Graph = dict[str, Any]

_NO_STACK = "_empty_nn_module_stack_from_metadata_hook"  # torch's word for a node of no module, such as a size


def with_scopes(graph: Graph, model: ModelProto) -> Graph:
    """The graph dict with longer names for ops and tensors, where the nodes of its model tell their modules."""
    path_of = {node.name: path for node in model.graph.node if (path := scope_of(node))}
    if not path_of:
        return graph
    tensors = {tensor["name"] for tensor in graph["tensors"]}
    ops = {op["name"] for op in graph["ops"]}
    kept = set(graph["outputs"])
    new_tensor: dict[str, str] = {}
    new_op: dict[str, str] = {}
    for op in graph["ops"]:
        scope = path_of.get(op["name"], "")
        if scope:
            _rename(op["name"], scope, ops, new_op)
            for name in op["outputs"]:
                if name not in kept:
                    _rename(name, scope, tensors, new_tensor)
    return {
        "tensors": [{**tensor, "name": _new(tensor["name"], new_tensor)} for tensor in graph["tensors"]],
        "ops": [_op(op, new_op, new_tensor) for op in graph["ops"]],
        "outputs": graph["outputs"],
    }


def scope_of(node: NodeProto) -> str:
    """The path of the innermost module that a node was traced in; empty if its metadata do not say."""
    metadata = {entry.key: entry.value for entry in node.metadata_props}
    scopes = _listed(metadata.get("pkg.torch.onnx.name_scopes", ""))
    if not scopes:  # ": Net/layers.0: Block/layers.0.up: Linear/linear: aten.linear.default"
        scopes = [part.partition(":")[0].strip() for part in metadata.get("namespace", "").split("/")]
    path = scopes[-2].partition("@")[0] if len(scopes) > 1 else ""
    return "" if path == _NO_STACK else path


def _listed(text: str) -> list[str]:
    """The strings of a list as Python writes it; none if it is something else."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return []
    return value if isinstance(value, list) and all(isinstance(item, str) for item in value) else []


def _rename(name: str, path: str, taken: set[str], names: dict[str, str]) -> None:
    longer = f"{path}.{name}"
    if longer not in taken:
        taken.add(longer)
        names[name] = longer


def _new(name: str, names: dict[str, str]) -> str:
    return names.get(name, name)


def _op(op: dict[str, Any], ops: dict[str, str], tensors: dict[str, str]) -> dict[str, Any]:
    renamed = {**op, "name": _new(op["name"], ops)}
    for field in ("inputs", "outputs"):
        renamed[field] = [_new(name, tensors) for name in op[field]]
    for field in ("alias", "inplace", "slice", "concat"):
        if field in op:
            renamed[field] = [
                {**entry, "output": _new(entry["output"], tensors), "input": _new(entry["input"], tensors)}
                for entry in op[field]
            ]
    if "loops" in op:
        renamed["loops"] = [_loop(loop, tensors) for loop in op["loops"]]
    return renamed


def _loop(loop: dict[str, Any], tensors: dict[str, str]) -> dict[str, Any]:
    renamed = dict(loop)
    if "sums" in loop:
        renamed["sums"] = [_new(name, tensors) for name in loop["sums"]]
    for field in ("reads", "writes"):
        renamed[field] = {_new(name, tensors): rows for name, rows in loop[field].items()}
    return renamed
