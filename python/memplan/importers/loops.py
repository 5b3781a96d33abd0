"""Loops of ops, from names of loops along the axes of tensors.

A product of matrices is `y[m, n] += a[m, k] * b[k, n]`. So `a` has the axes `m, k`, and so on. A loop that `y` has
writes rows of it, and reads rows of those inputs that have it too; `m` reads `b` whole. A loop that `y` lacks, as `k`,
may add to it, if the op says so. An axis along which a loop goes in other steps than one row is a `Rows`. `None` is an
axis that each iteration reads or writes whole.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

Loop = dict[str, Any]
MOST = 2**31  # iterations of a loop, and each other of its numbers


class Rows(NamedTuple):
    """Iteration i reads rows from `i * step - before` on, a `window` of them; it writes `step` rows from `i * step`."""

    loop: str
    step: int | Fraction = 1
    window: int | Fraction = 1
    before: int | Fraction = 0


Axis = str | Rows | None


class Operand(NamedTuple):
    """A tensor that an op reads or writes, and the loop along each of its axes."""

    name: str
    shape: Sequence[int]
    axes: Sequence[Axis]


def loops(reads: Sequence[Operand], writes: Sequence[Operand], sums: Iterable[str] = ()) -> list[Loop]:
    """The loops of an op, each of two iterations or more: along one axis, along leading axes taken together, `sums`."""
    reads, writes = ([o._replace(axes=[*map(_plain, o.axes)]) for o in operands] for operands in (reads, writes))
    along = dict.fromkeys(row.loop for output in writes for row in map(_rows, output.axes) if row is not None)
    single = [_single(loop, reads, writes) for loop in along]
    added = [_added(loop, reads, writes) for loop in dict.fromkeys(sums) if loop not in along]
    found = [loop for loop in (*single, *_merged(reads, writes), *added) if loop is not None]
    empty = any(0 in output.shape for output in writes)
    return [] if empty else [loop for loop in found if 2 <= loop["extent"] <= MOST]


def nested(reads: Sequence[Operand], writes: Sequence[Operand], depth: int) -> list[Loop]:
    """The loops of a kernel that goes through its first output axis by axis: the first `depth` axes, outermost first.

    Axes are taken together where each input has all of them in a row, or none. The last loop is that before the first
    axis without one.
    """
    reads, writes = ([o._replace(axes=[*map(_plain, o.axes)]) for o in operands] for operands in (reads, writes))
    found, run = list[Loop](), dict[str, int]()
    if any(0 in output.shape for output in writes):
        return found
    for size, axis in zip(writes[0].shape[:depth], writes[0].axes, strict=False):
        row = _rows(axis)
        if row is None:
            break
        if size == 1:
            continue
        wider = {**run, row.loop: size}
        together = _along(wider, reads, writes) if isinstance(axis, str) and run else None
        if together is not None:
            found[-1], run = together, wider
            continue
        alone = _single(row.loop, reads, writes)
        if alone is None:
            break
        found.append(alone)
        run = {row.loop: size} if isinstance(axis, str) else {}
    return found


def broadcast(shape: Sequence[int], whole: Sequence[int], axes: Sequence[Axis]) -> list[Axis]:
    """The loops along the axes of what is broadcast to `whole`, which has loops along `axes`."""
    skip = len(whole) - len(shape)
    return [axes[skip + k] if size == whole[skip + k] else None for k, size in enumerate(shape)]


def covering(step: Fraction, rows: Sequence[tuple[int, int]]) -> tuple[Fraction, Fraction]:
    """The least `(window, before)` with which iteration i of this step reads rows `first` to `last` of `rows[i]`."""
    grain = Fraction(1, step.denominator)
    begin = min(first + 1 - i * step for i, (first, _) in enumerate(rows)) - grain
    end = max(last - i * step for i, (_, last) in enumerate(rows)) + grain
    return end - begin, -begin


def reshaped(source: str, before: Sequence[int], view: str, after: Sequence[int]) -> list[Loop]:
    """The loops of a reshape: along axes that begin and end at the same elements before and after.

    (2, 32, 1000) as (64, 1000): row 0 of 2 is rows [0, 32) of 64; rows of both leading axes together are rows of 64.
    """
    found: dict[tuple[Any, Any], Loop] = {}
    for group, group_after in _groups(before, after):
        ends = [(k, j) for k in range(1, len(group) + 1) for j in range(1, len(group_after) + 1)]
        pairs = [(group[:k], group_after[:j]) for k, j in ends if 1 in (k, j) or (k, j) == ends[-1]]
        if found:
            leading = [axis for axis in range(group[-1] + 1) if before[axis] > 1]
            pairs.append((leading, [axis for axis in range(group_after[-1] + 1) if after[axis] > 1]))
        for axes, axes_after in pairs:
            rows, rows_after = (math.prod(s[a] for a in x) for s, x in ((before, axes), (after, axes_after)))
            extent = math.gcd(rows, rows_after)
            read, write = _together(axes), _together(axes_after)
            step = rows // extent
            if extent > 1:
                reads, writes = {source: [read, step, step, 0]}, {view: [write, rows_after // extent]}
                found[str(read), str(write)] = {"extent": extent, "reads": reads, "writes": writes}
    return list(found.values())


def _groups(before: Sequence[int], after: Sequence[int]) -> Iterator[tuple[list[int], list[int]]]:
    """The shortest runs of axes, larger than 1, that hold the same elements before and after."""
    left = [axis for axis, size in enumerate(before) if size != 1]
    right = [axis for axis, size in enumerate(after) if size != 1]
    if math.prod(before) != math.prod(after) or 0 in before:
        return
    while left:
        rows, rows_after, taken, taken_after = before[left[0]], after[right[0]], 1, 1
        while rows != rows_after:
            if rows < rows_after:
                rows, taken = rows * before[left[taken]], taken + 1
            else:
                rows_after, taken_after = rows_after * after[right[taken_after]], taken_after + 1
        yield left[:taken], right[:taken_after]
        left, right = left[taken:], right[taken_after:]


def _rows(axis: Axis) -> Rows | None:
    return Rows(axis) if isinstance(axis, str) else axis


def _plain(axis: Axis) -> Axis:
    """An axis by its loop alone, where that goes row by row."""
    return axis.loop if isinstance(axis, Rows) and axis == Rows(axis.loop) else axis


def _axis_of(loop: str, operand: Operand) -> int | None:
    """The axis along which the loop goes; None if there is none, or several."""
    found = [k for k, axis in enumerate(map(_rows, operand.axes)) if axis is not None and axis.loop == loop]
    return found[0] if len(found) == 1 else None


def _single(loop: str, reads: Sequence[Operand], writes: Sequence[Operand]) -> Loop | None:
    written: dict[str, list[Any]] = {}
    extents = set()
    for output in writes:
        axis = _axis_of(loop, output)
        if axis is None:
            return None
        step = int(_row(output, axis).step)
        written[output.name] = [axis, step]
        extents.add(-(-output.shape[axis] // step))
    if len(extents) != 1:
        return None
    return {"extent": extents.pop(), "reads": _reads(loop, reads), "writes": written}


def _added(loop: str, reads: Sequence[Operand], writes: Sequence[Operand]) -> Loop | None:
    """Iterations that add to all outputs: their inputs have as many rows each."""
    found = [(operand, _axis_of(loop, operand)) for operand in reads]
    extents = {operand.shape[axis] for operand, axis in found if axis is not None}
    rows = _reads(loop, reads)
    if len(extents) != 1 or not rows:
        return None
    return {"extent": extents.pop(), "reads": rows, "writes": {}, "sums": [output.name for output in writes]}


def _reads(loop: str, reads: Sequence[Operand]) -> dict[str, list[Any]]:
    """What is read by rows."""
    return _unmixed((operand.name, _read(operand, _axis_of(loop, operand))) for operand in reads)


def _read(operand: Operand, axis: int | None) -> list[Any]:
    return [] if axis is None else [axis, *map(_number, _row(operand, axis)[1:])]


def _unmixed(rows: Iterable[tuple[str, list[Any]]]) -> dict[str, list[Any]]:
    """The rows that are read of each tensor; a tensor that is read in two ways is read whole, and left out."""
    found: dict[str, list[Any]] = {}
    for name, row in rows:
        found[name] = row if found.setdefault(name, row) == row else []
    return {name: row for name, row in found.items() if row}


def _row(operand: Operand, axis: int) -> Rows:
    row = _rows(operand.axes[axis])
    assert row is not None
    return row


def _merged(reads: Sequence[Operand], writes: Sequence[Operand]) -> Iterator[Loop]:
    """Leading axes of the outputs taken together, as far as each input has all of them in a row, or none."""
    run: dict[str, int] = {}
    for size, axis in zip(writes[0].shape, writes[0].axes, strict=True):
        if size == 1:
            continue
        if not isinstance(axis, str) or axis in run:
            return
        run[axis] = size
        if len(run) == 1:
            continue
        loop = _along(run, reads, writes)
        if loop is None:
            return
        yield loop


def _along(run: Mapping[str, int], reads: Sequence[Operand], writes: Sequence[Operand]) -> Loop | None:
    """The loop along several axes taken together; None unless each input has all of them in a row, or none."""
    read, written = [_run(run, operand) for operand in reads], [_run(run, output) for output in writes]
    if None in read or not all(written):
        return None
    rows = _unmixed(
        (operand.name, [_together(axes), 1, 1, 0] if axes else []) for operand, axes in zip(reads, read, strict=True)
    )
    writes_of = {output.name: [_together(axes), 1] for output, axes in zip(writes, written, strict=True) if axes}
    return {"extent": math.prod(run.values()), "reads": rows, "writes": writes_of}


def _run(run: Mapping[str, int], operand: Operand) -> list[int] | None:
    """The axes of these loops, one right after the other but for axes of size 1; none; or None if neither holds."""
    names = [row.loop if row is not None else None for row in map(_rows, operand.axes)]
    if not any(loop in names for loop in run):
        return []
    found = [axis for axis in range(len(names)) if names[axis] in run]
    if [operand.axes[axis] for axis in found] != list(run):
        return None
    between = [axis for axis in range(found[0], found[-1]) if axis not in found]
    whole = all(operand.shape[axis] == size for axis, size in zip(found, run.values(), strict=True))
    return found if whole and all(operand.shape[axis] == 1 for axis in between) else None


def _together(axes: Sequence[int]) -> int | list[int]:
    return axes[0] if len(axes) == 1 else [axes[0], axes[-1]]


def _number(value: int | Fraction) -> int | str:
    return int(value) if value == int(value) else str(Fraction(value))
