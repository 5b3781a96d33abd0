"""All that a step or a compiled graph holds, explained: what lies in arenas, and what lies outside of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from .. import _core
from ..plans.usage import BEGIN, BUFFER, END, Ints, load_curve, load_of, next_hill, rectangles, steps_above, without
from .advice import Advice, is_worth
from .alive import Alive, alive_at
from .explanation import CROWDED, Explanation, Moment
from .idle import idle_at

ARENA = "in the arena"  # the kind of what lies in one; other kinds are words of whoever holds something
NOWHERE = -1  # the arena of what lies in none


@dataclass(frozen=True)
class Whole:
    """An arena: it holds all its bytes in the steps [first, last), whatever lies in it."""

    bytes: int
    first: int
    last: int


@dataclass(frozen=True)
class Held:
    """All that something holds while it runs, as buffers of a problem with kinds.

    Attributes
    ----------
    what : str
        What holds it: "forward 0 on cpu".
    problem : Problem
        What is held when. Names are those of its buffers.
    kinds, made : sequence of str
        What each buffer is for, and what has made it, where that is known.
    ops : sequence of str
        What runs in each step, as far as that is known.
    arenas : sequence of Whole
        The arenas.
    arena : sequence of int
        In which arena each buffer lies; `NOWHERE` if in none.
    cures : mapping
        Of kinds, what would hold less of them, in words.
    idle : sequence of (first, last)
        The steps in which nothing uses a buffer. By default all between its first and its last.
    """

    what: str
    problem: _core.Problem
    kinds: Sequence[str]
    made: Sequence[str] = ()
    ops: Sequence[str] = ()
    arenas: Sequence[Whole] = ()
    arena: Sequence[int] = ()
    cures: Mapping[str, str] = field(default_factory=dict)
    idle: Sequence[tuple[int, int]] = ()

    def explain(self) -> Explanation:
        """What is held at the worst step, by kind and by buffer, and what would bring less."""
        rows = rectangles(self.problem)
        count = len(self.problem.size)
        figures: dict[str, Any] = {
            "what": self.what,
            "planner": "",
            "of_graph": False,
            "buffers": count,
            "conflicts": 0,
        }
        if len(rows) == 0:
            return Explanation(**figures, peak=0, load=0, lower_bound=0, optimal=True, naive=0)
        step, load = load_curve(rows)
        peak, worst = self._peak(rows)
        top = worst if load[worst] == load.max() else int(np.argmax(load))
        other = next_hill(step, load, top)
        most = int(load.max())
        return Explanation(
            **figures,
            peak=peak,
            load=most,
            lower_bound=most,
            optimal=peak == most,
            naive=int(self.problem.size.sum()),
            peak_step=self._moment(step, load, worst),
            load_step=self._moment(step, load, top),
            next_step=None if other is None else self._moment(step, load, other),
            steps=int(step[-1] - step[0]),
            crowded=steps_above(step, load, CROWDED),
            alive=self._alive(rows, int(step[worst]), peak),
            alive_at_load=self._alive(rows, int(step[top]), peak),
            idle=idle_at(self.problem, None, rows, int(step[top]))[0],
            advice=tuple(self._advice(rows, int(step[top]))),
            curve=tuple(zip(step.tolist(), load.tolist(), strict=True)),
        )

    def _peak(self, rows: Ints) -> tuple[int, int]:
        """The most bytes that are held at a step, with arenas as a whole, and its place on the staircase of the load.

        Of several such steps, it is the one at which most bytes are in use.
        """
        if not self.arenas:
            load = load_curve(rows)[1]
            return int(load.max()), int(load.argmax())
        inside = np.array(self.arena)[rows[:, BUFFER]] != NOWHERE
        outside = rows[~inside]
        wholes = [(NOWHERE, 0, arena.bytes, arena.first, arena.last) for arena in self.arenas]
        step, load = load_curve(rows)
        whole_step, held = load_curve(np.concatenate([outside, np.array(wholes, np.int64)]))
        there = held[np.clip(np.searchsorted(whole_step, step, side="right") - 1, 0, None)]
        worst = int(np.lexsort((-load, -there))[0])
        return int(there[worst]), worst

    def _moment(self, step: Ints, load: Ints, k: int) -> Moment:
        at = int(step[k])
        return Moment(at, int(load[k]), self.ops[at] if at < len(self.ops) else "")

    def _alive(self, rows: Ints, step: int, peak: int) -> tuple[Alive, ...]:
        """What is in use at a step, with its kind."""
        number = {name: k for k, name in enumerate(self.problem.names)}
        found = alive_at(self.problem, None, rows, step, peak)
        made = self.made or [""] * len(self.kinds)
        return tuple(replace(a, why=self.kinds[k := number[a.name]], op=made[k]) for a in found)

    def _advice(self, rows: Ints, step: int) -> list[Advice]:
        """For each kind that can be helped: the load if all its buffers were away while nothing uses them."""
        found = []
        for kind, how in self.cures.items():
            left, names, size = rows, [], 0
            for buffer in [k for k, of in enumerate(self.kinds) if of == kind]:
                first, last = self._idle(buffer)
                if first < last:
                    left = without(left, buffer, first, last)
                if first <= step < last:
                    own = rows[(rows[:, BUFFER] == buffer)]
                    names.append(self.problem.name(buffer))
                    size += int((own[:, END] - own[:, BEGIN]).max(initial=0))
            found += [Advice(kind, tuple(names), load_of(left), size, how=how)] if names else []
        most = load_of(rows)
        return sorted((advice for advice in found if is_worth(advice, most)), key=lambda advice: advice.load)

    def _idle(self, buffer: int) -> tuple[int, int]:
        if self.idle:
            return self.idle[buffer]
        return int(self.problem.first[buffer]) + 1, int(self.problem.last[buffer]) - 1
