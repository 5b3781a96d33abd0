"""Tensors that are not computed yet: logits of a linear layer, what is made of their rows, and sums over all rows.

Functions that work by rows are noted (`row_functions.py`). When something reads a total, or a few numbers of each row,
they are computed a few rows at a time (`sweeps.py`). Whatever else reads logits gets them whole, as the layer would
have returned them. Then all that was made of them is computed as in eager torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any
from weakref import ref

import torch
from torch import Tensor

from ...errors import UnsupportedError
from ..private import DisableTorchFunctionSubclass, make_wrapper_subclass, pytree, version_of
from .row_functions import followed
from .row_values import Given, Scores, Value, scores_of, versions_of
from .row_views import Rows
from .sweeps import Total, computed, costs_again


class Waiting(Tensor):
    """What is not computed yet: rows of a value, or a total."""

    _what: Rows | Total
    _scores: Sequence[Scores]
    _whole: Tensor | None
    _made_by: tuple[Callable[..., Any], Any, Any, bool] | None  # as in eager torch, and whether autograd is on
    _read: Sequence[tuple[Tensor, int]]  # tensors that it is computed of, and their versions

    @classmethod
    def of_head(cls, head: Any, hidden: Tensor) -> Waiting:
        """The logits of a linear layer, a `Wrapped` one, for hidden states (*lead, width)."""
        tensors = (hidden, *head.module.parameters())
        trained = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
        scores = Scores(head, Given(hidden.reshape(-1, hidden.shape[-1])), trained)
        return cls._made(Rows(scores, hidden.shape[:-1]), head.forward, (hidden,), {})

    @classmethod
    def _made(cls, what: Rows | Total, func: Callable[..., Any], args: Any, kwargs: Any) -> Waiting:
        values = _values_of(what)
        trained = any(value.trained for value in values)
        scores = scores_of(values)
        shape = () if isinstance(what, Total) else what.shape()
        dtype = what.dtype if isinstance(what, Total) else what.value.dtype
        device = scores[0].weight.device
        made: Any = make_wrapper_subclass(cls, shape, dtype=dtype, device=device, requires_grad=trained)
        made._what, made._scores, made._whole = what, scores, None
        made._made_by = func, args, kwargs, torch.is_grad_enabled()
        made._read = [pair for value in values for pair in versions_of(value)]
        waits = ref(made)
        for one in scores:
            one.waiting.append(waits)
        if trained:

            def relay(gradient: Tensor) -> None:
                """Give a gradient on, if autograd has taken the tensor as it is."""
                if (tensor := waits()) is not None:
                    torch.autograd.backward(tensor.whole(), gradient)

            with DisableTorchFunctionSubclass():
                made.register_hook(relay)
        return made  # type: ignore[no-any-return]

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in _OF_ALL:
            with DisableTorchFunctionSubclass():
                return func(*args, **kwargs)
        first = next(leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, Waiting))
        if not torch.is_autocast_enabled(first._scores[0].weight.device.type):  # under which functions would cast
            known = pytree.tree_map_only(Waiting, Waiting._known, (args, kwargs))
            made = followed(func, *known)
            if isinstance(made, (Rows, Total)):
                return Waiting._made(made, func, args, kwargs)._unless_plain()
            if made is not None:
                each = [Waiting._made(one, _Part(func, k), args, kwargs) for k, one in enumerate(made)]
                return type(made)([one._unless_plain() for one in each])
        args, kwargs = pytree.tree_map_only(Waiting, Waiting.whole, (args, kwargs))
        return func(*args, **kwargs)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        raise UnsupportedError(f"{func} reads logits that are not computed yet; leave 'split' out of allow")

    def whole(self) -> Tensor:
        """Its numbers."""
        if self._whole is None:
            self._check()
            if self._is_wide():
                self._as_in_eager()
            else:
                self._by_pieces()
        assert self._whole is not None
        return _Numbers.apply(self) if self._is_returned() else self._whole  # type: ignore[no-untyped-call]

    def _known(self) -> Any:
        """What it is for functions that may follow."""
        self._check()
        return self._what if self._whole is None and not self._is_returned() else self.whole()

    def _is_returned(self) -> bool:
        """Whether a function of autograd has returned it, and given it a history."""
        with DisableTorchFunctionSubclass():
            return self.grad_fn is not None

    def _unless_plain(self) -> Tensor:
        """Its numbers at once, if they are few and have no gradients: it may be read when weights have changed."""
        return self if self.requires_grad or self._is_wide() else self.whole()

    def _is_wide(self) -> bool:
        return isinstance(self._what, Rows) and self._what.value.is_wide()

    def _check(self) -> None:
        """UnsupportedError: what it is made of is not as it was."""
        for tensor, version in self._read:
            if version_of(tensor) != version:
                head = self._scores[0].head
                what = f"the logits of module '{head.name}' are read after {head.named(tensor)} was written to"
                raise UnsupportedError(f"memplan.torch.fit(): {what}: read them before, or leave 'split' out of allow")

    def _as_in_eager(self) -> None:
        """Compute it as eager torch does, with all that is made of the same logits."""
        assert self._made_by is not None
        func, args, kwargs, grad = self._made_by
        args, kwargs = pytree.tree_map_only(Waiting, Waiting.whole, (args, kwargs))
        if self._whole is not None:
            return
        with torch.set_grad_enabled(grad), torch.autocast(self._scores[0].weight.device.type, enabled=False):
            self._has(func(*args, **kwargs))
        if isinstance(self._what, Rows) and isinstance(self._what.value, Scores):
            self._scores[0].head.note_whole()
        for other in self._others():
            other._as_in_eager()

    def _by_pieces(self) -> None:
        """Compute it a few rows at a time, with other totals and rows of few numbers of the same logits."""
        trained = bool(self.requires_grad)
        together = [self]
        if trained:
            mine = {*self._scores}
            others = (other for other in self._others() if other.requires_grad and not other._is_wide())
            together += [one for one in others if mine.issuperset(one._scores) and one._is_as_it_was()]
        with torch.set_grad_enabled(trained):
            found = computed([one._what if isinstance(one._what, Total) else one._what.value for one in together])
            for one, numbers in zip(together, found, strict=True):
                one._has(numbers.reshape(one.shape))
        if trained and not isinstance(self._what, Total):
            for score in self._scores:
                score.head.note_again(costs_again(score))

    def _is_as_it_was(self) -> bool:
        return all(version_of(tensor) == version for tensor, version in self._read)

    def _others(self) -> Iterator[Waiting]:
        """What else is made of the same logits, and is not computed, in the order in which it was made."""
        waiting = {id(waits): waits for one in self._scores for waits in one.waiting}
        for waits in waiting.values():
            if (one := waits()) is not None and one is not self and one._whole is None:
                yield one

    def _has(self, numbers: Tensor) -> None:
        self._whole, self._made_by, self._read = numbers, None, ()


def _values_of(what: Rows | Total) -> list[Value]:
    return [value for value, _ in what.parts] if isinstance(what, Total) else [what.value]


class _Numbers(torch.autograd.Function):
    """The numbers of what waits, with its history."""

    @staticmethod
    def forward(ctx: Any, waiting: Waiting) -> Tensor:
        assert waiting._whole is not None
        return waiting._whole.detach()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient


class _Part:
    """A function that returns one of the results of another."""

    def __init__(self, func: Callable[..., Any], place: int) -> None:
        self._func, self._place = func, place

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._func(*args, **kwargs)[self._place]


def _attributes(names: str) -> set[Any]:
    return {getattr(Tensor, name).__get__ for name in names.split()}


_OF_ALL = {  # what a tensor is, without its numbers
    *_attributes("shape dtype device layout ndim is_cuda is_sparse is_meta is_nested is_mkldnn is_quantized"),
    *_attributes("requires_grad"),
    *(Tensor.size, Tensor.dim, Tensor.numel, Tensor.is_floating_point, Tensor.is_complex, Tensor.untyped_storage),
    *(Tensor.get_device, Tensor.element_size, Tensor.nelement, Tensor.ndimension, Tensor.__len__),
}
