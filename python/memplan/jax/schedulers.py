"""`memplan.jax.flags`: what XLA needs with flags that change the order of the ops, as it says itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax

from .. import sizes
from ..errors import SourceError
from ..printing.tables import Table, text
from .stepping import compiled, lowered

_FOR_MEMORY = {"xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"}
# What a version or backend does not know is left out: jax 0.6 knows the second of CPUs alone.
# Those of GPUs and TPUs were not tried.
_TRIED: Mapping[str, tuple[Mapping[str, Any], ...]] = {
    "cpu": (
        _FOR_MEMORY,
        {"xla_cpu_enable_concurrency_optimized_scheduler": False},
        {**_FOR_MEMORY, "xla_disable_hlo_passes": "cse_barrier_expander"},
    ),
    "gpu": ({"xla_gpu_enable_latency_hiding_scheduler": False}, {"xla_gpu_memory_limit_slop_factor": 80}),
    "tpu": ({"xla_tpu_enable_latency_hiding_scheduler": False},),
}


@dataclass(frozen=True)
class Flagged:
    """What XLA needs with some flags.

    Attributes
    ----------
    options : mapping of str to Any
        The flags, as `compiler_options` of `jax.jit` takes them; empty for those of the process alone.
    temporaries : int
        Bytes, as its memory analysis says them.
    """

    options: Mapping[str, Any]
    temporaries: int

    @property
    def flags(self) -> str:
        """The flags as the variable XLA_FLAGS takes them."""
        return " ".join(
            f"--{name}={str(value).lower()}" if value is False else f"--{name}={value}"
            for name, value in self.options.items()
        )


@dataclass(frozen=True)
class Flags:
    """What was tried, the least bytes first; see `memplan.jax.flags`.

    Attributes
    ----------
    rows : tuple of Flagged
        Of equal ones, that with fewer flags is first.
    now : Flagged
        With the flags of the process.
    """

    rows: tuple[Flagged, ...]
    now: Flagged

    def __str__(self) -> str:
        now = self.now.temporaries
        cells = tuple(
            (sizes.format_bytes(row.temporaries), _less(row.temporaries, now), row.flags or "(as it is)")
            for row in self.rows
        )
        header = ("temporaries", "less", "XLA_FLAGS")
        return text(Table("", header, cells, frozenset(header[:2])))


def _less(size: int, now: int) -> str:
    return "" if now in (0, size) else f"{1 - size / now:.1%}"


def flags(source: Any, args: Any, kwargs: Any) -> Flags:
    step = lowered(source, args, kwargs)
    now = Flagged({}, _temporaries(compiled(step)))
    rows = [now]
    for options in _TRIED.get(jax.default_backend(), ()):
        try:
            rows.append(Flagged(options, _temporaries(compiled(step, options))))
        except SourceError:
            continue
    return Flags(tuple(sorted(rows, key=lambda row: (row.temporaries, len(row.options)))), now)


def _temporaries(step: Any) -> int:
    said = step.memory_analysis()
    if said is None:
        raise SourceError("the backend says nothing of the bytes that it needs")
    return int(said.temp_size_in_bytes)
