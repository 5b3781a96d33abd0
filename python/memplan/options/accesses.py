"""How often bytes are written and read: what a plan in several pools pays for."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from .. import _core
from ..text import offer


def _count(value: Any, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 0:
        raise ValueError(f"{where} must be an integer >= 0, got {value!r}")
    return int(value)


def counts_of_problem(problem: _core.Problem, accesses: Mapping[str, int] | Sequence[int] | None) -> list[int]:
    """How often each buffer of a problem is accessed."""
    if accesses is None:
        return [1] * len(problem)
    if isinstance(accesses, Mapping):
        names = [problem.name(b) for b in range(len(problem))]
        _check_counted(accesses, names, "buffers of the problem")
        return [_count(accesses.get(name, 1), f"accesses[{name!r}]") for name in names]
    if len(accesses) != len(problem):
        raise ValueError(f"accesses must have one count per buffer, {len(problem)}, got {len(accesses)}")
    return [_count(count, f"accesses[{b}]") for b, count in enumerate(accesses)]


def _check_counted(accesses: Mapping[str, int], names: Collection[str], what: str) -> None:
    for name in accesses:
        if name not in names:
            raise ValueError(f"accesses must name {what}, got {name!r}; {offer(str(name), list(names), what)}")


def accessed_of(graph: _core.Graph, buffers: _core.Buffers, accesses: Any) -> list[int]:
    """Bytes that ops write to and read from each buffer.

    An op reads its inputs and writes its outputs once, and writes and reads its workspace. A view costs nothing, nor
    does a slice or a part of a concatenation that is not copied.
    """
    if accesses is not None and not isinstance(accesses, Mapping):
        raise TypeError(f"accesses must be counts by name for graphs, got {type(accesses).__name__}")
    given = dict(accesses or {})
    _check_counted(given, {tensor.name for tensor in graph.tensors}, "tensors of the graph")
    tensors, ops = graph.tensors, graph.ops
    index = {tensor.name: t for t, tensor in enumerate(tensors)}
    moved = [0] * len(tensors)
    uncopied = _uncopied(buffers, tensors)
    for k, op in enumerate(ops):
        views = {output for output, _, _ in op.aliases}
        outputs = [name for name in op.outputs if name not in views]
        sliced, parts = uncopied.get(k, (set(), {}))
        written = {index[name]: tensors[index[name]].bytes for name in outputs if index[name] not in sliced}
        for part, whole in parts.items():
            written[whole] = max(0, written.get(whole, 0) - tensors[part].bytes)
        for t, bytes_ in written.items():
            moved[t] += bytes_
        if written or (not op.outputs and op.inputs):
            for name in dict.fromkeys(op.inputs):
                moved[index[name]] += 0 if index[name] in parts else tensors[index[name]].bytes
    accessed = [0] * len(buffers.problem)
    for t, b in enumerate(buffers.buffer_of_tensor.tolist()):
        if b >= 0:
            name = tensors[t].name
            accessed[b] += tensors[t].bytes * _count(given[name], f"accesses[{name!r}]") if name in given else moved[t]
    for op, b in zip(ops, buffers.buffer_of_workspace.tolist(), strict=True):
        if b >= 0:
            accessed[b] += 2 * op.workspace
    return accessed


def _uncopied(buffers: _core.Buffers, tensors: Sequence[_core.Tensor]) -> dict[int, tuple[set[int], dict[int, int]]]:
    """Per op, the slices that it does not copy, and the parts of concatenations: each with its whole."""
    found: dict[int, tuple[set[int], dict[int, int]]] = {}
    for how, op, output, source, _ in buffers.shared:
        sliced, parts = found.setdefault(op, (set(), {}))
        if how == "slice":
            sliced.add(output)
        elif how == "concat":
            parts[source] = output
    return found
