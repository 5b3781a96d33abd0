"""Why nothing fits: fewest buffers that cannot be placed together, as the core finds them, in words."""

from __future__ import annotations

from dataclasses import dataclass

from .. import _core
from ..options.checks import integer
from ..plans.failing import InfeasibleError
from ..plans.plan import Plan
from ..proofs.refutation import Refutation, refuted
from ..sizes import in_bytes, with_bytes
from ..text import printable

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
    source: _core.Problem | Plan | InfeasibleError, capacity: int | str | None = None, *, effort: int = 20_000_000
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
    KeyboardInterrupt
        Ctrl-C ends the search.
    """
    if isinstance(source, InfeasibleError):
        capacity = source.capacity if capacity is None else capacity
    problem = source if isinstance(source, _core.Problem) else getattr(source, "problem", None)
    if not isinstance(problem, _core.Problem):
        raise TypeError(f"obstruction takes a Problem, a Plan or an InfeasibleError, got {type(source).__name__}")
    if capacity is None:
        raise TypeError("obstruction needs a capacity")
    capacity, effort = in_bytes(capacity, "capacity"), integer(effort, "effort", 1, 2**62)
    found = _core.obstruction(problem, capacity, effort)
    if found is None:
        return None
    buffers, irreducible, lower_bound, peak, without, unpinned, unreserved = found
    alone = problem.subset(buffers)
    proof = None if alone.branches is not None else refuted(alone, capacity, effort)
    enough = [f"buffer {problem.name(b)!r}" for b in without]
    enough += [f"the pin of {problem.name(b)!r}" for b in unpinned]
    rows = [] if problem.reserved is None else problem.reserved.tolist()
    enough += [f"reserved bytes [{rows[row][0]}, {rows[row][1]})" for row in unreserved]
    names = tuple(map(problem.name, buffers))
    return Obstruction(capacity, names, irreducible, alone, proof, lower_bound, peak, tuple(enough))
