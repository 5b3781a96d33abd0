"""Six training loops, each in a process of its own: with torch's allocator, and in one arena.

Run: ``python tests/benchmarks/training.py LOOP plain|arena|paired``, or ``... allocation``; it prints figures as JSON.
bench_eager.py makes its tables from them.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

import memplan

STEPS = 20
RECORDED = 2  # steps of each shape


class Loop(NamedTuple):
    """A training loop: a step gives its loss; the batches repeat, and each has the name of its shape."""

    step: Callable[[Any], Tensor]
    batches: list[tuple[str, Any]]
    optimizer: torch.optim.Optimizer

    def batch(self, number: int) -> tuple[str, Any]:
        return self.batches[number % len(self.batches)]


def _loop(model: nn.Module, optimizer: torch.optim.Optimizer, batches: list[tuple[str, Any]]) -> Loop:
    """The usual step, which frees the gradients of the step before it."""

    def step(batch: Any) -> Tensor:
        optimizer.zero_grad()
        loss: Tensor = model(**batch).loss
        loss.backward()
        optimizer.step()
        return loss.detach()

    return Loop(step, batches, optimizer)


class Classifier(nn.Module):
    """Any layers, and the loss of a classification: called as models of transformers are."""

    def __init__(self, layers: nn.Module) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, x: Tensor, labels: Tensor) -> Any:
        class Output(NamedTuple):
            loss: Tensor

        return Output(functional.cross_entropy(self.layers(x), labels))


def _images(count: int, batch: int) -> list[tuple[str, Any]]:
    return [
        ("full", {"x": torch.randn(batch, 3, 64, 64), "labels": torch.randint(0, 10, (batch,))}) for _ in range(count)
    ]


def _tokens(count: int, batch: int, length: int) -> list[tuple[str, Any]]:
    tokens = [torch.randint(1, 900, (batch, length)) for _ in range(count)]
    return [("full", {"input_ids": t, "labels": t}) for t in tokens]


def _convnet() -> nn.Module:
    layers: list[nn.Module] = []
    for before, after in ((3, 32), (32, 64), (64, 128), (128, 128)):
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU(), nn.MaxPool2d(2)]
    return Classifier(nn.Sequential(*layers, nn.Flatten(), nn.Linear(128 * 16, 10)))


def convnet() -> Loop:
    model = _convnet()
    return _loop(model, torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9), _images(4, 32))


def last_batch() -> Loop:
    """Four full batches and a smaller one, again and again."""
    model = _convnet()
    small = {name: value[:11] for name, value in _images(1, 32)[0][1].items()}
    batches = [*_images(4, 32), ("last", small)]
    return _loop(model, torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9), batches)


def gpt2() -> Loop:
    import transformers as tf

    model = tf.GPT2LMHeadModel(tf.GPT2Config(n_layer=4, n_embd=256, n_head=8, vocab_size=1000, use_cache=False))
    return _loop(model, torch.optim.SGD(model.parameters(), lr=1e-2), _tokens(4, 4, 128))


def bert() -> Loop:
    import transformers as tf

    sizes = {"hidden_size": 256, "intermediate_size": 1024, "num_attention_heads": 8, "vocab_size": 1000}
    model = tf.BertForMaskedLM(tf.BertConfig(num_hidden_layers=4, **sizes))
    return _loop(model, torch.optim.SGD(model.parameters(), lr=1e-2), _tokens(4, 4, 128))


def mixtral() -> Loop:
    """Experts get as many tokens as the router gives them: the sizes of the tape are never those of a later step."""
    import transformers as tf

    sizes = {"hidden_size": 256, "intermediate_size": 512, "num_attention_heads": 8, "num_key_value_heads": 4}
    config = tf.MixtralConfig(num_hidden_layers=4, num_local_experts=8, vocab_size=1000, use_cache=False, **sizes)
    config._experts_implementation = "eager"
    model = tf.MixtralForCausalLM(config)
    return _loop(model, torch.optim.SGD(model.parameters(), lr=1e-2), _tokens(4, 4, 128))


def adamw() -> Loop:
    """A transformer whose optimizer works on all parameters at once."""
    layer = nn.TransformerEncoderLayer(256, 8, 1024, batch_first=True)
    layers = nn.Sequential(nn.TransformerEncoder(layer, 4), nn.Flatten(), nn.Linear(256 * 64, 10))
    model = Classifier(layers)
    batches = [("full", {"x": torch.randn(8, 64, 256), "labels": torch.randint(0, 10, (8,))}) for _ in range(4)]
    return _loop(model, torch.optim.AdamW(model.parameters(), foreach=True), batches)


LOOPS: dict[str, Callable[[], Loop]] = {
    made.__name__: made for made in (convnet, gpt2, bert, mixtral, last_batch, adamw)
}


def warm(name: str) -> Loop:
    """The loop after a step with each shape."""
    torch.manual_seed(0)
    loop = LOOPS[name]()
    for _, batch in dict(loop.batches).items():
        loop.step(batch)
    return loop


def planned(loop: Loop, device: str = "cpu") -> tuple[memplan.torch.Arena, dict[str, float]]:
    """An arena of recorded steps with each shape, and the seconds that it took."""
    begin = time.perf_counter()
    tapes = {}
    for name, batch in dict(loop.batches).items():
        with memplan.torch.record(device=device) as tapes[name]:
            for _ in range(RECORDED):
                tapes[name].step()
                loop.step(batch)
    recorded = time.perf_counter()
    plans = {name: memplan.plan(tape) for name, tape in tapes.items()}
    done = time.perf_counter()
    arena = memplan.torch.arena(plans)
    return arena, {"recording": recorded - begin, "planning": done - recorded}


def steps(loop: Loop, arena: memplan.torch.Arena | None) -> Iterator[str]:
    """The losses of all steps, as text that holds every bit."""
    for number in range(STEPS):
        name, batch = loop.batch(number)
        with arena or nullcontext():
            if arena is not None:
                arena.step(name)
            loss = loop.step(batch)
        yield float(loss).hex()


def resident() -> dict[str, int]:
    lines = Path("/proc/self/status").read_text().splitlines()
    found = dict(line.split(":", 1) for line in lines)
    return {key: int(found[key].split()[0]) * 1024 for key in ("VmHWM", "VmRSS")}


def in_turn(loop: Loop, arena: memplan.torch.Arena) -> dict[str, float]:
    """Seconds of a step in the arena, and of a recorded one, over those of the same step without; one after another."""
    served, recorded = [], []
    for number in range(STEPS):
        name, batch = loop.batch(number)
        moments = [time.perf_counter()]
        loop.step(batch)
        moments.append(time.perf_counter())
        with arena:
            arena.step(name)
            loop.step(batch)
        moments.append(time.perf_counter())
        with memplan.torch.record():
            loop.step(batch)
        moments.append(time.perf_counter())
        plain, inside, recording = (after - before for before, after in pairwise(moments))
        served.append(inside / plain)
        recorded.append(recording / plain)
    return {"ratio": statistics.median(served), "recorded": statistics.median(recorded)}


def an_allocation() -> dict[str, float]:
    """Nanoseconds of torch.empty(1000), a thousand alive at a time: medians, also of what is more than the default."""

    def step() -> None:
        for _ in range(20):
            [torch.empty(1000) for _ in range(1000)]

    step()
    with memplan.torch.record() as tape:
        step()
    arena = memplan.torch.arena(memplan.plan(tape, "first_fit"))
    rows = []
    for _ in range(STEPS):
        moments = [time.perf_counter()]
        for inside in (nullcontext(), arena, memplan.torch.record()):
            with inside:
                step()
            moments.append(time.perf_counter())
        rows.append([(after - before) / len(tape) * 1e9 for before, after in pairwise(moments)])
    assert arena.report().missed == 0
    default, served, recorded = (statistics.median(column) for column in zip(*rows, strict=True))
    more = [statistics.median(row[i] - row[0] for row in rows) for i in (1, 2)]
    return {"default": default, "arena": served, "record": recorded, "more": more[0], "more_recorded": more[1]}


def measured(name: str, mode: str) -> dict[str, Any]:
    loop = warm(name)
    if mode == "plain":
        for _, batch in dict(loop.batches).items():  # what the others record
            for _ in range(RECORDED):
                loop.step(batch)
        found = run(loop, None)
        with memplan.torch.record() as tape:  # the bytes of the same steps again
            list(steps(loop, None))
        return {**found, "peak": tape.peak}
    arena, seconds = planned(loop)
    if mode == "paired":
        return {**in_turn(loop, arena), **seconds}
    found, report = run(loop, arena), arena.report()
    counts = ("served", "moved", "outside", "missed", "arena_bytes", "outside_peak", "peak")
    return {**found, **{key: getattr(report, key) for key in counts}}


def run(loop: Loop, arena: memplan.torch.Arena | None) -> dict[str, Any]:
    """The losses of the loop, its seconds, and the most that the process held in it."""
    loop.optimizer.zero_grad()  # those of steps before the loop are none of it
    Path("/proc/self/clear_refs").write_text("5")  # VmHWM begins again
    begin = time.perf_counter()
    losses = list(steps(loop, arena))
    seconds = time.perf_counter() - begin
    return {"losses": losses, "seconds": seconds, **resident()}


if __name__ == "__main__":
    print(json.dumps(an_allocation() if sys.argv[1:] == ["allocation"] else measured(*sys.argv[1:])))
