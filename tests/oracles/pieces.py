"""Calls in pieces beside whole ones: random parts of a loop, put together, are what the whole call gives."""

from __future__ import annotations

import itertools
import random
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from memplan.torch.reading.loops import Loop, loops_of
from memplan.torch.running.pieces.calls import Part, Piece, rows_read, rows_written
from memplan.torch.running.pieces.statistics import STATISTICS
from memplan.torch.running.pieces.table import early_of, name_of, part_of
from oracles.poison import Case


class Given(NamedTuple):
    """A tensor of a call."""

    number: int
    tensor: Tensor

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(self.tensor.shape)

    @property
    def dtype(self) -> torch.dtype:
        return self.tensor.dtype

    def __hash__(self) -> int:
        return self.number

    def __eq__(self, other: object) -> bool:
        return self is other


def compare(case: Case, chance: random.Random, most: int = 4) -> tuple[int, list[str]]:
    """How many loops of a call were run in pieces, and those that cannot be; AssertionError for a difference."""
    whole = case.func(*case.args, **case.kwargs)
    loops = loops_of(case.func, case.args, case.kwargs, whole)
    refused, ran = [], 0
    for loop in chance.sample(loops, min(most, len(loops))):
        inner = chance.sample(range(1, loop.extent), min(loop.extent - 1, chance.randint(1, 3)))
        found = in_pieces(case, whole, loop, sorted({0, loop.extent, *inner}))
        if found is None:
            refused.append(f"{case.func}: {loop.writes[0][1] if loop.writes else 'sums'}")
            continue
        ran += 1
        for made, expected in found:
            torch.testing.assert_close(made, expected, rtol=1e-9, atol=1e-9, equal_nan=True)
    return ran, refused


def in_pieces(case: Case, whole: Any, loop: Loop, cuts: list[int]) -> list[tuple[Tensor, Tensor]] | None:
    """What pieces make, beside what the whole call makes; None if one cannot be made."""
    leaves, form = pytree.tree_flatten((tuple(case.args), dict(case.kwargs)))
    held = [Given(k, leaf) if isinstance(leaf, Tensor) else leaf for k, leaf in enumerate(leaves)]
    tensors = [leaf for leaf in held if isinstance(leaf, Given)]
    args, kwargs = pytree.tree_unflatten(held, form)
    results = [r if isinstance(r, Tensor) else None for r in (whole if isinstance(whole, (tuple, list)) else [whole])]
    made = [None if r is None else torch.full_like(r, -7) for r in results]
    leaves_made = [None if r is None else Given(1000 + k, r) for k, r in enumerate(results)]
    early = {id(t): None for t, _ in loop.early}
    sums = {id(t): 0 for t in loop.sums}
    written = {id(t): w for t, w in loop.writes}
    call = Part(case.func, args, kwargs)

    def read_by(a: int, b: int) -> dict[Given, Any]:
        return {
            leaf: rows_read(rows.axes, rows[1:], (a, b), leaf.sizes)
            for leaf, (_, rows) in zip(tensors, loop.inputs, strict=True)
            if rows is not None
        }

    known = None
    for a, b in itertools.pairwise(cuts) if loop.statistics else ():
        rule, reads = STATISTICS[name_of(case.func)], read_by(a, b)
        piece = Piece(call, reads, leaves_made, (), (a, b), loop.extent, (), known)
        numbers = _run(rule.of(piece), reads)
        assert list(numbers.shape) == rule.shape(piece)
        assert numbers.nbytes == loop.statistics.nbytes
        known = Given(3000, numbers)
    firsts: list[Any] = []
    for place, result in enumerate(results):
        if result is not None and id(result) in early:
            first = early_of(Piece(call, {}, leaves_made, [None] * len(results), (0, 0), loop.extent, (), known), place)
            if first is not None:
                firsts.append(Given(2000 + place, _run(first, {})))
                made[place] = firsts[-1].tensor
    for a, b in itertools.pairwise(cuts) if loop.writes or loop.sums else ():
        reads = read_by(a, b)
        writes = [
            rows_written(written[id(r)].axes, written[id(r)].step, (a, b), r.shape)
            if r is not None and id(r) in written
            else None
            for r in results
        ]
        part = part_of(Piece(call, reads, leaves_made, writes, (a, b), loop.extent, firsts, known))
        if part is None:
            return None
        found = _run(part, reads)
        parts = list(found) if isinstance(found, (tuple, list)) else [found]
        for k, (result, rows) in enumerate(zip(results, writes, strict=True)):
            if result is None or id(result) in early:
                continue
            if rows is not None:
                assert list(parts[k].shape) == rows.sizes(result.shape), (parts[k].shape, rows)
                shown(made[k], rows).copy_(parts[k])
            else:
                assert id(result) in sums
                made[k] = parts[k].clone() if a == 0 else made[k] + parts[k]
    assert [list(t.shape) for t in (whole if isinstance(whole, (tuple, list)) else [whole]) if isinstance(t, Tensor)]
    empty = name_of(case.func).startswith(("empty", "new_empty"))
    return [] if empty else [(m, r) for m, r in zip(made, results, strict=True) if r is not None and r.numel()]


def _run(part: Part, reads: Any) -> Any:
    def tensor(leaf: Any) -> Any:
        if not isinstance(leaf, Given):
            return leaf
        return shown(leaf.tensor, reads[leaf]) if leaf in reads else leaf.tensor

    is_leaf = lambda value: isinstance(value, Given)  # noqa: E731
    args, kwargs = pytree.tree_map(tensor, (part.args, dict(part.kwargs)), is_leaf=is_leaf)
    return part.func(*args, **kwargs)


def shown(tensor: Tensor, rows: Any) -> Tensor:
    """Rows of a tensor, in its memory."""
    offset = tensor.storage_offset() + rows.begin * tensor.stride(rows.axis)
    return tensor.as_strided(rows.sizes(tensor.shape), tensor.stride(), offset if rows.size else 0)
