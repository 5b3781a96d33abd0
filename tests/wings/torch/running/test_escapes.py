"""What leaves a run, or comes in its way, while kernels get their memory from an arena.

The same holds of `plan.run`, of code of `torch.compile(backend="memplan")`, and of steps that plan themselves.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

torch = pytest.importorskip("torch")
if sys.platform != "linux":
    pytest.skip("kernels are served on Linux only", allow_module_level=True)

import memplan  # noqa: E402
from memplan.torch.training.library import cpu  # noqa: E402

nn = torch.nn
Run = Callable[[Any], Any]
SIZES = (2, 4, 24, 24)


class Net(nn.Module):  # type: ignore[misc, name-defined]
    """Kernels that allocate what they return; one of them raises an error if it reads NaN."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList([nn.Conv2d(4, 4, 3, padding=1) for _ in range(3)])

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = x + layer(x).relu()
        rows = x.flatten(2)
        factor = torch.linalg.cholesky(rows @ rows.transpose(1, 2) + 1000 * torch.eye(4))
        beyond = x.sum().isnan().long() * 9  # plan.run asks no kernel whether it has failed, but for those that raise
        return x.tanh(), factor.gather(1, beyond.expand(2, 4, 4))


def batch(seed: int) -> Any:
    return torch.randn(SIZES, generator=torch.Generator().manual_seed(seed))


class Served:
    """A run that is served, and what it gives for batches 0, 1, 2 when it is not."""

    def __init__(self, run: Run, plain: Run) -> None:
        self.run = run
        with torch.no_grad():
            self._expected = [[y.clone() for y in plain(batch(seed))] for seed in range(3)]
            for _ in range(4):  # the first ones say what kernels allocate
                run(batch(0))

    def right(self, seed: int, found: Any = None) -> bool:
        found = self.run(batch(seed)) if found is None else found
        return len(found) == 2 and all(map(torch.equal, found, self._expected[seed]))


@pytest.fixture(scope="module")
def made(kernels_compiled_once: None) -> dict[str, Served]:
    module = Net().eval()
    plan = memplan.plan(module, args=(batch(0),), alignment=64)
    torch._dynamo.reset()
    by_torch = torch.compile(module, backend="inductor", dynamic=False)
    by_memplan = torch.compile(
        module, backend="memplan", dynamic=False, options={"pages": False}
    )  # else none is served
    step = memplan.torch.planned(lambda x: module(x), quiet=True)
    found = {
        "plan": Served(lambda x: plan.run(x).outputs, module),
        "compiled": Served(by_memplan, by_torch),
        "planned": Served(step, module),
    }
    report = step.report()
    assert report is not None
    assert report.served > 0
    return found


@pytest.fixture(params=["plan", "compiled", "planned"])
def served(request: pytest.FixtureRequest, made: dict[str, Served]) -> Iterator[Served]:
    with torch.no_grad():
        yield made[request.param]
    assert not cpu().busy


@pytest.mark.slow
def test_kernels_are_served(made: dict[str, Served]) -> None:
    assert any("scratch" in name for found in memplan.torch.compiled_plans() for name in found.plan.problem.names)


def test_views_that_are_kept(served: Served) -> None:
    kept = [[y[:, :2] for y in served.run(batch(seed))] for seed in range(3)]
    other = [torch.full((2 * 4 * 24 * 24,), 7.0) for _ in range(10)]
    for seed in range(3):
        assert all(torch.equal(y, z[:, :2]) for y, z in zip(kept[seed], served.run(batch(seed)), strict=True))
    assert all(bool((tensor == 7).all()) for tensor in other)


def test_results_that_grow(served: Served) -> None:
    """Or torch refuses: it cannot enlarge what has taken pages of an arena along."""
    results = []
    for tensor in served.run(batch(0)):
        with suppress(RuntimeError):
            results.append(tensor.resize_(4 * tensor.numel()).fill_(7))
    assert results
    assert served.right(1)
    assert served.right(2)
    assert all(bool((tensor == 7).all()) for tensor in results)


def test_a_kernel_that_raises(served: Served) -> None:
    with pytest.raises(RuntimeError, match=r"positive-definite|out of bounds"):
        served.run(torch.full(SIZES, float("nan")))
    assert not cpu().busy
    other = torch.full((100_000,), 7.0)
    assert served.right(1)
    assert bool((other == 7).all())


def test_threads_that_allocate_meanwhile(served: Served) -> None:
    wrong, done = list[float](), threading.Event()

    def work(value: float) -> None:
        while not done.is_set():
            made = [torch.full((2 * 4 * 24 * 24,), value) for _ in range(5)]
            wrong.extend(value for tensor in made if not bool((tensor == value).all()))

    threads = [threading.Thread(target=work, args=(float(value),)) for value in range(2)]
    for thread in threads:
        thread.start()
    right = [served.right(number % 3) for number in range(20)]
    done.set()
    for thread in threads:
        thread.join()
    assert all(right)
    assert not wrong


def test_threads_that_run_at_once(served: Served) -> None:
    wrong = list[int]()

    def work(seed: int) -> None:
        with torch.no_grad():
            wrong.extend(seed for _ in range(10) if not served.right(seed))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_process_that_forks(served: Served) -> None:
    """The child has arenas of its own."""
    kept = served.run(batch(0))
    child = os.fork()
    if not child:
        signal.alarm(60)
        right = served.right(1) and served.right(2) and served.right(0, kept)
        os._exit(0 if right else 1)
    assert served.right(2)
    assert os.waitpid(child, 0)[1] == 0
    assert served.right(0, kept)


class Batches(torch.utils.data.Dataset):  # type: ignore[misc, name-defined]
    """Batches 0, 1, 2, twice."""

    def __len__(self) -> int:
        return 6

    def __getitem__(self, number: int) -> Any:
        return batch(number % 3)


def test_a_loader_with_a_worker(served: Served) -> None:
    loader = torch.utils.data.DataLoader(Batches(), batch_size=None, num_workers=1)
    kept = [(x, served.run(x)) for x in loader]
    assert len(kept) == 6
    assert all(torch.equal(x, batch(number % 3)) for number, (x, _) in enumerate(kept))
    assert all(served.right(number % 3, results) for number, (_, results) in enumerate(kept))


@pytest.mark.parametrize("way", [pytest.param("compiled", marks=pytest.mark.slow), "planned"])
def test_what_hooks_keep(way: str, kernels_compiled_once: None) -> None:
    """Views of gradients, and a result inside of the network: later steps leave them as they were."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(4, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3))
    kept = list[tuple[Any, Any]]()

    def keep(tensor: Any) -> None:
        kept.append((tensor[1:], tensor[1:].clone()))

    def step(x: Any) -> None:
        module.zero_grad()
        loss(x).backward()

    for parameter in module.parameters():
        parameter.register_hook(keep)
    module[0].register_forward_hook(lambda _, __, result: keep(result.detach()))
    torch._dynamo.reset()

    def loss(x: Any) -> Any:
        return module(x).square().sum()

    if way == "planned":
        step = memplan.torch.planned(step, quiet=True)
    else:
        loss = torch.compile(loss, backend="memplan", dynamic=False)
    for number in range(6):
        step(batch(number % 3))
    assert len(kept) == 6 * 5
    assert all(map(torch.equal, *zip(*kept, strict=True)))
