"""The wall to torch.compile: private names of Inductor, AOTAutograd and Dynamo, in groups that say what needs each.

`private.py` has those of the rest of torch. All of these may look different in any other version: what imports them
asks first whether this torch was tested.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch._dynamo
import torch._inductor.config
from torch import fx

from .installed import Wall

_WALL = Wall(__name__)

with _WALL.needed_by("graphs that Inductor lowers, whatever reads them"):
    from torch._inductor import ir as ir
    from torch._inductor.graph import GraphLowering as GraphLowering
    from torch._inductor.graph import SubgraphLowering as SubgraphLowering
    from torch._inductor.virtualized import V as V
with _WALL.needed_by("the shapes that a graph is compiled with"):
    from torch._guards import detect_fake_mode as detect_fake_mode
with _WALL.needed_by("lines of wrappers, which allocate, free and call"):
    from torch._inductor.codegen import wrapper as wrapper
with _WALL.needed_by("the backend, which calls Inductor"):
    from torch._inductor import compile_fx as compile_fx
    from torch._inductor import list_mode_options as list_mode_options
with _WALL.needed_by("the order of a compiled graph"):
    from torch._inductor import memory as memory
with _WALL.needed_by("what is fused within a budget"):
    from torch._inductor.codegen.cpp import CppScheduling as CppScheduling
    from torch._inductor.dependencies import MemoryDep as MemoryDep
    from torch._inductor.scheduler import Scheduler as Scheduler
with _WALL.needed_by("partitions within a budget"):
    from torch._functorch import partitioners as partitioners

    functorch_config: Any = torch._functorch.config
    from torch._inductor.custom_graph_pass import CustomPartitionerFn as CustomPartitionerFn
    from torch._inductor.custom_graph_pass import get_hash_for_files as get_hash_for_files
with _WALL.needed_by("what forward returns, as AOTAutograd describes it"):
    from torch._functorch._aot_autograd.descriptors import PlainAOTOutput as PlainAOTOutput
with _WALL.needed_by("what Inductor takes out of a graph, which then holds nothing"):
    from torch._inductor.fx_passes import post_grad as post_grad
    from torch._inductor.fx_utils import get_storage as get_storage
with _WALL.needed_by("operators that Inductor takes apart"):
    from torch._inductor import inductor_prims as inductor_prims
    from torch._inductor.decomposition import select_decomp_table as select_decomp_table
with _WALL.needed_by("random numbers in pieces"):
    from torch._inductor.lowering import register_lowering as register_lowering

    inductor_ops: Any = torch._inductor.virtualized.ops
with _WALL.needed_by("attempts, whose kernels are never compiled"):
    from torch._inductor.async_compile import AsyncCompile as AsyncCompile
    from torch._inductor.codecache import PyCodeCache as PyCodeCache
with _WALL.needed_by("kernels of pieces, compiled once"):
    from torch._inductor.async_compile import get_compile_threads as get_compile_threads
    from torch._inductor.codecache import CodeCacheFuture as CodeCacheFuture
with _WALL.needed_by("kernels of torch that a wrapper calls"):
    from torch._inductor.select_algorithm import extern_kernels as extern_kernels

    reinterpret_tensor: Any = torch._C._dynamo.guards._reinterpret_tensor  # type: ignore[attr-defined]
with _WALL.needed_by("wrappers that are read, and not run"):
    from torch._inductor import cpp_builder as cpp_builder
    from torch._inductor import cpu_vec_isa as cpu_vec_isa
    from torch._inductor import exc as exc
    from torch._inductor.codegen import memory_planning as memory_planning

# lines of wrappers between which a plan means something else, as far as this torch has them
CONTEXTS = {
    "EnterCudaStreamContextLine": "its kernels run on several CUDA streams, in an order that is not known here",
    "EnterCudaMemPoolContextLine": "some of its buffers come from a CUDA memory pool that its code names",
}
inductor_config: Any = torch._inductor.config
dynamo: Any = torch._dynamo


def keep_source(copied: fx.Node, node: fx.Node) -> None:
    """Note on a copy of an input what Dynamo has noted: which of the model's tensors it is."""
    if hasattr(node, "_dynamo_source"):
        copied._dynamo_source = node._dynamo_source


def require_forward(info: Any, node: fx.Node) -> None:
    """Let forward compute a node, whatever backward needs."""
    info._required_fw_nodes.add(node)


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        raise _WALL.missing(name)
