"""A subgraph of TFLite as a graph dict."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from ...dtypes import nbytes
from ...errors import SourceError
from ...importers.graph_dict import peak_of
from . import loops, micro
from .effects import Known, Ties
from .file import File, operators_of, shape_of, text

# What a kernel of TFLite Micro reads and writes element by element: it may write over an input of as many bytes.
_ELEMENTWISE = """
    ABS ADD CEIL COS DIV ELU EXP FLOOR FLOOR_DIV FLOOR_MOD HARD_SWISH LEAKY_RELU LOG LOGICAL_AND LOGICAL_NOT LOGICAL_OR
    LOGISTIC MAXIMUM MINIMUM MUL NEG RELU RELU6 RELU_N1_TO_1 ROUND RSQRT SIN SQRT SQUARE SQUARED_DIFFERENCE SUB TANH
"""
_SAME_BYTES = frozenset({"RESHAPE", "SQUEEZE", "EXPAND_DIMS"})  # which copy only where the output lies elsewhere
_NO_SIZE = frozenset({"STRING", "VARIANT"})
_DTYPES = {"RESOURCE": "int32"}  # a handle; the others are named as everywhere
_PLACED = ("input", "intermediate", "output", "workspace")  # of a subgraph that an operator runs


class Reader:
    """A file, and how it is read; what subgraphs hold is found once."""

    def __init__(self, file: File, inplace_ops: Collection[str], is_micro: bool) -> None:
        self.file, self.is_micro = file, is_micro
        self.inplace_ops = frozenset(inplace_ops).union(_ELEMENTWISE.split())
        self.effects = Known(file)
        self._rooms: dict[int, int] = {}

    def room(self, position: int) -> int:
        """The bytes that a subgraph holds while it runs."""
        if position not in self._rooms:
            self._rooms[position] = peak_of(Subgraph(self, position).graph(), _PLACED)
        return self._rooms[position]


class Subgraph:
    """Writes the graph dict of a subgraph, and those of the subgraphs that its operators run, as workspaces."""

    def __init__(self, reader: Reader, position: int) -> None:
        self._reader, self._file, self._position = reader, reader.file, position
        self._subgraph = reader.file.subgraph(position)
        self._effects = reader.effects.of(position)
        self._inputs = set(self._indices(self._subgraph, "Inputs"))
        self._written = {t for op in operators_of(self._subgraph) for t in self._row(op, "Outputs")}
        self._read = {t for op in operators_of(self._subgraph) for t in self._row(op, "Inputs")}
        self._read |= set(self._indices(self._subgraph, "Outputs"))
        self.names = _unique(text(tensor.Name()) for tensor in self._tensors())
        self._bytes = [self._tensor(t)["bytes"] for t in range(len(self.names))]

    def graph(self) -> dict[str, Any]:
        ties = Ties()
        ops = [self._op(k, operator, ties) for k, operator in enumerate(operators_of(self._subgraph))]
        for before, behind in self._file.control_edges(self._position):
            if behind < len(ops) and (name := ops[before]["name"]) not in ops[behind].get("after", ()):
                ops[behind].setdefault("after", []).append(name)
        return {
            "tensors": [self._tensor(t) for t in range(len(self.names))],
            "ops": ops,
            "outputs": [self.names[t] for t in self._indices(self._subgraph, "Outputs")],
        }

    def _tensors(self) -> Iterator[Any]:
        for t in range(self._subgraph.TensorsLength()):
            yield self._subgraph.Tensors(t)

    def _indices(self, table: Any, what: str) -> list[int]:
        """Positions of tensors; -1, for an input that is left out, is left out."""
        return [t for t in dict.fromkeys(self._row(table, what)) if t >= 0]

    def _row(self, table: Any, what: str) -> list[int]:
        return self._file.row(self._subgraph, table, what)

    def _tensor(self, t: int) -> dict[str, Any]:
        tensor = self._subgraph.Tensors(t)
        kind, name = self._kind(t, tensor), self.names[t]
        shape, dtype = shape_of(tensor), self._file.dtype(tensor)
        entry = {"name": name, "shape": shape, "dtype": _DTYPES.get(dtype, dtype.lower()), "kind": kind}
        if min(shape, default=0) < 0:
            raise self._file.error(f"tensor {name!r} has the shape {shape}, whose size is not known")
        if dtype in _NO_SIZE or dtype.startswith("type"):
            if kind != "weight":
                raise self._file.error(f"tensor {name!r} is of {dtype}, whose size is not known")
            return {"name": name, "bytes": self._file.constant_bytes(tensor), "kind": kind}
        return {**entry, "bytes": nbytes(str(entry["dtype"]), shape)}

    def _kind(self, t: int, tensor: Any) -> str:
        """Where no operator writes a tensor that one reads, as the scratch of an NPU, it is there from the beginning.

        Constants of no bytes, and what no operator uses, such as the intermediates of an LSTM, are weights.
        """
        if tensor.IsVariable() or self._file.constant_bytes(tensor) > 0:
            return "weight"
        if t in self._written and t not in self._inputs:
            return "intermediate"
        is_used = t in self._inputs or (t in self._read and 0 not in shape_of(tensor))
        return "input" if is_used else "weight"

    def _op(self, k: int, operator: Any, ties: Ties) -> dict[str, Any]:
        kind, own = self._file.kind(operator), self._effects[k]
        inputs, outputs = self._indices(operator, "Inputs"), self._indices(operator, "Outputs")
        op: dict[str, Any] = {"name": f"{kind}_{k}", "type": kind}
        op |= {"inputs": [self.names[t] for t in inputs], "outputs": [self.names[t] for t in outputs]}
        if room := max((self._room(op["name"], called) for called in self._file.called(operator)), default=0):
            op["workspace"] = room
        if inputs and len(outputs) == 1:
            op |= self._shared(kind, inputs, outputs[0])
        if own.once:
            op["recompute"] = False
        if after := ties.after(op["name"], own):
            op["after"] = after
        return op if own.any else op | self._loops(operator, kind)

    def _room(self, name: str, called: int) -> int:
        """The bytes that a subgraph holds while an operator runs it."""
        try:
            return self._reader.room(called)
        except SourceError as error:
            problem = str(error).removeprefix(f"{self._file.path}: ")
            raise self._file.error(f"in subgraph {called}, which {name} runs: {problem}") from None

    def _shared(self, kind: str, inputs: list[int], output: int) -> dict[str, Any]:
        """Which inputs an output may lie over; not over variable tensors, which others change."""
        found: dict[str, Any] = {}
        free = [t for t in inputs if not self._subgraph.Tensors(t).IsVariable()]
        if kind in _SAME_BYTES and inputs[0] in free and self._bytes[inputs[0]] == self._bytes[output]:
            found["slice"] = [{"output": self.names[output], "input": self.names[inputs[0]]}]
        if kind in self._reader.inplace_ops:
            over = [t for t in free if self._shape(t) == self._shape(output)]
            found["inplace"] = [{"output": self.names[output], "input": self.names[t]} for t in over]
        return found

    def _loops(self, operator: Any, kind: str) -> dict[str, Any]:
        """Along which loops an operator may be split, and which of them its kernel runs in order."""
        seen = self._seen(operator, kind)
        names = [[self.names[t] for t in self._row(operator, what)] for what in ("Inputs", "Outputs")]
        found = loops.loops(seen, *names)
        known = micro.ordered(seen, *names) if self._reader.is_micro else None
        if known is not None:
            return micro.in_order(found, known)
        return {"loops": found} if found else {}

    def _seen(self, operator: Any, kind: str) -> loops.Operator:
        inputs, outputs = self._row(operator, "Inputs"), self._row(operator, "Outputs")
        shapes, made = ([self._shape(t)[0] if t >= 0 else None for t in group] for group in (inputs, outputs))
        dtypes = [self._tensor(t).get("dtype") if t >= 0 else None for t in (*inputs, *outputs[:1])]
        options = self._file.options(operator)
        return loops.Operator(
            shapes,
            made,
            dtypes[: len(inputs)],
            kind,
            lambda name, otherwise: getattr(options, name)() if options is not None else otherwise,
            lambda position: self._integers(inputs[position]),
            dtypes[-1] if outputs else None,
        )

    def _integers(self, t: int) -> Any:
        return None if t < 0 else self._file.integers(self._subgraph.Tensors(t))

    def _shape(self, t: int) -> tuple[list[int], int]:
        """By which one input element belongs to one output element: the shape, and the bytes."""
        return shape_of(self._subgraph.Tensors(t)), self._bytes[t]


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
