"""What the inputs of a traced graph are: the caller's arguments, or what the trace remembers of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sympy
import torch
from torch import Tensor, fx
from torch.export.graph_signature import InputKind

from ...errors import SourceError
from ..private import PyTreeCodeGen, codegen_of, pytree
from .fake import Fakes, describe, map_tensors
from .recorder import GraphRecorder
from .symbols import Symbols


def placeholders(module: fx.GraphModule) -> list[fx.Node]:
    """The nodes that stand for the inputs of a graph, in order."""
    return list(module.graph.find_nodes(op="placeholder"))


def user_inputs(program: torch.export.ExportedProgram) -> list[fx.Node]:
    """The placeholders of an exported program that are neither weights nor constants, in order."""
    specs = program.graph_signature.input_specs
    nodes = placeholders(program.graph_module)
    return [node for spec, node in zip(specs, nodes, strict=True) if spec.kind is InputKind.USER_INPUT]


def declared(values: Mapping[str, Any], fakes: Fakes, graph: GraphRecorder, kind: str = "input") -> list[Any]:
    """The values with stand-ins for their tensors, which become sources of the graph under the values' names."""

    def declare(tensor: Tensor, path: str) -> Tensor:
        fake = fakes(tensor, f"{kind} '{path}'")
        graph.source(fake, path, kind, tensor)
        return fake

    return [map_tensors(value, declare, name) for name, value in values.items()]


def given_values(module: fx.GraphModule, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
    """The caller's arguments of an fx.GraphModule, one per placeholder; SourceError for others."""
    nodes = placeholders(module)
    if isinstance(codegen_of(module.graph), PyTreeCodeGen):
        return _leaves(nodes, (args, dict(kwargs)))
    if len(args) > len(nodes):
        raise SourceError(f"args: the graph has {_names(nodes)}, got {len(args)} values")
    names = [str(node.target) for node in nodes]
    given = dict(zip(names, args, strict=False))
    for name in kwargs:
        if name not in names or name in given:
            problem = "is given twice" if name in given else "is not among them"
            raise SourceError(f"kwargs['{name}']: the graph has {_names(nodes)}; this one {problem}")
    given.update(kwargs)
    return [given[name] if name in given else _default(node) for node, name in zip(nodes, names, strict=True)]


def given_program_values(
    program: torch.export.ExportedProgram, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> list[Any]:
    """The caller's arguments of an exported program, one per user input; SourceError for a wrong number."""
    return _leaves(user_inputs(program), (args, dict(kwargs)))


def meta_value(node: fx.Node, symbols: Symbols) -> Any:
    """What the trace remembers of a placeholder, with numbers for symbolic sizes.

    SourceError names a placeholder of which it remembers nothing.
    """
    for key in ("val", "example_value"):
        if key in node.meta:
            return map_tensors(symbols.scalar(node.meta[key]), lambda t, path: _sized(t, symbols), "")
    if "tensor_meta" in node.meta:
        meta = node.meta["tensor_meta"]
        return torch.empty_strided(meta.shape, meta.stride, dtype=meta.dtype, device="meta")
    return _default(node)


def sizes_given(nodes: list[fx.Node], values: list[Any]) -> dict[str, int]:
    """The numbers that the caller's arguments give to the symbols in the placeholders' sizes."""
    found: dict[str, int] = {}
    for node, value in zip(nodes, values, strict=True):
        traced = node.meta.get("val")
        if isinstance(traced, torch.SymInt) and isinstance(value, int):
            found.setdefault(str(traced), value)
        if isinstance(traced, Tensor) and isinstance(value, Tensor):
            for old, new in zip(traced.shape, value.shape, strict=False):
                if isinstance(old, torch.SymInt):
                    _solve(old.node.expr, int(new), found)
    return found


def _solve(size: Any, number: int, found: dict[str, int]) -> None:
    """Note the number of a symbol of which a size is made, if the size alone says it: 2*s0 is 8."""
    symbols = list(size.free_symbols)
    if len(symbols) == 1 and str(symbols[0]) not in found:
        try:
            solutions = sympy.solve(size - number, symbols[0])
        except NotImplementedError:  # of rounding, say
            return
        wholes = [value for value in solutions if value.is_Integer and value >= 0]
        if len(wholes) == 1:
            found[str(symbols[0])] = int(wholes[0])


def in_spec(module: fx.GraphModule) -> pytree.TreeSpec | None:
    """How the arguments of a graph nest; None where they are its placeholders, one by one."""
    codegen = codegen_of(module.graph)
    return codegen.pytree_info.in_spec if isinstance(codegen, PyTreeCodeGen) else None


def call_of(values: list[Any], spec: pytree.TreeSpec | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Values of placeholders as the args and kwargs of the call that the graph was traced from."""
    if spec is None:
        return tuple(values), {}
    args, kwargs = pytree.tree_unflatten(values, spec)
    return tuple(args), dict(kwargs)


def _sized(tensor: Tensor, symbols: Symbols) -> Tensor:
    return Fakes((), symbols)(tensor, "a placeholder")


def _default(node: fx.Node) -> Any:
    if node.args:
        return node.args[0]
    raise SourceError(f"placeholder '{node.name}' has no value: pass the graph's inputs with args=(...)")


def _leaves(nodes: list[fx.Node], call: tuple[tuple[Any, ...], dict[str, Any]]) -> list[Any]:
    leaves = pytree.tree_leaves(call)
    if len(leaves) != len(nodes):
        got = ", ".join(describe(leaf) for leaf in leaves)
        raise SourceError(f"args: the graph has {_names(nodes)}, got {len(leaves)} values ({got})")
    return leaves


def _names(nodes: list[fx.Node]) -> str:
    return f"{len(nodes)} inputs ({', '.join(node.name for node in nodes)})"
