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
from torch import Tensor, fx

from ...errors import MissingDependencyError, SourceError, UnsupportedError
from ..private_compiler import (
    GraphLowering,
    SubgraphLowering,
    V,
    cpp_builder,
    cpu_vec_isa,
    dynamo,
    exc,
    inductor_config,
    memory_planning,
    wrapper,
)
from ..reading import _ONE_AT_A_TIME, _unwrapped
from ..reading.fake import describe, map_tensors, tensors_in
from ..reading.module import loss_of, unchanged
from .capture import InductorCapture
from .lines import Ledger, number_of
from .wrapper import Pool

_CONFIG = {
    "force_disable_caches": True,  # or no wrapper would be made of what has been compiled before
    "memory_planning": False,
    "cpp_wrapper": False,
    "fx_wrapper": False,
    "compile_threads": 1,
}


def compiled_wrappers(
    target: Callable[..., Any], args: Any, kwargs: Mapping[str, Any], train: bool
) -> list[InductorCapture]:
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
    found: list[InductorCapture] = []
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
        tried = ", ".join(str(name) for name in inductor_config.cpp.cxx if name)
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
def _recording(found: list[InductorCapture]) -> Iterator[None]:
    """torch.compile with wrappers that are read, and graphs that run eagerly."""
    plan = wrapper.PythonWrapperCodegen.run_wrapper_ir_passes

    def planned(codegen: Any, is_inference: bool) -> None:
        found.append(_read(codegen, is_inference, plan))

    def compile_to_module(graph: GraphLowering) -> Any:
        code, _ = graph.codegen()
        found[-1] = replace(found[-1], code=code.value)
        return SimpleNamespace(call=_eagerly(graph.module), __file__=None)

    with ExitStack() as patched:
        patched.callback(dynamo.reset)
        dynamo.reset()
        for owner, name, function in (
            (wrapper.PythonWrapperCodegen, "run_wrapper_ir_passes", planned),
            (GraphLowering, "compile_to_module", compile_to_module),
        ):
            patched.enter_context(mock.patch.object(owner, name, function))
        patched.enter_context(inductor_config.patch(_CONFIG))
        patched.enter_context(dynamo.config.patch(suppress_errors=False))
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


def _read(codegen: Any, inference: bool, plan: Callable[..., None]) -> InductorCapture:
    """What a wrapper holds before and after Inductor's default has planned it, and the pools that it might have had."""
    graph = V.graph
    if isinstance(graph, SubgraphLowering) or isinstance(codegen, wrapper.SubgraphPythonWrapperCodegen):
        raise UnsupportedError("torch.compile nests wrappers (control flow or partitions), which are not read here")
    unplanned = [copy.copy(line) for line in codegen.lines]
    needed = Ledger(unplanned)
    pools, error = _pools(codegen, [copy.copy(line) for line in codegen.lines])
    plan(codegen, inference)
    held = Ledger(codegen.lines)
    kind = "inference" if inference else "backward" if graph.is_backward else "forward"
    handed_on = [pair for pair in held.takeovers if pair not in needed.takeovers]
    return InductorCapture(
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
    offsets = {group.node.get_name(): number_of(group.allocation.offset, group.node.get_name()) for group in inside}
    return Pool(number_of(pool.root.get_symbolic_size(), pool.name), int(ranges.begin), int(ranges.end), offsets)
