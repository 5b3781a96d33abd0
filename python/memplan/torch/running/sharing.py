"""Which inputs and weights share bytes, and what a program sees around them: both are part of what was planned.

A program writes to bytes, whoever else shows them. So tensors that share bytes in the plan must share the same ones in
a run, and others none. What the program sees of a storage beyond an input's own elements must be there too.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from torch import Tensor

from ...errors import SourceError
from ..private import OpOverload, pytree, schema_of
from ..reading.relations import extent
from .recording import CallRecord, Recording, SourceRecord, View

_OWN = "give each its own, such as a clone(), or plan with arguments that share them"
_ONE = "give one tensor, or views of one, or plan with arguments that share none"
_PLACED = ("as_strided", "as_strided_", "as_strided_copy", "as_strided_scatter")


class Group(NamedTuple):
    """Owners of a storage, by position, that share bytes; `reach` are the bytes of it that the program sees besides."""

    members: tuple[int, ...]
    reach: tuple[int, int] | None


class Span(NamedTuple):
    """The bytes [begin, end) of memory that a group lies in, and one of its names."""

    begin: int
    end: int
    name: str


class Sharing:
    """What shares bytes in a plan. `owners` are the sources of each storage, in order.

    `reach` has, for storages of which the program sees more than their owners show, the bytes that it sees.
    """

    def __init__(self, recording: Recording, owners: Mapping[int, Sequence[SourceRecord]]) -> None:
        self._owners = owners
        self._fixed = {view.storage for call in recording.calls for view in _seen_from_a_fixed_element(call)}
        views = {storage: recording.storages[storage].views for storage in owners}
        self._groups = {storage: self._groups_of(storage, views[storage]) for storage in owners}
        self.reach = {storage: groups[0].reach for storage, groups in self._groups.items() if groups[0].reach}
        self._held: dict[int, list[Span]] = {}
        self._sorted: list[Span] = []

    def require_same(
        self, given: Mapping[int, Sequence[Tensor]], moved: Iterable[int], loose: Mapping[int, bool]
    ) -> None:
        """SourceError names the first tensors that share bytes, or share none, unlike in the plan.

        Where weights lie is kept from run to run. So a run takes O(k log n) for k inputs and n weights. `moved` are
        storages whose tensors are not where they were in the last run, those of inputs among them. `loose` are storages
        with weights that were given for this run: what they hold counts, and not where; True if the program writes to
        them.
        """
        passing, changed = list[Span](), False
        for storage in moved:
            spans = [self._span(storage, group, given[storage], storage in loose) for group in self._groups[storage]]
            if any(record.kind == "input" for record in self._owners[storage]):
                passing += spans
            else:
                self._held[storage] = spans if loose.get(storage, True) else []
                changed = True
        if changed:
            self._sorted = sorted(span for spans in self._held.values() for span in spans if span.end > span.begin)
            _require_apart(self._sorted)
        passing = sorted(span for span in passing if span.end > span.begin)
        _require_apart(passing)
        for span in passing:
            place = bisect_left(self._sorted, span)
            _require_apart([*self._sorted[max(0, place - 1) : place], span, *self._sorted[place : place + 1]])

    def _span(self, storage: int, group: Group, tensors: Sequence[Tensor], loose: bool) -> Span:
        owners = self._owners[storage]
        shown = [k for k in group.members if tensors[k].numel()]
        if not shown:
            return Span(0, 0, "")
        first = owners[shown[0]]
        bases = [tensors[k].data_ptr() - owners[k].view.begin for k in shown]
        for k, base in zip(shown, bases, strict=True):
            if not loose and base != bases[0]:
                one = f"{_named(first)} and {_named(owners[k])} share bytes in the plan"
                raise SourceError(f"{one}, and do not share the same ones now; {_ONE}")
            if not loose:
                self._require_around(group, owners[k], tensors[k])
        begins = [tensors[k].data_ptr() for k in shown]
        end = max(begin + extent(tensors[k]) for begin, k in zip(begins, shown, strict=True))
        return Span(min(begins), end, _named(first))

    def _require_around(self, group: Group, record: SourceRecord, tensor: Tensor) -> None:
        """What the program sees around a tensor is there, and is what it saw when it was planned."""
        view, offset = record.view, int(tensor.storage_offset())
        if view.storage in self._fixed and offset != view.offset:
            what = f"begins at element {offset} of its storage, and at {view.offset} when it was planned"
            why = "the network reads the storage from a fixed element on (as_strided)"
            raise SourceError(f"{_named(record)} {what}; {why}")
        if group.reach is None:
            return
        low, high = group.reach
        base = offset * view.dtype.itemsize - view.begin
        if base + low < 0 or base + high > tensor.untyped_storage().nbytes():
            around = f"{view.begin - low} bytes before it, and {high - view.begin} from its first on"
            raise SourceError(
                f"{_named(record)}: the network reads around it (as_strided), {around}: they are not there"
            )

    def _groups_of(self, storage: int, views: Sequence[View]) -> list[Group]:
        """Owners whose bytes meet; one group if the program sees bytes that none shows, or from a fixed element on."""
        owners = self._owners[storage]
        order = sorted(range(len(owners)), key=lambda k: owners[k].view.begin)
        groups: list[list[int]] = []
        ranges: list[tuple[int, int]] = []
        for k in order:
            view = owners[k].view
            if groups and view.begin < ranges[-1][1]:
                groups[-1].append(k)
                ranges[-1] = (ranges[-1][0], max(ranges[-1][1], view.end))
            else:
                groups.append([k])
                ranges.append((view.begin, view.end))
        seen = [view for view in views if view.end > view.begin]
        if not all(any(low <= view.begin and view.end <= high for low, high in ranges) for view in seen):
            reach = min(view.begin for view in seen), max(view.end for view in seen)
            return [Group(tuple(order), reach)]
        return [Group(tuple(order), None)] if storage in self._fixed else [Group(tuple(g), None) for g in groups]


def _seen_from_a_fixed_element(call: CallRecord) -> Sequence[View]:
    """Tensors whose storage a call looks at from a fixed element on, wherever they begin."""
    function: Any = call.function
    if not isinstance(function, OpOverload) or schema_of(function).name.split("::")[1] not in _PLACED:
        return ()
    place = [argument.name for argument in schema_of(function).arguments].index("storage_offset")
    offset = call.args[place] if len(call.args) > place else call.kwargs.get("storage_offset")
    return () if offset is None else [leaf for leaf in pytree.tree_leaves(call.args[0]) if isinstance(leaf, View)]


def _require_apart(spans: Sequence[Span]) -> None:
    for first, then in pairwise(spans):
        if then.begin < first.end:
            raise SourceError(f"{first.name} and {then.name} share no bytes in the plan, and do now; {_OWN}")


def _named(record: SourceRecord) -> str:
    return f"{record.kind} '{record.name}'"
