"""Where in the program an allocation was made."""

from __future__ import annotations

import sys
from pathlib import Path

_HERE = str(Path(__file__).parent)
_DEPTH = 32


def stack() -> tuple[str, ...]:
    """The calls that led here, the innermost first, as "file:line function": without those of torch and of memplan."""
    frame = sys._getframe(1)
    calls: list[str] = []
    while frame is not None and len(calls) < _DEPTH:
        file = frame.f_code.co_filename
        if not _is_inside(file):
            name = getattr(frame.f_code, "co_qualname", frame.f_code.co_name)  # from Python 3.11 on
            calls.append(f"{file}:{frame.f_lineno} {name}")
        frame = frame.f_back  # type: ignore[assignment]
    return tuple(calls)


def _is_inside(file: str) -> bool:
    return file.startswith((_HERE, "<frozen")) or "/site-packages/torch/" in file
