"""What kernels allocate for a piece of a call, beside what torch gives out: some whole, a share, and copies."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402

from memplan.torch.reading.loops import Rows, loops_of  # noqa: E402
from memplan.torch.reading.workspaces import pieces_of, room_of  # noqa: E402
from oracles.allocator import peaks  # noqa: E402

aten = torch.ops.aten
LISTS = 65536  # bytes of oneDNN's lists of blocks, which it takes for some sizes and not for others
CONVOLUTIONS: dict[str, tuple[int, int, dict[str, Any], bool]] = {  # channels before and after, how, channels last
    "plain": (64, 96, {}, False),
    "of an image": (3, 64, {}, False),
    "one by one": (64, 96, {"size": 1, "padding": 0}, False),
    "channels last": (64, 96, {}, True),
    "narrow groups": (12, 12, {"groups": 4}, False),
    "by channel": (64, 64, {"groups": 64}, False),
    "with gaps": (64, 64, {"dilation": 2, "padding": 2}, False),
    "with gaps, torch's own": (16, 16, {"dilation": 2, "padding": 2}, False),
}


def convolution(name: str, x: Tensor, weight: Tensor, padding: list[int]) -> Tensor:
    """A convolution whose rows may have no padding."""
    changes = CONVOLUTIONS[name][2]
    dilation, groups = [changes.get("dilation", 1)] * 2, changes.get("groups", 1)
    return aten.convolution.default(*arguments(x, weight, padding, dilation, groups))


def arguments(x: Tensor, weight: Tensor, padding: list[int], dilation: list[int], groups: int) -> tuple[Any, ...]:
    return (x, weight, None, [1, 1], padding, dilation, False, [0, 0], groups)


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_a_piece_of_a_convolution(name: str) -> None:
    before, after, changes, last = CONVOLUTIONS[name]
    size, pad, groups = changes.get("size", 3), changes.get("padding", 1), changes.get("groups", 1)
    x, weight = torch.randn(4, before, 64, 48), torch.randn(after, before // groups, size, size)
    if last:
        x = x.to(memory_format=torch.channels_last)
    args = arguments(x, weight, [pad, pad], [changes.get("dilation", 1)] * 2, groups)
    with torch.no_grad(), torch.backends.mkldnn.flags(enabled=not name.endswith("torch's own")):
        made = convolution(name, x, weight, [pad, pad])
        call = (aten.convolution.default, args, {}, made)
        loops = loops_of(*call)
        room = room_of(*call)
        tried = 0
        for loop, needs in zip(loops, pieces_of(*call, loops), strict=True):
            if not loop.writes:
                continue  # each piece adds to all of the result
            [(_, written)], reads = loop.writes, {id(t): rows for t, rows in loop.inputs if rows is not None}
            axis = written.axes[0]
            for count in {1, loop.extent // 4, loop.extent // 2}:
                given, rest, shares = dict[int, Tensor](), [pad, pad], [count / loop.extent]
                for tensor in (x, weight):
                    rows = reads.get(id(tensor))
                    given[id(tensor)] = tensor if rows is None else part(tensor, rows, count)
                    if rows is not None:
                        shares.append(given[id(tensor)].shape[rows.axes[0]] / tensor.shape[rows.axes[0]])
                if axis >= 2:
                    rest[axis - 2] = 0
                if groups > 1 and axis == 1:
                    continue
                [peak] = peaks(
                    [lambda given=given, rest=rest: convolution(name, given[id(x)], given[id(weight)], rest)]
                )
                result = made.nbytes * count // loop.extent
                copied = sum(given[id(tensor)].nbytes for tensor in needs.copied)
                said = needs.whole + (room - needs.whole) * max(shares) + copied
                assert peak - result <= said + LISTS, (loop, count)
                assert said <= 2 * peak + LISTS, (loop, count)
                tried += 1
    assert tried >= 6


def part(tensor: Tensor, rows: Rows, count: int) -> Tensor:
    """The rows that so many iterations in the middle read."""
    [axis] = {*rows.axes}
    begin = tensor.shape[axis] // 2 if rows.window == rows.step else tensor.shape[axis] // 4
    return tensor.narrow(axis, 0 if count > begin else begin, int((count - 1) * rows.step + rows.window))


def test_a_piece_of_what_threads_hold() -> None:
    """Blocks of attention, and the sums of a layer norm's gradients, have no rows."""
    query = torch.randn(2, 4, 512, 32)
    func = aten._scaled_dot_product_flash_attention_for_cpu.default
    call = (func, (query, query, query), {}, func(query, query, query))
    for needs in pieces_of(*call, loops_of(*call)):
        assert needs.whole == room_of(*call) > 0
    func = aten.native_layer_norm_backward.default
    line, x, mean = torch.randn(64), torch.randn(128, 64), torch.zeros(128, 1)
    args = (x, x, [64], mean, mean, line, line, [True, True, True])
    call = (func, args, {}, func(*args))
    [needs] = pieces_of(*call, loops_of(*call))
    assert needs.whole == room_of(*call) > 0


def test_elements_are_read_where_they_lie() -> None:
    x = torch.randn(4, 8, 16)
    call = (aten.mul.Tensor, (x, x), {}, x * x)
    loops = loops_of(*call)
    assert [(needs.whole, [*needs.copied]) for needs in pieces_of(*call, loops)] == [(0, [])] * len(loops)
