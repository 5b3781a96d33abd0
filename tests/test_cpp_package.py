"""The C++ package: installed by CMake, found by find_package, and the example of the docs compiled and run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from builders.paths import ROOT

# One translation unit, not optimised: a fifth of the time.
QUICKLY = ("-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_UNITY_BUILD=ON", "-DCMAKE_UNITY_BUILD_BATCH_SIZE=0")
EXAMPLE = ROOT / "docs" / "cpp_example"


def cmake(*arguments: object) -> None:
    subprocess.run(["cmake", *map(str, arguments)], check=True, capture_output=True, text=True)


def compiled(scratch: Path) -> Path:
    """A core that `pip install` has compiled in the checkout, unless a source is newer; else one compiled here.

    Where MEMPLAN_CORE names the folder of a core, it is that one.
    """
    if "MEMPLAN_CORE" in os.environ:
        return Path(os.environ["MEMPLAN_CORE"])
    newest = max(path.stat().st_mtime for path in (ROOT / "CMakeLists.txt", *(ROOT / "cpp").rglob("*.?pp")))
    for core in ROOT.glob("build/*/libmemplan_core.a"):
        if core.stat().st_mtime > newest:
            return core.parent
    cmake("-S", ROOT, "-B", scratch / "core", "-G", "Ninja", *QUICKLY)
    cmake("--build", scratch / "core")
    return scratch / "core"


def program() -> str:
    """The example of the docs, and in its end all else that the page shows in C++."""
    main, *more = re.findall(r"```cpp\n(.*?)```", (ROOT / "docs" / "cpp.md").read_text(), re.DOTALL)
    return main.rstrip().removesuffix("}") + "".join(more) + "}\n"


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    scratch = tmp_path_factory.mktemp("cpp")
    cmake("--install", compiled(scratch), "--prefix", scratch / "prefix", "--component", "core")
    shutil.copytree(EXAMPLE, scratch / "source")
    (scratch / "source" / "main.cpp").write_text(program())
    cmake(
        "-S", scratch / "source", "-B", scratch / "example", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={scratch / 'prefix'}"
    )
    cmake("--build", scratch / "example")
    return scratch / "example" / "example"


def test_the_example_of_the_docs_runs(example: Path) -> None:
    result = subprocess.run([example], check=True, capture_output=True, text=True)
    assert result.stdout.splitlines() == [
        "0 4096 0 peak 5120 optimal",
        "3 at least 3",
        "0 moved, at least 0 have to",
        "0 moved, price 0",
        "136 bytes, 1 changes",
        "buffer 1 lies in dram, cost 1024",
        "5632 bytes for both, at least 5632",
        "2560 bytes, at batch 2 640",
        "#0 #1 do not fit together",
    ]


@pytest.mark.parametrize("name", ["main.cpp", "CMakeLists.txt"])
def test_the_docs_show_the_example_as_it_is(name: str) -> None:
    text = (ROOT / "docs" / "cpp.md").read_text()
    assert (EXAMPLE / name).read_text() in text
    assert "prints `0 4096 0 peak 5120 optimal`" in text
