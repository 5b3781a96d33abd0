"""The table of orders of ops: the core's rows."""

from __future__ import annotations

from dataclasses import dataclass

from .. import _core
from ..text import one_of
from .interface import Parameter, parameters_of


@dataclass(frozen=True)
class OrderInfo:
    """A row of the table: what an order of ops is, and where it comes from."""

    name: str
    title: str
    """One line for people."""
    complexity: str
    """For n ops and m waits between them."""
    source: str
    """Paper or project."""
    parameters: tuple[Parameter, ...] = ()
    """What may follow the name, as in "windows:start=newest,work=1000000"."""


def orders() -> list[OrderInfo]:
    """The orders in which ops may run, by name: what ``plan(source, order=NAME)`` takes.

    "given" is the order of the source. "best" is never worse than that. Any other is taken as its rule or search gives
    it, and may be worse.
    """
    return [
        OrderInfo(row.name, row.title, row.complexity, row.source, parameters_of(row.parameters))
        for row in _core.orders()
    ]


def order_names() -> list[str]:
    """The names that ``order=`` takes, in the order of the table."""
    return [row.name for row in _core.orders()]


def check_order(order: object) -> str:
    """Refuse what names no order, or gives it what it does not take."""
    if not isinstance(order, str):
        raise TypeError(f"order must be a name from orders(), got {order!r}")
    name = order.partition(":")[0]
    if name not in order_names():
        raise ValueError(one_of("order", order_names(), name))
    _core.check_order(order)
    return order
