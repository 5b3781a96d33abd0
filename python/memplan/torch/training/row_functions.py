"""What functions make of rows that are not computed yet: views, what works by rows, losses of classes, and sums."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from ..private import FakeTensor, pytree
from . import row_losses
from .row_values import Given, Made, Value, made_by_rows
from .row_views import Rows, turned_rows, viewed
from .sweeps import Total, has_no_data
from .totals import exact, of_totals

_NO_CLASS = torch.iinfo(torch.int64).min
_REDUCTIONS = ("mean", "sum", "batchmean")
_SUMS = {Tensor.sum, torch.sum, Tensor.mean, torch.mean}
_LOG_SOFTMAX = {Tensor.log_softmax, torch.log_softmax, functional.log_softmax}
_LOGSUMEXP = {Tensor.logsumexp, torch.logsumexp}
_GATHER = {Tensor.gather, torch.gather}


def followed(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """What a function makes of `Rows` and `Total` among its arguments, as these; None if it needs their numbers."""
    name = getattr(func, "__name__", "")
    if kwargs.get("out") is not None or (name.endswith("_") and not name.endswith("__")) or name in _NOT:
        return None  # it writes, or does something else
    leaves = pytree.tree_leaves((args, kwargs), is_leaf=_is_waiting)
    if any(isinstance(leaf, Total) for leaf in leaves):
        return of_totals(func, args, kwargs)
    waiting = [leaf for leaf in leaves if isinstance(leaf, Rows)]
    if not waiting:
        return None
    first = args[0] if args and isinstance(args[0], Rows) else None
    if first is not None:
        if func in _SUMS and (total := _summed(func, first, args[1:], kwargs)) is not None:
            return total
        if len(waiting) == 1 and (view := viewed(func, args[1:], kwargs, first)) is not None:
            return view
    if "reduction" in _parameters(func):
        return _loss(func, args, kwargs)
    if any(rows.behind or rows.lead != waiting[0].lead for rows in waiting):
        return None
    lead = waiting[0].lead
    if first is not None and len(waiting) == 1 and (found := _of_classes(func, args, kwargs, first)) is not None:
        return found
    given, named = pytree.tree_map(_value, (tuple(args), kwargs), is_leaf=_is_waiting)
    made = made_by_rows(func, given, named, lead)
    if isinstance(made, Value):
        return Rows(made, lead)
    return None if made is None else type(made)([Rows(one, lead) for one in made])


_NOT = {
    "backward",
    "register_hook",
    "retain_grad",
    "numpy",
    "tolist",
    "item",
    "__deepcopy__",
    "__reduce_ex__",
    "__set__",
}


def _is_waiting(leaf: Any) -> bool:
    return isinstance(leaf, (Rows, Total))


def _value(leaf: Any) -> Any:
    return leaf.value if isinstance(leaf, Rows) else leaf


@cache
def _parameters(func: Any) -> Mapping[str, inspect.Parameter]:
    """The parameters of a function of torch.nn.functional."""
    if getattr(func, "__module__", "") != functional.__name__:
        return {}
    return inspect.signature(func).parameters


def _summed(func: Any, rows: Rows, args: Sequence[Any], kwargs: dict[str, Any]) -> Total | None:
    """The sum or mean of all numbers of all rows."""
    size = rows.shape()
    if not rows.value.dtype.is_floating_point:
        return None
    how = dict(zip(("dim", "keepdim"), args, strict=False)) | kwargs
    axes = how.pop("dim", None)
    axes = range(len(size)) if axes is None or axes == () else [axes] if isinstance(axes, int) else axes
    if any(how.values()) or {axis % len(size) for axis in axes} != {*range(len(size))}:
        return None
    return _total(rows, 1.0 / size.numel() if func in (Tensor.mean, torch.mean) else 1.0)


def _total(rows: Rows, factor: Any) -> Total:
    return Total([(_sum_of_each(rows.value), factor)], rows.value.dtype)


def _sum_of_each(value: Value) -> Value:
    """The sum of the numbers of each row."""
    if not value.trail:
        return value
    return Made(_sum, (value,), {}, 1, _meta(value))


def _sum(value: Tensor) -> Tensor:
    return value.flatten(1).sum(1)


def _meta(value: Value) -> Tensor:
    """Stands for one number of each row."""
    return torch.empty(1, dtype=value.dtype, device="meta", requires_grad=value.trained)


def _loss(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A loss with a reduction, as the sum or mean of what it is without."""
    try:
        bound = inspect.signature(func).bind(*args, **kwargs)
    except TypeError:
        return None
    bound.apply_defaults()
    how = dict(bound.arguments)
    if how.pop("size_average", None) is not None or how.pop("reduce", None) is not None:
        return None
    reduction = how.pop("reduction")
    if func is functional.ctc_loss:
        return _ctc(reduction, **how)
    by_class = func in (functional.cross_entropy, functional.nll_loss)
    each = (_each_of_classes(func, **how) if by_class else None) or _by_rows(func, how)
    if reduction == "none" or each is None:
        return each
    if reduction not in _REDUCTIONS:
        return None
    factor: Any = 1.0
    if reduction == "mean":
        weight = _weight_of_targets(how) if by_class else each.shape().numel()
        factor = None if weight is None else 1.0 / exact(weight)
    if reduction == "batchmean":
        factor = 1.0 / how["input"].shape()[0]
    return None if factor is None else _total(each, factor)


def _by_rows(func: Any, how: dict[str, Any]) -> Rows | None:
    """A loss of each row, or of each number of rows."""
    waiting = [leaf for leaf in how.values() if isinstance(leaf, Rows)]
    if any(rows.behind or rows.lead != waiting[0].lead for rows in waiting):
        return None
    lead = waiting[0].lead
    made = made_by_rows(func, (), {name: _value(leaf) for name, leaf in how.items()} | {"reduction": "none"}, lead)
    return Rows(made, lead) if isinstance(made, Value) else None


def _ctc(
    reduction: str, log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, **how: Any
) -> Total | None:
    """The CTC loss of log-probabilities (length, sequences, classes): whole sequences are in a piece."""
    if reduction not in ("mean", "sum") or not isinstance(log_probs, Rows):
        return None
    if len(log_probs.lead) != 2 or len(log_probs.value.trail) != 1 or log_probs.behind:
        return None
    rows = turned_rows(log_probs)
    args = (rows.value, targets, input_lengths, target_lengths, how, reduction == "mean")
    made = Made(row_losses.ctc, args, {}, 1, _meta(rows.value))
    made.unit = rows.lead[1]
    return Total([(made, 1.0 / rows.lead[0] if reduction == "mean" else 1.0)], made.dtype)


def _weight_of_targets(how: dict[str, Any]) -> Any:
    """What the mean of a loss of classes is divided by."""
    target, weight = how["target"], how["weight"]
    size = target.shape() if isinstance(target, Rows) else target.shape
    if isinstance(target, Rows) or target.is_floating_point():
        return size.numel() // how["input"].value.trail[0] if weight is None or not weight.requires_grad else None
    counts = target != how["ignore_index"]
    if weight is None:
        return counts.sum()
    return None if weight.requires_grad else weight[target.where(counts, 0)].where(counts, 0).sum()


def _each_of_classes(
    func: Any, input: Any, target: Any, weight: Any, ignore_index: int, label_smoothing: float = 0.0
) -> Rows | None:
    """The loss of each target, where targets are numbers of classes."""
    if not isinstance(input, Rows) or not isinstance(target, Tensor):
        return None
    if weight is not None and (weight.requires_grad or label_smoothing):
        return None
    size = input.shape()
    if target.dtype != torch.int64 or len(input.value.trail) != 1 or target.shape != (size[0], *size[2:]):
        return None
    if len(input.lead) > 1 and not input.behind:
        return None  # classes are not the rows' numbers
    logits = input.value
    if func is functional.nll_loss:
        found = _under_log_softmax(logits)
        if found is None:
            return None
        logits = found
    target = target.reshape(-1)
    lost = _entropy(logits, target, ignore_index, label_smoothing)
    if weight is not None:
        weighs = Given(weight[target.where(target != ignore_index, 0)])
        lost = Made(torch.mul, (lost, weighs), {}, 1, _meta(lost))
    return Rows(lost, input.lead)


def _entropy(logits: Value, target: Tensor, ignored: int = -100, smoothing: float = 0.0) -> Value:
    args = (logits, Given(target), ignored, smoothing)
    return Made(row_losses.cross_entropy, args, {}, 1, _meta(logits))


def _of_classes(func: Any, args: Sequence[Any], kwargs: dict[str, Any], rows: Rows) -> Rows | None:
    """Sums of exponentials, and what one class of each row has: as losses of classes."""
    value, lasts = rows.value, (-1, len(rows.lead))
    if len(value.trail) != 1:
        return None
    given = dict(zip(("dim", "index"), args[1:], strict=False)) | kwargs
    if func in _LOGSUMEXP:
        if given.get("dim") in lasts and len(given) == 1:
            return Rows(Made(row_losses.logsumexp, (value,), {}, 1, _meta(value)), rows.lead)
        return None
    if func is Tensor.__getitem__:
        classes = _as_classes(args[1], rows)
        return None if classes is None else Rows(_chosen_of(value, classes), rows.lead)
    index = given.get("index")
    if func not in _GATHER or given.get("dim") not in lasts or len(given) != 2:
        return None
    if not isinstance(index, Tensor) or index.shape != (*rows.lead, 1):
        return None
    made = _chosen_of(value, index.reshape(-1))
    column = torch.empty(1, 1, dtype=made.dtype, device="meta", requires_grad=made.trained)
    return Rows(Made(torch.unsqueeze, (made, 1), {}, 1, column), rows.lead)


def _chosen_of(value: Value, classes: Tensor) -> Value:
    """What each row has at its class; if these are log-probabilities, nothing else of them is computed."""
    logits = _under_log_softmax(value)
    if logits is None:
        return Made(_chosen, (value, Given(classes)), {}, 1, _meta(value))
    loss = _entropy(logits, classes, _NO_CLASS)
    return Made(torch.neg, (loss,), {}, 1, _meta(loss))


def _under_log_softmax(value: Value) -> Value | None:
    """The logits of log-probabilities, in their dtype; None if the value is something else."""
    if not isinstance(value, Made) or value.func not in _LOG_SOFTMAX:
        return None
    axes = [*value.args[1:2], value.kwargs.get("dim")]
    if axes[0] not in (-1, value.rank):
        return None
    [logits] = value.sources()
    if logits.dtype == value.dtype:
        return logits
    like = torch.empty(1, *logits.trail, dtype=value.dtype, device="meta", requires_grad=value.trained)
    return Made(Tensor.to, (logits, value.dtype), {}, 1, like)


def _chosen(value: Tensor, index: Tensor) -> Tensor:
    return value.gather(1, index[:, None])[:, 0]


def _as_classes(index: Any, rows: Rows) -> Tensor | None:
    """The classes of `x[arange(n), classes]`; None if the index is another."""
    if not isinstance(index, tuple) or len(index) != 2 or len(rows.lead) != 1:
        return None
    if not all(isinstance(part, Tensor) and part.dtype == torch.int64 and part.shape == rows.lead for part in index):
        return None
    first, classes = index
    if not has_no_data() and (  # in which it is thought to be so
        isinstance(first, FakeTensor) or not torch.equal(first, torch.arange(len(first), device=first.device))
    ):
        return None
    return torch.where(classes < 0, classes + rows.value.trail[0], classes)
