"""Allocators in C++, built at their first use; ``python -m memplan.torch.training.build`` builds the CPU's ahead."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from ...errors import MissingDependencyError, UnsupportedError
from ...files import replacing

SOURCES = Path(__file__).parent / "csrc"
CPU = SOURCES / "cpu.cpp"


def built(source: Path = CPU, *more: str) -> Path:
    """The shared library of a file in C++, which may include `csrc/`, built unless it was built before.

    ``more`` are flags for the compiler besides those that all files get.

    It lies where torch keeps extensions that are built on the fly: $TORCH_EXTENSIONS_DIR, or the user's cache.

    Raises
    ------
    MissingDependencyError
        No torch, or no C++ compiler.
    RuntimeError
        The compiler fails. The message has its command and its first errors.
    """
    try:
        import torch
    except ImportError as error:
        raise MissingDependencyError("this needs torch: pip install 'memplan[torch]'") from error
    if sys.platform == "win32":
        raise UnsupportedError("the allocators of memplan.torch were not tried on Windows")
    flags = [*_flags(Path(torch.__path__[0]), torch.compiled_with_cxx11_abi()), *more]
    compiler = shlex.split(os.environ.get("CXX") or "c++")
    if shutil.which(compiler[0]) is None:
        raise MissingDependencyError(
            f"this needs a C++20 compiler, and {compiler[0]!r} was not found: install g++ or clang++, or name one in "
            "the variable CXX"
        )
    library = _cache() / f"memplan_{source.stem}_{_key(source, torch.__version__, [*compiler, *flags])}.so"
    if not library.exists():
        library.parent.mkdir(parents=True, exist_ok=True)
        with replacing(library) as beside:
            _compile([*compiler, str(source), "-o", str(beside), *flags])
    return library


def _flags(torch: Path, new_abi: bool) -> list[str]:
    flags = [
        "-std=c++20",
        "-O2",
        "-shared",
        "-fPIC",
        "-fvisibility=hidden",
        f"-I{SOURCES}",
        f"-D_GLIBCXX_USE_CXX11_ABI={new_abi:d}",
    ]
    flags += ["-isystem", str(torch / "include"), f"-L{torch / 'lib'}", "-lc10", f"-Wl,-rpath,{torch / 'lib'}"]
    return [*flags, "-pthread"]


def _key(source: Path, version: str, command: list[str]) -> str:
    """What the library is made of: another of these, another library."""
    parts = [
        version,
        *command,
        *(path.read_text() for path in [*sorted({*SOURCES.glob("*.hpp"), *source.parent.glob("*.hpp")}), source]),
    ]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _cache() -> Path:
    named = os.environ.get("TORCH_EXTENSIONS_DIR")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "torch_extensions"


def _compile(command: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    if done.returncode != 0:
        lines = "\n".join(done.stderr.splitlines()[:20])
        raise RuntimeError(f"the C++ compiler failed:\n{shlex.join(command)}\n{lines}")


if __name__ == "__main__":
    print(built())
