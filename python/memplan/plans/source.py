"""What a plan was made from, as its caller gave it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, eq=False)
class Source:
    """A network or a tape as `memplan.plan` was given it, with the options of its import.

    Attributes
    ----------
    value : Any
        The network: a module, graph, program or model, or the path of its file. Or a tape. It is held, not copied.
    kind : str
        How importers call it: "torch", ".pt2", "onnx", ".onnx" or "tape".
    args, kwargs, train, dims, inplace_ops, trust, optimizer, keep_gradients
        As in `memplan.capture`.
    engine
        As in `Plan.run`.
    """

    value: Any
    kind: str
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    train: bool = False
    dims: Mapping[str, int] = field(default_factory=dict)
    inplace_ops: Collection[str] = ()
    trust: bool = False
    engine: str = "reference"
    optimizer: Any = None
    keep_gradients: bool = False
