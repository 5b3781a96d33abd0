"""A function in regions, each of which saves little for its backward pass, and computes the rest again.

One region around everything computes everything again at once, when backward begins. So the equations of a function are
cut into several regions, where few bytes go from one to the next: backward then computes one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import jax

from .. import private

POLICIES = ("dots_saveable", "nothing_saveable")  # of jax.checkpoint_policies, the cheapest first


class Choice(NamedTuple):
    """How a function is cut: in so many regions, of which the first `wrapped` compute again what the policy says.

    `bodies`: instead, the body of each scan does.
    """

    regions: int
    wrapped: int
    policy: str
    bodies: bool = False


class Traced:
    """The equations of a function for some arguments; `leaves` are its arrays, in the order of their tree."""

    def __init__(self, function: Callable[..., Any], leaves: Sequence[Any]) -> None:
        self.closed, self.tree = private.jaxpr_of(function, leaves)
        self.eqns = self.closed.jaxpr.eqns
        self._made = {variable: k for k, eqn in enumerate(self.eqns) for variable in eqn.outvars}
        self._last = {
            variable: len(self.eqns) for variable in self.closed.jaxpr.outvars if not private.is_literal(variable)
        }
        for k, eqn in reversed([*enumerate(self.eqns)]):
            for variable in _read([eqn]):
                self._last.setdefault(variable, k)

    @property
    def has_scans(self) -> bool:
        return any(eqn.primitive.name == "scan" for eqn in self.eqns)

    def bounds(self, regions: int) -> list[int]:
        """Where regions begin and end: as even as may be, where the fewest bytes go across."""
        count, across = len(self.eqns), self._across()
        found = [0]
        for k in range(1, regions):
            middle, reach = k * count / regions, max(1, count // regions // 2)
            low, high = max(found[-1] + 1, int(middle - reach)), min(count - 1, int(middle + reach))
            if low <= high:
                found.append(min(range(low, high + 1), key=lambda at: (across[at], abs(at - middle))))
        return [*found, count]

    def places(self, choice: Choice) -> list[tuple[str, str]]:
        """The lines of code of the regions that compute again: the first and the last of each."""
        regions = [*pairwise(self.bounds(choice.regions))][: choice.wrapped]
        return [(private.place_of(self.eqns[low]), private.place_of(self.eqns[high - 1])) for low, high in regions]

    def results(self, choice: Choice, leaves: Sequence[Any]) -> list[Any]:
        """What the function gives for other values of its arrays."""
        jaxpr = self.closed.jaxpr
        policy = getattr(jax.checkpoint_policies, choice.policy)
        known = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*self.closed.consts, *leaves), strict=True))
        for number, (low, high) in enumerate(pairwise(self.bounds(choice.regions))):
            region = _Region(self.eqns[low:high], policy if choice.bodies else None)
            given = [variable for variable in region.reads if self._made.get(variable, -1) < low]
            made = [v for eqn in region.eqns for v in eqn.outvars if self._last.get(v, -1) >= high]
            run = region.between(given, made)
            if number < choice.wrapped and not choice.bodies:
                run = jax.checkpoint(run, policy=policy)
            known.update(zip(made, run([known[variable] for variable in given]), strict=True))
        return [private.value_of(variable, known) for variable in jaxpr.outvars]

    def _across(self) -> list[int]:
        """Bytes that are made before each equation, and read by it or later."""
        change = [0] * (len(self.eqns) + 2)
        for variable, k in self._made.items():
            if variable in self._last:
                size = _bytes_of(variable.aval)
                change[k + 1] += size
                change[self._last[variable] + 1] -= size
        return [*accumulate(change)]


class _Region(NamedTuple):
    """Equations that run one after the other; with a policy, bodies of scans compute again what it does not save."""

    eqns: Sequence[Any]
    policy: Any = None

    @property
    def reads(self) -> list[Any]:
        return [*dict.fromkeys(_read(self.eqns))]

    def between(self, given: Sequence[Any], made: Sequence[Any]) -> Callable[[Sequence[Any]], list[Any]]:
        """A function from the values of what is given to those of what is made."""

        def run(values: Sequence[Any]) -> list[Any]:
            known = dict(zip(given, values, strict=True))
            for eqn in self.eqns:
                if self.policy is not None and eqn.primitive.name == "scan":
                    read = [private.value_of(variable, known) for variable in eqn.invars]
                    known.update(zip(eqn.outvars, _scanned(eqn.params, read, self.policy), strict=True))
                else:
                    private.run(eqn, known)
            return [known[variable] for variable in made]

        return run


def _scanned(params: dict[str, Any], given: Sequence[Any], policy: Any) -> list[Any]:
    """A scan whose body computes again, in backward, what the policy does not save."""
    fixed, carried = params["num_consts"], params["num_carry"]
    body, constants = params["jaxpr"], given[:fixed]

    def step(carry: Any, x: Any) -> Any:
        made = private.evaluated(body, [*constants, *carry, *x])
        return tuple(made[:carried]), tuple(made[carried:])

    wrapped = jax.checkpoint(step, policy=policy, prevent_cse=False)
    how = {name: params[name] for name in ("length", "reverse", "unroll")}
    carry, made = jax.lax.scan(wrapped, tuple(given[fixed : fixed + carried]), tuple(given[fixed + carried :]), **how)
    return [*carry, *made]


def _read(eqns: Sequence[Any]) -> Iterator[Any]:
    for eqn in eqns:
        for variable in eqn.invars:
            if not private.is_literal(variable):
                yield variable


def _bytes_of(aval: Any) -> int:
    return int(getattr(aval, "size", 0) * getattr(getattr(aval, "dtype", None), "itemsize", 0))
