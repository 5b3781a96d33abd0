"""What is read from ExecuTorch's graphs: names of specs, and operators with bodies (control flow).

A body is planned before the graph around it, in an arena that begins at 0. The outer graph has to keep room for that
arena while the body runs. `map` and `scan` copy what a body returns. `cond` does not: the runtime moves handles, so
that a result lies where the branch has left it, and a view of a result lies where the result was planned.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from executorch.exir import memory
from executorch.exir.control_flow import while_loop
from executorch.exir.memory_planning import get_node_tensor_specs
from torch import fx

_COND = torch.ops.higher_order.cond
_COPY = (torch.ops.higher_order.map_impl, torch.ops.higher_order.scan)  # their results
_BODIES = {  # operator -> the positions of its bodies among its arguments
    _COND: (1, 2),
    while_loop: (0, 1),
    **dict.fromkeys(_COPY, (0,)),
}


@dataclass
class Region:
    """The room for the bodies of one operator, of which one runs at a time.

    It is needed in the steps [first, last). `sizes` are bytes by memory id, and `modules` the bodies. `results` are
    the operator's results that are not copied, each with what the bodies return for it. `passed_on` are specs of the
    outer graph that have to live as long as the region, because a body may return them.
    """

    name: str
    sizes: list[int]
    first: int
    last: int
    modules: list[fx.GraphModule]
    results: list[tuple[Any, list[Any]]]
    passed_on: list[Any]

    def bytes(self, memory: int) -> int:
        return self.sizes[memory] if memory < len(self.sizes) else 0


def names_of(graph: fx.GraphModule) -> dict[int, str]:
    """Names of specs by their identity: those of the nodes that make them, with a position where they make several."""
    names: dict[int, str] = {}
    allocated: dict[int, str] = {}
    for node in graph.graph.nodes:
        if node.target is memory.view or node.op == "output":
            continue
        specs = get_node_tensor_specs(node)
        for k, spec in enumerate(specs):
            name = node.name if len(specs) == 1 else f"{node.name}.{k}"
            (allocated if node.target is memory.alloc else names).setdefault(id(spec), name)
    return {**allocated, **names}


def regions_of(graph: fx.GraphModule) -> list[Region]:
    """The regions of all operators with bodies. Operators that run the same body have one region."""
    regions: list[Region] = []
    for step, node in enumerate(graph.graph.nodes):
        if node.target not in _BODIES:
            continue
        region = _region(graph, node, step)
        for other in [other for other in regions if _share_a_body(region, other)]:
            regions.remove(other)
            region = _both(other, region)
        regions.append(region)
    return regions


def _region(graph: fx.GraphModule, node: fx.Node, step: int) -> Region:
    modules = [getattr(graph, str(argument.target)) for argument in _bodies(node)]
    sizes = _largest(*(module.meta["non_const_buffer_sizes"] for module in modules))
    results = [] if node.target in _COPY else get_node_tensor_specs(node)
    returned = zip(*(outputs_of(module) for module in modules), strict=True)
    return Region(
        name=node.name,
        sizes=sizes,
        first=step,
        last=step + 1,
        modules=modules,
        results=[(result, list(outputs)) for result, outputs in zip(results, returned, strict=False)],
        passed_on=_passed_on(graph, node),
    )


def outputs_of(body: fx.GraphModule) -> list[Any]:
    """What a body returns."""
    *_, output = body.graph.nodes
    return list(get_node_tensor_specs(output))


def branches_of(graph: fx.GraphModule) -> set[int]:
    """The identities of all branches of a `cond` in a graph and in its bodies, but for those that several run."""
    bodies = [
        (id(getattr(module, str(body.target))), node.target)
        for module in graph.modules()
        if isinstance(module, fx.GraphModule)
        for node in module.graph.nodes
        if node.target in _BODIES
        for body in _bodies(node)
    ]
    times = Counter(body for body, _ in bodies)
    return {body for body, operator in bodies if operator is _COND and times[body] == 1}


def _bodies(node: fx.Node) -> Iterator[Any]:
    return (node.args[position] for position in _BODIES[node.target])


def _share_a_body(a: Region, b: Region) -> bool:
    return bool({id(module) for module in a.modules} & {id(module) for module in b.modules})


def _both(a: Region, b: Region) -> Region:
    return Region(
        name=a.name,
        sizes=_largest(a.sizes, b.sizes),
        first=min(a.first, b.first),
        last=max(a.last, b.last),
        modules=list({id(module): module for module in [*a.modules, *b.modules]}.values()),
        results=[*a.results, *b.results],
        passed_on=[*a.passed_on, *b.passed_on],
    )


def _largest(*sizes: list[int]) -> list[int]:
    """The largest size in each memory."""
    longest = max(map(len, sizes), default=0)
    return [max(row[k] if k < len(row) else 0 for row in sizes) for k in range(longest)]


def sizes_of(regions: list[Region]) -> list[int]:
    """The largest region in each memory: what ExecuTorch tells an algorithm to keep free."""
    return _largest(*(region.sizes for region in regions))


def _passed_on(graph: fx.GraphModule, node: fx.Node) -> list[Any]:
    """The specs of operands of a `cond` that a branch may return as they are."""
    if node.target is not _COND:
        return []
    operands: Any = node.args[3]
    positions = {k for body in _bodies(node) for k in _returned(getattr(graph, str(body.target)))}
    return [spec for k in positions for spec in get_node_tensor_specs(operands[k])]


def _returned(body: fx.GraphModule) -> set[int]:
    """The positions of the inputs that a body may return, by itself or through a `cond` in it."""
    nodes = list(body.graph.nodes)
    inputs = [get_node_tensor_specs(node) for node in nodes if node.op == "placeholder"]
    returned = outputs_of(body)
    for node in reversed(nodes):
        if node.target is _COND and any(spec in returned for spec in get_node_tensor_specs(node)):
            returned += _passed_on(body, node)
    return {k for k, specs in enumerate(inputs) if any(spec in returned for spec in specs)}


def placed_in(region: Region) -> Iterator[Any]:
    """All specs that have a place in a region's arena, those of bodies in bodies too; some come more than once."""
    for module in region.modules:
        for node in module.graph.nodes:
            yield from (spec for spec in get_node_tensor_specs(node) if spec.mem_offset is not None)
        for inner in regions_of(module):
            yield from placed_in(inner)
