"""Folders of `--xla_dump_to`: which file has a module as it runs, and what XLA has assigned to it."""

from __future__ import annotations

import os
import re
from pathlib import Path

from ..errors import SourceError

_MOST_LISTED = 10
# The stages of a module that has been compiled, the last first. Backends put their names before, as in
# module_0001.jit_step.sm_9.0_gpu_after_optimizations.txt.
_STAGES = ("after_optimizations_after_buffer_assignment.txt", "after_optimizations.txt")
_ASSIGNED = "after_optimizations-buffer-assignment.txt"
_ALLOCATION = re.compile(r"^allocation \d+: size (\d+)(, color [1-9]\d*)?(.*)$", re.MULTILINE)


def is_dump(source: object) -> bool:
    """Whether an object is the path of a folder that has files of a module."""
    return isinstance(source, (str, os.PathLike)) and any(Path(source).glob("module_*"))


def module_in(folder: str | os.PathLike[str]) -> Path:
    """The file of the only module of a folder; SourceError lists them, the largest first, if there are several."""
    files = sorted(path for path in Path(folder).iterdir() if path.is_file())
    last: dict[str, Path] = {}  # by what the names of a module's files begin with
    for stage in _STAGES:
        for path in files:
            if path.name.endswith(stage):
                last.setdefault(path.name.removesuffix(stage), path)
    where = os.fspath(folder)
    if not last:
        raise SourceError(f"{where}: expected a file *{_STAGES[-1]}, as --xla_dump_to writes it, got none")
    if len(last) > 1:
        largest = sorted(last.values(), key=lambda path: -path.stat().st_size)
        names = [path.name for path in largest[:_MOST_LISTED]]
        more = f" and {len(last) - _MOST_LISTED} more" if len(last) > _MOST_LISTED else ""
        raise SourceError(f"{where} has {len(last)} modules; name the file of one: {', '.join(names)}{more}")
    return next(iter(last.values()))


def assigned_beside(path: str | os.PathLike[str]) -> int | None:
    """Bytes of memory space 0 that XLA has assigned to results and temporaries, if a dump beside a module says it.

    Results that lie in arguments count, as they lie in the arena.
    """
    name = os.path.basename(path)
    stage = next((stage for stage in _STAGES if name.endswith(stage)), None)
    beside = Path(path).with_name(name.removesuffix(stage) + _ASSIGNED) if stage is not None else None
    if beside is None or not beside.is_file():
        return None
    allocations = _ALLOCATION.findall(beside.read_text(encoding="utf-8", errors="replace"))
    return sum(int(size) for size, elsewhere, said in allocations if not elsewhere and _is_placed(said)) or None


def _is_placed(said: str) -> bool:
    if ", constant" in said or ", thread-local" in said:
        return False
    return "maybe-live-out" in said or "parameter " not in said
