"""Where a buffer comes from: the kind of its tensor, the op that writes it first, and the layer which that is in."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .plan import Plan

Path = tuple[str, ...]


@dataclass(frozen=True)
class Origin:
    """What is known of a buffer of a graph.

    `kind` is that of the tensor that owns the bytes, or "workspace"; `op` the name of the op that writes it first and
    `op_type` its type: empty and the kind where no op does, as of inputs. `shape` and `dtype` are the tensor's, None
    and empty where it says none.
    """

    kind: str
    op: str
    op_type: str
    shape: tuple[int, ...] | None
    dtype: str


def origins_of(plan: Plan) -> list[Origin]:
    """Per buffer of a graph's plan, in the problem's order; empty for the plan of a problem."""
    if plan.graph is None or plan.buffers is None:
        return []
    ops = plan.graph.ops
    writer = {name: op for op in reversed(ops) for name in op.outputs}
    origins = [Origin("", "", "", None, "")] * len(plan)
    owned = zip(plan.buffers.buffer_of_tensor.tolist(), plan.buffers.root_of_tensor.tolist(), strict=True)
    tensors = plan.graph.tensors
    for position, (buffer, root) in enumerate(owned):
        if buffer >= 0 and position == root:
            tensor = tensors[root]
            op = writer.get(tensor.name)
            shape = None if tensor.shape is None else tuple(tensor.shape)
            name, kind = (op.name, op.type) if op is not None else ("", tensor.kind)
            origins[buffer] = Origin(tensor.kind, name, kind, shape, tensor.dtype)
    for op, buffer in zip(ops, plan.buffers.buffer_of_workspace.tolist(), strict=True):
        if buffer >= 0:
            origins[buffer] = Origin("workspace", op.name, op.type, None, "")
    return origins


def layers_of(plan: Plan) -> list[str]:
    """Per buffer, the layer that it belongs to: the beginning of its module path; empty for one without a path.

    Paths are cut where no layer has more than half of the bytes, or where they end. What the backward pass writes
    belongs to the layer whose gradients it computes.

    Raises
    ------
    ValueError
        No name has a path.
    """
    names = [origin.op for origin in origins_of(plan)] or [""] * len(plan)
    paths = [module_path(op) if op else _path_of_tensor(plan.problem.name(b)) for b, op in enumerate(names)]
    deepest = max(map(len, paths), default=0)
    if deepest == 0:
        raise ValueError("layers need names with a module path, such as 'layer1.0.conv1.convolution'; none has one")
    size = plan.problem.size.tolist()
    for depth in range(1, deepest + 1):
        weight: Counter[Path] = Counter()
        for path, bytes_ in zip(paths, size, strict=True):
            weight[path[:depth]] += bytes_ if path else 0
        if 2 * max(weight.values()) <= sum(weight.values()):
            break
    return [".".join(path[:depth]) for path in paths]


def module_path(name: str) -> Path:
    """The modules that the name of an op goes through: ("layer1", "0") of "layer1.0.conv", also of "/layer1/0/Conv".

    Names of the backward pass have the path of the forward op.
    """
    parts = [part for part in name.split("/" if "/" in name else ".") if part]
    if len(parts) > 1 and parts[0] in ("backward", "grad"):
        parts = parts[1:]
    return tuple(parts[:-1])


def _path_of_tensor(name: str) -> Path:
    """As `module_path`, without the number of an output at the end: "conv.1" is an output of "conv"."""
    stem, _, number = name.rpartition(".")
    return module_path(stem if number.isdecimal() and stem else name)
