"""What forward saves and backward computes again, chosen so that the planned peak of both graphs is within a budget.

AOTAutograd hands the joint graph of forward and backward to a partitioner. torch's own, with
`activation_memory_budget`, limits the bytes that are saved; it does not see when they are held. Here, each partition is
looked at as a whole: the most bytes that forward or backward holds at one op. Of several that fit, the cheapest is
taken. Then each tensor that is computed again is saved instead, the dearest first, where the peak stays within the
budget: it lies elsewhere in time.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import torch
from torch import fx
from torch._functorch import config as functorch
from torch._functorch._activation_checkpointing.knapsack import dp_knapsack
from torch._functorch.partitioners import (  # type: ignore[attr-defined]
    _is_primal,
    _size_of,
    estimate_runtime,
    min_cut_rematerialization_partition,
    pointwise_ops,
)
from torch._inductor.custom_graph_pass import CustomKnapsackSolver, CustomPartitionerFn, get_hash_for_files
from torch._inductor.fx_utils import get_node_storage

from ...errors import InfeasibleError

log = logging.getLogger("memplan.run")
_LEAST = 1e-9  # of what may be saved: torch then asks which tensors to compute again
_SHARES = (0.9, 0.7, 0.5, 0.35, 0.2, 0.1, _LEAST)
_EVERY = (2, 3, 4, 6, 9)
_TRIALS = 16  # partitions that are tried to save more
_Pair = tuple[fx.GraphModule, fx.GraphModule]


@dataclass(frozen=True)
class Partition:
    """A forward and a backward graph, the most bytes that one of them holds at an op, and what is computed again."""

    graphs: _Pair
    peak: int
    cost: float


class WithinBudget(CustomPartitionerFn):
    """A partitioner for Inductor."""

    def __init__(self, budget: int) -> None:
        self._budget = budget

    def __call__(self, gm: fx.GraphModule, joint_inputs: Sequence[object], **kwargs: Any) -> _Pair:
        def cut(share: float, solver: Any = functorch.activation_memory_budget_solver) -> Partition:
            copied = fx.GraphModule(gm, copy.deepcopy(gm.graph))
            with functorch.patch(activation_memory_budget=share, activation_memory_budget_solver=solver):
                graphs = min_cut_rematerialization_partition(copied, joint_inputs, **kwargs)
            return Partition(graphs, max(map(held, graphs)), _repeated(*graphs))

        found = within(cut, self._budget)
        log.info("of a budget of %d bytes, %d are planned", self._budget, found.peak)
        return found.graphs

    def uuid(self) -> Any:
        """What compiled code depends on."""
        return get_hash_for_files((__file__,), str(self._budget))


class _Solver(CustomKnapsackSolver):
    """Says which tensors are computed again: those that it was given by name, or those that torch's would choose."""

    def __init__(self, again: frozenset[str] | None = None) -> None:
        self.again = again
        self.cost: dict[str, float] = {}  # of all that could be computed again

    def __call__(
        self, memory: list[float], joint_graph: Any, max_memory: float, node_info: Any, nodes: list[fx.Node]
    ) -> tuple[list[int], list[int]]:
        costs = [float(estimate_runtime(node)) for node in nodes]
        self.cost = {node.name: cost for node, cost in zip(nodes, costs, strict=True)}
        if self.again is None:
            _, _, again = dp_knapsack(memory, costs, max_memory)
            self.again = frozenset(nodes[k].name for k in again)
        repeated = [k for k, node in enumerate(nodes) if node.name in self.again]
        return [k for k in range(len(nodes)) if nodes[k].name not in self.again], repeated

    def uuid(self) -> Any:
        return None


def within(cut: Callable[..., Partition], budget: int) -> Partition:
    """The cheapest of some partitions whose peak is within a budget, with less computed again where that fits too.

    Where much is computed again, backward holds all of it at once: the least is in between. So the partitions are
    those of torch's knapsack for several shares of what may be saved, and those that save every n-th tensor.

    Raises
    ------
    InfeasibleError
        None was found. The error says what the least of them holds.
    """
    found = cut(1.0)
    if found.peak <= budget:
        return found
    solvers = [_Solver() for _ in _SHARES]
    tried = [(cut(share, solver), solver) for share, solver in zip(_SHARES, solvers, strict=True)]
    nodes = max((list(solver.cost) for solver in solvers), key=lambda names: len(names))
    apart = [_Solver(frozenset(nodes) - frozenset(nodes[::n])) for n in _EVERY if n < len(nodes)]
    tried += [(cut(_LEAST, solver), solver) for solver in apart]
    fit = [pair for pair in tried if pair[0].peak <= budget]
    if not fit:
        least = min(found.peak, *(partition.peak for partition, _ in tried))
        text = f"no partition of the graph was found that fits {budget:,} bytes"
        raise InfeasibleError(f"{text}; the least found holds {least:,} at once", capacity=budget, peak=least)
    found, solver = min(fit, key=lambda pair: pair[0].cost)
    return _kept(cut, budget, found, solver)


def _kept(cut: Callable[..., Partition], budget: int, found: Partition, solver: _Solver) -> Partition:
    """The partition with less computed again: the dearest first, several at a time as long as that fits."""
    again = solver.again or frozenset()
    rest = sorted(again, key=lambda name: (-solver.cost.get(name, 0.0), name))
    size = max(1, len(rest) // 4)
    for _ in range(_TRIALS):
        if not rest:
            break
        fewer = again - set(rest[:size])
        tried = cut(_LEAST, _Solver(fewer))
        if tried.peak <= budget and tried.cost <= found.cost:
            found, again, rest = tried, fewer, rest[size:]
        elif size > 1:
            size = max(1, size // 4)
        else:
            rest = rest[1:]
    return found


def _repeated(forward: fx.GraphModule, backward: fx.GraphModule) -> float:
    """What backward computes again, as torch estimates its run time."""
    names = {node.name for node in forward.graph.nodes}
    again = [node for node in backward.graph.nodes if node.op == "call_function" and node.name in names]
    return sum(float(estimate_runtime(node)) for node in again if isinstance(node.target, torch._ops.OpOverload))


def held(graph: fx.GraphModule) -> int:
    """The most bytes that a graph holds at one op, without weights and inputs of the network.

    A tensor is held from its op to its last use, one that is returned to the end, and what backward is given from the
    beginning. An elementwise op whose result is read by one other alone is fused into it, as Inductor does.
    """
    fused = pointwise_ops()
    nodes = list(graph.graph.nodes)
    begin: dict[Any, int] = {}
    end: dict[Any, int] = {}
    size: dict[Any, int] = {}
    outside = {
        storage for node in nodes if node.op == "placeholder" and _is_primal(node) for storage in _storages(node)
    }
    for step, node in enumerate(nodes):
        if node.op == "output":
            for used in node.all_input_nodes:
                end.update(dict.fromkeys(_storages(used), len(nodes)))
            continue
        for storage in _storages(node):
            if storage in outside or _in_registers(node, fused):
                continue
            begin.setdefault(storage, 0 if node.op == "placeholder" else step)
            size[storage] = max(size.get(storage, 0), _size_of(node))
            end[storage] = max(end.get(storage, 0), step + 1)
        for used in node.all_input_nodes:
            end.update((s, max(end[s], step + 1)) for s in _storages(used) if s in end)
    change = [0] * (len(nodes) + 1)
    for storage, bytes in size.items():
        change[begin[storage]] += bytes
        change[end[storage]] -= bytes
    return max(accumulate(change), default=0)


def _storages(node: fx.Node) -> list[Any]:
    """The storage of a node's tensor; none for other things, and for tuples, whose tensors are nodes of their own."""
    value = node.meta.get("val")
    return [get_node_storage(node)] if isinstance(value, torch.Tensor) else []


def _in_registers(node: fx.Node, fused: Any) -> bool:
    users = list(node.users)
    if len(users) != 1 or node.op != "call_function":
        return False
    packets = [getattr(n.target, "_overloadpacket", None) for n in (node, users[0])]
    return all(packet in fused for packet in packets)
