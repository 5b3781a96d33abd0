"""Mixtures of experts."""

from __future__ import annotations

from typing import Any


def mixtral() -> Any:
    from transformers import MixtralConfig, MixtralForCausalLM

    config = MixtralConfig(
        vocab_size=97,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=32,
        num_local_experts=4,
        use_cache=False,
    )
    return MixtralForCausalLM(config).eval()
