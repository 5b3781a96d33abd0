"""What is common to the files of proofs."""

from __future__ import annotations

import os
from typing import Any

from ..errors import SourceError
from ..files import read_json


def read_proof(path: str | os.PathLike[str], form: str, version: int, lists: tuple[str, ...]) -> dict[str, Any]:
    """A JSON object of this format and version, with a capacity, and these lists."""
    spec = read_json(path, "a proof that memplan wrote")
    if (spec.get("format"), spec.get("version")) != (form, version):
        raise SourceError(f"{path}: expected format {form!r} version {version}")
    if not is_integer(spec.get("capacity")):
        raise SourceError(f"{path}: capacity must be an integer, got {spec.get('capacity')!r}")
    for name in lists:
        if not isinstance(spec.get(name), list):
            raise SourceError(f"{path}: {name} must be a list, got {spec.get(name)!r}")
    return dict(spec)


def is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
