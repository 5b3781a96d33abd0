"""What a graph dict says about its orders: what each op waits for, and which contents are alive when.

This file imports nothing of memplan but `overlap`, which imports nothing of it. So what it finds can be held against
what the core finds.

A *content* is some bytes that are made, used and dead together, whatever the order: the bytes of a tensor, or those of
them that the same views and slices show. It is alive from the op that makes it to the last op that uses it, or to the
end if the caller keeps it. A copy of it may be the same bytes by choice, a slice or a part of a concatenation. So all
that shows the same bytes is one content, which counts once. What may lie outside of the arena does not count at all.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from .overlap import overlaps

GIVEN = ("input", "weight")
# Where bytes may lie that are not in the arena: in a donated input, in a given tensor, in anything else.
DONATED, BROUGHT, ELSEWHERE = "donated", "brought", "elsewhere"
MOST_PIECES = 1_000_000  # of slices and concatenations: what is beyond is not counted


class Options(NamedTuple):
    """What may lie in the arena, and what may share bytes; see `memplan.plan`."""

    place: tuple[str, ...]
    inplace: bool
    zero_copy: bool
    disable_inplace_ops: tuple[str, ...]
    donate: tuple[str, ...]


class Content(NamedTuple):
    """Bytes with one life: from `maker` (None: there from the beginning) to the last of the users."""

    bytes: int
    maker: str | None
    users: frozenset[str]
    kept: bool


class Section(NamedTuple):
    """Bytes [begin, end) of an origin, which the same tensors show, and where the content begins that they are of."""

    begin: int
    end: int
    tensors: frozenset[str]
    content: int


class Piece(NamedTuple):
    """Bytes [begin, end) of a root show bytes of another, `origin`, from `at` on."""

    begin: int
    end: int
    origin: str
    at: int


def _views(op: Mapping[str, Any], *relations: str) -> Iterator[tuple[str, str, int]]:
    """Each view of an op as (output, input, offset)."""
    for relation in relations:
        for view in op.get(relation, ()):
            yield view["output"], view["input"], view.get("offset", 0)


class OrderModel:
    """What each op waits for, the contents, and what each op makes.

    Attributes
    ----------
    waits : dict of str to set of str
        Per op, the ops that have to run before it.
    contents : dict of (str, int) to Content
        By the root tensor whose bytes they are, and the first of these bytes. See `content_at`.
    makes : dict of str to int
        Per op, the bytes that it needs beside what is alive before it; less what it may write over.
    """

    def __init__(self, graph: Mapping[str, Any], options: Options) -> None:
        self.options = options
        self.ops = {op["name"]: op for op in graph["ops"]}
        self.tensors = {t["name"]: t for t in graph["tensors"]}
        self.size = {name: t["bytes"] for name, t in self.tensors.items()}
        self.kind = {t["name"]: t.get("kind", "intermediate") for t in graph["tensors"]}
        self.results = {*graph["outputs"], *(name for name, kind in self.kind.items() if kind == "output")}
        self.root = {name: (name, 0) for name in self.size}
        for op in graph["ops"]:
            for output, source, offset in _views(op, "alias", "overwrite"):
                owner, begin = self.root[source]
                self.root[output] = (owner, begin + offset)
        self.excluded = {self.root[name][0] for name in graph.get("exclude", ())}  # roots
        self.waits = self._waits()
        self.choices = list(self._choices())
        self.pieces = self._pieces()
        self.sections: dict[str, list[Section]] = {}  # per origin, ascending
        self.contents = self._contents(self._outside())
        self.makes = self._made()

    def content_at(self, origin: str, byte: int) -> tuple[str, int] | None:
        """The key of the content to which a byte of a root tensor belongs; None if that byte does not count."""
        sections = self.sections.get(origin, [])
        k = bisect.bisect_right(sections, byte, key=lambda section: section.begin) - 1
        return (origin, sections[k].content) if k >= 0 and byte < sections[k].end else None

    # Waits

    def _waits(self) -> dict[str, set[str]]:
        producer: dict[str, str] = {}
        used: dict[str, list[tuple[int, int, str]]] = {}  # per root, what used its bytes since they were written
        waits: dict[str, set[str]] = {}
        for name, op in self.ops.items():
            waits[name] = {*op.get("after", ()), *(producer[t] for t in op["inputs"] if t in producer)}
            for output, _, _ in _views(op, "overwrite"):
                waits[name] |= self._taken_over(used, output) - {name}
            for tensor in (*op["inputs"], *op["outputs"]):
                owner, begin = self.root[tensor]
                used.setdefault(owner, []).append((begin, begin + self.size[tensor], name))
            for output in op["outputs"]:
                producer[output] = name
        return waits

    def _taken_over(self, used: dict[str, list[tuple[int, int, str]]], output: str) -> set[str]:
        """The ops that used bytes of a tensor that are written now; from now on they do not count there."""
        owner, first = self.root[output]
        last = first + self.size[output]
        before, rest = set(), []
        for begin, end, op in used.get(owner, ()):
            if max(begin, first) < min(end, last):
                before.add(op)
                rest += [(b, e, op) for b, e in ((begin, min(end, first)), (max(begin, last), end)) if b < e]
            else:
                rest.append((begin, end, op))
        used[owner] = rest
        return before

    # Contents

    def _choices(self) -> Iterator[tuple[str, str, str, str, int]]:
        """All that may share bytes by choice in some order, as (relation, op, output, input, offset)."""
        for name, op in self.ops.items():
            listed = self.options.disable_inplace_ops
            kind = op.get("type", "")
            if self.options.inplace and not any(kind == other or kind.startswith(f"{other}.") for other in listed):
                for output, source, offset in _views(op, "inplace"):
                    brought = self.kind[source] == "weight" or (
                        self.kind[source] == "input" and source not in self.options.donate
                    )
                    if not brought and source not in self.results and self._may(output, source):
                        yield "inplace", name, output, source, offset
            if self.options.zero_copy:
                for relation in ("slice", "concat"):
                    for view in _views(op, relation):
                        if self._may(*view[:2]):
                            yield (relation, name, *view)

    def _may(self, *tensors: str) -> bool:
        """Whether none of these is excluded from the arena, and so shares no bytes by choice."""
        return not any(self.root[tensor][0] in self.excluded for tensor in tensors)

    def _pieces(self) -> dict[str, list[Piece] | None]:
        """Per root that may show bytes of others, which; None where that is not known."""
        pieces: dict[str, list[Piece] | None] = {}
        outputs: dict[str, list[tuple[str, str, int]]] = {}
        for relation, _, output, source, offset in self.choices:
            if relation != "inplace":
                outputs.setdefault(output, []).append((relation, source, offset))
        count = 0
        for output, shown in outputs.items():
            found: list[Piece] | None = []
            for relation, source, offset in shown:
                begin, inside = (0, offset) if relation == "slice" else (offset, 0)
                size = self.size[output if relation == "slice" else source]
                owner, at = self.root[source]
                if found is None or pieces.get(owner, []) is None:
                    found = None
                    continue
                for origin, first, last in self._shown(pieces, owner, at + inside, at + inside + size):
                    found.append(Piece(begin, begin + last - first, origin, first))
                    begin += last - first
            if found is not None:
                found.sort()
                count += len(found)
                apart = all(one.end <= other.begin for one, other in itertools.pairwise(found))
                found = found if apart and count <= MOST_PIECES else None
            pieces[self.root[output][0]] = found
        return pieces

    def _shown(
        self, pieces: Mapping[str, list[Piece] | None], owner: str, begin: int, end: int
    ) -> Iterator[tuple[str, int, int]]:
        """Whose bytes are shown by bytes [begin, end) of a root: (origin, first, last)."""
        for piece in pieces.get(owner, ()) or ():
            first, last = max(begin, piece.begin), min(end, piece.end)
            if first >= last:
                continue
            if begin < first:
                yield owner, begin, first
            yield piece.origin, piece.at + first - piece.begin, piece.at + last - piece.begin
            begin = last
        if begin < end:
            yield owner, begin, end

    def _outside(self) -> set[str]:
        """The roots whose bytes may lie outside of the arena, since a choice may put them into what lies there."""
        guests: dict[str, list[tuple[str, bool]]] = {}  # per root, what may be put into it, and whether in place
        for relation, _, output, source, _ in self.choices:
            result, origin = self.root[output][0], self.root[source][0]
            host, guest = (result, origin) if relation == "concat" else (origin, result)
            guests.setdefault(host, []).append((guest, relation == "inplace"))
        members = {self.root[name][0] for name in self.results}
        near = self._joined_with({owner for owner in members if self.kind[owner] not in GIVEN})
        found: set[tuple[str, str]] = set()
        waiting = [(owner, where) for owner, _ in self.root.values() if (where := self._alone(owner, members, near))]
        while waiting:
            if waiting[-1] in found:
                waiting.pop()
                continue
            owner, where = waiting.pop()
            found.add((owner, where))
            waiting += [(g, where) for g, inplace in guests.get(owner, ()) if not (inplace and where == BROUGHT)]
        return {owner for owner, _ in found}

    def _joined_with(self, roots: set[str]) -> set[str]:
        """The roots that choices may make one with some, through whatever lies between."""
        beside: dict[str, set[str]] = {}
        for _, _, output, source, _ in self.choices:
            result, origin = self.root[output][0], self.root[source][0]
            beside.setdefault(result, set()).add(origin)
            beside.setdefault(origin, set()).add(result)
        joined, waiting = set(roots), list(roots)
        while waiting:
            more = beside.get(waiting.pop(), set()) - joined
            joined |= more
            waiting += more
        return joined

    def _alone(self, owner: str, members: set[str], near: set[str]) -> str | None:
        """Where a root lies outside of the arena if nothing is shared by choice; None: inside."""
        kind = self.kind[owner]
        if owner in self.excluded:
            return ELSEWHERE
        if kind in GIVEN:
            return None if kind in self.options.place else DONATED if owner in self.options.donate else BROUGHT
        kind = "output" if kind == "intermediate" and owner in members else kind
        may_be_output = kind == "intermediate" and owner in near and "output" not in self.options.place
        inside = kind in self.options.place and not may_be_output
        return None if inside else ELSEWHERE

    def _contents(self, outside: set[str]) -> dict[tuple[str, int], Content]:
        users: dict[str, set[str]] = {name: set() for name in self.size}
        producer: dict[str, str] = {}
        for name, op in self.ops.items():
            for tensor in (*op["inputs"], *op["outputs"]):
                users[tensor].add(name)
            producer.update((output, name) for output in op["outputs"])
        shown: dict[str, list[tuple[int, int, str]]] = {}
        for tensor, (owner, offset) in self.root.items():
            if owner in outside or self.pieces.get(owner, []) is None:
                continue
            for origin, begin, end in self._shown(self.pieces, owner, offset, offset + self.size[tensor]):
                shown.setdefault(origin, []).append((begin, end, tensor))
        contents: dict[tuple[str, int], Content] = {}
        for origin, members in shown.items():
            first: dict[Content, int] = {}
            found = self.sections.setdefault(origin, [])
            for begin, end, tensors in _sections(members):
                # of copies of what lies outside, one counts
                counted = tensors[:1] if origin in outside else tensors
                maker = producer.get(tensors[0] if origin in outside else origin)
                by = frozenset().union(*(users[t] for t in counted)) - {maker}
                kept = any(t in self.results or self.kind[t] == "weight" for t in counted)
                key = (origin, first.setdefault(Content(0, maker, by, kept), begin))
                known = contents.get(key, Content(0, maker, by, kept))
                contents[key] = known._replace(bytes=known.bytes + end - begin)
                found.append(Section(begin, end, frozenset(tensors), key[1]))
        return contents

    def _made(self) -> dict[str, int]:
        """Per op, the contents that it makes, and its workspace; less the bytes of inputs that it may write over."""
        made = dict.fromkeys(self.ops, 0)
        if "workspace" in self.options.place:
            made = {name: int(op.get("workspace", 0)) for name, op in self.ops.items()}
        for content in self.contents.values():
            if content.maker is not None:
                made[content.maker] += content.bytes
        for name, over in self._written_over().items():
            made[name] = max(0, made[name] - over)
        return made

    def _written_over(self) -> dict[str, int]:
        """Per op, how many bytes of what it reads its outputs may be written over, in some order.

        What it reads by a name that it lets no output be written over stays, there or in a copy; but an output may lie
        over what it is still reading, as far as its ordered loops allow.
        """
        shows: dict[str, set[tuple[str, int]]] = {}  # per tensor, sections
        size: dict[tuple[str, int], int] = {}
        for origin, sections in self.sections.items():
            for section in sections:
                size[origin, section.begin] = section.end - section.begin
                for tensor in section.tensors:
                    shows.setdefault(tensor, set()).add((origin, section.begin))
        over: dict[str, dict[str, set[tuple[str, int]]]] = {}  # per op and output
        for relation, name, output, source, _ in self.choices:
            if relation == "inplace" and output in shows:
                over.setdefault(name, {}).setdefault(output, set()).update(shows.get(source, ()))
        found: dict[str, int] = {}
        for name, op in self.ops.items():
            by_output = over.get(name, {})
            walked = {pair: most for pair, most in overlaps(op, self.tensors).items() if pair[0] in shows}
            if not by_output and not walked:
                continue
            named = {source for _, source, _ in _views(op, "inplace")}
            stays = set().union(*(shows.get(t, ()) for t in op["inputs"] if t not in named))
            taken = {output: sections - stays for output, sections in by_output.items()}
            most = {output: self.size[output] if sections else 0 for output, sections in taken.items()}
            for (output, source), share in walked.items():
                if read := shows.get(source):
                    taken[output] = taken.get(output, set()) | read
                    most[output] = min(self.size[output], most.get(output, 0) + share)
            taken = {t: {s for s in sections if name in self._users_of(*s)} for t, sections in taken.items()}
            by_outputs = sum(min(most[t], sum(size[s] for s in sections)) for t, sections in taken.items())
            found[name] = min(by_outputs, sum(size[s] for s in set().union(*taken.values())))
        return found

    def _users_of(self, origin: str, byte: int) -> frozenset[str]:
        key = self.content_at(origin, byte)
        return frozenset() if key is None else self.contents[key].users


def _sections(members: list[tuple[int, int, str]]) -> Iterator[tuple[int, int, list[str]]]:
    """The bytes between neighbouring ends of members that some of them show, and which show them, as listed."""
    begins: dict[int, list[int]] = {}
    ends: dict[int, list[int]] = {}
    for k, (begin, end, _) in enumerate(members):
        begins.setdefault(begin, []).append(k)
        ends.setdefault(end, []).append(k)
    showing: set[int] = set()
    at = sorted({*begins, *ends})
    for begin, end in itertools.pairwise(at):
        showing.update(begins.get(begin, ()))
        showing.difference_update(ends.get(begin, ()))
        if showing:
            yield begin, end, [members[k][2] for k in sorted(showing)]
