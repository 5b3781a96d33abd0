"""The planner inductor_reuse against what torch.compile does, block for block.

torch plans by lines: a wrapper of kernel calls with lines that allocate, free, or take over a buffer in place. The
lines of real wrappers, and random ones, are planned by torch's own `memory_plan_reuse`; the same lives as a Problem are
planned here, and every block has to pass through the same hands. No kernel is compiled, but for one small test.

torch weighs the wait of a block against an estimate of memory by the scheduler's nodes, which is not what its lines
hold: it counts what is written in place beside what it is written over, inputs that could be freed, and buffers of a
group of kernels one kernel at a time. Here it is given the load of the lines; all else is torch as it is.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memplan
from builders.strategies import BOUNDED, columns

pytest.importorskip("torch")

import sympy
import torch._inductor.config
from torch import nn
from torch._inductor.codegen import wrapper
from torch._inductor.codegen.segmented_tree import SegmentedTree
from torch._inductor.utils import run_and_get_code
from torch._inductor.virtualized import V

from oracles.reference import Columns

RULES = ("always", "below_peak")
Takeovers = dict[str, str]  # who takes the block, and from whom
plan_lines = wrapper.PythonWrapperCodegen.memory_plan_reuse


class Line:
    """A line of a wrapper that is about memory, as far as planning looks at it."""

    def __init__(self, kind: str, name: str, node: int, size: int = 0, key: object = None, source: str = "") -> None:
        self.kind = kind  # "allocate", "free" or "in place"
        self.name = name
        self.node = node  # of the scheduler, in whose course it was written
        self.size = size
        self.key = key  # torch reuses among equal keys only
        self.source = source  # of what is taken over in place


@dataclass
class Wrapper:
    """Lines before planning, and what torch has made of them by each rule."""

    lines: list[Line]
    nodes: int  # of the scheduler
    made_at: dict[str, int]  # the node that makes a buffer
    takeovers: dict[str, Takeovers] = field(default_factory=dict)  # by rule


# Random lines, planned by torch's classes among stand-ins for its graph


def fake_graph(nodes: range, size: dict[str, int]) -> SimpleNamespace:
    scheduler = SimpleNamespace(
        nodes=nodes, current_node=None, get_buf_stream=lambda _: 0, get_buf_mempool=lambda _: None
    )
    return SimpleNamespace(
        scheduler=scheduler,
        removed_buffers=set(),
        unaligned_buffers=set(),
        get_allocation_storage_size=lambda node: size[node.get_name()],
        sizevars=SimpleNamespace(simplify=sympy.Integer, optimization_hint=max_of),
        _get_output_names=lambda outputs: [],
    )


def max_of(size: int, fallback: int) -> int:
    return max(size, fallback)


def fake_buffer(name: str) -> SimpleNamespace:
    return SimpleNamespace(
        name=name,
        layout=None,
        get_name=lambda: name,
        get_device_or_error=lambda: torch.device("cpu"),
        get_dtype=lambda: torch.uint8,
        get_inputs_that_alias_output=lambda: [],
    )


def takeovers_by_torch(problem: Columns, rule: str) -> Takeovers:
    """Lines in torch's order: a node's buffers are allocated, it runs, and what it was the last to read is freed."""
    size, first, last, _ = problem
    buffers = {i: fake_buffer(f"#{i}") for i in range(len(size)) if size[i]}
    nodes = range(min(first, default=0), max(last, default=0))
    graph = fake_graph(nodes, {f"#{i}": size[i] for i in buffers})
    loads = [sum(size[i] for i in buffers if first[i] <= t < last[i]) for t in nodes]
    codegen = SimpleNamespace(lines=[], get_graph_outputs=list, estimate_peak=estimate_of(loads))
    codegen.static_shape_for_buffer_or_none = lambda node: None
    with V.set_graph_handler(graph):
        for t in nodes:
            graph.scheduler.current_node = t
            codegen.lines += [wrapper.AllocateLine(codegen, b) for i, b in buffers.items() if first[i] == t]
            codegen.lines += [wrapper.FreeIfNotReusedLine(codegen, b) for i, b in buffers.items() if last[i] == t + 1]
        codegen.lines.append(wrapper.WrapperLine())  # lines about memory alone would be cut off at the end
        with torch_by(rule):
            plan_lines(codegen)
    return reused(codegen.lines)


def estimate_of(loads: list[int]) -> Any:
    """torch's record of memory by nodes, with these loads instead of its estimate."""
    estimate = wrapper.EfficientPeakEstimate.__new__(wrapper.EfficientPeakEstimate)
    estimate.overall_peak_memory = max(loads, default=0)
    estimate.segmented_tree = SegmentedTree([*loads, 0], int.__add__, max, 0)
    return estimate


def reused(lines: list[Any]) -> Takeovers:
    lines = [line for line in lines if isinstance(line, wrapper.ReuseLine)]
    return {line.reused_as.get_name(): line.node.get_name() for line in lines}


@contextlib.contextmanager
def torch_by(rule: str) -> Iterator[None]:
    """torch as it is, or without its look at the peak, as it was when the document was written."""
    with pytest.MonkeyPatch.context() as patch:
        if rule == "always":
            patch.setattr(wrapper.AllocateLine, "should_reuse_buffer", lambda *_: True)
        yield


def takeovers(plan: memplan.Plan) -> Takeovers:
    """Who takes over a block from whom, by the plan's offsets."""
    found: Takeovers = {}
    holder: dict[int, str] = {}
    for slot in sorted((slot for slot in plan if slot.bytes), key=lambda slot: slot.first):
        if slot.offset in holder:
            found[slot.name] = holder[slot.offset]
        holder[slot.offset] = slot.name
    return found


few_sizes = columns(max_buffers=30, alignments=(1,)).map(lambda c: ([4 * (s % 3) for s in c[0]], *c[1:]))


@pytest.mark.parametrize("rule", RULES)
@given(problem=st.one_of(columns(max_buffers=30, alignments=(1,)), few_sizes))
@BOUNDED
def test_random_lines(rule: str, problem: Columns) -> None:
    plan = memplan.plan(memplan.Problem(*problem), f"inductor_reuse:reuse={rule}")
    assert takeovers(plan) == takeovers_by_torch(problem, rule)


# Real wrappers


class Captured(Exception):
    """Raised once the lines are known, instead of compiling kernels."""


def record(codegen: Any) -> Wrapper:
    """The lines of a wrapper that is about to be planned, and its plans by each rule."""
    nodes = V.graph.scheduler.nodes
    made_at = {buffer.get_name(): n for n, node in enumerate(nodes) for buffer in node.get_outputs()}
    found = Wrapper(list(filter(None, map(line_of, codegen.lines))), len(nodes), made_at)
    loads = loads_of(found)
    unplanned = codegen.lines
    before = reused(unplanned)
    for rule in RULES:
        codegen.lines = [copy.copy(line) for line in unplanned]
        codegen.estimate_peak = estimate_of(loads)
        with torch_by(rule):
            plan_lines(codegen)
        found.takeovers[rule] = {to: source for to, source in reused(codegen.lines).items() if to not in before}
    return found


def loads_of(found: Wrapper) -> list[int]:
    """Per node of the scheduler, the most bytes alive at any of its lines."""
    lives, _ = lives_of(found)
    loads = []
    for node in range(found.nodes):
        steps = range(start_of_node(found, node), start_of_node(found, node + 1))
        loads.append(max((sum(b.size for b in lives.values() if b.first <= t < b.last) for t in steps), default=0))
    return loads


def line_of(line: Any) -> Line | None:
    if isinstance(line, wrapper.ReuseLine):
        return Line("in place", line.reused_as.get_name(), 0, source=line.node.get_name())
    if not isinstance(line, (wrapper.AllocateLine, wrapper.FreeIfNotReusedLine)):
        return None
    buffer = line.node
    if buffer.get_name() in V.graph.removed_buffers:
        return None
    if isinstance(line, wrapper.FreeIfNotReusedLine) and owns_nothing(buffer):
        return None
    kind = "allocate" if isinstance(line, wrapper.AllocateLine) else "free"
    size = int(V.graph.get_allocation_storage_size(buffer)) * buffer.get_dtype().itemsize
    return Line(kind, buffer.get_name(), line.scheduler_node_index, size, wrapper.buffer_reuse_key(buffer))


def owns_nothing(buffer: Any) -> bool:
    """Views and tuples are freed, but leave no block."""
    return bool(buffer.get_inputs_that_alias_output()) or isinstance(
        buffer.layout, torch._inductor.ir.MultiOutputLayout
    )


@dataclass
class Life:
    size: int
    key: object
    first: int
    last: int
    fresh: bool = False  # made by a kernel of its own accord: it takes over no block, but may leave one


def lives_of(found: Wrapper) -> tuple[dict[str, Life], dict[str, str]]:
    """Lives in steps of lines: line k is step 2 k + 1. What is taken over in place lives on, by its root."""
    lives: dict[str, Life] = {}
    root: dict[str, str] = {}
    end = 2 * len(found.lines) + 2
    for k, line in enumerate(found.lines):
        if line.kind == "in place":
            root[line.name] = root.get(line.source, line.source)
            continue
        name = root.get(line.name, line.name)
        if line.kind == "free":
            if name not in lives:
                birth = min(start_of_node(found, found.made_at[name]), 2 * k)
                lives[name] = Life(line.size, line.key, birth, end, fresh=True)
            lives[name].last = 2 * k + 1
        else:
            lives[name] = Life(line.size, line.key, 2 * k + 1, end)
    return lives, root


def start_of_node(found: Wrapper, node: int) -> int:
    lines = enumerate(found.lines)
    return next((2 * k for k, line in lines if line.kind != "in place" and line.node >= node), 2 * len(found.lines))


def conflicts_of(lives: dict[str, Life]) -> list[tuple[int, int]]:
    """Buffers of as many bytes that may not share: torch's keys differ, or the later one takes over nothing."""
    rows = list(lives.values())
    return [
        (a, b)
        for a, one in enumerate(rows)
        for b, other in enumerate(rows)
        if one.size == other.size and (one.key != other.key or (other.fresh and one.first < other.first)) and a != b
    ]


def plan_of(lives: dict[str, Life], rule: str) -> memplan.Plan:
    rows = lives.values()
    problem = memplan.Problem(
        [life.size for life in rows],
        [life.first for life in rows],
        [life.last for life in rows],
        names=list(lives),
        conflicts=conflicts_of(lives) or None,
    )
    return memplan.plan(problem, f"inductor_reuse:reuse={rule}")


@functools.cache
def wrappers(name: str) -> list[Wrapper]:
    """What torch.compile plans for a net, up to the moment when it would compile kernels."""
    found: list[Wrapper] = []

    def plan(codegen: Any) -> None:
        found.append(record(codegen))
        raise Captured

    torch.manual_seed(0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wrapper.PythonWrapperCodegen, "memory_plan_reuse", plan)
        try:
            NETS[name]()
        except Exception as error:
            if "Captured" not in repr(error):
                raise
    return found


def compile_and_run(function: Callable[..., Any], *args: Any) -> None:
    torch._dynamo.reset()
    with torch.no_grad():
        torch.compile(function, fullgraph=True)(*args)


def mlp() -> nn.Module:
    sizes = [16, 64, 64, 32, 64, 64, 8]
    layers = [layer for a, b in itertools.pairwise(sizes) for layer in (nn.Linear(a, b), nn.GELU())]
    return nn.Sequential(*layers).eval()


class Branches(nn.Module):
    """Convolutions whose results wait for one another, of two types."""

    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.ModuleList([nn.Conv2d(8, 8, 3, padding=1) for _ in range(5)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = []
        for conv in self.convs:
            x = torch.relu(conv(x))
            kept.append(x.argmax(1).cumsum(1))
            x = x.softmax(1).cumsum(2) + torch.sort(x, dim=3).values
        return x + sum(kept)[:, None]


def train_gpt2() -> None:
    """The gradients of the loss as one graph."""
    from torch.fx.experimental.proxy_tensor import make_fx

    from builders import models

    example = models.gpt2(layers=1)
    names = [n for n, _ in example.model.named_parameters()]

    def gradients(*values: torch.Tensor) -> list[torch.Tensor]:
        parameters = {n: v.requires_grad_() for n, v in zip(names, values, strict=True)}
        inputs = {**example.inputs, "return_dict": False}
        loss = torch.func.functional_call(example.model, parameters, (), inputs)[0]
        found = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True)
        return [gradient for gradient in found if gradient is not None]

    values = [p.detach() for p in example.model.parameters()]
    graph = make_fx(gradients)(*values)
    with torch.no_grad():
        torch._inductor.compile(graph, [v.detach() for v in values])


NETS: dict[str, Callable[[], None]] = {
    "mlp": lambda: compile_and_run(mlp(), torch.randn(4, 16)),
    "branches": lambda: compile_and_run(Branches().eval(), torch.randn(2, 8, 12, 12)),
    "gpt2 training": train_gpt2,
}


@pytest.fixture(scope="module", autouse=True)
def no_cache_of_torch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Every wrapper is made anew, and nothing is left behind."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path_factory.mktemp("inductor")))
        with torch._inductor.config.patch({"force_disable_caches": True}):
            yield


@pytest.mark.few(1)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("net", NETS)
def test_wrapper_of_a_net(net: str, rule: str) -> None:
    """The same blocks change hands in the same way, as many blocks are made, of as many bytes."""
    (found,) = wrappers(net)
    lives, root = lives_of(found)
    by_torch = {to: root.get(source, source) for to, source in found.takeovers[rule].items()}
    assert by_torch, "nothing to compare"
    plan = plan_of(lives, rule)
    assert takeovers(plan) == by_torch
    made = [life.size for name, life in lives.items() if name not in by_torch]
    assert plan.objects == len(made)
    assert plan.peak == sum(made)


@pytest.mark.slow
def test_below_the_peak_some_blocks_are_left_alone() -> None:
    """Or the two rules would not have been told apart."""
    counts = {rule: sum(len(wrappers(net)[0].takeovers[rule]) for net in NETS) for rule in RULES}
    assert counts["below_peak"] < counts["always"]


@pytest.mark.slow
def test_what_the_compiled_code_says() -> None:
    """The wrapper that really runs: `buf3 = buf0; del buf0  # reuse` are the takeovers, and those in place."""
    found: list[Wrapper] = []

    def plan(codegen: Any) -> None:
        unplanned = [copy.copy(line) for line in codegen.lines]
        found.append(record(codegen))
        codegen.lines = unplanned
        codegen.estimate_peak = wrapper.EfficientPeakEstimate()
        plan_lines(codegen)

    model = nn.Sequential(*(layer for _ in range(4) for layer in (nn.Linear(16, 16), nn.Softmax(-1)))).eval()
    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        patch.setattr(wrapper.PythonWrapperCodegen, "memory_plan_reuse", plan)
        _, (code,) = run_and_get_code(torch.compile(model), torch.randn(4, 16))
    lives, root = lives_of(found[0])
    takes = re.findall(r"(buf\d+) = (buf\d+); del \2  # reuse", code)
    by_code = {to: root.get(source, source) for to, source in takes if to not in root}
    for rule in RULES:  # nothing has to wait here
        plan_here = plan_of(lives, rule)
        assert takeovers(plan_here) == by_code
        assert plan_here.objects == len(re.findall(r"= empty_strided_cpu\(", code))
    assert by_code
