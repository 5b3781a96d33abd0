"""Plain versions of planners that follow births and deaths: what is free is found anew at each birth."""

from __future__ import annotations

from collections.abc import Callable

from oracles.reference import Columns, align_up

Blocks = list[tuple[int, int]]  # free [begin, end), by address, no two touching
Choice = Callable[[Blocks], tuple[int, int]]

# Three births over a top that is not aligned: the bytes skipped below the second must join the free block there.
SKIPPED_BYTES = ([4, 2, 8, 8], [0, 0, 1, 2], [9, 1, 2, 3], [1, 1, 8, 1])


def simulate(problem: Columns, choose: Choice) -> list[int]:
    """Each birth takes a free block that holds it; where none does, the arena grows, from what is free at its top."""
    size, first, last, alignment = problem
    offsets, top = [0] * len(size), 0
    placed: list[int] = []
    for i in sorted(range(len(size)), key=lambda i: first[i]):
        placed = [j for j in placed if last[j] > first[i]]
        if size[i] == 0:
            continue
        free = free_blocks([(offsets[j], offsets[j] + size[j]) for j in placed], top)
        fitting = [(b, e) for b, e in free if align_up(b, alignment[i]) + size[i] <= e]
        if fitting:
            begin = choose(fitting)[0]
        else:
            begin = free[-1][0] if free and free[-1][1] == top else top
        offsets[i] = align_up(begin, alignment[i])
        top = max(top, offsets[i] + size[i])
        placed.append(i)
    return offsets


def free_blocks(used: Blocks, top: int) -> Blocks:
    free, begin = [], 0
    for used_begin, used_end in sorted(used):
        if begin < used_begin:
            free.append((begin, used_begin))
        begin = used_end
    return [*free, (begin, top)] if begin < top else free
