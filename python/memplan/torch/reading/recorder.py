"""From recorded operators to a graph dict: tensors that share a storage become one root and views of it.

What torch hands out are tensors; what memory is made of are storages. A storage's first tensor is its root
and stands for all of its bytes; every other tensor in it is an alias at a byte offset:

    storage   0                                   nbytes
              ├────────────── root ──────────────┤
                    ├── y = x.chunk(2)[1] ──┤          offset = storage_offset * itemsize

An operator that mutates a tensor gives the same bytes a new name, and whoever reads these bytes later reads
that name. It runs after whoever has read them before, which is written down (`after`), since such an alias does not
show that it destroys what it is an alias of. For the same reason, bytes that are mutated are nobody's copy: a copy
or a concatenation that may share bytes with what it was made from does so only if neither is mutated later.

An operator that writes all bytes of what an op has made, element by element, may as well make a new storage (`renews`):
whoever reads these bytes later reads that, and it may lie over the old one.

Ops that draw random numbers from one generator run one after another, so that each gets the same numbers in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from torch import Tensor

from ...inplace_ops import reusable
from ..private import schema_of, storage_key
from .entries import Link, Op, OpLoop, Storage, Value, op_entry, optional_entries, tensor_entry
from .geometry import dense_address, distinct, geometry, span, without
from .listening import Call, Listener
from .loops import Loop, Rows, shows_again
from .relations import NOTHING, Offers, extent, is_dense, lie_alike, lies_in_order
from .workspaces import NO_NEEDS, Needs


class _Names:
    """Names that are handed out once: a second `relu` becomes `relu_1`."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}

    def __call__(self, name: str) -> str:
        name = name or "unnamed"
        count = self._next.setdefault(name, 0)
        if count == 0:
            self._next[name] = 1
            return name
        while (candidate := f"{name}_{count}") in self._next:
            count += 1
        self._next[name] = count + 1
        self._next[candidate] = 1
        return candidate


class GraphRecorder:
    """A graph in the making: sources first, then ops in execution order, then `graph` gives the dict.

    Every storage that it has seen is kept until it goes away itself: with fake tensors that takes no memory,
    and a storage stays recognisable by its address. The listener is told what the ops were made from.
    """

    def __init__(
        self,
        inplace_ops: Collection[str] = (),
        listener: Listener | None = None,
        renewing: bool = False,
        kernels: bool = False,
    ) -> None:
        self.listener = listener
        self.kernels = kernels  # whether what kernels allocate is a workspace
        self.scratch: dict[str, tuple[int, int]] = {}  # what they allocate, where it is none
        self._renewing = renewing
        self._renewed = ""  # the name that bytes had which the newest op made anew
        self._inplace_ops = inplace_ops
        self._values: list[Value] = []
        self._ops: list[Op] = []
        self._storages: dict[int, Storage] = {}
        self._tensor_name = _Names()
        self._op_name = _Names()
        self._constants = 0
        self._begun = 0  # the position of the newest op that was asked for
        self._drawn: dict[Hashable, tuple[Op]] = {}  # the op that drew from a generator last

    def source(self, tensor: Tensor, name: str, kind: str, origin: Tensor | None = None) -> None:
        """Declare a tensor, an `input` or `weight`, that exists before the first op; `origin` is what it stands for.

        A number is added to a name that is taken. A tensor whose storage is known already changes nothing.
        """
        if dense_address(tensor, name) not in self._storages:
            self._root(tensor, self._tensor_name(name), kind)
        if self.listener is not None:
            self.listener.source(tensor, name, kind, origin)

    def constant(self, tensor: Tensor, origin: Tensor | None = None) -> None:
        """Declare a weight that has no name of its own: `constant_0`, `constant_1`, ..."""
        if not self.knows(tensor):
            self.source(tensor, f"constant_{self._constants}", "weight", origin)
            self._constants += 1

    def knows(self, tensor: Tensor) -> bool:
        """Whether the tensor's storage has been seen."""
        return dense_address(tensor, "a tensor") in self._storages

    def op(
        self,
        name: str,
        type: str,
        inputs: Iterable[Tensor],
        outputs: Sequence[Tensor],
        mutated: Iterable[Tensor] = (),
        workspace: int = 0,
        offers: Offers = NOTHING,
        drawn: Iterable[Hashable] = (),
        after: Iterable[Op] = (),
        flops: float | None = None,
        loops: Sequence[Loop] = (),
        renews: bool = False,
        scratch: tuple[int, int] | None = None,
        copied: bool = False,
        needs: Sequence[Needs] = (),
    ) -> None:
        """Append an op of a type such as `aten.relu.default`.

        Its outputs are called `name`, or `name.0`, `name.1`, ... where there are several; a number is added where that
        is taken. It may read a tensor several times; an unknown storage is declared as a constant, and an output in a
        known storage is an alias. Inputs that it writes to, `mutated`, are given new names as outputs unless it yields
        them too. It needs `workspace` bytes while it runs. `offers` is what its first output may share with its inputs.
        Ops that draw random numbers from the same generator keep their order, and it runs `after` those that read a
        number which it takes. `flops` are its floating-point operations, where they are known. It may be split along
        each of `loops` alone, unless it writes to its inputs. If it `renews`, its only output lies in the bytes of its
        first input, counts as a new storage from now on, and may lie over the old one. Its kernel allocates `scratch`
        besides, as `notes.Scratch` has it. If `copied`, it computes rows that lie scattered elsewhere, and copies them.
        Pieces along each of the loops have `needs`.

        SourceError if a tensor has no storage of its own, as sparse ones.
        """
        operands, changed = list(inputs), list(mutated)
        written = {dense_address(t, f"op '{name}'") for t in changed}
        op = Op(self._op_name(name), type, {}, workspace, offers=offers, after=dict.fromkeys(after), flops=flops)
        if scratch is not None:
            self.scratch[op.name] = scratch
        self._begun = len(self._ops)
        self._ops.append(op)
        for tensor in [*operands, *changed]:
            op.inputs.update(dict.fromkeys(self._read(tensor)))
        given = {id(tensor): self._newest(tensor) for tensor in operands} if loops else {}
        results = distinct([*outputs, *changed], f"op '{name}'")
        old = self._forget(operands[0]) if renews else None
        for number, tensor in enumerate(results):
            label = op.name if len(results) == 1 else f"{op.name}.{number}"
            self._write(op, tensor, self._tensor_name(label), written)
        if old is not None:
            storages = self._storage(results[0]), old
            op.inplace += [Link(op.outputs[0], value, 0, storages) for value in (old.root, old.written) if value]
            op.inplace = [link for link in op.inplace if link.input in op.inputs]
        elif results and not any(view is op.outputs[0] for view, _, _ in op.alias):
            self._relate(op, results[0], operands)
        if written or not op.outputs or len(op.alias) < len(op.outputs):  # a view reads nothing
            self._order(op, [*operands, *changed], written)
        for generator in drawn:
            op.after.update(dict.fromkeys(self._drawn.get(generator, ())))
            self._drawn[generator] = (op,)
            op.draws = True
        if loops and not changed:
            for loop, need in zip(loops, needs or [NO_NEEDS] * len(loops), strict=True):
                if (found := self._loop(op, loop, given)) is not None:
                    names = dict.fromkeys(given[id(tensor)] for tensor in need.copied)
                    found.workspace, found.copied = need.whole, [name for name in names if name in found.reads]
                    op.loops.append(found)
            op.pieces_copied = copied

    def may_renew(self, function: Any, args: Sequence[Any]) -> bool:
        """Whether bytes that a call writes to may count as new ones: an op has made all of them, and nothing else."""
        if not self._renewing or not schema_of(function).is_mutable or not args or not isinstance(args[0], Tensor):
            return False
        storage = self._storages.get(dense_address(args[0], "a tensor"))
        return storage is not None and storage.root.kind == "intermediate"

    def _forget(self, tensor: Tensor) -> Storage:
        """The storage of a tensor, which is to be new to whatever comes."""
        storage = self._storages.pop(dense_address(tensor, "a tensor"))
        self._grow(storage)
        self._renewed = storage.root.name
        return storage

    @contextmanager
    def waiting_for(self, ops: Collection[Op]) -> Iterator[None]:
        """Let ops that are appended meanwhile run after these."""
        begin = len(self._ops)
        yield
        for op in self._ops[begin:] if ops else ():
            op.after.update(dict.fromkeys(ops))

    def called(self, function: Callable[..., Any], call: Call, result: Any, written: Sequence[Tensor] = ()) -> None:
        """Tell the listener from which call the newest op was made."""
        renewed, self._renewed = self._renewed, ""
        if self.listener is not None:
            self.listener.call(function, call, result, written, self._newest_ops(), renewed)

    def number(self, function: Callable[..., Any], call: Call, stand_in: Any) -> Any:
        """What stands for the number that the call of the newest op reads."""
        if self.listener is None:
            return stand_in
        return self.listener.number(function, call, stand_in, self._newest_ops())

    def rename(self, tensor: Tensor, name: str) -> None:
        """Give the newest name of a recorded tensor's bytes another name, unless an op did not make it."""
        value = self._newest(tensor)
        if value.kind == "intermediate":
            value.name = self._tensor_name(name)

    def only_offers(self) -> Offers:
        """What the only op allows its output to share; nothing if there are several."""
        return self._ops[0].offers if len(self._ops) == 1 else NOTHING

    def flops(self) -> float | None:
        """Floating-point operations of all ops; None where nothing is known of any."""
        known = [op.flops for op in self._ops if op.flops is not None]
        return sum(known) if known else None

    def graph(self, outputs: Iterable[Tensor], free: Collection[Tensor] = (), optional: bool = True) -> dict[str, Any]:
        """The graph dict, with what the caller gets as `outputs`.

        An unknown storage among these is declared as a constant. The storages of `free` are counted elsewhere: they are
        given 0 bytes. `optional` says whether to say what ops may share, besides what they do share.
        """
        names = list(dict.fromkeys(self._read(tensor)[0] for tensor in outputs))
        for storage in self._storages.values():
            self._grow(storage)
        if self.listener is not None:
            self.listener.ended({address: storage.root.name for address, storage in self._storages.items()})
        outside = self._outside({dense_address(t, "a tensor") for t in free})
        return {
            "tensors": [tensor_entry(value, value in outside) for value in self._values],
            "ops": [
                op_entry(op, outside) | (optional_entries(op, position) if optional else {})
                for position, op in enumerate(self._ops)
            ],
            "outputs": [value.name for value in names],
        }

    def inner_bytes(self, free: Collection[Tensor]) -> int:
        """Bytes of all storages that ops made, save those of `free`: a bound on what a plan of them needs."""
        outside = {dense_address(t, "a tensor") for t in free}
        return sum(
            storage.root.nbytes
            for address, storage in self._storages.items()
            if storage.root.kind == "intermediate" and address not in outside
        )

    @property
    def newest_op(self) -> Op:
        """The op that was appended last."""
        return self._ops[-1]

    @property
    def drawn(self) -> Collection[Hashable]:
        """The generators that ops have drawn from."""
        return self._drawn.keys()

    def mutated(self, tensor: Tensor) -> bool:
        """Whether an op has mutated the tensor's storage."""
        storage = self._storages.get(dense_address(tensor, "a tensor"))
        return storage is not None and storage.written is not None

    def _newest_ops(self) -> range:
        return range(self._begun, len(self._ops))

    def _outside(self, addresses: set[int]) -> set[Value]:
        storages = [self._storages[address] for address in addresses & self._storages.keys()]
        return {value for storage in storages for value in self._members(storage)}

    def _members(self, storage: Storage) -> list[Value]:
        members = [storage.root]
        for op in self._ops:
            members += [view for view, root, _ in op.alias if root is storage.root]
        return members

    def _value(self, name: str, kind: str, nbytes: int, tensor: Tensor) -> Value:
        dtype = str(tensor.dtype).removeprefix("torch.")
        value = Value(name, kind, nbytes, [int(n) for n in tensor.shape], dtype, len(self._values))
        value.permuted = not lies_in_order(tensor)
        self._values.append(value)
        return value

    def _root(self, tensor: Tensor, name: str, kind: str) -> Value:
        handle = tensor.untyped_storage()
        root = self._value(name, kind, int(handle.nbytes()), tensor)
        self._storages[storage_key(handle)] = Storage(handle, root, {geometry(tensor): root})
        return root

    def _newest(self, tensor: Tensor) -> Value:
        storage = self._storage(tensor)
        return storage.names.get(geometry(tensor), storage.root)

    def _read(self, tensor: Tensor) -> list[Value]:
        """The tensor's name, and the name of a mutation that has changed its bytes since."""
        self.constant(tensor)
        value = self._newest(tensor)
        written = self._storages[dense_address(tensor, "a tensor")].written
        return [value, written] if written is not None and written.serial > value.serial else [value]

    def _write(self, op: Op, tensor: Tensor, name: str, written: set[int]) -> None:
        storage = self._storages.get(dense_address(tensor, f"op '{op.name}'"))
        if storage is None:
            op.outputs.append(self._root(tensor, name, "intermediate"))
            return
        self._grow(storage)
        if storage.root in op.outputs:
            op = self._view_op(op)
        view = self._value(name, "intermediate", extent(tensor), tensor)
        view.is_view = True
        offset = tensor.storage_offset() * tensor.dtype.itemsize if view.nbytes else 0
        op.outputs.append(view)
        op.inputs.setdefault(storage.root)
        op.alias.append((view, storage.root, int(offset)))
        storage.names[geometry(tensor)] = view
        if dense_address(tensor, f"op '{op.name}'") in written:
            storage.written, storage.written_at = view, int(offset)

    def _relate(self, op: Op, output: Tensor, operands: list[Tensor]) -> None:
        """Note what an op may share with its first output, where that and its inputs lie in memory as it takes."""
        over, copy_of, parts, first = op.offers
        if not over:
            over = reusable(op.type, operands, self._inplace_ops)
            first = len(over) < len(operands)
        meets = self._meets if first else self._crosses
        for tensor in distinct(over, op.name):
            if lie_alike(output, tensor) and not any(meets(tensor, other) for other in without(operands, tensor)):
                op.inplace += self._over(op, output, tensor)
        if copy_of is not None:
            op.slices += self._links(op, output, copy_of, 0)
        offset_of = dict(reversed(parts))  # of a tensor that comes twice, the first
        for tensor in distinct((part for part, _ in parts), op.name):
            op.concats += self._links(op, output, tensor, offset_of[tensor])

    def _loop(self, op: Op, loop: Loop, given: Mapping[int, Value]) -> OpLoop | None:
        """The loop by the names of the op; None if it makes several tensors of one name, or views of what it makes.

        `given` are the names of inputs by their ids. A name is listed if the op goes through all tensors of this name
        alike, and if it does not, or these show bytes again, read whole. Outputs that stay inside are left out.
        """
        writes = {self._newest(tensor): written for tensor, written in loop.writes if self.knows(tensor)}
        sums = [self._newest(tensor) for tensor in loop.sums if self.knows(tensor)]
        first = [(self._newest(tensor), inputs) for tensor, inputs in loop.early if self.knows(tensor)]
        made = [*writes, *sums, *(value for value, _ in first)]
        if len(set(made)) < len(made) or set(made) != set(op.outputs):
            return None
        rows: dict[Value, set[Rows | None]] = {}
        for tensor, read in loop.inputs:
            value = given.get(id(tensor))
            if value is not None:
                plain = value.shape == list(tensor.shape) and not shows_again(tensor)
                rows.setdefault(value, set()).add(read if plain else None)
        reads = {value: read for value, (read, *others) in rows.items() if read is not None and not others}
        early = {value: [given[id(tensor)] for tensor in inputs] for value, inputs in first}
        statistics = None
        if loop.statistics is not None:
            counted = {given[id(tensor)]: None for tensor in loop.statistics.inputs}
            by_rows = [given.get(id(tensor)) for tensor, read in loop.inputs if read is not None]
            if not all(value in reads for value in counted if value in by_rows):
                return None
            statistics = (list(counted), loop.statistics.nbytes)
        return OpLoop(loop.extent, reads, writes, sums, early, statistics)

    def _over(self, op: Op, output: Tensor, tensor: Tensor) -> list[Link]:
        """That an output may be written over an input, by each name that the op reads for just these bytes."""
        links = self._links(op, output, tensor, 0)
        storage = self._storage(tensor)
        same = storage.written_at == span(tensor)[0] and storage.written in op.inputs
        if links and same and storage.written is not None and storage.written is not links[0].input:
            links += [Link(link.output, storage.written, 0, link.storages) for link in links]
        return links

    def _links(self, op: Op, output: Tensor, tensor: Tensor, offset: int) -> list[Link]:
        """That an op's output and input may share bytes, if both have names that stand for their bytes alone."""
        whole, source = self._whole(output), self._whole(tensor)
        if whole is None or source is None or source not in op.inputs:
            return []
        return [Link(whole, source, offset, (self._storage(output), self._storage(tensor)))]

    def _whole(self, tensor: Tensor) -> Value | None:
        """The name of a dense tensor's bytes; None if there is none that stands for just these."""
        value = self._newest(tensor)  # what had another name before its bytes were made anew is the root
        return value if value is not None and is_dense(tensor) and value.nbytes == extent(tensor) else None

    def _crosses(self, tensor: Tensor, other: Tensor) -> bool:
        """Whether an element of `other` may be in the bytes of an element of `tensor` in another place."""
        return self._meets(tensor, other) and geometry(tensor) != geometry(other)

    def _meets(self, tensor: Tensor, other: Tensor) -> bool:
        """Whether two tensors have bytes in common."""
        (begin, end), (first, last) = span(tensor), span(other)
        return self._storage(tensor) is self._storage(other) and begin < last and first < end

    def _order(self, op: Op, operands: list[Tensor], written: set[int]) -> None:
        """Let an op that mutates a storage run after those that have read what it destroys."""
        for address in dict.fromkeys(dense_address(tensor, "a tensor") for tensor in operands):
            storage = self._storages[address]
            if address in written:
                op.after.update(dict.fromkeys(storage.readers))
                storage.readers, storage.mutated_at = [], len(self._ops)
            else:
                storage.readers.append(op)

    def _storage(self, tensor: Tensor) -> Storage:
        return self._storages[dense_address(tensor, "a tensor")]

    def _view_op(self, op: Op) -> Op:
        """An op of its own for views of what `op` has just made: an alias needs an earlier op's output."""
        views = Op(self._op_name(f"{op.name}.views"), "views", {})
        self._ops.append(views)
        return views

    @staticmethod
    def _grow(storage: Storage) -> None:
        """An `out=` variant may have resized the storage: it counts with the most that it ever had."""
        storage.root.nbytes = max(storage.root.nbytes, int(storage.handle.nbytes()))
