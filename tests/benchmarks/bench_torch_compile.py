"""memplan beside torch.compile: the bytes that compiled networks really hold, and the buffers that Inductor schedules.

Run: ``pytest tests/benchmarks/bench_torch_compile.py [--docs] [-k "runs and vit"]``; torch 2.13 on the CPU, and a C++
compiler. `test_runs` compiles each network three times and runs it: kernels are compiled once, which takes minutes for
each, unless torch's cache (TORCHINDUCTOR_CACHE_DIR) has them. `test_buffers` compiles and runs no kernels.
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from networks import NETWORKS, network
from real_peaks import allocated
from reporting import mib, ratio, report_of_suite

import memplan

LEAST = 2**20  # bytes: graphs of a loss and the like are left out
ROUNDS = 5  # steps of each variant, in turn
VARIANTS: dict[str, dict[str, Any]] = {
    "default": {"backend": "inductor"},
    "pools": {"backend": "inductor", "options": {"memory_planning": True}},
    "memplan": {"backend": "memplan"},
}
RUNS = (
    *("model", "run", "default, MiB", "pools", "memplan", "memplan / default", "equal"),
    *("arenas", "default, ms", "memplan / default, time", "compile, s", "planning, s"),
)
BUFFERS = (
    *("model", "graph", "buffers", "and by kernels", "load, MiB", "default", "pools", "arena", "arena with kernels'"),
    *("placed load, MiB", "sum of blocks", "sum of pools", "tree", "arena alone"),
)
SECTIONS = {"torch.compile runs": RUNS, "torch.compile training": RUNS, "torch.compile": BUFFERS}
Tables = dict[str, list[list[str]]]
both = pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])


@pytest.fixture(scope="module")
def tables(request: pytest.FixtureRequest) -> Iterator[Tables]:
    """Rows by section; printed, and written where asked to, at the end."""
    rows: Tables = {}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore")
        yield rows
    for section, head in SECTIONS.items():
        if section in rows:
            rows[section].sort(key=lambda row: list(NETWORKS).index(row[0]))  # and in the order of runs
            report_of_suite(section, head, rows[section], request)


# What is really held


@pytest.mark.parametrize("name", NETWORKS)
@both
def test_runs(name: str, train: bool, tables: Tables) -> None:
    row = measured(name, train)
    tables.setdefault(f"torch.compile {'training' if train else 'runs'}", []).append(
        [
            *(name, "training" if train else "inference", mib(row["default"]), mib(row.get("pools"))),
            *(mib(row["memplan"]), ratio(row["memplan"], row["default"]), "yes" if row["equal"] else "no"),
            *(str(row["arenas"]), f"{row['seconds'] * 1000:,.1f}", f"{row['time']:.3f}"),
            *(f"{row['compiling']:.1f}", f"{row['planning']:.3f}"),
        ]
    )


def measured(name: str, train: bool) -> dict[str, Any]:
    """Bytes at the peak of torch's CPU allocator in one step, above those before it; and seconds of steps in turn.

    Inductor compiles anew each time, but for the kernels: what it takes is an upper bound for the share of planning.
    """
    import torch

    model, inputs = network(name, train=train)
    row: dict[str, Any] = {"equal": True}
    steps: dict[str, Callable[[], list[Any]]] = {}
    expected: list[Any] = []
    torch._dynamo.reset()
    memplan.torch.clear_compiled_plans()
    caches = torch._inductor.config.patch(fx_graph_cache=False)
    with caches, torch._functorch.config.patch(enable_autograd_cache=False):
        for variant, how in VARIANTS.items():
            if variant == "pools" and train:
                continue  # torch has them for inference only
            steps[variant] = step_of(model, inputs, train, how)
            with planning_seconds() as seconds:
                begin = time.perf_counter()
                found = steps[variant]()
                row["compiling"], row["planning"] = time.perf_counter() - begin, sum(seconds)
            expected = expected or found
            row["equal"] &= len(expected) == len(found) and all(map(torch.equal, expected, found))
            del found
            row[variant] = allocated(steps[variant])
        row["arenas"] = len(memplan.torch.compiled_plans())
        row["seconds"], row["time"] = paired(steps["default"], steps["memplan"])
    return row


def step_of(model: Any, inputs: dict[str, Any], train: bool, how: dict[str, Any]) -> Callable[[], list[Any]]:
    """A call, with its backward in training, that returns all tensors that come of it; random numbers as in others."""
    import torch
    from torch.utils._pytree import tree_leaves

    run = torch.compile(model, dynamic=False, **how)

    def step() -> list[Any]:
        torch.manual_seed(0)
        with torch.set_grad_enabled(train):
            result = run(**inputs, return_dict=False)
            if train:
                result[0].backward()
        gradients = [p.grad for p in model.parameters() if p.grad is not None] if train else []
        model.zero_grad()  # what a step begins with is the same each time: no gradients
        return [t.detach() for t in tree_leaves(result) if isinstance(t, torch.Tensor)] + gradients

    return step


@contextmanager
def planning_seconds() -> Iterator[list[float]]:
    """The seconds that memplan takes for each graph that is compiled."""
    from unittest import mock

    from memplan.torch.compiling import compiling

    seconds: list[float] = []
    rewritten = compiling.rewritten

    def timed(*args: Any) -> bool:
        begin = time.perf_counter()
        try:
            return rewritten(*args)
        finally:
            seconds.append(time.perf_counter() - begin)

    with mock.patch.object(compiling, "rewritten", timed):
        yield seconds


def paired(one: Callable[[], Any], other: Callable[[], Any]) -> tuple[float, float]:
    """The median seconds of a step, and the median of the ratios of the other's to it."""
    pairs = [(clocked(one), clocked(other)) for _ in range(ROUNDS)]
    return statistics.median(a for a, _ in pairs), statistics.median(b / a for a, b in pairs)


def clocked(step: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    step()
    return time.perf_counter() - begin


# The buffers that Inductor schedules


@both
@pytest.mark.parametrize("name", NETWORKS)
def test_buffers(name: str, train: bool, tables: Tables) -> None:
    model, inputs = network(name, train=train)
    try:
        graphs = memplan.torch.capture_inductor(model, kwargs=inputs, train=train)
    except (memplan.errors.SourceError, memplan.errors.UnsupportedError) as error:
        pytest.skip(str(error))
    tables.setdefault("torch.compile", []).extend(cells(name, g) for g in graphs if g.load >= LEAST)


def cells(name: str, graph: memplan.torch.InductorCapture) -> list[str]:
    """A row of the table: peaks over load."""
    plan, whole = graph.plan(), graph.plan(kernels=True)
    failed = (graph.pools_error or "").split(":")[0]
    load, placed = graph.load, plan.load
    blocks = sum(block.bytes for block in graph.held if block.source == "wrapper")
    return [
        *(name, graph.name.split()[0], str(len(plan)), str(len(graph.needed) - len(plan)), mib(load)),
        *(ratio(graph.reuse_peak, load), failed or ratio(graph.pool_peak, load)),
        *(ratio(graph.peak_with(plan), load), ratio(graph.peak_with(whole), load), mib(placed)),
        *(ratio(blocks, placed), failed or ratio(graph.pool_bytes, placed)),
        *(ratio(graph.plan("inductor_tree").peak, placed), ratio(plan.peak, placed)),
    ]
