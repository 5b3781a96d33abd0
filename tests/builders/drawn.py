"""Small plans drawn byte by byte, so that tests show what planners do."""

from __future__ import annotations

import memplan

Rows = dict[str, tuple[int, int, int]]  # a letter: its bytes, its first step, and the step at which it is dead


def problem_of(rows: Rows, alignment: dict[str, int] | None = None) -> memplan.Problem:
    size, first, last = ([row[k] for row in rows.values()] for k in range(3))
    return memplan.Problem(size, first, last, [(alignment or {}).get(name, 1) for name in rows], list(rows))


def drawn(rows: Rows, planner: str, alignment: dict[str, int] | None = None) -> list[str]:
    """A line per step: which buffer each byte of the arena belongs to, from offset 0 on; dots are free."""
    plan = memplan.plan(problem_of(rows, alignment), planner)
    lines = []
    for step in range(min(first for _, first, _ in rows.values()), max(last for *_, last in rows.values())):
        line = ["."] * plan.peak
        for (name, (size, first, last)), offset in zip(rows.items(), plan.offsets.tolist(), strict=True):
            if first <= step < last:
                line[offset : offset + size] = name * size
        lines.append("".join(line))
    return lines
