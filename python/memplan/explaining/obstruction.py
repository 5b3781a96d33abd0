"""Why nothing fits: fewest buffers that cannot be placed together, found by deletion on top of proofs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from .. import _core
from ..options.checks import integer
from ..planning.registry import solve_problem
from ..plans.failing import InfeasibleError
from ..plans.record import PlanRecord
from ..proofs.refutation import Refutation, refuted
from ..sizes import in_bytes, with_bytes
from ..text import printable

_Answer = Literal["fits", "refuted", "open"]
_SHOWN = 20  # buffers that the text lists


@dataclass(frozen=True, repr=False)
class Obstruction:
    """Buffers that no plan places together within a capacity.

    Attributes
    ----------
    capacity : int
        Bytes.
    buffers : tuple of str
        The set: proven that no plan of these alone fits, with their pins and distances, and with what is reserved.
    irreducible : bool
        Proven that the others fit, whichever of the set is taken away.
    problem : Problem
        The buffers of the set, for `plan` and `refute`.
    proof : Refutation or None
        That no plan of this problem fits, to be kept and checked; None if it would be too large, or has branches.
    lower_bound, peak : int
        Of the whole problem: the smallest capacity that is proven to be needed, and the one of the best plan found.
    without : tuple of str
        Each one is enough to make the whole fit, if it goes: a buffer, or its pin, or a reserved range.
    """

    capacity: int
    buffers: tuple[str, ...]
    irreducible: bool
    problem: _core.Problem
    proof: Refutation | None
    lower_bound: int
    peak: int
    without: tuple[str, ...]

    def __str__(self) -> str:
        few = "fewest buffers" if self.irreducible else "buffers"
        lines = [f"{few} that no plan places together within {with_bytes(self.capacity)}:"]
        pins = self.problem.pins
        for b, name in list(enumerate(self.buffers))[:_SHOWN]:
            life = f"[{self.problem.first[b]}, {self.problem.last[b]})"
            pinned = "" if pins is None or pins[b] < 0 else f", pinned to offset {pins[b]:,}"
            lines.append(f"  {printable(name)}: {with_bytes(int(self.problem.size[b]))}, alive in {life}{pinned}")
        if len(self.buffers) > _SHOWN:
            lines.append(f"  … and {len(self.buffers) - _SHOWN} more")
        bound, peak = with_bytes(self.lower_bound), with_bytes(self.peak)
        lines.append(f"the whole needs at least {bound}; the best plan found needs {peak}")
        if self.without:
            lines.append("it fits without any one of these: " + ", ".join(map(printable, self.without)))
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<memplan obstruction: {len(self.buffers)} buffers beyond {self.capacity} bytes>"


def obstruction(
    source: _core.Problem | PlanRecord | InfeasibleError, capacity: int | str | None = None, *, effort: int = 20_000_000
) -> Obstruction | None:
    """Explain why no plan fits a capacity: a smallest set of buffers that cannot be placed together.

    Buffers are taken away as long as it stays proven that the rest does not fit. This is for problems of up to some
    hundreds of buffers, or those whose load alone is too high.

    Parameters
    ----------
    source
        A problem, a plan, whose problem counts, or an `InfeasibleError`, which knows its problem and capacity. The
        problem of a graph is that of one choice of what shares bytes.
    capacity
        Bytes, >= 0, as an integer or text such as "1.5GiB".
    effort
        For each question whether some buffers fit, as in "auto:effort=N", and for the proof.

    Returns
    -------
    Obstruction or None
        None if a plan fits, or if it is not proven that none does.

    Raises
    ------
    TypeError, ValueError
        Bad input.
    """
    if isinstance(source, InfeasibleError):
        capacity = source.capacity if capacity is None else capacity
    problem = source if isinstance(source, _core.Problem) else getattr(source, "problem", None)
    if not isinstance(problem, _core.Problem):
        raise TypeError(f"obstruction takes a Problem, a Plan or an InfeasibleError, got {type(source).__name__}")
    if capacity is None:
        raise TypeError("obstruction needs a capacity")
    return _Deletion(problem, in_bytes(capacity, "capacity"), integer(effort, "effort", 1, 2**62)).run()


class _Deletion:
    def __init__(self, problem: _core.Problem, capacity: int, effort: int) -> None:
        self._problem, self._capacity, self._effort = problem, capacity, effort
        self._planner = f"auto:effort={effort}"

    def run(self) -> Obstruction | None:
        everything = [int(b) for b in np.flatnonzero(self._problem.size)]
        if self._answer(self._problem) != "refuted":
            return None
        left = self._reduced(self._within_clique() or everything)
        answers = {b: self._answer(self._problem.subset([c for c in left if c != b])) for b in left}
        found = self._problem.subset(left)
        best = solve_problem(self._problem, self._planner)
        return Obstruction(
            self._capacity,
            tuple(self._problem.name(b) for b in left),
            all(answer == "fits" for answer in answers.values()),
            found,
            None if found.branches is not None else refuted(found, self._capacity, self._effort),
            int(best.lower_bound),
            int(best.peak),
            tuple(self._enough_alone(left, everything)),
        )

    def _answer(self, problem: _core.Problem) -> _Answer:
        try:
            solve_problem(problem, self._planner, capacity=self._capacity)
        except InfeasibleError as error:
            return "refuted" if error.proven else "open"
        return "fits"

    def _within_clique(self) -> list[int]:
        """The buffers of the heaviest clique, if they alone are too many."""
        size, rows = _core.heaviest_clique(self._problem)
        return sorted({int(row[0]) for row in rows}) if size > self._capacity else []

    def _reduced(self, left: list[int]) -> list[int]:
        """Some of these of which none goes without the proof: halves at first, then ever smaller pieces."""
        area = self._problem.size * (self._problem.last - self._problem.first).astype(np.float64)
        left = sorted(left, key=lambda b: float(area[b]))  # small ones go first
        piece = max(len(left) // 2, 1)
        while True:
            at = 0
            while at < len(left):
                rest = left[:at] + left[at + piece :]
                if self._answer(self._problem.subset(rest)) == "refuted":
                    left = rest
                else:
                    at += piece
            if piece == 1:
                return sorted(left)
            piece = max(piece // 2, 1)

    def _enough_alone(self, left: Sequence[int], everything: Sequence[int]) -> list[str]:
        """What makes the whole fit, taken away alone; without one of the set, or what it is fixed to, nothing does."""
        found = [
            f"buffer {self._problem.name(b)!r}"
            for b in left
            if self._answer(self._problem.subset([c for c in everything if c != b])) == "fits"
        ]
        pins, reserved = self._problem.pins, self._problem.reserved
        pinned = [] if pins is None else pins.tolist()
        for b in left if pinned else ():
            free = [*pinned[:b], -1, *pinned[b + 1 :]]
            if pinned[b] >= 0 and self._answer(self._problem.with_pins(free, reserved)) == "fits":
                found.append(f"the pin of {self._problem.name(b)!r}")
        ranges = [] if reserved is None else reserved.tolist()
        for row, (begin, end, *_) in enumerate(ranges):
            rest = ranges[:row] + ranges[row + 1 :]
            if self._answer(self._problem.with_pins(pins, rest)) == "fits":
                found.append(f"reserved bytes [{begin}, {end})")
        return found
