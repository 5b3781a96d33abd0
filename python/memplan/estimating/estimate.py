"""`memplan.estimate`: what a step of a network needs in eager torch, by what it is for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from .. import _core
from ..frontend import stepped, steps_of
from ..importers import Network, captured
from ..kinds import PLACED
from ..options.checks import boolean
from ..options.source import Source
from ..options.taking import request
from .result import PHASES, ROUNDED, Estimate

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
    if isinstance(source, Network) and source.source is not None and steps_of(source.source.value) is not None:
        return _of_network(source.source, (args, kwargs, dims, trust, train, optimizer), autocast, loss, device)
    if device not in ROUNDED:
        raise ValueError(f"device must be 'cpu' or 'cuda', got {device!r}")
    train = boolean(train, "train")
    if not train and optimizer is not None:
        raise TypeError("optimizer needs train=True: its step follows the backward pass")
    if not train and loss is not None:
        raise TypeError("loss needs train=True: it is where the backward pass begins")
    steps = steps_of(source)
    if steps is None:
        if autocast is not None or loss is not None:
            raise TypeError(f"autocast and loss need {stepped()}; other sources say what runs")
        reading = {"args": args, "kwargs": kwargs, "train": train, "dims": dims, "trust": trust}
        return _of_source(source, reading, optimizer, device)
    if dims or trust:
        raise TypeError("dims and trust are for files and graphs; the arguments of a module have the sizes")
    how = {"train": train, "optimizer": optimizer, "loss": loss}
    found: Estimate = steps.estimate(source, args, kwargs, autocast=autocast, device=device, **how)
    return found


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


def _of_source(source: Any, reading: dict[str, Any], optimizer: Any, device: str) -> Estimate:
    """The parts at the worst op of a graph."""
    graph, said = _graph(source, reading)
    weights = _sum(graph, "weight")
    if optimizer is not None:
        graph, said = _graph(source, {**reading, "optimizer": optimizer, "keep_gradients": True})
    unit = ROUNDED[device]
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
