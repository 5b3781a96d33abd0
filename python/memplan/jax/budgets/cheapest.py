"""`memplan.jax.fit`: the cheapest regions for which a step is within a budget, as XLA itself counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax

from ... import calls, sizes
from ...errors import SourceError
from ...plans.failing import InfeasibleError
from .regions import POLICIES, Choice, Traced

_REGIONS = (1, 2, 4, 8, 16)
_HALVINGS = 4  # of how many regions compute again


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
    """

    function: Callable[..., Any] = field(repr=False)
    budget: int
    before: Tried
    after: Tried
    tried: tuple[Tried, ...] = field(repr=False)
    policy: str = field(repr=False)

    @property
    def added_flops(self) -> float:
        """Operations that are added, as a share of those of the step as it was."""
        return self.after.flops / self.before.flops - 1 if self.before.flops else 0.0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _chosen(self.function, self.after.choice)(*args, **kwargs)

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
) -> Fitted:
    """See `memplan.jax.fit`."""
    given, named = calls.positional(args), calls.keywords(kwargs)

    def measured(choice: Choice | None) -> Tried:
        step = jax.value_and_grad(_chosen(function, choice), argnums=argnums, has_aux=has_aux)
        try:
            compiled = jax.jit(step).lower(*given, **named).compile()
        except Exception as error:
            first = next(iter(str(error).splitlines()), "")
            raise SourceError(
                f"the gradient of the function does not compile: {type(error).__name__}: {first}"
            ) from error
        costs = compiled.cost_analysis() or {}
        return Tried(choice, compiled.memory_analysis().temp_size_in_bytes, float(costs.get("flops", 0.0)))

    asked = sizes.budget_of(budget, "budget")
    before = measured(None)
    capacity = asked.of(lambda: before.temporaries)
    tried = [before]
    if before.temporaries <= capacity:
        return Fitted(function, capacity, before, before, tuple(tried), "as it is")
    traced = _traced(function, given, named)
    for policy in POLICIES:
        for choice in _choices(traced, policy):
            tried.append(measured(choice))
        fitting = [each for each in tried if each.temporaries <= capacity]
        if fitting:
            break
    else:
        least = min(tried, key=lambda each: each.temporaries)
        raise InfeasibleError(
            f"no choice of regions was found whose temporaries fit {sizes.with_bytes(capacity)}; the least found needs "
            f"{sizes.with_bytes(least.temporaries)}, the function as it is {sizes.with_bytes(before.temporaries)}",
            capacity=capacity,
            peak=least.temporaries,
        )
    best = min(fitting, key=lambda each: (each.flops, each.temporaries))
    for fewer in _fewer(best, capacity, measured):
        tried.append(fewer)
        if fewer.temporaries <= capacity and (fewer.flops, fewer.temporaries) < (best.flops, best.temporaries):
            best = fewer
    assert best.choice is not None
    return Fitted(function, capacity, before, best, tuple(tried), _written(traced, best.choice))


def _choices(traced: Traced, policy: str) -> Iterator[Choice]:
    """What is tried first: even cuts, of which all but the last region compute again."""
    if traced.has_scans:
        yield Choice(1, 0, policy, bodies=True)
    seen = set[tuple[int, ...]]()
    for regions in _REGIONS:
        bounds = tuple(traced.bounds(regions))
        if bounds not in seen:
            seen.add(bounds)
            count = len(bounds) - 1
            yield Choice(regions, max(1, count - 1), policy)


def _fewer(best: Tried, capacity: int, measured: Callable[[Choice | None], Tried]) -> Iterator[Tried]:
    """Fewer regions that compute again, as long as that fits: by halvings."""
    choice = best.choice
    assert choice is not None
    low, high = 0, choice.wrapped  # too few, enough
    for _ in range(_HALVINGS):
        if high - low <= 1 or choice.bodies:
            return
        middle = (low + high) // 2
        found = measured(choice._replace(wrapped=middle))
        yield found
        low, high = (low, middle) if found.temporaries <= capacity else (middle, high)


def _chosen(function: Callable[..., Any], choice: Choice | None) -> Callable[..., Any]:
    """The function in regions."""
    if choice is None:
        return function

    def in_regions(*args: Any, **kwargs: Any) -> Any:
        traced = _traced(function, args, kwargs)
        arrays, _ = _split(args, kwargs)
        return jax.tree.unflatten(traced.tree, traced.results(choice, arrays))

    return in_regions


def _traced(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Traced:
    arrays, joined = _split(args, kwargs)

    def flat(*arrays: Any) -> Any:
        args, kwargs = joined(arrays)
        return function(*args, **kwargs)

    return Traced(flat, arrays)


def _split(args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Any], Callable[[Sequence[Any]], Any]]:
    """The arrays among all leaves of the arguments, and how arguments are made of others; the rest stays as it is."""
    leaves, tree = jax.tree.flatten((tuple(args), dict(kwargs)))
    places = [k for k, leaf in enumerate(leaves) if hasattr(leaf, "dtype") or isinstance(leaf, (int, float, complex))]

    def joined(arrays: Sequence[Any]) -> Any:
        whole = list(leaves)
        for k, array in zip(places, arrays, strict=True):
            whole[k] = array
        return jax.tree.unflatten(tree, whole)

    return [leaves[k] for k in places], joined


def _written(traced: Traced, choice: Choice) -> str:
    """What to write by hand."""
    how = f"jax.checkpoint(..., policy=jax.checkpoint_policies.{choice.policy})"
    if choice.bodies:
        return f"{how} around the body of each jax.lax.scan"
    lines = [f"{how} around each of these:"]
    lines += [f"  from {first or '?'} to {last or '?'}" for first, last in traced.places(choice)]
    return "\n".join(lines)
