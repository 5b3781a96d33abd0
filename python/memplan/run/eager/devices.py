"""The allocators by device."""

from __future__ import annotations

from .cuda import cuda
from .library import Library, cpu


def library_of(device: str) -> Library:
    """The allocator of "cpu" or "cuda"."""
    return cuda() if device == "cuda" else cpu()
