"""Symbolic dimensions that nobody has given a size: one message, whatever door a model comes through."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..errors import SourceError


class Dimension(NamedTuple):
    """A symbolic dimension: its names, the first of which `dims` takes, and what is known of it."""

    names: tuple[str, ...]
    place: str  # dimension 0 of 'x'
    span: str = ""  # 1 to 64
    example: int | None = None  # its size when the model was traced


def no_sizes(missing: Sequence[Dimension]) -> SourceError:
    """The error that lists symbolic dimensions without a size, and what to pass."""
    listed = "; ".join(_described(dimension) for dimension in missing)
    sizes = {dimension.names[0]: dimension.example for dimension in missing}
    text = ", ".join(f"{name!r}: {'...' if size is None else size}" for name, size in sizes.items())
    flags = " ".join(f"--dims {name}={'N' if size is None else size}" for name, size in sizes.items())
    return SourceError(f"symbolic dimensions without a size: {listed}; pass dims={{{text}}} ({flags})")


def _described(dimension: Dimension) -> str:
    names = " or ".join(map(repr, dimension.names))
    example = "" if dimension.example is None else f"{dimension.example} when it was traced"
    known = ", ".join(part for part in (dimension.place, dimension.span, example) if part)
    return f"{names} ({known})"
