"""Which calls of a recording make the bytes of a storage anew, and which write a part of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..recording import CallRecord, Recording, View
from .slicing import contains


def made_anew(recording: Recording, calls: Sequence[CallRecord]) -> Mapping[tuple[int, View], bool]:
    """Results of calls, by their positions, in which all lies that is done to their storage until the next of these.

    Others write a part of a storage, as pieces do that lie in a row in a tensor, or beside rows that are kept. True: it
    is whole, nothing writes a part of it until the next.
    """
    later: dict[int, dict[View, bool]] = {}  # of a storage: what is read (False) and written until it is made anew
    for view in recording.returned_views():
        later.setdefault(view.storage, {})[view] = False
    found: dict[tuple[int, View], bool] = {}
    for place in reversed(range(len(calls))):
        call = calls[place]
        for view, fresh in zip(call.outputs, call.fresh, strict=True):
            used = later.setdefault(view.storage, {})
            if fresh and all(contains(view, other) for other in used):
                found[place, view] = not any(written and other != view for other, written in used.items())
                used.clear()
            else:
                used[view] = True
        for view in call.inputs:
            used = later.setdefault(view.storage, {})
            used[view] = used.get(view, False) or view.storage in call.written
    return found
