"""From an inferred ONNX model to a graph dict: tensors with sizes, ops with aliases and workspaces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onnx import GraphProto, ModelProto, NodeProto, TensorProto, TypeProto

from ... import dtypes
from ...errors import SourceError
from ...importers.graph_dict import peak_of
from . import runtime
from .behind import advice
from .bodies import bodies, label, reads, states
from .effects import keeps_its_place
from .flops import flops_of, flops_of_bodies
from .loops import Loops
from .relations import Relations
from .shapes import why_unknown
from .types import shape_text, static_shape, symbols, types

_ALIASES = frozenset({"Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten"})
_DTYPES = {"float": "float32", "double": "float64"}

Tensor = dict[str, Any]
Graph = dict[str, Any]


class GraphWriter:
    """Writes the graph dict of one graph of an inferred model; a body's graph gets a writer of its own.

    A body may capture the tensors of the enclosing graph, `outer`. It has no `relations`, what nodes may share, so that
    its peak holds whatever the plan makes use of, and no `loops`: a node is split as a whole.
    """

    def __init__(
        self,
        model: ModelProto,
        graph: GraphProto,
        outer: Mapping[str, Tensor],
        relations: Relations | None = None,
        loops: Loops | None = None,
    ) -> None:
        self._model, self._graph, self._relations, self._loops = model, graph, relations, loops
        self._types = types(graph)
        self._ops: list[dict[str, Any]] = []
        self._tensors: dict[str, Tensor] = {}
        self._opset = next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), 1)
        self._acted: list[str] = []  # the newest node that draws random numbers, or may have a state
        for name in captured_names(graph, outer):
            kind = "weight" if outer[name]["kind"] == "weight" else "input"
            self._tensors[name] = {**outer[name], "kind": kind}

    def write(self) -> Graph:
        """The graph dict.

        SourceError if a tensor is of unknown size, of a type without a fixed size, too large, or written twice.
        """
        captured = set(self._tensors)
        for value in self._graph.input:
            self._add_tensor(value.name, "input", f"input {value.name!r}")
        for tensor in self._graph.initializer:
            if tensor.name not in captured:
                self._add_tensor(tensor.name, "weight", f"initializer {tensor.name!r}")
        for node in self._graph.node:
            self._add_op(node)
        outputs = list(dict.fromkeys(value.name for value in self._graph.output))
        return {"tensors": list(self._tensors.values()), "ops": self._ops, "outputs": outputs}

    def _add_tensor(self, name: str, kind: str, what: str, writer: NodeProto | None = None) -> None:
        if name in self._tensors:
            raise SourceError(f"{what} is defined a second time; expected one definition of each name")
        value = self._types.get(name, TypeProto())
        shape = static_shape(value)
        if shape is None and runtime.is_its_own(writer or NodeProto()):
            raise SourceError(self._unknown_size(value, what, writer))
        dtype = _dtype(value, what)
        if shape is None:
            raise SourceError(self._unknown_size(value, what, writer))
        try:
            size = dtypes.nbytes(dtype, shape)
        except ValueError as error:
            raise SourceError(f"{what} has no valid size: {error}") from error
        self._tensors[name] = {"name": name, "bytes": size, "kind": kind, "shape": shape, "dtype": dtype}

    def _unknown_size(self, value: TypeProto, what: str, writer: NodeProto | None) -> str:
        problem = f"{what} has no known size: its shape is {shape_text(value)}"
        found = advice(self._model, writer) if writer is not None else ""
        named = symbols(value)
        if named:
            dims = f"pass dims={{{', '.join(f'{name!r}: ...' for name in named)}}}"
            return f"{problem}; {found}, or {dims}" if found else f"{problem}; {dims}"
        if writer is not None and runtime.is_its_own(writer):
            return f"{problem}; {runtime.remedy(writer)}"
        usual = "declare its full shape in the model's value_info, or make what it depends on constant"
        return f"{problem}; {found or usual}{why_unknown(self._model)}"

    def _add_op(self, node: NodeProto) -> None:
        inputs = list(dict.fromkeys(value for value in node.input if value))
        captured, workspace, inside = self._plan_bodies(node)
        outputs = [value for value in node.output if value]
        for value in outputs:
            self._add_tensor(value, "intermediate", f"tensor {value!r}, written by {label(node)},", node)
        alias = self._aliases(node)
        op: dict[str, Any] = {
            "name": node.name,
            "type": f"{node.domain}.{node.op_type}".removeprefix("."),
            "inputs": list(dict.fromkeys(inputs + captured)),
            "outputs": outputs,
            "workspace": workspace,
            "alias": alias,
        }
        shapes = {name: self._tensors[name]["shape"] for name in [*inputs, *outputs] if name in self._tensors}
        flops = flops_of_bodies(node, inside, shapes) if inside else flops_of(node, shapes)
        if flops is not None:
            op["flops"] = flops
        if keeps_its_place(node, self._opset):  # one after another, so that each gets the same numbers in any order
            op["after"], self._acted, op["recompute"] = self._acted, [node.name], False
        if self._relations is not None and not alias:
            op |= self._relations.of(node, str(op["type"]), self._tensors)
        if self._loops is not None and (loops := self._loops.of(node, self._tensors)):
            op["loops"] = loops
        self._ops.append(op)

    def _aliases(self, node: NodeProto) -> list[dict[str, Any]]:
        if node.domain or node.op_type not in _ALIASES or not any(node.input[:1]) or not any(node.output[:1]):
            return []
        source, view = self._tensors[node.input[0]], self._tensors[node.output[0]]
        if source["bytes"] != view["bytes"]:
            raise SourceError(
                f"{label(node)} cannot turn {source['name']!r} of shape {source['shape']} into shape "
                f"{view['shape']}, which has another size; is a dimension that dims binds fixed in the model?"
            )
        return [{"output": view["name"], "input": source["name"], "offset": 0}]

    def _plan_bodies(self, node: NodeProto) -> tuple[list[str], int, list[float]]:
        """The outer values that its bodies capture, the largest peak of a body's own plan, and the flops of each."""
        captured: list[str] = []
        flops: list[float] = []
        workspace = 0
        for attribute, body in bodies(node):
            captured += captured_names(body, self._tensors)
            try:
                plan = GraphWriter(self._model, body, self._tensors).write()
            except SourceError as error:
                raise SourceError(f"in {attribute} of {label(node)}: {error}") from error
            workspace = max(workspace, peak_of(plan))
            flops.append(sum(op.get("flops", 0.0) for op in plan["ops"]))
            self._check_states(node, types(body))
        return captured, workspace, flops

    def _check_states(self, node: NodeProto, inner: Mapping[str, TypeProto]) -> None:
        """A Loop's or Scan's states must keep their shape, or their storage would have to grow."""
        for state in states(node):
            before, after = static_shape(inner[state.before.name]), static_shape(inner[state.after.name])
            if before != after:
                raise SourceError(
                    f"state {state.before.name!r} of {label(node)} changes its shape in an iteration, "
                    f"from {before} to {after} ({state.after.name!r}); expected the same shape in all"
                )


def captured_names(body: GraphProto, outer: Mapping[str, Tensor]) -> list[str]:
    """The tensors of the enclosing graph that a body reads, directly or in bodies of its own."""
    return [name for name in reads(body) if name in outer]


def _dtype(value: TypeProto, what: str) -> str:
    """The name of a tensor type's dtype; a type whose values have no fixed size is refused."""
    kind = value.WhichOneof("value")
    if kind not in (None, "tensor_type"):
        raise SourceError(f"{what} is of {str(kind).removesuffix('_type')} type; expected a dense tensor")
    number = value.tensor_type.elem_type
    if number not in TensorProto.DataType.values():
        raise SourceError(f"{what} is of unknown dtype {number}")
    name = str(TensorProto.DataType.Name(number)).lower()
    if name == "string":
        raise SourceError(f"{what} holds strings, whose size is not fixed; expected numbers or booleans")
    return _DTYPES.get(name, name)
