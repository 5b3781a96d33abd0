"""Graph dicts: the plain form of a graph, as Python objects or as JSON.

::

    {"tensors": [{"name": "x", "bytes": 602112, "kind": "input"},
                 {"name": "y", "shape": [1, 64, 112, 112], "dtype": "float32", "permuted": false}],
     "ops": [{"name": "conv1", "type": "Conv", "inputs": ["x"], "outputs": ["y"], "workspace": 0,
              "alias": [{"output": "v", "input": "t", "offset": 0}], "inplace": [...], "overwrite": [...],
              "stream": 0, "cost": 118.0e6, "flops": 118.0e6, "recompute": true, "branch": "if1/then", "body": "loop1",
              "loops": [...], "ordered": [0], "reads_first": false, "pieces_copied": false}],  # loop_dicts.py
     "outputs": ["y"],
     "barriers": ["conv1"],
     "pin": {"y": 4096}, "reserved": [[0, 4096]], "together": [["a", "b", 64]], "contiguous": [["a", "b"]],
     "apart": [["a", "b"]], "exclude": ["a"]}
"""

from __future__ import annotations

import json
import math
import operator
import os
from collections.abc import Collection, Mapping
from importlib import resources
from typing import Any

from .. import _core
from ..dtypes import INT64_MAX, elements, is_known, nbytes
from ..errors import GraphError, SourceError
from ..files import read_json
from ..kinds import PLACED
from ..options.barriers import with_barriers
from ..options.declaring import made
from ..options.for_core import core_options
from ..options.layouts import on_graph
from ..options.records import Layout
from ..text import number as digits
from .loop_dicts import loops_of, ordered_of

_TENSOR_KEYS = {"name", "bytes", "kind", "shape", "dtype", "permuted"}
_OP_KEYS = {
    *("name", "type", "inputs", "outputs", "workspace", "stream", "after"),
    *("alias", "inplace", "overwrite", "slice", "concat"),
    *("cost", "recompute", "branch", "flops", "loops", "ordered", "reads_first", "body", "pieces_copied"),
}
_GRAPH_KEYS = {"tensors", "ops", "outputs", "barriers", *Layout.names()}


def read_graph_dict(path: str | os.PathLike[str]) -> Mapping[str, Any]:
    """The graph dict of a JSON file; SourceError where it holds something else, as a plan that memplan wrote."""
    spec = read_json(path, "a graph dict with tensors, ops and outputs")
    kind = spec.get("format")
    if isinstance(kind, str) and kind.startswith("memplan."):
        raise SourceError(f"{path}: expected a graph dict with tensors, ops and outputs, got a {kind} file")
    return spec


def example_names() -> list[str]:
    """The names that "example:NAME" takes, sorted."""
    files = resources.files("memplan").joinpath("examples").iterdir()
    return sorted(file.name.removesuffix(".json") for file in files if file.name.endswith(".json"))


def read_example(name: str) -> dict[str, Any]:
    """The graph dict of a shipped example; SourceError lists the names when there is none such."""
    if name not in example_names():
        raise SourceError(f"there is no example {name!r}; there are {', '.join(example_names())}")
    text = resources.files("memplan").joinpath("examples", f"{name}.json").read_text(encoding="utf-8")
    graph: dict[str, Any] = json.loads(text)
    return graph


def graph_of(spec: Mapping[str, Any], *, measured: bool = False) -> _core.Graph:
    """Build the Graph of a graph dict.

    Bytes may not be fewer than shape and dtype take, but for views: a broadcast shows the same bytes many times. An
    importer's bytes were `measured`, and are taken as they are.

    GraphError names the entry ("tensors[3].bytes"), what was expected and what came; or, once every entry is well
    formed, the op and tensor that break a rule of the graph.
    """
    _check_keys(spec, "graph", _GRAPH_KEYS, required=("tensors", "ops", "outputs"))
    tensors = [_tensor(entry, f"tensors[{i}]") for i, entry in enumerate(_list(spec["tensors"], "tensors"))]
    ops = [_op(entry, i) for i, entry in enumerate(_list(spec["ops"], "ops"))]
    if not measured:
        views = {output for op in ops for output, *_ in op.aliases}
        for i, tensor in enumerate(tensors):
            if tensor.name not in views:
                _check_size(tensor, f"tensors[{i}] ({tensor.name!r})")
    graph = _core.Graph(tensors, ops, _names(spec["outputs"], "outputs"))
    _check_rows(graph, ops)
    graph = with_barriers(graph, _names(spec.get("barriers", []), "barriers"))
    if not (asked := {key: spec[key] for key in Layout.names() if key in spec}):
        return graph
    try:
        return on_graph(graph, made(Layout, asked))
    except (TypeError, ValueError) as error:
        raise GraphError(str(error)) from None


def peak_of(graph: dict[str, Any], place: Collection[str] = PLACED) -> int:
    """Bytes of the arena that the plan of a graph dict needs by default, with tensors of these kinds.

    As much workspace has an op that holds it, such as the body of a loop.
    """
    storage = _core.StorageOptions(list(place), 1, True, [], [], True)
    _, solution = _core.solve_graph(graph_of(graph, measured=True), storage, core_options("auto"))
    return int(solution.peak)


def _tensor(entry: Any, where: str) -> _core.Tensor:
    _check_keys(entry, where, _TENSOR_KEYS, required=("name",))
    name = _string(entry["name"], where, ".name")
    shape, dtype = _shape(entry.get("shape"), where), _string(entry.get("dtype", ""), where, ".dtype")
    size = _size(entry, shape, dtype, name, where)
    kind, permuted = entry.get("kind", "intermediate"), entry.get("permuted", False)
    kind, permuted = _string(kind, where, ".kind"), _flag(permuted, where, ".permuted")
    return _core.Tensor(name, size, kind, shape, dtype, permuted)


def _size(entry: Mapping[str, Any], shape: list[int] | None, dtype: str, name: str, where: str) -> int:
    """Bytes: as given, else as the shape takes."""
    if "bytes" not in entry:
        what = f"{where} ({name!r})"
        if shape is None or not dtype:
            raise GraphError(f"{what} needs bytes, or shape and dtype")
        return _bytes_of(shape, dtype, what)
    return _integer(entry["bytes"], where, ".bytes")


def _check_size(tensor: _core.Tensor, what: str) -> None:
    """Bytes may be more than the shape takes, as where rows are padded, and not fewer."""
    if tensor.shape is None or not is_known(tensor.dtype):
        return
    least, size = _bytes_of(list(tensor.shape), tensor.dtype, what), tensor.bytes
    if 0 <= size < least:
        raise GraphError(
            f"{what}: bytes must be the {least} of {tensor.dtype} {list(tensor.shape)}, or more (padding), got {size}"
        )


def _check_rows(graph: _core.Graph, ops: list[_core.Op]) -> None:
    """Rows along ordered loops lie where the shape says: a tensor that is padded has them elsewhere."""
    for op in ops:
        for position in op.ordered:
            loop = op.loops[position]
            walked = [op.inputs[read[0]] for read in loop.reads] + [op.outputs[write[0]] for write in loop.writes]
            for tensor in (graph.tensor(t) for name in walked if (t := graph.index(name)) is not None):
                if tensor.shape is None or not is_known(tensor.dtype):
                    continue
                if tensor.bytes != (size := _bytes_of(list(tensor.shape), tensor.dtype, tensor.name)):
                    raise GraphError(
                        f"op {op.name!r}: an ordered loop goes along {tensor.name!r}, whose bytes must be the {size} "
                        f"of {tensor.dtype} {list(tensor.shape)}, got {tensor.bytes}: padded rows lie elsewhere"
                    )


def _op(entry: Any, position: int) -> _core.Op:
    where = f"ops[{position}]"
    _check_keys(entry, where, _OP_KEYS, required=("inputs", "outputs"))
    inputs, outputs = _names(entry["inputs"], where, ".inputs"), _names(entry["outputs"], where, ".outputs")
    return _core.Op(
        _string(entry.get("name", f"op{position}"), where, ".name"),
        _string(entry.get("type", ""), where, ".type"),
        inputs,
        outputs,
        _integer(entry.get("workspace", 0), where, ".workspace"),
        _views(entry.get("alias", []), where, ".alias"),
        _views(entry.get("inplace", []), where, ".inplace"),
        _views(entry.get("overwrite", []), where, ".overwrite"),
        _integer(entry.get("stream", 0), where, ".stream", limit=2**31 - 1),
        _views(entry.get("slice", []), where, ".slice"),
        _views(entry.get("concat", []), where, ".concat"),
        _names(entry.get("after", []), where, ".after"),
        _cost(entry.get("cost"), where, ".cost"),
        _flag(entry.get("recompute", True), where, ".recompute"),
        _string(entry.get("branch", ""), where, ".branch"),
        _cost(entry.get("flops"), where, ".flops"),
        loops_of(entry.get("loops", []), f"{where}.loops", inputs, outputs),
        ordered_of(entry.get("ordered", []), f"{where}.ordered"),
        _flag(entry.get("reads_first", False), where, ".reads_first"),
        _string(entry.get("body", ""), where, ".body"),
        _flag(entry.get("pieces_copied", False), where, ".pieces_copied"),
    )


def _views(entries: Any, *where: str) -> list[tuple[str, str, int]]:
    views = []
    for i, entry in enumerate(_list(entries, *where)):
        at = "".join(where) + f"[{i}]"
        _check_keys(entry, at, {"output", "input", "offset"}, required=("output", "input"))
        offset = _integer(entry.get("offset", 0), at, ".offset")
        views.append((_string(entry["output"], at, ".output"), _string(entry["input"], at, ".input"), offset))
    return views


def _check_keys(entry: Any, where: str, known: set[str], required: tuple[str, ...]) -> None:
    if type(entry) is not dict and not isinstance(entry, Mapping):
        raise GraphError(f"{where} must be a dict with {', '.join(sorted(known))}, got {type(entry).__name__}")
    for key in required:
        if key not in entry:
            raise GraphError(f"{where} has no {key!r}; expected {', '.join(required)}")
    for key in entry:
        if key not in known:
            raise GraphError(f"{where} has an unknown key {key!r}; known are {', '.join(sorted(known))}")


# `where` names an entry in parts, which an error alone puts together: there are many entries, and few errors.
def _list(value: Any, *where: str) -> list[Any] | tuple[Any, ...]:
    if not isinstance(value, (list, tuple)):
        raise GraphError(f"{''.join(where)} must be a list, got {type(value).__name__}")
    return value


def _string(value: Any, *where: str) -> str:
    if not isinstance(value, str):
        raise GraphError(f"{''.join(where)} must be a string, got {value!r}")
    if not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value):
        raise GraphError(f"{''.join(where)} must be text that UTF-8 can hold, got {value!r}")
    return value


def _names(value: Any, *where: str) -> list[str]:
    names = list(_list(value, *where))
    for i, name in enumerate(names):
        if type(name) is not str or not name.isascii():
            _string(name, *where, f"[{i}]")
    return names


def _integer(value: Any, *where: str, limit: int = INT64_MAX) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool):
        raise GraphError(f"{''.join(where)} must be an integer, got {value!r}")
    if not -limit <= number <= limit:
        raise GraphError(f"{''.join(where)} must be at most {limit}, got {digits(number)}")
    return number


def _cost(value: Any, *where: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
        raise GraphError(f"{''.join(where)} must be a finite number >= 0, got {value!r}")
    return float(value)


def _flag(value: Any, *where: str) -> bool:
    if not isinstance(value, bool):
        raise GraphError(f"{''.join(where)} must be true or false, got {value!r}")
    return value


def _shape(value: Any, where: str) -> list[int] | None:
    if value is None:
        return None
    shape = [_integer(d, where, f".shape[{i}]") for i, d in enumerate(_list(value, where, ".shape"))]
    for i, dimension in enumerate(shape):
        if dimension < 0:
            raise GraphError(f"{where}.shape[{i}] must be >= 0, got {dimension}")
    try:
        elements(shape)
    except ValueError as error:
        raise GraphError(f"{where}.shape: {error}") from None
    return shape


def _bytes_of(shape: list[int], dtype: str, where: str) -> int:
    try:
        return nbytes(dtype, shape)
    except ValueError as error:
        raise GraphError(f"{where}: {error}") from None
