"""The pools of a plan in pictures: a band each, one above the other, as high as the pool is where that can be shown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..plans.plan import Plan
from ..plans.pools import PlannedPool, PlannedPools
from ..printing.units import format_bytes, shortened, tick, unit_of
from .colours import PALETTE
from .figures import ink

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHADE, LIMIT = "#F3F3F3", PALETTE[5]
_MOST_ROOM = 2  # times the peak of a pool: where its capacity is further away, it is not drawn
_APART = 50  # of what all pools take: as much is between a capacity and the next pool
_FONT = 9.0


@dataclass(frozen=True)
class Band:
    """A pool in a picture: bytes [begin, end) of it, and where its capacity is, if that is in sight."""

    pool: PlannedPool
    begin: int
    end: int
    limit: int | None

    @property
    def text(self) -> str:
        """The name, and how full the pool is."""
        room = "" if self.pool.capacity is None else f"\nof {format_bytes(self.pool.capacity)}"
        return f"{shortened(self.pool.name, 16)}\n{format_bytes(self.pool.peak)}{room}"


def bands(plan: Plan) -> list[Band]:
    """The pools of a plan that `spaced` gave; none for a plan in one arena."""
    pools = () if plan.pools is None else tuple(plan.pools.values())
    return [Band(m, m.begin, m.begin + _room(m), m.begin + _room(m) if _shows(m) else None) for m in pools]


def spaced(plan: Plan) -> Plan:
    """The plan to be drawn: pools lie as far apart as their capacities say, and begin at round addresses.

    Where the capacity of one is drawn, the next begins above that line.
    """
    if plan.pools is None:
        return plan
    begin, end, pools = 0, 0, []
    rooms = sum(map(_room, plan.pools.values()))
    unit, apart = 1 << max(rooms.bit_length() - 4, 0), max(rooms // _APART, 1)
    shift = np.zeros(len(plan.pools), dtype=np.int64)
    for k, pool in enumerate(plan.pools.values()):
        begin = -(-begin // unit) * unit
        shift[k] = begin - pool.begin
        pools.append(replace(pool, begin=begin))
        end = begin + _room(pool)
        begin = end + apart * _shows(pool)
    offsets = plan.offsets + shift[plan.pools.of_buffer]
    drawn = PlannedPools(pools, plan.pools.of_buffer, plan.pools.cost_bound, accessed=plan.pools.accessed)
    return replace(plan, offsets=offsets, peak=end, pools=drawn)


def _shows(pool: PlannedPool) -> bool:
    return pool.capacity is not None and pool.peak <= pool.capacity <= _MOST_ROOM * pool.peak


def _room(pool: PlannedPool) -> int:
    return pool.capacity if pool.capacity is not None and _shows(pool) else pool.peak


def draw_bands(plan: Plan, ax: Axes) -> None:
    """Where each pool begins and ends, and on the right its name."""
    found = bands(plan)
    for k, band in enumerate(found):
        if k % 2:
            ax.axhspan(band.begin, band.end, color=ink(ax), alpha=0.05, linewidth=0, zorder=0.2)
        ax.axhline(band.begin, color=ink(ax), linewidth=1.4, zorder=4)
    limits = [band.limit for band in found if band.limit is not None]
    for limit in limits:
        label = "capacity" if limit == limits[0] else None
        ax.axhline(limit, color=LIMIT, linewidth=1.2, linestyle="-.", zorder=4.1, label=label)
    names: Any = ax.secondary_yaxis("right")
    line = 1.25 * _FONT * max(plan.peak, 1) / (ax.get_window_extent().height * 72 / float(ax.figure.get_dpi()))
    names.set_yticks(places_of_names(found, line), [band.text for band in found])
    names.tick_params(length=0, labelsize=_FONT)
    for label in names.yaxis.get_majorticklabels():
        label.set_parse_math(False)
    names.spines[:].set_visible(False)


def places_of_names(found: Sequence[Band], line: float) -> list[float]:
    """The middle of each band, or as far above as the names below it ask for, whose lines are so many bytes high."""
    places: list[float] = []
    free = -np.inf
    for band in found:
        height = line * len(band.text.splitlines())
        places.append(max((band.begin + band.end) / 2, free + height / 2))
        free = places[-1] + height / 2
    return places


def scale_bands(plans: Iterable[Plan], ax: Axes) -> None:
    """Addresses that count from the base of each pool, if all plans, which share the axis, have the same bands."""
    from matplotlib.ticker import FixedLocator, FuncFormatter

    first, *others = [[(band.begin, band.end, band.pool.base) for band in bands(plan)] for plan in plans]
    if not first or any(other != first for other in others):
        return
    top = max(first[-1][1], 1)
    scale, unit = unit_of(top)
    step = max(round(tick(top / scale) * scale), 1)
    places = {
        begin + inside: f"{(base + inside) / scale:g}"
        for begin, end, base in first
        for inside in range(0, max(end - begin - step // 2, 1), step)
    }
    ax.yaxis.set_major_locator(FixedLocator(list(places)))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: places.get(round(value), "")))
    ax.set_ylabel(f"address in the pool ({unit})")
