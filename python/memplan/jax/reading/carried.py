"""What a loop carries from one iteration to the next, by its place in the tuple that it carries."""

from __future__ import annotations

from typing import Any

from .text import Computation


def passed_through(body: Computation) -> set[tuple[int, ...]]:
    """Paths of what a body returns as it was given."""

    def shown(name: str) -> tuple[int, ...] | list[Any] | None:
        """The path of a parameter's element, or a list of what a tuple holds."""
        one = body.instructions.get(name)
        if one is None:
            return None
        if one.opcode == "parameter":
            return ()
        if one.opcode == "tuple":
            return [shown(operand) for operand in one.operands]
        if one.opcode == "get-tuple-element" and one.operands and one.attributes.get("index", "").isdecimal():
            whole, index = shown(one.operands[0]), int(one.attributes["index"])
            if isinstance(whole, list):
                return whole[index] if index < len(whole) else None
            return None if whole is None else (*whole, index)
        return (
            shown(one.operands[0]) if one.opcode in ("opt-barrier", "optimization-barrier") and one.operands else None
        )

    found: set[tuple[int, ...]] = set()

    def collect(tree: Any, path: tuple[int, ...]) -> None:
        if isinstance(tree, list):
            for k, each in enumerate(tree):
                collect(each, (*path, k))
        elif tree == path:
            found.add(path)

    collect(shown(body.root), ())
    return found
