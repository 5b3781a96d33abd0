"""What eager steps hold, by what it is for: of a step without data, and of what Python holds around a recorded step."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator

import torch
from torch import Tensor

from ... import _core
from ...explaining import held
from ..estimating import step_load
from ..private import has_storage, storage_key
from ..reading.dry_run import BACKWARD, FORWARD, DryRun

WEIGHTS, STATES, INPUTS, OTHERS = "weights", "states of the optimizer", "inputs", "other tensors"
SAVED, ACTIVATIONS, GRADIENTS = "saved for backward", "activations", "gradients"
TEMPORARIES, WORKSPACES, BESIDE = "temporaries", "kernels' own", "kept by changed modules, and rounding"
_CURES = {
    SAVED: 'memplan.torch.fit with a smaller budget, or "least"',
    GRADIENTS: "memplan.torch.update_as_you_go",
}
_Row = tuple[str, int, int, int, str, str]  # name, bytes, first, last, kind, and what made it


def held_by_run(found: DryRun, device: str, total: int, what: str) -> held.Held:
    """All that a step without data holds; `total` are the bytes of its worst moment, as estimated."""
    rows = list(_kept(found)) + list(_born(found))
    load = step_load(found, device)
    beside = total - sum((*found.weights, *found.states, *found.inputs)) - int(load.max(initial=0))
    end = max(len(found.ops), 1)
    rows.append((BESIDE, max(beside, 0), 0, end, BESIDE, ""))
    names, size, first, last, kinds, made = zip(*(row for row in rows if row[1] > 0), strict=True)
    problem = _core.Problem(size, first, last, names=list(names))
    return held.Held(what, problem, kinds, made, [_short(op) for op in found.ops], cures=_CURES)


def _kept(found: DryRun) -> Iterator[_Row]:
    """What is there before the step and after it."""
    end = max(len(found.ops), 1)
    for name, size in zip(found.names, found.weights, strict=True):
        yield name, size, 0, end, WEIGHTS, ""
    for kind, sizes in (("state", found.states), ("input", found.inputs)):
        for k, size in enumerate(sizes):
            yield f"{kind} {k}", size, 0, end, STATES if kind == "state" else INPUTS, ""


def _born(found: DryRun) -> Iterator[_Row]:
    """What is born in the step, and what kernels need for themselves."""
    backward = next((k for k, phase in enumerate(found.phases) if phase == BACKWARD), len(found.ops))
    for k, (size, first, last) in enumerate(zip(found.size, found.first, found.last, strict=True)):
        if k in found.gradient:
            kind = GRADIENTS
        elif found.phase[k] == FORWARD:
            kind = SAVED if last > backward else ACTIVATIONS
        else:
            kind = TEMPORARIES
        op = _short(found.ops[first])
        yield f"tensor {k}", size, first, last, kind, op
    for k, size in enumerate(found.workspaces):
        yield f"workspace {k}", size, k, k + 1, WORKSPACES, _short(found.ops[k])


def _short(op: str) -> str:
    return op.removesuffix(".default")


def around() -> list[tuple[str, int, str]]:
    """Tensors of the CPU that Python holds now, but for gradients: names, bytes and kinds, each storage once."""
    objects = gc.get_objects()
    modules = [thing for thing in objects if issubclass(type(thing), torch.nn.Module)]
    optimizers = [thing for thing in objects if issubclass(type(thing), torch.optim.Optimizer)]
    tensors = [thing for thing in objects if type(thing) in (Tensor, torch.nn.Parameter)]
    inner = {id(child) for module in modules for child in module.children()}
    weights = [
        (name.removeprefix("_orig_mod."), tensor)
        for module in modules
        if id(module) not in inner
        for name, tensor in (*module.named_parameters(), *module.named_buffers())
    ]
    of = {id(tensor): name for name, tensor in weights}
    states = [
        (f"{key} of {of.get(id(parameter), 'a parameter')}", value)
        for optimizer in optimizers
        for parameter, state in optimizer.state.items()
        for key, value in state.items()
        if isinstance(value, Tensor)
    ]
    gradients = [t.grad for t in tensors if t.is_leaf and t.grad is not None]
    seen = {storage_key(grad.untyped_storage()) for grad in gradients if _is_here(grad)}
    others = [(f"{str(t.dtype).removeprefix('torch.')} {list(t.shape)}", t) for t in tensors]
    found, times = [], Counter[str]()
    for kind, named in ((WEIGHTS, weights), (STATES, states), (OTHERS, others)):
        for name, tensor in named:
            if not _is_here(tensor):
                continue
            storage = tensor.untyped_storage()
            if storage_key(storage) in seen or storage.nbytes() == 0:
                continue
            seen.add(storage_key(storage))
            times[name] += 1
            found.append((f"{name} ({times[name]})" if times[name] > 1 else name, storage.nbytes(), kind))
    return found


def _is_here(tensor: Tensor) -> bool:
    """Whether it has bytes on the CPU: sparse tensors, and those of torch.func, have others do so."""
    return tensor.device.type == "cpu" and has_storage(tensor) and type(tensor).__name__ != "FakeTensor"
