"""Writing files so that nothing is ever half written: beside the target first, then renamed."""

from __future__ import annotations

import errno
import os
import tempfile
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


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
