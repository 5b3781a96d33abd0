"""Which ops may run again, and which change what they read: what the graph says, and what the types of ops tell.

An op that draws random numbers gives something else when it runs again. An op that changes its input in place does
its work twice, unless the input is made again first. Training batch norm updates its statistics each time; what it
returns does not depend on them, and a runtime lets a copy leave them as they are.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

from .. import _core

Again = Literal["same", "changes", "never"]

_BY_CHANCE = (
    *("rand", "bernoulli", "multinomial", "normal", "uniform", "dropout", "native_dropout", "alpha_dropout", "rrelu"),
    *("feature_dropout", "poisson", "exponential", "geometric", "cauchy", "log_normal", "random"),
)
_BY_CHANCE_ONNX = {
    *("Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"),
}


def again_of(op: _core.Op) -> Again:
    """What running an op again does; see memplan/fit.hpp."""
    return _of_type(op.type, bool(op.aliases)) if op.recompute else "never"


@lru_cache(4096)
def _of_type(type: str, has_views: bool) -> Again:
    words = type.split("::")[-1].split(".")
    name = words[1] if words[0] in ("aten", "prims") and len(words) > 1 else words[-1]
    if type in _BY_CHANCE_ONNX or (type != name and name.lower().startswith(_BY_CHANCE)):
        return "never"
    return "changes" if _mutates(words) or (has_views and _may_mutate(type)) else "same"


def _mutates(words: list[str]) -> bool:
    """Whether a type is one of torch's that change their input: "aten.relu_.default"."""
    return any(word.endswith("_") and not word.startswith("__") for word in words)


def _may_mutate(type: str) -> bool:
    """Whether a function or module of torch, whose name does not say it, may change what its output is a view of."""
    return type.startswith("torch.") and not type.startswith("torch.Tensor.")
