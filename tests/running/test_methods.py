"""Methods that run in one arena, in which their state stays: results equal those of the network."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper
from torch import Tensor, nn

import memplan
from memplan.running.plans import program_of
from memplan.torch.running.memory import Memory


class Attention(nn.Module):
    """A step of attention, whose cache is a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(8, 8)
        self.register_buffer("cache", torch.zeros(2, 16, 8))

    def forward(self, x: Tensor, at: Tensor) -> Tensor:
        self.cache.index_copy_(1, at, self.project(x))
        scores: Tensor = torch.softmax(x @ self.cache.transpose(1, 2), -1)
        return scores @ self.cache


PROMPT, TOKEN = (torch.randn(2, 9, 8), torch.arange(9)), (torch.randn(2, 1, 8), torch.tensor([9]))


def attention() -> tuple[Attention, memplan.methods.MethodsPlan]:
    torch.manual_seed(0)
    model = Attention().requires_grad_(False)
    each = {"prefill": {"args": PROMPT}, "decode": {"args": TOKEN}}
    return model, memplan.plan_many({"prefill": model, "decode": model}, shared=["cache"], each=each, alignment=64)


def test_state_stays_in_the_arena() -> None:
    model, many = attention()
    arena, eager = many.arena(), copy.deepcopy(model)
    for k, (name, args) in enumerate([("prefill", PROMPT), ("decode", TOKEN), ("decode", TOKEN), ("prefill", PROMPT)]):
        assert torch.equal(arena.run(name, *args, check=k != 1).outputs, eager(*args))
    assert torch.equal(torch.from_numpy(arena["cache"]).view(torch.float32).view(2, 16, 8), eager.cache)
    assert not model.cache.any()  # its own stays as it was
    assert len(arena.data) == many.peak < many.separate
    other = many.arena()
    assert torch.equal(other.run("decode", args=TOKEN).outputs, copy.deepcopy(model)(*TOKEN))  # it begins anew
    given = arena.run("decode", *TOKEN, weights={"cache": torch.ones(2, 16, 8)}).outputs
    eager.cache.fill_(1)
    assert torch.equal(given, eager(*TOKEN))
    with pytest.raises(KeyError, match="'keys' does not stay in the arena; what does is 'cache'"):
        arena["keys"]
    with pytest.raises(KeyError, match="there is no method 'train'"):
        arena.run("train")


def test_each_plan_runs_alone_too() -> None:
    model, many = attention()
    eager = copy.deepcopy(model)
    assert torch.equal(many["decode"].run(*TOKEN, check=True).outputs, eager(*TOKEN))
    assert torch.equal(model.cache, eager.cache)  # it is copied back, as without a common arena


def test_garbage_does_not_fill_what_stays_and_fills_the_rest() -> None:
    """The cache is wrong as soon as anything else may use its bytes: here the plan of decode alone."""
    _, many = attention()
    arena = many.arena()
    arena.run("prefill", *PROMPT)
    cache = arena["cache"].copy()
    at = many.shared[0].offset
    bound = arena._bind("decode", many["decode"], [("cache",)], None)
    assert sum(end - begin for begin, end in bound._free) == many.peak - 1024
    assert all(end <= at or at + 1024 <= begin for begin, end in bound._free)
    arena.run("decode", *TOKEN, check=True)
    changed = np.flatnonzero(arena.data[at : at + 1024] != cache)
    assert 0 < len(changed) <= 64  # the rows of one token


def step(tokens: int) -> onnx.ModelProto:
    """Adds what it reads to a state, and returns both."""
    shape, name = [tokens, 4], helper.make_tensor_value_info
    nodes = [
        helper.make_node("Relu", ["x"], ["h"]),
        helper.make_node("ReduceSum", ["h", "axes"], ["s"], keepdims=1),
        helper.make_node("Add", ["past", "s"], ["state"]),
        helper.make_node("Add", ["h", "state"], ["y"]),
    ]
    axes = helper.make_tensor("axes", TensorProto.INT64, [1], [0])
    inputs = [name("x", TensorProto.FLOAT, shape), name("past", TensorProto.FLOAT, [1, 4])]
    outputs = [name("y", TensorProto.FLOAT, shape), name("state", TensorProto.FLOAT, [1, 4])]
    graph = helper.make_graph(nodes, "step", inputs, outputs, [axes])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def test_a_state_of_onnx_is_written_over_itself() -> None:
    both = ("past", "state")
    many = memplan.plan_many(
        {"many": step(5), "one": step(1)}, shared={"state": {"many": both, "one": both}}, alignment=64
    )
    arena, state = many.arena(), np.zeros((1, 4), np.float32)
    there: Any = state
    for k, (name, tokens) in enumerate([("many", 5), ("one", 1), ("one", 1), ("many", 5)]):
        x = np.full((tokens, 4), k + 1, np.float32)
        found = arena.run(name, {"x": x, "past": there}, views=True, check=True, engine=[None, "reference"][k % 2])
        state = state + x.sum(axis=0, keepdims=True)
        np.testing.assert_array_equal(found.outputs["state"], state)
        np.testing.assert_array_equal(found.outputs["y"], x + state)
        there = found.outputs["state"]
        assert np.may_share_memory(there, arena["state"])


def llama(length: int) -> nn.Module:
    """A small Llama with its cache in buffers."""
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=length,
    )

    class Llama(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.llama = transformers.LlamaForCausalLM(config)
            for layer in range(config.num_hidden_layers):
                self.register_buffer(f"keys_{layer}", torch.zeros(1, 2, length, 8))
                self.register_buffer(f"values_{layer}", torch.zeros(1, 2, length, 8))

        def forward(self, ids: Tensor, at: Tensor) -> Tensor:
            mask = (torch.arange(length) <= at[:, None])[None, None]
            cache = Cache(self, at)
            found = self.llama(ids, attention_mask=mask, position_ids=at[None], past_key_values=cache)
            logits: Tensor = found.logits
            return logits

    class Cache:
        def __init__(self, module: nn.Module, at: Tensor) -> None:
            self.module, self.at = module, at

        def update(self, keys: Tensor, values: Tensor, layer: int, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
            kept = (getattr(self.module, f"keys_{layer}"), getattr(self.module, f"values_{layer}"))
            for into, new in zip(kept, (keys, values), strict=True):
                into.index_copy_(2, self.at, new)
            return kept

    torch.manual_seed(0)
    return Llama().eval().requires_grad_(False)


def test_prefill_and_decode_of_a_llama_share_an_arena() -> None:
    """Greedy decoding: each token is what the network itself says after those before."""
    model = llama(32)
    prompt, token = torch.randint(0, 64, (1, 20)), torch.zeros(1, 1, dtype=torch.int64)
    many = memplan.plan_many(
        {"prefill": model, "decode": model},
        shared=[name for name, _ in model.named_buffers() if name.startswith(("keys", "values"))],
        each={"prefill": {"args": (prompt, torch.arange(20))}, "decode": {"args": (token, torch.tensor([20]))}},
        alignment=64,
    )
    assert len(many.shared) == 4
    assert many.optimal
    assert many.peak == many["prefill"].lower_bound < many.separate
    arena, eager = many.arena(), copy.deepcopy(model)
    args, name = (prompt, torch.arange(20)), "prefill"
    for k in range(6):
        found, expected = arena.run(name, *args, check=True).outputs, eager(*args)
        assert torch.equal(found, expected)
        args, name = (found[:, -1:].argmax(-1), torch.tensor([20 + k])), "decode"


def test_networks_elsewhere_have_no_common_arena() -> None:
    _, many = attention()
    plan = many["decode"]
    recording = program_of(plan).recording
    with pytest.raises(
        memplan.errors.UnsupportedError, match="an arena for several methods is on meta, the network is on cpu"
    ):
        Memory(plan, recording, torch.empty(many.peak, dtype=torch.uint8, device="meta"))
