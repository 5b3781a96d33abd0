"""What is known of a plan: where its buffers lie, which bytes are in use when, what makes its peak, what changed."""

from .changes import Change, Fitting
from .fragmentation import Fragmentation, PoolUse
from .pools import PlannedPool, PlannedPools, Pool
from .ranged import AtSize, Ranged
from .slots import Coalescing, Overlap, Slot
from .tensors import Tensors

__all__ = [
    "AtSize",
    "Change",
    "Coalescing",
    "Fitting",
    "Fragmentation",
    "Overlap",
    "PlannedPool",
    "PlannedPools",
    "Pool",
    "PoolUse",
    "Ranged",
    "Slot",
    "Tensors",
]
