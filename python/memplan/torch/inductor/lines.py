"""The lines of a wrapper of Inductor, read: which of them make, hand on and free which bytes.

The classes of lines are private to torch, and may look different in any other version.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...errors import SourceError, UnsupportedError
from ..private_compiler import V, ir, wrapper
from .wrapper import Block, Call

MEMORY = (wrapper.AllocateLine, wrapper.ReuseLine, wrapper.FreeIfNotReusedLine)
_KERNELS = (wrapper.KernelCallLine, wrapper.ExternKernelAllocLine, wrapper.ExternKernelOutLine)
_OWN_NOTHING = (ir.MultiOutputLayout, ir.NoneLayout, ir.NonOwningLayout, ir.MutationLayoutSHOULDREMOVE)


class Ledger:
    """The blocks that lines make, hand on and free.

    Steps are counted as torch's memory planner does: each run of lines about memory begins one, which lasts until the
    next. A line that lets an input go is not about memory for torch: it takes effect after the kernels of its step.
    With `finer` steps it begins one, if a kernel has run in the step before it. A block is held from the step of the
    line that makes it to the step of the line that frees it, or to the end. ``allocated`` says by the position of a
    line which block it allocates, and ``calls`` what the kernels that return their results make. ``given`` are inputs
    that the graph lets go, from the beginning until then. ``alive`` says which block a buffer lies in at the end, and
    ``ran`` which kernels run in a step. ``number`` makes a size an integer.
    """

    def __init__(
        self, lines: list[Any], number: Callable[[Any, str], int] | None = None, *, finer: bool = False
    ) -> None:
        self._number = number or number_of
        self.blocks: list[Block] = []
        self.allocated: dict[int, Block] = {}
        self.calls: dict[int, Call] = {}
        self.given: list[Block] = []
        self.takeovers: list[tuple[str, str]] = []
        self.steps = 0
        self.alive: dict[str, Block] = {}
        self.ran: dict[int, list[str]] = {}
        self._open: dict[str, Call] = {}  # by the name of what the kernel returns
        self._ran = True  # whether kernels may have run since the step began; those of forward have
        about_memory = False
        for position, line in enumerate(lines):
            before, about_memory = about_memory, isinstance(line, wrapper.MemoryPlanningLine)
            lets_go = finer and self._ran and _lets_input_go(line)
            self.steps += lets_go or (about_memory and not before)
            self._ran = not (about_memory or lets_go) and (self._ran or not isinstance(line, wrapper.FreeLine))
            self._note(line, position)
        self.steps += 1
        for block in self.blocks:
            block.escapes = block.last < 0
            block.last = max(self.steps if block.escapes else block.last, block.first + 1)

    def _note(self, line: Any, position: int) -> None:
        if isinstance(line, (wrapper.EnterSubgraphLine, wrapper.ExitSubgraphLine)):
            raise UnsupportedError("torch.compile nests wrappers (control flow), which are not read here")
        if isinstance(line, _KERNELS):
            self.ran.setdefault(self.steps, []).append(_kernel(line))
        if isinstance(line, wrapper.ExternKernelAllocLine):
            self._called(line.node, position)
        elif isinstance(line, wrapper.MultiOutputLine):
            self._unpacked(line)
        elif _lets_input_go(line):
            self._let_go(line.node)
        elif isinstance(line, MEMORY) and line.node.get_name() not in V.graph.removed_buffers:
            self._memory(line, position)

    def _called(self, node: Any, position: int) -> None:
        call = self._open[node.get_name()] = self.calls[position] = Call(self.steps, [])
        if _owns(node):
            call.results.append(((), self._make(node, self.steps, "kernel")))

    def _unpacked(self, line: Any) -> None:
        node, call = V.graph.get_buffer(line.result_name), self._open.get(line.arg_name)
        if _owns(node):
            block = self._make(node, self.steps if call is None else call.step, "kernel")
            if call is not None:
                call.results.append((tuple(index for _, index in line.indices), block))

    def _memory(self, line: Any, position: int) -> None:
        if isinstance(line, wrapper.AllocateLine):
            self.allocated[position] = self._make(line.node, self.steps, "wrapper")
        elif isinstance(line, wrapper.ReuseLine):
            self._hand_on(line.node, line.reused_as.get_name())
        elif not line.is_reused and _owns(line.node):
            self._free(line.node)

    def _make(self, node: Any, step: int, source: str) -> Block:
        name = node.get_name()
        block = Block([name], self._bytes(node), step, -1, source, device=str(node.get_device()))
        self.blocks.append(block)
        self.alive[name] = block
        return block

    def _bytes(self, node: Any) -> int:
        return self._number(V.graph.get_allocation_storage_size(node), node.get_name()) * int(node.get_dtype().itemsize)

    def _hand_on(self, node: Any, to: str) -> None:
        if node.get_name() not in self.alive:
            self._let_go(node)
            self._make(node, self.steps, "input")
        block = self.alive.pop(node.get_name())
        block.buffers.append(to)
        self.alive[to] = block
        self.takeovers.append((to, node.get_name()))

    def _let_go(self, node: Any) -> None:
        name, last = node.get_name(), max(self.steps + self._ran, 1)
        self.given.append(Block([name], self._bytes(node), 0, last, "given", device=str(node.get_device())))

    def _free(self, node: Any) -> None:
        name = node.get_name()
        if name not in self.alive:
            raise UnsupportedError(f"torch.compile frees {name}, which no line that is known here has made")
        self.alive.pop(name).last = self.steps


def _lets_input_go(line: Any) -> bool:
    return isinstance(line, wrapper.FreeLine) and isinstance(line.node, ir.InputBuffer)


def _kernel(line: Any) -> str:
    """The name of the kernel that a line calls."""
    return str(line.kernel_name if isinstance(line, wrapper.KernelCallLine) else line.node.get_kernel_name())


def _owns(node: Any) -> bool:
    """Whether a buffer has bytes: views and tuples have none."""
    return not isinstance(node.layout, _OWN_NOTHING) and not node.get_inputs_that_alias_output()


def number_of(size: Any, name: str) -> int:
    try:
        return int(size)
    except TypeError as error:
        raise SourceError(f"the size of {name} is {size}, which is not known before it runs") from error
