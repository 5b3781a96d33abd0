"""The torch importer on real architectures, and its sizes against a real run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.export import export
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

import memplan
from builders import models
from builders.torch_nets import names, tensor, types
from memplan.torch.reading import import_torch


def check_layouts(graph: memplan.Graph) -> None:
    """What every entry promises, as far as the graph itself shows it."""
    bytes_of = {tensor.name: tensor.bytes for tensor in graph.tensors}
    placed = {view[0] for op in graph.ops for view in op.aliases}
    for op in graph.ops:
        for output, source, offset in (*op.inplace, *op.slices):
            assert bytes_of[output] == bytes_of[source] > 0
            assert offset == 0
            assert output not in placed
        parts: Sequence[tuple[str, str, int]] = op.concats
        assert all(offset + bytes_of[part] <= bytes_of[whole] for whole, part, offset in parts)


# The activations of each model, and how often it has them.
ACTIVATIONS = {
    "resnet": ("relu", 7),
    "convnext": ("gelu", 2),
    "swin": ("gelu", 3),
    "vit": ("gelu", 1),
    "gpt2": ("tanh", 2),
    "t5": ("relu", 3),
    "llama": ("silu", 2),
    "whisper": ("gelu", 4),
}


@pytest.mark.few(1)
@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("name", models.CATALOGUE)
def test_transformers_models(name: str, train: bool) -> None:
    example, graph = models.CATALOGUE[name](), models.imported(name, train)
    plan = memplan.plan(graph)
    assert set(names(graph, "input")) == set(example.inputs if train else models.inference_inputs(example))
    assert not any(name.startswith("constant") for name in names(graph, "weight"))
    assert plan.peak >= plan.lower_bound > 0
    assert ("loss" in graph["outputs"]) is train
    assert plan.graph is not None
    check_layouts(plan.graph)
    activation, count = ACTIVATIONS[name]
    assert Counter(op.type for op in plan.graph.ops if op.inplace)[f"aten.{activation}.default"] == count


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["resnet", "convnext", "swin", "vit"])
def test_exported_transformers_models(name: str) -> None:
    example = models.CATALOGUE[name]()
    inputs = models.inference_inputs(example)
    exported = import_torch(export(example.model, (), inputs))
    module = models.imported(name, False)
    assert tensor(exported, exported["outputs"][0])["bytes"] == tensor(module, module["outputs"][0])["bytes"]
    ratio = memplan.plan(exported).lower_bound / memplan.plan(module).lower_bound
    assert 1.0 <= ratio < 1.15  # a node's workspace counts as alive for all of the node


class LiveBytes(TorchDispatchMode):
    """The most bytes of storages alive after any operator of a real run, those of `held` left out."""

    def __init__(self, held: list[Tensor]) -> None:
        super().__init__()
        self.peak = 0
        self._held = {tensor.untyped_storage()._cdata for tensor in held}
        self._alive: dict[int, tuple[StorageWeakRef, int]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for value in torch.utils._pytree.tree_leaves(result):
            if isinstance(value, Tensor) and value.untyped_storage()._cdata not in self._held:
                storage = value.untyped_storage()
                self._alive[storage._cdata] = StorageWeakRef(storage), storage.nbytes()
        self._alive = {key: entry for key, entry in self._alive.items() if not entry[0].expired()}
        self.peak = max(self.peak, sum(nbytes for _, nbytes in self._alive.values()))
        return result


@pytest.mark.few(1)
@pytest.mark.parametrize("name", models.CATALOGUE)
def test_the_load_is_what_a_real_run_holds(name: str) -> None:
    """The graph's load against the storages that eager torch really holds, found by weak references.

    Inference: the run holds at least the load, and more where a local variable of the model outlives its last use;
    a graph's tensor ends there. Training: what autograd saves dominates, and both agree to a few per cent. The run
    holds more by such locals; the graph holds more where the engine adds two gradients in place, which it does with
    plain tensors and not with fake ones.
    """
    example = models.CATALOGUE[name]()
    held = [*example.model.parameters(), *example.model.buffers(), *example.inputs.values()]
    inputs = models.inference_inputs(example)
    with torch.no_grad(), LiveBytes(held) as inference:
        example.model(**inputs)
    example.model.train()
    with LiveBytes(held) as training:
        example.model(**example.inputs).loss.backward()
    as_eager: dict[str, Any] = {"inplace": False, "zero_copy": False}
    trained, inferred = (memplan.plan(models.imported(name, train), **as_eager).lower_bound for train in (True, False))
    assert 0.6 * inference.peak < inferred <= inference.peak
    assert trained == pytest.approx(training.peak, rel=0.05)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", models.CATALOGUE)
def test_most_ops_have_loops(name: str) -> None:
    for train in (False, True):
        graph = models.imported(name, train)
        bytes_of = {entry["name"]: entry["bytes"] for entry in graph["tensors"]}
        rest = Counter(
            kind
            for kind, entry in zip(types(graph), graph["ops"], strict=True)
            if "loops" not in entry and max([bytes_of[out] for out in entry["outputs"]], default=0) > 16
        )
        split = sum("loops" in entry for entry in graph["ops"])
        assert split / (split + rest.total()) > 0.8, rest
        most = max(len(entry.get("loops", ())) for entry in graph["ops"])
        assert most <= 2 * 6


def test_decoding_with_a_cache() -> None:
    from transformers import DynamicCache

    model, inputs = models.llama()
    cache = DynamicCache(config=model.config)
    with torch.no_grad():
        model(inputs["input_ids"], past_key_values=cache)
    keys = cache.layers[0].keys
    graph = import_torch(model, args=(torch.zeros(2, 1, dtype=torch.int64),), kwargs={"past_key_values": cache})
    assert "past_key_values.layers.1.values" in names(graph, "input")
    assert len(graph["outputs"]) == 5
    assert cache.layers[0].keys is keys
    memplan.plan(graph)
