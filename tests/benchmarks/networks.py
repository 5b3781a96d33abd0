"""Networks of the transformers package with random weights, at usual widths: what the comparisons with others run.

Only ResNet, BERT and GPT-2 are as deep as usual, for torch.compile would take minutes; nothing is fetched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

Network = tuple[nn.Module, dict[str, Tensor]]  # in eval mode, and the keyword arguments of its forward with labels


def _images(model: nn.Module, batch: int = 2, size: int = 224) -> Network:
    return model, {"pixel_values": torch.randn(batch, 3, size, size), "labels": torch.arange(batch)}


def _tokens(model: nn.Module, batch: int, length: int) -> Network:
    tokens = torch.randint(1, 900, (batch, length))
    return model, {"input_ids": tokens, "labels": tokens.clone()}


def vit(tf: Any) -> Network:
    return _images(tf.ViTForImageClassification(tf.ViTConfig(num_hidden_layers=4)))


def convnext(tf: Any) -> Network:
    return _images(tf.ConvNextForImageClassification(tf.ConvNextConfig(depths=[1, 1, 3, 1], num_labels=10)))


def resnet(tf: Any) -> Network:
    return _images(tf.ResNetForImageClassification(tf.ResNetConfig(num_labels=10)))


def swin(tf: Any) -> Network:
    return _images(tf.SwinForImageClassification(tf.SwinConfig(depths=[2, 2, 2, 2], num_labels=10)))


def bert(tf: Any) -> Network:
    return _tokens(tf.BertForMaskedLM(tf.BertConfig()), 2, 128)


def gpt2(tf: Any) -> Network:
    return _tokens(tf.GPT2LMHeadModel(tf.GPT2Config()), 2, 128)


def t5(tf: Any) -> Network:
    config = tf.T5Config(num_layers=3, num_decoder_layers=3, decoder_start_token_id=0, pad_token_id=0)
    return _tokens(tf.T5ForConditionalGeneration(config), 2, 128)


def llama(tf: Any) -> Network:
    sizes = {"hidden_size": 1024, "intermediate_size": 2816, "num_attention_heads": 16, "vocab_size": 32000}
    return _tokens(tf.LlamaForCausalLM(tf.LlamaConfig(num_hidden_layers=4, num_key_value_heads=8, **sizes)), 2, 128)


def mamba(tf: Any) -> Network:
    """Its scan is a loop over the tokens, which torch.compile unrolls: few of them, and few layers."""
    return _tokens(tf.MambaForCausalLM(tf.MambaConfig(num_hidden_layers=2, vocab_size=1000)), 2, 8)


def wav2vec2(tf: Any) -> Network:
    model = tf.Wav2Vec2ForSequenceClassification(tf.Wav2Vec2Config(num_hidden_layers=3, mask_time_prob=0.0))
    return model, {"input_values": torch.randn(2, 16000), "labels": torch.tensor([0, 1])}


def whisper(tf: Any) -> Network:
    sizes = {"d_model": 384, "encoder_layers": 2, "decoder_layers": 2, "vocab_size": 1000}
    heads = {"encoder_attention_heads": 6, "decoder_attention_heads": 6}
    tokens = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    width = {"encoder_ffn_dim": 1536, "decoder_ffn_dim": 1536}
    config = tf.WhisperConfig(**sizes, **heads, **tokens, **width)
    inputs = {"input_features": torch.randn(1, 80, 3000), "labels": torch.randint(3, 900, (1, 64))}
    return tf.WhisperForConditionalGeneration(config), inputs


NETWORKS: Mapping[str, Callable[[Any], Network]] = {
    make.__name__: make for make in (vit, convnext, resnet, swin, bert, gpt2, t5, llama, mamba, wav2vec2, whisper)
}


def network(name: str, *, train: bool) -> Network:
    """A network in train or eval mode, and its inputs: without labels for inference."""
    import transformers

    torch.manual_seed(0)
    model, inputs = NETWORKS[name](transformers)
    model.train(train)
    if hasattr(model.config, "use_cache"):
        model.config.use_cache = False
    if not train:
        labels = inputs.pop("labels")
        if model.config.is_encoder_decoder:
            inputs["decoder_input_ids"] = labels
    return model, inputs
