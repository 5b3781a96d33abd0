"""`memplan.jax.fit`: the cheapest way to compute again for which a step is within a budget, as XLA itself counts."""

from __future__ import annotations

import math
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple

import jax

from ... import calls, sizes
from ...errors import SourceError
from ...options import checks
from ...plans.failing import InfeasibleError
from . import costs
from .regions import Choice, Traced, equation_of
from .values import Value, worthy

_POLICIES = ("dots_saveable", "dots_with_no_batch_dims_saveable")  # what people try first
_FINE = 1.0, 0.5  # of what regions hold, for balanced bounds: the less, the longer are regions
_REGIONS, _APART = 4, 8  # the second beside scans
_FIRST, _SECOND, _MORE = 0.2, 0.5, (0.1, 0.35)  # of the bytes that are worth saving
_CLOSE = 0.98  # of the budget: no search for less than what is left
_MOST = 9  # tries of one way of cutting
_AT_ONCE = 2  # of these, before the next way is tried
_NEAR = 0.2  # of the bytes between two tries: where the next may be
_FREE, _LITTLE = 1.002, 0.002  # of the operations: no search for better, or for so little
_GOOD = 1.01  # no other regions are tried, only more to save
_IN_SCANS = 0.1  # of what is worth saving is outside of scans: no regions there


@dataclass(frozen=True)
class Tried:
    """What XLA needs for a choice: bytes of temporaries, and operations."""

    choice: Choice | None
    temporaries: int
    flops: float


@dataclass(frozen=True)
class Fitted:
    """A function with the same results, whose differentiation holds fewer bytes; see `memplan.jax.fit`.

    Attributes
    ----------
    function : callable
        What it was made of. The object is called like it.
    budget : int
        Bytes of temporaries.
    before, after : Tried
        What XLA needs for the function as it was, and for this one.
    tried : tuple of Tried
        All that was compiled on the way.
    policy : str
        What to write by hand for the same.
    interrupted : bool
        Ctrl-C ended the search; this is the best that was found until then.
    """

    function: Callable[..., Any] = field(repr=False)
    budget: int
    before: Tried
    after: Tried
    tried: tuple[Tried, ...] = field(repr=False)
    policy: str = field(repr=False)
    interrupted: bool = False
    _how: Mapping[str, Any] = field(default_factory=lambda: {"argnums": 0}, repr=False)  # of jax.value_and_grad

    @property
    def added_flops(self) -> float:
        """Operations that are added, as a share of those of the step as it was."""
        return self.after.flops / self.before.flops - 1 if self.before.flops else 0.0

    def seconds(self, *args: Any, **kwargs: Any) -> tuple[float, float]:
        """Seconds of a step of the function as it was, and of this one: the least of five runs with these arrays."""
        steps = [jax.jit(jax.value_and_grad(each, **self._how)) for each in (self.function, self)]
        for step in steps:
            jax.block_until_ready(step(*args, **kwargs))
        taken: list[list[float]] = [[], []]
        for _ in range(5):
            for times, step in zip(taken, steps, strict=True):
                begin = time.perf_counter()
                jax.block_until_ready(step(*args, **kwargs))
                times.append(time.perf_counter() - begin)
        return min(taken[0]), min(taken[1])

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.after.choice is None:
            return self.function(*args, **kwargs)
        traced = _traced(self.function, args, kwargs, self._how["argnums"])
        return _run(traced, self.after.choice, args, kwargs)

    def __str__(self) -> str:
        before, after = (sizes.with_bytes(tried.temporaries) for tried in (self.before, self.after))
        head = f"temporaries of a step: {before} as it was, {after} now; operations added: {self.added_flops:.1%}"
        return f"{head}\n{self.policy}"


def fit(
    function: Callable[..., Any],
    budget: int | str,
    *,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    compilations: int = 25,
    time_limit: float | None = None,
    on_tried: Callable[[Tried], object] | None = None,
) -> Fitted:
    """See `memplan.jax.fit`."""
    given, named = calls.positional(args), calls.keywords(kwargs)
    asked = sizes.budget_of(budget, "budget")
    how = {"argnums": argnums, "has_aux": has_aux}
    most, limit = checks.integer(compilations, "compilations", 1, 10**6), checks.seconds(time_limit, "time_limit")
    end = math.inf if limit is None else time.perf_counter() + limit

    def measured(choice: Choice | None) -> Tried:
        def chosen(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs) if choice is None else _run(traced, choice, args, kwargs)

        try:
            compiled = jax.jit(jax.value_and_grad(chosen, **how)).lower(*given, **named).compile()
        except Exception as error:
            first = next(iter(str(error).splitlines()), "")
            raise SourceError(
                f"the gradient of the function does not compile: {type(error).__name__}: {first}"
            ) from error
        found = Tried(choice, compiled.memory_analysis().temp_size_in_bytes, costs.of_compiled(compiled))
        tried.append(found)
        if on_tried is not None:
            on_tried(found)
        return found

    tried: list[Tried] = []
    before = measured(None)
    capacity = asked.of(lambda: before.temporaries)
    if before.temporaries <= capacity:
        return Fitted(function, capacity, before, before, tuple(tried), "as it is", _how=how)
    traced = _traced(function, given, named, argnums)
    search = _search(traced, worthy(traced), before, capacity)
    interrupted = False
    try:
        answer: Any = None  # of the first choice
        while len(tried) < most and time.perf_counter() < end:
            choice = search.send(answer)
            answer = measured(choice)
            if answer.temporaries <= capacity and answer.flops <= _FREE * before.flops:
                break
    except StopIteration:
        pass
    except KeyboardInterrupt:
        if not any(each.temporaries <= capacity for each in tried):
            raise
        interrupted = True
    fitting = [each for each in tried if each.temporaries <= capacity]
    if not fitting:
        least = min(tried, key=lambda each: each.temporaries)
        raise InfeasibleError(
            f"no choice of regions was found whose temporaries fit {sizes.with_bytes(capacity)}; the least found needs "
            f"{sizes.with_bytes(least.temporaries)}, the function as it is {sizes.with_bytes(before.temporaries)}",
            capacity=capacity,
            peak=least.temporaries,
        )
    best = min(fitting, key=lambda each: (each.flops, each.temporaries))
    assert best.choice is not None
    return Fitted(function, capacity, before, best, tuple(tried), _written(traced, best.choice), interrupted, _how=how)


def _search(traced: Traced, values: Sequence[Value], before: Tried, capacity: int) -> Generator[Choice, Tried, None]:
    """Choices to try; each is told what XLA needs for the one before.

    Each way of cutting has its line: nothing is saved, then more and more of the values that are worth most, until all
    are saved. What XLA needs falls at first, where less is computed again at once, and rises then.
    """
    sums = [0, *accumulate(value.bytes for value in values)]
    held = min(1.0, before.temporaries / max(1, sums[-1]))  # XLA computes some values again by itself
    ways = _ways(traced, values, held)
    lines, known = dict[_Way, dict[int, Tried]](), dict[Choice, Tried]()

    def at(way: _Way, count: int) -> Generator[Choice, Tried, None]:
        names = frozenset(name for value in values[:count] for name in value.names)
        choice = way.cut(traced, values, count)._replace(saved=names)
        if choice not in known:
            known[choice] = yield choice
        lines[way][count] = known[choice]

    def share(part: float, low: int = 0, high: int = len(values)) -> int:
        wanted = sums[low] + part * (sums[high] - sums[low])
        return min(high, max(low, bisect_right(sums, wanted) - 1))

    def best() -> float:
        fitting = [found.flops for line in lines.values() for found in line.values() if found.temporaries <= capacity]
        return min(fitting, default=math.inf) / max(1.0, before.flops)

    def worse(found: Tried) -> bool:
        """Whether another choice needs no more bytes, and fewer operations."""
        return any(each.temporaries <= found.temporaries and each.flops < found.flops for each in known.values())

    def gap(way: _Way) -> tuple[float, int, int, _Way] | None:
        """Operations of the most saved values that fit, and how many these are; and the fewest that do not fit."""
        line = lines[way]
        fitting = [count for count, found in line.items() if found.temporaries <= capacity]
        if not fitting or len(line) >= _MOST:
            return None
        low = max(fitting)
        high = min((count for count in line if count > low), default=len(values))
        gain = line[low].flops - line.get(high, before).flops
        more = high - low > 1 and gain > _LITTLE * before.flops and line[low].temporaries < _CLOSE * capacity
        return (line[low].flops, low, high, way) if more else None

    def middle(low: int, high: int, way: _Way) -> int:
        """Between two counts, where what is saved next is worth much less."""
        below, above = lines[way][low].temporaries, lines[way].get(high, before).temporaries
        part = min(0.9, max(0.1, (capacity - below) / max(1, above - below))) if len(lines[way]) % 2 == 0 else 0.5
        first, count, last = (min(high - 1, max(low + 1, share(part + by, low, high))) for by in (-_NEAR, 0, _NEAR))
        return max(
            range(first, last + 1),
            key=lambda at: (values[at - 1].level / values[at].level, -abs(at - count)),
        )

    for way in ways:
        if best() <= _GOOD:
            break
        lines[way] = {}
        first = share(_FIRST * held)
        yield from at(way, first)
        if not worse(lines[way][first]):
            fits = lines[way][first].temporaries <= capacity
            yield from at(way, share(_SECOND * held) if fits else 0)
            for _ in range(_AT_ONCE):
                if (found := gap(way)) and not worse(lines[way][found[1]]):
                    yield from at(way, middle(*found[1:]))
    if best() > _GOOD:
        for policy in _POLICIES if best() == math.inf else _POLICIES[:1]:
            whole = next(way.choice for way in reversed(ways) if not way.choice.chunked)
            for choice in dict.fromkeys((ways[0].choice, whole)):
                yield choice._replace(saved=policy)
    if best() == math.inf:
        for way in sorted(ways, key=lambda way: min(found.temporaries for found in lines[way].values()))[:2]:
            for part in _MORE:
                yield from at(way, share(part * held))
    while open_ := [found for way in lines if (found := gap(way))]:
        _, low, high, way = min(open_, key=lambda found: found[:3])
        yield from at(way, middle(low, high, way))


class _Way(NamedTuple):
    """How a function is cut. With `held`, regions are balanced, and hold that share of the bytes of their values."""

    choice: Choice
    held: float = 0.0

    def cut(self, traced: Traced, values: Sequence[Value], count: int) -> Choice:
        """The choice if the first so many values are saved."""
        if not self.held:
            return self.choice
        again, saved = (_weights(traced, each, self.held) for each in (values[count:], values[:count]))
        return _of(traced.balanced(again, saved))


def _ways(traced: Traced, values: Sequence[Value], held: float) -> list[_Way]:
    """Regions to begin with. All but the last compute again: backward begins with that.

    A scan is in a region, as any other equation, or a region of its own, whose body computes again. If there is little
    outside of scans, they are regions of their own.
    """
    weights = _weights(traced, values)
    outside = sum(weight for k, weight in enumerate(weights) if k not in traced.scans)
    whole = _of(traced.whole)
    balanced = [_Way(whole, fine * held) for fine in _FINE]
    fixed = [_Way(_of(bounds)) for bounds in (traced.layers(), traced.even(_REGIONS, weights)) if len(bounds) > 2]
    inside = [*fixed[:1], balanced[0], *fixed[1:], *balanced[1:]]
    if not traced.scans:
        return [*inside, _Way(whole)]
    cuts = [traced.layers(), traced.even(_APART, weights)]
    if outside <= _IN_SCANS * sum(weights):
        inside, cuts = balanced[: len(traced.scans) - 1], []
    apart = [_of(traced.apart(bounds), bodies=True) for bounds in (*cuts, traced.whole)]
    return [*inside, *map(_Way, dict.fromkeys((*apart, apart[-1]._replace(chunked=True))))]


def _of(bounds: tuple[int, ...], *, bodies: bool = False) -> Choice:
    return Choice(bounds, max(1, len(bounds) - 2), bodies=bodies, tied=len(bounds) > 2)


def _weights(traced: Traced, values: Sequence[Value], share: float = 1.0) -> list[int]:
    """Bytes of values of each equation."""
    weights = [0] * len(traced.eqns)
    for value in values:
        weights[equation_of(value.names[0])] += int(share * value.bytes)
    return weights


def _run(traced: Traced, choice: Choice, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    arrays, _ = _split(args, kwargs)
    return jax.tree.unflatten(traced.tree, traced.results(choice, arrays))


def _traced(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], argnums: int | Sequence[int]
) -> Traced:
    arrays, joined = _split(args, kwargs)

    def flat(*arrays: Any) -> Any:
        args, kwargs = joined(arrays)
        return function(*args, **kwargs)

    numbers = [argnums] if isinstance(argnums, int) else argnums
    chosen = {k % max(1, len(args)) for k in numbers}
    marks = [k in chosen for k, arg in enumerate(args) for leaf in jax.tree.leaves(arg) if _is_array(leaf)]
    return Traced(flat, arrays, [place for place, marked in enumerate(marks) if marked])


def _is_array(leaf: Any) -> bool:
    return hasattr(leaf, "dtype") or isinstance(leaf, (int, float, complex))


def _split(args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Any], Callable[[Sequence[Any]], Any]]:
    """The arrays among all leaves of the arguments, and how arguments are made of others; the rest stays as it is."""
    leaves, tree = jax.tree.flatten((tuple(args), dict(kwargs)))
    places = [k for k, leaf in enumerate(leaves) if _is_array(leaf)]

    def joined(arrays: Sequence[Any]) -> Any:
        whole = list(leaves)
        for k, array in zip(places, arrays, strict=True):
            whole[k] = array
        return jax.tree.unflatten(tree, whole)

    return [leaves[k] for k in places], joined


def _written(traced: Traced, choice: Choice) -> str:
    """What to write by hand."""
    lines = [f"jax.checkpoint(..., policy=jax.checkpoint_policies.{_policy(choice)}) around each of these:"]
    lines += [f"  from {first or '?'} to {last or '?'}" for first, last in traced.places(choice)]
    if choice.bodies:
        lines += ["  the body of each jax.lax.scan" + ", and the scan is one of scans" * choice.chunked]
    lines += ["and jax.lax.optimization_barrier around all that goes into each region, and into the rest"] * choice.tied
    named = Counter(traced.described(name) for name in sorted(choice.names))
    lines += ["with jax.ad_checkpoint.checkpoint_name(..., 'saved') for:"] * bool(named)
    lines += [f"  {text}" + f", {count} times" * (count > 1) for text, count in named.items()]
    return "\n".join(lines)


def _policy(choice: Choice) -> str:
    if isinstance(choice.saved, str):
        return choice.saved
    return "save_only_these_names('saved')" if choice.saved else "nothing_saveable"
