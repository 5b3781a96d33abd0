"""A snapshot of the moment when memory runs out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from ...files import replacing
from ..private import dump_memory_snapshot, record_memory_history


@contextmanager
def recording(path: str | os.PathLike[str], *, max_entries: int = 100_000) -> Iterator[None]:
    """Record the work of torch's CUDA allocator, and write a snapshot if memory runs out.

    ::

        with memplan.torch.recording("oom.pickle"):
            train()

    The error is raised on. ``memplan explain oom.pickle`` then says what was held, and ``memplan what-if oom.pickle``
    which settings would fit.

    Parameters
    ----------
    path
        The file to write.
    max_entries
        The latest events that are kept.

    Raises
    ------
    RuntimeError
        torch finds no GPU.
    """
    if not torch.cuda.is_available():
        raise RuntimeError("recording needs a GPU that torch can use; this torch finds none")
    record_memory_history(max_entries=max_entries)
    try:
        yield
    except torch.cuda.OutOfMemoryError:
        with replacing(path) as unfinished:
            dump_memory_snapshot(os.fspath(unfinished))
        raise
    finally:
        record_memory_history(enabled=None)
