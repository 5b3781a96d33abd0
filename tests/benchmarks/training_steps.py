"""Training steps with the optimizer's updates in them: the load as torch runs them, of the best order, and the bound.

torch updates after the whole backward pass. Weights and states lie outside of the arena, and need as much in any order.
Run: ``python tests/benchmarks/training_steps.py [--networks gpt2_b4,...] [--json F] [--docs]``; nothing is fetched, and
networks are on the meta device.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from reporting import arguments, pivoted, report
from torch import nn

import memplan
from memplan import _core
from memplan.printing.units import format_bytes

sys.path.insert(0, str(Path(__file__).parents[1]))
SECTION = "training steps"
HEAD = ("network", "optimizer", "ops", "as torch runs it", "best", "best / torch", "bound / torch", "proven", "seconds")
OPTIMIZERS = ("SGD", "AdamW")
Step = tuple[nn.Module, dict[str, torch.Tensor]]


def images(model: nn.Module, batch: int) -> Step:
    """A step of a network that sorts images."""
    return model, {"pixel_values": torch.empty(batch, 3, 224, 224), "labels": torch.zeros(batch, dtype=torch.long)}


def tokens(model: nn.Module, batch: int, length: int) -> Step:
    """A step of a network for language."""
    ids = torch.zeros(batch, length, dtype=torch.long)
    return model, {"input_ids": ids, "labels": ids}


class Loss(nn.Module):
    """A network of images and its loss."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, pixel_values: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(self.network(pixel_values), labels)


def vgg16() -> nn.Module:
    """Simonyan and Zisserman 2014, configuration D."""
    layers: list[nn.Module] = []
    channels = 3
    for width, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(count):
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(inplace=True)]
            channels = width
        layers.append(nn.MaxPool2d(2))
    layers.append(nn.Flatten())
    for inside, outside in ((512 * 49, 4096), (4096, 4096)):
        layers += [nn.Linear(inside, outside), nn.ReLU(inplace=True), nn.Dropout()]
    return Loss(nn.Sequential(*layers, nn.Linear(4096, 1000)))


def networks() -> Mapping[str, Callable[[], Step]]:
    """By name, with the batch; language models read 128 tokens, unless the name says otherwise."""
    import transformers as tf

    from builders.models import llama_7b

    swin, t5 = tf.SwinConfig(num_labels=1000), tf.T5Config(decoder_start_token_id=0, pad_token_id=0, use_cache=False)
    resnet, mobilenet = tf.ResNetConfig(num_labels=1000), tf.MobileNetV2Config(num_labels=1000)
    gpt2, bert = tf.GPT2Config(use_cache=False), tf.BertConfig()
    return {
        "vgg16_b1": lambda: images(vgg16(), 1),
        "resnet50_b1": lambda: images(tf.ResNetForImageClassification(resnet), 1),
        "resnet50_b32": lambda: images(tf.ResNetForImageClassification(resnet), 32),
        "mobilenet_v2_b1": lambda: images(tf.MobileNetV2ForImageClassification(mobilenet), 1),
        "swin_t_b1": lambda: images(tf.SwinForImageClassification(swin), 1),
        "swin_t_b8": lambda: images(tf.SwinForImageClassification(swin), 8),
        "bert_b1": lambda: tokens(tf.BertForMaskedLM(bert), 1, 128),
        "bert_b8": lambda: tokens(tf.BertForMaskedLM(bert), 8, 128),
        "gpt2_b1": lambda: tokens(tf.GPT2LMHeadModel(gpt2), 1, 128),
        "gpt2_b4_512": lambda: tokens(tf.GPT2LMHeadModel(gpt2), 4, 512),
        "t5_small_b8": lambda: tokens(tf.T5ForConditionalGeneration(t5), 8, 128),
        "llama7b_b1": lambda: tokens(llama_7b(), 1, 128),
        "llama7b_b1_512": lambda: tokens(llama_7b(), 1, 512),
    }


def main() -> None:
    """Trace, order, bound, print."""
    parser = arguments(__doc__)
    parser.add_argument("--networks", default="", help="names between commas, instead of all")
    options = parser.parse_args()
    found = networks()
    names = options.networks.split(",") if options.networks else list(found)
    rows = []
    for name in names:
        with torch.device("meta"):
            module, kwargs = found[name]()
        for optimizer in OPTIMIZERS:
            rows.append({"network": name, "optimizer": optimizer, **measured(module.train(), kwargs, optimizer)})
            print(*cells_of(rows[-1]), flush=True)
    cells = [cells_of(row) for row in rows]
    shorter = pivoted(HEAD, cells, (HEAD[0], HEAD[3]), HEAD[1:2], HEAD[4:7])
    report(SECTION, HEAD, cells, rows, options, "order.md", shorter)


def measured(module: nn.Module, kwargs: dict[str, torch.Tensor], optimizer: str) -> dict[str, Any]:
    """Loads in bytes, and the seconds of the search with its bound."""
    graph = memplan.capture(module, kwargs=kwargs, train=True, optimizer=optimizer).graph
    assert isinstance(graph, _core.Graph)
    given = _core.buffers_of(graph).problem.load
    begin = time.perf_counter()
    best = _core.order_of(graph, "best")
    seconds = time.perf_counter() - begin
    figures = {"ops": len(graph.ops), "given": given, "best": best.load, "bound": best.bound}
    return {**figures, "found_by": best.found_by, "seconds": seconds}


def cells_of(row: dict[str, Any]) -> list[str]:
    """A row of the table."""
    given, best, bound = row["given"], row["best"], row["bound"]
    proven = "yes" if best == bound else f"no, within {best / bound - 1:.3%}"
    loads = [format_bytes(given), format_bytes(best), f"{best / given:.3f}", f"{bound / given:.3f}"]
    return [row["network"], row["optimizer"], str(row["ops"]), *loads, proven, f"{row['seconds']:.2f}"]


if __name__ == "__main__":
    main()
