"""How a call writes what it computes into its place: straight, by its `out=` overload, or by way of a copy.

A kernel reads its inputs while it writes its output. So it writes straight into the arena only where the two have no
bytes in common, or where it computes each element from the element in the same bytes. All else is computed first,
and copied afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...errors import UnsupportedError
from ..private import (
    OpOverload,
    dispatch_has_computed_kernel_for,
    dispatch_has_kernel_for,
    overload_name_of,
    pytree,
    schema_of,
)
from ..reading.effects import LIFTS, ONES, ZEROS, flat_tensors
from ..reading.fake import tensors_in
from ..reading.late_numbers import late_numbers, value_of
from ..reading.relations import JOINS, extent, lie_alike
from .memory import Memory
from .pieces import Composed
from .recording import CallRecord, Number, View, with_numbers, with_tensors

_aten = torch.ops.aten
_UNINITIALIZED = {
    _aten.empty.memory_format,
    _aten.empty_like.default,
    _aten.empty_permuted.default,
    _aten.empty_strided.default,
    _aten.new_empty.default,
    _aten.new_empty_strided.default,
}
_FILLED: dict[Any, int] = {**dict.fromkeys(ZEROS, 0), **dict.fromkeys(ONES, 1)}
_WRITERS: dict[Any, Callable[..., Any]] = {  # operators without such an overload, which call others that have one
    _aten.relu.default: lambda x, out: _aten.clamp_min.out(x, 0, out=out),
    _aten.mul.Scalar: torch.mul,
    _aten.div.Scalar: torch.div,
    _aten.clone.default: lambda x, memory_format=None, *, out: out.copy_(x),
    _aten.add.Scalar: lambda x, y, alpha=1, *, out: torch.add(x, y, alpha=alpha, out=out),
    _aten.sub.Scalar: lambda x, y, alpha=1, *, out: torch.sub(x, y, alpha=alpha, out=out),
    _aten.embedding.default: lambda weight, indices, *rest, out, **options: _aten.index_select.out(
        weight, 0, indices.reshape(-1), out=out.view(-1, weight.shape[1])
    ),
}
_RESIZES = {  # their overloads first make the place of a sum as large as what is summed up
    _aten.binary_cross_entropy.default,
    _aten.huber_loss.default,
    _aten.mse_loss.default,
    _aten.smooth_l1_loss.default,
    _aten.soft_margin_loss.default,
}
_ONLY_CONTIGUOUS = {  # whose overloads are wrong for other inputs, as torch 2.13 has them: even the sums are
    _aten.native_batch_norm.default,
}
_COPIES = {_aten.clone.default, _aten._to_copy.default, *LIFTS}  # their first argument, in the layout of the output


class Instruction(NamedTuple):
    """What a call does to memory.

    `copies`: it may compute elsewhere and copy into its place; then `run` gives whether it did, and is told by `seen`
    where each of the results was made. `results`: where they may be made instead, if their kernel gets memory there.
    `keeps`: its kernel may keep memory past the call.
    """

    run: Callable[..., object]
    copies: bool = False
    results: tuple[Tensor, ...] = ()
    keeps: bool = False


def instruction(call: CallRecord, memory: Memory, numbers: dict[int, Any]) -> Instruction | None:
    """How a call is run; None where nothing is to be done.

    `numbers` is what calls have read from tensors, by the id of what stands for it.
    """
    if call.number is None and not call.writes and not any(call.fresh):
        return None  # views of what is there
    func = call.function
    made = _instruction(call, memory, numbers)
    is_aten = isinstance(func, OpOverload) and func.namespace == "aten"
    return made if made is None or is_aten or isinstance(func, Composed) else made._replace(results=(), keeps=True)


def _instruction(call: CallRecord, memory: Memory, numbers: dict[int, Any]) -> Instruction | None:
    func = call.function
    device = memory.arena.device.type
    if isinstance(func, (OpOverload, Composed)) and not (_is_composite(func, device) or _has_numbers(call)):
        if isinstance(func, Composed):
            return _composed(call, func, memory, numbers)
        return _operator(call, func, memory, numbers)
    meets = any(_overlap(memory, view, output) for output in call.outputs for view in call.inputs)
    results = () if meets else _in_arena(call, memory)
    return Instruction(_composite(call, memory, numbers), any(call.fresh), results)


def _operator(call: CallRecord, func: OpOverload, memory: Memory, numbers: dict[int, Any]) -> Instruction | None:
    if torch.Tag.inplace_view in func.tags or func in _UNINITIALIZED:
        return None
    args, kwargs = with_tensors((call.args, dict(call.kwargs)), memory.tensor)
    if not any(call.fresh):
        return Instruction(_calling(func, args, kwargs, numbers))
    outputs = [memory.tensor(view) for view in call.outputs]
    if func in _FILLED:
        value = _FILLED[func]
        return Instruction(lambda: outputs[0].fill_(value))
    if func in _COPIES and call.inputs and _same_bytes(memory, call.inputs[0], call.outputs[0]):
        return None
    meets = any(_overlap(memory, view, output) for output in call.outputs for view in call.inputs)
    in_place = not any(output.is_complex() for output in outputs)  # complex numbers are rounded otherwise in place
    if func in _COPIES and not meets:
        source = args[0]
        return Instruction(lambda: outputs[0].copy_(source))
    if func in JOINS and meets and memory.span(call.outputs[0]) is not None:
        return _join(call, func, memory)
    out = None if call.writes or not all(call.fresh) else out_overload(func, outputs[0].device.type)
    straight = not meets or (in_place and _over_itself(call, func, memory))
    if torch.Tag.pointwise not in func.tags and any(map(_has_gaps, call.outputs)):
        straight = False  # some kernels write as if there were none
    if func in _ONLY_CONTIGUOUS and not _is_contiguous(args[0]):
        straight = False
    if func in _WRITERS and straight:
        return Instruction(_calling(_WRITERS[func], args, {**kwargs, "out": outputs[0]}, numbers))
    if out is not None and straight:
        taken = {argument.name for argument in schema_of(out).arguments}
        names = [argument.name for argument in schema_of(out).arguments if argument.is_out]
        if len(names) == len(outputs):
            given = {name: value for name, value in kwargs.items() if name in taken}
            given.update(zip(names, outputs, strict=True))
            return Instruction(_calling(out, args, given, numbers))
    over = _inplace_overload(func) if meets and in_place and _is_over_its_first(call, memory) else None
    if over is not None:
        return Instruction(_calling(over, args, kwargs, numbers))
    run = _copying(_calling(func, args, kwargs, numbers), call, memory, flat_tensors)
    return Instruction(run, True, () if meets else _in_arena(call, memory))


def _composed(call: CallRecord, func: Composed, memory: Memory, numbers: dict[int, Any]) -> Instruction:
    """A piece of a call: what it is given are the same tensors in each run."""
    run = _calling(func, *with_tensors((call.args, dict(call.kwargs)), memory.tensor), numbers)
    if not any(call.fresh):
        return Instruction(run)
    meets = any(_overlap(memory, view, output) for output in call.outputs for view in call.inputs)
    return Instruction(_copying(run, call, memory, flat_tensors), True, () if meets else _in_arena(call, memory))


def _calling(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], numbers: Mapping[int, Any]
) -> Callable[[], Any]:
    """A call that can be made again and again, each time with the numbers that are known then."""
    if not list(late_numbers((args, kwargs))):
        return lambda: function(*args, **kwargs)

    def now(value: Any) -> Any:
        return with_numbers(value, numbers) if isinstance(value, (list, tuple)) else value_of(value, numbers)

    return lambda: function(*map(now, args), **{name: now(value) for name, value in kwargs.items()})


def _join(call: CallRecord, func: OpOverload, memory: Memory) -> Instruction:
    """A concatenation part by part, without those that lie where they belong."""
    whole = memory.tensor(call.outputs[0])
    axis = int(call.args[1] if len(call.args) > 1 else call.kwargs.get("dim", 0)) % max(1, whole.dim())
    copies: list[tuple[Tensor, Tensor]] = []
    outside = True
    start = 0
    for number, view in enumerate(call.args[0]):
        part = memory.tensor(view)
        if func is _aten.stack.default:
            place = whole.select(axis, number)
        elif view.sizes == (0,):  # an empty one may have any rank
            continue
        else:
            place = whole.narrow(axis, start, view.sizes[axis])
            start += view.sizes[axis]
        if not _is_in(place, part):
            copies.append((place, part))
            outside = outside and not _overlap(memory, view, call.outputs[0])
    if outside:
        return Instruction(lambda: _copy_all(copies))

    def run(seen: object = None) -> bool:
        _copy_all([(place, part.clone()) for place, part in copies])
        return True

    return Instruction(run, True)


def _is_in(place: Tensor, part: Tensor) -> bool:
    same = place.data_ptr() == part.data_ptr() and place.dtype == part.dtype
    return same and lie_alike(place, part) and not (part.is_conj() or part.is_neg())


def _copy_all(copies: Sequence[tuple[Tensor, Tensor]]) -> None:
    for place, part in copies:
        place.copy_(part)


def _composite(call: CallRecord, memory: Memory, numbers: dict[int, Any]) -> Callable[..., object]:
    """A call of any function: it gets tensors of its own, as it may change their sizes, and numbers as they are now."""

    def tensor(view: View) -> Tensor:
        return memory.tensor(view).detach().requires_grad_(view in call.leaves)

    def compute() -> Any:
        args, kwargs = with_tensors((call.args, dict(call.kwargs)), tensor)
        if _has_numbers(call):
            args, kwargs = with_numbers((args, kwargs), numbers)
        with torch.no_grad():
            return call.function(*args, **kwargs)

    if call.number is not None:
        number = call.number

        def read() -> None:
            numbers[id(number)] = compute()

        return read
    return _copying(compute, call, memory, lambda result: (tensor for _, tensor in tensors_in(result)))


def _copying(
    compute: Callable[[], Any], call: CallRecord, memory: Memory, tensors: Callable[[Any], Any]
) -> Callable[..., bool]:
    """What a call makes is copied into its place, unless it was made there. Gives whether something was copied."""
    outputs = [memory.tensor(view) for view in call.outputs]
    places = [output if new else None for output, new in zip(outputs, call.fresh, strict=True)]
    elsewhere = [view if memory.offset[view.storage] is None else None for view in call.outputs]
    given = [memory.tensor(view) for view in call.inputs] if any(elsewhere) else []
    function = call.function

    def run(seen: Callable[[list[int]], None] | None = None) -> bool:
        made = list(zip(elsewhere, places, _made(compute(), len(places), tensors), strict=True))
        rest = [
            (place, value)
            for view, place, value in made
            if place is not None and not (view and _adopted(view, value, memory, given)) and value is not None
        ]
        moved = [(place, value) for place, value in rest if not _is_in(place, value)]
        if moved and seen is not None:
            seen([value.data_ptr() for place, value in rest if memory.has(place)])
        if any(_meet(value, place) for _, value in moved for place, _ in moved):
            moved = [(place, value.clone()) for place, value in moved]
        for place, value in moved:
            _take(place, value, function)
        return bool(moved)

    return run


def _adopted(view: View, value: Tensor | None, memory: Memory, inputs: Sequence[Tensor]) -> bool:
    """Let a storage that has no memory yet be where a kernel has made its tensor; else it gets its own."""
    if memory.is_settled(view.storage):
        return False
    if value is not None:
        storage = value.untyped_storage()
        alone = all(storage.data_ptr() != tensor.untyped_storage().data_ptr() for tensor in inputs)
        if alone and storage.nbytes() == memory.nbytes(view.storage) and memory.lend(view.storage, value, view):
            return True
    memory.own(view.storage)
    return False


def _meet(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors may have bytes in common."""
    begin, then = one.data_ptr(), other.data_ptr()
    return begin < then + extent(other) and then < begin + extent(one)


def _in_arena(call: CallRecord, memory: Memory) -> tuple[Tensor, ...]:
    """The results of a call that have a place in the arena, which none of its inputs shares.

    What a kernel allocates first need not be its result: it would write over an input that it has still to read.
    Between rows of a tensor lies what others have written: nothing can be made there.
    """
    pairs = zip(call.outputs, call.fresh, strict=True)
    placed = [view for view, new in pairs if new and memory.span(view) is not None]
    return () if any(map(_has_gaps, placed)) else tuple(map(memory.tensor, placed))


def _has_gaps(view: View) -> bool:
    """Whether other bytes lie between those of a tensor."""
    return view.end - view.begin > math.prod(view.sizes) * view.dtype.itemsize


def _is_contiguous(tensor: Tensor) -> bool:
    formats = [torch.contiguous_format] + [torch.channels_last] * (tensor.dim() == 4)
    return any(tensor.is_contiguous(memory_format=one) for one in formats)


def _take(place: Tensor, value: Tensor, function: Any) -> None:
    """Copy a result into its place.

    What a fake kernel leaves without bytes, as it does not know how many they are, stays where the kernel has made it.
    """
    if value.shape == place.shape:
        place.copy_(value)
    elif place.numel() == 0:
        place.set_(value)  # type: ignore[call-overload]
    else:
        shapes = f"{list(value.shape)}, and its fake kernel said {list(place.shape)}"
        raise UnsupportedError(f"{function}: its kernel returned a tensor of shape {shapes}: it cannot be planned")


def _made(result: Any, count: int, tensors: Callable[[Any], Any]) -> Sequence[Tensor | None]:
    """What a call returned, as many as were planned: None where a kernel leaves out what its fake kernel gives."""
    found = list(tensors(result))
    return result if len(found) < count and isinstance(result, (tuple, list)) and len(result) == count else found


def _has_numbers(call: CallRecord) -> bool:
    leaves = pytree.tree_leaves((call.args, dict(call.kwargs)))
    return call.number is not None or any(isinstance(leaf, Number) for leaf in leaves)


def _overlap(memory: Memory, view: View, other: View) -> bool:
    """Whether two tensors may have bytes in common."""
    a, b = memory.span(view), memory.span(other)
    if a is not None and b is not None:
        return a[0] < b[1] and b[0] < a[1]
    return a is b and memory.home(view.storage) == memory.home(other.storage)


def _same_bytes(memory: Memory, view: View, output: View) -> bool:
    """Whether a tensor lies in the arena where and as another does."""
    span = memory.span(view)
    same = span is not None and span == memory.span(output) and view.dtype == output.dtype
    return same and not (view.conj or view.neg) and lie_alike(memory.tensor(view), memory.tensor(output))


def _over_itself(call: CallRecord, func: OpOverload, memory: Memory) -> bool:
    """Whether each element of the only output is computed from elements in the same bytes, as far as they meet."""
    if torch.Tag.pointwise not in func.tags or len(call.outputs) != 1:
        return False
    output = call.outputs[0]
    inputs = [view for view in call.inputs if _overlap(memory, view, output)]
    return all(_same_bytes(memory, view, output) and view.strides == output.strides for view in inputs)


def _is_over_its_first(call: CallRecord, memory: Memory) -> bool:
    """Whether the only output lies where the first input does, and no other input meets it."""
    if len(call.outputs) != 1 or not all(call.fresh) or call.writes or not isinstance(call.args[0], View):
        return False
    first, output = call.args[0], call.outputs[0]
    others = [view for view in call.inputs if view is not first]
    alike = _same_bytes(memory, first, output) and first.strides == output.strides
    return alike and call.inputs.count(first) == 1 and not any(_overlap(memory, view, output) for view in others)


@cache
def _inplace_overload(func: OpOverload) -> OpOverload | None:
    """The overload that writes over the first argument of an operator, as masked_fill_ does; None if there is none."""
    packet = getattr(_aten, f"{schema_of(func).name.split('::')[1]}_", None)
    other = getattr(packet, overload_name_of(func), None)
    if other is None or torch.Tag.generated in other.tags:
        return None
    names = [(argument.name, str(argument.type)) for argument in schema_of(func).arguments]
    taken = [(argument.name, str(argument.type)) for argument in schema_of(other).arguments]
    written = [argument.name for argument in schema_of(other).arguments if argument.is_write]
    return other if taken == names and written == [names[0][0]] else None


@cache
def out_overload(func: OpOverload, device: str) -> OpOverload | None:
    """The overload of an operator that writes into what it is given; None if it has none of its own.

    Overloads that torch generates compute elsewhere and copy: they are none. Nor are those that write beyond it.
    """
    if func in _RESIZES:
        return None
    arguments = _without_factory([(a.name, str(a.type)) for a in schema_of(func).arguments])
    packet = func.overloadpacket
    for name in packet.overloads():
        other = getattr(packet, name)
        if torch.Tag.generated in other.tags or not any(a.is_out for a in schema_of(other).arguments):
            continue
        taken = [(a.name, str(a.type)) for a in schema_of(other).arguments if not a.is_out]
        if taken == arguments and dispatch_has_computed_kernel_for(_name(other), device.upper()):
            return other  # type: ignore[no-any-return]
    return None


def _is_composite(func: OpOverload | Composed, device: str) -> bool:
    """Whether an operator, or one that a piece calls, is made of others.

    Its overload may be made of different ones, with other last bits.
    """
    if isinstance(func, Composed):
        return any(_is_composite(operator, device) for operator in func.operators())
    made, own = (dispatch_has_kernel_for(_name(func), key) for key in ("CompositeImplicitAutograd", device.upper()))
    return bool(made and not own)


def _name(func: OpOverload) -> str:
    return str(func.name())  # type: ignore[no-untyped-call]


def _without_factory(arguments: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The arguments but for those that say where and as what a new tensor is made."""
    made = ("dtype", "layout", "device", "pin_memory")
    if not set(made) <= {name for name, _ in arguments}:
        return arguments
    return [(name, kind) for name, kind in arguments if name not in made]
