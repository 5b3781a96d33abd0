"""What is added to a total that is there is written over it, so that no sum is there twice.

Inductor gives each result of a kernel that it only calls a buffer of its own. So a sum of products, such as the
gradient of a weight that is computed in pieces, would be there twice. Where nothing else reads the total, its buffer
becomes that of the result. The kernel, `addmm` or `baddbmm`, is the same: with the total as its `out`, it copies
nothing.

The gradient of an embedding is zeros, to whose rows gradients are added. If it is added to another, as where the head
of a language model has the same weight, the rows are added to that one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from ..inductor.lines import MEMORY
from ..private_compiler import ir, wrapper
from .step_load import is_own

_aten = torch.ops.aten
_KERNELS = {"extern_kernels.addmm", "extern_kernels.baddbmm"}
_QUIET = (*MEMORY, wrapper.FreeLine, wrapper.CommentLine)
_MASKED = _aten._unsafe_masked_index_put_accumulate.default
_SCATTERED = {_aten.index_put.default, _aten._unsafe_index_put.default}


def scatter_over_totals(graph: fx.Graph) -> None:
    """Add rows to a total, where they were added to zeros, and those to the total."""
    for node in graph.find_nodes(op="call_function", target=_aten.add.Tensor):
        if node.kwargs or len(node.all_input_nodes) != 2:
            continue
        for total, rows in (node.args, node.args[::-1]):
            if _is_of_zeros(rows) and is_own(total, node) and _is_alike(total, rows):
                node.replace_all_uses_with(rows)
                zeros, *how = rows.args
                node.append(rows)
                rows.args = (total, *how)
                graph.erase_node(node)
                if not zeros.users:
                    graph.erase_node(zeros)
                break


def _is_alike(one: fx.Node, other: fx.Node) -> bool:
    mine, its = one.meta["val"], other.meta["val"]
    return bool((mine.shape, mine.stride(), mine.dtype) == (its.shape, its.stride(), its.dtype))


def _is_of_zeros(node: fx.Node) -> bool:
    """Whether rows are added to zeros, and one op reads that."""
    adds = node.target is _MASKED or (node.target in _SCATTERED and node.args[3:] == (True,))
    if not adds or len(node.users) != 1 or node.kwargs:
        return False
    zeros = node.args[0]
    return isinstance(zeros, fx.Node) and zeros.target is _aten.full.default and bool(zeros.args[1] == 0)


def over_totals(lines: Sequence[Any]) -> list[Any]:
    """The lines of a wrapper, where results take over the buffers of totals that nothing reads any more."""
    found = list(lines)
    for at, line in enumerate(lines):
        if type(line) is not wrapper.ExternKernelOutLine or line.node.get_kernel_name() not in _KERNELS:
            continue
        total = _total_of(line.node)
        begin, end = _around(lines, at, -1), _around(lines, at, 1)
        made = [k for k in begin if type(lines[k]) is wrapper.AllocateLine and lines[k].node is line.node]
        freed = [k for k in end if type(lines[k]) is wrapper.FreeIfNotReusedLine and lines[k].node is total]
        if total is not None and made and freed:
            found[made[0]] = wrapper.ReuseLine(line.wrapper, total, line.node)
            found[at] = _OverTotal(line.wrapper, line.node)
            found[freed[0]] = None
    return [line for line in found if line is not None]


def _around(lines: Sequence[Any], at: int, step: int) -> list[int]:
    """The positions of lines before or after one, as far as none of them reads or writes."""
    found = []
    while 0 <= at + step < len(lines) and isinstance(lines[at + step], _QUIET):
        at += step
        found.append(at)
    return found


def _total_of(node: Any) -> Any:
    """The buffer that a kernel adds to, if it reads it once and makes one that lies alike; else None."""
    total = node.inputs[0]
    if not isinstance(total, ir.Buffer) or node.output_view is not None:
        return None
    mine, own = total.get_layout(), node.get_layout()
    alike = isinstance(mine, ir.FixedLayout) and isinstance(own, ir.FixedLayout) and mine == own
    return total if alike and [one.get_name() for one in node.inputs].count(total.get_name()) == 1 else None


class _OverTotal(wrapper.ExternKernelOutLine):
    """The line of a kernel that adds to the buffer of its result."""

    def codegen(self, code: Any) -> None:
        node = self.node
        own = node.codegen_reference()
        args = [own, *node.codegen_args()[1:], *node.codegen_kwargs(skip_out=True)]
        code.writeline(f"{node.get_kernel_name()}({', '.join(args)}, out={own})")
