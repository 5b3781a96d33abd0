"""JSON read as it was meant, and files written so that nothing is ever half written: beside it, then renamed."""

from __future__ import annotations

import csv
import errno
import json
import os
import signal
import tempfile
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

from .errors import SourceError


def read_json(path: str | os.PathLike[str], expected: str) -> dict[str, Any]:
    """The object in a JSON file, such as "a graph dict".

    SourceError: what is not JSON or no object, by line and column; or a key that comes twice, by where it is.
    """
    repeated: list[tuple[dict[str, Any], str]] = []

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) < len(pairs):
            repeated.append((made, Counter(key for key, _ in pairs).most_common(1)[0][0]))
        return made

    try:
        with open(path, encoding="utf-8-sig") as file:
            spec = json.load(file, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        raise SourceError(f"{path}: line {error.lineno}, column {error.colno}: {error.msg}") from None
    except UnicodeDecodeError as error:
        raise SourceError(f"{path}: expected UTF-8 text, got byte {error.object[error.start]:#04x}") from None
    except (RecursionError, ValueError) as error:
        raise SourceError(f"{path}: expected {expected} as JSON, got what Python cannot read: {error}") from None
    for holder, key in reversed(repeated):  # the last one is whole: nothing around it took its place
        where = _where(spec, holder, "")
        raise SourceError(f"{path}: {where or 'the file'} has the key {key!r} more than once")
    if not isinstance(spec, dict):
        raise SourceError(f"{path}: expected {expected}, got {type(spec).__name__}")
    return spec


def read_form(path: str | os.PathLike[str], expected: str, form: str, version: int) -> dict[str, Any]:
    """The object in a JSON file that memplan wrote; SourceError if it is of another form or version."""
    spec = read_json(path, expected)
    if (spec.get("format"), spec.get("version")) != (form, version):
        got = f"{spec.get('format')!r} version {spec.get('version')!r}"
        raise SourceError(f"{path}: expected format {form!r} version {version}, got {got}")
    return spec


def _where(value: Any, wanted: object, name: str) -> str:
    """What leads to an object of a JSON file, as "ops[3].alias[0]"; empty for the file's own."""
    if value is wanted:
        return name
    entries = list(value.items()) if isinstance(value, dict) else []
    entries += [(f"[{i}]", entry) for i, entry in enumerate(value)] if isinstance(value, list) else []
    for key, entry in entries:
        below = f"{name}{'.' if name and isinstance(value, dict) else ''}{key}"
        if entry is wanted:
            return below
        if isinstance(entry, (dict, list)) and (found := _where(entry, wanted, below)):
            return found
    return ""


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


def write_json(path: str | os.PathLike[str], spec: Mapping[str, Any], indent: int | None = 1) -> None:
    """Write an object as UTF-8 JSON, with a newline at the end."""
    with replacing(path) as beside, open(beside, "w", encoding="utf-8", newline="\n") as file:
        json.dump(spec, file, ensure_ascii=False, indent=indent)
        file.write("\n")


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


def write_rows(path: str | os.PathLike[str], header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a header and rows whose first column is a name."""
    lines = list(rows)
    with replacing(path) as beside, open(beside, "w", encoding="utf-8", newline="") as file:
        quote_all = any("\r" in str(line[0]) for line in lines)  # which QUOTE_MINIMAL leaves bare
        quoting: Literal[0, 2] = csv.QUOTE_NONNUMERIC if quote_all else csv.QUOTE_MINIMAL
        writer = csv.writer(file, lineterminator="\n", quoting=quoting)
        writer.writerow(header)
        writer.writerows(lines)
