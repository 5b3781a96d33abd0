"""What a plan pays for pairs that share bytes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Pricing:
    """The price of a plan.

    Attributes
    ----------
    price : int
        What the pairs that share bytes cost.
    price_bound : int
        What every plan within the capacity pays at least.
    peak_bound : int
        What every plan peaks at that pays no more than this one, within the capacity, proven.
    sharing : tuple of (str, str)
        Pairs with a price that share bytes.
    """

    price: int
    price_bound: int
    peak_bound: int
    sharing: tuple[tuple[str, str], ...]
