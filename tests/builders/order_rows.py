"""What the registry says of orders, as tests read it."""

from __future__ import annotations

from itertools import islice
from typing import Any

from oracles.plain import legal_orders, waits

ORDERS = 24  # of a graph, at most


def orders_of(graph: dict[str, Any]) -> list[list[int]]:
    """Every order that data and `after` allow; none if there are too many."""
    apart = {**graph, "ops": [{**op, "stream": k} for k, op in enumerate(graph["ops"])]}
    found = [list(order) for order in islice(legal_orders(waits(apart)), ORDERS + 1)]
    return found if len(found) <= ORDERS else []
