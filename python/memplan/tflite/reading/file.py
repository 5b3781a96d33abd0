"""A model of TFLite as its file has it: what is of no one subgraph, and which subgraph is meant."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...errors import SourceError
from ...importers import notes
from ...text import offer
from . import control


class File:
    """A model, read by the package `tflite`."""

    def __init__(self, schema: Any, model: Any, path: str) -> None:
        self.schema, self.path = schema, path
        self._model = model
        self._dtypes = _names(schema.TensorType)
        self._options = [(union, _names(getattr(schema, union))) for union in ("BuiltinOptions", "BuiltinOptions2")]
        self._kinds: dict[int, str] = {}  # by operator code
        self._calls: dict[str, list[str]] = {}  # by table of options: its fields that name subgraphs

    def error(self, problem: str) -> SourceError:
        return SourceError(f"{self.path}: {problem}")

    def chosen(self, signature: str | None) -> int:
        """The position of the subgraph of a signature, or of that name; the first one for None."""
        count = self._model.SubgraphsLength()
        if not count:
            raise self.error("expected a subgraph, got none")
        keys = {}
        for entry in map(self._model.SignatureDefs, range(self._model.SignatureDefsLength())):
            keys[text(entry.SignatureKey())] = int(entry.SubgraphIndex())
        if signature is None:
            if others := [key for key, position in keys.items() if position != 0]:
                notes.say(f"the file has other signatures too, which are not planned: {', '.join(map(repr, others))}")
            return 0
        known = {text(self.subgraph(k).Name()): k for k in reversed(range(count))} | keys
        if signature not in known:
            names = [name for name in known if name]
            raise self.error(f"there is no signature {signature!r}; {offer(signature, names, 'signatures')}")
        return known[signature]

    def subgraph(self, position: int) -> Any:
        if not 0 <= position < self._model.SubgraphsLength():
            raise self.error(f"an operator or signature names subgraph {position} of {self._model.SubgraphsLength()}")
        return self._model.Subgraphs(position)

    def row(self, subgraph: Any, table: Any, what: str) -> list[int]:
        """Positions of the tensors that a table of a subgraph lists, -1 for one that is left out."""
        found = [int(getattr(table, what)(k)) for k in range(getattr(table, f"{what}Length")())]
        for t in found:
            if not -1 <= t < subgraph.TensorsLength():
                raise self.error(f"{what.lower()} name tensor {t} of {subgraph.TensorsLength()}")
        return found

    def dtype(self, tensor: Any) -> str:
        """As in the schema, such as "FLOAT32"."""
        return str(self._dtypes.get(tensor.Type(), f"type {tensor.Type()}"))

    def kind(self, operator: Any) -> str:
        """The builtin operator as in the schema, such as "CONV_2D", or the name of a custom one."""
        index = operator.OpcodeIndex()
        if index not in self._kinds:
            code, custom = self._code(operator), self.custom(operator)
            builtin = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())  # older files have the latter alone
            known = self.schema.BUILTIN_OPCODE2NAME.get(builtin, f"BUILTIN_{builtin}")
            self._kinds[index] = str(known) if custom is None else custom
        return self._kinds[index]

    def custom(self, operator: Any) -> str | None:
        """The name of a custom operator; None for a builtin one."""
        code = self._code(operator).CustomCode()
        return None if code is None else text(code)

    def _code(self, operator: Any) -> Any:
        return self._model.OperatorCodes(operator.OpcodeIndex())

    def options(self, operator: Any) -> Any:
        """The table of an operator's options; None if it has none."""
        return next(self._tables(operator), None)

    def called(self, operator: Any) -> list[int]:
        """The positions of the subgraphs that an operator may run."""
        found = []
        for table in self._tables(operator):
            kind = type(table).__name__
            if kind not in self._calls:
                self._calls[kind] = sorted(name for name in dir(table) if "Subgraph" in name)
            found += [int(getattr(table, name)()) for name in self._calls[kind]]
        return list(dict.fromkeys(k for k in found if k >= 0))

    def _tables(self, operator: Any) -> Iterator[Any]:
        for union, names in self._options:
            name = names.get(getattr(operator, f"{union}Type")(), "NONE")
            table = None if name == "NONE" else getattr(operator, union)()
            if table is not None:
                options = getattr(self.schema, name)()
                options.Init(table.Bytes, table.Pos)
                yield options

    def constant_bytes(self, tensor: Any) -> int:
        """The bytes of a constant; 0 for all other tensors."""
        buffer = self._model.Buffers(tensor.Buffer())
        return int(buffer.DataLength() or buffer.Size())  # of large models, the data is behind the tables

    def metadata(self, name: bytes) -> bytes:
        """What is under a name in the metadata; nothing if there is none."""
        for entry in map(self._model.Metadata, range(self._model.MetadataLength())):
            if entry.Name() == name:
                data = self._model.Buffers(entry.Buffer()).DataAsNumpy()
                return b"" if isinstance(data, int) else bytes(data.tobytes())
        return b""

    def control_edges(self, position: int) -> list[tuple[int, int]]:
        """Pairs of operators of a subgraph that the file has in this order."""
        data = self.metadata(control.NAME)
        edges = control.read(data) if data else []
        return [(a, b) for a, b in edges[position] if 0 <= a < b] if position < len(edges) else []

    def integers(self, tensor: Any) -> Any:
        """The value of a constant of integers, as an array; None if it is none."""
        dtype, data = self.dtype(tensor), self._model.Buffers(tensor.Buffer()).DataAsNumpy()
        if dtype not in ("INT32", "INT64") or isinstance(data, int):
            return None
        return np.frombuffer(data.tobytes(), np.dtype(dtype.lower()).newbyteorder("<")).reshape(shape_of(tensor))


def _names(codes: Any) -> dict[int, str]:
    return {code: name for name, code in vars(codes).items() if isinstance(code, int)}


def shape_of(tensor: Any) -> list[int]:
    return [int(tensor.Shape(axis)) for axis in range(tensor.ShapeLength())]


def operators_of(subgraph: Any) -> Iterator[Any]:
    for k in range(subgraph.OperatorsLength()):
        yield subgraph.Operators(k)


def text(given: bytes | None) -> str:
    return "" if given is None else given.decode()
