"""Pickles of plain data, read without running anything of them.

A pickle is a program: it imports what it names, and calls it. So nothing that it names is given: what is left are
dicts, lists, tuples, text, bytes and numbers. And it says at which place of a table each object is noted: what names
one beyond its own length asks for memory without end, as no pickle does that was written by a program.
"""

from __future__ import annotations

import io
import os
import pickle
import pickletools
from pathlib import Path
from typing import Any, NoReturn

from ...errors import SourceError


class _Plain(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, and may hold plain data only")

    def persistent_load(self, pid: Any) -> NoReturn:
        raise pickle.UnpicklingError("it asks for an object outside of the file, and may hold plain data only")


def unpickled(path: str | os.PathLike[str], expected: str) -> Any:
    """The plain data of a pickle; SourceError for any other file. Memory in proportion to the file."""
    data = Path(path).read_bytes()
    try:
        _check_places(data)
        return _Plain(io.BytesIO(data)).load()
    except Exception as error:  # a pickle that somebody has made up raises whatever it can
        raise SourceError(f"{path}: expected {expected}, as a pickle: {error or type(error).__name__}") from None


_LENGTHS = {  # bytes of a number that says how many come after it, by what pickletools calls such arguments
    pickletools.TAKEN_FROM_ARGUMENT1: 1,
    pickletools.TAKEN_FROM_ARGUMENT4: 4,
    pickletools.TAKEN_FROM_ARGUMENT4U: 4,
    pickletools.TAKEN_FROM_ARGUMENT8U: 8,
}
_ARGUMENTS = {ord(opcode.code): 0 if opcode.arg is None else opcode.arg.n for opcode in pickletools.opcodes}
_PUT, _LONG_BINPUT = b"pr"
_ENDS = set(b".ciP")  # the pickle, and what `_Plain` refuses


def _check_places(data: bytes) -> None:
    """Walk the opcodes, and hold what each asks for against the length of all. O(opcodes)."""
    fixed = [0] * 256  # bytes of opcodes that ask for nothing
    for code, argument in _ARGUMENTS.items():
        if argument >= 0 and code != _LONG_BINPUT and code not in _ENDS:
            fixed[code] = 1 + argument
    at, end = 0, len(data)
    while at < end:
        code = data[at]
        if skip := fixed[code]:
            at += skip
            continue
        if code in _ENDS or code not in _ARGUMENTS:
            return
        at += 1
        if code == _LONG_BINPUT:
            asked, skip = int.from_bytes(data[at : at + 4], "little"), 4
        elif (width := _LENGTHS.get(_ARGUMENTS[code])) is not None:
            asked = int.from_bytes(data[at : at + width], "little")
            skip = width + asked
        else:  # up to the end of a line
            skip = data.find(b"\n", at) + 1 - at
            if skip <= 0:
                return  # the unpickler says so
            asked = int(data[at : at + skip]) if code == _PUT else 0
        if asked > end:
            raise pickle.UnpicklingError(f"byte {at - 1} asks for {asked} bytes or objects, of {end} bytes in all")
        at += skip
