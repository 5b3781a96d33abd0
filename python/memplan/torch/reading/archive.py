"""A .pt2 file as torch.export.load may read it: made anew, without what torch would unpickle or run.

torch unpickles example inputs, and weights and constants of some kinds, without restriction, runs compiled code that
lies beside a program, and makes code from the program's description (`vetting`). So memplan gives torch an archive
that it writes itself, from what it has read with restrictions:

    description                  looked through, entry by entry
    weights and constants        of the same sizes, filled with zeros: plans ask for sizes only; to run, as they are
    the same, where pickled      read by torch.load(weights_only=True), and written again
    example inputs, other files  left out
    objects of other classes     refused, as torch has no restricted way to read them

torch.export.save compresses nothing, so entries are not larger than the file. Those that are much larger would fill
memory, and are refused too.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Iterator
from typing import Any

from ...errors import SourceError
from .vetting import Untrusted, vetted

_ZEROS = bytes(2**20)
_FREE_BYTES = 2**25  # that entries may take in any file
_INFLATION = 16  # and as many bytes for each of the file
_KEPT_BYTES = 8192  # of constants: small ones may steer the program
_SECTIONS = (("weights", "weight_"), ("constants", "tensor_"))
_OLD_PICKLES = ("serialized_state_dict.pt", "serialized_constants.pt")
_UNPICKLED = "which torch can only unpickle without restriction"
_OLD_PROGRAM = "serialized_exported_program.json"


def harmless(path: str | os.PathLike[str], *, weights: bool = False) -> io.BytesIO:
    """The exported program of a .pt2 file, as an archive that torch.export.load reads without running anything of it.

    With `weights`, the archive holds the weights of the file, not zeros. SourceError if the file is no such archive, or
    names the entry that torch could only read by running it.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            source = _Source(archive, os.path.getsize(path))
            made = io.BytesIO()
            with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as target:
                _Rebuilt(source, target, weights).write()
    except (zipfile.BadZipFile, NotImplementedError, EOFError, zipfile.LargeZipFile, ValueError, RuntimeError) as error:
        if isinstance(error, SourceError):
            raise
        raise SourceError(f"expected an archive of torch.export.save: {error}") from error
    made.seek(0)
    return made


class _Source:
    """The entries of an archive, by their names below its folder."""

    def __init__(self, archive: zipfile.ZipFile, size: int) -> None:
        self._archive, self._size = archive, size
        self._left = _FREE_BYTES + _INFLATION * size  # bytes that entries may hold
        names = archive.namelist()
        self.is_old = _OLD_PROGRAM in names
        folder = "" if self.is_old or not names else names[0].split("/")[0] + "/"
        self._entries = {
            info.filename.removeprefix(folder): info for info in archive.infolist() if info.filename.startswith(folder)
        }

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def names(self, start: str) -> list[str]:
        return sorted(name for name in self._entries if name.startswith(start))

    def read(self, name: str) -> bytes:
        if name not in self:
            raise SourceError(f"expected an archive of torch.export.save, which has the entry {name!r}")
        return b"".join(self._chunks(self._entries[name]))

    def json(self, name: str) -> Any:
        try:
            return json.loads(self.read(name))
        except (ValueError, RecursionError) as error:
            raise SourceError(f"{name}: expected JSON: {error}") from None

    def size(self, name: str) -> int:
        """Bytes of an entry; what it claims is held against the file."""
        if name not in self:
            raise SourceError(f"expected an archive of torch.export.save, which has the entry {name!r}")
        entry = self._entries[name]
        if entry.compress_type == zipfile.ZIP_STORED:
            if entry.file_size > self._size:
                raise SourceError(f"{name}: claims {entry.file_size} bytes in a file of {self._size}")
            self._take(entry, entry.file_size)
            return entry.file_size
        return sum(map(len, self._chunks(entry)))

    def _chunks(self, entry: zipfile.ZipInfo) -> Iterator[bytes]:
        """What is in an entry, whatever it claims."""
        with self._archive.open(entry) as file:
            while chunk := file.read(2**20):
                self._take(entry, len(chunk))
                yield chunk

    def _take(self, entry: zipfile.ZipInfo, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise SourceError(
                f"{entry.filename}: the entries of a file of {self._size} bytes hold {_INFLATION} times as many, "
                "and torch.export.save does not compress"
            )


class _Rebuilt:
    """Writes what may be read of a source into another archive."""

    def __init__(self, source: _Source, target: zipfile.ZipFile, weights: bool) -> None:
        self._source, self._target, self._weights = source, target, weights

    def write(self) -> None:
        if self._source.is_old:
            return self._write_old()
        if "models/model.json" not in self._source:
            compiled = self._source.names("data/aotinductor/")
            what = "a package that was compiled (AOTInductor)" if compiled else "no program called 'model'"
            raise SourceError(f"expected what torch.export.save wrote, got {what}")
        for name in ("archive_format", "archive_version", "byteorder", ".data/version"):
            if name in self._source:
                self._put(name, self._source.read(name)[:16])
        self._put("models/model.json", _text(vetted(self._source.json("models/model.json"))))
        self._put("data/sample_inputs/model.pt", b"")
        for section, prefix in _SECTIONS:
            self._write_payloads(f"data/{section}/", prefix)

    def _write_old(self) -> None:
        """The layout before torch 2.8."""
        self._target.writestr("version", self._source.read("version")[:16])
        self._target.writestr(_OLD_PROGRAM, _text(vetted(self._source.json(_OLD_PROGRAM))))
        for name in _OLD_PICKLES:
            self._target.writestr(name, _restricted(self._source.read(name), name))
        self._target.writestr("serialized_example_inputs.pt", b"")

    def _write_payloads(self, folder: str, prefix: str) -> None:
        old = f"{folder}model.pt"
        if old in self._source:
            self._put(old, _restricted(self._source.read(old), old))
            return
        name = f"{folder}model_{folder.split('/')[1]}_config.json"
        config = vetted(self._source.json(name), name)
        written: set[str] = set()
        for what, payload in _payloads(config, name):
            path = payload["path_name"]
            if not path.startswith(prefix):
                raise Untrusted(f"{folder}{path}: {what!r} is an object of a class of its own, {_UNPICKLED}")
            if path not in written:
                written.add(path)
                self._write_payload(folder + path, bool(payload.get("use_pickle")), prefix)
        self._put(name, _text(config))

    def _write_payload(self, name: str, pickled: bool, prefix: str) -> None:
        if pickled:
            self._put(name, _restricted(self._source.read(name), name))
            return
        size = self._source.size(name)
        if self._weights or (prefix == "tensor_" and size <= _KEPT_BYTES):
            self._put(name, self._source.read(name))
            return
        with self._target.open(f"model/{name}", "w", force_zip64=True) as entry:
            for begin in range(0, size, len(_ZEROS)):
                entry.write(_ZEROS[: size - begin])

    def _put(self, name: str, data: bytes) -> None:
        self._target.writestr(f"model/{name}", data)


def _payloads(config: Any, where: str) -> Iterator[tuple[str, dict[str, Any]]]:
    entries = config.get("config") if isinstance(config, dict) else None
    if not isinstance(entries, dict):
        raise SourceError(f"{where}: expected a dict with 'config'")
    for name, payload in entries.items():
        if not isinstance(payload, dict) or not isinstance(payload.get("path_name"), str):
            raise SourceError(f"{where}: expected a path_name for {name!r}")
        yield name, payload


def _restricted(data: bytes, name: str) -> bytes:
    """A pickle of torch.save, read with restrictions and written again."""
    import torch

    if not data:
        return data
    _check_inside(data, name)
    try:
        held = torch.load(io.BytesIO(data), weights_only=True)
    except Exception as error:  # whatever a pickle that somebody has made up may raise
        raise Untrusted(f"{name}: holds more than tensors, {_UNPICKLED}") from error
    written = io.BytesIO()
    torch.save(held, written)
    return written.getvalue()


def _check_inside(data: bytes, name: str) -> None:
    """What torch.save wrote is an archive itself, of which each entry takes as many bytes as it claims."""
    if not zipfile.is_zipfile(io.BytesIO(data)):
        return
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        claimed = sum(entry.file_size for entry in archive.infolist())
    if claimed > _FREE_BYTES + _INFLATION * len(data):
        raise SourceError(f"{name}: claims {claimed} bytes in an archive of {len(data)}")


def _text(value: Any) -> bytes:
    return json.dumps(value).encode()
