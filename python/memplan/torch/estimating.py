"""What a step of a module holds: a dry run of it, op by op, as parts by what they are for."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .. import _core, calls
from ..estimating import result
from .reading import accepts

if TYPE_CHECKING:
    from .reading.dry_run import DryRun

_STEPS = 3
_SEGMENT = 2**21  # bytes: segments are multiples
CUBLAS = 8_519_680  # bytes that torch gives to cuBLAS for a stream, up to the A100


def runs(source: Any) -> bool:
    """Whether a source is a module, which can run on stand-ins."""
    torch = sys.modules.get("torch")
    return accepts(source) and torch is not None and isinstance(source, torch.nn.Module)


def estimate(
    source: Any, args: Any, kwargs: Mapping[str, Any] | None, *, autocast: Any, device: str, **how: Any
) -> result.Estimate:
    """What a step of a module holds; see `memplan.estimate`."""
    return of_run(dry_run_of(source, args, kwargs, autocast=autocast, device=device, **how), device)


def dry_run_of(
    source: Any, args: Any, kwargs: Mapping[str, Any] | None, *, autocast: Any, device: str, **how: Any
) -> DryRun:
    """A step of a module without data; `how` are other options of `dry_run`."""
    from .reading.dry_run import dry_run

    how |= {"autocast": _dtype(autocast, device), "device": None if device == "cpu" else device}
    return dry_run(source, calls.positional(args), calls.keywords(kwargs), **how)


def of_run(found: DryRun, device: str) -> result.Estimate:
    """The parts at the worst op of a step."""
    unit = result.ROUNDED[device]
    size = np.array(found.size, np.int64)
    rounded = -(-size // unit) * unit
    need = step_load(found, device)
    worst = int(need.argmax()) if len(need) else 0
    alive = (np.array(found.first, np.int64) <= worst) & (worst < np.array(found.last, np.int64))
    gradient = np.zeros(len(size), bool)
    gradient[list(found.gradient)] = True
    state = np.zeros(len(size), bool)
    state[[*found.replaced, *found.replacing]] = True
    forward = np.array(found.phase, np.int64) == 0
    kept = [found.weights, found.states, found.inputs]
    more = sum(-(-s // unit) * unit - s for sizes in kept for s in sizes)
    phase = result.PHASES[found.phases[worst]] if found.phases else result.PHASES[0]
    reserved, suffices = reserved_by(found) if device == "cuda" else (None, None)
    workspace = found.workspaces[worst] if found.workspaces else 0
    return result.Estimate(
        weights=sum(found.weights),
        gradients=int(size[alive & gradient].sum()),
        states=sum(found.states) + int(size[alive & state].sum()),
        inputs=sum(found.inputs),
        activations=int(size[alive & forward & ~gradient].sum()),
        temporaries=int(size[alive & ~forward & ~gradient & ~state].sum()),
        workspaces=workspace + (CUBLAS if device == "cuda" else 0),
        rounding=more + int((rounded - size)[alive].sum()),
        phase=phase,
        at=found.ops[worst].removesuffix(".default") if found.ops else "",
        device=device,
        reserved=reserved,
        suffices=suffices,
        notes=_notes(found, device),
    )


def reserved_by(found: DryRun) -> tuple[int, int]:
    """The most bytes that torch's caching allocator for CUDA reserves in a loop, and how many suffice it.

    The first step makes the states of the optimizer. What a step leaves in the cache serves the next one.
    """
    rows, sizes = (np.array(column) for column in _requests(found))
    run = _core.reserve(rows, sizes, _core.CachingSettings())
    least, most = -(-run.allocated // _SEGMENT), -(-run.reserved // _SEGMENT)
    while least < most:
        middle = (least + most) // 2
        if _core.reserve(rows, sizes, _core.CachingSettings(capacity=middle * _SEGMENT)).ran_out_at < 0:
            most = middle
        else:
            least = middle + 1
    return run.reserved, most * _SEGMENT


def _requests(found: DryRun) -> tuple[list[int], list[int]]:
    """What the steps ask for, as `_core.reserve` takes it."""
    rows: list[int] = []  # row k >= 0 allocates, row -k - 1 frees what row k allocated
    sizes: list[int] = []

    def allocate(size: int) -> int:
        rows.append(len(rows))
        sizes.append(size)
        return rows[-1]

    def free(row: int) -> None:
        rows.append(-row - 1)
        sizes.append(0)

    ops = len(found.ops)
    before = set(found.replaced)
    born: list[list[int]] = [[] for _ in range(ops)]
    dead: list[list[int]] = [[] for _ in range(ops + 1)]
    for k, (first, last) in enumerate(zip(found.first, found.last, strict=True)):
        if k not in before:
            born[first].append(k)
        dead[last].append(k)
    for size in (*found.weights, *found.inputs, CUBLAS):
        allocate(size)
    phase = result.PHASES.index("update")
    update = found.phases.index(phase) if phase in found.phases else ops
    stays = set(found.replacing)
    row_of: dict[int, int] = {}
    for step in range(_STEPS):
        for op in range(ops):
            for k in dead[op]:
                free(row_of.pop(k))
            if step == 0 and op == update:
                for size in found.states:
                    allocate(size)
                row_of |= {k: allocate(found.size[k]) for k in found.replaced}
            row_of |= {k: allocate(found.size[k]) for k in born[op]}
            if found.workspaces[op]:
                free(allocate(found.workspaces[op]))
        for k in dead[ops]:
            if k not in stays:
                free(row_of.pop(k))
        # What took the place of states is what the next step replaces
        left = sorted(found.replacing, key=lambda k: found.size[k])
        for old, new in zip(sorted(found.replaced, key=lambda k: found.size[k]), left, strict=False):
            if new in row_of:
                row_of[old] = row_of.pop(new)
    return rows, sizes


def step_load(found: DryRun, device: str) -> npt.NDArray[np.int64]:
    """Bytes at each op of what is born in a step, as the allocator gives them, and of workspaces."""
    unit = result.ROUNDED[device]
    size = -(-np.array(found.size, np.int64) // unit) * unit
    change = np.zeros(len(found.ops) + 1, np.int64)
    np.add.at(change, found.first, size)
    np.add.at(change, found.last, -size)
    return np.cumsum(change)[:-1] + np.array(found.workspaces, np.int64)


def _notes(found: DryRun, device: str) -> tuple[str, ...]:
    if device == "cuda":
        from .reading.cuda import notes_of

        return notes_of(set(found.ops))
    notes = ["what kernels of convolutions allocate for themselves is known in part"]
    return tuple(notes) if any("convolution" in op for op in set(found.ops)) else ()


def _dtype(autocast: Any, device: str) -> Any:
    if autocast is None or autocast is False:
        return None
    import torch

    if autocast is True:
        return torch.float16 if device == "cuda" else torch.bfloat16
    if not isinstance(autocast, torch.dtype):
        raise TypeError(f"autocast must be True, False or a dtype such as torch.bfloat16, got {autocast!r}")
    return autocast
