"""What a loop carries from one iteration to the next, by its place in the tuple that it carries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .text import Computation


def passed_through(body: Computation) -> set[tuple[int, ...]]:
    """Paths of what a body returns as it was given."""
    shown: dict[str, Any] = {}  # the path of a parameter's element, a list of what a tuple holds, or None
    for one in body.instructions.values():
        whole = shown.get(one.operands[0]) if one.operands else None
        if one.opcode == "parameter":
            shown[one.name] = ()
        elif one.opcode == "tuple":
            shown[one.name] = [shown.get(operand) for operand in one.operands]
        elif one.opcode == "get-tuple-element" and whole is not None:
            index = int(one.attributes["index"])
            shown[one.name] = whole[index] if isinstance(whole, list) else (*whole, index)
        elif one.opcode in ("opt-barrier", "optimization-barrier"):
            shown[one.name] = whole
    return {*_paths(shown.get(body.root), ())}


def _paths(tree: Any, path: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    if isinstance(tree, list):
        for k, each in enumerate(tree):
            yield from _paths(each, (*path, k))
    elif tree == path:
        yield path
