"""What compiled code allocates has pages of its own: they go back to the system, whatever became of the tensors."""

from __future__ import annotations

import gc
import itertools
import mmap
import os
import random
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
if sys.platform != "linux":
    pytest.skip("pages of their own are there on Linux only", allow_module_level=True)

from torch._inductor.utils import run_and_get_code  # noqa: E402
from torch.profiler import ProfilerActivity, profile  # noqa: E402

import memplan  # noqa: E402
from memplan.torch.compiling import paging  # noqa: E402
from memplan.torch.training.library import CpuLibrary, cpu  # noqa: E402

pytestmark = pytest.mark.usefixtures("kernels_compiled_once", "nothing_compiled")
SIDE = 1024  # of a matrix, 4 MiB
BYTES = 4 * SIDE * SIDE


@pytest.fixture
def library() -> Iterator[CpuLibrary]:
    """The allocator; at the end, no more is alive in pages than at the beginning."""
    found = cpu()
    gc.collect()
    before = found.paged()[0]
    found.give_back()
    yield found
    gc.collect()
    assert found.paged()[0] == before


@contextmanager
def paged(library: CpuLibrary) -> Iterator[None]:
    """This thread wants pages."""
    library.want_pages(1)
    try:
        yield
    finally:
        library.want_pages(-1)


def alive(library: CpuLibrary) -> int:
    """Bytes in use in pages. What is not in use goes back, or code that is not compiled would get it."""
    gc.collect()  # a call that compiles may leave its results in a cycle
    library.give_back()
    assert library.paged()[1] == 0
    return library.paged()[0]


def compiled(function: Callable[..., Any], by: str = "memplan", **options: Any) -> Callable[..., Any]:
    torch._dynamo.reset()
    run: Callable[..., Any] = torch.compile(function, backend=by, dynamic=False, options=options or None)
    return run


def twice(x: Any) -> Any:
    """Two results, and buffers between."""
    y = x @ x
    return (y.sin() @ x).cos(), y + 1


def matrix() -> Any:
    torch.manual_seed(0)
    return torch.randn(SIDE, SIDE) / SIDE**0.5


def test_results_are_equal_and_alone_stay(library: CpuLibrary) -> None:
    x, before = matrix(), alive(library)
    with torch.no_grad():
        expected = compiled(twice, "inductor")(x)
        run = compiled(twice)
        for _ in range(3):
            results = run(x)
    assert all(map(torch.equal, results, expected))
    assert alive(library) == before + 2 * BYTES
    assert all(result.data_ptr() % mmap.PAGESIZE == 0 for result in results)
    del results
    assert alive(library) == before
    torch.empty(SIDE, SIDE)  # what is not compiled is torch's
    assert alive(library) == before


@pytest.mark.slow
def test_training_gives_back_what_forward_saves(library: CpuLibrary) -> None:
    x, weight = matrix(), matrix().requires_grad_()
    gradients = []
    for by in ("inductor", "memplan"):
        run = compiled(lambda x: (x @ weight).sin().exp().square().mean(), by)
        before = alive(library)
        for _ in range(3):
            weight.grad = None
            loss = run(x)
            saved = alive(library) - before
            loss.backward()
        gradients.append(weight.grad.numpy().copy())
        assert (saved > 0) == (by == "memplan")
        weight.grad = None
        assert alive(library) == before
    assert (gradients[0] == gradients[1]).all()


def test_what_outlives_its_tensor(library: CpuLibrary) -> None:
    """Views of numpy, storages that are resized, and threads that free."""
    x = matrix()
    with torch.no_grad():
        run = compiled(twice)
        first, second = run(x)
        library.give_back()
        kept, array = first.clone(), first.numpy()
        del first
        run(-x)
        assert torch.equal(torch.from_numpy(array), kept)
        row = second[0].clone()
        second.resize_(2 * SIDE, SIDE)
        assert torch.equal(second[0], row)
        second.untyped_storage().resize_(0)
        results = [run(x)]
        thread = threading.Thread(target=results.clear)
        thread.start()
        thread.join()


@pytest.mark.slow
def test_threads_and_forks(library: CpuLibrary) -> None:
    x = matrix()
    with torch.no_grad():
        run = compiled(twice)
        expected = [each.clone() for each in run(x)]
        wrong: list[int] = []

        def work(number: int) -> None:
            with torch.no_grad():
                wrong.extend(number for _ in range(5) if not all(map(torch.equal, run(x), expected)))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        results = run(x)
        child = os.fork()
        if child == 0:
            same = torch.equal(results[0][0], expected[0][0])
            with paged(library):
                torch.empty(SIDE, SIDE)
            del results
            os._exit(0 if same else 1)
        for thread in threads:
            thread.join()
        assert os.waitpid(child, 0)[1] == 0
    assert not wrong


def test_a_call_that_raises_leaves_torch_as_it_was(library: CpuLibrary) -> None:
    inside = []

    def fail() -> None:
        made = torch.empty(SIDE, SIDE)
        inside.append(alive(library))
        raise ZeroDivisionError(made.shape)

    before = alive(library)
    with pytest.raises(ZeroDivisionError):
        paging.in_pages(fail)()
    assert inside == [before + BYTES]
    gc.collect()
    library.give_back()
    beside = torch.empty(SIDE, SIDE)
    assert alive(library) == before
    del beside


def test_what_torch_frees_by_its_allocator(library: CpuLibrary) -> None:
    """oneDNN's tensors are freed by whichever allocator torch has then, without a word of who made them."""
    assert paging.in_pages(twice) is not twice
    before = alive(library)
    with paged(library):
        blocked = matrix().to_mkldnn()
    assert alive(library) > before
    assert torch.equal(blocked.to_dense(), matrix())


def test_what_is_kept_serves_whoever_comes(library: CpuLibrary) -> None:
    """Pages of a call go to the next one, and to code that is not compiled: at no time are there more."""
    x = matrix()
    with torch.no_grad():
        run = compiled(twice)
        for _ in range(3):
            expected = [each.clone() for each in run(x)]
        _, kept, most = library.paged()
        assert 0 < kept <= most
        held = library.paged()[0]
        again = torch.empty(SIDE, SIDE).fill_(1)
        assert library.paged()[:2] == (held + BYTES, kept - BYTES)
        results = run(x)
        assert bool((again == 1).all())
        assert all(map(torch.equal, results, expected))
        larger = torch.empty(16, SIDE, SIDE)  # more than twice what was in use: what is kept goes back in its place
        assert library.paged()[1] == 0
        del larger


def test_what_runs_between_calls_gets_pages_too(library: CpuLibrary) -> None:
    """As much as was in use once, and as much again: a step of graph breaks takes no new pages each time."""
    x = matrix()
    with torch.no_grad():
        run = compiled(twice)
        library.give_back()
        results = run(x)
        most = library.paged()[2]
        between = torch.empty(most - library.paged()[0], dtype=torch.uint8)
        more = torch.empty(BYTES, dtype=torch.uint8)  # nothing is kept any more
        assert library.paged() == (most + BYTES, 0, most + BYTES)
        del results, between, more


def test_what_goes_back_leaves_the_process(library: CpuLibrary) -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * mmap.PAGESIZE

    size = 2**25 + 12_288
    before = resident()
    with paged(library):
        first, second = torch.ones(size, dtype=torch.uint8), torch.ones(size, dtype=torch.uint8)
        assert resident() > before + 1.9 * size
        del first
        assert resident() > before + 1.9 * size  # kept
        library.give_back()
        assert resident() < before + 1.1 * size
        assert bool((second == 1).all())


def test_no_more_is_held_than_was_in_use(library: CpuLibrary) -> None:
    """Random sizes, in random order: bytes stay as they were written, and what is free is bounded."""
    rng, spare = random.Random(0), 2**18  # in one call
    held: list[Any] = []
    with paged(library):
        for number in range(3000):
            if held and (len(held) > 12 or rng.random() < 0.5):
                tensor, value = held.pop(rng.randrange(len(held)))
                assert tensor[0] == tensor[-1] == tensor[len(tensor) // 2] == value
                del tensor
            else:
                size = rng.choice([65_536, 100_000, 300_000, 2**21, 5_000_000, 9_000_000])
                held.append((torch.empty(size, dtype=torch.uint8).fill_(number % 251), number % 251))
            alive, kept, most = library.paged()
            assert alive + kept <= most + spare
            assert alive >= sum(tensor.nbytes for tensor, _ in held)
        begins = sorted((tensor.data_ptr(), tensor.nbytes) for tensor, _ in held)
        assert all(at + size <= after for (at, size), (after, _) in itertools.pairwise(begins))
    assert library.paged()[1] <= 2**26


@pytest.mark.slow
def test_within_a_planned_step(library: CpuLibrary) -> None:
    x = matrix()
    with torch.no_grad():
        run = compiled(twice)
        expected = [each.clone() for each in run(x)]
        planned = memplan.torch.planned(lambda x: run(x)[0].sum(), quiet=True)
        for _ in range(6):
            total = planned(x)
        before = alive(library)
        assert torch.equal(planned(x), total)
        assert torch.equal(total, expected[0].sum())
        assert planned.report().missed == 0
        assert library.paged()[2] == before  # at most
        assert alive(library) == before


def test_torchs_profiler_counts_them() -> None:
    x = matrix()
    with torch.no_grad():
        run = compiled(twice)
        run(x)
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
            run(x)
    moved = [event.nbytes() for event in seen.profiler.kineto_results.events() if event.name() == "[memory]"]
    assert sum(moved) == 0
    assert max(moved) >= BYTES


@pytest.mark.few(1)
@pytest.mark.parametrize("way", ["option", "allocator"])
def test_without_it(way: str, library: CpuLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    if way == "allocator":
        monkeypatch.setattr(paging, "_installed", lambda: None)
    x, before = matrix(), alive(library)
    with torch.no_grad():
        run = compiled(twice, **({"pages": False} if way == "option" else {}))
        results, (code,) = run_and_get_code(run, x)
    assert alive(library) == before
    assert ("in_pages" in code) == (way == "allocator")
    assert all(map(torch.equal, results, compiled(twice, "inductor")(x)))
