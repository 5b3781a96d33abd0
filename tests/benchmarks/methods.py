"""Prefill and decode of small Llamas in one arena, beside two; one plan for a range of sizes, beside a plan of each.

    python tests/benchmarks/methods.py

The figures are bytes, the same on any machine. Both methods run, and their results are compared with the network's.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from transformers import BertConfig, BertModel, LlamaConfig, LlamaForCausalLM

import memplan

LLAMAS = [(64, 2, 128, 48), (256, 4, 512, 256), (256, 4, 2048, 256)]  # hidden, layers, length of the cache, prompt


class Llama(nn.Module):
    """A Llama whose cache of keys and values is part of the module, as on a device."""

    def __init__(self, hidden: int, layers: int, length: int) -> None:
        super().__init__()
        config = LlamaConfig(
            vocab_size=1000,
            hidden_size=hidden,
            intermediate_size=hidden * 8 // 3,
            num_hidden_layers=layers,
            num_attention_heads=hidden // 16,
            num_key_value_heads=hidden // 32,
            max_position_embeddings=length,
        )
        self.llama, self.length = LlamaForCausalLM(config), length
        for layer in range(layers):
            self.register_buffer(f"keys_{layer}", torch.zeros(1, hidden // 32, length, 16))
            self.register_buffer(f"values_{layer}", torch.zeros(1, hidden // 32, length, 16))

    def forward(self, ids: Tensor, at: Tensor) -> Tensor:
        mask = (torch.arange(self.length) <= at[:, None])[None, None]
        found = self.llama(ids, attention_mask=mask, position_ids=at[None], past_key_values=Cache(self, at))
        logits: Tensor = found.logits
        return logits


class Cache:
    """Writes keys and values where they belong."""

    def __init__(self, module: nn.Module, at: Tensor) -> None:
        self._module, self._at = module, at

    def update(self, keys: Tensor, values: Tensor, layer: int, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        kept = getattr(self._module, f"keys_{layer}"), getattr(self._module, f"values_{layer}")
        for into, new in zip(kept, (keys, values), strict=True):
            into.index_copy_(2, self._at, new)
        return kept


def prefill_and_decode(
    hidden: int, layers: int, length: int, prompt: int
) -> tuple[memplan.methods.MethodsPlan, int, bool]:
    """Both in one arena, the bytes of two arenas, and whether all results are those of the network."""
    torch.manual_seed(0)
    model = Llama(hidden, layers, length).eval().requires_grad_(False)
    calls = {"prefill": (torch.randint(0, 1000, (1, prompt)), torch.arange(prompt))}
    calls["decode"] = (torch.randint(0, 1000, (1, 1)), torch.tensor([prompt]))
    shared = [name for name, _ in model.named_buffers() if name.startswith(("keys", "values"))]
    each = {name: {"args": args} for name, args in calls.items()}
    many = memplan.plan_many(dict.fromkeys(calls, model), shared=shared, each=each, alignment=64)
    two = 0
    for name in calls:
        alone = memplan.plan_many({name: model}, shared=shared, each={name: each[name]}, alignment=64)
        two += alone.peak
    arena, eager, equal = many.arena(), copy.deepcopy(model), True
    for k in range(9):
        name = "decode" if k else "prefill"
        args = (torch.randint(0, 1000, (1, 1)), torch.tensor([prompt + k - 1])) if k else calls[name]
        equal &= torch.equal(arena.run(name, *args, check=True).outputs, eager(*args))
    return many, two, equal


def bert(axis: int, most: int) -> tuple[torch.export.ExportedProgram, str]:
    """A small BERT with eager attention, whose batch (axis 0) or length (axis 1) is open."""
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=1000,
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=512,
        attn_implementation="eager",
    )
    model = BertModel(config).eval().requires_grad_(False)
    ids = torch.ones(4, 64, dtype=torch.long)
    dim = {axis: torch.export.Dim(("batch", "length")[axis], min=2, max=most)}
    shapes = {"input_ids": dim, "attention_mask": dim}
    with torch.no_grad():
        program = torch.export.export(model, (ids,), {"attention_mask": ids}, dynamic_shapes=shapes, strict=False)
    return program, str(next(iter(program.range_constraints)))


def main() -> None:
    print("hidden layers cache prompt | cache bytes, prefill, decode at least, two arenas, one arena, bound, equal")
    for row in LLAMAS:
        many, two, equal = prefill_and_decode(*row)
        needs = [plan.lower_bound for plan in many.methods.values()]
        kept = sum(stays.bytes for stays in many.shared)
        print(*row, "|", kept, *needs, two, many.peak, many.lower_bound, equal, flush=True)
    for axis, most in ((0, 64), (1, 512)):
        program, name = bert(axis, most)
        plan = memplan.plan(program, dims={name: (2, most)}, alignment=64)
        assert plan.ranged is not None
        print(
            f"BERT, {('batch', 'length')[axis]} 2 to {most}: size, at least, plan.at, its order, alone, fixed offsets"
        )
        for (size,), there in plan.ranged.items():
            alone = memplan.plan(program, dims={name: size}, alignment=64).peak
            print(size, there.lower_bound, there.peak, *there.like, alone, there.fixed, flush=True)


if __name__ == "__main__":
    main()
