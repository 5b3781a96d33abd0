"""What torch.compile holds in memory, against the text of the code that it generates, and against a profile of it."""

from __future__ import annotations

import functools
import itertools
import re
import sys
from collections.abc import Callable
from typing import Any

import pytest

import memplan
from builders.paths import BENCHMARKS
from memplan.printing.units import format_bytes
from memplan.torch import InductorCapture, capture_inductor

pytest.importorskip("torch")

import torch
import torch._inductor.config
from torch import nn
from torch._inductor.codegen import memory_planning
from torch._inductor.graph import GraphLowering

functional = nn.functional
pytestmark = pytest.mark.usefixtures("kernels_compiled_once")


class Attention(nn.Module):
    """A block of a transformer: its attention is a kernel that allocates its own results."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(32), nn.Linear(32, 96), nn.Linear(32, 32)
        self.mlp = nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.unflatten(-1, (4, 8)).transpose(1, 2) for part in self.qkv(self.norm(x)).chunk(3, -1))
        x = x + self.out(functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.mlp(x)


class ConvNet(nn.Module):
    """Convolutions with running statistics, and a branch that waits for another."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.norm, self.head = nn.BatchNorm2d(8), nn.Linear(8 * 4 * 4, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = functional.relu(self.norm(self.a(x)))
        y = functional.max_pool2d(functional.relu(self.b(y)) + y, 4)
        return self.head(y.flatten(1)).log_softmax(-1)


class Broken(nn.Module):
    """A branch on data: torch.compile makes a graph before it and one after it."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.after = nn.Linear(16, 48), nn.Linear(48, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.before(x).softmax(-1)
        if y.sum() > 0:  # always
            return self.after(y).softmax(-1)
        return y


def mlp() -> nn.Module:
    sizes = [16, 64, 32, 64, 8]
    return nn.Sequential(*(layer for a, b in itertools.pairwise(sizes) for layer in (nn.Linear(a, b), nn.Softmax(-1))))


NETS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "mlp": (mlp, (4, 16)),
    "convolutions": (ConvNet, (2, 3, 16, 16)),
    "attention": (Attention, (2, 12, 32)),
    "graph break": (Broken, (4, 16)),
}
RUNS = [(net, train) for net in NETS for train in (False, True)]


def build(net: str) -> tuple[nn.Module, tuple[torch.Tensor]]:
    torch.manual_seed(0)
    make, shape = NETS[net]
    return make(), (torch.randn(shape),)


@functools.cache
def captured(net: str, train: bool) -> list[InductorCapture]:
    module, args = build(net)
    return capture_inductor(module, args, train=train)


# The text of a wrapper, counted apart from the lines that it was made from

ALLOCATED = re.compile(r"(\w+) = empty_strided_cpu\(\((.*?)\), \((.*?)\), torch\.(\w+)\)")
REUSED = re.compile(r"(\w+) = (?:reinterpret_tensor\()?(\w+)\b.*# reuse")
CALLED = re.compile(r"(buf\d+) = (?:extern_kernels|torch\.ops)\.")
TAKEN = re.compile(r"(buf\d+) = (buf\d+)\[\d+\]$")
SHAPE = re.compile(r"assert_(?:size_stride|tensor_metadata)\((buf\d+), \((.*?)\), \((.*?)\)")
FREED = re.compile(r"del (.*)$")


def numbers(text: str) -> list[int]:
    return [int(number) for number in text.replace(" ", "").split(",") if number]


def bytes_of(shape: str, stride: str, width: int = 4) -> int:
    last = sum((n - 1) * s for n, s in zip(numbers(shape), numbers(stride), strict=True))
    return (last + 1) * width


class Text:
    """Walks the lines of `call`: what is allocated and freed, the most bytes at any line, and who takes from whom."""

    def __init__(self, code: str) -> None:
        body = re.search(r"def call\(.*?\n(.*?)\n\s+return \(", code, re.DOTALL)
        assert body
        lines = [line.strip() for line in body[1].splitlines()]
        self.alive: dict[str, int] = {}
        self.allocated = self.peak = 0
        self.takes: list[tuple[str, str]] = []
        self.results: dict[str, list[str]] = {}  # of kernels that allocate them: one, or the parts of a tuple
        for found in filter(None, map(TAKEN.match, lines)):
            self.results.setdefault(found[2], []).append(found[1])
        shapes = filter(None, map(SHAPE.match, lines))
        self.size = {found[1]: bytes_of(found[2], found[3]) for found in shapes}  # float32 in these nets
        for line in lines:
            self.read(line)
            self.peak = max(self.peak, sum(self.alive.values()))

    def read(self, line: str) -> None:
        if found := ALLOCATED.match(line):
            width = getattr(torch, found[4]).itemsize
            self.alive[found[1]] = bytes_of(found[2], found[3], width)
            self.allocated += 1
        elif found := REUSED.match(line):
            self.alive[found[1]] = self.alive.pop(found[2], 0)
            self.takes.append((found[1], found[2]))
        elif found := CALLED.match(line):
            results = self.results.get(found[1], [found[1]])
            self.alive.update({name: self.size[name] for name in results if name in self.size})
        elif found := FREED.match(line):
            for name in found[1].split(", "):
                self.alive.pop(name, None)


@pytest.mark.few(1)
@pytest.mark.parametrize(("net", "train"), RUNS)
def test_the_default_as_its_code_says(net: str, train: bool) -> None:
    for graph in captured(net, train):
        text = Text(graph.code)
        assert sum(block.source == "wrapper" for block in graph.held) == text.allocated
        assert sorted([*graph.in_place, *graph.handed_on]) == sorted(text.takes)
        if not any(block.source == "input" for block in graph.held):
            assert graph.reuse_peak == text.peak


@pytest.mark.slow
def test_something_was_compared() -> None:
    graphs = [graph for net, train in RUNS for graph in captured(net, train)]
    for what in ("in_place", "handed_on"):
        assert any(getattr(graph, what) for graph in graphs), what
    assert {block.source for graph in graphs for block in graph.held} == {"wrapper", "kernel", "input"}


@pytest.mark.few(1)
@pytest.mark.parametrize("net", NETS)
def test_pools_as_the_code_says(net: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wrapper that torch writes with memory_planning=True: its allocations, and where buffers lie in them."""
    (graph, *_) = captured(net, False)
    codes: list[str] = []

    def written(self: GraphLowering, code: Any) -> Any:
        codes.append(code.value)
        raise RuntimeError("no kernels are compiled")

    module, args = build(net)
    monkeypatch.setattr(GraphLowering, "_compile_to_module_lines", written)
    torch._dynamo.reset()
    changes = {"memory_planning": True, "force_disable_caches": True}
    with torch._inductor.config.patch(changes), torch.no_grad(), pytest.raises(Exception, match="no kernels"):
        torch.compile(module, dynamic=False)(*args)
    rows = [found for found in map(ALLOCATED.search, codes[0].splitlines()) if found and found[1].startswith("pool")]
    sizes = {row[1]: bytes_of(row[2], row[3], getattr(torch, row[4]).itemsize) for row in rows}
    assert sorted(sizes.values()) == sorted(pool.bytes for pool in graph.pools)
    assert graph.pool_bytes == sum(sizes.values()) > 0
    inside = re.findall(r"(\w+) = alloc_from_pool\((pool\d+), (\d+),", codes[0])
    for name, pool, offset in inside:
        assert any(p.offsets.get(name) == int(offset) and p.bytes == sizes[pool] for p in graph.pools)
    assert inside


@pytest.mark.few(2)
@pytest.mark.parametrize(("net", "train"), RUNS)
def test_figures_are_bounds_of_one_another(net: str, train: bool) -> None:
    for graph in captured(net, train):
        assert graph.inference is not train
        assert graph.load <= graph.reuse_peak
        assert graph.pool_peak is not None
        assert (
            graph.load
            <= graph.pool_peak
            <= graph.pool_bytes + sum(block.bytes for block in graph.needed if block.source != "wrapper")
        )
        plan = graph.plan()
        assert set(plan.problem.names) == {block.name for block in graph.needed if block.source == "wrapper"}
        assert (plan.offsets % 64 == 0).all()
        assert graph.load <= graph.peak_with(plan)
        whole = graph.plan(kernels=True)
        assert whole.load <= graph.load
        if not any(block.source == "input" for block in graph.needed):
            assert whole.load == graph.load


@pytest.mark.slow
def test_graphs_of_a_run() -> None:
    assert [graph.name.split()[0] for graph in captured("mlp", False)] == ["inference"]
    assert [graph.name.split()[0] for graph in captured("mlp", True)] == ["forward", "backward"]
    assert [graph.name.split()[0] for graph in captured("graph break", False)] == ["inference"] * 2
    broken = captured("graph break", True)
    assert [graph.name.split()[0] for graph in broken] == ["forward", "forward", "backward", "backward"]
    assert broken[0].name != broken[1].name


def test_pools_that_torch_fails_to_make(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its planner recurses as deep as its pools are: with little stack left, that is what is said."""
    plan = memory_planning.MemoryPlanner.plan

    def with_little_stack(self: Any, lines: list[Any]) -> list[Any]:
        depth, frame = 0, sys._getframe()
        while frame is not None:
            depth, frame = depth + 1, frame.f_back  # type: ignore[assignment]
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(depth + 12)
        try:
            return plan(self, lines)
        finally:
            sys.setrecursionlimit(limit)

    monkeypatch.setattr(memory_planning.MemoryPlanner, "plan", with_little_stack)
    module, args = build("mlp")
    (graph,) = capture_inductor(module, args)
    assert graph.pools == []
    assert graph.pool_bytes is graph.pool_peak is None
    assert graph.pools_error
    assert graph.pools_error.startswith("RecursionError: ")
    assert "RecursionError" in str(graph)
    assert graph.load == captured("mlp", False)[0].load
    assert graph.reuse_peak == captured("mlp", False)[0].reuse_peak


@pytest.mark.slow
def test_what_is_really_allocated(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiled code, run: the profiler counts as many bytes at the worst moment as are said to be held."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    real_peaks = pytest.importorskip("real_peaks")
    module, args = build("mlp")
    (graph,) = captured("mlp", False)
    torch._dynamo.reset()
    compiled = torch.compile(module)
    with torch.no_grad():
        compiled(*args)
        assert real_peaks.allocated(lambda: compiled(*args)) == graph.reuse_peak


def test_a_module_is_as_it_was() -> None:
    module, args = nn.Sequential(nn.Linear(16, 8), nn.BatchNorm1d(8)), (torch.randn(4, 16),)
    module.register_buffer("unused", torch.ones(3))
    before = {name: value.clone() for name, value in module.state_dict().items()}
    argument, state = args[0].clone(), torch.get_rng_state()
    capture_inductor(module, args, train=True)
    after = module.state_dict()
    assert all(torch.equal(value, after[name]) for name, value in before.items())
    assert all(parameter.grad is None for parameter in module.parameters())
    assert torch.equal(args[0], argument)
    assert torch.equal(torch.get_rng_state(), state)


def test_a_function_with_keywords() -> None:
    def function(x: torch.Tensor, *, scale: torch.Tensor) -> torch.Tensor:
        return (x @ x * scale).softmax(-1) @ x

    (graph,) = capture_inductor(function, (torch.ones(8, 8),), kwargs={"scale": torch.ones(8)})
    assert graph.load == (2 * 8 * 8 + 2 * 8) * 4  # a product, its softmax, and the largest and the sum of each row


def test_what_was_compiled_before() -> None:
    module, args = build("mlp")
    (graph,) = capture_inductor(torch.compile(module), args)
    assert graph.needed == captured("mlp", False)[0].needed


def test_what_is_said() -> None:
    (graph,) = captured("mlp", False)
    for text in ("inference", "load", "torch.compile", "with pools", "x load"):
        assert text in str(graph)
    assert "InductorCapture" in repr(graph)


def test_the_load_of_what_is_placed_is_said_beside_that_of_all() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.sort(x.relu())[0] + 1  # which allocates its results itself

    (graph,) = capture_inductor(function, (torch.ones(64, 64),))
    lines = {line[:16].strip(): line[16:] for line in str(graph).splitlines()[1:]}
    assert graph.load == graph.whole.load > graph.problem.load == graph.plan().load
    for label, load in (("load of all", graph.load), ("to be placed", graph.problem.load), ("", graph.whole.load)):
        assert format_bytes(load) in lines[label]


# Errors


def test_another_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its version is what is wrong, also where it lacks a name that is imported."""
    monkeypatch.setitem(sys.modules, "torch._inductor.codegen.memory_planning", None)
    monkeypatch.delitem(sys.modules, "memplan.torch.inductor.compiled", raising=False)
    monkeypatch.setattr(torch, "__version__", "2.9.1")
    with pytest.raises(memplan.errors.UnsupportedError, match=r"as it is in torch 2\.13, 2\.14; this is torch 2\.9\.1"):
        capture_inductor(nn.ReLU(), (torch.ones(2),))


def test_no_compiler() -> None:
    changed = torch._inductor.config.patch({"cpp.cxx": (None, "no-such-compiler")})
    with (
        changed,
        pytest.raises(
            memplan.errors.MissingDependencyError, match=r"C\+\+ compiler.*: no-such-compiler; install g\+\+"
        ),
    ):
        capture_inductor(nn.ReLU(), (torch.ones(2),))


def test_no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "memplan.torch.inductor.compiled", raising=False)
    with pytest.raises(memplan.errors.MissingDependencyError, match=r"memplan\[torch\]"):
        capture_inductor(len)


def fails(x: torch.Tensor) -> torch.Tensor:
    return x @ torch.ones(3, 3)


@pytest.mark.parametrize(
    ("target", "args", "train", "message"),
    [
        (lambda x: x, (torch.ones(2),), False, "<lambda>: torch.compile made no graph of it"),
        (fails, (torch.ones(2, 2),), False, "fails: torch.compile fails: "),
        (torch.sin, (torch.ones(2),), True, "train=True needs an output that requires a gradient"),
        (nn.Linear(2, 2, device="meta"), (torch.ones(2),), False, r"weight must be on the CPU, got float32\[2, 2\]"),
        (nn.ReLU(), (torch.ones(2, device="meta"),), False, r"args.0 must be on the CPU, got float32\[2\] on meta"),
    ],
)
def test_what_cannot_be_compiled(target: Any, args: Any, train: bool, message: str) -> None:
    with pytest.raises(memplan.errors.SourceError, match=message):
        capture_inductor(target, args, train=train)


def test_control_flow_is_refused() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda y: (y @ y).sin(), lambda y: (y @ y).cos(), (x,))

    with pytest.raises(memplan.errors.UnsupportedError, match="nests wrappers"):
        capture_inductor(function, (torch.ones(4, 4),))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: capture_inductor("model.pt2"), "fn_or_module must be a function or a torch.nn.Module"),
        (lambda: capture_inductor(nn.ReLU), "fn_or_module must be a function or a torch.nn.Module"),
        (lambda: capture_inductor(nn.ReLU(), torch.ones(2)), r"args must be a tuple .* got Tensor"),
        (lambda: capture_inductor(nn.ReLU(), kwargs=[1]), "kwargs must be a mapping"),
    ],
)
def test_arguments_of_the_wrong_kind(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        call()
