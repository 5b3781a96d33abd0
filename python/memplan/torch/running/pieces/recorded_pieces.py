"""A recording of a network whose graph was split: its calls in pieces, on storages of the split graph.

Rows of a tensor that is never whole lie in a buffer, in the layout of the tensor: the row `base` first. A buffer that
is written again is one storage. What is whole keeps its storage.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .... import _core
from ....errors import UnsupportedError
from ....plans.changes import InPieces
from ...private import pytree, storage_key
from ...reading.loops import Loop, loops_of, name_of
from ..recording import CallRecord, Recording, StorageRecord, View
from .calls import Composed, Part, Piece, Rows, rows_read
from .records import adding, changed, copied, moved, record, results_of, showing, written_over
from .statistics import STATISTICS
from .table import early_of, part_of

_Range = tuple[int, int, int, int, int]  # the first axis and the last, rows [begin, end), and the row that lies first


def in_pieces(recording: Recording, graph: _core.Graph, pieces: InPieces) -> Recording:
    """A recording of a graph, with calls in pieces; these have the positions of the ops of the split graph.

    UnsupportedError names an op that cannot be run in these pieces.
    """
    return _Splitting(recording, graph, pieces).run()


class _Held(NamedTuple):
    """Where rows of a tensor lie: the row `base`, at an offset in elements of a storage, and the others by strides."""

    like: View
    storage: int
    offset: int
    strides: tuple[int, ...]
    base: int

    def view(self, where: _Range) -> View:
        first, last, begin, end, _ = where
        rows = Rows((first, last), begin, end, 0, (begin, end))
        offset = self.offset + (begin - self.base) * self.strides[last] if begin < end else 0
        return _view(self.like, self.storage, offset, tuple(rows.sizes(self.like.sizes)), self.strides)


class _To(NamedTuple):
    """What a piece writes of a result: rows, in a tensor of the split graph; all of it if iterations add to it."""

    tensor: int
    where: _Range | None
    rows: Rows | None


class _Splitting:
    def __init__(self, recording: Recording, graph: _core.Graph, pieces: InPieces) -> None:
        self._pieces, self._ops = pieces, pieces.whole.ops
        place = {op.name: k for k, op in enumerate(self._ops)}
        self._call: dict[int, CallRecord] = {}
        self._given: dict[int, Mapping[View, str]] = {}  # the names of the tensors of a call
        self._made: dict[int, Mapping[View, str]] = {}
        for name, call, given, made in _named(recording, graph):
            k = place[name]
            self._call[k], self._given[k], self._made[k] = call, given, made
        self._bytes = [tensor.bytes for tensor in pieces.graph.tensors]
        self._tensor = [tensor.name for tensor in pieces.graph.tensors]
        self._root = {name: name for name in self._tensor}
        for op in pieces.graph.ops:
            for name, of, _ in (*op.aliases, *op.overwrites):
                self._root[name] = self._root[of]
        self._new = recording.copied()
        self._storage_of: dict[str, int] = {}
        for storage, known in enumerate(self._new.storages):
            known.root = self._root.get(known.root, "")
            if known.root:
                self._storage_of[known.root] = storage
            else:
                known.views = []
        self._does: Mapping[str, Callable[[_core.Piece], CallRecord | None]] = {
            **{"whole": self._as_it_is, "keep": self._kept, "gather": self._gathered, "part": self._part},
            **{"statistics": self._statistics, "early": self._early},
        }
        self._held: dict[int, _Held] = {}
        self._of: dict[int, str] = {}  # of which tensor these are rows
        self._rows: dict[tuple[int, int], Mapping[View, Any]] = {}

    def run(self) -> Recording:
        for step, piece in enumerate(self._pieces.does):
            if piece.of not in self._call:
                continue  # of views that a call has made
            if (made := self._does[piece.does](piece)) is not None:
                self._new.calls.append(replace(made, ops=range(step, step + 1)))
                for view in (*made.inputs, *made.outputs):
                    self._note(view)
        return self._new

    def _as_it_is(self, piece: _core.Piece) -> CallRecord:
        return self._call[piece.of]

    def _kept(self, piece: _core.Piece) -> CallRecord:
        """Rows that are read again move to the front of their buffer."""
        [(before, there), (after, here)] = piece.reads[0], piece.writes[0]
        self._held[after] = self._held[before]._replace(base=here[4])
        self._of[after] = self._of[before]
        views = (self._held[after].view(here), self._held[before].view(there))
        return moved(*views)

    def _gathered(self, piece: _core.Piece) -> CallRecord:
        """Rows of a block are copied to a buffer, beside rows of other blocks."""
        [(block, there), (buffer, here)] = piece.reads[0], piece.writes[0]
        assert here is not None
        held = self._held[block]
        self._held[buffer] = self._buffer(buffer, held.like, here)
        self._of[buffer] = self._of[block]
        return copied(self._held[buffer].view(here), held.view(there))

    def _early(self, piece: _core.Piece) -> CallRecord | None:
        """What is made before the first piece."""
        call = self._call[piece.of]
        names = self._made[piece.of]
        outputs = self._ops[piece.of].outputs
        mine = {outputs[place] for place, (tensor, _) in enumerate(piece.writes) if tensor >= 0}
        made = [(place, view) for place, view in enumerate(self._made_early(piece)) if view and names[view] in mine]
        if not made:
            return None
        [(place, view)] = made
        numbers = None if piece.statistics is None else self._numbers(piece)
        whole = self._piece(piece, {}, [None] * len(results_of(call)), numbers)
        if (part := early_of(whole, place)) is None:
            raise self._refused(piece)
        return changed(call, part.func, part.args, dict(part.kwargs), (view,), frozenset(), {})

    def _statistics(self, piece: _core.Piece) -> CallRecord:
        """What the rows of a piece add to the statistics of its op."""
        call, numbers = self._call[piece.of], self._numbers(piece)
        reads, shown = self._read(piece)
        known = None if piece.iterations[0] == 0 else numbers
        whole = self._piece(piece, reads, (), known)
        part = STATISTICS[name_of(call.function)].of(whole)
        args, kwargs = showing((part.args, dict(part.kwargs)), shown)
        if known is None:
            return changed(call, part.func, args, kwargs, (numbers,), frozenset(), shown)
        function = Composed(written_over, part.func)
        return changed(call, function, (numbers, *args), kwargs, (), frozenset({numbers.storage}), shown)

    def _numbers(self, piece: _core.Piece) -> View:
        """The statistics of a piece."""
        assert piece.statistics is not None
        call, root = self._call[piece.of], self._root[self._tensor[piece.statistics]]
        if root not in self._storage_of:
            self._storage_of[root] = self._storage(call.inputs[0], root)
        sizes = STATISTICS[name_of(call.function)].shape(self._piece(piece, {}, (), None))
        strides = _dense(sizes, range(len(sizes), 0, -1))
        end = self._bytes[piece.statistics]
        return View(self._storage_of[root], 0, tuple(sizes), strides, torch.float64, False, False, 0, end)

    def _part(self, piece: _core.Piece) -> CallRecord | None:
        call = self._call[piece.of]
        reads, shown = self._read(piece)
        writes = self._written(piece)
        numbers = None if piece.statistics is None else self._numbers(piece)
        part = part_of(self._piece(piece, reads, [to and to.rows for to in writes], numbers))
        if part is None:
            raise self._refused(piece)
        if self._ops[piece.of].aliases:
            self._see(piece, part, shown, writes)
            return None
        results = results_of(call)
        made = [to and self._place(result, to) for result, to in zip(results, writes, strict=True)]
        if piece.iterations[0] == 0:
            return record(call, part, made, shown)
        sums = [place for place, to in enumerate(writes) if to is not None and to.rows is None]
        return adding(call, part, made, shown, sums) if sums else record(call, part, made, shown)

    # What pieces read and write

    def _read(self, piece: _core.Piece) -> tuple[dict[View, Rows], dict[View, View]]:
        """Of each tensor given of which rows are read: which, and the tensor that shows them."""
        op, names = self._ops[piece.of], self._given[piece.of]
        position = {name: k for k, name in enumerate(op.inputs)}
        reads, shown = dict[View, Rows](), dict[View, View]()
        for view, numbers in self._rows_of(piece).items():
            tensor, where = piece.reads[position[names[view]]]
            if piece.does == "statistics" and where is None:  # it is not in them
                continue
            reads[view] = rows = rows_read(numbers.axes, numbers[1:], piece.iterations, view.sizes)
            held = _Held(view, view.storage, view.offset, view.strides, 0)
            if where is not None and tensor < 0:
                held = held._replace(storage=self._nothing(view))
            elif where is not None and self._of.get(tensor, names[view]) == names[view]:
                held = self._held.get(tensor, held)
            elif where is not None:  # another is written over its rows, which are where they were
                _require_same_rows(names[view], view, self._held[tensor].like)
            shown[view] = held.view((*rows.axes, rows.begin, rows.end, held.base))
        return reads, shown

    def _rows_of(self, piece: _core.Piece) -> Mapping[View, Any]:
        """Along which rows a call goes through what it is given: in the graph, what shows bytes again is read whole."""
        key = (piece.of, piece.loop)
        if key not in self._rows:
            call, loop = self._call[piece.of], self._ops[piece.of].loops[piece.loop]
            tensors = pytree.tree_leaves((call.args, dict(call.kwargs), call.result))
            metas = {view: _meta(view) for view in tensors if isinstance(view, View)}
            args, kwargs, result = showing((call.args, dict(call.kwargs), call.result), metas)
            for found in loops_of(call.function, args, kwargs, result):
                rows = _by_view(found, call.inputs, metas)
                if rows is not None and self._is_same(piece.of, loop, found, rows, metas):
                    self._rows[key] = {view: one for view, one in rows.items() if one is not None}
                    break
            else:
                raise self._refused(piece)
        return self._rows[key]

    def _is_same(self, number: int, loop: _core.Loop, found: Any, rows: Any, metas: Any) -> bool:
        """Whether a loop of a call is this loop of its op."""
        op, given, made = self._ops[number], self._given[number], self._made[number]
        by_name = {given[view]: one for view, one in rows.items()}
        name_of = {id(metas[view]): name for view, name in made.items()}
        reads = {
            op.inputs[k]: ((first, last), *(Fraction(n, per) for n in numbers))
            for k, first, last, *numbers, per in loop.reads
        }
        writes = {op.outputs[k]: ((first, last), step) for k, first, last, step in loop.writes}
        same_writes = {name_of.get(id(tensor)): tuple(written) for tensor, written in found.writes} == writes
        same_reads = all(by_name.get(name) is not None and tuple(by_name[name]) == of for name, of in reads.items())
        same_passes = (found.statistics is None) == (loop.statistics is None)
        return found.extent == loop.extent and same_writes and same_reads and same_passes

    def _written(self, piece: _core.Piece) -> list[_To | None]:
        """What a piece writes of each result of a call; None for what it leaves out, and for what is made early."""
        op, names = self._ops[piece.of], self._made[piece.of]
        position = {name: k for k, name in enumerate(op.outputs)}
        found: list[_To | None] = []
        for result, early in zip(results_of(self._call[piece.of]), self._early_ones(piece), strict=True):
            if result is None or early:
                found.append(None)
                continue
            tensor, where = piece.writes[position[names[result]]]
            self._of[tensor] = names[result]
            rows = None
            if where is not None:
                first, last, begin, end, _ = where
                rows = Rows((first, last), begin, end, math.prod(result.sizes[first : last + 1]), (begin, end))
            found.append(_To(tensor, where, rows))
        return found

    def _place(self, result: View | None, to: _To) -> View:
        """Where a result, or rows of it, are written."""
        assert result is not None
        if to.where is None or to.rows is None:
            return result
        root = self._root[self._tensor[to.tensor]]
        if self._new.storages[result.storage].root == root:
            held = _Held(result, result.storage, result.offset, result.strides, 0)
        else:
            held = self._buffer(to.tensor, result, to.where)
        self._held[to.tensor] = held
        return held.view(to.where)

    def _buffer(self, tensor: int, like: View, where: _Range) -> _Held:
        """Where rows lie of which a tensor of the split graph holds some, and nothing else."""
        first, last, *_, base = where
        root, whole = self._root[self._tensor[tensor]], math.prod(like.sizes[first : last + 1])
        size = math.prod(like.sizes) * like.dtype.itemsize
        if like.end - like.begin != size or size % whole:
            raise UnsupportedError(f"tensor {self._tensor[tensor]!r} has gaps, so that its rows have no buffer")
        sizes = Rows((first, last), 0, self._bytes[tensor] // (size // whole), whole, (0, 0)).sizes(like.sizes)
        if root not in self._storage_of:
            self._storage_of[root] = self._storage(like, root)
        return _Held(like, self._storage_of[root], 0, _dense(sizes, like.strides), base)

    def _see(self, piece: _core.Piece, part: Part, shown: Mapping[View, View], writes: Sequence[_To | None]) -> None:
        """Views of rows, which are made by nobody."""
        [source] = shown.values()
        with torch.no_grad():
            rows = _meta(source)
            given, kwargs = pytree.tree_map(
                lambda leaf: rows if isinstance(leaf, View) and leaf in shown else leaf, (part.args, dict(part.kwargs))
            )
            try:
                made = part.func(*given, **kwargs)
            except RuntimeError:
                raise self._refused(piece) from None
        tensors = list(made) if isinstance(made, (tuple, list)) else [made]
        for result, tensor, to in zip(results_of(self._call[piece.of]), tensors, writes, strict=True):
            if storage_key(tensor.untyped_storage()) != storage_key(rows.untyped_storage()):
                raise self._refused(piece)
            assert result is not None
            assert to is not None
            assert to.where is not None
            _, last, begin, _, base = to.where
            strides = tuple(map(int, tensor.stride()))
            offset = int(tensor.storage_offset()) - (begin - base) * strides[last]
            self._held[to.tensor] = _Held(result, source.storage, offset, strides, base)

    # Parts of calls

    def _piece(
        self, piece: _core.Piece, reads: Mapping[View, Rows], writes: Sequence[Rows | None], numbers: View | None
    ) -> Piece:
        call, loop = self._call[piece.of], self._ops[piece.of].loops[piece.loop]
        early = [view for view in self._made_early(piece) if view is not None] if piece.does == "part" else []
        whole = Part(call.function, call.args, call.kwargs)
        return Piece(whole, reads, results_of(call), writes, piece.iterations, loop.extent, early, numbers)

    def _made_early(self, piece: _core.Piece) -> list[View | None]:
        """The results that are made before the first piece, and None for the others, and for what has no elements."""
        pairs = zip(results_of(self._call[piece.of]), self._early_ones(piece), strict=True)
        return [result if early and result is not None and 0 not in result.sizes else None for result, early in pairs]

    def _early_ones(self, piece: _core.Piece) -> list[bool]:
        """For each result, whether it is made before the first piece."""
        op, names = self._ops[piece.of], self._made[piece.of]
        early = {op.outputs[k] for k, _ in op.loops[piece.loop].early}
        return [result is not None and names[result] in early for result in results_of(self._call[piece.of])]

    def _refused(self, piece: _core.Piece) -> UnsupportedError:
        op = self._ops[piece.of]
        return UnsupportedError(f"op {op.name!r} ({op.type}) cannot be run in pieces along this loop")

    # Storages

    def _storage(self, like: View, root: str) -> int:
        self._new.storages.append(StorageRecord(self._new.storages[like.storage].device, root))
        return len(self._new.storages) - 1

    def _nothing(self, like: View) -> int:
        """A storage without bytes."""
        return self._storage(like, "")

    def _note(self, view: View) -> None:
        views = self._new.storages[view.storage].views
        if view not in views:
            views.append(view)


def _named(
    recording: Recording, graph: _core.Graph
) -> Iterator[tuple[str, CallRecord, Mapping[View, str], Mapping[View, str]]]:
    """Each call, the name of its op, and the names in the graph of the tensors that it is given, and that it makes."""
    root = [record.root for record in recording.storages]
    known = dict[View, str]()
    seen = {source.view.storage for source in recording.sources}
    for source in recording.sources:
        known.setdefault(source.view, root[source.view.storage])
    for call in recording.calls:
        op, *views = (graph.ops[k] for k in call.ops)
        given = {view: known.get(view, root[view.storage]) for view in call.inputs}
        made = dict[View, str]()
        fresh, others = iter(name for name in op.outputs), iter(name for one in views for name in one.outputs)
        changed = [view for view in call.inputs if view.storage in call.written]
        for view in dict.fromkeys([*call.outputs, *changed]):
            inside = view.storage not in seen or root[view.storage] not in op.outputs
            seen.add(view.storage)
            name = next(fresh if inside else others, None)
            if name is not None:
                known[view] = made[view] = name
        yield op.name, call, given, made


def _require_same_rows(name: str, view: View, over: View) -> None:
    """Rows of a tensor that are left, where another is written over the others."""
    here, there = ((one.strides, one.offset, one.dtype.itemsize, one.conj, one.neg, one.sizes) for one in (view, over))
    if here != there:
        raise UnsupportedError(f"tensor {name!r} has another layout than the tensor that is written over its rows")


def _meta(view: View) -> Tensor:
    """A tensor without bytes that lies in its storage as a view does."""
    storage = torch.empty(max(view.end // view.dtype.itemsize, view.offset), dtype=view.dtype, device="meta")
    return storage.as_strided(view.sizes, view.strides, view.offset)


def _by_view(loop: Loop, views: Sequence[View], metas: Mapping[View, Tensor]) -> dict[View, Any] | None:
    """The rows of each tensor that a call reads; None if it reads others where the tensor is given again."""
    found: dict[int, set[Any]] = {}
    for tensor, rows in loop.inputs:
        found.setdefault(id(tensor), set()).add(rows)
    if any(len(rows) > 1 for rows in found.values()):
        return None
    return {view: next(iter(found[id(metas[view])])) for view in views}


def _view(like: View, storage: int, offset: int, sizes: tuple[int, ...], strides: tuple[int, ...]) -> View:
    item = like.dtype.itemsize
    extent = 1 + sum((n - 1) * stride for n, stride in zip(sizes, strides, strict=True)) if math.prod(sizes) else 0
    begin = offset * item
    return View(storage, offset, sizes, strides, like.dtype, like.conj, like.neg, begin, begin + extent * item)


def _dense(sizes: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """Strides of a dense tensor whose axes lie in the order of these strides."""
    found, step = [0] * len(sizes), 1
    for axis in sorted(range(len(sizes)), key=lambda k: (strides[k], -k)):
        found[axis] = step
        step *= sizes[axis]
    return tuple(found)
