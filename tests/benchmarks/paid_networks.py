"""Twelve networks whose bytes are measured as a process pays them: small, with random weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

Batch = dict[str, Any]
Network = tuple[Any, Batch, Callable[[Any, Batch], Any]]  # module, what forward takes, the loss of what it gives


class Twice(nn.Sequential):
    """Two convolutions with batch norm."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__(
            *(nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU()),
            *(nn.Conv2d(after, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU()),
        )


class UNet(nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        widths = [width * 2**i for i in range(4)]
        self.down = nn.ModuleList(Twice(a, b) for a, b in zip([3, *widths], widths, strict=False))
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, 2) for w in reversed(widths[:-1]))
        self.join = nn.ModuleList(Twice(2 * w, w) for w in reversed(widths[:-1]))
        self.head = nn.Conv2d(width, 2, 1)

    def forward(self, x: Any) -> Any:
        kept = []
        for number, block in enumerate(self.down):
            x = block(F.max_pool2d(x, 2) if number else x)
            kept.append(x)
        for up, join, skip in zip(self.up, self.join, reversed(kept[:-1]), strict=True):
            x = join(torch.cat([up(x), skip], 1))
        return self.head(x)


class DenseNet(nn.Module):
    def __init__(self, growth: int = 16) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 3, padding=1)
        self.layers = nn.ModuleList(
            nn.Sequential(nn.BatchNorm2d(c), nn.ReLU(), nn.Conv2d(c, growth, 3, padding=1))
            for c in range(32, 32 + 8 * growth, growth)
        )
        self.head = nn.Linear(32 + 8 * growth, 10)

    def forward(self, x: Any) -> Any:
        features = [self.stem(x)]
        for layer in self.layers:
            features.append(layer(torch.cat(features, 1)))
        return self.head(torch.cat(features, 1).mean((2, 3)))


class MBConv(nn.Module):
    """An inverted bottleneck with squeeze and excitation, as of EfficientNet."""

    def __init__(self, width: int, expand: int = 4) -> None:
        super().__init__()
        wide = width * expand
        self.expand = nn.Sequential(nn.Conv2d(width, wide, 1), nn.BatchNorm2d(wide), nn.SiLU())
        self.depth = nn.Sequential(nn.Conv2d(wide, wide, 5, padding=2, groups=wide), nn.BatchNorm2d(wide), nn.SiLU())
        self.squeeze = nn.Sequential(nn.Conv2d(wide, width, 1), nn.SiLU(), nn.Conv2d(width, wide, 1), nn.Sigmoid())
        self.project = nn.Sequential(nn.Conv2d(wide, width, 1), nn.BatchNorm2d(width))

    def forward(self, x: Any) -> Any:
        y = self.depth(self.expand(x))
        return x + self.project(y * self.squeeze(y.mean((2, 3), keepdim=True)))


class EfficientNet(nn.Sequential):
    def __init__(self) -> None:
        stages = [nn.Sequential(MBConv(w), MBConv(w), nn.Conv2d(w, 2 * w, 3, 2, 1)) for w in (16, 32)]
        super().__init__(nn.Conv2d(3, 16, 3, 2, 1), *stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


class SuperResolution(nn.Module):
    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.body = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(6))
        self.last = nn.Conv2d(width, 12, 3, padding=1)

    def forward(self, x: Any) -> Any:
        x = self.first(x)
        for layer in self.body:
            x = x + F.relu(layer(x))
        return F.pixel_shuffle(self.last(x), 2)


class Decoder(nn.Module):
    """That of a VAE: group norm and SiLU, ever larger maps."""

    def __init__(self, widths: tuple[int, ...] = (96, 64, 32)) -> None:
        super().__init__()
        self.first = nn.Conv2d(4, widths[0], 3, padding=1)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.GroupNorm(8, a), nn.SiLU(), nn.Conv2d(a, b, 3, padding=1))
            for a, b in zip(widths, [*widths[1:], 16], strict=True)
        )
        self.last = nn.Sequential(nn.GroupNorm(8, 16), nn.SiLU(), nn.Conv2d(16, 3, 3, padding=1))

    def forward(self, z: Any) -> Any:
        x = self.first(z)
        for block in self.blocks:
            x = F.interpolate(block(x), scale_factor=2)
        return self.last(x)


class TCN(nn.Module):
    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.first = nn.Conv1d(8, width, 1)
        self.layers = nn.ModuleList(nn.Conv1d(width, width, 3, padding=2**i, dilation=2**i) for i in range(6))
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for _ in range(6))
        self.last = nn.Conv1d(width, 4, 1)

    def forward(self, x: Any) -> Any:
        x = self.first(x)
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = x + F.dropout(F.relu(norm(layer(x))), 0.1, self.training)
        return self.last(x)


def _own(module: Any, *shape: int) -> Network:
    return (
        module,
        {"x" if not isinstance(module, (Decoder, EfficientNet)) else _name(module): torch.randn(*shape)},
        (lambda y, _: y.square().mean()),
    )


def _name(module: Any) -> str:
    return "z" if isinstance(module, Decoder) else "input"


def _of_transformers(config: str, model: str, sizes: Batch, batch: Callable[[], Batch]) -> Callable[[], Network]:
    def make() -> Network:
        import transformers

        module = getattr(transformers, model)(getattr(transformers, config)(**sizes))
        return module, batch(), lambda out, _: out.loss if out.loss is not None else out.logits.square().mean()

    return make


def _tokens(words: int, *shape: int) -> Batch:
    ids = torch.randint(0, words, shape)
    return {"input_ids": ids, "labels": ids}


def _clip() -> Network:
    from transformers import CLIPConfig, CLIPModel

    text = {"vocab_size": 1000, "hidden_size": 128, "intermediate_size": 512, "num_hidden_layers": 3}
    image = {"hidden_size": 128, "intermediate_size": 512, "num_hidden_layers": 3, "image_size": 96, "patch_size": 8}
    heads = {"num_attention_heads": 4}
    config = CLIPConfig(text_config={**text, **heads}, vision_config={**image, **heads}, projection_dim=64)
    ids = torch.randint(0, 1000, (8, 32))
    batch = {"input_ids": ids, "pixel_values": torch.randn(8, 3, 96, 96), "return_loss": True}
    return CLIPModel(config), batch, lambda out, _: out.loss


NETWORKS: dict[str, Callable[[], Network]] = {
    "unet": lambda: _own(UNet(), 4, 3, 128, 128),
    "densenet": lambda: _own(DenseNet(), 4, 3, 64, 64),
    "efficientnet": lambda: _own(EfficientNet(), 8, 3, 96, 96),
    "super_resolution": lambda: _own(SuperResolution(), 2, 3, 96, 96),
    "vae_decoder": lambda: _own(Decoder(), 2, 4, 24, 24),
    "tcn": lambda: _own(TCN(), 16, 8, 1024),
    "segformer": _of_transformers(
        *("SegformerConfig", "SegformerForSemanticSegmentation"),
        {"hidden_sizes": [16, 32, 64, 128], "depths": [1, 1, 1, 1], "decoder_hidden_size": 64, "num_labels": 10},
        lambda: {"pixel_values": torch.randn(2, 3, 128, 128)},
    ),
    "qwen2": _of_transformers(
        *("Qwen2Config", "Qwen2ForCausalLM"),
        {
            **{"vocab_size": 32000, "hidden_size": 128, "intermediate_size": 512, "num_hidden_layers": 3},
            **{"num_attention_heads": 4, "num_key_value_heads": 2, "use_cache": False},
        },
        lambda: _tokens(32000, 2, 256),
    ),
    "deberta": _of_transformers(
        *("DebertaConfig", "DebertaForMaskedLM"),
        {
            **{"vocab_size": 2000, "hidden_size": 128, "intermediate_size": 512, "num_hidden_layers": 3},
            **{"num_attention_heads": 4, "relative_attention": True, "pos_att_type": "c2p|p2c"},
        },
        lambda: _tokens(2000, 4, 128),
    ),
    "distilbert": _of_transformers(
        *("DistilBertConfig", "DistilBertForMaskedLM"),
        {"vocab_size": 8000, "dim": 128, "hidden_dim": 512, "n_layers": 3, "n_heads": 4},
        lambda: _tokens(8000, 8, 128),
    ),
    "clip": _clip,
    "mobilevit": _of_transformers(
        *("MobileViTConfig", "MobileViTForImageClassification"),
        {"image_size": 128, "hidden_sizes": [48, 64, 80], "neck_hidden_sizes": [16, 16, 24, 32, 40, 48, 160]},
        lambda: {"pixel_values": torch.randn(4, 3, 128, 128), "labels": torch.zeros(4, dtype=torch.int64)},
    ),
}
