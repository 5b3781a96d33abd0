"""Facts as versioned JSON: dataclasses of plain values, field by field."""

from __future__ import annotations

import os
from dataclasses import asdict, fields, replace
from typing import TYPE_CHECKING, Any

from .. import _core
from ..files import write_json

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def facts_dict(facts: DataclassInstance, format: str, version: int) -> dict[str, Any]:
    """The fields as plain Python objects, after the format's name and version; without those that are no facts."""
    left_out = [field.name for field in fields(facts) if not field.metadata.get("fact", True)]
    written = asdict(replace(facts, **dict.fromkeys(left_out)))
    for name in left_out:
        del written[name]
    return {"format": format, "version": version, "memplan": _core.__version__, **written}


def write_facts(facts: DataclassInstance, path: str | os.PathLike[str], format: str, version: int) -> None:
    """Write `facts_dict` as UTF-8 JSON."""
    write_json(path, facts_dict(facts, format, version))
