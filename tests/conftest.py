"""Set up before any test: what is slow is left out unless asked for, pictures are drawn without a screen.

What a shell starts in the background ignores interrupts, and so would all that is started from there.
"""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # else threads of several workers wait for each other, busily
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # a pool of processes that import torch takes longer
os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "0")  # a trial of the processor takes 10 s in each process
signal.signal(signal.SIGINT, signal.default_int_handler)

MOST_WORKERS = 8  # each imports torch
FIRST = (  # files that take longest
    "compiling/test_inductor_pages",  # which counts what lives in pages: others may leave code that lives on
    "drawing/test_page",
    "executorch/test_executorch_programs",
    "training/test_checkpoint",
    "compiling/test_inductor_budget",
    "inductor/test_inductor",
    "compiling/test_inductor",
    "planning/test_contract",
    "tests/test_cpp_package",  # if it has to compile
    "solving/test_searches",
    "cli/test_plan",
    "docs/estimate",
    "docs/fit",
    "inductor/test_torch",
)


CORE = ("core", "planners", "planning", "plans", "solving", "order")  # folders


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run the tests marked as slow too")


def pytest_configure(config: pytest.Config) -> None:
    settings.register_profile("quick", max_examples=20)
    settings.register_profile("slow", max_examples=200)
    settings.load_profile("slow" if config.getoption("--slow") else "quick")
    config.addinivalue_line("markers", "slow: takes long and finds what others would find too; run with --slow")
    config.addinivalue_line("markers", "few(n): of its cases, n run; with --slow all do")
    config.addinivalue_line("markers", "core: of problems, graphs and planners; needs no framework")
    config.addinivalue_line(
        "markers", "no_cover: not traced, which doubles the time of many examples; others reach the same lines"
    )


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """One file, or a few, run in this process: workers take longer to start."""
    few = config.args_source == config.ArgsSource.ARGS and len(config.args) <= 3
    if few and all(Path(argument.partition("::")[0]).suffix for argument in config.args):
        return 0
    return min(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1, MOST_WORKERS)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With ``-m core``, files that need a framework are not imported."""
    if config.option.markexpr != "core" or not collection_path.is_file():
        return None
    return None if collection_path.parent.name in CORE else True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The files that take longest come first, so that no worker is left with one of them at the end."""
    if not config.getoption("--slow"):
        left_out = {item for item in items if item.get_closest_marker("slow")} | _beyond_a_few(items)
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]
    for item in items:
        if item.path.parent.name in CORE and item.path.parents[1].name == "tests":
            item.add_marker("core")
    rank = {name: k for k, name in enumerate(FIRST)}
    items.sort(key=lambda item: rank.get("/".join(item.path.with_suffix("").parts[-2:]), len(rank)))


def _beyond_a_few(items: list[pytest.Item]) -> set[pytest.Item]:
    """The cases that a quick run leaves out. Steps of the golden ratio spread the others over all parameters."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("few"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    left_out: set[pytest.Item] = set()
    for own in cases.values():
        marker = own[0].get_closest_marker("few")
        order = sorted(range(len(own)), key=lambda k: k * 0.618034 % 1)
        left_out.update(own[k] for k in order[marker.args[0] if marker else 0 :])
    return left_out


@pytest.fixture(scope="module", autouse=True)
def _collections_are_of_this_file() -> None:
    """A full collection takes seconds where torch is loaded. What was there before a file is not looked at again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module")
def kernels_compiled_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """torch compiles a kernel once for the tests of all workers, but each graph anew. Nothing is left behind."""
    import torch._inductor.config

    of_all = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        of_all = of_all.parent
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(of_all / "inductor"))
        with torch._inductor.config.patch({"fx_graph_cache": False}):
            yield


@pytest.fixture
def nothing_compiled() -> Iterator[None]:
    """torch.compile has compiled nothing, and memplan has planned none of it."""
    import torch

    import memplan

    torch._dynamo.reset()
    memplan.torch.clear_compiled_plans()
    yield
    torch._dynamo.reset()
