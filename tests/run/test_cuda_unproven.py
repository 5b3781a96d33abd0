"""Memory of GPUs, without a GPU: torch is told that it has CUDA, and CUDA's runtime is a stand-in on the CPU."""

from __future__ import annotations

import ctypes
import gc
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import memplan  # noqa: E402
from builders.paths import TESTS  # noqa: E402
from memplan.run import cuda_unproven  # noqa: E402
from memplan.run.cuda_unproven import _SOURCE, _runtime  # noqa: E402
from memplan.run.eager import build  # noqa: E402
from memplan.run.eager.library import installed as libraries  # noqa: E402

KiB, MiB = 2**10, 2**20
SIDE = 7  # a stream


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stand-in. A name of its own for each run of the tests: a library is loaded once."""
    path: Path = tmp_path_factory.mktemp("cuda") / "libcudart.so.12"
    source = TESTS / "run" / "stub_cudart.cpp"
    subprocess.run(["c++", "-std=c++20", "-O1", "-shared", "-fPIC", str(source), "-o", str(path)], check=True)
    return path


class Allocator:
    """What torch makes of a library: it keeps the addresses of functions, and calls them."""

    def __init__(self, path: str, allocate: str, free: str) -> None:
        library = ctypes.PyDLL(path)
        self.allocate, self.release = library[allocate], library[free]
        self.allocate.restype = ctypes.c_void_p
        self.allocate.argtypes = [ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
        self.release.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]

    def allocator(self) -> Any:
        return self

    def set_record_stream_fn(self, address: int) -> None:
        self.record_stream = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(address)

    def set_reset_fn(self, address: int) -> None:
        self.empty = ctypes.CFUNCTYPE(None)(address)


class Gpu:
    """Tensors on the stand-in, of the current stream unless told otherwise."""

    def __init__(self, allocator: Allocator, stub: ctypes.CDLL) -> None:
        self.allocator, self.stub = allocator, stub
        self.stream = self.device = 0
        stub.stub_held.restype = ctypes.c_size_t
        stub.stub_limit.argtypes = [ctypes.c_size_t]

    def tensor(self, size: int, stream: int | None = None) -> int:
        address = self.allocator.allocate(size, self.device, self.stream if stream is None else stream)
        ctypes.memset(address, 0xA5, size)
        return int(address)

    def free(self, *addresses: int) -> None:
        for address in addresses:
            self.allocator.release(address, 0, self.device, self.stream)


@pytest.fixture(scope="module")
def installed(runtime: Path) -> Iterator[Gpu]:
    with pytest.MonkeyPatch.context() as patch:
        made: list[Allocator] = []
        place: dict[str, int] = {"device": 0, "stream": 0}
        patch.setattr(torch.version, "cuda", "12.8")
        patch.setattr(torch.cuda, "is_initialized", lambda: False)
        patch.setattr(torch.cuda, "current_device", lambda: place["device"])
        patch.setattr(torch.cuda, "current_stream", lambda: SimpleNamespace(cuda_stream=place["stream"]))
        patch.setattr(torch.cuda.memory, "CUDAPluggableAllocator", Allocator)
        patch.setattr(torch.cuda.memory, "change_current_allocator", made.append)
        patch.setattr(cuda_unproven, "_runtime", lambda version: str(runtime))
        cuda_unproven.install()
        cuda_unproven.install()  # does nothing more
        (allocator,) = made
        found = Gpu(allocator, ctypes.CDLL(str(runtime)))
        found.place = place  # type: ignore[attr-defined]
        yield found
        gc.collect()
        assert libraries.pop("cuda").arenas() == 0


@pytest.fixture
def cuda(installed: Gpu) -> Iterator[Gpu]:
    """Nothing is in use before and after a test."""
    installed.place.update(device=0, stream=0)  # type: ignore[attr-defined]
    yield installed
    gc.collect()
    installed.stub.stub_limit(2**62)
    installed.stub.stub_finish()
    installed.allocator.empty()
    found = cuda_unproven.memory(reset_peaks=True)
    assert (found.reserved, found.allocated, found.waiting, installed.stub.stub_held()) == (0, 0, 0, 0)


def step(cuda: Gpu, last: int = 3000) -> None:
    a, b = cuda.tensor(MiB), cuda.tensor(2 * MiB)
    cuda.free(a)
    c = cuda.tensor(last)
    cuda.free(b, c)


def planned(cuda: Gpu) -> memplan.Plan:
    with memplan.record(device="cuda") as tape:
        step(cuda)
    assert tape.device == "cuda"
    return memplan.plan(tape)


def test_a_step_is_recorded_planned_and_served(cuda: Gpu) -> None:
    kept = cuda.tensor(5)  # a weight
    step(cuda)
    plan = planned(cuda)
    assert set((plan.offsets % 512).tolist()) == {0}
    assert plan.peak == 3 * MiB
    before = cuda_unproven.memory(reset_peaks=True)
    arena = memplan.run.arena(plan)
    for _ in range(3):
        with arena:
            step(cuda)
    report = arena.report()
    assert (report.steps, report.served, report.missed, report.outside) == (3, 9, 0, 0)
    after = cuda_unproven.memory()
    assert before.reserved == 2 * MiB + 20 * MiB
    assert (after.arenas, after.reserved) == (3 * MiB, 2 * MiB + 3 * MiB)  # what the cache kept went back
    assert after.allocated == 512
    del arena
    assert cuda_unproven.memory().arenas == 0
    cuda.free(kept)


def test_a_step_that_differs_comes_from_the_cache(cuda: Gpu) -> None:
    arena = memplan.run.arena(planned(cuda), stacks=True)
    with arena:
        step(cuda, last=5 * MiB)
    found = arena.report().divergence
    assert found is not None
    assert (found.allocation, found.expected, found.got) == (2, 3000, 5 * MiB)
    assert any("in step" in call or call.endswith(" step") for call in found.stack)
    assert cuda_unproven.memory().allocated_peak >= 5 * MiB


def test_only_the_stream_of_the_step_is_served(cuda: Gpu) -> None:
    with memplan.record(device="cuda") as tape:
        cuda.free(cuda.tensor(100), cuda.tensor(200, SIDE))
    assert tape.size.tolist() == [100]
    arena = memplan.run.arena(memplan.plan(tape))
    with arena:
        cuda.free(cuda.tensor(100), cuda.tensor(200, SIDE))
    assert (arena.report().served, arena.report().missed) == (1, 0)


def test_memory_that_another_stream_uses_waits(cuda: Gpu) -> None:
    a = cuda.tensor(100)
    cuda.allocator.record_stream(a, SIDE)
    cuda.free(a)
    b = cuda.tensor(100)
    assert (a != b, cuda_unproven.memory().waiting) == (True, 1)
    cuda.stub.stub_finish()
    c = cuda.tensor(100)
    assert (c == a, cuda_unproven.memory().waiting) == (True, 0)
    cuda.free(b, c)


def test_an_arena_is_of_its_device(cuda: Gpu) -> None:
    arena = memplan.run.arena(planned(cuda))
    cuda.place["device"] = 1  # type: ignore[attr-defined]
    with pytest.raises(RuntimeError, match="the arena is on cuda:0, and the step is on cuda:1"):
        arena.__enter__()
    cuda.place["device"] = 0  # type: ignore[attr-defined]
    cuda.place["stream"] = SIDE  # type: ignore[attr-defined]
    with arena:  # another stream, which waits for the first
        cuda.free(cuda.tensor(MiB, SIDE))
    assert arena.report().served == 1


def test_a_gpu_that_fails_leaves_the_recorder_free(cuda: Gpu) -> None:
    planned(cuda)
    cuda.place["stream"] = SIDE  # type: ignore[attr-defined]
    cuda.stub.stub_break(1)
    try:
        with pytest.raises(RuntimeError, match="CUDA fails: cudaDeviceSynchronize: an error"):
            memplan.record(device="cuda").__enter__()
    finally:
        cuda.stub.stub_break(0)
    with memplan.record(device="cuda") as tape:
        cuda.free(cuda.tensor(100, SIDE))
    assert tape.size.tolist() == [100]


def test_plans_of_several_devices_have_no_arena(cuda: Gpu) -> None:
    with memplan.record() as tape:
        torch.empty(10)
    with pytest.raises(ValueError, match=r"must be for one device, got \{'a': 'cuda', 'b': 'cpu'\}"):
        memplan.run.arena({"a": planned(cuda), "b": memplan.plan(tape)})
    with pytest.raises(ValueError, match="device must be 'cpu' or 'cuda', got 'xpu'"), memplan.record(device="xpu"):
        pass


def test_memory_runs_out_as_torch_has_it(cuda: Gpu) -> None:
    """The library throws, which only torch can catch; what Python asks for is an error."""
    plan = planned(cuda)
    cuda.allocator.empty()
    cuda.stub.stub_limit(2 * MiB)
    with pytest.raises(MemoryError, match="an arena of 3145728 bytes cannot be made: CUDA out of memory"):
        memplan.run.arena(plan)


def test_too_late_or_without_cuda(monkeypatch: pytest.MonkeyPatch, runtime: Path) -> None:
    monkeypatch.delitem(libraries, "cuda", raising=False)
    for ask in (cuda_unproven.memory, lambda: memplan.record(device="cuda").__enter__()):
        with pytest.raises(RuntimeError, match=r"call memplan.run.cuda_unproven.install\(\) at the beginning"):
            ask()
    monkeypatch.setattr(torch.version, "cuda", None)
    with pytest.raises(memplan.UnsupportedError, match="needs a torch that is built with CUDA, got torch 2"):
        cuda_unproven.install()
    monkeypatch.setattr(torch.version, "cuda", "12.8")
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    with pytest.raises(RuntimeError, match="is too late: CUDA has begun"):
        cuda_unproven.install()


def test_a_torch_that_lacks_something(monkeypatch: pytest.MonkeyPatch, installed: Gpu, runtime: Path) -> None:
    monkeypatch.delitem(libraries, "cuda", raising=False)
    monkeypatch.delattr(Allocator, "set_reset_fn")
    with pytest.raises(memplan.UnsupportedError, match="needs set_reset_fn of torch's pluggable allocator"):
        cuda_unproven.install()
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(memplan.MissingDependencyError, match="'no-such-compiler' was not found"):
        cuda_unproven.install()


def test_without_a_runtime(tmp_path: Path) -> None:
    library = tmp_path / "another.so"  # as the first one has its runtime
    library.write_bytes(build.built(_SOURCE).read_bytes())
    with pytest.raises(memplan.UnsupportedError, match=r"needs CUDA's runtime, a shared library: .*no-such\.so"):
        cuda_unproven.CudaLibrary(library, "no-such.so", lambda: (0, 0))
    with pytest.raises(memplan.UnsupportedError, match=r"libc\.so\.6 has no function cudaMalloc"):
        cuda_unproven.CudaLibrary(library, "libc.so.6", lambda: (0, 0))


def test_the_runtime_is_the_one_that_torch_has(tmp_path: Path) -> None:
    maps = tmp_path / "maps"
    maps.write_text("7f00-7f01 r-xp 00000000 08:01 42    /opt/nvidia/lib/libcudart.so.12\n7f02 r--p 0 0 0 [heap]\n")
    assert _runtime("12.8", maps) == "/opt/nvidia/lib/libcudart.so.12"
    maps.write_text("")
    assert _runtime("13.0", maps) == "libcudart.so.13"
    assert _runtime("13.0", tmp_path / "none") == "libcudart.so.13"
