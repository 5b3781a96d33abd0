"""A source in an order of its ops: made once, for all planners that are compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .. import _core
from ..errors import UnsupportedError
from ..importers import Network
from ..options.taking import CALLBACKS
from ..planning.orders import check_order
from ..solving.planning import plan

_NOT_FOR_ORDERS = ("capacity", "on_interrupt", "seed", "threads", *CALLBACKS)  # options of planners


@dataclass(frozen=True)
class Ordered:
    """A source in an order of its ops.

    ``bound`` is the bytes below which no plan can peak in any order; None for the given order, of which it is not
    asked, and where nothing is known. ``error`` says why there is no such order. If Ctrl-C came, `interrupted` is True.
    """

    name: str
    source: Network | _core.Problem
    bound: int | None = None
    error: UnsupportedError | None = None
    interrupted: bool = False


def in_order(captured: Network | _core.Problem, order: str, options: Mapping[str, Any]) -> Ordered:
    """A source in an order, which is made for the tensors that may share bytes by the options of `plan`."""
    if order == "given":
        return Ordered(order, captured)
    if not isinstance(captured, Network):
        error = UnsupportedError(f"order {order!r} applies to graphs; a problem has steps, and no ops")
        return Ordered(order, captured, error=error)
    asked = {name: value for name, value in options.items() if name not in _NOT_FOR_ORDERS}
    given = plan(captured, "naive", **asked)
    assert given.graph is not None
    assert given.storage is not None
    found = _core.order_of(given.graph, order, given.storage, tell=options.get("on_order"))
    graph = _core.reordered(given.graph, found.ops)
    bound = found.bound or _core.order_bound(graph, given.storage)[0]
    return Ordered(order, replace(captured, graph=graph), bound or None, interrupted=found.interrupted)


def checked_orders(orders: Sequence[str]) -> list[str]:
    """The names of orders; refuses unknown ones and repeats before any work."""
    return [check_order(name) for name in names_once(orders, "orders", "memplan.orders()")]


def names_once(given: Any, what: str, of: str) -> list[str]:
    """Names that were given, such as those of orders: one at least, and none twice."""
    is_list = isinstance(given, Iterable) and not isinstance(given, (str, Mapping))
    if not is_list or not all(isinstance(name, str) for name in given):
        raise TypeError(f"{what} must be a list of names from {of}, got {given!r}")
    names = list(given)
    if not names:
        raise ValueError(f"{what} must name one {what.removesuffix('s')} at least, got none")
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{what} names {name!r} {names.count(name)} times; once is enough")
    return names
