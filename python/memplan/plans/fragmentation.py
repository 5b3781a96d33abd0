"""What an allocator reserved, what was in use at most, and what a plan of the same blocks needs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PoolUse:
    """A pool of torch's CUDA allocator: the segments of a device, a stream and, if it is not (0, 0), a private pool.

    Attributes
    ----------
    device, stream, pool
        Which; `stream` is an address, 0 for the default stream.
    blocks : int
        Blocks that lived in it.
    reserved : int
        The most bytes that its segments held at once.
    allocated : int
        The most bytes in use at once, each block rounded up as the allocator does.
    planned : int or None
        Bytes of an arena in which a plan puts its blocks, without those that no block ever takes.
    """

    device: int
    stream: int
    pool: tuple[int, int]
    blocks: int
    reserved: int
    allocated: int
    planned: int | None = None

    @property
    def name(self) -> str:
        """Such as "device 0, stream 0, pool (0, 1)"."""
        private = f", pool {self.pool}" if self.pool != (0, 0) else ""
        return f"device {self.device}, stream {self.stream:#x}{private}"


@dataclass(frozen=True)
class Fragmentation:
    """What was reserved, what was allocated at most, what a plan needs, and hence what fragmentation costs; in bytes.

    Attributes
    ----------
    reserved : int
        The most bytes that segments held at once; 0 if the snapshot has no segments.
    allocated : int
        The most bytes in use at once, each block rounded up as the allocator does.
    requested : int
        The most bytes that were asked for and in use at once, without rounding.
    planned : int or None
        The peak of a plan of the same blocks.
    pools : tuple of PoolUse
        The same by device, stream and pool. Their peaks may be at different times, so they may add up to more.
    notes : tuple of str
        What the snapshot leaves out, and how that was read.
    """

    reserved: int
    allocated: int
    requested: int
    planned: int | None
    pools: tuple[PoolUse, ...]
    notes: tuple[str, ...] = ()

    @property
    def lost(self) -> int | None:
        """Bytes that were reserved beyond what the plan needs; below 0 where the plan needs more.

        None without a plan, and where the snapshot does not say what was reserved.
        """
        return None if self.planned is None or not self.reserved else self.reserved - self.planned

    def __str__(self) -> str:
        from .fragmentation_text import fragmentation_text

        return fragmentation_text(self)
