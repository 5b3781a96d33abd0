"""What stays between methods: as it was asked for, and where that is in each of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .. import _core
from ..text import offer

Captured = _core.Graph | _core.Problem


@dataclass(frozen=True)
class Asked:
    """What one name of `shared` stands for: the tensors of each method that has it, and their bytes."""

    name: str
    bytes: int
    tensors: Mapping[str, tuple[str, ...]]


def asked(shared: Any, methods: Mapping[str, Captured]) -> list[Asked]:
    """What is to stay, checked against the methods.

    Raises
    ------
    TypeError
        `shared` is neither names nor a mapping.
    ValueError
        A name is nowhere, or its tensors are of different sizes.
    """
    sizes = {method: _sizes(source) for method, source in methods.items()}
    may_stay = {method: _may_stay(source) for method, source in methods.items()}
    named = _names(shared, sizes, may_stay)
    return [Asked(name, _bytes_of(name, tensors, sizes), tensors) for name, tensors in named.items()]


def _may_stay(source: Captured) -> dict[str, bool]:
    """Names of what may stay, and whether it is a weight."""
    if isinstance(source, _core.Graph):
        kinds = {tensor.name: tensor.kind for tensor in source.tensors}
        own = {view for op in source.ops for view, *_ in op.aliases}
        stays = [name for name, kind in kinds.items() if kind in ("input", "weight", "output") and name not in own]
        return {name: kinds[name] == "weight" for name in stays}
    return {source.name(b): False for b in range(len(source))}


def _offered(
    may_stay: Mapping[str, Mapping[str, bool]], sizes: Mapping[str, Mapping[str, int]], only: str | None = None
) -> list[str]:
    """Names to offer, of all methods or of one: caches, which several methods have in one size, before other inputs and
    outputs, and weights at last."""
    weight = {name: is_weight for names in may_stay.values() for name, is_weight in names.items()}
    known = {name: [sizes[method][name] for method in may_stay if name in may_stay[method]] for name in weight}
    names = weight if only is None else may_stay[only]
    return sorted(names, key=lambda name: (weight[name], len(known[name]) < 2 or len(set(known[name])) > 1))


def _sizes(source: Captured) -> dict[str, int]:
    if isinstance(source, _core.Graph):
        return {tensor.name: tensor.bytes for tensor in source.tensors}
    sizes = source.size.tolist()
    return {source.name(b): sizes[b] for b in range(len(source))}


def _names(
    shared: Any, sizes: Mapping[str, Mapping[str, int]], may_stay: Mapping[str, Mapping[str, bool]]
) -> dict[str, dict[str, tuple[str, ...]]]:
    wanted = 'names such as ["cache"], or {"cache": {"prefill": "past_out", "decode": "past_in"}}'
    if isinstance(shared, str) or not isinstance(shared, Collection):
        raise TypeError(f"shared must be {wanted}, got {shared!r}")
    named = shared if isinstance(shared, Mapping) else dict.fromkeys(shared)
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    for name, by_method in named.items():
        if not isinstance(name, str) or not (by_method is None or isinstance(by_method, Mapping)):
            raise TypeError(f"shared must be {wanted}, got {name!r}: {by_method!r}")
        if by_method is None:
            found[name] = _everywhere(name, sizes, may_stay)
        else:
            found[name] = _where(name, by_method, sizes, may_stay)
    return found


def _everywhere(
    name: str, sizes: Mapping[str, Mapping[str, int]], may_stay: Mapping[str, Mapping[str, bool]]
) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {method: (name,) for method, known in sizes.items() if name in known}
    if not found:
        known = _offered(may_stay, sizes)
        raise ValueError(f"shared must name tensors of the methods, got {name!r}; {offer(name, known, 'tensors')}")
    return found


def _where(
    name: str,
    by_method: Mapping[Any, Any],
    sizes: Mapping[str, Mapping[str, int]],
    may_stay: Mapping[str, Mapping[str, bool]],
) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    if not by_method:
        raise ValueError(f"shared[{name!r}] must name a tensor of some method, got none")
    for method, value in by_method.items():
        where = f"shared[{name!r}]"
        if method not in sizes:
            raise ValueError(f"{where} must be by method, got {method!r}; {offer(str(method), list(sizes), 'methods')}")
        names = (value,) if isinstance(value, str) else value
        if not isinstance(names, Sequence) or not 1 <= len(names) <= 2 or not all(isinstance(n, str) for n in names):
            raise TypeError(
                f"{where}[{method!r}] must be a name, or two: what is read and what is written, got {value!r}"
            )
        for each in names:
            if each not in sizes[method]:
                near = offer(each, _offered(may_stay, sizes, method), "tensors")
                raise ValueError(f"{where}[{method!r}] must name tensors of that method, got {each!r}; {near}")
        found[method] = tuple(dict.fromkeys(names))
    return found


def _bytes_of(name: str, tensors: Mapping[str, tuple[str, ...]], sizes: Mapping[str, Mapping[str, int]]) -> int:
    found = [(method, tensor, sizes[method][tensor]) for method, names in tensors.items() for tensor in names]
    method, tensor, size = found[0]
    for other, its, bytes_ in found:
        if bytes_ != size:
            raise ValueError(
                f"shared {name!r} must have as many bytes in all methods: {tensor!r} of {method!r} has {size}, and "
                f"{its!r} of {other!r} has {bytes_}"
            )
    return size
