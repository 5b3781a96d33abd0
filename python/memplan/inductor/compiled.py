"""torch.compile, run up to the wrapper code of each graph: what Inductor schedules, and what its planners make of it.

A wrapper is a list of lines: some allocate, free or take over a buffer, the others call kernels. They are read at the
moment when Inductor plans memory, before and after. No kernel is compiled or run: where a compiled graph would run, its
operators run one by one in eager torch, so that Python goes on to the next graph and to the backward pass.

All of this is private to torch, and may look different in any other version.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
import torch._inductor.config
from torch import Tensor, fx
from torch._inductor import cpp_builder, cpu_vec_isa, exc, ir
from torch._inductor.codegen import memory_planning, wrapper
from torch._inductor.graph import GraphLowering, SubgraphLowering
from torch._inductor.virtualized import V

from ..errors import MissingDependencyError, SourceError, UnsupportedError
from ..importers.torch import _ONE_AT_A_TIME, _unwrapped
from ..importers.torch.fake import describe, map_tensors, tensors_in
from ..importers.torch.module import loss_of, unchanged
from .wrapper import Block, Pool, Wrapper

_CONFIG = {
    "force_disable_caches": True,  # or no wrapper would be made of what has been compiled before
    "memory_planning": False,
    "cpp_wrapper": False,
    "fx_wrapper": False,
    "compile_threads": 1,
}
_MEMORY = (wrapper.AllocateLine, wrapper.ReuseLine, wrapper.FreeIfNotReusedLine)
_OWN_NOTHING = (ir.MultiOutputLayout, ir.NoneLayout, ir.NonOwningLayout, ir.MutationLayoutSHOULDREMOVE)


def compiled_wrappers(target: Callable[..., Any], args: Any, kwargs: Mapping[str, Any], train: bool) -> list[Wrapper]:
    """The wrappers of all graphs that torch.compile makes of a call, in the order in which it makes them.

    Raises
    ------
    UnsupportedError
        A graph with nested wrappers (control flow).
    MissingDependencyError
        No C++ compiler.
    SourceError
        torch.compile fails, makes no graph, or makes one that is not read here; tensors elsewhere than on the CPU.
    """
    _check_compiler()
    target = _unwrapped(target)
    label = getattr(target, "__qualname__", type(target).__qualname__)
    _check_on_cpu(target, args, kwargs)
    found: list[Wrapper] = []
    try:
        with _ONE_AT_A_TIME, _recording(found):
            _run(target, label, *_copied(args, kwargs), train)
    except (SourceError, UnsupportedError, MissingDependencyError):
        raise
    except Exception as error:
        own = _own_error(error)
        if own is not None:
            raise own from error
        first = str(error).strip().split("\n", 1)[0]
        raise SourceError(f"{label}: torch.compile fails: {type(error).__name__}: {first}") from error
    if not found:
        reason = "it runs no operators, or torch.compile is switched off (TORCHDYNAMO_DISABLE, set_stance)"
        raise SourceError(f"{label}: torch.compile made no graph of it: {reason}")
    return found


def _check_compiler() -> None:
    try:
        cpp_builder.get_cpp_compiler()
    except exc.InvalidCxxCompiler as error:
        tried = ", ".join(str(name) for name in torch._inductor.config.cpp.cxx if name)
        advice = "install g++, or name one in the environment variable CXX"
        raise MissingDependencyError(
            f"torch.compile needs a C++ compiler, and none of these runs: {tried}; {advice}"
        ) from error
    cpu_vec_isa.valid_vec_isa_list()  # compiles tests of the processor, once, while torch's cache is in use


def _check_on_cpu(target: Any, args: Any, kwargs: Mapping[str, Any]) -> None:
    module = isinstance(target, torch.nn.Module)
    state = [*target.named_parameters(), *target.named_buffers()] if module else []
    for name, tensor in [*tensors_in([*args], "args"), *tensors_in(dict(kwargs), "kwargs"), *state]:
        if tensor.device.type != "cpu":
            raise SourceError(f"{name} must be on the CPU, got {describe(tensor)} on {tensor.device}")


def _copied(args: Any, kwargs: Mapping[str, Any]) -> tuple[Any, Any]:
    """Tensors of their own for the call, which may write to them or leave gradients on them."""
    made: dict[int, Tensor] = {}

    def own(tensor: Tensor, path: str) -> Tensor:
        if id(tensor) not in made:
            made[id(tensor)] = tensor.detach().clone().requires_grad_(tensor.requires_grad)
        return made[id(tensor)]

    return tuple(map_tensors([*args], own, "args")), map_tensors(dict(kwargs), own, "kwargs")


@contextmanager
def _recording(found: list[Wrapper]) -> Iterator[None]:
    """torch.compile with wrappers that are read, and graphs that run eagerly."""
    plan = wrapper.PythonWrapperCodegen.run_wrapper_ir_passes

    def planned(codegen: Any, is_inference: bool) -> None:
        found.append(_read(codegen, is_inference, plan))

    def compile_to_module(graph: GraphLowering) -> Any:
        code, _ = graph.codegen()
        found[-1] = replace(found[-1], code=code.value)
        return SimpleNamespace(call=_eagerly(graph.module), __file__=None)

    with ExitStack() as patched:
        patched.callback(torch._dynamo.reset)
        torch._dynamo.reset()
        for owner, name, function in (
            (wrapper.PythonWrapperCodegen, "run_wrapper_ir_passes", planned),
            (GraphLowering, "compile_to_module", compile_to_module),
        ):
            patched.enter_context(mock.patch.object(owner, name, function))
        patched.enter_context(torch._inductor.config.patch(_CONFIG))
        patched.enter_context(torch._dynamo.config.patch(suppress_errors=False))
        patched.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", message="dynamo_pgo force disabled")
        yield


def _eagerly(graph: Any) -> Callable[[list[Any]], Any]:
    def call(args: list[Any]) -> Any:
        values = list(args)
        args.clear()
        return fx.Interpreter(graph).boxed_run(values)

    return call


def _run(target: Any, label: str, args: Any, kwargs: Any, train: bool) -> None:
    """One call of what is compiled, and its backward; the state of a module is put back."""
    with ExitStack() as state:
        state.enter_context(torch.random.fork_rng(devices=[]))
        state.enter_context(torch.inference_mode(False))
        state.enter_context(torch.set_grad_enabled(train))
        if isinstance(target, torch.nn.Module):
            state.enter_context(unchanged(target))
            state.enter_context(_same_buffers(target))
        compiled: Callable[..., Any] = torch.compile(target, dynamic=False)
        result = compiled(*args, **kwargs)
        if train:
            torch.autograd.backward(loss_of(label, result))


@contextmanager
def _same_buffers(module: torch.nn.Module) -> Iterator[None]:
    """Put the values of a module's buffers back: running statistics count every run."""
    saved = [(buffer, buffer.detach().clone()) for buffer in module.buffers()]
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, value in saved:
                buffer.copy_(value)


def _own_error(error: BaseException) -> BaseException | None:
    """What was raised here, under what torch wraps around it."""
    seen: BaseException | None = error
    while seen is not None and not isinstance(seen, (SourceError, UnsupportedError)):
        seen = getattr(seen, "inner_exception", None) or seen.__cause__
    return seen


# Lines


def _read(codegen: Any, inference: bool, plan: Callable[..., None]) -> Wrapper:
    """What a wrapper holds before and after Inductor's default has planned it, and the pools that it might have had."""
    graph = V.graph
    if isinstance(graph, SubgraphLowering) or isinstance(codegen, wrapper.SubgraphPythonWrapperCodegen):
        raise UnsupportedError("torch.compile nests wrappers (control flow or partitions), which are not read here")
    unplanned = [copy.copy(line) for line in codegen.lines]
    needed = _Ledger(unplanned)
    pools, error = _pools(codegen, [copy.copy(line) for line in codegen.lines])
    plan(codegen, inference)
    held = _Ledger(codegen.lines)
    kind = "inference" if inference else "backward" if graph.is_backward else "forward"
    handed_on = [pair for pair in held.takeovers if pair not in needed.takeovers]
    return Wrapper(
        f"{kind} {graph.graph_id}",
        inference,
        needed.steps,
        needed.blocks,
        held.blocks,
        needed.takeovers,
        handed_on,
        pools,
        error,
    )


class _Ledger:
    """The blocks that lines make, hand on and free.

    Steps are counted as torch's memory planner does: each run of lines about memory begins one, which lasts until the
    next. A block is held from the step of the line that makes it to the step of the line that frees it, or to the end.
    """

    def __init__(self, lines: list[Any]) -> None:
        self.blocks: list[Block] = []
        self.takeovers: list[tuple[str, str]] = []
        self.steps = 0
        self._of: dict[str, Block] = {}
        self._open: dict[str, int] = {}  # results of kernels that return several buffers: when they were made
        about_memory = False
        for line in lines:
            before, about_memory = about_memory, isinstance(line, wrapper.MemoryPlanningLine)
            self.steps += about_memory and not before
            self._note(line)
        self.steps += 1
        for block in self.blocks:
            block.last = max(self.steps if block.last < 0 else block.last, block.first + 1)

    def _note(self, line: Any) -> None:
        if isinstance(line, (wrapper.EnterSubgraphLine, wrapper.ExitSubgraphLine)):
            raise UnsupportedError("torch.compile nests wrappers (control flow), which are not read here")
        if isinstance(line, wrapper.ExternKernelAllocLine):
            self._called(line.node)
        elif isinstance(line, wrapper.MultiOutputLine):
            self._unpacked(V.graph.get_buffer(line.result_name), line.arg_name)
        elif isinstance(line, _MEMORY) and line.node.get_name() not in V.graph.removed_buffers:
            self._memory(line)

    def _called(self, node: Any) -> None:
        self._open[node.get_name()] = self.steps
        if _owns(node):
            self._make(node, self.steps, "kernel")

    def _unpacked(self, node: Any, result: str) -> None:
        if _owns(node):
            self._make(node, self._open.get(result, self.steps), "kernel")

    def _memory(self, line: Any) -> None:
        if isinstance(line, wrapper.AllocateLine):
            self._make(line.node, self.steps, "wrapper")
        elif isinstance(line, wrapper.ReuseLine):
            self._hand_on(line.node, line.reused_as.get_name())
        elif not line.is_reused and _owns(line.node):
            self._free(line.node)

    def _make(self, node: Any, step: int, source: str) -> Block:
        name = node.get_name()
        block = Block([name], _bytes(node), step, -1, source)
        self.blocks.append(block)
        self._of[name] = block
        return block

    def _hand_on(self, node: Any, to: str) -> None:
        block = self._of.pop(node.get_name(), None) or self._make(node, self.steps, "input")
        block.buffers.append(to)
        self._of[to] = block
        self.takeovers.append((to, node.get_name()))

    def _free(self, node: Any) -> None:
        name = node.get_name()
        if name not in self._of:
            raise UnsupportedError(f"torch.compile frees {name}, which no line that is known here has made")
        self._of.pop(name).last = self.steps


def _owns(node: Any) -> bool:
    """Whether a buffer has bytes: views and tuples have none."""
    return not isinstance(node.layout, _OWN_NOTHING) and not node.get_inputs_that_alias_output()


def _bytes(node: Any) -> int:
    return _number(V.graph.get_allocation_storage_size(node), node.get_name()) * int(node.get_dtype().itemsize)


def _number(size: Any, name: str) -> int:
    try:
        return int(size)
    except TypeError as error:
        raise SourceError(f"the size of {name} is {size}, which depends on data") from error


def _pools(codegen: Any, lines: list[Any]) -> tuple[list[Pool], str | None]:
    """The pools that torch's planner makes of the lines, or why it makes none."""
    planner = memory_planning.MemoryPlanner(codegen)
    try:
        planner.plan(lines)
        pools = [pool for of_device in planner.pools.device_to_pools.values() for pool in of_device]
        return [_pool(pool, planner.buffer_groups or []) for pool in pools], None
    except (RecursionError, AssertionError) as error:
        return [], f"{type(error).__name__}: {str(error).strip() or 'in torch/_inductor/codegen/memory_planning.py'}"


def _pool(pool: Any, groups: list[Any]) -> Pool:
    inside = [group for group in groups if group.allocation.pool is pool]
    ranges = pool.root.get_live_ranges()
    offsets = {group.node.get_name(): _number(group.allocation.offset, group.node.get_name()) for group in inside}
    return Pool(_number(pool.root.get_symbolic_size(), pool.name), int(ranges.begin), int(ranges.end), offsets)
