"""A function in regions, each of which saves little for its backward pass, and computes the rest again.

One region around everything computes everything again at once, when backward begins. So the equations of a function are
cut into several regions, where few bytes go from one to the next: backward then computes one after the other. Bodies of
scans are regions too, and a scan can be one of scans.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name

from .. import private

NOTHING: frozenset[str] = frozenset()
_PLACES = 128  # for bounds
_EVENLY = 0.01


class Choice(NamedTuple):
    """How a function computes again.

    Attributes
    ----------
    bounds : tuple of int
        The equations where regions begin, and where the last one ends.
    wrapped : int
        The first so many regions compute again what they do not save.
    saved : str or frozenset of str
        What they save: a policy of `jax.checkpoint_policies`, or names of values (see `Traced.named`).
    bodies : bool
        Scans that are a region compute again in their bodies instead.
    chunked : bool
        Such scans become scans of scans: backward holds what is carried into each inner scan, and those of one of them.
    tied : bool
        Backward ends with a region, gradients of its weights too, before it begins with the one before.
    """

    bounds: tuple[int, ...]
    wrapped: int
    saved: str | frozenset[str] = NOTHING
    bodies: bool = False
    chunked: bool = False
    tied: bool = False

    @property
    def names(self) -> frozenset[str]:
        """The values that get a name."""
        return NOTHING if isinstance(self.saved, str) else self.saved

    @property
    def policy(self) -> Any:
        """For `jax.checkpoint`."""
        policies = jax.checkpoint_policies
        if isinstance(self.saved, str):
            return getattr(policies, self.saved)
        return policies.save_only_these_names(*sorted(self.saved))


class Traced:
    """The equations of a function for some arguments.

    `leaves` are its arrays, in the order of their tree; `differentiated` are the places of those with gradients.
    """

    def __init__(self, function: Callable[..., Any], leaves: Sequence[Any], differentiated: Sequence[int]) -> None:
        self.differentiated = differentiated
        self.closed, self.tree = private.jaxpr_of(function, leaves)
        self.eqns = self.closed.jaxpr.eqns
        self.scans = [k for k, eqn in enumerate(self.eqns) if is_scan(eqn)]
        self._made = {variable: k for k, eqn in enumerate(self.eqns) for variable in eqn.outvars}
        self._last = {
            variable: len(self.eqns) for variable in self.closed.jaxpr.outvars if not private.is_literal(variable)
        }
        for k, eqn in reversed([*enumerate(self.eqns)]):
            for variable in _read([eqn]):
                self._last.setdefault(variable, k)
        self._varied = {self.closed.jaxpr.invars[place] for place in differentiated}  # what may have gradients
        for eqn in self.eqns:
            if not self._varied.isdisjoint(_read([eqn])):
                self._varied.update(eqn.outvars)

    @property
    def whole(self) -> tuple[int, ...]:
        """One region."""
        return (0, len(self.eqns))

    def even(self, regions: int, weights: Sequence[int]) -> tuple[int, ...]:
        """Regions with weights of their equations as even as may be, cut where the fewest bytes go across."""
        count, across, sums = len(self.eqns), self._across(), [0, *accumulate(weights)]
        found = [0]
        for k in range(1, regions):
            low, middle, high = (bisect_left(sums, (k + by) * sums[-1] / regions) for by in (-0.5, 0, 0.5))
            places = range(max(found[-1] + 1, low), min(count - 1, high) + 1)
            if places:
                found.append(min(places, key=lambda at: (across[at], abs(at - middle))))
        return (*found, count)

    def layers(self) -> tuple[int, ...]:
        """A region for each layer: equations that repeat. What is before and after them are regions too."""
        first, period, repeats = _repeated([_form(eqn) for eqn in self.eqns])
        if repeats < 2:
            return self.whole
        across = self._across()
        slack = range(min(period, len(self.eqns) - first - period * repeats + 1))
        shift = min(slack, key=lambda by: sum(across[first + by + k * period] for k in range(repeats + 1)))
        bounds = [first + shift + k * period for k in range(repeats + 1)]
        return tuple(sorted({0, *bounds, len(self.eqns)}))

    def balanced(self, recomputed: Sequence[int], saved: Sequence[int]) -> tuple[int, ...]:
        """Regions for which backward holds the fewest bytes, about.

        It holds what goes into regions, what they save, and what one region computes again. The last two are given as
        bytes of each equation.
        """
        places = self._narrow()
        again, kept = ([0, *accumulate(each)] for each in (recomputed, saved))
        goes = [self._going(place, places) for place in places]

        def cut(most: float) -> list[int] | None:
            """For each place, the bound before it, where no more bytes are held."""
            held, before = [0.0] + [math.inf] * (len(places) - 1), [0] * len(places)
            for to in range(1, len(places)):
                for at in range(to):
                    low, high = places[at], places[to]
                    now = held[at] + kept[high] - kept[low]
                    if now + again[high] - again[low] <= most and now + goes[to][at] < held[to]:
                        held[to], before[to] = now + goes[to][at], at
            return None if math.isinf(held[-1]) else before

        low, high = 0, kept[-1] + again[-1]
        while high - low > max(1, _EVENLY * high):
            middle = (low + high) // 2
            low, high = (low, middle) if cut(middle) else (middle, high)
        before = cut(high) or [0] * len(places)
        found = [len(places) - 1]
        while found[-1]:
            found.append(before[found[-1]])
        return tuple(places[at] for at in reversed(found))

    def _narrow(self) -> list[int]:
        """Places for bounds, evenly spread: those where the fewest bytes go across."""
        across, count = self._across(), len(self.eqns)
        step = -(-count // _PLACES)
        parts = (range(low, min(low + step, count)) for low in range(1, count, step))
        return [0, *(min(part, key=lambda at: across[at]) for part in parts), count]

    def _going(self, place: int, places: Sequence[int]) -> list[int]:
        """Bytes that go across a place, of what is made from each place on."""
        found = [0] * (len(self.eqns) + 1)
        for variable, k in self._made.items():
            if k < place <= self._last.get(variable, -1):
                found[k] += bytes_of(variable.aval)
        sums = [*accumulate(reversed(found))][::-1]
        return [sums[at] for at in places]

    def apart(self, bounds: Iterable[int]) -> tuple[int, ...]:
        """The same bounds, with a region for each scan."""
        return tuple(sorted({*bounds, *self.scans, *(k + 1 for k in self.scans)}))

    def places(self, choice: Choice) -> list[tuple[str, str]]:
        """The lines of code of the regions that compute again: the first and the last of each."""
        regions = [*pairwise(choice.bounds)][: choice.wrapped]
        return [
            (private.place_of(self.eqns[low]), private.place_of(self.eqns[high - 1]))
            for low, high in regions
            if not (choice.bodies and high - low == 1 and is_scan(self.eqns[low]))
        ]

    def described(self, name: str) -> str:
        """The line of code of a value, its primitive and its shape."""
        *within, last = name.split("/")
        closed = self.closed
        for scan in within:
            closed = private.flattened(closed.jaxpr.eqns[int(scan)].params["jaxpr"])
        equation, _, result = last.partition(".")
        eqn = closed.jaxpr.eqns[int(equation)]
        aval = eqn.outvars[int(result)].aval
        return f"{private.place_of(eqn) or '?'}: {eqn.primitive.name}, {aval.dtype}{[*aval.shape]}"

    def results(self, choice: Choice, leaves: Sequence[Any]) -> list[Any]:
        """What the function gives for other values of its arrays."""
        jaxpr = self.closed.jaxpr
        known = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*self.closed.consts, *leaves), strict=True))
        for number, (low, high) in enumerate(pairwise(choice.bounds)):
            eqns = self.eqns[low:high]
            if choice.bodies and len(eqns) == 1 and is_scan(eqns[0]):
                run_eqns(eqns, known, choice, low)
                continue
            given = [variable for variable in dict.fromkeys(_read(eqns)) if self._made.get(variable, -1) < low]
            if choice.tied:  # backward has a barrier where forward has one
                tied = [variable for variable in given if variable in self._varied and is_float(known[variable])]
                known.update(zip(tied, jax.lax.optimization_barrier([known[v] for v in tied]), strict=True))
            made = [v for eqn in eqns for v in eqn.outvars if self._last.get(v, -1) >= high]
            run = _between(eqns, given, made, choice._replace(bodies=False), low)
            if number < choice.wrapped:
                run = jax.checkpoint(run, policy=choice.policy)
            known.update(zip(made, run([known[variable] for variable in given]), strict=True))
        return [private.value_of(variable, known) for variable in jaxpr.outvars]

    def _across(self) -> list[int]:
        """Bytes that are made before each equation, and read by it or later."""
        change = [0] * (len(self.eqns) + 2)
        for variable, k in self._made.items():
            if variable in self._last:
                size = bytes_of(variable.aval)
                change[k + 1] += size
                change[self._last[variable] + 1] -= size
        return [*accumulate(change)]


def is_scan(eqn: Any) -> bool:
    return bool(eqn.primitive.name == "scan" and eqn.params["length"] > 1)


def is_float(value: Any) -> bool:
    return hasattr(value, "dtype") and bool(jnp.issubdtype(value.dtype, jnp.inexact))


def bytes_of(aval: Any) -> int:
    return int(getattr(aval, "size", 0) * getattr(getattr(aval, "dtype", None), "itemsize", 0))


def name_of(within: str, equation: int, result: int) -> str:
    """The name of a value: ``4.0`` is the first result of equation 4, ``4/2.0`` one in the body of scan 4."""
    return f"{within}{equation}.{result}"


def equation_of(name: str) -> int:
    """The equation of a function that makes a value, or has it in a body."""
    return int(name.partition("/")[0].partition(".")[0])


def run_eqns(eqns: Sequence[Any], known: dict[Any, Any], choice: Choice, first: int = 0, within: str = "") -> None:
    """Run equations of which the first has a number. What is saved gets its name, in bodies of scans too."""
    names = choice.names
    for k, eqn in enumerate(eqns, first):
        inside = f"{within}{k}/"
        if is_scan(eqn) and (choice.bodies or any(name.startswith(inside) for name in names)):
            read = [private.value_of(variable, known) for variable in eqn.invars]
            made = _scanned(eqn.params, read, choice, inside)
            known.update(zip(eqn.outvars, made, strict=True))
        else:
            private.run(eqn, known)
        for result, variable in enumerate(eqn.outvars):
            if (name := name_of(within, k, result)) in names:
                known[variable] = checkpoint_name(known[variable], name)


def _between(
    eqns: Sequence[Any], given: Sequence[Any], made: Sequence[Any], choice: Choice, first: int
) -> Callable[[Sequence[Any]], list[Any]]:
    """A function from the values of what is given to those of what is made."""

    def run(values: Sequence[Any]) -> list[Any]:
        known = dict(zip(given, values, strict=True))
        run_eqns(eqns, known, choice, first)
        return [known[variable] for variable in made]

    return run


def _scanned(params: dict[str, Any], given: Sequence[Any], choice: Choice, within: str) -> list[Any]:
    """A scan with names in its body, which computes again, in backward, what is not saved, if the choice says so."""
    fixed, carried, length = params["num_consts"], params["num_carry"], params["length"]
    body, constants = private.flattened(params["jaxpr"]), given[:fixed]
    how = {name: params[name] for name in ("reverse", "unroll")}

    def step(carry: Any, x: Any) -> Any:
        known = dict(zip(body.jaxpr.constvars, body.consts, strict=True))
        known.update(zip(body.jaxpr.invars, [*constants, *carry, *x], strict=True))
        run_eqns(body.jaxpr.eqns, known, choice, 0, within)
        made = [private.value_of(variable, known) for variable in body.jaxpr.outvars]
        return tuple(made[:carried]), tuple(made[carried:])

    def scan(carry: Any, xs: Any, length: int) -> Any:
        again = jax.checkpoint(step, policy=choice.policy, prevent_cse=False) if choice.bodies else step
        return jax.lax.scan(again, carry, xs, length=length, **how)

    carry, xs = tuple(given[fixed : fixed + carried]), tuple(given[fixed + carried :])
    inner = _near_root(length) if choice.chunked and choice.bodies else 1
    if inner == 1:
        carry, made = scan(carry, xs, length)
        return [*carry, *made]

    def chunk(carry: Any, xs: Any) -> Any:
        return scan(carry, xs, inner)

    outer = length // inner
    parts = tuple(x.reshape(outer, inner, *x.shape[1:]) for x in xs)
    wrapped = jax.checkpoint(chunk, policy=choice.policy, prevent_cse=False)
    carry, made = jax.lax.scan(wrapped, carry, parts, length=outer, reverse=params["reverse"])
    return [*carry, *(x.reshape(length, *x.shape[2:]) for x in made)]


def _near_root(length: int) -> int:
    """The divisor of a length that is closest to its square root; 1 for a prime."""
    divisors = [k for k in range(1, length) if length % k == 0]
    return min(divisors, key=lambda k: abs(math.log(k * k / length)))


def _form(eqn: Any) -> int:
    """What repeated equations have in common: the primitive, and how many axes its results have."""
    return hash((eqn.primitive.name, *(getattr(variable.aval, "ndim", 0) for variable in eqn.outvars)))


def _repeated(forms: Sequence[int]) -> tuple[int, int, int]:
    """The longest stretch of a sequence that repeats: where it begins, the period, and how often it is there."""
    best, seen, gaps = (0, 0, 0), dict[int, int](), set[int]()
    for k, form in enumerate(forms):
        gaps.add(k - seen.get(form, k))
        seen[form] = k
    for period in sorted(gaps - {0}):
        run = 0
        for k in range(len(forms) - period):
            run = run + 1 if forms[k] == forms[k + period] else 0
            repeats = run // period + 1
            if run >= period and repeats * period > best[1] * best[2]:
                best = (k + 1 - run, period, repeats)
    return best


def _read(eqns: Sequence[Any]) -> Iterator[Any]:
    for eqn in eqns:
        for variable in eqn.invars:
            if not private.is_literal(variable):
                yield variable
