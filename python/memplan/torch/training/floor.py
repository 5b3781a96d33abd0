"""What a step holds whatever its modules do: a bound that needs no search, and the tensors that stand in the way.

An op needs all that it touches at once, when it runs and when it runs again, unless it runs in pieces. What forward
returns is held until the step ends, as are gradients, if they are not used as they come. Weights, states and inputs are
held at all times. And what forward's own code holds, such as a list of features, it holds whatever autograd keeps.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import accumulate

from ... import sizes
from ..reading.dry_run import UPDATE, DryRun

_NAMED = 4  # tensors


@dataclass(frozen=True)
class Floor:
    """The bytes that a step holds at least, and where, in words."""

    total: int
    where: str


def floor_of(found: DryRun, kept: int, going: bool, split: bool = False) -> Floor:
    """The floor of a step that was watched, with `kept` bytes of weights, states and inputs.

    ``going``: gradients may be used as they come. ``split``: ops may run in pieces.
    """
    end = len(found.ops)
    returned = {place for call in found.calls if not call.module for place in call.returned if found.last[place] == end}
    gradients = set() if going else found.gradient
    begins: dict[int, list[int]] = {}
    for place in returned | gradients:
        begins.setdefault(found.first[place], []).append(place)
    held, size, best, worst = set[int](), 0, 0, 0
    most: Collection[int] = ()
    for op, touched in enumerate(found.touched):
        for place in begins.get(op, ()):
            held.add(place)
            size += found.size[place]
        need = size
        if not split:
            need += sum(found.size[place] for place in touched - held) + found.workspaces[op]
        if found.phases[op] != UPDATE and need > best:
            best, worst, most = need, op, held | (set() if split else touched)
    others = [place for place in most if place not in gradients]
    summed = sum(found.size[place] for place in most if place in gradients)
    parts = [f"{sizes.format_bytes(kept)} of weights, states and inputs"]
    parts += [f"{sizes.format_bytes(summed)} of gradients"] if summed else []
    return Floor(kept + best, f"{_op(found, worst)} needs {', '.join([*parts, *largest(found, others, returned)])}")


def floor_of_code(found: DryRun, alone: Sequence[DryRun], kept: int, apart: Collection[str] = ()) -> Floor:
    """What the code of forward holds, however autograd is used.

    ``alone`` are forwards that were watched and in which autograd keeps nothing, one where it is off and one where it
    drops what it is given: code may ask which it is, or give autograd tensors by itself, and holds what lives in all of
    them. Modules of ``apart`` may run in pieces: what such a call returns is whole from its end on, and what it makes
    besides does not count. The floor is nothing if forwards run other ops than the step ``found``, or make others.
    """
    first = alone[0]
    ops, made = len(first.ops), len(first.size)
    if any(_births(run, ops, made) != _births(first, ops, made) for run in (found, *alone)):
        return Floor(0, "")
    last = [min(run.last[place] for run in alone) for place in range(made)]
    born, size = [*first.first], [*first.size]
    inside = [False] * ops  # modules that may run in pieces
    end = -1
    for call in first.calls:
        if call.module in apart and call.first >= end:
            end = call.last
            inside[call.first : call.last] = [True] * (call.last - call.first)
            for place, begin in enumerate(first.first):
                if call.first <= begin < call.last:
                    born[place] = call.last - 1
                    size[place] = min(size[place], call.returned.get(place, 0))
    change = [0] * (ops + 1)
    for begin, until, bytes in zip(born, last, size, strict=True):
        if begin < until:
            change[begin] += bytes
            change[until] -= bytes
    load = list(accumulate(change))[:-1]
    need = [held + (0 if free else more) for held, free, more in zip(load, inside, first.workspaces, strict=True)]
    if not need:
        return Floor(0, "")
    worst = max(range(ops), key=need.__getitem__)
    most = [place for place in range(made) if born[place] <= worst < last[place] and size[place]]
    parts = [f"{sizes.format_bytes(kept)} of weights, states and inputs", *largest(first, most)]
    return Floor(kept + need[worst], f"at {_op(first, worst)}, the code of forward holds {', '.join(parts)}")


def _births(run: DryRun, ops: int, made: int) -> tuple[object, ...]:
    """What the first ops of a run are, and what they make."""
    return run.ops[:ops], run.first[:made], run.size[:made], sum(first < ops for first in run.first)


def worst_of(found: DryRun, worst: int) -> list[str]:
    """The largest tensors at an op, gradients apart."""
    alive = [p for p, (first, last) in enumerate(zip(found.first, found.last, strict=True)) if first <= worst < last]
    return largest(found, [place for place in alive if place not in found.gradient])


def largest(found: DryRun, places: Collection[int], returned: Collection[int] = ()) -> list[str]:
    """The largest of some storages, each with what made it, and whether forward returns it."""
    first = sorted(places, key=lambda place: -found.size[place])[:_NAMED]
    kept = dict.fromkeys(returned, " and returned by forward")
    return [f"{sizes.format_bytes(found.size[p])} made by {_op(found, found.first[p])}{kept.get(p, '')}" for p in first]


def _op(found: DryRun, op: int) -> str:
    """An op in words: its type, and the module that calls it."""
    if not found.ops:
        return "a step without ops"
    name = found.ops[op].removesuffix(".default")
    calls = [call.module for call in found.calls if call.first <= op < call.last and call.module]
    where = f" in '{calls[-1]}'" if calls else "" if found.phases[op] == 0 else " in the backward pass"
    return name + where
