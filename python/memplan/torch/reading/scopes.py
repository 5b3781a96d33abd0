"""Names of the nodes of a traced graph: the module that a node was traced in, and the node's own name.

`layers.0.up.linear_4` is the node `linear_4` of the graph, traced in the module `layers.0.up`. A node that calls a
module has the name of its class instead, `layers.0.up.linear`.
"""

from __future__ import annotations

import re

import torch
from torch import fx

_OUTSIDE = {"getattr", "L", "self"}  # of how torch.compile spells the path of a module: L['self'].layers[0]


def scoped_name(node: fx.Node, prefix: str = "") -> str:
    """The name of a node's op. It begins with `prefix` where the trace does not say in which module it was."""
    path = path_of(node)
    if node.op == "call_module":
        return f"{path}.{_class_name(node)}"
    return f"{path}.{node.name}" if path else prefix + node.name


def path_of(node: fx.Node) -> str:
    """The path of the innermost module that a node was traced in; empty if the trace does not say."""
    if node.op == "call_module":
        return str(node.target)
    stack = node.meta.get("nn_module_stack")
    if not isinstance(stack, dict) or not stack:
        return ""
    path = str(list(stack.values())[-1][0]).partition("@")[0]  # a module's second call is path@1
    words = re.findall(r"\w+", path)
    while words and words[0] in _OUTSIDE:
        words.pop(0)
    return ".".join(words)


def _class_name(node: fx.Node) -> str:
    root = node.graph.owning_module
    module = root.get_submodule(str(node.target)) if isinstance(root, torch.nn.Module) else None
    return type(module).__name__.lower() if module is not None else node.name
