"""What a run starts from: the caller's inputs, and weights by name, held against what was planned."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from ...errors import SourceError
from ...importers.torch.fake import describe, tensors_in
from .recording import View

_PLAIN = (type(None), bool, int, float, complex, str, bytes)


def tensors_given(named: Mapping[str, Any], expected: Mapping[str, View]) -> dict[str, Tensor]:
    """The tensors among the arguments of a call by name; SourceError if they are not those that were planned."""
    given = dict(named_tensor for name, value in named.items() for named_tensor in tensors_in(value, name))
    for name in given:
        if name not in expected:
            raise SourceError(f"input '{name}' is a tensor, {describe(given[name])}, and was none when it was planned")
    for name, view in expected.items():
        if name not in given:
            raise SourceError(f"input '{name}' is missing: the plan has {view}")
    return given


def plain_values(named: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers, texts and the like among the arguments of a call, by name: what they are went into the plan."""
    return dict(found for name, value in named.items() for found in _plain(value, name))


def require_same_values(given: Mapping[str, Any], planned: Mapping[str, Any]) -> None:
    """SourceError names the first argument that is no tensor and not as it was when it was planned."""
    for name, value in given.items():
        if name in planned and (type(value) is not type(planned[name]) or value != planned[name]):
            raise SourceError(f"argument '{name}' was {planned[name]!r} when it was planned, got {value!r}")


def require_fits(what: str, tensor: Any, view: View, device: torch.device) -> None:
    """SourceError unless a tensor has the sizes, dtype and device of a view."""
    if tensor is None:
        raise SourceError(f"{what} is not known: the plan has {view}; give it as weights={{name: tensor}}")
    if not isinstance(tensor, Tensor):
        raise SourceError(f"{what}: the plan has {view}, got {describe(tensor)}")
    if tuple(tensor.shape) != view.sizes or tensor.dtype != view.dtype:
        raise SourceError(f"{what}: the plan has {view}, got {describe(tensor)}")
    if isinstance(tensor, FakeTensor) or tensor.device.type == "meta":
        raise SourceError(f"{what} has no data: it is a {'fake' if isinstance(tensor, FakeTensor) else 'meta'} tensor")
    if tensor.device != device:
        raise SourceError(f"{what}: the plan has it on {device}, got one on {tensor.device}")


def unknown_weight(name: str, names: Collection[str]) -> SourceError:
    """The error for a weight that the network has not."""
    listed = ", ".join(sorted(names)[:3])
    return SourceError(f"weights['{name}']: the network has no weight of this name; it has {listed}, ...")


def _plain(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, _PLAIN):
        yield path, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _plain(item, f"{path}.{key}")
    elif isinstance(value, (list, tuple)):
        for number, item in enumerate(value):
            yield from _plain(item, f"{path}.{number}")
