"""One plan for sizes in a range: what it needs at each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..text import offer

if TYPE_CHECKING:
    from .plan import Plan


@dataclass(frozen=True)
class AtSize:
    """What a plan for a range needs at one size.

    Attributes
    ----------
    dims : mapping of str to int
        The sizes.
    peak : int
        Bytes that the plan at this size needs.
    fixed : int
        Bytes that are used at this size where the offsets are those of the whole range.
    lower_bound : int
        Bytes below which no plan of this size can peak, in this order of ops.
    like : tuple of int
        The size in the order of whose plan the buffers were placed.
    """

    dims: Mapping[str, int]
    peak: int
    fixed: int
    lower_bound: int
    like: tuple[int, ...]

    @property
    def gap(self) -> float:
        """How far the peak may be from the best possible: peak / lower_bound - 1."""
        return self.peak / self.lower_bound - 1 if self.lower_bound else 0.0


class Ranged(Mapping[tuple[int, ...], AtSize]):
    """The sizes for which a plan was made, in the order of `dims`, and what it needs at those that were looked at.

    Attributes
    ----------
    dims : mapping of str to (int, int)
        The least and the largest size of each dimension that has a range.
    every : bool
        Every size of the range was looked at: the offsets of the plan are verified for all of them. Otherwise, they are
        verified for those that are listed; `Plan.at` verifies any other.
    growing : bool
        No tensor is larger at a size than at one that is larger in some dimensions and smaller in none, among those
        that were looked at.
    """

    def __init__(
        self,
        dims: Mapping[str, tuple[int, int]],
        rows: Mapping[tuple[int, ...], AtSize],
        every: bool,
        growing: bool,
        at: Callable[[dict[str, int]], Plan] | None = None,
    ) -> None:
        self.dims, self.every, self.growing = dict(dims), every, growing
        self._rows, self._at = dict(rows), at

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        return iter(self._rows)

    def __getitem__(self, sizes: tuple[int, ...] | int) -> AtSize:
        key = sizes if isinstance(sizes, tuple) else (sizes,)
        if key not in self._rows:
            raise KeyError(f"the plan was not looked at for {', '.join(self.dims)} = {sizes}; plan.at gives any size")
        return self._rows[key]

    def at(self, sizes: Mapping[str, int]) -> Plan:
        """The plan at one size of the range; see `Plan.at`."""
        for name in sizes:
            if name not in self.dims:
                raise ValueError(f"the plan has no range of {name!r}; {offer(name, list(self.dims), 'dimensions')}")
        for name, (least, most) in self.dims.items():
            if name not in sizes:
                raise ValueError(f"the plan is for a range of {name!r}: give its size, from {least} to {most}")
            size = sizes[name]
            if isinstance(size, bool) or not isinstance(size, int) or not least <= size <= most:
                raise ValueError(f"{name} must be an integer from {least} to {most}, got {size!r}")
        if self._at is None:
            raise ValueError("the plan holds no source: it was read or unpickled")
        return self._at({name: sizes[name] for name in self.dims})

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_at": None}

    def __repr__(self) -> str:
        ranges = ", ".join(f"{name} {least} to {most}" for name, (least, most) in self.dims.items())
        return f"<memplan.plans.Ranged: {ranges}; {len(self)} sizes>"

    def __str__(self) -> str:
        from ..printing.tables import text
        from .ranged_text import ranged_table

        return text(ranged_table(self))

    def _repr_html_(self) -> str:
        from ..printing.tables import html
        from .ranged_text import ranged_table

        return html(ranged_table(self))
