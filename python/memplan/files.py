"""Writing files so that nothing is ever half written: beside the target first, then renamed."""

from __future__ import annotations

import errno
import os
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a path beside `path`; once its file is written without an error it takes the place of `path`.

    A link stays a link: what it points to is replaced. What is no regular file, such as /dev/stdout, is written to
    directly.
    """
    if os.path.exists(path) and not os.path.isfile(path):
        yield Path(path)
        return
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "the folder does not exist", str(target.parent))
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=".memplan.", suffix=target.suffix)
    os.close(handle)
    beside = Path(name)
    try:
        with _terminated_without(beside):
            yield beside
            beside.chmod(0o666 & ~_umask())
            beside.replace(target)
    finally:
        with suppress(FileNotFoundError):
            beside.unlink()


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write UTF-8 text with one newline at the end."""
    with replacing(path) as beside:
        beside.write_text(text.rstrip("\n") + "\n", encoding="utf-8", newline="\n")


@contextmanager
def _terminated_without(path: Path) -> Iterator[None]:
    """SIGTERM removes the file before it ends the process, unless the program handles that signal itself."""
    handles = signal.getsignal(signal.SIGTERM)
    if handles is not signal.SIG_DFL or threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, _: object) -> None:
        path.unlink(missing_ok=True)
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)

    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, handles)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
