"""Models of TFLite of several subgraphs, written by the schema package that memplan reads them with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import numpy as np
import tflite


@dataclass
class Net:
    """A subgraph, operator by operator."""

    name: str = "main"
    tensors: list[dict[str, Any]] = field(default_factory=list)
    operators: list[dict[str, Any]] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)

    def tensor(self, name: str, *shape: int, dtype: str = "FLOAT32", data: Any = None, variable: bool = False) -> int:
        self.tensors.append({"name": name, "shape": shape, "dtype": dtype, "data": data, "variable": variable})
        return len(self.tensors) - 1

    def input(self, name: str, *shape: int) -> int:
        self.inputs.append(self.tensor(name, *shape))
        return self.inputs[-1]

    def floats(self, name: str, *shape: int) -> int:
        """A constant."""
        data = np.random.default_rng(len(self.tensors)).standard_normal(shape).astype(np.float32)
        return self.tensor(name, *shape, data=data)

    def op(
        self,
        kind: str,
        inputs: Sequence[int] = (),
        name: str = "",
        *shape: int,
        dtype: str = "FLOAT32",
        options: Mapping[str, Any] | None = None,
        table: str = "",
        custom: bool = False,
    ) -> int:
        """An operator with one output of that name; without a name, it has none. `options` are in the table."""
        outputs = [self.tensor(name, *shape, dtype=dtype)] if name else []
        operator = {"kind": kind, "custom": custom, "inputs": list(inputs), "outputs": outputs}
        self.operators.append({**operator, "table": table, "options": options or {}})
        return outputs[0] if outputs else -1

    def handle(self, variable: str) -> int:
        options = {"SharedName": variable, "Container": ""}
        name = f"{variable}/handle_{len(self.tensors)}"
        return self.op("VAR_HANDLE", [], name, dtype="RESOURCE", options=options, table="VarHandleOptions")

    def read(self, handle: int, name: str, *shape: int) -> int:
        return self.op("READ_VARIABLE", [handle], name, *shape, table="ReadVariableOptions")

    def assign(self, handle: int, value: int) -> None:
        self.op("ASSIGN_VARIABLE", [handle, value], table="AssignVariableOptions")

    def once(self, subgraph: int) -> None:
        self.op("CALL_ONCE", options={"InitSubgraphIndex": subgraph}, table="CallOnceOptions")

    def add(self, left: int, right: int, name: str, *shape: int) -> int:
        return self.op("ADD", [left, right], name, *shape, table="AddOptions")

    def uniform(self, shape_at: int, name: str, *shape: int) -> int:
        return self.op("RANDOM_UNIFORM", [shape_at], name, *shape, options={"Seed": 1}, table="RandomOptions")

    def dense(self, x: int, name: str, given: int, made: int) -> int:
        inputs = [x, self.floats(f"{name}/weights", made, given), -1]
        return self.op("FULLY_CONNECTED", inputs, name, 1, made, table="FullyConnectedOptions")


def model(
    *nets: Net, signatures: Mapping[str, int] | None = None, metadata: Mapping[str, bytes] | None = None
) -> bytes:
    """A file of these subgraphs; signatures are of subgraphs by position."""
    builder = flatbuffers.Builder(1024)
    codes = list(dict.fromkeys((op["kind"], op["custom"]) for net in nets for op in net.operators))
    buffers: list[bytes] = [b""]
    graphs = [_subgraph(builder, net, codes, buffers) for net in nets]
    entries = []
    for name, data in (metadata or {}).items():
        entries.append(_table(builder, "Metadata", Name=builder.CreateString(name), Buffer=len(buffers)))
        buffers.append(data)
    defined = []
    for key, position in (signatures or {}).items():
        text = builder.CreateString(key)
        defined.append(_table(builder, "SignatureDef", SignatureKey=text, SubgraphIndex=position))
    root = {
        "Version": 3,
        "OperatorCodes": _offsets(builder, [_code(builder, kind, custom) for kind, custom in codes]),
        "Subgraphs": _offsets(builder, graphs),
        "Buffers": _offsets(builder, [_buffer(builder, data) for data in buffers]),
    }
    if entries:
        root["Metadata"] = _offsets(builder, entries)
    if defined:
        root["SignatureDefs"] = _offsets(builder, defined)
    builder.Finish(_table(builder, "Model", **root), b"TFL3")
    return bytes(builder.Output())


def _subgraph(builder: Any, net: Net, codes: list[tuple[str, bool]], buffers: list[bytes]) -> int:
    tensors = []
    for tensor in net.tensors:
        at = 0
        if tensor["data"] is not None:
            at = len(buffers)
            buffers.append(np.ascontiguousarray(tensor["data"]).tobytes())
        name, shape = builder.CreateString(tensor["name"]), _integers(builder, tensor["shape"])
        dtype, variable = getattr(tflite.TensorType, tensor["dtype"]), tensor["variable"]
        tensors.append(_table(builder, "Tensor", Name=name, Shape=shape, Type=dtype, Buffer=at, IsVariable=variable))
    operators = []
    for op in net.operators:
        fields = {"Inputs": _integers(builder, op["inputs"]), "Outputs": _integers(builder, op["outputs"])}
        if op["table"]:
            given = {k: builder.CreateString(v) if isinstance(v, str) else v for k, v in op["options"].items()}
            fields["BuiltinOptions"] = _table(builder, op["table"], **given)
            fields["BuiltinOptionsType"] = getattr(tflite.BuiltinOptions, op["table"])
        code = codes.index((op["kind"], op["custom"]))
        operators.append(_table(builder, "Operator", OpcodeIndex=code, **fields))
    return _table(
        builder,
        "SubGraph",
        Name=builder.CreateString(net.name),
        Tensors=_offsets(builder, tensors),
        Operators=_offsets(builder, operators),
        Inputs=_integers(builder, net.inputs),
        Outputs=_integers(builder, net.outputs),
    )


def _code(builder: Any, kind: str, custom: bool) -> int:
    if custom:
        text, builtin = builder.CreateString(kind), tflite.BuiltinOperator.CUSTOM
        return _table(builder, "OperatorCode", CustomCode=text, BuiltinCode=builtin, DeprecatedBuiltinCode=builtin)
    builtin = getattr(tflite.BuiltinOperator, kind)
    fields = {"BuiltinCode": builtin, "DeprecatedBuiltinCode": min(builtin, 127), "Version": 1}
    return _table(builder, "OperatorCode", **fields)


def _buffer(builder: Any, data: bytes) -> int:
    if not data:
        return _table(builder, "Buffer")
    builder.StartVector(1, len(data), 16)
    builder.head -= len(data)
    builder.Bytes[builder.head : builder.head + len(data)] = data
    return _table(builder, "Buffer", Data=builder.EndVector())


def _table(builder: Any, name: str, **fields: Any) -> int:
    """A table whose strings and lists are written already."""
    getattr(tflite, f"{name}Start")(builder)
    for key, value in fields.items():
        getattr(tflite, f"{name}Add{key}")(builder, value)
    return int(getattr(tflite, f"{name}End")(builder))


def _offsets(builder: Any, tables: Sequence[int]) -> int:
    builder.StartVector(4, len(tables), 4)
    for table in reversed(tables):
        builder.PrependUOffsetTRelative(table)
    return int(builder.EndVector())


def _integers(builder: Any, values: Sequence[int]) -> int:
    builder.StartVector(4, len(values), 4)
    for value in reversed(values):
        builder.PrependInt32(int(value))
    return int(builder.EndVector())
