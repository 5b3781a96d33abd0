"""Proofs that no plan fits a capacity, and the check of them."""

from .checker import RefutationError
from .clique import Clique, CliqueError, CliqueMember, heaviest_clique
from .order_bound import OrderBound
from .order_checker import OrderBoundError
from .proven import Proven
from .refutation import Refutation

__all__ = [
    "Clique",
    "CliqueError",
    "CliqueMember",
    "OrderBound",
    "OrderBoundError",
    "Proven",
    "Refutation",
    "RefutationError",
    "heaviest_clique",
]
