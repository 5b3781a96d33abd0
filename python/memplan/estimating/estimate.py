"""`memplan.estimate`: what a step of a network needs in eager torch, by what it is for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from .. import _core
from ..calls import keywords, positional
from ..importers import Network, captured
from ..kinds import PLACED
from ..options.checks import boolean
from ..options.source import Source
from ..options.taking import request
from ..torch.reading import accepts
from .result import Estimate

if TYPE_CHECKING:
    from ..torch.reading.dry_run import DryRun

PHASES = ("forward", "backward", "update")
_ROUNDED = {"cpu": 1, "cuda": 512}
CUBLAS = 8_519_680  # bytes that torch gives to cuBLAS for a stream, up to the A100
_OF_A_GRAPH = "of a graph: each tensor is held from its op to its last use"


def estimate(
    source: Any,
    *,
    args: Sequence[Any] | Mapping[str, Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    train: bool = False,
    optimizer: Any = None,
    autocast: Any = None,
    loss: Callable[[Any], Any] | None = None,
    dims: Mapping[str, int] | None = None,
    trust: bool = False,
    device: Literal["cpu", "cuda"] = "cpu",
) -> Estimate:
    """What eager torch holds at the worst moment of a step, by what it is for. Nothing is allocated for it.

    A module runs once on stand-ins: tensors without data, each freed when torch would free it. The step is not the
    first one, so the states of the optimizer are there. What forward returns is held until the step ends, as by
    ``out = model(x); out.loss.backward()``, and so are the gradients.

    Bytes are those of torch's allocator. The process holds more: what malloc keeps between them, and buffers that
    libraries such as oneDNN allocate themselves.

    Parameters
    ----------
    source
        A torch.nn.Module. Or a model or graph as for `capture`, each tensor of which is held to its last use.
    args, kwargs
        Example arguments, as for `capture`; only their shapes and dtypes matter. They may be on the meta device, as the
        module may.
    train
        Whether a backward pass follows, from the result's `loss`, or else the sum of all tensors that it returns.
    optimizer
        With ``train=True``: whose step follows; a class such as ``torch.optim.AdamW``, an instance, a function that
        makes one from parameters, or a name in torch.optim.
    autocast
        ``True`` or a dtype: forward runs under `torch.autocast`. True is bfloat16 on the CPU and float16 on CUDA.
    loss
        A function from what forward returns to the loss.
    dims, trust
        Of graphs and files, as for `capture`.
    device
        "cuda": with the kernels of attention and dropout that a GPU takes, the optimizer's step for all parameters at
        once, and sizes rounded to 512 bytes. No GPU is needed. `notes` says what is not known.

    Raises
    ------
    TypeError, ValueError
        Bad input. And as `capture`.
    SourceError
        The step fails with these arguments, or depends on data.
    """
    if isinstance(source, Network) and source.source is not None and runs(source.source.value):
        return _of_network(source.source, (args, kwargs, dims, trust, train, optimizer), autocast, loss, device)
    if device not in _ROUNDED:
        raise ValueError(f"device must be 'cpu' or 'cuda', got {device!r}")
    train = boolean(train, "train")
    if not train and optimizer is not None:
        raise TypeError("optimizer needs train=True: its step follows the backward pass")
    if not train and loss is not None:
        raise TypeError("loss needs train=True: it is where the backward pass begins")
    if not runs(source):
        if autocast is not None or loss is not None:
            raise TypeError("autocast and loss need a torch.nn.Module; other sources say what runs")
        reading = {"args": args, "kwargs": kwargs, "train": train, "dims": dims, "trust": trust}
        return _of_source(source, reading, optimizer, device)
    if dims or trust:
        raise TypeError("dims and trust are for files and graphs; the arguments of a module have the sizes")
    how = {"train": train, "optimizer": optimizer, "loss": loss}
    return of_run(dry_run_of(source, args, kwargs, autocast=autocast, device=device, **how), device)


def _of_network(
    source: Source, again: tuple[Any, ...], autocast: Any, loss: Callable[[Any], Any] | None, device: Any
) -> Estimate:
    """Of a module that was captured already."""
    if any(again):
        raise TypeError(
            "args, kwargs, dims, trust, train and optimizer go with capture; this network was captured already"
        )
    read = source.reading
    how: dict[str, Any] = {"train": read.train, "optimizer": read.optimizer, "autocast": autocast, "loss": loss}
    return estimate(source.value, args=read.args, kwargs=read.kwargs, device=device, **how)


def runs(source: Any) -> bool:
    """Whether a source is a module, which can run on stand-ins."""
    import sys

    torch = sys.modules.get("torch")
    return accepts(source) and torch is not None and isinstance(source, torch.nn.Module)


def dry_run_of(
    source: Any, args: Any, kwargs: Mapping[str, Any] | None, *, autocast: Any, device: str, **how: Any
) -> DryRun:
    """A step of a module without data; `how` are other options of `dry_run`."""
    from ..torch.reading.dry_run import dry_run

    how |= {"autocast": _dtype(autocast, device), "device": None if device == "cpu" else device}
    return dry_run(source, positional(args), keywords(kwargs), **how)


def of_run(found: DryRun, device: str) -> Estimate:
    """The parts at the worst op of a step."""
    unit = _ROUNDED[device]
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
    phase = PHASES[found.phases[worst]] if found.phases else PHASES[0]
    workspace = found.workspaces[worst] if found.workspaces else 0
    return Estimate(
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
    unit = _ROUNDED[device]
    size = -(-np.array(found.size, np.int64) // unit) * unit
    change = np.zeros(len(found.ops) + 1, np.int64)
    np.add.at(change, found.first, size)
    np.add.at(change, found.last, -size)
    return np.cumsum(change)[:-1] + np.array(found.workspaces, np.int64)


def _notes(found: DryRun, device: str) -> tuple[str, ...]:
    if device == "cuda":
        from ..torch.reading.cuda import notes_of

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


def _of_source(source: Any, reading: dict[str, Any], optimizer: Any, device: str) -> Estimate:
    """The parts at the worst op of a graph."""
    graph, said = _graph(source, reading)
    weights = _sum(graph, "weight")
    if optimizer is not None:
        graph, said = _graph(source, {**reading, "optimizer": optimizer, "keep_gradients": True})
    unit = _ROUNDED[device]
    held = _core.buffers_of(graph, _core.StorageOptions(list(PLACED), 1, False, [], [], False))
    size, first, last = held.problem.size, held.problem.first, held.problem.last
    rounded = -(-size // unit) * unit
    steps, load = _core.Problem(rounded, first, last).load_curve()
    worst = int(steps[int(load.argmax())]) if len(load) else 0
    alive = (first <= worst) & (worst < last)
    workspace, gradient, forward = (np.zeros(len(size), bool) for _ in range(3))
    places = held.buffer_of_workspace
    workspace[places[places >= 0]] = True
    end = next((k for k, op in enumerate(graph.ops) if "loss" in op.outputs), len(graph.ops))
    for tensor, place in zip(graph.tensors, held.buffer_of_tensor.tolist(), strict=True):
        if place >= 0:
            gradient[place] |= reading["train"] and tensor.name.startswith("grad.") and tensor.kind == "output"
            forward[place] |= first[place] <= end
    forward &= ~workspace & ~gradient
    op = graph.ops[worst].type if graph.ops else ""
    return Estimate(
        weights=weights,
        gradients=int(size[alive & gradient].sum()),
        states=_sum(graph, "weight") - weights,
        inputs=_sum(graph, "input"),
        activations=int(size[alive & forward].sum()),
        temporaries=int(size[alive & ~forward & ~gradient & ~workspace].sum()),
        workspaces=int(size[alive & workspace].sum()),
        rounding=int((rounded - size)[alive].sum()),
        phase=PHASES[0 if worst <= end else 2 if graph.ops[worst].name.startswith("update.") else 1],
        at=op,
        device=device,
        notes=(*said, _OF_A_GRAPH),
    )


def _graph(source: Any, reading: dict[str, Any]) -> tuple[_core.Graph, tuple[str, ...]]:
    """The graph of a source, and what is to be known of it."""
    read = captured(source, request("capture", reading).reading)
    if not isinstance(read.buffers, _core.Graph):
        raise TypeError("estimate takes networks and graphs; a problem does not say what its buffers are for")
    return read.buffers, read.notes


def _sum(graph: _core.Graph, kind: str) -> int:
    """Bytes of all tensors of a kind that are no views of others."""
    views = {output for op in graph.ops for output, *_ in op.aliases}
    return sum(tensor.bytes for tensor in graph.tensors if tensor.kind == kind and tensor.name not in views)
