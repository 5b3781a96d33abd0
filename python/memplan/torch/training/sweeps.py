"""Values of rows computed a few rows at a time, with their gradients: what lies between is never whole.

The gradients of a total are computed with it, in forward, for a gradient of 1. Backward multiplies these by the
gradient that it is given. All other values are computed once more in backward, with the gradients of each piece.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .row_gradients import Gradients
from .row_program import Program
from .row_values import Scores, Value, unhooked

_SKIPS = ContextVar("_SKIPS", default=False)


class Total(NamedTuple):
    """Sums over all rows of some values, each times a factor, and `plus`: numbers, or tensors of one number."""

    parts: Sequence[tuple[Value, Any]]
    dtype: torch.dtype
    plus: Any = 0.0


def computed(wanted: Sequence[Value | Total]) -> list[Tensor]:
    """Values, (rows, *trail), and totals, (). If the first is a total, its gradients are computed with it."""
    lists = [[*one.parts] if isinstance(one, Total) else [(one, None)] for one in wanted]
    program = Program([value for parts in lists for value, _ in parts])
    places = iter(program.places)
    sums = [
        _Wanted(
            [(next(places), factor) for _, factor in parts],
            one.dtype if isinstance(one, Total) else None,
            one.plus if isinstance(one, Total) else None,
            any(value.trained for value, _ in parts),
        )
        for one, parts in zip(wanted, lists, strict=True)
    ]
    given, program.given = program.given, []
    found: Sequence[Tensor] = _Computed.apply(program, sums, *given)  # type: ignore[no-untyped-call]
    return list(found)


def costs_again(scores: Scores) -> float:
    """Floating-point operations to compute logits again."""
    return 2.0 * len(scores.hidden.tensor) * scores.weight.numel() if scores.trained else 0.0


@contextmanager
def few_pieces() -> Iterator[None]:
    """Meanwhile, two pieces and the last are computed, which hold as much as all: for steps without data."""
    token = _SKIPS.set(True)
    try:
        yield
    finally:
        _SKIPS.reset(token)


def has_no_data() -> bool:
    """Whether a step without data runs, whose numbers nobody needs."""
    return _SKIPS.get()


class _Wanted(NamedTuple):
    """Places of values that are summed, each with a factor, and the dtype and a number to add; or one value's place."""

    parts: Sequence[tuple[int, Any]]
    dtype: torch.dtype | None
    plus: Any
    trained: bool


class _Computed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, program: Program, wanted: Sequence[_Wanted], *given: Tensor) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        needed = ctx.needs_input_grad[2:]
        first: list[Any] | None = None
        if any(needed) and wanted[0].dtype is not None:
            first = [1.0, *[None] * (len(wanted) - 1)]
        made, found = _run(program, wanted, given, needed, first)
        ctx.gradients = found if first is not None else None
        ctx.program, ctx.wanted = program, wanted
        ctx.save_for_backward(*given)
        ctx.mark_non_differentiable(*(one for one, how in zip(made, wanted, strict=True) if not how.trained))
        return tuple(made)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *tangents: Tensor | None) -> Any:
        gradients, ctx.gradients = ctx.gradients, None
        first, *others = tangents
        if gradients is None or first is None or any(other is not None for other in others):
            needed = ctx.needs_input_grad[2:]
            return (None, None, *_run(ctx.program, ctx.wanted, ctx.saved_tensors, needed, tangents)[1])
        return (None, None, *(None if one is None else one.mul_(first.to(one.dtype)) for one in gradients))


def _run(
    program: Program,
    wanted: Sequence[_Wanted],
    given: Sequence[Tensor],
    needed: Sequence[bool],
    tangents: Sequence[Any] | None,
) -> tuple[list[Tensor], list[Tensor | None]]:
    """What is wanted, and gradients of what is given, for these of what is wanted."""
    gradients = None if tangents is None else Gradients(given, needed, program.apart)
    sums = [_Sum(one, program.rows) for one in wanted]
    with torch.autocast(given[0].device.type, enabled=False), unhooked():
        begins = range(0, program.rows, program.piece)
        for begin in [*begins[:2], *begins[2:][-1:]] if has_no_data() else begins:
            end = min(begin + program.piece, program.rows)
            values = program.values(given, begin, end, gradients)
            for one in sums:
                one.add(values, begin, end)
            if gradients is not None and tangents is not None:
                pairs = zip(wanted, tangents, strict=True)
                roots = [root for one, t in pairs if t is not None for root in _roots(one, values, t, begin, end)]
                values.clear()
                gradients.add(roots, begin, end)
    return [one.result() for one in sums], [] if gradients is None else gradients.all()


def _roots(
    wanted: _Wanted, values: Mapping[int, Tensor], tangent: Any, begin: int, end: int
) -> list[tuple[Tensor, Tensor]]:
    """Values of some rows, and their gradients for that of what is wanted."""
    if wanted.dtype is None:
        [(place, _)] = wanted.parts
        return [(values[place], tangent[begin:end])]
    roots = []
    for place, factor in wanted.parts:
        value = values[place]
        weight = torch.as_tensor(factor, dtype=_wide(value.dtype), device=value.device)
        weight = weight.where(weight.isfinite(), 0)  # of a mean over nothing
        roots.append((value, (weight * tangent).to(value.dtype).expand_as(value)))
    return roots


class _Sum:
    """What is wanted, as far as it is computed."""

    def __init__(self, wanted: _Wanted, rows: int) -> None:
        self._wanted, self._rows = wanted, rows
        self._made: Tensor | None = None
        self._sums: list[Any] = [0.0] * len(wanted.parts)

    def add(self, values: Mapping[int, Tensor], begin: int, end: int) -> None:
        """Take the values of some rows."""
        for k, (place, _) in enumerate(self._wanted.parts):
            value = values[place].detach()
            if self._wanted.dtype is not None:
                self._sums[k] = self._sums[k] + value.sum(dtype=_wide(value.dtype))
                continue
            if self._made is None:
                self._made = value.new_empty(self._rows, *value.shape[1:])
            self._made[begin:end] = value

    def result(self) -> Tensor:
        """What is wanted."""
        if self._wanted.dtype is None:
            assert self._made is not None
            return self._made
        total = self._wanted.plus
        for (_, factor), one in zip(self._wanted.parts, self._sums, strict=True):
            total = total + one * factor
        return total.to(self._wanted.dtype)  # type: ignore[no-any-return]


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32
