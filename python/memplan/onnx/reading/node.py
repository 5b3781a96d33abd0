"""A node as the rules of loops see it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...importers import claims
from .parameters import Parameters


@dataclass(frozen=True)
class Node(claims.Seen):
    """A node with its parameters and the shapes of what it reads and writes."""

    op_type: str
    parameters: Parameters

    def attribute(self, name: str, otherwise: Any = None) -> Any:
        return self.parameters.attributes.get(name, otherwise)

    def axis(self, rank: int, otherwise: int) -> int:
        return int(self.attribute("axis", otherwise)) % max(1, rank)


Rule = Callable[[Node], claims.Claim | None]
