"""Inductor's rules for orders of ops give the order that torch gives, on random graphs and on real networks."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest

from builders.instances import shipped
from memplan import _core
from memplan.importers.graph_dict import graph_of
from oracles.plain import waits
from oracles.sharing import small_graph

INDUCTOR = ("lpmf", "bfs", "dfs")
PLACED = ("intermediate", "output", "workspace")

# Nodes and buffers as Inductor's scheduler would have them


class Fake:
    """A node or a buffer of Inductor's scheduler, by its name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def get_name(self) -> str:
        return self.name

    def get_outputs(self) -> list[Fake]:
        return self.outputs  # type: ignore[no-any-return, attr-defined]

    def get_buffer_names(self) -> list[str]:
        return [buffer.name for buffer in self.get_outputs()]


def torch_order(graph: dict[str, Any], rule: str) -> list[int]:
    """By torch's own function: a buffer is a storage, or a workspace."""
    memory: Any = pytest.importorskip("torch._inductor.memory")
    size = {t["name"]: t["bytes"] for t in graph["tensors"]}
    kind = {t["name"]: t.get("kind", "intermediate") for t in graph["tensors"]}
    root = {name: name for name in size}
    maker: dict[str, int] = {}
    users: dict[str, list[int]] = {name: [] for name in size}
    for k, op in enumerate(graph["ops"]):
        for view in [*op.get("alias", ()), *op.get("overwrite", ())]:
            root[view["output"]] = root[view["input"]]
        for name in op["outputs"]:
            maker[name] = k
        for name in [*op["inputs"], *op["outputs"]]:
            users[root[name]].append(k)
    kept = {root[name] for name in graph["outputs"]}
    nodes = [Fake(op.get("name", f"op{k}")) for k, op in enumerate(graph["ops"])]
    storages = {name: Fake(name) for name in size if root[name] == name and kind[name] not in ("input", "weight")}
    for name, buffer in storages.items():
        after = [nodes[k] for k in dict.fromkeys(users[name]) if k != maker[name]]
        buffer.mpi_buffer = SimpleNamespace(size_alloc=size[name], size_free=size[name], succ_nodes=after)
    befores = waits({**graph, "ops": [{**op, "stream": k} for k, op in enumerate(graph["ops"])]})
    for k, node in enumerate(nodes):
        node.outputs = [storages[name] for name in graph["ops"][k]["outputs"] if name in storages]
        if graph["ops"][k].get("workspace", 0) > 0:
            scratch = Fake(f"workspace of {node.name}")
            scratch.mpi_buffer = SimpleNamespace(
                size_alloc=graph["ops"][k]["workspace"], size_free=graph["ops"][k]["workspace"], succ_nodes=[]
            )
            storages[scratch.name] = scratch
            node.outputs.append(scratch)
        node.unmet_dependencies = [SimpleNamespace(name=f"order {before}") for before in befores[k]]
        node.mpi_node = SimpleNamespace(
            index=k,
            size=sum(buffer.mpi_buffer.size_alloc for buffer in node.outputs),
            pred_buffers=[buffer for buffer in storages.values() if node in buffer.mpi_buffer.succ_nodes],
            pred_nodes=[nodes[before] for before in befores[k]],
            succ_nodes=[nodes[later] for later, before in enumerate(befores) if k in before],
        )
        node.get_buffer_names = lambda k=k: [f"order {k}"]  # what dfs follows
    if rule == "lpmf":
        found = memory.topological_sort_lpmf(nodes, {}, storages, {name for name in kept if name in storages})
    else:
        found = getattr(memory, f"topological_sort_{rule}")(nodes)
    return [node.mpi_node.index for node in found]


def shows_a_part(graph: dict[str, Any]) -> bool:
    """Whether a view has fewer bytes than its storage: torch keeps all of it, where memplan counts what is used."""
    size = {t["name"]: t["bytes"] for t in graph["tensors"]}
    views = [view for op in graph["ops"] for view in [*op.get("alias", ()), *op.get("overwrite", ())]]
    return any(size[view["output"]] < size[view["input"]] for view in views)


@pytest.mark.parametrize("rule", INDUCTOR)
def test_the_same_order_as_torch(rule: str) -> None:
    chance = random.Random(rule)
    differ = 0
    for _ in range(200):
        graph = small_graph(chance, streams=False, ops=chance.randint(2, 14))
        if shows_a_part(graph):
            continue
        storage = _core.StorageOptions(PLACED, zero_copy=False)
        order = list(_core.order_of(graph_of(graph), rule, storage).ops)
        assert order == torch_order(graph, rule), graph
        differ += order != sorted(order)
    assert differ > 40


@pytest.mark.few(7)
@pytest.mark.parametrize("rule", INDUCTOR)
@pytest.mark.parametrize("path", shipped("torch/*.json"), ids=lambda path: path.stem)
def test_the_same_order_as_torch_on_real_networks(rule: str, path: Any) -> None:
    from memplan.importers.graph_dict import read_graph_dict

    graph = dict(read_graph_dict(path))
    order = _core.order_of(graph_of(graph), rule, _core.StorageOptions(PLACED, zero_copy=False))
    assert list(order.ops) == torch_order(graph, rule)
