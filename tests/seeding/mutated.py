"""A plugin of pytest: a module of memplan comes from another file. MEMPLAN_MUTANT says so: "memplan._core=_core.so"."""

from __future__ import annotations

import os
import sys
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location


class Mutated:
    """Finds the one module that was changed; all others are found as ever."""

    def __init__(self, name: str, file: str) -> None:
        self._name, self._file = name, file

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        return spec_from_file_location(name, self._file) if name == self._name else None


module, _, other_file = os.environ["MEMPLAN_MUTANT"].partition("=")
assert module not in sys.modules, f"{module} is imported already"
sys.meta_path.insert(0, Mutated(module, other_file))  # type: ignore[arg-type]
