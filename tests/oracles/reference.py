"""What plain versions of planners have in common: the gaps over a buffer's life, by looking at every other buffer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

Columns = tuple[list[int], list[int], list[int], list[int]]
Gap = tuple[int, int | None]  # [begin, end), None for no end


def align_up(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment


def meet(problem: Columns, i: int, j: int) -> bool:
    """Whether two buffers live together, or are one."""
    _, first, last, _ = problem
    return first[i] < last[j] and first[j] < last[i]


def with_bytes(problem: Columns) -> list[int]:
    return [i for i, size in enumerate(problem[0]) if size > 0]


def gaps(problem: Columns, offsets: dict[int, int], i: int) -> list[Gap]:
    """What is free throughout the life of i, below, between and above what is placed."""
    used = sorted((offset, offset + problem[0][j]) for j, offset in offsets.items() if meet(problem, i, j))
    found: list[Gap] = []
    begin = 0
    for used_begin, used_end in used:
        if begin < used_begin:
            found.append((begin, used_begin))
        begin = max(begin, used_end)
    return [*found, (begin, None)]


def fitting(problem: Columns, offsets: dict[int, int], i: int) -> list[Gap]:
    """The gaps that hold i; at least the last, which is endless."""
    size, _, _, alignment = problem
    return [
        (begin, end)
        for begin, end in gaps(problem, offsets, i)
        if end is None or align_up(begin, alignment[i]) + size[i] <= end
    ]


def lowest(gaps: Sequence[Gap], alignment: int) -> int:
    return align_up(gaps[0][0], alignment)


def tightest(gaps: Sequence[Gap], alignment: int) -> int:
    bounded = [(end - begin, begin) for begin, end in gaps if end is not None]
    return align_up(min(bounded)[1] if bounded else gaps[-1][0], alignment)


def place(problem: Columns, order: Iterable[int], fit: Callable[[Sequence[Gap], int], int]) -> list[int]:
    """Buffers in an order, each where `fit` says among the gaps that hold it; the others at 0."""
    offsets: dict[int, int] = {}
    for i in order:
        offsets[i] = fit(fitting(problem, offsets, i), problem[3][i])
    return [offsets.get(i, 0) for i in range(len(problem[0]))]
