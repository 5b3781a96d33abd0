"""Small transformers models with random weights, and inputs for them.

Nothing is fetched. `CATALOGUE[name]()` builds a model in eval mode and the keyword arguments of its forward,
labels among them, so that training has a loss; `inference_inputs` leaves the labels out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn


class Example(NamedTuple):
    """A model and what its forward is called with, as keyword arguments."""

    model: nn.Module
    inputs: Mapping[str, Tensor]


def inference_inputs(example: Example) -> dict[str, Tensor]:
    """The inputs without labels; a decoder that made its input from them gets it directly."""
    inputs = {name: value for name, value in example.inputs.items() if name != "labels"}
    if example.model.config.is_encoder_decoder:
        inputs["decoder_input_ids"] = example.inputs["labels"]
    return inputs


def resnet() -> Example:
    from transformers import ResNetConfig, ResNetForImageClassification

    config = ResNetConfig(
        embedding_size=8, hidden_sizes=[16, 32], depths=[1, 1], layer_type="bottleneck", num_labels=10
    )
    return _images(ResNetForImageClassification(config), size=32)


def convnext() -> Example:
    from transformers import ConvNextConfig, ConvNextForImageClassification

    config = ConvNextConfig(num_stages=2, hidden_sizes=[8, 16], depths=[1, 1], num_labels=10)
    return _images(ConvNextForImageClassification(config), size=32)


def swin() -> Example:
    from transformers import SwinConfig, SwinForImageClassification

    config = SwinConfig(
        image_size=32, patch_size=4, embed_dim=8, depths=[2, 1], num_heads=[2, 4], window_size=4, num_labels=10
    )
    return _images(SwinForImageClassification(config), size=32)


def vit() -> Example:
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        image_size=32,
        patch_size=8,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=4,
        intermediate_size=64,
        num_labels=10,
    )
    return _images(ViTForImageClassification(config), size=32)


def gpt2(layers: int = 2) -> Example:
    from transformers import GPT2Config, GPT2LMHeadModel

    width = {"n_embd": 32, "n_layer": layers, "n_head": 4}
    config = GPT2Config(vocab_size=97, n_positions=32, **width, bos_token_id=0, eos_token_id=0)
    return _tokens(GPT2LMHeadModel(config), length=16)


def t5() -> Example:
    from transformers import T5Config, T5ForConditionalGeneration

    layers = {"num_layers": 2, "num_decoder_layers": 1}
    config = T5Config(vocab_size=97, d_model=32, d_kv=8, d_ff=64, **layers, num_heads=4, decoder_start_token_id=0)
    return _tokens(T5ForConditionalGeneration(config), length=12)


def llama() -> Example:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=97,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=32,
    )
    return _tokens(LlamaForCausalLM(config), length=16)


def whisper() -> Example:
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    config = WhisperConfig(
        vocab_size=97,
        num_mel_bins=16,
        d_model=32,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        max_source_positions=20,
        max_target_positions=16,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
        begin_suppress_tokens=None,
    )
    inputs = {"input_features": torch.randn(2, 16, 40), "labels": torch.randint(3, 97, (2, 8))}
    return Example(WhisperForConditionalGeneration(config).eval(), inputs)


CATALOGUE: Mapping[str, Callable[[], Example]] = {
    "resnet": resnet,
    "convnext": convnext,
    "swin": swin,
    "vit": vit,
    "gpt2": gpt2,
    "t5": t5,
    "llama": llama,
    "whisper": whisper,
}


@cache
def imported(name: str, train: bool) -> dict[str, Any]:
    """What the importer makes of a model, as a graph dict; of its training, or of inference."""
    from memplan.torch.reading import import_torch

    example = CATALOGUE[name]()
    example.model.train(train)
    return import_torch(example.model, kwargs=dict(example.inputs) if train else inference_inputs(example), train=train)


def llama_7b(layers: int = 32) -> nn.Module:
    """A Llama of 6.7 billion parameters, or of fewer layers, on the meta device: 27 GB that nothing allocates."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=32000,
        hidden_size=4096,
        intermediate_size=11008,
        num_hidden_layers=layers,
        num_attention_heads=32,
    )
    with torch.device("meta"):
        model: nn.Module = LlamaForCausalLM(config).eval()
    return model


def _images(model: Any, size: int) -> Example:
    return Example(model.eval(), {"pixel_values": torch.randn(2, 3, size, size), "labels": torch.tensor([1, 2])})


def _tokens(model: Any, length: int) -> Example:
    tokens = torch.randint(1, 97, (2, length))
    return Example(model.eval(), {"input_ids": tokens, "labels": tokens.clone()})
