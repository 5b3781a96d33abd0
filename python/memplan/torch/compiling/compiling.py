"""Inductor with planned arenas: its compiler, and what changes in the wrappers that it writes.

A wrapper is a list of lines before it is code: some allocate, free or take over a buffer, the others call kernels.
Inductor plans memory by changing the lines (`PythonWrapperCodegen.run_wrapper_ir_passes`). Before, it puts the nodes of
its scheduler into an order (`torch._inductor.memory.reorder_for_peak_memory`). Both functions are replaced here, once
and for good; they do as before unless the thread is compiling for the backend of memplan.

All of this is private to torch, and may look different in any other version.
"""

from __future__ import annotations

import functools
import importlib
import logging
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from torch import fx

from ...errors import SourceError, UnsupportedError
from ..private_compiler import V, compile_fx, inductor_config, list_mode_options, memory, wrapper
from . import given
from .attempts import within
from .budget import WithinBudget
from .compiled import loaded_since, times_loaded
from .forward_outputs import Outputs, Step
from .fusing import fuse_less
from .kernel_order import in_order
from .pooling import gathering
from .random_rows import lower_random_rows
from .resizing import with_borders
from .rewriting import rewritten
from .settings import Settings

log = logging.getLogger("memplan.torch")
_Said = set[tuple[str, str]]  # kinds of graphs that are left to torch, and why: each is said once
_NOW: ContextVar[tuple[Settings, Step, _Said] | None] = ContextVar("memplan.torch.compiling", default=None)
_ONCE = threading.Lock()
_Pass = Callable[[Any, bool], None]
_CONFIG: Any = importlib.import_module("torch.compiler.config")  # whose type lacks what torch puts into it


def known_options() -> set[str]:
    """The names of Inductor's options."""
    return set(inductor_config.get_config_copy())


def options_of_mode(mode: str | None) -> dict[str, Any]:
    """Inductor's options that a mode of torch.compile stands for."""
    return dict(list_mode_options(mode)) if mode and mode != "default" else {}


def compiled(graph: Any, inputs: Sequence[Any], settings: Settings, patches: dict[str, Any]) -> Callable[..., Any]:
    """A graph compiled by Inductor with settings of memplan and patches of Inductor's configuration.

    Backward graphs are compiled later, out of this call, perhaps on another thread: the settings go along.
    """
    given.note()
    if compile_fx.fx_compile_mode != compile_fx.FxCompileMode.NORMAL:
        log.warning("all graphs are left to torch: other processes compile them (TORCHINDUCTOR_FX_COMPILE_MODE)")
        return _by_torch(graph, inputs, config_patches=patches)
    planned = functools.partial(_planned, _Said())
    if settings.budget is not None:
        return within(planned, graph, inputs, settings, patches, settings.budget)
    return planned(graph, inputs, settings, patches)


def _planned(
    said: _Said, graph: Any, inputs: Sequence[Any], settings: Settings, patches: dict[str, Any]
) -> Callable[..., Any]:
    tag = f"{_CONFIG.cache_key_tag}{settings.key}"  # part of the key of every cache of compiled graphs
    step = Step()
    asked = patches.get("custom_partitioner_fn")
    decomposing = (with_borders if asked.in_pieces else gathering) if isinstance(asked, WithinBudget) else None

    def inner(graph: fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
        _install()
        partitioner = patches.get("custom_partitioner_fn")
        if kwargs.get("is_inference") and isinstance(partitioner, WithinBudget):
            graph = partitioner.split(graph)
        step.outputs, before = Outputs.of(graph), times_loaded()
        own = tag if step.left is None else f"{tag} {step.left}"  # figures of backward depend on what forward leaves
        if decomposing is not None and "get_decomp_fn" in kwargs:
            kwargs["get_decomp_fn"] = decomposing  # a part of keys of caches: a table has none
        with _CONFIG.patch(cache_key_tag=own), _planning(settings, step, said):
            code = compile_fx.compile_fx_inner(graph, *args, **kwargs)
        if step.left is None:  # the code was in a cache
            step.left = next((one.left for one in loaded_since(before) if one.name.startswith("forward")), None)
        return code

    with _CONFIG.patch(cache_key_tag=tag):
        table = None if decomposing is None else decomposing()
        return _by_torch(graph, inputs, inner_compile=inner, config_patches=patches, decompositions=table)


def _by_torch(*args: Any, **kwargs: Any) -> Callable[..., Any]:
    compiled: Any = compile_fx.compile_fx(*args, **kwargs)
    return compiled  # type: ignore[no-any-return]


@contextmanager
def _planning(settings: Settings, step: Step, said: _Said) -> Iterator[None]:
    token = _NOW.set((settings, step, said))
    try:
        yield
    finally:
        _NOW.reset(token)


def _fuse_within() -> int | None:
    now = _NOW.get()
    return None if now is None else now[0].fuse_within


def _fuses_writers() -> bool:
    now = _NOW.get()
    return now is None or now[0].fuse_writers


def _install() -> None:
    """Replace the pass that plans memory, unless that was done."""
    with _ONCE:
        owner: Any = wrapper.PythonWrapperCodegen
        if not hasattr(owner.run_wrapper_ir_passes, "_by_memplan"):
            owner.run_wrapper_ir_passes = _in_place_of(owner.run_wrapper_ir_passes)
            memory.reorder_for_peak_memory = _after(memory.reorder_for_peak_memory)
            fuse_less(_fuse_within, _fuses_writers)
            lower_random_rows()


def _after(by_torch: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    @functools.wraps(by_torch)
    def reorder_for_peak_memory(
        nodes: list[Any], name_to_buf: Any, name_to_fused_node: Any, inputs: Any, outputs: Any, *more: Any, **named: Any
    ) -> list[Any]:
        chosen = by_torch(nodes, name_to_buf, name_to_fused_node, inputs, outputs, *more, **named)
        now = _NOW.get()
        if now is None or now[0].order == "given":
            return chosen
        try:
            return in_order(chosen, now[0].order, list(outputs))
        except Exception as error:
            what = f"{type(error).__name__}: {error}"
            warnings.warn(f"torch's order is kept, for memplan fails: {what}", RuntimeWarning, stacklevel=2)
            return chosen

    return reorder_for_peak_memory


def _in_place_of(by_torch: _Pass) -> _Pass:
    @functools.wraps(by_torch)
    def run_wrapper_ir_passes(codegen: Any, is_inference: bool) -> None:
        now = _NOW.get()
        inside = isinstance(codegen, wrapper.SubgraphPythonWrapperCodegen)  # of a graph that is left to torch
        if now is None or inside or not _plan(codegen, is_inference, *now, by_torch):
            by_torch(codegen, is_inference)

    run_wrapper_ir_passes._by_memplan = True  # type: ignore[attr-defined]
    return run_wrapper_ir_passes


def _plan(codegen: Any, inference: bool, settings: Settings, step: Step, said: _Said, by_torch: _Pass) -> bool:
    """Put arenas into a wrapper; False, with the wrapper as it was, where that cannot be done."""
    kind = "inference" if inference else "backward" if V.graph.is_backward else "forward"
    name = f"{kind} {V.graph.graph_id}"
    begin = time.perf_counter()
    try:
        found = rewritten(codegen, name, settings, step, by_torch)
    except (UnsupportedError, SourceError) as reason:
        if (kind, str(reason)) in said:
            return False
        said.add((kind, str(reason)))
        if settings.budget is None:
            log.warning("%s is left to torch: %s", name, reason)
        else:
            more = "it may hold more than the budget, which only the sizes of its tensors are within"
            warnings.warn(f"{name} is left to torch: {reason}; {more}", RuntimeWarning, stacklevel=2)
        return False
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        warnings.warn(f"{name} is left to torch, for memplan fails: {what}", RuntimeWarning, stacklevel=2)
        return False
    log.debug("%s %s in %.4f s", name, "planned" if found else "read", time.perf_counter() - begin)
    return found
