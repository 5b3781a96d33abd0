"""Loops of products of matrices, and of attention."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from torch import Tensor

from .calls import Call, Loop, Slot
from .spans import Labels, aligned, spans
from .spread import _given

Rule = Callable[[Call], Iterator[Loop]]


def _product(left: Slot, right: Slot, of_left: str, of_right: str, of_result: str, added: Slot | None = None) -> Rule:
    """A rule, by a letter for each axis. What is `added` to the product is broadcast; then inner axes are no loops."""

    def rule(call: Call) -> Iterator[Loop]:
        out = call.outputs[0]
        reads: dict[Slot, Labels] = {left: of_left, right: of_right}
        if added is not None:
            reads[added] = [of_result[axis] if axis is not None else None for axis in _numbers(call, added, out)]
        inner = set(of_left) - set(of_result) if added is None else set()
        return spans(call, reads, {0: of_result}, [*of_result, *inner], inner)

    return rule


def _numbers(call: Call, slot: Slot, out: Tensor) -> Sequence[int | None]:
    return aligned(_given(call, slot), out.shape)  # type: ignore[return-value]


mm = _product("self", "mat2", "ij", "jk", "ik")
bmm = _product("self", "mat2", "bij", "bjk", "bik")
mv = _product("self", "vec", "ij", "j", "i")
dot = _product("self", "tensor", "j", "j", "")
addmm = _product("mat1", "mat2", "ij", "jk", "ik", "self")
addmv = _product("mat", "vec", "ij", "j", "i", "self")
baddbmm = _product("batch1", "batch2", "bij", "bjk", "bik", "self")


def linear(call: Call) -> Iterator[Loop]:
    """`linear`, as exported programs have it."""
    rank = _given(call, "input").dim()
    rows = tuple(range(rank - 1))
    inner = ["in"] if call["bias"] is None else []
    reads: dict[Slot, Labels] = {"input": [*rows, "in"], "weight": ["out", "in"], "bias": ["out"]}
    return spans(call, reads, {0: [*rows, "out"]}, [*rows, "out", *inner], inner)


def matmul(call: Call) -> Iterator[Loop]:
    """`matmul` of matrices, as exported programs have it: what comes before their two axes is broadcast."""
    left, right, out = _given(call, "self"), _given(call, "other"), call.outputs[0]
    if min(left.dim(), right.dim()) < 2:
        return iter(())
    front = tuple(range(out.dim() - 2))
    sides = [aligned(t[..., 0, 0], out.shape[:-2]) for t in (left, right)]
    reads: dict[Slot, Labels] = {"self": [*sides[0], "i", "j"], "other": [*sides[1], "j", "k"]}
    return spans(call, reads, {0: [*front, "i", "k"]}, [*front, "i", "k", "j"], ["j"])


def attention(call: Call) -> Iterator[Loop]:
    """Batch, heads, and rows of the query, unless these see what is before them: a piece of them needs an offset."""
    if call["dropout_p"]:
        return iter(())
    reads, rows = _attention(call, {"query": True, "key": False, "value": False})
    places = {0: ["b", "h", *rows, None], 1: ["b", "h", *rows]}
    made: dict[int, Labels] = {place: places[place] for place in range(len(call.results))}
    return spans(call, reads, made, ["b", "h", *(label for label in rows if label)])


def attention_backward(call: Call) -> Iterator[Loop]:
    """As forwards; iterations along rows of the query add to the gradients of keys and values."""
    if call["dropout_p"]:
        return iter(())
    whose = {"query": True, "key": False, "value": False, "out": True, "grad_out": True}
    reads, rows = _attention(call, whose)
    reads["logsumexp"] = ["b", "h", *rows]
    made: dict[int, Labels] = {0: ["b", "h", *rows, None], 1: ["b", "h", None, None], 2: ["b", "h", None, None]}
    return spans(call, reads, made, ["b", "h", *(label for label in rows if label)], ["t"])


def _attention(call: Call, whose: dict[str, bool]) -> tuple[dict[Slot, Labels], list[str | None]]:
    """Labels of what has four axes; `whose` says of which the third are rows of the query."""
    rows = [None if call["is_causal"] else "t"]
    query = _given(call, "query")
    reads: dict[Slot, Labels] = {slot: ["b", "h", *(rows if own else [None]), None] for slot, own in whose.items()}
    mask = call.tensor("attn_mask")
    if mask is not None:
        names = ["b", "h", rows[0], None]
        shape = [*query.shape[:3], mask.shape[-1]]
        reads["attn_mask"] = [None if axis is None else names[int(str(axis))] for axis in aligned(mask, shape)]
    return reads, rows
