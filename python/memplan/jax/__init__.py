"""The wing of JAX: it reads what XLA has compiled. JAX is imported by whoever has a function of it."""

from .wing import WING

__all__ = ["WING"]
