"""Graphs shipped inside the package, for a first look and for tests."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

from ..errors import SourceError


def example_names() -> list[str]:
    """The names that "example:NAME" takes, sorted."""
    files = resources.files("memplan").joinpath("examples").iterdir()
    return sorted(file.name.removesuffix(".json") for file in files if file.name.endswith(".json"))


def read_example(name: str) -> dict[str, Any]:
    """The graph dict of a shipped example; SourceError lists the names when there is none such."""
    if name not in example_names():
        raise SourceError(f"there is no example {name!r}; there are {', '.join(example_names())}")
    text = resources.files("memplan").joinpath("examples", f"{name}.json").read_text(encoding="utf-8")
    graph: dict[str, Any] = json.loads(text)
    return graph
