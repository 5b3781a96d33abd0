"""Modules in pieces: their rows are independent, so they compute a few at a time, forward and backward.

Backward computes a piece again, and then its gradients. So what lies between the arguments and the results of a module
is never whole. Random numbers are: all rows get those that they get in the whole (`row_draws.py`).
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..private import pytree
from ..reading.dry_run import DryRun
from .choosing import Way
from .reads import ChangedError
from .replaced_forward import Wrapped, replaced_forward
from .rerunning import Rerun
from .row_checks import Checked, shapes_of
from .row_draws import Draws, OfRows, Part
from .rows import Apart
from .sweeps import has_no_data

PIECES = 8


def in_pieces(model: torch.nn.Module, apart: Mapping[str, Apart]) -> Way:
    """Modules compute a few rows at a time; ``apart`` says where the rows of each lie."""
    state = torch.get_rng_state().nbytes  # kept by each piece, and for what they draw

    def make(name: str, module: Any, forward: Any, within: Any) -> Wrapped:
        return _InPieces(name, module, forward, within, apart[name])

    def refused(found: DryRun) -> set[str]:
        return {call.module for call in found.calls} - apart.keys() | found.not_again.keys()

    beside = state * (PIECES + 2)
    return Way(True, lambda names: replaced_forward(model, names, make), refused, beside, pieces=PIECES)


class _InPieces(Wrapped):
    """The forward of a module, which runs on a few rows at a time."""

    def __init__(self, name: str, module: torch.nn.Module, forward: Any, model: torch.nn.Module, apart: Apart) -> None:
        super().__init__(name, module, forward, model)
        self._apart = apart

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, nest = pytree.tree_flatten((args, kwargs))
        parts = [] if torch.compiler.is_compiling() else self._parts(leaves)
        if not parts:
            return self.forward(*args, **kwargs)
        draws = Draws(self.name, self._apart.draws, len(parts)) if self._apart.draws else None
        shapes = shapes_of([leaf for leaf in leaves if isinstance(leaf, Tensor)])
        results = []
        for part, given in zip(parts, zip(*self._split(leaves, parts), strict=True), strict=True):
            some, keywords = pytree.tree_unflatten(given, nest)
            piece = copy.copy(self)
            piece.forward = partial(self._run, draws, part, shapes)
            if torch.is_grad_enabled():
                results.append(Rerun(piece, some, keywords).first(some, keywords))
            else:
                results.append(piece.forward(*some, **keywords))
        return self._joined(results, parts)

    def _parts(self, leaves: Sequence[Any]) -> list[Part]:
        """The rows of each piece; none if these are not arguments as those that were noted."""
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        if len(tensors) != len(self._apart.given):
            return []
        having = [(one, axes) for one, axes in zip(tensors, self._apart.given, strict=True) if axes is not None]
        x, axes = having[0]
        if any(one.dim() <= axes[1] or one.shape[: axes[1] + 1] != x.shape[: axes[1] + 1] for one, _ in having):
            return []
        axis = max(range(axes[0], axes[1] + 1), key=lambda axis: x.shape[axis])
        rows = x.shape[axis]
        size = -(-rows // PIECES)
        begins = range(0, rows, size) if size else ()
        return [Part(begin, min(size, rows - begin), rows, axis) for begin in begins]

    def _split(self, leaves: Sequence[Any], parts: Sequence[Part]) -> list[Sequence[Any]]:
        """For each argument what the pieces get: some of its rows, or all of it."""
        given, split = iter(self._apart.given), dict[int, Sequence[Any]]()
        for leaf in leaves:
            if isinstance(leaf, Tensor) and next(given) is not None and id(leaf) not in split:
                split[id(leaf)] = torch.split(leaf, parts[0].size, parts[0].axis)  # once: who is given it twice may ask
        return [split.get(id(leaf), [leaf] * len(parts)) for leaf in leaves]

    def _run(self, draws: Draws | None, part: Part, shapes: Any, *args: Any, **kwargs: Any) -> Any:
        """Forward on some rows. A step without data looks whether it does what the whole does."""
        if part.axis > 0:  # what has gaps may call other operators
            args, kwargs = pytree.tree_map_only(Tensor, Tensor.contiguous, (args, kwargs))
        with ExitStack() as stack:
            if draws is not None:
                stack.callback(draws.ended)
                stack.enter_context(OfRows(draws, part))
            if not has_no_data():
                return self.forward(*args, **kwargs)
            made = self._apart.ran.get(shapes)
            if made is not None:
                stack.enter_context(Checked(self.name, made, part))
            try:
                return self.forward(*args, **kwargs)
            except ChangedError:
                raise
            except (RuntimeError, TypeError, ValueError, IndexError) as error:
                raise ChangedError(
                    self.name, f"module '{self.name}' cannot run on some of its rows: {error}"
                ) from error

    def _joined(self, results: Sequence[Any], parts: Sequence[Part]) -> Any:
        """Results of all rows."""
        flat, axis = [pytree.tree_flatten(result) for result in results], parts[0].axis
        joined: list[Any] = []
        for same in zip(*(leaves for leaves, _ in flat), strict=True):
            if not isinstance(same[0], Tensor):
                joined.append(same[0])
                continue
            if [one.shape[axis] for one in same] != [part.size for part in parts]:
                problem = "returned other rows for a piece than it was given"
                raise ChangedError(self.name, f"module '{self.name}' {problem}")
            joined.append(torch.cat(same, axis))
        return pytree.tree_unflatten(joined, flat[0][1])
