"""What stays between methods, as it was asked for: names, checked."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from .. import _core
from ..text import offer

GraphOrProblem = _core.Graph | _core.Problem
Tensors = dict[str, tuple[str, ...]]  # per method that has it, what one name of `shared` stands for


class Known:
    """The tensors of each method by name, or the buffers of a problem."""

    def __init__(self, methods: Mapping[str, GraphOrProblem]) -> None:
        self.methods = methods
        self._buffers = {
            method: {source.name(b): b for b in range(len(source))}
            for method, source in methods.items()
            if isinstance(source, _core.Problem)
        }

    def has(self, method: str, name: str) -> bool:
        source = self.methods[method]
        return source.index(name) is not None if isinstance(source, _core.Graph) else name in self._buffers[method]

    def offered(self, name: str, only: str | None = None) -> str:
        """What may be meant, of all methods or of one.

        Caches, which several methods have in one size, come before other inputs and outputs, and weights at last.
        """
        may_stay = {method: self._may_stay(method) for method in self.methods}
        weight = {known: is_weight for names in may_stay.values() for known, (is_weight, _) in names.items()}
        sizes = {known: [names[known][1] for names in may_stay.values() if known in names] for known in weight}
        names = weight if only is None else may_stay[only]
        few = sorted(names, key=lambda known: (weight[known], len(sizes[known]) < 2 or len(set(sizes[known])) > 1))
        return offer(name, few, "tensors")

    def _may_stay(self, method: str) -> dict[str, tuple[bool, int]]:
        """Names of what may stay: whether it is a weight, and its bytes."""
        source = self.methods[method]
        if isinstance(source, _core.Problem):
            return {name: (False, int(source.size[b])) for name, b in self._buffers[method].items()}
        own = {view for op in source.ops for view, *_ in op.aliases}
        return {
            tensor.name: (tensor.kind == "weight", tensor.bytes)
            for tensor in source.tensors
            if tensor.kind in ("input", "weight", "output") and tensor.name not in own
        }


def asked(shared: Any, known: Known) -> dict[str, Tensors]:
    """What is to stay, by name.

    Raises
    ------
    TypeError
        `shared` is neither names nor a mapping.
    ValueError
        A name is nowhere.
    """
    wanted = 'names such as ["cache"], or {"cache": {"prefill": "past_out", "decode": "past_in"}}'
    if isinstance(shared, str) or not isinstance(shared, Collection):
        raise TypeError(f"shared must be {wanted}, got {shared!r}")
    named = shared if isinstance(shared, Mapping) else dict.fromkeys(shared)
    found: dict[str, Tensors] = {}
    for name, by_method in named.items():
        if not isinstance(name, str) or not (by_method is None or isinstance(by_method, Mapping)):
            raise TypeError(f"shared must be {wanted}, got {name!r}: {by_method!r}")
        found[name] = _everywhere(name, known) if by_method is None else _where(name, by_method, known)
    return found


def _everywhere(name: str, known: Known) -> Tensors:
    found: Tensors = {method: (name,) for method in known.methods if known.has(method, name)}
    if not found:
        raise ValueError(f"shared must name tensors of the methods, got {name!r}; {known.offered(name)}")
    return found


def _where(name: str, by_method: Mapping[Any, Any], known: Known) -> Tensors:
    found: Tensors = {}
    where = f"shared[{name!r}]"
    if not by_method:
        raise ValueError(f"{where} must name a tensor of some method, got none")
    for method, value in by_method.items():
        if method not in known.methods:
            near = offer(str(method), list(known.methods), "methods")
            raise ValueError(f"{where} must be by method, got {method!r}; {near}")
        names = (value,) if isinstance(value, str) else value
        if not isinstance(names, Sequence) or not 1 <= len(names) <= 2 or not all(isinstance(n, str) for n in names):
            raise TypeError(
                f"{where}[{method!r}] must be a name, or two: what is read and what is written, got {value!r}"
            )
        for each in names:
            if not known.has(method, each):
                near = known.offered(each, method)
                raise ValueError(f"{where}[{method!r}] must name tensors of that method, got {each!r}; {near}")
        found[method] = tuple(dict.fromkeys(names))
    return found
