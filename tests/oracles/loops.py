"""Checks loops of ops by poison: change a row of an input, run the op, and see which rows of its outputs change.

Written apart: nothing here imports memplan. A loop is a dict as in a graph dict. `run` takes arrays by name and gives
arrays by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

Arrays = Mapping[str, Any]
Run = Callable[[Arrays], Arrays]
LEAST, MOST = 2, 100  # attempts with a row
Poison = Callable[[str, Any, int], Any]  # name, array, how often before: other values for its elements


def check_loop(loop: Mapping[str, Any], inputs: Arrays, run: Run, poison: Poison, idle: int = 0) -> None:
    """AssertionError if a row that the loop does not name changes its output, or one that it names changes nothing.

    A window of several rows may lie on rows that it does not read: its first and last row have to matter. If rows may
    be `idle`, so many at each end, one more matters in some iteration.
    """
    whole = run(inputs)
    assert set(whole) == {*loop["writes"], *loop.get("sums", ()), *loop.get("early", ())}
    if loop["writes"]:
        covered(loop, whole)
        for name in loop["reads"]:
            if name in inputs:
                check_rows(loop, name, inputs, whole, run, poison, idle)
    if loop.get("sums"):
        check_sums(loop, inputs, whole, run)


def covered(loop: Mapping[str, Any], whole: Arrays) -> None:
    for name, (axis, step) in loop["writes"].items():
        rows = by_rows(whole[name], axis).shape[1]
        assert 0 <= loop["extent"] * step - rows < step, f"{loop['extent']} steps of {step} do not make {rows} rows"


def check_rows(
    loop: Mapping[str, Any], name: str, inputs: Arrays, whole: Arrays, run: Run, poison: Poison, idle: int
) -> None:
    axis, *numbers = loop["reads"][name]
    rows = by_rows(inputs[name], axis).shape[1]
    windows = [window(numbers, i) for i in range(loop["extent"])]
    changes = [set[int]() for _ in range(rows)]  # the iterations whose output a row changes
    for attempt in range(MOST):
        if attempt >= LEAST:  # rows that matter for other inputs alone
            inputs = {other: poison(other, inputs[other], attempt).astype(inputs[other].dtype) for other in inputs}
            whole = run(inputs)
        for row in range(rows):
            changed = set(changed_by(loop, name, row, inputs, whole, run, poison, attempt))
            named = {i for i, (first, end) in enumerate(windows) if first <= row < end}
            assert changed <= named, f"row {row} of {name} changes iterations {sorted(changed - named)} of {loop}"
            changes[row] |= changed
        if attempt + 1 >= LEAST and matter(changes, windows, idle):
            return
    raise AssertionError(f"the first or the last row that is read of {name} changes nothing: {loop}")


def matter(changes: list[set[int]], windows: list[tuple[int, int]], idle: int) -> bool:
    """Whether the ends of windows that lie inside change what they should."""
    inside = [(i, first, end) for i, (first, end) in enumerate(windows) if first >= 0 and end <= len(changes)]
    enough, near = any if idle else all, idle + 1
    first_ones = enough(any(i in changes[row] for row in range(a, min(a + near, b))) for i, a, b in inside)
    last_ones = enough(any(i in changes[row] for row in range(max(a, b - near), b)) for i, a, b in inside)
    return not inside or (first_ones and last_ones)


def changed_by(
    loop: Mapping[str, Any], name: str, row: int, inputs: Arrays, whole: Arrays, run: Run, poison: Poison, attempt: int
) -> Iterator[int]:
    """The iterations whose outputs change with a row of an input."""
    array = np.array(inputs[name])
    other = by_rows(np.array(poison(name, array, attempt + MOST)).astype(array.dtype), loop["reads"][name][0])
    by_rows(array, loop["reads"][name][0])[:, row] = other[:, row]
    found = run({**inputs, name: array})
    for output, (axis, step) in loop["writes"].items():
        before, after = by_rows(whole[output], axis), by_rows(found[output], axis)
        same = (before == after) | ((before != before) & (after != after))
        yield from (int(r) // step for r in np.flatnonzero(~same.all(axis=(0, 2))))


def check_sums(loop: Mapping[str, Any], inputs: Arrays, whole: Arrays, run: Run) -> None:
    """Iterations add: what each adds to that of no row, taken together, is the whole."""
    none = run(kept(loop, inputs, None))
    parts = [run(kept(loop, inputs, i)) for i in range(loop["extent"])]
    for name in loop["sums"]:
        base = np.asarray(none[name], np.float64)
        total = base + sum(np.asarray(part[name], np.float64) - base for part in parts)
        np.testing.assert_allclose(total, np.asarray(whole[name], np.float64), rtol=1e-4, atol=1e-4)
        assert any((np.asarray(part[name]) != none[name]).any() for part in parts)


def kept(loop: Mapping[str, Any], inputs: Arrays, iteration: int | None) -> dict[str, Any]:
    """Inputs that are zero in all rows but those of an iteration."""
    found = dict(inputs)
    for name, (axis, *numbers) in loop["reads"].items():
        array = np.zeros_like(inputs[name])
        if iteration is not None:
            first, end = window(numbers, iteration)
            by_rows(array, axis)[:, max(first, 0) : end] = by_rows(inputs[name], axis)[:, max(first, 0) : end]
        found[name] = array
    return found


def window(numbers: list[Any], iteration: int) -> tuple[int, int]:
    """Rows [first, end) that an iteration reads."""
    step, wide, before = map(Fraction, numbers)
    first = iteration * step - before
    return math.floor(first), math.ceil(first + wide)


def by_rows(array: Any, axis: Any) -> Any:
    """A view of three axes, the rows in the middle; `axis` is one, or the first and the last of several."""
    first, last = axis if isinstance(axis, (list, tuple)) else (axis, axis)
    shape = array.shape
    assert array.flags.c_contiguous
    return array.reshape(math.prod(shape[:first]), math.prod(shape[first : last + 1]), math.prod(shape[last + 1 :]))
