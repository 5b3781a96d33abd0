"""Heads of networks in pieces: a linear layer whose loss needs a few rows of its logits at a time.

The layer returns `Logits`, a tensor that is not computed yet. A cross entropy takes a few rows at a time: it computes
their logits, their loss, and the gradients of that, and adds these up. So the logits are never whole. Whatever else
reads them gets them whole, as the layer would have returned them.

The gradients are computed in forward, for a loss of 1, and backward multiplies them by the gradient that it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from ...errors import UnsupportedError
from ..private import DisableTorchFunctionSubclass, disable_current_modes, make_wrapper_subclass, pytree, version_of
from ..reading.effects import flat_tensors
from .replaced_forward import Wrapped, replaced_forward
from .rows import Noted

_LEAST = 64  # rows of a piece: fewer make slow products
_LOG_SOFTMAX = torch.ops.aten._log_softmax.default

Cast = Callable[[Tensor], Tensor]


def heads_in(noted: Noted) -> list[str]:
    """The linear layers of a model whose results are the logits of a cross entropy, by name."""
    scored = [(place, args[0]) for place, (func, args, *_) in enumerate(noted.ops) if func is _LOG_SOFTMAX]
    found: dict[str, None] = {}
    for place, logits in scored:
        source = _source_of(noted, place, logits)
        for call in noted.calls:
            if call.result is source and type(call.module) is torch.nn.Linear and call.last <= place:
                found[call.name] = None
    return list(found)


def _source_of(noted: Noted, place: int, tensor: Tensor) -> Tensor:
    """What a tensor is a view or a copy of, with as many columns or more rows."""
    results = {id(noted.calls[k].result) for k in range(len(noted.calls))}
    for ran in reversed(noted.ops[:place]):
        if id(tensor) in results:
            break
        given = list(flat_tensors([ran.args, ran.kwargs]))
        if ran.result is tensor and given and given[0].numel() >= tensor.numel():
            tensor = given[0]
    return tensor


def with_heads(model: torch.nn.Module, names: Sequence[str]) -> replaced_forward:
    """Meanwhile, these linear layers return logits that are computed when something reads them."""
    return replaced_forward(model, names, _Head)


class _Head(Wrapped):
    """The forward of a linear layer, which waits."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        x = args[0] if len(args) == 1 and not kwargs else None
        if not isinstance(x, Tensor) or isinstance(x, Logits) or torch.compiler.is_compiling():
            return self.forward(*args, **kwargs)
        waits = x.dim() > 1 and x.dtype != torch.float16 and x.numel() > 0 and not _casts(x)
        return Logits.of(self, x) if waits else self.forward(x)


def _casts(tensor: Tensor) -> bool:
    """Whether autocast is on: what is computed later would have another dtype."""
    return torch.is_autocast_enabled(tensor.device.type)


class _Origin(NamedTuple):
    """A head, whether autograd was on, and versions of what it has read."""

    head: _Head
    grad: bool
    read: Sequence[tuple[Tensor, int]]


class Logits(Tensor):
    """Logits that are not computed yet: those of `hidden`, whose rows they have."""

    _origin: _Origin
    _hidden: Tensor
    _casts: tuple[Cast, ...]
    _behind: bool  # whether classes lie along axis 1, before the last
    _whole: Tensor | None
    _as_of: tuple[Logits, Any, Any, Any] | None  # logits that they show, by a function with arguments

    @classmethod
    def of(cls, head: _Head, hidden: Tensor) -> Logits:
        """What a head returns."""
        weights = [tensor for tensor in (head.module.weight, head.module.bias) if isinstance(tensor, Tensor)]
        read = [(tensor, version_of(tensor)) for tensor in (hidden, *weights) if not tensor.is_inference()]
        return cls._made(_Origin(head, torch.is_grad_enabled(), read), hidden, hidden.dtype)

    @classmethod
    def _made(
        cls,
        origin: _Origin,
        hidden: Tensor,
        dtype: torch.dtype,
        casts: tuple[Cast, ...] = (),
        behind: bool = False,
        as_of: tuple[Logits, Any, Any, Any] | None = None,
    ) -> Logits:
        module: Any = origin.head.module
        shape = (*hidden.shape[:-1], module.out_features)
        if behind:
            shape = (shape[0], shape[2], shape[1])
        trained = origin.grad and (hidden.requires_grad or any(p.requires_grad for p in module.parameters()))
        made: Logits = make_wrapper_subclass(cls, shape, dtype=dtype, device=hidden.device, requires_grad=trained)
        made._origin, made._hidden, made._casts, made._behind = origin, hidden, casts, behind
        made._whole, made._as_of = None, as_of
        return made

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in _OF_ALL:
            with DisableTorchFunctionSubclass():
                return func(*args, **kwargs)
        if args and isinstance(args[0], Logits) and not args[0].is_whole():
            made = args[0]._followed(func, args[1:], kwargs)
            if made is not None:
                return made
        args, kwargs = pytree.tree_map_only(Logits, Logits.whole, (args, kwargs))
        return func(*args, **kwargs)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        raise UnsupportedError(f"{func} reads logits that are not computed yet; leave 'split' out of allow")

    def is_whole(self) -> bool:
        """Whether they, or what they show, are computed."""
        return self._whole is not None or (self._as_of is not None and self._as_of[0].is_whole())

    def whole(self) -> Tensor:
        """The logits as the head returns them."""
        if self._whole is None:
            if self._as_of is not None:
                source, func, args, kwargs = self._as_of
                self._whole = func(source.whole(), *args, **kwargs)
            else:
                self._check()
                with torch.set_grad_enabled(self._origin.grad), _without_autocast(self._hidden):
                    self._whole = self._origin.head.forward(self._hidden)
        assert self._whole is not None
        return self._whole

    def _check(self) -> None:
        """UnsupportedError: what they are made of is not as it was when the head was called."""
        head = self._origin.head
        for tensor, version in self._origin.read:
            if version_of(tensor) != version:
                what = f"the logits of module '{head.name}' are read after {head.named(tensor)} was written to"
                raise UnsupportedError(f"memplan.torch.fit(): {what}: read them before, or leave 'split' out of allow")

    def _followed(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """What a function makes of logits that are not computed; None if it needs them whole."""
        if func is functional.cross_entropy:
            return self._loss(*args, **kwargs)
        if self._behind or func not in _FOLLOWED or any(isinstance(leaf, Logits) for leaf in flat_tensors(args)):
            return None
        with disable_current_modes():
            like = torch.empty(self._size(), dtype=self.dtype, device="meta")
            try:
                shows = func(like, *args, **kwargs)
            except (RuntimeError, IndexError, TypeError):
                return None  # the error is that of whole logits
        as_of = (self, func, args, kwargs)
        if shows.dtype != like.dtype and shows.shape == like.shape:
            casts = (*self._casts, lambda rows: rows.to(shows.dtype))
            return self._made(self._origin, self._hidden, shows.dtype, casts, as_of=as_of)
        if shows.dtype != like.dtype or shows.dim() < 2:
            return None
        if func in _TURNED:
            turned = self.dim() == 3 and shows.shape == (like.shape[0], like.shape[2], like.shape[1])
            turned = turned and shows.stride() == (like.stride(0), 1, like.stride(1))
            return self._made(self._origin, self._hidden, self.dtype, self._casts, True, as_of) if turned else None
        hidden = self._rows(func, args, kwargs, shows)
        return None if hidden is None else self._made(self._origin, hidden, self.dtype, self._casts, as_of=as_of)

    def _rows(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any], shows: Tensor) -> Tensor | None:
        """The hidden states of the rows that a function shows."""
        if shows.shape[-1] != self._size()[-1]:
            return None
        if func is Tensor.__getitem__:
            [index] = args
            parts = index if isinstance(index, tuple) else (index,)
            if not all(isinstance(part, slice) or part is Ellipsis for part in parts):
                return None
            if Ellipsis not in parts and len(parts) == self.dim() and parts[-1] != slice(None):
                return None
            if Ellipsis in parts and parts[-1] is not Ellipsis and parts[-1] != slice(None):
                return None
            return self._hidden[index]
        if shows.numel() != self.numel():
            return None
        return self._hidden.reshape(*shows.shape[:-1], self._hidden.shape[-1])

    def _size(self) -> torch.Size:
        with DisableTorchFunctionSubclass():
            return self.size()

    def _loss(
        self,
        target: Any,
        weight: Any = None,
        size_average: Any = None,
        ignore_index: int = -100,
        reduce: Any = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> Tensor | None:
        """The cross entropy in pieces; None if it needs all logits."""
        rows = self._hidden.shape[:-1]
        usual = weight is None and size_average is None and reduce is None and reduction in ("mean", "sum")
        if (
            not usual
            or self._hidden.numel() == 0
            or not isinstance(target, Tensor)
            or target.dtype != torch.int64
            or target.shape != rows
        ):
            return None
        if (len(rows) != 1) != self._behind or _casts(self._hidden):
            return None
        self._check()
        head: Any = self._origin.head.module
        hidden, target = self._hidden.reshape(-1, self._hidden.shape[-1]), target.reshape(-1)
        how = _How(self._casts, {"ignore_index": ignore_index, "label_smoothing": label_smoothing}, reduction == "mean")
        with torch.set_grad_enabled(torch.is_grad_enabled() and self._origin.grad):
            loss: Tensor = _Loss.apply(hidden, head.weight, head.bias, target, how)  # type: ignore[no-untyped-call]
        return loss


def _without_autocast(tensor: Tensor) -> AbstractContextManager[Any]:
    return torch.autocast(tensor.device.type, enabled=False)


def _attributes(names: str) -> set[Any]:
    return {getattr(Tensor, name).__get__ for name in names.split()}


_OF_ALL = {  # what a tensor is, without its numbers
    *_attributes("shape dtype device layout ndim is_cuda is_sparse is_meta is_nested is_mkldnn is_quantized"),
    *_attributes("requires_grad"),
    *(Tensor.size, Tensor.dim, Tensor.numel, Tensor.is_floating_point, Tensor.is_complex, Tensor.untyped_storage),
    *(Tensor.get_device, Tensor.element_size, Tensor.nelement, Tensor.ndimension, Tensor.__len__),
}
_TURNED = {Tensor.transpose, torch.transpose, Tensor.permute, torch.permute, Tensor.swapaxes} | _attributes("mT")
_FOLLOWED = {  # views whose rows are rows, and casts
    *(Tensor.view, Tensor.reshape, torch.reshape, Tensor.flatten, torch.flatten, Tensor.contiguous, Tensor.squeeze),
    *(Tensor.float, Tensor.double, Tensor.bfloat16, Tensor.to, Tensor.type, Tensor.__getitem__),
} | _TURNED


class _How(NamedTuple):
    """What becomes of logits before the loss, what it is told, and whether it is a mean."""

    casts: Sequence[Cast]
    options: dict[str, Any]
    is_mean: bool

    def loss(self, logits: Tensor, target: Tensor) -> Tensor:
        """The sum of the losses of some rows."""
        for cast in self.casts:
            logits = cast(logits)
        return functional.cross_entropy(logits, target, reduction="sum", **self.options)


class _Gradients(NamedTuple):
    """Those of hidden states, weight and bias, for a sum of losses whose gradient is 1; None where none is needed."""

    hidden: Tensor | None
    weight: Tensor | None
    bias: Tensor | None


class _Loss(torch.autograd.Function):
    """The cross entropy of a linear layer, a few rows at a time."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, how: _How) -> Tensor:
        needed = ctx.needs_input_grad[:3]
        total, gradients = _computed(hidden, weight, bias, target, how, needed)
        count = (target != how.options["ignore_index"]).sum() if how.is_mean else None
        if any(needed):
            ctx.save_for_backward(hidden, weight, bias, target)
            ctx.how, ctx.needed, ctx.count, ctx.gradients = how, needed, count, gradients
        return total if count is None else total / count

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, given: Tensor) -> Any:
        gradients, ctx.gradients = ctx.gradients, None
        if gradients is None:  # a second backward pass: the first one has given them away
            hidden, weight, bias, target = ctx.saved_tensors
            gradients = _computed(hidden, weight, bias, target, ctx.how, ctx.needed)[1]
        if ctx.count is not None:
            given = torch.where(ctx.count > 0, given / ctx.count, torch.zeros_like(given))
        return (*(None if one is None else one.mul_(given.to(one.dtype)) for one in gradients), None, None)


def _computed(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, how: _How, needed: Sequence[bool]
) -> tuple[Tensor, _Gradients]:
    """The sum of the losses, and its gradients."""
    made = [
        torch.empty_like(hidden) if needed[0] else None,
        torch.zeros_like(weight) if needed[1] else None,
        torch.zeros_like(bias) if needed[2] and bias is not None else None,
    ]
    found = _Gradients(*made)
    total = None
    for begin, end in _pieces(hidden, weight):
        rows, of_rows = hidden[begin:end], target[begin:end]
        with torch.no_grad():
            logits = functional.linear(rows, weight, bias)
        if any(needed):
            with torch.enable_grad():
                loss = how.loss(logits.requires_grad_(), of_rows)
            (gradient,) = torch.autograd.grad(loss, logits)
            del logits
            _add(found, gradient, rows, weight, begin, end)
            del gradient
        else:
            loss = how.loss(logits, of_rows)
        total = loss.detach() if total is None else total + loss.detach()
    assert total is not None
    return total, found


def _add(found: _Gradients, gradient: Tensor, rows: Tensor, weight: Tensor, begin: int, end: int) -> None:
    """Add what some rows make of the gradient of their logits."""
    if found.hidden is not None:
        torch.mm(gradient, weight, out=found.hidden[begin:end])
    if found.weight is not None:
        found.weight.addmm_(gradient.t(), rows)
    if found.bias is not None:
        found.bias.add_(gradient.sum(0))


def _pieces(hidden: Tensor, weight: Tensor) -> Iterator[tuple[int, int]]:
    """Rows [begin, end) of pieces: the logits of one are a quarter of the weight, so that products stay fast."""
    rows = max(_LEAST, weight.shape[1] // 4)
    for begin in range(0, hidden.shape[0], rows):
        yield begin, min(begin + rows, hidden.shape[0])
