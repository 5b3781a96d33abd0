"""Checks a proof that every order of a graph's ops needs so many bytes. Shares nothing with the core that found it.

Words: a *state* is a set S of ops that may have run: with an op, it has all that this op waits for. A content is alive
after S if its maker is in S, or it is there from the beginning, and one of its users is not in S, or the caller keeps
it. While op v runs next, this is needed: what is alive after S, and what v makes, less the inputs that it may write
over. See `order_model`.

A *need* says: where v runs after all of `before` and before all of `after`, at least `bytes` are needed. So S has
`before`, what v waits for, and all that these wait for: these are *in*. It has neither v, nor `after`, nor what waits
for these: these are *out*. All other ops are *open*. The reason is a flow:

- `held`: each content gives some bytes to users of its own, and to the caller if it is kept: at most its bytes.
- `passed`: an op gives some bytes on to an op that it waits for.
- An op *gives* what its contents give, and what it passes on. It *gets* what is held for it, and what is passed to it.
- No open op gets more than it gives.

Then, after any such S, at least this much is alive: what the contents give that are there from the beginning, and for
each op that is in, what it gives less what it gets. For let S be such a state, and add up, over all ops of S, what
they give less what they get.

- Open ops of S add nothing below 0. So the sum is at least that over the ops that are in.
- What one op of S gives to another cancels out. What is passed stays in S: an op of S only waits for ops of S.
- So what remains is held for users outside of S, or the caller, by contents with makers in S. These are alive. Contents
  that are not made in S, and what is passed from outside, only make the sum smaller. Those that are there from the
  beginning do so by what they give to users in S; all else that they give is held for users outside of S.
- A content holds at most its bytes. So what is alive is at least the sum, and what those from the beginning give.

A proof names some ops, in any number. In every order they run in some sequence: from none of them to all, one at a
time. A need rules out the steps "v runs next, after exactly X of the named ops" for which X has all of `before` and
none of `after`. If no way from none to all is left, every order takes a step that is ruled out, and so needs the bytes.
The check walks from both ends, and ends when one side cannot go on. A need without an op is that of the end, when all
ops have run: it has no need of a sequence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from .order_model import OrderModel

MOST_STATES = 1_000_000  # of the named ops, that are looked at


class HeldRow(NamedTuple):
    """Bytes of a content that are alive as long as a user has not run; `user` is None where the caller keeps them.

    The content is the one to which byte `begin` of the root tensor `tensor` belongs.
    """

    tensor: str
    begin: int
    user: str | None
    bytes: int


class Passed(NamedTuple):
    """Bytes that an op gives on to one that it waits for."""

    op: str
    before: str
    bytes: int


class Need(NamedTuple):
    """While `op` runs after all of `before`, and before all of `after`, so many bytes are needed; None: in the end."""

    op: str | None
    before: tuple[str, ...]
    after: tuple[str, ...]
    bytes: int
    held: tuple[HeldRow, ...]
    passed: tuple[Passed, ...]


class OrderBoundError(ValueError):
    """A proof that does not hold; the message, and ``need``, name the need at which it fails. None: the whole."""

    def __init__(self, need: int | None, message: str) -> None:
        where = "" if need is None else f" at need {need}"
        super().__init__(f"the bound of all orders does not hold{where}: {message}")
        self.need = need


def check(model: OrderModel, bound: int, ops: Sequence[str], needs: Sequence[Need]) -> None:
    """Return where the needs prove that every order needs `bound` bytes; else raise OrderBoundError."""
    if bound <= 0:
        return
    unknown = next((op for op in ops if op not in model.ops), None)
    if unknown is not None or len(set(ops)) != len(ops):
        raise OrderBoundError(None, "its ops are not ops of the graph, each once")
    followers = _followers(model.waits)
    for k, need in enumerate(needs):
        if need.bytes < bound:
            raise OrderBoundError(k, f"it needs {need.bytes} bytes, and {bound} are claimed")
        if need.op is not None and not {need.op, *need.before, *need.after} <= set(ops):
            raise OrderBoundError(k, "it names ops that the proof does not")
        _check_need(model, followers, k, need)
    if not any(need.op is None for need in needs):
        _check_ways(model, ops, needs)


def _followers(waits: Mapping[str, set[str]]) -> dict[str, set[str]]:
    followers: dict[str, set[str]] = {op: set() for op in waits}
    for op, before in waits.items():
        for other in before:
            followers[other].add(op)
    return followers


def _with_all(ops: Iterable[str], edges: Mapping[str, set[str]]) -> set[str]:
    """The ops, and all that is reached from them."""
    found: set[str] = set()
    waiting = list(ops)
    while waiting:
        op = waiting.pop()
        if op not in found:
            found.add(op)
            waiting += edges[op]
    return found


def _check_need(model: OrderModel, followers: Mapping[str, set[str]], k: int, need: Need) -> None:
    """Whether the flow holds, and is as large as it says."""
    if need.op is None:
        inside, outside = set(model.ops), set()
    else:
        inside = _with_all({*need.before, *model.waits[need.op]}, model.waits)
        outside = _with_all({*need.after, need.op}, followers)
    if inside & outside:
        raise OrderBoundError(k, f"op {min(inside & outside)!r} is both before and after")
    gives = dict.fromkeys(model.ops, 0)  # less what it gets
    alive = _give_contents(model, k, need, gives)
    for op, before, count in need.passed:
        if count < 0 or before not in model.waits.get(op, ()):
            raise OrderBoundError(k, f"op {op!r} passes {count} bytes to {before!r}, for which it does not wait")
        gives[op] += count
        gives[before] -= count
    for op, count in gives.items():
        if op in inside:
            alive += count
        elif op not in outside and count < 0:
            raise OrderBoundError(k, f"op {op!r} gets {-count} bytes more than it gives")
    made = 0 if need.op is None else model.makes[need.op]
    if alive + made < need.bytes:
        raise OrderBoundError(k, f"it needs {alive + made} bytes, not {need.bytes}")


def _give_contents(model: OrderModel, k: int, need: Need, gives: dict[str, int]) -> int:
    """Count what contents give, for makers and users; what those give that are there from the beginning."""
    given: dict[tuple[str, int], int] = {}
    beginning = 0
    for tensor, begin, user, count in need.held:
        key = model.content_at(tensor, begin)
        if key is None:
            raise OrderBoundError(k, f"byte {begin} of {tensor!r} is of no content that counts")
        content = model.contents[key]
        if count < 0 or (not content.kept if user is None else user not in content.users):
            who = "the caller" if user is None else repr(user)
            raise OrderBoundError(k, f"{who} does not hold {count} bytes of {tensor!r} from byte {begin} on")
        given[key] = given.get(key, 0) + count
        if given[key] > content.bytes:
            raise OrderBoundError(k, f"{tensor!r} from byte {key[1]} on gives more than its {content.bytes} bytes")
        if user is not None:
            gives[user] -= count
        if content.maker is None:
            beginning += count
        else:
            gives[content.maker] += count
    return beginning


def _check_ways(model: OrderModel, ops: Sequence[str], needs: Sequence[Need]) -> None:
    """Whether no sequence of the ops avoids every need: walks from none of them, and from all, in turns."""
    bit = {op: 1 << k for k, op in enumerate(ops)}
    waits = _waits_among(model, bit)
    ruled: dict[str, list[tuple[int, int]]] = {op: [] for op in ops}  # per op, the needs that rule it out
    for need in needs:
        if need.op is not None:
            ruled[need.op].append((sum(bit[op] for op in need.before), sum(bit[op] for op in need.after)))

    def goes(state: int, op: str) -> bool:
        return not waits[op] & ~state and not any(b & ~state == 0 == a & state for b, a in ruled[op])

    everything = (1 << len(ops)) - 1
    seen, fringes = [{0}, {everything}], [[0], [everything]]
    if not ops:
        raise OrderBoundError(None, "no op is named")
    while all(fringes):
        for side, fringe in enumerate(fringes):
            state = fringe.pop()
            for op in ops:
                other = state ^ bit[op]
                if bool(state & bit[op]) != bool(side) or other in seen[side] or not goes(state & other, op):
                    continue
                if other in seen[1 - side]:
                    raise OrderBoundError(None, "the ops may run in a sequence that avoids all needs")
                seen[side].add(other)
                fringe.append(other)
        if len(seen[0]) + len(seen[1]) > MOST_STATES:
            raise OrderBoundError(None, f"it takes more than {MOST_STATES} states to check")


def _waits_among(model: OrderModel, bit: Mapping[str, int]) -> dict[str, int]:
    """Per op, which of some ops run before it in every order, as bits; ops are listed in an order that is legal."""
    waits: dict[str, int] = {}
    for op in model.ops:
        waits[op] = 0
        for before in model.waits[op]:
            waits[op] |= waits[before] | bit.get(before, 0)
    return waits
