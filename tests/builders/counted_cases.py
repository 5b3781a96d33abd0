"""Calls of operators of torch in several dtypes and layouts: at least one for each operator that a table names.

The tables are those of loops, of ops that may write over an input, and of what kernels allocate. An operator that is
new in one of them is called by its schema, unless it has a maker here or in `loop_cases`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from builders.loop_cases import cases
from builders.loop_shapes import Maker, laid, shape_of, signed, tensor
from memplan.inplace_ops import INPLACE_OPS
from memplan.torch.reading.loops import RULES as LOOPS
from memplan.torch.reading.workspaces.table import RULES as WORKSPACES
from oracles.poison import Case

_aten: Any = torch.ops.aten
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool)
LAYOUTS = ("as made", "contiguous", "transposed", "channels last", "broadcast", "batch of 1")
LAYOUTS += ("channels last, contiguous", "contiguous, channels last")  # in turns
NUMBER = "number"  # a number in place of the last tensor


def kinds() -> list[str]:
    """Five dtypes, each two of them mixed, and a number for a tensor."""
    names = [_name(dtype) for dtype in DTYPES]
    mixed = [f"{one}*{other}" for one in names for other in names if one != other]
    return [*names, *mixed, *(f"{name}*{NUMBER}" for name in names)]


def kinds_of(name: str) -> list[str]:
    """Those that an operator meets: gradients are floating point, and of one dtype.

    Of a huber loss of two dtypes torch's own stand-in has another dtype than the result.
    """
    single = "_backward" in name or "cross_entropy" in name or name in ("huber_loss", "_trilinear")
    return [_name(dtype) for dtype in DTYPES[:3]] if single else kinds()


def layouts_of(name: str) -> tuple[str, ...]:
    """Those that an operator meets: kernels of two backward passes read beyond what does not lie as it was made.

    Weights of layers that run as one op are shown once.
    """
    if name in ("_ctc_loss_backward", "_embedding_bag_backward"):
        return LAYOUTS[:1]
    single = name in ("_native_multi_head_attention", "_transformer_encoder_layer_fwd")
    return tuple(layout for layout in LAYOUTS if not (single and layout == "broadcast"))


def operators() -> list[str]:
    """The operators of aten that the tables name."""
    over = {name.split(".")[1] for name in INPLACE_OPS if name.startswith("aten.")}
    return sorted(over | set(LOOPS) | set(WORKSPACES))


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


# Calls of operators that have no loops


def _scattered(name: str) -> Maker:
    """Rows of a source go to rows of a tensor; an index for each number is the index of its row, or not."""

    def make(chance: Random) -> Case:
        rows, wide, count = chance.randint(2, 5), chance.choice([3, 20]), chance.randint(3, 6)
        x, source = signed(rows, wide), signed(count, wide)
        index = torch.randint(0, rows, (count,))
        packet = getattr(_aten, name)
        if name == "index_fill":
            return Case(packet.int_Scalar, (x, 0, index, 0.5))
        if name == "index_copy":
            return Case(packet.default, (x, 0, index[:1], source[:1]))
        if name == "index_reduce":
            return Case(packet.default, (x, 0, index, source, chance.choice(["mean", "amax"])))
        if name == "index_add":
            axis = chance.randrange(2)
            return Case(packet.default, (x.t() if axis else x, axis, index, source.t() if axis else source))
        if name == "put":
            return Case(packet.default, (x, index, source[:, 0].clone(), chance.random() < 0.5))
        each = index.view(-1, 1).expand(count, wide)
        if chance.random() < 0.5:
            each = each.contiguous()
        return Case(packet.two, (x, 0, each, source, chance.choice(["sum", "amax", "mean"])))

    return make


def _placed(name: str) -> Maker:
    def make(chance: Random) -> Case:
        x = laid(chance, signed(4, 5))
        packet = getattr(_aten, name)
        given: dict[str, tuple[Any, ...]] = {
            "as_strided_scatter": (x, signed(5), [5], [1]),
            "diagonal_scatter": (x, signed(4)),
            "select_scatter": (x, signed(5), 0, 1),
            "slice_scatter": (x, signed(2, 5), 0, 1, 3),
            "masked_scatter": (x, tensor(4, 5) < 0.5, signed(20)),
            "fill": (x, 0.5),
            "dropout": (x, 0.5, True),
            "native_dropout": (x, 0.5, True),
        }
        return Case(packet.Scalar if name == "fill" else packet.default, given[name])

    return make


def _loss_backward(name: str) -> Maker:
    def make(chance: Random) -> Case:
        shape = shape_of(chance)
        more = (1.0,) if name.startswith("smooth") else ()  # of integers torch divides by it
        args = (signed(*shape), signed(*shape), signed(*shape), 0, *more)
        return Case(getattr(_aten, name).default, args)

    return make


def _layer(name: str) -> Maker:
    def make(chance: Random) -> Case:
        x, wide, heads = signed(chance.randint(1, 3), chance.randint(2, 5), 8), chance.choice([8, 40]), 2
        qkv, proj = (signed(24, 8), signed(24)), (signed(8, 8), signed(8))
        if name == "_native_multi_head_attention":
            return Case(_aten._native_multi_head_attention.default, (x, x, x, 8, heads, *qkv, *proj, None, False))
        norms = (1e-5, signed(8), signed(8), signed(8), signed(8))
        ffn = (signed(wide, 8), signed(wide), signed(8, wide), signed(8))
        args = (x, 8, heads, *qkv, *proj, False, False, *norms, *ffn)
        return Case(_aten._transformer_encoder_layer_fwd.default, args)

    return make


def _ctc_backward(chance: Random) -> Case:
    steps, batch, labels = 6, chance.randint(1, 3), 4
    x, lengths = signed(steps, batch, labels).log_softmax(2), ([steps] * batch, [2] * batch)
    targets = torch.randint(1, labels, (batch, 2))
    losses, kept = _aten._ctc_loss.default(x, targets, *lengths)
    return Case(_aten._ctc_loss_backward.default, (signed(batch), x, targets, *lengths, losses, kept, 0))


def _cross_entropy(name: str) -> Maker:
    def make(chance: Random) -> Case:
        shape = shape_of(chance, 2, 3)
        x, y, weight = tensor(*shape), tensor(*shape), chance.choice([None, tensor(*shape)])
        reduction = chance.randrange(3)
        func = getattr(_aten, name).default
        if name.endswith("logits"):
            return Case(func, (signed(*shape), y, weight, chance.choice([None, tensor(*shape[1:])]), reduction))
        if name.endswith("backward"):
            gradient = signed(*shape) if reduction == 0 else signed()
            return Case(func, (gradient, x, y, weight, reduction))
        return Case(func, (x, y, weight, reduction))

    return make


def _trilinear(chance: Random) -> Case:
    n, a, b, o = (chance.randint(2, 5) for _ in range(4))
    return Case(_aten._trilinear.default, (signed(n, a), signed(o, a, b), signed(n, b), [1, 3], [0], [1, 2], [2, 3]))


def _bag_backward(chance: Random) -> Case:
    bags, each, mode = chance.randint(2, 4), chance.randint(2, 5), chance.randrange(2)
    ids, begins = torch.randint(0, 9, (bags * each,)), torch.arange(0, bags * each, each)
    kept = _aten._embedding_bag.default(signed(9, 4), ids, begins, False, mode, False, None, False, -1)
    args = (signed(bags, 4), ids, begins, *kept[1:], 9, False, mode, False, None)
    return Case(_aten._embedding_bag_backward.default, args)


_ENDS = ("", "_backward", "_with_logits")
_ROWS = "index_add index_copy index_fill index_reduce put scatter_reduce"
_PLACES = "as_strided_scatter diagonal_scatter dropout fill masked_scatter native_dropout select_scatter slice_scatter"
_OTHERS: Mapping[str, Maker] = {
    "_ctc_loss_backward": _ctc_backward,
    "_trilinear": _trilinear,
    "_embedding_bag_backward": _bag_backward,
    **{f"binary_cross_entropy{end}": _cross_entropy(f"binary_cross_entropy{end}") for end in _ENDS},
    **{name: _scattered(name) for name in _ROWS.split()},
    **{name: _placed(name) for name in _PLACES.split()},
    **{name: _loss_backward(name) for name in ("mse_loss_backward", "smooth_l1_loss_backward")},
    **{name: _layer(name) for name in ("_native_multi_head_attention", "_transformer_encoder_layer_fwd")},
}


def maker_of(name: str) -> Maker:
    """A maker of calls of an operator."""
    return _OTHERS[name] if name in _OTHERS else cases([name])[name]


# Dtypes and layouts


def varied(case: Case, kind: str, layout: str) -> Case:
    """The same call with tensors of other dtypes, laid out in another way."""
    names = kind.split("*")
    leaves, form = pytree.tree_flatten((list(case.args), dict(case.kwargs)))
    at = [place for place, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
    for number, place in enumerate(at):
        name = names[number % len(names)]
        if name == NUMBER:
            name = names[0]
            if number == len(at) - 1:
                leaves[place] = True if name == "bool" else 2 if name == "int64" else 0.5
                continue
        ways = layout.split(", ")
        leaves[place] = _laid_out(_in_dtype(leaves[place], getattr(torch, name)), ways[number % len(ways)])
    for place, leaf in enumerate(leaves):
        if leaf is torch.float64:
            leaves[place] = getattr(torch, names[0])
    args, kwargs = pytree.tree_unflatten(leaves, form)
    return Case(case.func, args, kwargs)


def _in_dtype(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Numbers in another dtype, integers without 0; what holds places or masks keeps its own."""
    if x.dtype != torch.float64:
        return x
    made = torch.empty_strided(x.shape, x.stride(), dtype=dtype).copy_(x)
    return made.masked_fill_(made == 0, 1) if dtype == torch.int64 else made


def _laid_out(x: Tensor, layout: str) -> Tensor:
    ways: Mapping[str, Callable[[Tensor], Tensor]] = {
        "as made": lambda t: t,
        "contiguous": Tensor.contiguous,
        "transposed": lambda t: t.mT.contiguous().mT if t.dim() > 1 else t,
        "channels last": lambda t: t.movedim(1, -1).contiguous().movedim(-1, 1) if t.dim() > 2 else t.contiguous(),
        "broadcast": lambda t: t.narrow(0, 0, 1).expand(t.shape) if t.dim() and t.shape[0] else t,
        "batch of 1": lambda t: t.narrow(0, 0, 1) if t.dim() > 2 and t.shape[0] else t,
    }
    return ways[layout](x)


def calls(name: str, seed: int, chosen: list[tuple[str, str]]) -> Iterator[tuple[str, Case]]:
    """Those calls of an operator that torch takes, in kinds and layouts; each with a name."""
    torch.manual_seed(seed)
    made = maker_of(name)(Random(f"{name} {seed}"))
    for kind, layout in chosen:
        case = varied(made, kind, layout)
        try:
            with torch.no_grad():
                case.func(*case.args, **case.kwargs)
        except (RuntimeError, IndexError, TypeError, ValueError):
            continue
        yield f"{name}, seed {seed}, {kind}, {layout}", case
