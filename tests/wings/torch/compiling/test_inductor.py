"""torch.compile with the backend of memplan: results, plans, wrapper code, caches, and what is left to torch."""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
import re
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import memplan
from memplan.sizes import Budget, budget_of
from memplan.torch import private_compiler
from memplan.torch.compiling import backend, compiling, rewriting, trimming
from memplan.torch.compiling.compiled import loaded, loaded_since, times_loaded
from memplan.torch.compiling.forward_outputs import Step
from memplan.torch.compiling.settings import Settings

pytest.importorskip("torch")

import torch
import torch._inductor.config
from torch import nn
from torch._dynamo.backends.registry import lookup_backend
from torch._dynamo.utils import counters
from torch._inductor.codegen import wrapper
from torch._inductor.utils import run_and_get_code
from torch._inductor.virtualized import V

pytestmark = pytest.mark.usefixtures("kernels_compiled_once", "nothing_compiled")
functional = nn.functional


def net() -> tuple[nn.Module, torch.Tensor]:
    """Few kernels, for each takes a second to compile; rows of one width, so that two share their code."""
    torch.manual_seed(0)
    sizes = [16, 64, 64, 64, 64]
    layers = [layer for a, b in itertools.pairwise(sizes) for layer in (nn.Linear(a, b), nn.Softmax(-1))]
    return nn.Sequential(*layers), torch.randn(4, 16)


def compiled(model: Callable[..., Any], by: Any = backend, **options: Any) -> Callable[..., Any]:
    return torch.compile(model, backend=by, dynamic=False, options=options or None)


def gradients(model: nn.Module, run: Callable[..., Any], x: torch.Tensor) -> list[torch.Tensor]:
    model.zero_grad()
    result = run(x)
    result.square().sum().backward()
    return [
        result.detach(),
        *(parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None),
    ]


def equal(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    return len(one) == len(other) and all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@functools.cache
def by_inductor() -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Its result, and its gradients."""
    model, x = net()
    run = compiled(model, "inductor")
    with torch.no_grad():
        result = run(x)
    return result, gradients(model, run, x)


def test_the_name_of_the_backend() -> None:
    """An editable install from before this entry point lacks it: ``pip install -e .`` again."""
    assert lookup_backend("memplan") is backend


def test_inference() -> None:
    model, x = net()
    with torch.no_grad():
        result, (code,) = run_and_get_code(compiled(model, split=False), x)
    assert torch.equal(result, by_inductor()[0])
    (found,) = memplan.torch.compiled_plans()
    assert found.name.startswith("inference")
    assert found.device == "cpu"
    found.plan.verify()
    assert found.load <= found.planned <= found.load + found.plan.peak
    assert found.load <= found.default
    assert found.outside == 1  # the result
    assert code.count("empty_strided_cpu(") == 2  # the arena, the result
    for slot in found.plan:
        assert slot.offset % 64 == 0
        assert re.search(rf"{slot.name} = reinterpret_tensor\(arena0_float32, .*, {slot.offset // 4}\)", code)


def test_training() -> None:
    model, x = net()
    assert equal(gradients(model, compiled(model), x), by_inductor()[1])
    kinds = [found.name.split()[0] for found in memplan.torch.compiled_plans()]
    assert set(kinds) == {"forward", "backward"}
    assert kinds == sorted(kinds, reverse=True)


@pytest.mark.slow
def test_two_forwards_before_their_backwards() -> None:
    model, x = net()
    run = compiled(model)
    expected = gradients(model, run, x)
    model.zero_grad()
    first, second = run(x), run(2 * x)
    second.sum().backward()
    model.zero_grad()
    first.square().sum().backward()
    assert equal([first.detach(), *(p.grad for p in model.parameters() if p.grad is not None)], expected)


@pytest.mark.slow
def test_threads() -> None:
    model, x = net()
    run = compiled(model)
    with torch.no_grad():
        expected = [run(k * x) for k in range(4)]
        wrong: list[int] = []

        def work(k: int) -> None:
            with torch.no_grad():
                wrong.extend(k for _ in range(50) if not torch.equal(run(k * x), expected[k]))

        threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


def test_nothing_is_held_between_calls() -> None:
    """But for what is returned, which is no part of an arena."""
    model, x = net()
    run = compiled(model)
    with torch.no_grad():
        result = run(x)
    assert result.untyped_storage().nbytes() == result.nbytes


def test_outputs_in_the_arena() -> None:
    model, x = net()
    with torch.no_grad():
        result = compiled(model, place=["intermediate", "output"])(x)
    (found,) = memplan.torch.compiled_plans()
    assert torch.equal(result, by_inductor()[0])
    assert found.outside == 0
    assert found.plan.peak <= result.untyped_storage().nbytes() == found.planned < found.plan.peak + 64
    torch._dynamo.reset()
    assert equal(gradients(model, compiled(model, place=["intermediate", "output"]), x), by_inductor()[1])


def test_planner_and_alignment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewriting, "_LITTLE", 1 << 16)  # such an arena holds a little more than torch's code
    model, x = net()
    with torch.no_grad():
        compiled(model, planner="naive", alignment=4096, split=False)(x)
    (found,) = memplan.torch.compiled_plans()
    assert found.plan.planner == "naive"
    assert found.plan.peak >= found.plan.naive
    assert (found.plan.offsets % 4096 == 0).all()


def test_arenas_that_hold_more_are_not_made() -> None:
    model, x = net()
    with torch.no_grad():
        _, (code,) = run_and_get_code(compiled(model, planner="naive", alignment=4096, split=False), x)
    assert "arena0" not in code
    assert not memplan.torch.compiled_plans()


def test_options_of_inductor_and_modes() -> None:
    """They go on to Inductor: its own check of numbers is in the code."""
    model, x = net()
    with torch.no_grad():
        _, (code,) = run_and_get_code(compiled(model, nan_asserts=True), x)
    assert "isnan" in code
    assert memplan.torch.compiled_plans()
    assert compiling.options_of_mode("max-autotune-no-cudagraphs")["max_autotune"] is True
    assert not compiling.options_of_mode("default")


@pytest.mark.slow
def test_other_backends_are_as_before() -> None:
    model, x = net()
    with torch.no_grad():
        compiled(model)(x)
        torch._dynamo.reset()
        _, (code,) = run_and_get_code(compiled(model, "inductor"), x)
    assert "arena" not in code


@pytest.mark.slow
@pytest.mark.parametrize("train", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["inference", "training"])
def test_symbolic_sizes(train: bool) -> None:
    """One plan for all sizes: its offsets are multiplied with the number of rows."""
    model = nn.Sequential(nn.Linear(16, 64), nn.Softmax(-1), nn.Linear(64, 64), nn.Softmax(-1))
    run = torch.compile(model, backend=backend, dynamic=True, options={"split": False})
    by_torch = torch.compile(model, backend="inductor", dynamic=True)
    with torch.set_grad_enabled(train):
        for rows in (12, 5, 64, 3):
            batch = torch.arange(16.0 * rows).view(rows, 16).sin()
            if train:
                assert equal(gradients(model, run, batch), gradients(model, by_torch, batch))
            else:
                assert torch.equal(run(batch), by_torch(batch))
    forward, *backward = memplan.torch.compiled_plans()
    assert re.fullmatch(r"s\d+", forward.scale)
    assert forward.plan.peak * 12 <= forward.planned <= forward.load + (forward.plan.peak + 64) * 12
    assert bool(backward) is train


# Caches


@pytest.mark.slow
def test_caches_keep_planners_and_options_apart() -> None:
    model, x = net()
    expected = by_inductor()[0]

    def compile_with(by: Any = backend, **options: Any) -> tuple[int, int]:
        """Hits and misses of torch's cache of graphs, or of that of autograd's graphs before it."""
        torch._dynamo.reset()
        counters.clear()
        with torch.no_grad(), torch._inductor.config.patch(fx_graph_cache=True):
            assert torch.equal(compiled(model, by, **options)(x), expected)
        return tuple(  # type: ignore[return-value]
            counters["inductor"][f"fxgraph_cache_{what}"] + counters["aot_autograd"][f"autograd_cache_{what}"]
            for what in ("hit", "miss")
        )

    kinds: list[dict[str, Any]] = [
        {"by": "inductor"},
        {"split": False},
        {"planner": "naive", "split": False},
        {"alignment": 128, "split": False},
        {"place": ["intermediate", "output"], "split": False},
        {"split": True},
    ]
    for options in kinds:
        hits, misses = compile_with(**options)
        assert hits == 0, options
        assert misses > 0, options
    planners = [found.plan.planner for found in memplan.torch.compiled_plans()]
    assert planners[:4] == ["auto", "naive", "auto", "auto"]
    memplan.torch.clear_compiled_plans()
    for options in kinds:
        hits, misses = compile_with(**options)
        assert hits > 0, options
        assert misses == 0, options
    assert planners == [found.plan.planner for found in memplan.torch.compiled_plans()]


IN_A_NEW_PROCESS = """
import torch, memplan
from torch._dynamo.utils import counters
torch._inductor.config.cpp.simdlen = 1
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Softmax(-1), torch.nn.Linear(64, 8))
x = torch.randn(4, 16)
run = torch.compile(model, backend="memplan", dynamic=False)
run(x).square().sum().backward()
print(counters["aot_autograd"]["autograd_cache_hit"], counters["inductor"]["fxgraph_cache_miss"])
print([(found.name, found.plan.offsets.tolist()) for found in memplan.torch.compiled_plans()])
print(model[0].weight.grad.double().sum().item())
"""


@pytest.mark.slow
def test_a_new_process_finds_code_and_plans(tmp_path: Path) -> None:
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-W", "ignore", "-c", IN_A_NEW_PROCESS]
    printed = [
        subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.splitlines()
        for _ in range(2)
    ]
    assert [lines[0] for lines in printed] == ["0 2", "1 0"]  # hits and misses
    assert printed[0][1:] == printed[1][1:]
    assert "forward" in printed[0][1]
    assert "backward" in printed[0][1]


# What is left to torch


def test_graphs_that_are_alike_are_listed_once_and_their_arenas_told_apart() -> None:
    """As those of equal layers that are compiled one by one, without a cache."""
    model, x = net()
    with torch.no_grad():
        compiled(model, split=False)(x)
    (found,) = memplan.torch.compiled_plans()
    (graph,) = loaded_since(times_loaded() - 1)
    loaded(replace(graph, name="inference 77").to_text())
    assert memplan.torch.compiled_plans() == [found]
    loaded(replace(graph, name="inference 78", arenas=graph.arenas * 2).to_text())
    first, *others = map(repr, memplan.torch.compiled_plans())
    assert "'inference 78' on cpu, arena 2 of 2, <memplan.Plan" in others[-1]
    assert ", arena" not in first


SILENT = """
import torch, memplan
from memplan.torch.compiling.found import backend  # as torch imports it
run = torch.compile(torch.nn.LSTM(4, 4), backend=backend)
for _ in range(2):
    run(torch.zeros(2, 1, 4))
print("ran")
assert not memplan.torch.compiled_plans()
"""


@pytest.mark.slow
def test_a_model_of_which_dynamo_compiles_nothing_is_not_passed_over() -> None:
    run = subprocess.run([sys.executable, "-c", SILENT], capture_output=True, text=True, check=True)
    lines = [line for line in run.stderr.splitlines() if "no graph to the backend" in line]
    assert len(lines) == 1
    assert "so far: Attempted to wrap RNN, GRU, or LSTM. Explanation: Dynamo does not support" in lines[0]


def test_malloc_gives_back_once_what_compiling_has_left(monkeypatch: pytest.MonkeyPatch) -> None:
    trims = []
    monkeypatch.setattr(ctypes, "CDLL", lambda _: SimpleNamespace(malloc_trim=trims.append))
    model, x = net()
    run = compiled(model)
    gradients(model, run, x)
    assert trims == []  # forward and backward have run once: torch may still compile
    for _ in range(3):
        gradients(model, run, x)
    assert trims == [0]
    other, x = net()
    for _ in range(3):
        compiled(other)(x)
    assert trims == [0]  # the same code, which was loaded before
    monkeypatch.setattr(ctypes, "CDLL", lambda _: SimpleNamespace())  # another C library
    trimming.loaded()
    trimming.called()
    trimming.called()


@pytest.mark.slow
def test_control_flow(caplog: pytest.LogCaptureFixture) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda y: (y @ y).sin(), lambda y: (y @ y).cos(), (x @ x,)).sin()

    x = torch.ones(4, 4)
    with torch.no_grad():
        result = compiled(function)(x)
    assert torch.allclose(result, (x @ x @ x @ x).sin().sin())
    (message,) = [message for message in caplog.messages if "is left to torch" in message]
    assert "is left to torch: torch.compile nests wrappers (control flow)" in message


@pytest.mark.parametrize("budget", [None, budget_of("90%", "budget")])
def test_what_is_left_to_torch_is_said_once(
    budget: Budget | None, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forward and backward each, however often they are tried."""
    monkeypatch.setattr(compiling, "rewritten", refuse)
    said: set[tuple[str, str]] = set()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for number in range(6):
            with V.set_graph_handler(SimpleNamespace(is_backward=number % 2, graph_id=number)):
                assert not compiling._plan(None, False, Settings(budget=budget), Step(), said, refuse)
    warned = [str(warning.message).partition(":")[0] for warning in caught]
    logged = [message.partition(":")[0] for message in caplog.messages if "is left to torch" in message]
    expected = ["forward 0 is left to torch", "backward 1 is left to torch"]
    assert (warned, logged) == (([], expected) if budget is None else (expected, []))


def refuse(*_: Any) -> Any:
    raise memplan.errors.UnsupportedError("it is unlike others")


def test_a_wrapper_in_cpp(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """No more than its lines are made here, for its code takes long to compile."""
    model, x = net()
    monkeypatch.setattr(torch._inductor.graph.GraphLowering, "_compile_to_module_lines", stop)
    with torch.no_grad(), pytest.raises(Exception, match="no code"):
        compiled(model, cpp_wrapper=True)(x)
    assert "is left to torch: its wrapper is a CppWrapperCpu" in caplog.text


def test_other_processes(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    torch_compiles: Any = compiling.compile_fx
    monkeypatch.setattr(torch_compiles, "fx_compile_mode", torch_compiles.FxCompileMode.SUBPROCESS)
    monkeypatch.setattr(torch_compiles, "compile_fx", lambda *args, **kwargs: kwargs)
    assert backend(None, [], options={"nan_asserts": True}) == {"config_patches": {"nan_asserts": True}}
    assert "left to torch: other processes compile them" in caplog.text


@pytest.mark.parametrize("name", private_compiler.CONTEXTS)
def test_streams_and_pools_of_cuda(name: str) -> None:
    codegen: Any = object.__new__(wrapper.PythonWrapperCodegen)
    codegen.lines = [object.__new__(type(name, (wrapper.WrapperLine,), {}))]
    with (
        V.set_graph_handler(SimpleNamespace(device_types={"cuda"})),
        pytest.raises(memplan.errors.UnsupportedError, match=private_compiler.CONTEXTS[name]),
    ):
        rewriting._check(codegen)


def test_graphs_of_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    codegen: Any = object.__new__(wrapper.PythonWrapperCodegen)
    codegen.lines = []
    with V.set_graph_handler(SimpleNamespace(device_types={"cuda"})):
        rewriting._check(codegen)
        with torch._inductor.config.patch({"triton.cudagraphs": True}), pytest.raises(memplan.errors.UnsupportedError):
            rewriting._check(codegen)


def stop(*_: Any) -> Any:
    raise RuntimeError("no code")


@pytest.mark.parametrize("error", [memplan.InfeasibleError("no plan fits"), RuntimeError("broken")])
def test_errors_of_the_planner(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = net()

    def fail(*_: Any, **__: Any) -> Any:
        raise error

    monkeypatch.setattr("memplan.torch.compiling.arenas.planned", fail)
    with torch.no_grad(), pytest.warns(RuntimeWarning, match=rf"is left to torch, .*{error}"):
        result = compiled(model)(x)
    assert torch.equal(result, by_inductor()[0])
    assert not memplan.torch.compiled_plans()


# What is refused


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"plannr": "auto"},
            r"options of the backend memplan are planner, place, alignment, split, serve, pages, order, .*'plannr'",
        ),
        ({"planner": "no such"}, "planner must be one of"),
        ({"planner": 3}, "planner must be a name"),
        ({"planner": "beam:k=x"}, "k"),
        ({"place": "intermediate"}, "place must be a list"),
        ({"place": ["weight"]}, "place must hold kinds among intermediate, output, got 'weight'"),
        ({"place": []}, "place must hold kinds"),
        ({"alignment": 8}, "alignment must be >= 16"),
        ({"alignment": 48}, "alignment must be a power of two"),
        ({"split": 1}, "split must be True or False"),
        ({"serve": "no"}, "serve must be True or False"),
        ({"pages": 0}, "pages must be True or False"),
    ],
)
def test_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        backend(None, [], options=options)


def test_another_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", "2.9.1")
    with pytest.raises(memplan.errors.UnsupportedError, match=r"in torch 2\.13, 2\.14; this is torch 2\.9\.1"):
        backend(None, [])


def test_no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(memplan.errors.MissingDependencyError, match=r"memplan\[torch\]"):
        backend(None, [])
