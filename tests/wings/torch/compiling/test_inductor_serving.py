"""Kernels of compiled code get memory from its arenas: results in their places, scratch in free bytes."""

from __future__ import annotations

import re
import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
if sys.platform != "linux":
    pytest.skip("kernels are served on Linux only", allow_module_level=True)

from torch._inductor.utils import run_and_get_code  # noqa: E402

import memplan  # noqa: E402
from memplan.torch.compiling import code as code_of_arenas  # noqa: E402
from memplan.torch.compiling import compiled as compiled_code  # noqa: E402
from memplan.torch.compiling import rewriting, scratch, serving  # noqa: E402
from memplan.torch.compiling.serving import OUTSIDE, kernel_of  # noqa: E402

pytestmark = pytest.mark.usefixtures("kernels_compiled_once", "nothing_compiled")
nn, functional = torch.nn, torch.nn.functional


class Net(nn.Module):  # type: ignore[misc, name-defined]
    """Convolutions, whose kernels return their results, and attention, whose kernel returns several."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Conv2d(8, 8, 3, padding=1) for _ in range(3)])

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = x + layer(x).relu()
        q = x.flatten(2)[:, None]
        return functional.scaled_dot_product_attention(q, q, q).sin().sum(-1), x


def net() -> tuple[Any, Any]:
    torch.manual_seed(0)
    return Net(), torch.randn(2, 8, 32, 32)


def compiled(module: Any, by: str = "memplan", **options: Any) -> Callable[..., Any]:
    torch._dynamo.reset()
    run: Callable[..., Any] = torch.compile(module, backend=by, dynamic=False, options=options or None)
    return run


def gradients(module: Any, run: Callable[..., Any], x: Any) -> list[Any]:
    module.zero_grad()
    result, kept = run(x)
    (result.square().sum() + kept.sum()).backward()
    return [result.detach(), kept.detach(), *(parameter.grad.clone() for parameter in module.parameters())]


def equal(one: list[Any], other: list[Any]) -> bool:
    return len(one) == len(other) and all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> tuple[Counter[str], list[int]]:
    """Where results of kernels were made, and the bytes that calls had from elsewhere."""
    seen, elsewhere = Counter[str](), list[int]()

    def served(name: str, results: Any, free: Any) -> Callable[..., Any]:
        kernel = kernel_of(name, results, free)

        def run(*given: Any, **named: Any) -> Any:
            found = kernel.run(*given, **named)
            elsewhere.append(kernel.elsewhere)
            for path, arena, offset, _ in results:
                place = given[2 * arena].data_ptr() + offset * given[2 * arena + 1] if arena != OUTSIDE else 0
                there = (found[path[0]] if path else found).data_ptr() == place
                seen["outside" if arena == OUTSIDE else "place" if there else "elsewhere"] += 1
            return found

        return run

    monkeypatch.setattr(serving, "served", served)
    return seen, elsewhere


@pytest.fixture
def made(watched: tuple[Counter[str], list[int]]) -> Counter[str]:
    """Where results of kernels were made: "place", "outside" as they should, or "elsewhere"."""
    return watched[0]


@pytest.fixture
def elsewhere(watched: tuple[Counter[str], list[int]]) -> list[int]:
    """Bytes that each call of a kernel had from elsewhere."""
    return watched[1]


def test_inference(made: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewriting, "_LITTLE", 1 << 16)  # one arena holds a little more than torch's code
    module, x = net()
    with torch.no_grad():
        expected = compiled(module, "inductor")(x)
        run = compiled(module, split=False, pages=False)
        results, (code,) = run_and_get_code(run, x)
        made.clear()
        again = run(x)
        assert made["place"] > 1
        assert made["elsewhere"] == 0
        run(torch.zeros_like(x))
        assert equal([*expected], [*results])
        assert equal([*expected], [*again])  # what is kept lies in no arena
    assert len(re.findall(r"= _memplan_kernel\d+\(arena", code)) == 4
    found = memplan.torch.compiled_plans()[-1]
    assert found.load <= found.planned <= found.load + found.plan.peak


@pytest.mark.slow
def test_scratch_is_planned(elsewhere: list[int]) -> None:
    module = nn.Sequential(*[layer for _ in range(3) for layer in (nn.Conv1d(16, 16, 3, padding="same"), nn.Tanh())])
    torch.manual_seed(1)
    x, before = torch.randn(4, 16, 4096), torch.get_rng_state()
    with torch.no_grad():
        run = compiled(module, pages=False)
        result = run(x)
        assert torch.equal(before, torch.get_rng_state())
        elsewhere.clear()
        assert torch.equal(run(x), result)
        assert torch.equal(compiled(module, "inductor")(x), result)
    found = memplan.torch.compiled_plans()
    scratch = [
        size
        for each in found
        for name, size in zip(each.plan.problem.names, each.plan.problem.size, strict=True)
        if "scratch" in name
    ]
    assert max(scratch) >= x.nbytes  # in a layout of its own
    inside, last = elsewhere  # but for less than a page, and for the result
    assert inside < 8192
    assert last < x.nbytes + 8192
    assert found[0].planned <= found[0].default


@pytest.mark.slow
def test_no_arena_is_too_small_for_scratch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results may come when scratch is gone. Then a call holds less than both, and an arena with both holds both."""
    by_memplan, seen = rewriting.scratch_of, list[Any]()

    def late(*args: Any) -> Any:
        found = by_memplan(*args)
        seen.extend(found.served)
        return replace(found, default=[replace(block, bytes=64) for block in found.default])

    monkeypatch.setattr(rewriting, "scratch_of", late)
    monkeypatch.setattr(rewriting, "_MORE", 0)
    monkeypatch.setattr(rewriting, "_LITTLE", 0)
    module, x = net()
    gradients(module, compiled(module, pages=False), x)
    needed = {block.bytes for block in seen}
    placed = [
        int(size)
        for found in memplan.torch.compiled_plans()
        for name, size in zip(found.plan.problem.names, found.plan.problem.size, strict=True)
        if "scratch" in name
    ]
    assert memplan.torch.compiled_plans()
    assert max(needed) > 4096
    assert needed.issuperset(placed)


@pytest.mark.parametrize("apart", [0, 100])
def test_scratch_side_by_side(apart: int) -> None:
    """Where 1,000 bytes are used at once, 2 of them are never offered, and some are lost in between."""
    tried = []

    def elsewhere(size: int) -> int:
        tried.append(size)
        return 2 if size >= 998 + apart else 1000 if size == 0 else 500

    assert scratch._side_by_side(elsewhere) == (1000 if apart == 0 else 1536)
    assert tried == [0, 2064, 1000, *([1536] if apart else [])]


def test_no_arena_where_torch_holds_less(monkeypatch: pytest.MonkeyPatch) -> None:
    module, x = net()
    monkeypatch.setattr(rewriting, "_LITTLE", 0)
    with torch.no_grad():
        _, (code,) = run_and_get_code(compiled(module, split=False, pages=False), x)
    assert memplan.torch.compiled_plans() == []
    assert "arena" not in re.sub("_memplan_loaded.*", "", code)


@pytest.mark.slow
def test_training(made: Counter[str]) -> None:
    module, x = net()
    expected = gradients(module, compiled(module, "inductor"), x)
    run = compiled(module, pages=False)
    for _ in range(3):
        made.clear()
        assert equal(gradients(module, run, x), expected)
    assert made["place"] > 0
    assert made["elsewhere"] == 0
    first, second = run(x), run(x + 1)  # two forwards before a backward
    second[0].sum().backward()
    assert torch.equal(first[0].detach(), expected[0])


@pytest.mark.slow
def test_sizes_may_change(made: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewriting, "_MORE", 10)  # one arena for all would not be taken
    module = nn.Sequential(*[layer for _ in range(3) for layer in (nn.Conv2d(8, 8, 3, padding=1), nn.Tanh())])
    run = torch.compile(module, backend="memplan", dynamic=True, options={"pages": False})
    with torch.no_grad():
        for rows in (3, 2, 6):
            x = torch.randn(rows, 8, 16, 16)
            assert torch.allclose(run(x), module(x), atol=1e-5)
    assert any(found.scale != "1" for found in memplan.torch.compiled_plans())
    assert made["place"] > 3


@pytest.mark.slow
def test_nothing_is_served_where_that_gains_nothing() -> None:
    """With pages of its own, what lies outside of arenas costs no fragmentation."""
    module, x = net()
    expected = gradients(module, compiled(module, "inductor"), x)
    run = compiled(module)
    (results, kept), codes = run_and_get_code(run, x)
    (results.square().sum() + kept.sum()).backward()
    assert torch.equal(results, expected[0])
    assert memplan.torch.compiled_plans()
    assert not any("_memplan_kernel" in code for code in codes)


@pytest.mark.slow
def test_kernels_are_served_where_that_gains_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    by_memplan = rewriting.scratch_of

    def costly(*args: Any) -> Any:
        found = by_memplan(*args)
        return replace(found, default=[replace(block, bytes=1 << 24) for block in found.default])

    layers = [layer for _ in range(3) for layer in (nn.Conv1d(16, 16, 3, padding="same"), nn.Tanh())]
    module, x = nn.Sequential(*layers), torch.randn(4, 16, 4096)
    with torch.no_grad():
        expected = compiled(module, "inductor")(x)
        _, (usual,) = run_and_get_code(compiled(module), x)
        monkeypatch.setattr(rewriting, "scratch_of", costly)
        torch._dynamo.reset()
        with torch._inductor.config.patch(force_disable_caches=True):
            result, (code,) = run_and_get_code(compiled(module), x)
    assert torch.equal(result, expected)
    assert "_memplan_kernel" in code
    assert "_memplan_kernel" not in usual


@pytest.mark.slow
def test_threads_and_a_planned_step() -> None:
    module, x = net()
    run = compiled(module, pages=False)
    with torch.no_grad():
        batches = [torch.randn_like(x) for _ in range(3)]
        expected = [[y.clone() for y in run(batch)] for batch in batches]
        planned = memplan.torch.planned(run, quiet=True)
        assert all(equal([*planned(batches[0])], expected[0]) for _ in range(6))
    wrong: list[int] = []

    def work(number: int) -> None:
        with torch.no_grad():
            for _ in range(30):
                if not equal([*run(batches[number])], expected[number]):
                    wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.few(1)
@pytest.mark.parametrize("way", ["option", "allocator"])
def test_without_it(way: str, made: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    module, x = net()
    options = {"pages": False, **({"serve": False} if way == "option" else {})}
    if way == "allocator":
        monkeypatch.setattr(code_of_arenas, "can_serve", lambda: False)
    with torch.no_grad():
        expected = compiled(module, "inductor")(x)
        results, (code,) = run_and_get_code(compiled(module, **options), x)
    assert equal([*results], [*expected])
    assert "_memplan_kernel" not in code
    assert made["place"] == 0


def test_code_that_is_loaded_twice_is_listed_once() -> None:
    module, x = net()
    with torch.no_grad():
        compiled(module)(x)
    found = memplan.torch.compiled_plans()
    graphs = list(compiled_code._loaded)
    for graph in graphs:
        compiled_code.loaded(graph.to_text())
    assert len(compiled_code._loaded) == 2 * len(graphs)
    assert [plan.name for plan in memplan.torch.compiled_plans()] == [plan.name for plan in found]
