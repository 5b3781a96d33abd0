"""Import TFLite models as graph dicts."""

from __future__ import annotations

import os
import struct
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..dtypes import nbytes
from ..errors import MissingDependencyError, SourceError
from . import tflite_loops, tflite_micro

# What a kernel of TFLite Micro reads and writes element by element: it may write over an input of as many bytes.
_ELEMENTWISE = """
    ABS ADD CEIL COS DIV ELU EXP FLOOR FLOOR_DIV FLOOR_MOD HARD_SWISH LEAKY_RELU LOG LOGICAL_AND LOGICAL_NOT LOGICAL_OR
    LOGISTIC MAXIMUM MINIMUM MUL NEG RELU RELU6 RELU_N1_TO_1 ROUND RSQRT SIN SQRT SQUARE SQUARED_DIFFERENCE SUB TANH
"""
_SAME_BYTES = frozenset({"RESHAPE", "SQUEEZE", "EXPAND_DIMS"})  # which copy only where the output lies elsewhere
_NO_SIZE = frozenset({"STRING", "VARIANT"})
_DTYPES = {"RESOURCE": "int32"}  # a handle; the others are named as everywhere


class Imported(NamedTuple):
    """A model as the importer has seen it: its graph, and the name of each tensor of its one subgraph by position."""

    graph: dict[str, Any]
    names: tuple[str, ...]


def import_tflite(
    source: str | os.PathLike[str], inplace_ops: Collection[str] = (), overlap: bool | str = False
) -> Imported:
    """Turn a TFLite model into a graph dict.

    Inputs of the subgraph are of kind `input`. Constants and variable tensors are `weight`. What operators write is
    `intermediate`. Reshapes may be left out, and operators that work element by element may write over an input of as
    many bytes, as the kernels of TFLite Micro do. Scratch that kernels ask for when they begin is not in the file.
    With ``overlap="tflite-micro"``, operators say in which order its reference kernels read and write.

    Raises
    ------
    MissingDependencyError
        The package `tflite` is missing; it is in the extra `tflite`.
    SourceError
        The file is no model, has several subgraphs or tensors without a size.
    """
    try:
        import tflite
    except ImportError:
        raise MissingDependencyError("models of TFLite need the package tflite: pip install memplan[tflite]") from None
    data = Path(source).read_bytes()
    if data[4:8] != b"TFL3":
        raise SourceError(f"{source}: expected a TFLite model with the mark TFL3 at byte 4, got {data[4:8]!r}")
    try:
        model = tflite.Model.GetRootAsModel(data, 0)
        return _Model(tflite, model, str(source), frozenset(inplace_ops), overlap == "tflite-micro").imported()
    except (struct.error, AttributeError, IndexError, TypeError, UnicodeDecodeError) as error:
        raise SourceError(f"{source}: the file is damaged: {error}") from None


class _Model:
    def __init__(self, tflite: Any, model: Any, path: str, inplace_ops: frozenset[str], is_micro: bool) -> None:
        self._tflite, self._model, self._path, self._is_micro = tflite, model, path, is_micro
        self._inplace_ops = inplace_ops.union(_ELEMENTWISE.split())
        if model.SubgraphsLength() != 1:
            count = model.SubgraphsLength()
            raise self._error(f"expected one subgraph, got {count}: memplan does not read control flow")
        self._subgraph = model.Subgraphs(0)
        self._dtype_of = {code: name for name, code in vars(tflite.TensorType).items() if isinstance(code, int)}
        self._inputs = set(self._indices(self._subgraph, "Inputs"))
        self._names = _unique(self._text(tensor.Name()) for tensor in self._tensors())
        self._bytes = [self._tensor(t)["bytes"] for t in range(len(self._names))]

    def imported(self) -> Imported:
        graph = {
            "tensors": [self._tensor(t) for t in range(len(self._names))],
            "ops": [self._op(k) for k in range(self._subgraph.OperatorsLength())],
            "outputs": [self._names[t] for t in self._indices(self._subgraph, "Outputs")],
        }
        return Imported(graph, self._names)

    def _error(self, problem: str) -> SourceError:
        return SourceError(f"{self._path}: {problem}")

    def _text(self, text: bytes | None) -> str:
        return "" if text is None else text.decode()

    def _tensors(self) -> Iterator[Any]:
        for t in range(self._subgraph.TensorsLength()):
            yield self._subgraph.Tensors(t)

    def _indices(self, table: Any, what: str) -> list[int]:
        """Positions of tensors; -1, for an input that is left out, is left out."""
        found = _row(table, what)
        for t in found:
            if not -1 <= t < self._subgraph.TensorsLength():
                raise self._error(f"{what.lower()} name tensor {t} of {self._subgraph.TensorsLength()}")
        return [t for t in dict.fromkeys(found) if t >= 0]

    def _tensor(self, t: int) -> dict[str, Any]:
        tensor = self._subgraph.Tensors(t)
        kind, name = self._kind(t, tensor), self._names[t]
        shape = [int(tensor.Shape(axis)) for axis in range(tensor.ShapeLength())]
        dtype = self._dtype_of.get(tensor.Type(), f"type {tensor.Type()}")
        entry = {"name": name, "shape": shape, "dtype": _DTYPES.get(dtype, dtype.lower()), "kind": kind}
        if min(shape, default=0) < 0:
            raise self._error(f"tensor {name!r} has the shape {shape}, whose size is not known")
        if dtype in _NO_SIZE or dtype.startswith("type"):
            if kind != "weight":
                raise self._error(f"tensor {name!r} is of {dtype}, whose size is not known")
            return {"name": name, "bytes": self._constant_bytes(tensor), "kind": kind}
        return {**entry, "bytes": nbytes(str(entry["dtype"]), shape)}

    def _kind(self, t: int, tensor: Any) -> str:
        if tensor.IsVariable() or self._constant_bytes(tensor) > 0:
            return "weight"
        return "input" if t in self._inputs else "intermediate"

    def _constant_bytes(self, tensor: Any) -> int:
        buffer = self._model.Buffers(tensor.Buffer())
        return int(buffer.DataLength() or buffer.Size())  # of large models, the data is behind the tables

    def _type(self, operator: Any) -> str:
        code = self._model.OperatorCodes(operator.OpcodeIndex())
        if code.CustomCode() is not None:
            return self._text(code.CustomCode())
        builtin = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())  # older files have the latter alone
        return str(self._tflite.BUILTIN_OPCODE2NAME.get(builtin, f"BUILTIN_{builtin}"))

    def _op(self, k: int) -> dict[str, Any]:
        operator = self._subgraph.Operators(k)
        kind = self._type(operator)
        inputs, outputs = self._indices(operator, "Inputs"), self._indices(operator, "Outputs")
        op: dict[str, Any] = {"name": f"{kind}_{k}", "type": kind}
        op |= {"inputs": [self._names[t] for t in inputs], "outputs": [self._names[t] for t in outputs]}
        if inputs and len(outputs) == 1:
            if kind in _SAME_BYTES and self._bytes[inputs[0]] == self._bytes[outputs[0]]:
                op["slice"] = [{"output": self._names[outputs[0]], "input": self._names[inputs[0]]}]
            if kind in self._inplace_ops:
                over = [t for t in inputs if self._shape(t) == self._shape(outputs[0])]
                op["inplace"] = [{"output": self._names[outputs[0]], "input": self._names[t]} for t in over]
        return op | self._loops(operator, kind)

    def _loops(self, operator: Any, kind: str) -> dict[str, Any]:
        """Along which loops an operator may be split, and which of them its kernel runs in order."""
        seen = self._seen(operator, kind)
        names = [[self._names[t] for t in _row(operator, what)] for what in ("Inputs", "Outputs")]
        loops = tflite_loops.loops(seen, *names)
        known = tflite_micro.ordered(seen, *names) if self._is_micro else None
        if known is not None:
            return tflite_micro.in_order(loops, known)
        return {"loops": loops} if loops else {}

    def _seen(self, operator: Any, kind: str) -> tflite_loops.Operator:
        inputs, outputs = _row(operator, "Inputs"), _row(operator, "Outputs")
        shapes, made = ([self._shape(t)[0] if t >= 0 else None for t in row] for row in (inputs, outputs))
        dtypes = [self._tensor(t).get("dtype") if t >= 0 else None for t in (*inputs, *outputs[:1])]
        options = self._options(operator)
        return tflite_loops.Operator(
            shapes,
            made,
            dtypes[: len(inputs)],
            kind,
            lambda name, otherwise: getattr(options, name)() if options is not None else otherwise,
            lambda position: self._integers(inputs[position]),
            dtypes[-1] if outputs else None,
        )

    def _options(self, operator: Any) -> Any:
        """The table of an operator's options; None if it has none."""
        names = {code: name for name, code in vars(self._tflite.BuiltinOptions).items()}
        table, name = operator.BuiltinOptions(), names.get(operator.BuiltinOptionsType(), "NONE")
        if table is None or name == "NONE":
            return None
        options = getattr(self._tflite, name)()
        options.Init(table.Bytes, table.Pos)
        return options

    def _integers(self, t: int) -> Any:
        """The value of a constant of integers, as an array; None if it is none."""
        entry, tensor = self._tensor(t), self._subgraph.Tensors(t)
        data = self._model.Buffers(tensor.Buffer()).DataAsNumpy()
        if t < 0 or entry.get("dtype") not in ("int32", "int64") or isinstance(data, int):
            return None
        return np.frombuffer(data.tobytes(), np.dtype(str(entry["dtype"])).newbyteorder("<")).reshape(entry["shape"])

    def _shape(self, t: int) -> tuple[list[int], int]:
        """By which one input element belongs to one output element: the shape, and the bytes."""
        tensor = self._subgraph.Tensors(t)
        return [int(tensor.Shape(axis)) for axis in range(tensor.ShapeLength())], self._bytes[t]


def _row(table: Any, what: str) -> list[int]:
    """Positions of tensors, -1 for one that is left out."""
    return [int(getattr(table, what)(k)) for k in range(getattr(table, f"{what}Length")())]


def _unique(names: Iterable[str]) -> tuple[str, ...]:
    """Every name once: a tensor without a name, or whose name is taken, gets its position behind it."""
    given = list(names)
    taken, found = set(given), list[str]()
    seen: set[str] = set()
    for t, name in enumerate(given):
        unique = name
        if not name or name in seen:
            unique = f"{name or 'tensor'}_{t}"
            while unique in taken or unique in seen:
                unique += "_"
        seen.add(unique)
        found.append(unique)
    return tuple(found)
