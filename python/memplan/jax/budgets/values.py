"""Which values of a function are worth saving: what backward would have to compute again without, for each byte."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
from jax.ad_checkpoint import checkpoint_name

from .. import private
from . import costs
from .regions import Traced, bytes_of, is_float, is_scan, name_of

_FINEST, _STEP = 0.1, 1.25  # of levels: operations for a byte


class Value(NamedTuple):
    """The results of an equation that backward reads, or computes others from."""

    names: tuple[str, ...]
    bytes: int  # of all times that a loop makes them
    level: float  # operations for each byte that backward is spared if they are saved, about


def worthy(traced: Traced) -> list[Value]:
    """The values that are worth saving, those first that spare the most for a byte; of equals, the latest.

    What is made late is held for a shorter time.
    """
    return sorted(_values(traced.closed, traced.differentiated), key=lambda value: -value.level)


def _values(closed: Any, differentiated: Sequence[int], within: str = "", times: int = 1) -> Iterator[Value]:
    """Values of a jaxpr, and those of bodies of its scans, the last that is given up first."""
    jaxpr = closed.jaxpr
    saving = _Saving(jaxpr.eqns, _needed(closed, differentiated))
    given_up = [*saving.given_up()]
    for k, results, level in reversed(given_up):
        variables = [jaxpr.eqns[k].outvars[result] for result in results]
        names = tuple(name_of(within, k, result) for result in results)
        yield Value(names, times * sum(bytes_of(variable.aval) for variable in variables), level)
    for k in saving.scans:
        body = private.flattened(jaxpr.eqns[k].params["jaxpr"])
        floats = [place for place, aval in enumerate(body.in_avals) if is_float(aval)]
        yield from _values(body, floats, f"{within}{k}/", times * jaxpr.eqns[k].params["length"])


class _Saving:
    """All results are saved at first. They are given up one by one, those first that cost the least for a byte.

    `again` are the equations that backward runs again, at each time. Results of scans stay: scans run again in their
    bodies.
    """

    def __init__(self, eqns: Sequence[Any], needed: set[Any]) -> None:
        self._eqns, self._needed = eqns, needed
        made = {variable: k for k, eqn in enumerate(eqns) for variable in eqn.outvars}
        self._reads = [{v for v in eqn.invars if not private.is_literal(v) and v in made} for eqn in eqns]
        self._made, self._again, self._readers = made, set[int](), Counter[Any]()
        reached, open_ = set[int](), {made[variable] for variable in needed}
        while open_:
            k = open_.pop()
            reached.add(k)
            open_ |= {made[variable] for variable in self._reads[k]} - reached
        self.scans = [k for k in sorted(reached) if is_scan(eqns[k])]
        self._saved = reached
        self._costs = {k: costs.of_equation(eqns[k]) for k in reached}

    def given_up(self) -> Iterator[tuple[int, list[int], float]]:
        """Equations, which of their results backward reads at that time, and the level; the cheapest first."""
        for k in sorted(self._saved.difference(self.scans), reverse=True):  # what moves bytes reads what moved before
            more = self._more(k) if self._read_of(k) else set()
            fresh = {variable for each in more for variable in self._reads[each] if not self._is_read(variable)}
            if not self._cost(more) and sum(map(self._bytes, fresh)) <= sum(map(self._bytes, self._read_of(k))):
                self._give_up(k, more)
        level, left = _FINEST, sorted(self._saved.difference(self.scans))
        while left:
            dearer = []
            for k in left:
                read = self._read_of(k)
                more = self._more(k) if read else set()
                if self._cost(more) > level * max(1, sum(map(self._bytes, read))):
                    dearer.append(k)
                    continue
                self._give_up(k, more)
                if read:
                    yield k, [self._eqns[k].outvars.index(variable) for variable in read], level
            level, left = level * _STEP, dearer

    def _give_up(self, k: int, more: set[int]) -> None:
        self._saved.discard(k)
        self._again |= more
        self._readers.update(variable for each in more for variable in self._reads[each])

    def _cost(self, equations: set[int]) -> float:
        return sum(self._costs[k] for k in equations)

    def _read_of(self, k: int) -> list[Any]:
        return [variable for variable in self._eqns[k].outvars if self._is_read(variable)]

    def _is_read(self, variable: Any) -> bool:
        return variable in self._needed or self._readers[variable] > 0

    @staticmethod
    def _bytes(variable: Any) -> int:
        return bytes_of(variable.aval)

    def _more(self, k: int) -> set[int]:
        """The equations that run again as well if the results of this one are not saved."""
        more, open_ = set[int](), {k}
        while open_:
            at = open_.pop()
            more.add(at)
            read = {self._made[variable] for variable in self._reads[at]}
            open_ |= read - self._saved - self._again - more
        return more


def _needed(closed: Any, differentiated: Sequence[int]) -> set[Any]:
    """The variables that backward reads, or computes other values from that no variable stands for.

    Each result is named in a trace of forward; what forward keeps for backward is followed back to names. A derivative
    that reads the result of its own equation, as that of `exp`, has it without the name: it is computed again.
    """
    jaxpr = closed.jaxpr
    named: dict[str, Any] = {}

    def forward(leaves: Sequence[Any]) -> list[Any]:
        known = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*closed.consts, *leaves), strict=True))
        for k, eqn in enumerate(jaxpr.eqns):
            private.run(eqn, known)
            for result, variable in enumerate(eqn.outvars):
                name = name_of("", k, result)
                named[name] = variable
                known[variable] = checkpoint_name(known[variable], name)
        return [value for v in jaxpr.outvars if is_float(value := private.value_of(v, known))]

    def kept(*leaves: Any) -> list[Any]:
        def of_these(*chosen: Any) -> list[Any]:
            whole = [*leaves]
            for place, value in zip(differentiated, chosen, strict=True):
                whole[place] = value
            return forward(whole)

        backward = jax.vjp(of_these, *(leaves[place] for place in differentiated))[1]
        return [*jax.tree.leaves(backward)]

    traced = jax.make_jaxpr(kept)(*closed.in_avals).jaxpr
    producers = {variable: eqn for eqn in traced.eqns for variable in eqn.outvars}
    stands_for = {}
    for eqn in traced.eqns:
        if eqn.primitive.name == "name" and (variable := named.get(eqn.params["name"])) is not None:
            stands_for[eqn.outvars[0]] = variable
    found, seen, open_ = set(), set(), [v for v in traced.outvars if not private.is_literal(v)]
    while open_:
        variable = open_.pop()
        if variable in seen:
            continue
        seen.add(variable)
        if variable in stands_for:
            found.add(stands_for[variable])
        elif variable in producers:
            open_ += [v for v in producers[variable].invars if not private.is_literal(v)]
    return found
