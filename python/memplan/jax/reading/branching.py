"""What a branch may write over: operands that it has read for the last time when it makes a result."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

Names = Sequence[str]


class Branch(NamedTuple):
    """A branch as a graph dict of its own, with the tensors that it is given and those that it returns.

    `over` has pairs of an output of an op and an input that it may be written over.
    """

    graph: Mapping[str, Any]
    given: Names
    returned: Names
    over: Collection[tuple[str, str]]


def passed_through(branches: Sequence[tuple[Branch, Names]], results: Names) -> dict[str, str]:
    """The results that are an operand, whichever branch runs."""
    found = {}
    for place, result in enumerate(results):
        shown = {dict(zip(b.given, operands, strict=True)).get(b.returned[place]) for b, operands in branches}
        name = shown.pop() if len(shown) == 1 else None
        if name is not None:
            found[result] = name
    return found


def written_over(branches: Sequence[tuple[Branch, Names]], results: Names) -> list[tuple[str, str]]:
    """Pairs of a result and an operand that lies below it, whichever branch runs; branches with their operands."""
    refused = {pair for branch, operands in branches for pair in _refused(branch, operands, results)}
    given = dict.fromkeys(name for _, operands in branches for name in operands)
    return [(result, name) for result in results for name in given if (result, name) not in refused]


def _refused(branch: Branch, operands: Names, results: Names) -> Iterator[tuple[str, str]]:
    """Pairs of which the branch needs the operand when it writes the result, or later."""
    ops = branch.graph["ops"]
    last = {name: k for k, op in enumerate(ops) for name in op["inputs"]}
    made = {name: k for k, op in enumerate(ops) for name in op["outputs"]}
    for result, returned in zip(results, branch.returned, strict=True):
        k = made.get(returned, -1)
        for given, operand in zip(branch.given, operands, strict=True):
            if returned == given and branch.returned.count(given) == 1:
                continue
            read = last.get(given, -1)
            if k < 0 or given in branch.returned or read > k or (read == k and (returned, given) not in branch.over):
                yield result, operand
