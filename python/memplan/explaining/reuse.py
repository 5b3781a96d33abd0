"""Which buffers share bytes: one after another in a plan, and by choice in a graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .. import _core
from ..plans.usage import BEGIN, BUFFER, END, FIRST, LAST, joined, length, rectangles

if TYPE_CHECKING:
    from ..plans.plan import Plan
    from ..plans.slots import Coalescing, Slot


@dataclass(frozen=True)
class Chain:
    """Buffers that follow one another: each takes over bytes of the one before it.

    On their own they need ``bytes``; together they take ``saved`` fewer.
    """

    buffers: tuple[str, ...]
    bytes: int
    saved: int


@dataclass(frozen=True)
class Shared:
    """An op's tensor that lies in another's bytes by choice, as in `Coalescing`: ``bytes`` of its own are saved."""

    how: str
    op: str
    inner: str
    outer: str
    bytes: int


@dataclass(frozen=True)
class Reuse:
    """Who has the bytes of a tensor or buffer when.

    ``before`` used some of them and was done before it was written, ``after`` uses them once it is done: slots of
    buffers, the nearest in time first. ``sharing`` has what shares bytes with it by choice.
    """

    slot: Slot
    before: tuple[Slot, ...]
    after: tuple[Slot, ...]
    sharing: tuple[Coalescing, ...]

    def __str__(self) -> str:
        from .reuse_text import reuse_text

        return reuse_text(self)


def chains(plan: Plan) -> tuple[Chain, ...]:
    """Buffers that take over each other's bytes, those that save most first.

    A buffer goes on to the first other that takes over some of its bytes; where several go on to the same one, that
    with most bytes in common does. One that neither takes over nor is taken over is in no chain.
    """
    follower = _core.reused_by(plan.problem, plan.offsets).tolist()
    begin, end = plan.offsets.tolist(), (plan.offsets + plan.problem.size).tolist()
    birth = list(zip(plan.problem.first.tolist(), plan.problem.last.tolist(), range(len(plan)), strict=True))
    leader: dict[int, tuple[int, int]] = {}  # per buffer, bytes in common with the one before it, and which that is
    for b, after in enumerate(follower):
        if after >= 0 and birth[b] < birth[after]:
            common = min(end[b], end[after]) - max(begin[b], begin[after])
            leader[after] = max(leader.get(after, (0, 0)), (common, -b))
    goes_on = {-b: after for after, (_, b) in leader.items()}
    found = []
    for head in (b for b in goes_on if b not in leader):
        chain = [head]
        while chain[-1] in goes_on:
            chain.append(goes_on[chain[-1]])
        own = sum(end[b] - begin[b] for b in chain)
        together = length(joined([(begin[b], end[b]) for b in chain]))
        found.append(Chain(tuple(plan.problem.name(b) for b in chain), own, own - together))
    return tuple(sorted(found, key=lambda chain: -chain.saved))


def shared_by_choice(plan: Plan) -> tuple[Shared, ...]:
    """What lies in another tensor's bytes by choice, that with most bytes first."""
    sizes = {} if plan.graph is None else {tensor.name: tensor.bytes for tensor in plan.graph.tensors}
    found = [Shared(s.how, s.op, s.inner, s.outer, sizes[s.inner]) for s in plan.sharing]
    return tuple(sorted(found, key=lambda shared: -shared.bytes))


def reuse_of(plan: Plan, key: str | int) -> Reuse:
    """See `Plan.reuse`."""
    slot = plan[key]
    own = plan.buffer_of(key)
    rows = rectangles(plan.problem)
    offset = plan.offsets[rows[:, BUFFER]]
    meets = (offset + rows[:, BEGIN] < slot.end) & (slot.offset < offset + rows[:, END]) & (rows[:, BUFFER] != own)
    rows = rows[meets]
    before, after = rows[rows[:, LAST] <= slot.first], rows[rows[:, FIRST] >= slot.last]
    before = before[np.argsort(-before[:, LAST], kind="stable")]
    after = after[np.argsort(after[:, FIRST], kind="stable")]
    earlier, later = (tuple(plan[b] for b in dict.fromkeys(found[:, BUFFER].tolist())) for found in (before, after))
    sharing = tuple(s for s in plan.sharing if slot.name in (s.output, s.input)) if isinstance(key, str) else ()
    return Reuse(slot, earlier, later, sharing)
