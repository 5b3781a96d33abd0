"""Pickles of plain data, read without running anything of them.

A pickle is a program: it imports what it names, and calls it. So nothing that it names is given: what is left are
dicts, lists, tuples, text, bytes and numbers.
"""

from __future__ import annotations

import os
import pickle
from typing import Any, NoReturn

from ...errors import SourceError


class _Plain(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, and may hold plain data only")

    def persistent_load(self, pid: Any) -> NoReturn:
        raise pickle.UnpicklingError("it asks for an object outside of the file, and may hold plain data only")


def unpickled(path: str | os.PathLike[str], expected: str) -> Any:
    """The plain data of a pickle; SourceError for any other file."""
    with open(path, "rb") as file:
        try:
            return _Plain(file).load()
        except OSError:
            raise
        except Exception as error:  # a pickle that somebody has made up raises whatever it can
            raise SourceError(f"{path}: expected {expected}, as a pickle: {error or type(error).__name__}") from None
