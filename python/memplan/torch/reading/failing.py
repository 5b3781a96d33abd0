"""Where a model failed, in the words of the one who wrote it, and what can be done about it."""

from __future__ import annotations

import linecache
import re
import sys
import sysconfig
import traceback
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import fx

from .fake import depends_on_data

_PACKAGES = tuple(str(path.resolve()) for path in (Path(torch.__file__).parent, Path(__file__).parents[2]))
_STANDARD = sysconfig.get_path("stdlib")
OTHERS = (
    "torch.where(condition, a, b), which takes from both, instead of what picks or branches, or a real step: "
    "`with memplan.torch.record() as tape: step()`, then memplan.plan(tape)"
)
_NODE_LINE = re.compile(r'File "([^"]+)", line (\d+), in ')


def place_of(error: BaseException, module: torch.nn.Module) -> str:
    """The module and the line of a model in which it failed, as the end of a sentence; empty if there is none."""
    found = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    own = [frame for frame in found if _of_user(frame.f_code.co_filename)]
    if not own:
        wraps = isinstance(module, torch.nn.parallel.DistributedDataParallel)
        return "; give what it wraps, model.module: synchronizing gradients needs real ones" if wraps else ""
    line = _line(own[-1].f_code.co_filename, next(n for f, n in traceback.walk_tb(error.__traceback__) if f is own[-1]))
    return f"; at {line}, in {_part(found, module)}"


def line_of_user(frame: FrameType | None) -> str:
    """The line of a model that runs, from which a frame was called; empty if there is none."""
    while frame is not None and not _of_user(frame.f_code.co_filename):
        frame = frame.f_back
    return "" if frame is None else _line(frame.f_code.co_filename, frame.f_lineno)


def place_in(frame: FrameType | None) -> str:
    """The line of the model on whose behalf memplan runs in a frame; empty if there is none."""
    while frame is not None and _is_own(frame):
        frame = frame.f_back
    while frame is not None and not _is_own(frame) and not _of_user(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None or _is_own(frame):
        return ""
    return f"at {_line(frame.f_code.co_filename, frame.f_lineno)}"


def place_of_node(node: fx.Node) -> str:
    """The line that a node was traced from, as the end of a sentence; empty where the trace does not say."""
    found = [(file, int(line)) for file, line in _NODE_LINE.findall(str(node.meta.get("stack_trace") or ""))]
    own = [place for place in found if _of_user(place[0])]
    return f"; at {_line(*own[-1])}" if own else ""


def ways_out(error: BaseException, names: Collection[str] = ()) -> str:
    """What else can be done if something depends on data, as the end of a sentence; `names` are those of arguments."""
    if not depends_on_data(error):
        return ""
    without = "a call without labels, whose loss is computed outside, " if "labels" in names else ""
    return f"; ways out: {without}{OTHERS}"


@contextmanager
def finding_line(changed: Callable[[], bool], found: list[str]) -> Iterator[None]:
    """Find the line of a model after which something has changed: `found` gets it, if there is one."""

    def before(frame: FrameType, event: str, arg: Any) -> Any:
        if not _is_of_model(frame.f_code.co_filename):
            return None
        last = frame.f_lineno

        def following(frame: FrameType, event: str, arg: Any) -> Any:
            nonlocal last
            if not found and changed():
                found.append(_line(frame.f_code.co_filename, last))
            last = frame.f_lineno
            return following

        return following

    others = sys.gettrace()
    sys.settrace(before)
    try:
        yield
    finally:
        sys.settrace(others)


@cache
def _is_of_model(file: str) -> bool:
    return _of_user(file)


def _part(frames: list[FrameType], module: torch.nn.Module) -> str:
    """The innermost module that ran."""
    names = {id(part): name for name, part in module.named_modules()}
    for part in _selves(frames):
        if name := names.get(id(part), ""):
            return f"module '{name}' ({type(part).__name__})"
        if part is module:
            break
    return "the model itself"


def _selves(frames: list[FrameType]) -> Iterator[Any]:
    for frame in reversed(frames):
        if frame.f_code.co_argcount and isinstance(part := frame.f_locals.get("self"), torch.nn.Module):
            yield part


@cache
def _of_user(file: str) -> bool:
    """Whether a file is neither of torch nor of memplan nor of Python."""
    path = str(Path(file).resolve())
    library = path.startswith(_STANDARD) and "site-packages" not in path
    return not file.startswith("<") and not library and not any(path.startswith(f"{p}/") for p in _PACKAGES)


def _is_own(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(f"{_PACKAGES[1]}/")


def _line(file: str, number: int) -> str:
    """A line of code, where it is: the file as it is imported."""
    code = linecache.getline(file, number).strip()
    roots = sorted((root for root in sys.path if root and file.startswith(f"{root}/")), key=len)
    short = file[len(roots[-1]) + 1 :] if roots else file
    return f"{short}:{number}" + (f", `{code}`" if code else "")
