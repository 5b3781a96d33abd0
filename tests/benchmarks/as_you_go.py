"""Eager training with updates as gradients come, beside the usual loop: peak of a step's memory, losses, seconds.

The peak is that of the bytes which torch's allocator for the CPU gives out in a step, after a warm-up: activations,
gradients and what kernels need, without weights and states. Seconds are medians of steps that take turns.
Run: ``python tests/benchmarks/as_you_go.py [--steps N] [--json F] [--docs]``
"""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from reporting import arguments, mib, ratio, report

import memplan

SECTION = "as you go"
HEAD = (
    "network",
    "optimizer",
    "gradients (MiB)",
    "peak, usual loop (MiB)",
    "as you go (MiB)",
    "share",
    "seconds",
    "equal",
)
OPTIMIZERS = {"SGD": torch.optim.SGD, "AdamW": torch.optim.AdamW}


def networks() -> dict[str, Callable[[], tuple[Any, dict[str, Any]]]]:
    """Networks and what they are called with, labels among it."""
    import transformers as tf

    def tokens(model: Any) -> tuple[Any, dict[str, Any]]:
        ids = torch.randint(0, 900, (1, 128))
        return model, {"input_ids": ids, "labels": ids}

    def image(model: Any) -> tuple[Any, dict[str, Any]]:
        return model, {"pixel_values": torch.randn(1, 3, 224, 224), "labels": torch.tensor([1])}

    return {
        "resnet50_b1": lambda: image(tf.ResNetForImageClassification(tf.ResNetConfig(num_labels=1000))),
        "bert_b1": lambda: tokens(tf.BertForMaskedLM(tf.BertConfig())),
        "gpt2_b1": lambda: tokens(tf.GPT2LMHeadModel(tf.GPT2Config(use_cache=False))),
    }


def main() -> None:
    """Train, measure, print."""
    parser = arguments(__doc__)
    parser.add_argument("--steps", type=int, default=5, help="timed steps of each loop")
    options = parser.parse_args()
    rows = []
    for name, make in networks().items():
        for optimizer in OPTIMIZERS:
            rows.append(
                {"network": name, "optimizer": optimizer, **measured(make, OPTIMIZERS[optimizer], options.steps)}
            )
            print(*cells_of(rows[-1]), flush=True)
    cells = [cells_of(row) for row in rows]
    report(SECTION, HEAD, cells, rows, options, "training.md")


def measured(make: Callable[[], tuple[Any, dict[str, Any]]], optimizer: Any, steps: int) -> dict[str, Any]:
    """Two copies of a network are trained, one in each way."""
    torch.manual_seed(0)
    module, kwargs = make()
    loops = [Loop(copy.deepcopy(module), kwargs, optimizer, as_you_go) for as_you_go in (False, True)]
    losses = [[loop.step()] for loop in loops]
    peaks = [loop.peak(found) for loop, found in zip(loops, losses, strict=True)]
    seconds: list[list[float]] = [[], []]
    for _ in range(steps):
        for number, loop in enumerate(loops):
            begin = time.perf_counter()
            losses[number].append(loop.step())
            seconds[number].append(time.perf_counter() - begin)
    weights = [list(loop.module.parameters()) for loop in loops]
    equal = losses[0] == losses[1] and all(map(torch.equal, *weights))
    size = sum(p.numel() * p.element_size() for p in weights[0])
    medians = [statistics.median(times) for times in seconds]
    return {"gradients": size, "peaks": peaks, "seconds": medians, "equal": equal}


class Loop:
    """The steps of one copy."""

    def __init__(self, module: Any, kwargs: dict[str, Any], optimizer: Any, as_you_go: bool) -> None:
        self.module, self.kwargs, self.optimizer = module, kwargs, optimizer(module.parameters())
        self.updates = memplan.torch.update_as_you_go(self.optimizer) if as_you_go else nullcontext()

    def step(self) -> float:
        """A step, and its loss."""
        torch.manual_seed(1)  # dropout
        loss = self.module(**self.kwargs).loss
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return float(loss.detach())

    def peak(self, losses: list[float]) -> int:
        """Bytes of a recorded step."""
        with memplan.torch.record() as tape:
            losses.append(self.step())
        return tape.peak


def cells_of(row: dict[str, Any]) -> list[str]:
    """A row of the table."""
    usual, ours = row["peaks"]
    seconds = " / ".join(f"{value:.2f}" for value in row["seconds"])
    sizes = [mib(row["gradients"]), mib(usual), mib(ours), ratio(ours, usual)]
    return [row["network"], row["optimizer"], *sizes, seconds, "yes" if row["equal"] else "no"]


if __name__ == "__main__":
    main()
