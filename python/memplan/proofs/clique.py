"""Clique: bytes that every plan needs, with the reason, checked by code that is not the search's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

from .. import _core


class CliqueError(ValueError):
    """A clique that does not prove what it says; the message names the members."""


class CliqueMember(NamedTuple):
    """Bytes ``[begin, end)`` of the buffer at this position of the problem, counted from where it starts."""

    buffer: int
    begin: int
    end: int


@dataclass(frozen=True)
class Clique:
    """Byte ranges of buffers of which no two may overlap in any plan: so no plan of their problem peaks below `bytes`.

    They add up to `bytes` at least. Where the alignments of a plain buffer and of all that it conflicts with have a
    common divisor, the buffer counts rounded up to that, but for the one that is rounded most.
    """

    bytes: int
    members: Sequence[CliqueMember]

    def check(self, problem: _core.Problem) -> None:
        """Return where this proves that no plan of the problem peaks below `bytes`.

        Two members are apart in every plan if they are different bytes of one buffer, if their buffers conflict
        whatever their lifetimes are, or if both are in use at some step. Members that lie apart need all their bytes.

        What is rounded needs its padding too. If a buffer and all plain buffers that it conflicts with have
        alignments that are multiples of g, then whatever lies above it begins at a multiple of g. So its bytes up to
        the next multiple are of no use to others, unless it is the highest of the members.

        Raises
        ------
        CliqueError
            It does not; names the members.
        """
        buffers = _Buffers(problem)
        for member in self.members:
            buffer, begin, end = member
            if not (0 <= buffer < len(problem) and 0 <= begin < end <= buffers.size[buffer]):
                raise CliqueError(f"{tuple(member)} is no range of bytes of a buffer of this problem")
        for a, b in combinations(self.members, 2):
            if not buffers.apart(a, b):
                raise CliqueError(f"bytes {tuple(a)} and {tuple(b)} (buffer, begin, end) may overlap in a plan")
        padding = [buffers.padding(member) for member in self.members]
        needed = sum(m.end - m.begin for m in self.members) + sum(padding) - max(padding, default=0)
        if needed < self.bytes:
            raise CliqueError(f"the members need {needed} bytes, not {self.bytes}")

    def __len__(self) -> int:
        return len(self.members)


class _Buffers:
    """What a problem says of its buffers, in plain lists."""

    def __init__(self, problem: _core.Problem) -> None:
        self.size: list[int] = problem.size.tolist()
        self.alignment: list[int] = problem.alignment.tolist()
        self.life = list(zip(problem.first.tolist(), problem.last.tolist(), strict=True))
        self.parts: dict[int, list[list[int]]] = {}
        for buffer, *part in problem.parts.tolist() if problem.parts is not None else []:
            self.parts.setdefault(buffer, []).append(part)
        pairs = problem.conflicts.tolist() if problem.conflicts is not None else []
        self.conflicts = {(a, b) for a, b in pairs} | {(b, a) for a, b in pairs}

    def apart(self, a: CliqueMember, b: CliqueMember) -> bool:
        if a.buffer == b.buffer:
            return a.end <= b.begin or b.end <= a.begin
        return (a.buffer, b.buffer) in self.conflicts or any(
            max(p[0], q[0]) < min(p[1], q[1]) for p in self._in_use(a) for q in self._in_use(b)
        )

    def padding(self, member: CliqueMember) -> int:
        """What lies between the buffer's end and where the next one that conflicts with it may begin."""
        whole = (0, self.size[member.buffer])
        if self.parts or (member.begin, member.end) != whole:
            return 0
        others = (CliqueMember(b, 0, self.size[b]) for b in range(len(self.size)) if self.size[b] > 0)
        met = (self.alignment[o.buffer] for o in others if o.buffer == member.buffer or self.apart(member, o))
        return -self.size[member.buffer] % math.gcd(*met)

    def _in_use(self, member: CliqueMember) -> list[tuple[int, int]]:
        """When all bytes of the member are in use."""
        if member.buffer not in self.parts:
            return [self.life[member.buffer]]
        shape = self.parts[member.buffer]
        return [(first, last) for begin, end, first, last in shape if begin <= member.begin and member.end <= end]


def heaviest_clique(problem: _core.Problem) -> Clique:
    """The heaviest clique that is found: ranges of bytes of which no two may overlap, so a plan needs their sum.

    The search has a bounded work. It finds the heaviest clique of all if buffers are few, or if "may follow" is a
    partial order of them, as it is for lifetimes on one stream or several.
    """
    needed, rows = _core.heaviest_clique(problem)
    return Clique(needed, tuple(CliqueMember(*row) for row in rows.tolist()))
