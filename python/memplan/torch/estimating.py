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
    forward = np.array(found.phase, np.int64) == 0
    kept = [found.weights, found.states, found.inputs]
    more = sum(-(-s // unit) * unit - s for sizes in kept for s in sizes)
    phase = result.PHASES[found.phases[worst]] if found.phases else result.PHASES[0]
    workspace = found.workspaces[worst] if found.workspaces else 0
    return result.Estimate(
        weights=sum(found.weights),
        gradients=int(size[alive & gradient].sum()),
        states=sum(found.states),
        inputs=sum(found.inputs),
        activations=int(size[alive & forward & ~gradient].sum()),
        temporaries=int(size[alive & ~forward & ~gradient].sum()),
        workspaces=workspace + (CUBLAS if device == "cuda" else 0),
        rounding=more + int((rounded - size)[alive].sum()),
        phase=phase,
        at=found.ops[worst].removesuffix(".default") if found.ops else "",
        device=device,
        reserved=_core.reserved_by_caching(problem_of(found)) if device == "cuda" else None,
        notes=_notes(found, device),
    )


def problem_of(found: DryRun) -> _core.Problem:
    """All storages of a step, those that are there before it too."""
    kept = [*found.weights, *found.states, *found.inputs]
    ops = len(found.ops)
    size, first = [*kept, *found.size], [0] * len(kept) + [first + 1 for first in found.first]
    return _core.Problem(size, first, [ops + 1] * len(kept) + [last + 1 for last in found.last])


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
