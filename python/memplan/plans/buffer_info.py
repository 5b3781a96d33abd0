"""What a graph says of the buffers of its plan: kind, dtype and shape, the ops that write and read them, and layers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..kinds import kind_of
from .dataflow import Dataflow

if TYPE_CHECKING:
    from .. import _core
    from .plan import Plan
    from .slots import Slot

_OUTWEIGHS = ("weight", "input", "output", "intermediate", "workspace")  # each those after it, in one buffer

Path = tuple[str, ...]


@dataclass(frozen=True)
class BufferInfo:
    """What is known of a buffer; nothing for one of a plain problem."""

    # that of its tensors that comes first of weight, input, output, intermediate; "workspace" of an op's workspace.
    # What a graph returns is an "output"
    kind: str = ""
    dtype: str = ""  # of the tensor that owns the bytes; empty and None where it says none
    shape: tuple[int, ...] | None = None
    writer: _core.Op | None = None  # the op that writes it first; None for what is given to the graph
    reader: _core.Op | None = None  # the op that reads it last, if any does
    returned: bool = False  # the caller reads it, after all ops
    tensors: tuple[str, ...] = ()  # those that lie in it, in the graph's order
    tenants: tuple[Slot, ...] = ()  # of these, the ones that do not own the bytes

    @property
    def op_type(self) -> str:
        """The type of the op that writes it first; the kind where none does, as of inputs."""
        return self.kind if self.writer is None else self.writer.type


def buffer_infos(plan: Plan) -> list[BufferInfo]:
    """Of every buffer, in the problem's order."""
    infos = [BufferInfo()] * len(plan)
    if plan.graph is not None:
        dataflow, tenants = Dataflow(plan), tenants_of(plan)
        returned = set(plan.graph.outputs)
        for buffer, members in dataflow.tensors_of_buffer.items():
            infos[buffer] = _info(dataflow, members, returned, tuple(tenants.get(buffer, ())))
        for buffer, step in dataflow.step_of_workspace.items():
            op = dataflow.op_at(step)
            infos[buffer] = BufferInfo("workspace", writer=op, reader=op)
    return infos


def tenants_of(plan: Plan) -> dict[int, list[Slot]]:
    """Per buffer of a graph, the tensors that lie in it besides the one that owns the bytes, as the graph has them."""
    tenants: defaultdict[int, list[Slot]] = defaultdict(list)
    if plan.graph is not None and plan.buffers is not None:
        columns = (plan.buffers.buffer_of_tensor.tolist(), plan.buffers.root_of_tensor.tolist())
        for t, (buffer, root) in enumerate(zip(*columns, strict=True)):
            if buffer >= 0 and root != t:
                tenants[buffer].append(plan[plan.graph.tensor(t).name])
    return tenants


def _info(dataflow: Dataflow, members: Sequence[int], returned: set[str], tenants: tuple[Slot, ...]) -> BufferInfo:
    tensors = [dataflow.tensors[t] for t in members]
    owner = dataflow.tensors[dataflow.root[members[0]]]
    kinds = {kind_of(t, returned) for t in tensors}
    first, last = min(dataflow.maker[t] for t in members), max(map(dataflow.last_read, members))
    return BufferInfo(
        min(kinds, key=_OUTWEIGHS.index),
        owner.dtype,
        None if owner.shape is None else tuple(owner.shape),
        dataflow.op_at(first) if first >= 0 else None,
        dataflow.op_at(last) if last >= 0 else None,
        any(t.name in returned for t in tensors),
        tuple(t.name for t in tensors),
        tenants,
    )


def paths_of(plan: Plan, infos: Sequence[BufferInfo]) -> list[Path]:
    """Per buffer, the module path of the op that writes it first, or in its own name where there is none."""
    return [
        _path_of_tensor(plan.problem.name(b)) if info.writer is None else module_path(info.writer.name)
        for b, info in enumerate(infos)
    ]


def layers_of(paths: Sequence[Path], sizes: Sequence[int]) -> list[str]:
    """Per buffer, the layer that it belongs to: the beginning of its module path; empty for one without a path.

    Paths are cut where no layer has more than half of the bytes, or where they end. What the backward pass writes
    belongs to the layer whose gradients it computes.

    ValueError: no buffer has a path.
    """
    deepest = max(map(len, paths), default=0)
    if deepest == 0:
        raise ValueError("layers need names with a module path, such as 'layer1.0.conv1.convolution'; none has one")
    for depth in range(1, deepest + 1):
        weight: Counter[Path] = Counter()
        for path, bytes_ in zip(paths, sizes, strict=True):
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
