"""Partitions of a joint graph into forward and backward: the usual one, and those within a capacity."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

from torch import fx
from torch.utils.checkpoint import CheckpointPolicy

from ...plans.failing import InfeasibleError
from ..private_compiler import functorch_config, partitioners, require_forward
from .anytime import Pair
from .copies import AGAIN
from .floor import NONE, Floor, floor_of
from .joint import Joint, cost_of_node
from .step_load import SCALES, USUAL, Fusion, held

_BY_TORCH = partitioners.choose_saved_values_set
_ONE = threading.Lock()  # a function of torch is replaced meanwhile


@dataclass(frozen=True)
class Partition:
    """A forward and a backward graph, the most bytes that a step holds, what computing again costs, and the floor.

    ``capacity`` is what it was made for; None if it is the usual one.
    """

    graphs: Pair
    peak: int
    cost: float
    floor: Floor = NONE
    capacity: int | None = None


class Cuts:
    """Partitions of a joint graph; `whole`: without other pieces of its ops, as the floor asks."""

    def __init__(
        self,
        gm: fx.GraphModule,
        joint_inputs: Sequence[object],
        kwargs: dict[str, Any],
        known: dict[Fusion, tuple[int, Floor]],
        *,
        whole: bool = True,
        fusion: Fusion = USUAL,
    ) -> None:
        self._gm, self._inputs, self._kwargs, self._known = gm, joint_inputs, kwargs, known
        self._whole, self._fusion = whole, fusion

    def by_torch(self) -> Partition:
        """The partition that is usual."""
        with functorch_config.patch(activation_memory_budget=1.0):
            return self._made(_BY_TORCH)

    def usual(self) -> tuple[int, Floor]:
        """The peak of the usual partition, and the floor of the graph."""
        if self._fusion not in self._known:
            found = self.by_torch()
            self._known[self._fusion] = found.peak, found.floor
        return self._known[self._fusion]

    def within(self, capacity: int) -> Partition:
        """A partition for which the joint graph is within a capacity; InfeasibleError if there is none."""

        def choose(nodes: fx.Graph, info: Any, memory_budget: float = 1.0) -> list[fx.Node]:
            changes = iter((Joint.put_in_order, Joint.copy_parts))
            while True:
                joint = Joint(nodes, info, self._fusion)
                try:
                    return joint.within(capacity)
                except InfeasibleError:
                    if not any(change(joint) for change in changes):  # up to the first that changes the graph
                        raise

        return replace(self._made(choose), capacity=capacity)

    def _made(self, choose: Callable[..., list[fx.Node]]) -> Partition:
        floors = [NONE]

        def watched(nodes: fx.Graph, *args: Any, **kwargs: Any) -> list[fx.Node]:
            floors.append(floor_of(nodes, whole=self._whole))
            _saved_by_forward(nodes, args[0])
            return choose(nodes, *args, **kwargs)

        copied = fx.GraphModule(self._gm, copy.deepcopy(self._gm.graph))
        with _ONE, mock.patch.object(partitioners, "choose_saved_values_set", watched):
            graphs = partitioners.min_cut_rematerialization_partition(copied, self._inputs, **self._kwargs)
        peak = held(*graphs, self._kwargs["num_fwd_outputs"], self._fusion)
        return Partition(graphs, peak, _repeated(*graphs), floors[-1])


def _saved_by_forward(nodes: fx.Graph, info: partitioners.NodeInfo) -> None:
    """What backward multiplies is computed by forward, with all that it needs, and saved."""
    waiting = []
    for node in nodes.nodes:
        if SCALES in node.meta:
            waiting.append(node.args[0])
            node.args[0].meta["recompute"] = CheckpointPolicy.MUST_SAVE
    while waiting:
        node = waiting.pop()
        if not info.is_required_fw(node):
            require_forward(info, node)
            info.unclaimed_nodes.discard(node)
            waiting += node.all_input_nodes
    info.__dict__.pop("required_fw_nodes", None)  # is kept when it was asked for
    order = (node for node in nodes.nodes if info.is_required_fw(node))
    info.fw_order.update({node: place for place, node in enumerate(order)})


def _repeated(forward: fx.GraphModule, backward: fx.GraphModule) -> float:
    """What backward computes again: operations, and bytes that its ops touch."""
    names = {node.name for node in forward.graph.nodes}
    again = [node for node in backward.graph.nodes if node.name in names or AGAIN in node.meta]
    return sum(cost_of_node(node) for node in again if node.op == "call_function")
