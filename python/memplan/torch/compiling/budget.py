"""What forward saves and backward computes again, chosen so that the planned peak of a step is within a budget.

AOTAutograd hands the joint graph of forward and backward to a partitioner. torch's own, with
`activation_memory_budget`, limits the bytes that are saved; it does not see when they are held. Here, the joint graph
is made to fit by the search behind `memplan.fit`: which ops of forward run again, and when, such that the load is
within the budget at the least cost. torch orders the graphs that come of it anew. So they are looked at as a whole, and
if they hold more than the budget, a little less is asked for.
"""

from __future__ import annotations

import copy
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

from torch import fx
from torch.utils.checkpoint import CheckpointPolicy

from ... import sizes
from ...plans.failing import InfeasibleError
from ..private_compiler import CustomPartitionerFn, functorch_config, get_hash_for_files, partitioners, require_forward
from .capacity_search import Attempt, Search
from .copies import AGAIN
from .floor import NONE, Floor, floor_of
from .joint import Joint, cost_of_node
from .shapes import keep_shapes
from .splitting import MOST, Split, split_graph
from .step_load import SCALES, USUAL, Fusion, held

log = logging.getLogger("memplan.torch")
_TARGETS = 6  # capacities that are tried, until the partition is within the budget
_HALVINGS = 4  # of what is between a capacity that does not work and one that does
_FOR_LEAST = 8  # of them, where the least is what the error says
_FEWER = (16, 8, 4)  # pieces, where ops may run again
_SHARES = (1.0, 0.5, 0.0)  # of the budget, which ops in pieces are to be within; 0 is as little as is found
_BY_TORCH = partitioners.choose_saved_values_set
_Pair = tuple[fx.GraphModule, fx.GraphModule]
_ONE = threading.Lock()  # a function of torch is replaced meanwhile


@dataclass(frozen=True)
class Partition:
    """A forward and a backward graph, the most bytes that a step holds, what computing again costs, and the floor."""

    graphs: _Pair
    peak: int
    cost: float
    floor: Floor = NONE


Known = dict[Fusion, tuple[int, Floor]]  # peak and floor of the usual partition


class WithinBudget(CustomPartitionerFn):
    """A partitioner for Inductor.

    Tensors are counted before Inductor fuses kernels. ``usual`` is what the usual graphs hold as Inductor fuses them:
    the budget is larger before that, by the same factor. 0: that is not known. ``limit`` is what a step may hold, where
    the budget is a target below that. All are besides the ``kept`` bytes of weights, inputs and states. ``fusion``:
    what Inductor is taken to do. What runs again is written over too, and then runs once more: Inductor may run both at
    once. ``known`` is kept from one partitioner of a graph to the next.
    """

    def __init__(
        self,
        budget: int,
        usual: int = 0,
        limit: int = 0,
        kept: int = 0,
        allow: Sequence[str] = ("recompute",),
        fusion: Fusion = USUAL,
        known: Known | None = None,
    ) -> None:
        self._budget, self._usual, self._limit, self._kept = budget, usual, limit or budget, kept
        self._allow, self.fusion, self._known = tuple(allow), fusion, {} if known is None else known

    def __call__(self, gm: fx.GraphModule, joint_inputs: Sequence[object], **kwargs: Any) -> _Pair:
        keep_shapes(gm.graph)
        if "split" in self._allow:
            found = self._in_pieces(gm, joint_inputs, kwargs)
        else:
            found = within(self._cuts(gm, joint_inputs, kwargs), self._budget, self._usual, self._limit, self._kept)
        log.info("of a budget of %d bytes, %d are planned", self._budget, found.peak)
        return found.graphs

    def _in_pieces(self, gm: fx.GraphModule, joint_inputs: Sequence[object], kwargs: dict[str, Any]) -> Partition:
        """The cheapest partition of the graph in pieces: in few, where what runs again brings more for less."""
        whole = self._cuts(gm, joint_inputs, kwargs).usual()[0]
        budget = _before_fusing(self._budget, self._usual, whole)  # what is in pieces is fused as much as what is whole
        failed: InfeasibleError | None = None
        for splits in self._split_ever_more(gm, budget):
            best: Partition | None = None
            for split in splits:
                cuts = self._cuts(split.module, joint_inputs, kwargs, whole=False)
                if "recompute" not in self._allow:
                    return cuts.by_torch()
                try:
                    found = within(cuts, budget, 0, self._limit, self._kept)
                except InfeasibleError as error:
                    if error.proven:
                        raise
                    failed = failed or error
                    continue
                found = replace(found, cost=found.cost + split.cost)
                best = found if best is None or found.cost < best.cost else best
            if best is not None:
                return best
        assert failed is not None
        raise failed

    def _cuts(
        self, gm: fx.GraphModule, joint_inputs: Sequence[object], kwargs: dict[str, Any], whole: bool = True
    ) -> Cuts:
        known = self._known if whole else {}  # there are several graphs in pieces
        return Cuts(gm, joint_inputs, kwargs, known, whole="split" not in self._allow, fusion=self.fusion)

    def _split_ever_more(self, gm: fx.GraphModule, budget: int) -> Iterator[list[Split]]:
        """The graph in pieces: first, as the budget asks. The split does not see that forward ends before backward.

        Each time in many, and then in fewer.
        """
        seen = set[int]()
        for share in _SHARES:
            splits: list[Split] = []
            for most in (MOST, *_FEWER):
                if splits and splits[-1].pieces <= most:
                    continue
                split = self._split(gm, int(budget * share), most)
                splits += [split] if len(split.module.graph.nodes) not in seen else []
                seen.add(len(split.module.graph.nodes))
            yield splits

    def split(self, gm: fx.GraphModule) -> fx.GraphModule:
        """The graph with ops in pieces, as far as that is allowed and brings tensors within the budget."""
        again = "recompute" in self._allow
        return self._split(gm, self._budget, again=again).module if "split" in self._allow else gm

    def _split(self, gm: fx.GraphModule, capacity: int, most: int = MOST, *, again: bool = False) -> Split:
        split = split_graph(gm, capacity, most, again=again)
        if split.reason:
            log.warning("nothing is in pieces: %s", split.reason)
        return split

    def uuid(self) -> Any:
        """What compiled code depends on."""
        files = sorted(str(path) for path in Path(__file__).parent.glob("*.py"))
        return get_hash_for_files(
            tuple(files),
            f"{self._budget} of {self._usual}, {self._limit}, {self._kept}, {self._allow}, {self.fusion}",
        )


class Cuts:
    """Partitions of a joint graph; `whole`: without other pieces of its ops, as the floor asks."""

    def __init__(
        self,
        gm: fx.GraphModule,
        joint_inputs: Sequence[object],
        kwargs: dict[str, Any],
        known: Known,
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

        return self._made(choose)

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


def within(cuts: Any, budget: int, fused: int = 0, limit: int = 0, kept: int = 0) -> Partition:
    """The cheapest partition found whose peak is within a budget, where the usual one holds ``fused`` bytes when fused.

    InfeasibleError: none was found. The error says what the least found holds. If the floor is above the limit, no
    partition is within it, and the error says why.
    """
    usual, floor = cuts.usual()
    if floor.total > limit > 0:
        raise unfit(limit, kept, floor)
    budget = _before_fusing(budget, fused, usual)
    if usual <= budget:
        return cuts.by_torch()  # type: ignore[no-any-return]

    def attempt(capacity: int) -> Attempt[Partition] | None:
        try:
            found: Partition = cuts.within(capacity)
        except InfeasibleError:
            return None
        return Attempt(found, found.peak, found.cost)

    search = Search(attempt, budget)
    low, high = search.down(_TARGETS)
    found = search.best or search.least
    search.between(low, high if found else usual, _HALVINGS if found else _FOR_LEAST)
    if search.best is not None:
        return search.best.found
    least = min(usual, search.least.holds if search.least else usual)
    text = f"no partition of the graph was found that fits {sizes.with_bytes(budget)}"
    raise InfeasibleError(f"{text}; the least found holds {least:,} at once", capacity=budget, peak=least)


def _before_fusing(budget: int, fused: int, whole: int) -> int:
    """A budget of tensors that are not fused yet, where as a whole they hold ``whole`` bytes, and ``fused`` fused."""
    return budget * whole // fused if 0 < fused < whole else budget


def unfit(limit: int, kept: int, floor: Floor) -> InfeasibleError:
    """The error if a step holds more whatever is done; the limit and the floor are besides what is kept."""
    least = kept + floor.total
    asked, needed = sizes.with_bytes(kept + limit), sizes.with_bytes(least)
    text = f"no partition of the graph fits {asked}: a step holds at least {needed}, "
    message = f"{text}{of_kept(kept)}, because {floor.where}"
    return InfeasibleError(message, capacity=kept + limit, lower_bound=least)


def of_kept(kept: int) -> str:
    """How much of what is held was there before, in words."""
    return f"{sizes.format_bytes(kept)} of it weights, inputs and states"


def _repeated(forward: fx.GraphModule, backward: fx.GraphModule) -> float:
    """What backward computes again: operations, and bytes that its ops touch."""
    names = {node.name for node in forward.graph.nodes}
    again = [node for node in backward.graph.nodes if node.name in names or AGAIN in node.meta]
    return sum(cost_of_node(node) for node in again if node.op == "call_function")
