"""`memplan.largest`: the largest batch, length or other size with which a step fits a budget."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from ..errors import SourceError
from ..estimating.estimate import estimate
from ..estimating.result import Largest
from ..frontend import stepped, steps_of
from ..plans.failing import InfeasibleError
from ..plans.plan import Plan
from ..sizes import besides_kept, in_bytes
from .fit import fit as fit_plan

_MOST = 2**31 - 1
_STARTS = (1, 2, 8, 64)  # what a symbolic dimension is tried with first
_Axes = Mapping[str, int]


def largest(
    model: Any,
    budget: int | str,
    *,
    axes: Mapping[str, int] | None = None,
    dim: str | None = None,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    dims: Mapping[str, int] | None = None,
    trust: bool = False,
    train: bool = False,
    optimizer: Any = None,
    autocast: Any = None,
    loss: Callable[[Any], Any] | None = None,
    device: Literal["cpu", "cuda"] = "cpu",
    fit: bool = False,
    time_limit: float | None = None,
) -> Largest:
    """The largest batch or length with which a step is within a budget, by bisection. Nothing is allocated for it.

    Each size is looked at by itself, as `estimate` does. The size that is found fits, and one more does not. On CUDA,
    fragmentation counts: a size fits if `Estimate.suffices` does.

    Parameters
    ----------
    model
        A torch.nn.Module. Or a file, exported program or ONNX model with a symbolic dimension.
    budget
        Bytes, as an integer or text such as "24GiB", for all that a step holds: weights, states and inputs too. "kept +
        24GiB" leaves these out.
    axes
        Of a module, which axis of which arguments is the size: ``{"x": 0}`` by the name that forward gives them. All
        have the same size.
    dim
        Of another source, the symbolic dimension that is the size: ``"batch"``. The others are in `dims`.
    args, kwargs, dims, trust, train, optimizer, autocast, loss, device
        As for `estimate`.
    fit
        Ops may run again, as by `memplan.fit`: in an arena beside all that lies outside of it. Takes no autocast and
        no loss.
    time_limit
        Seconds for each search with ``fit=True``.

    Raises
    ------
    TypeError, ValueError
        Bad input; any size fits.
    SourceError
        The source has no such dimension, or holds for none of the sizes that were tried.
    """
    if fit and (autocast is not None or loss is not None):
        raise TypeError("fit=True takes no autocast and no loss: it plans what capture sees")
    text, besides = besides_kept(budget)
    held = in_bytes(text, "budget")
    how: dict[str, Any] = {"train": train, "optimizer": optimizer, "device": device}
    only: dict[str, Any] = {"autocast": autocast, "loss": loss}
    plans: dict[int, Plan] = {}

    def needs_as(size: int, reading: dict[str, Any]) -> int | None:
        found = estimate(model, **reading, **how, **only)
        if not fit:
            return (found.suffices or found.total) - besides * found.kept
        return _fitted(model, held, 0 if besides else found.kept, reading, how, time_limit, plans, size)

    if (steps := steps_of(model)) is not None:
        if dim is not None or dims or trust:
            raise TypeError("dim, dims and trust are for files and graphs; a module takes axes of its arguments")
        sized = steps.sized(model, args, kwargs, axes)
        found, tried = _bisect(sized.explained(lambda size: needs_as(size, sized.of(size))), held, sized.now)
        return _largest(found, tried, held, besides, plans)
    if axes is not None or args or kwargs:
        raise TypeError(f"axes, args and kwargs are for {stepped()}; other sources take dim, a name, and dims")
    named = _Named(lambda size: needs_as(size, {"dims": {**(dims or {}), _name(dim): size}, "trust": trust}))
    found, tried = _bisect(named, held, named.start())
    return _largest(found, tried, held, besides, plans, named.limit if found + 1 in tried else "")


def _largest(
    found: int,
    tried: Mapping[int, int | None],
    budget: int,
    besides: bool,
    plans: Mapping[int, Plan],
    limit: str = "",
) -> Largest:
    plan = plans.get(found)
    fitting = None if plan is None else plan.fitting
    return Largest(
        found,
        budget,
        tried.get(found),
        tried.get(found + 1),
        dict(sorted(tried.items())),
        () if fitting is None else fitting.changes,
        0.0 if fitting is None else fitting.added_cost / max(fitting.cost, 1.0),
        limit if tried.get(found + 1) is None else "",
        besides,
    )


def _name(dim: Any) -> str:
    if not isinstance(dim, str):
        raise TypeError(f"dim must be the name of a symbolic dimension of the source, such as 'batch', got {dim!r}")
    return dim


class _Named:
    """What a source needs with a symbolic dimension of some size; it may hold for a range of sizes only."""

    def __init__(self, needs: Callable[[int], int | None]) -> None:
        self._needs, self._held, self.limit = needs, 0, ""

    def start(self) -> int:
        """A small size for which the source holds; the error of the smallest where there is none."""
        errors: list[SourceError] = []
        for size in _STARTS:
            try:
                self(size)
            except SourceError as error:
                errors.append(error)
            else:
                return size
        raise errors[0]

    def __call__(self, size: int) -> int | None:
        try:
            needed = self._needs(size)
        except SourceError as error:
            if not self._held:
                raise
            self.limit = str(error) if size > self._held else self.limit
            return None
        self._held = max(self._held, size)
        return needed


def _fitted(
    model: Any,
    budget: int,
    outside: int,
    reading: Mapping[str, Any],
    how: Mapping[str, Any],
    time_limit: float | None,
    plans: dict[int, Plan],
    size: int,
) -> int | None:
    """Bytes of a plan within the budget and of what lies outside of it; what is needed at least where none fits."""
    device = None if how["device"] == "cpu" else how["device"]
    named: dict[str, Any] = {"train": how["train"], "optimizer": how["optimizer"], "device": device}
    if outside > budget:
        return outside
    try:
        plan = fit_plan(model, budget - outside, alignment=64, time_limit=time_limit, **reading, **named)
    except InfeasibleError as error:
        return outside + error.lower_bound if error.proven else None
    plans[size] = plan
    return outside + plan.held


def _bisect(needs: Callable[[int], int | None], budget: int, now: int) -> tuple[int, dict[int, int | None]]:
    """A size that fits while one more does not, and all that was tried.

    Bytes mostly grow along a line: the next size is where the line through the last two meets the budget. Every third
    one is in the middle of what is left, so that the number of sizes is logarithmic whatever they need.
    """
    tried: dict[int, int | None] = {}
    fits, above = 0, _MOST
    size = now
    while True:
        need = tried[size] = needs(size)
        if need is not None and need <= budget:
            fits = max(fits, size)
        else:
            above = min(above, size)
        if fits == _MOST - 1:
            raise ValueError("any size fits: what is held does not grow with it")
        if above - fits <= 1:
            return fits, tried
        size = _next(tried, fits, above, budget)


def _next(tried: Mapping[int, int | None], fits: int, above: int, budget: int) -> int:
    middle = fits * 2 if above == _MOST else (fits + above) // 2
    known = [(size, need) for size, need in tried.items() if need is not None][-2:]
    guess = middle
    if len(tried) % 3 and len(known) == 2 and known[0][1] != known[1][1]:
        (size, need), (other, its_need) = known
        guess = size + (budget - need) * (other - size) // (its_need - need)
    return min(max(guess, fits + 1), above - 1)
