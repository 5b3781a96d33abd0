"""A name for a block of memory, from the stack that allocated it."""

from __future__ import annotations

import re
from typing import Any

# Files of torch, as installed or beside its source; code that its compilers have written counts as the user's.
_TORCH = re.compile(
    r"(?:site|dist)-packages[/\\](?:torch|triton)[/\\]"
    r"|[/\\]torch[/\\](?:_\w+|nn|optim|autograd|utils|cuda|distributed|fx|func|amp|jit|ao|library|functional|overrides"
    r"|random|storage|serialization|hub|multiprocessing|export|compiler|nested|sparse|masked|onnx)(?:[/\\]|\.py$)"
)
_NODE = re.compile(r"(\w+Backward\d*)::apply\b")  # a node of autograd, whose thread has no frames of Python
_CALLED = re.compile(r"\bat::_ops::(\w+)::")


_USER, _BACKWARD, _WITHIN, _OPERATOR, _OTHER, _NONE = range(6)  # what a frame says, the best first


class Namer:
    """Names by innermost frames of user code: "train.py:30:step", and "train.py:30:step#2" where that is taken.

    A stack without user code is named by the node of autograd in it, else by the innermost frame of torch in Python,
    else by the operator. Frames are dicts that stacks share, so each is looked at once.
    """

    def __init__(self) -> None:
        self._seen: dict[int, tuple[int, str, Any]] = {}  # by id; the frame is kept, so that its id stays its own
        self._taken: dict[str, int] = {}

    def name(self, frames: Any, otherwise: str) -> str:
        """A name that no other block has; `otherwise` where the stack says nothing."""
        return self._unique(self.place(frames) or otherwise)

    def place(self, frames: Any) -> str:
        """Where a stack is, which other blocks may share; "" where it says nothing."""
        best, name = _NONE, ""
        for frame in frames if isinstance(frames, (list, tuple)) else ():
            rank, text, _ = self._seen.get(id(frame)) or self._look(frame)
            if rank < best:
                best, name = rank, text
                if rank == _USER:
                    break
        return name

    def _look(self, frame: Any) -> tuple[int, str, Any]:
        self._seen[id(frame)] = entry = (*_said_by(frame), frame)
        return entry

    def _unique(self, name: str) -> str:
        while True:
            count = self._taken[name] = self._taken.get(name, 0) + 1
            if count == 1:
                return name
            name = f"{name}#{count}"


def _said_by(frame: Any) -> tuple[int, str]:
    file, line, function = (frame.get(k) for k in ("filename", "line", "name")) if isinstance(frame, dict) else [""] * 3
    if not isinstance(file, str) or not isinstance(function, str):
        return _NONE, ""
    if file.endswith(".py") or file.startswith("<"):
        base = file.replace("\\", "/").rpartition("/")[2]
        return _WITHIN if _TORCH.search(file) else _USER, f"{base}:{line}:{function}"
    for rank, pattern in ((_BACKWARD, _NODE), (_OPERATOR, _CALLED)):
        if found := pattern.search(function):
            return rank, found[1]
    return (_NONE, "") if "/" in file or "?" in file else (_OTHER, function)  # a frame of a tool, not of a program
