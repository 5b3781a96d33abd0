"""The headline claims of the five documents that memplan implements, measured on the same kinds of models.

Run: ``python tests/benchmarks/seeds.py [--only 0,4]``; prints CSV: the files docs/measured/seeds_*.csv, which
docs/seeds.md shows. Models are built by transformers or here, on the meta device: nothing is allocated or fetched.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from reporting import csv_of
from torch import nn

import memplan
from memplan import _core

APART = {"inplace": False, "zero_copy": False}


# Models


def vgg16() -> nn.Module:
    """Simonyan and Zisserman 2014, configuration D."""
    layers: list[nn.Module] = []
    channels = 3
    for width, depth in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(depth):
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU()]
            channels = width
        layers.append(nn.MaxPool2d(2))
    layers += [nn.Flatten(), nn.Linear(512 * 7 * 7, 4096), nn.ReLU(), nn.Dropout()]
    layers += [nn.Linear(4096, 4096), nn.ReLU(), nn.Dropout(), nn.Linear(4096, 1000)]
    return nn.Sequential(*layers)


def build(name: str) -> nn.Module:
    """A model of the usual size, on the meta device."""
    import transformers as tf

    makers = {
        "vgg16": vgg16,
        "resnet50": lambda: tf.ResNetForImageClassification(tf.ResNetConfig(num_labels=1000)),
        "mobilenetv2": lambda: tf.MobileNetV2ForImageClassification(tf.MobileNetV2Config(num_labels=1000)),
        "bert-base": lambda: tf.BertForMaskedLM(tf.BertConfig()),
        "gpt2": lambda: tf.GPT2LMHeadModel(tf.GPT2Config()),
        "vit-large": lambda: tf.ViTForImageClassification(
            tf.ViTConfig(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096)
        ),
        "llama-7b": lambda: tf.LlamaForCausalLM(
            tf.LlamaConfig(
                vocab_size=32000,
                hidden_size=4096,
                intermediate_size=11008,
                num_hidden_layers=32,
                num_attention_heads=32,
                max_position_embeddings=2048,
            )
        ),
    }
    with torch.device("meta"):
        return makers[name]()


@cache
def graph(name: str, batch: int, *, train: bool = False, length: int = 0, dtype: str = "float32") -> memplan.Graph:
    """The traced model, for images of 224 by 224 or `length` tokens."""
    model = build(name).to(getattr(torch, dtype))
    model = model.train() if train else model.eval()
    kwargs: dict[str, Any] = {}
    with torch.device("meta"):
        if length:
            kwargs["input_ids"] = torch.zeros(batch, length, dtype=torch.int64)
            if train:
                kwargs["labels"] = kwargs["input_ids"]
        else:
            images = torch.zeros(batch, 3, 224, 224, dtype=getattr(torch, dtype))
            if name == "vgg16":
                return captured(Loss(model) if train else model, (images,), {}, train)
            kwargs["pixel_values"] = images
            if train:
                kwargs["labels"] = torch.zeros(batch, dtype=torch.int64)
    return captured(model, (), kwargs, train)


class Loss(nn.Module):
    """A classifier with a loss, to train."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.model(images).square().mean()


def captured(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], train: bool) -> memplan.Graph:
    found = memplan.capture(model, args=args, kwargs=kwargs, train=train).graph
    assert isinstance(found, memplan.Graph)
    return found


# Figures


def mib(size: float) -> str:
    return f"{size / 2**20:,.1f}"


def peak(source: Any, planner: str, **options: Any) -> int:
    return memplan.plan(source, planner, **options).peak


def saved(part: float, whole: float) -> str:
    return f"{1 - part / whole:.1%}"


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """A table in CSV."""
    yield csv_of([head, *([str(cell) for cell in row] for row in rows)])


def megengine() -> Iterator[str]:
    """TFLite's planner against MegEngine's, without and with its optimisations (MiB)."""
    head = (
        "model",
        "batch",
        "no reuse",
        "greedy_by_size (TFLite)",
        "megengine, chunks apart",
        "megengine",
        "auto",
        "load",
    )
    rows = []
    for name in ("vgg16", "resnet50", "mobilenetv2"):
        for batch in (1, 128):
            g = graph(name, batch)
            naive = memplan.plan(g, "naive", **APART)
            figures = (naive.peak, peak(g, "greedy_by_size", **APART), peak(g, "megengine", **APART))
            best = memplan.plan(g)
            rows.append((name, batch, *map(mib, figures), mib(peak(g, "megengine")), mib(best.peak), mib(best.load)))
    yield from table(head, rows)


TRAINED = (("vgg16", 32, 0), ("resnet50", 32, 0), ("mobilenetv2", 32, 0), ("bert-base", 8, 128), ("gpt2", 4, 256))


def mxnet() -> Iterator[str]:
    """What sharing saves of forward and backward graphs, and what a dynamic allocator reserves (MiB)."""
    head = (
        "training",
        "no reuse",
        "mxnet",
        "saved",
        "auto",
        "saved",
        "tlsf_replay",
        "torch's caching allocator",
        "load",
    )
    rows = []
    for name, batch, length in TRAINED:
        g = graph(name, batch, train=True, length=length)
        naive = peak(g, "naive", **APART)
        pools, best = peak(g, "mxnet"), memplan.plan(g)
        dynamic = _core.reserved_by_caching(memplan.plan(g, "naive", **APART).problem)
        shares = (mib(pools), saved(pools, naive), mib(best.peak), saved(best.peak, naive))
        rows.append(
            (f"{name}, batch {batch}", mib(naive), *shares, mib(peak(g, "tlsf_replay")), mib(dynamic), mib(best.load))
        )
    yield from table(head, rows)


def parallelism() -> Iterator[str]:
    """Memory against parallelism: ops over the longest path of what must run in order, and the peak (MiB)."""
    import onnx

    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    sources: list[tuple[str, memplan.Graph]] = [("bert-base, batch 1", graph("bert-base", 1, length=128))]
    for name in ("light_inception_v2", "light_densenet121", "light_shufflenet"):
        found = memplan.capture(folder / f"{name}.onnx").graph
        assert isinstance(found, memplan.Graph)
        sources.append((name, found))
    head = ("model", "ops", "data alone", "sequential", "MiB", "ancestors", "MiB", "longest_path", "MiB")
    rows = []
    for name, g in sources:
        spread = g.to_dict()
        for k, op in enumerate(spread["ops"]):  # type: ignore[arg-type, var-annotated]
            op["stream"] = k
        loose = memplan.capture(spread).graph
        plans = (memplan.plan(g), memplan.plan(loose), memplan.plan(loose, "longest_path"))
        cells = [cell for plan in plans for cell in (width(g, plan.reuse_edges()), mib(plan.peak))]
        rows.append((name, len(g.ops), width(g, []), *cells))
    yield from table(head, rows)


def width(g: memplan.Graph, edges: Iterable[tuple[str, str]]) -> str:
    """Ops over the longest path: how many could run at a time, on average."""
    position = {op.name: k for k, op in enumerate(g.ops)}
    producer = {t: k for k, op in enumerate(g.ops) for t in op.outputs}
    before: list[set[int]] = [{producer[t] for t in op.inputs if t in producer} for op in g.ops]
    for early, late in edges:
        before[position[late]].add(position[early])
    depth = [0] * len(before)
    for k, ops in enumerate(before):
        depth[k] = 1 + max((depth[b] for b in ops), default=0)
    return f"{len(depth) / max(depth, default=1):.2f}"


def inductor() -> Iterator[str]:
    """torch.compile's two planners on the same buffers, as peak over load."""
    head = ("model", "buffers", "inductor_reuse", "inductor_tree", "auto")
    rows = []
    cases = [(name, batch, length, True) for name, batch, length in TRAINED]
    cases += [("resnet50", 32, 0, False), ("bert-base", 8, 128, False), ("gpt2", 4, 256, False)]
    for name, batch, length, train in cases:
        g = graph(name, batch, train=train, length=length)
        plans = [memplan.plan(g, planner) for planner in ("inductor_reuse", "inductor_tree", "auto")]
        label = f"{name}, batch {batch}, {'training' if train else 'inference'}"
        rows.append((label, len(plans[0]), *(f"{plan.peak / plan.load:.3f}" for plan in plans)))
    yield from table(head, rows)


BATCH_NORM = "aten.native_batch_norm"  # with running statistics it reads and writes one by one


def ge() -> Iterator[str]:
    """Pools alone, and pools with in-place operators: what they save of no reuse at all (MiB)."""
    pools = ("ge_pool apart", "saved", "ge_pool in place", "saved", "and batch norm", "saved")
    head = ("model", "no reuse", *pools, "auto", "saved")
    cases = (
        ("resnet50", 32, 0, "float32"),
        ("bert-base", 8, 128, "float32"),
        ("vit-large", 8, 0, "float32"),
        ("llama-7b", 1, 2048, "float16"),
    )
    rows = []
    for name, batch, length, dtype in cases:
        g = graph(name, batch, length=length, dtype=dtype)
        naive = peak(g, "naive", **APART)
        cells = []
        more = {"inplace_ops": [*memplan.inplace_ops.INPLACE_OPS, BATCH_NORM]}
        pools_of = (peak(g, "ge_pool", **APART), peak(g, "ge_pool"), peak(g, "ge_pool", **more))
        for figure in (*pools_of, peak(g, "auto", **more)):
            cells += [mib(figure), saved(figure, naive)]
        rows.append((f"{name}, batch {batch}", mib(naive), *cells))
    yield from table(head, rows)


SEARCHES = ("first_fit", "best_fit", "worst_fit", "beam:k=1", "beam:k=4", "beam:k=16", "beam:k=64", "exhaustive")


def searches(problems: int = 500) -> Iterator[str]:
    """The fits and the beam against the optimum, on random problems small enough to know it."""
    random = np.random.default_rng(4)
    excess: dict[str, list[float]] = {name: [] for name in SEARCHES}
    seconds: dict[str, list[float]] = {name: [] for name in SEARCHES}
    for _ in range(problems):
        problem = small(random)
        best = memplan.plan(problem, "exhaustive")
        if not best.optimal:
            continue
        for name in SEARCHES:
            start = time.perf_counter()
            plan = memplan.plan(problem, name)
            seconds[name].append(time.perf_counter() - start)
            excess[name].append(plan.peak / best.peak - 1)
    head = ("planner", "optimal", "mean above the optimum", "worst", "median milliseconds")
    rows = []
    for name in SEARCHES:
        above = np.array(excess[name])
        figures = (f"{(above == 0).mean():.1%}", f"{above.mean():.2%}", f"{above.max():.2%}")
        rows.append((f"`{name}`", *figures, f"{np.median(seconds[name]) * 1000:.3f}"))
    yield f"{len(excess['exhaustive'])} of {problems} problems whose optimum `exhaustive` proves.\n"
    yield from table(head, rows)


def small(random: np.random.Generator) -> memplan.Problem:
    """8 to 14 buffers of 1 to 16 units over 12 steps."""
    count = int(random.integers(8, 15))
    first = random.integers(0, 11, count)
    last = np.minimum(first + random.integers(1, 7, count), 12)
    return memplan.Problem(random.integers(1, 17, count) * 1024, first, last)


PARTS = {
    "0": (megengine,),
    "1": (mxnet, parallelism),
    "2": (inductor,),
    "3": (ge,),
    "4": (searches,),
}


def main() -> None:
    """Print the tables."""
    warnings.filterwarnings("ignore")
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default=",".join(PARTS), help="numbers of documents")
    for number in parser.parse_args().only.split(","):
        for part in PARTS[number]:
            print(f"### {part.__doc__}\n")
            for line in part():
                print(line, flush=True)


if __name__ == "__main__":
    main()
