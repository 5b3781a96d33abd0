"""What a run starts from: the caller's inputs, and weights by name, held against what was planned."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from ...errors import SourceError
from ..private import FakeTensor
from ..reading.fake import describe, require_dense, tensors_in
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
    require_dense(tensor, what)
    if isinstance(tensor, FakeTensor) or tensor.device.type == "meta":
        raise SourceError(f"{what} has no data: it is a {'fake' if isinstance(tensor, FakeTensor) else 'meta'} tensor")
    if tensor.device != device:
        raise SourceError(f"{what}: the plan has it on {device}, got one on {tensor.device}")


def require_lies(what: str, tensor: Tensor, view: View) -> None:
    """SourceError unless a tensor lies in memory as a view does: operators choose by it what they read and draw."""
    bits = {"conjugated": (view.conj, tensor.is_conj()), "negated": (view.neg, tensor.is_neg())}
    for bit, (planned, given) in bits.items():
        if planned != given:
            then, now = ("", "not ") if planned else ("not ", "")
            lies = f"was {then}{bit} by a bit when it was planned, and is {now}now"
            raise SourceError(f"{what} {lies}; x.resolve_conj().resolve_neg() gives one without such bits")
    if not _same_strides(tuple(tensor.stride()), view):
        strides = f"the plan has {view} with strides {view.strides}, got strides {tuple(tensor.stride())}"
        raise SourceError(f"{what}: {strides}; {_as_planned(view)}, or plan with one that lies so")


def require_gradient(what: str, tensor: Tensor, planned: bool) -> None:
    """SourceError unless a tensor requires a gradient, or none, as it did when it was planned."""
    if tensor.requires_grad != planned:
        now, then = ("no", "did") if planned else ("a", "did not")
        raise SourceError(f"{what} requires {now} gradient, and {then} when it was planned")


def same_content(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors hold the same numbers, NaN being NaN."""
    return torch.equal(a, b) or bool(((a == b) | ((a != a) & (b != b))).all())


def _same_strides(strides: tuple[int, ...], view: View) -> bool:
    """Strides of dimensions of size 1 are of no account, but for images: they tell their layout."""
    if strides == view.strides or 0 in view.sizes:
        return True
    counts = [len(strides) in (4, 5) or size > 1 for size in view.sizes]
    return all(a == b for a, b, count in zip(strides, view.strides, counts, strict=True) if count)


def _as_planned(view: View) -> str:
    """What gives a tensor the strides of a view."""
    if view.strides == torch.empty(view.sizes, device="meta").stride():
        return "give x.contiguous()"
    form = {4: torch.channels_last, 5: torch.channels_last_3d}.get(len(view.sizes))
    if form and view.strides == torch.empty(view.sizes, device="meta", memory_format=form).stride():
        return f"give x.contiguous(memory_format={form})"
    return f"give torch.empty_strided({list(view.sizes)}, {list(view.strides)}).copy_(x)"


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
