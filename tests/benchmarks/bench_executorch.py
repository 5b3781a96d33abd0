"""Programs of ExecuTorch inside memplan's plans, beside its own: bytes, equal outputs, and seconds of planning.

Run: ``pytest tests/benchmarks/bench_executorch.py [--docs]``. Ten small networks with random weights are exported and
lowered without a backend, once with ExecuTorch's pass (greedy, its default) and once with memplan's; inputs and outputs
are placed too. Its runtime runs both programs. A test fails if their outputs differ in a bit, or if memplan's arena is
larger than its load. Seconds are those spent in memplan, beside those of `to_executorch`: the median of three.
"""

from __future__ import annotations

import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from reporting import report_of_suite

import memplan

sys.path.insert(0, str(Path(__file__).parents[1]))
pytest.importorskip("executorch")

import torch
from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig, to_edge
from executorch.exir.passes import MemoryPlanningPass
from executorch.runtime import Runtime, Verification
from torch import Tensor, nn

from builders.models import CATALOGUE, Example, inference_inputs

HEAD = [
    *("network", "tensors", "load, KiB", "ExecuTorch, KiB", "memplan, KiB", "ExecuTorch / load", "memplan / load"),
    *("ExecuTorch, ms", "memplan, ms", "of lowering"),
]
ROUNDS = 3


class Densely(nn.Module):
    """Convolutions that each read all that was made before."""

    def __init__(self, layers: int = 8, growth: int = 8) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 2 * growth, 3, padding=1)
        self.layers = nn.ModuleList(nn.Conv2d((2 + k) * growth, growth, 3, padding=1) for k in range(layers))
        self.head = nn.Linear((2 + layers) * growth, 10)

    def forward(self, pixel_values: Tensor) -> tuple[Tensor]:
        made = [self.stem(pixel_values).relu()]
        for layer in self.layers:
            made.append(layer(torch.cat(made, 1)).relu())
        return (self.head(torch.cat(made, 1).mean((2, 3))),)


def densely() -> Example:
    return Example(Densely().eval(), {"pixel_values": torch.randn(2, 3, 32, 32)})


def mobilenet() -> Example:
    from transformers import MobileNetV2Config, MobileNetV2ForImageClassification

    config = MobileNetV2Config(image_size=64, depth_multiplier=0.25, num_labels=10)
    return Example(MobileNetV2ForImageClassification(config).eval(), {"pixel_values": torch.randn(1, 3, 64, 64)})


def bert() -> Example:
    from transformers import BertConfig, BertForMaskedLM

    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    return Example(
        BertForMaskedLM(BertConfig(vocab_size=97, **sizes)).eval(), {"input_ids": torch.randint(1, 97, (2, 16))}
    )


NETWORKS: dict[str, Callable[[], Example]] = {
    **{name: CATALOGUE[name] for name in ("resnet", "convnext", "swin", "vit", "t5", "llama", "whisper")},
    "mobilenet_v2": mobilenet,
    "bert": bert,
    "densely connected": densely,
}


class Called(nn.Module):
    """The first output of a model, of tensors as positional arguments."""

    def __init__(self, model: nn.Module, names: list[str]) -> None:
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *values: Tensor) -> Tensor:
        options = {} if isinstance(self.model, Densely) else {"return_dict": False}
        return self.model(**dict(zip(self.names, values, strict=True)), **options)[0]


def inputs_of(example: Example) -> dict[str, Any]:
    return dict(example.inputs) if isinstance(example.model, Densely) else inference_inputs(example)


def lowered(exported: Any, memory: Any) -> tuple[Any, float, float]:
    """The program, the seconds of to_executorch, and those in the algorithm of the pass."""
    edge = to_edge(exported, compile_config=EdgeCompileConfig(_check_ir_validity=False))
    spent: list[float] = []
    algorithm = memory.memory_planning_algo

    def timed(*arguments: Any) -> Any:
        begin = time.perf_counter()
        try:
            return algorithm(*arguments)
        finally:
            spent.append(time.perf_counter() - begin)

    memory.memory_planning_algo = timed
    begin = time.perf_counter()
    program = edge.to_executorch(ExecutorchBackendConfig(memory_planning_pass=memory))
    return program, time.perf_counter() - begin, sum(spent)


def outputs(program: Any, inputs: tuple[Tensor, ...]) -> list[Tensor]:
    loaded = Runtime.get().load_program(program.buffer, verification=Verification.Minimal)
    return [out.clone() for out in loaded.load_method("forward").execute(inputs)]


@pytest.fixture(scope="module")
def rows(request: pytest.FixtureRequest) -> Iterator[list[list[str]]]:
    """The rows of the table; printed, and written where asked to, at the end."""
    found: list[list[str]] = []
    yield found
    report_of_suite("executorch", HEAD, found, request)


@pytest.mark.parametrize("network", NETWORKS)
def test_program(network: str, rows: list[list[str]]) -> None:
    warnings.filterwarnings("ignore")
    torch.manual_seed(0)
    example = NETWORKS[network]()
    inputs = inputs_of(example)
    values = tuple(inputs.values())
    exported = torch.export.export(Called(example.model, list(inputs)), values)
    shares, ours_in, theirs_in = [], [], []
    for _ in range(ROUNDS):
        memory = memplan.executorch.memory_planning_pass()
        ours, whole, part = lowered(exported, memory)
        theirs, _, greedily = lowered(exported, MemoryPlanningPass())
        shares.append(part / whole)
        ours_in.append(part)
        theirs_in.append(greedily)
    (arena,) = memory.arenas
    greedy = theirs.executorch_program.execution_plan[0].non_const_buffer_sizes
    assert ours.executorch_program.execution_plan[0].non_const_buffer_sizes == [0, arena.bytes]
    assert greedy == [0, arena.greedy_bytes]
    assert all(map(torch.equal, outputs(ours, values), outputs(theirs, values)))
    torch.testing.assert_close(
        outputs(ours, values)[0], Called(example.model, list(inputs))(*values), rtol=1e-3, atol=1e-4
    )
    assert arena.bytes == arena.load
    rows.append(
        [
            network,
            str(len(arena.plan)),
            *(f"{size / 1024:.1f}" for size in (arena.load, greedy[1], arena.bytes)),
            *(f"{size / arena.load:.3f}" for size in (greedy[1], arena.bytes)),
            *(f"{statistics.median(seconds) * 1000:.1f}" for seconds in (theirs_in, ours_in)),
            f"{statistics.median(shares):.2%}",
        ]
    )
