"""Faults seeded into the core and the package, one at a time: is each of them found?

    python tests/seeding/mutants.py [--jobs 2] [--graphs 20000] [--only memories fit] [--sample 12 --seed 1]
                                    [--core build/libmemplan_core.a]

Takes a core that is built, or builds it, then for each fault of faults.py compiles the one changed file. In the
storage stage tests/cpp/random_run is to find it on graphs, where every plan is verified on its problem and replayed on
its graph. In the searches and the bounds it is test_search, where all that is kept is compared to a plain version,
test_pairs, where all placements are tried, or random_search, where what is claimed is held against the optimum. Other
faults are for tests in Python, most of which have an oracle: these run on a module that holds the fault. What finds a
fault has to pass without it. A fault that survives is a hole in the checks; the script then exits with 1. The table
says what each was found by, and after how many graphs or problems. Nothing in the working tree is changed.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from rich.console import Console
from rich.table import Table

from builders.paths import ROOT, TESTS
from seeding.faults import FAULTS, Fault
from seeding.source import CORE, PACKAGE, mutated

BINDINGS = ROOT / "cpp" / "bindings"


@dataclass(frozen=True)
class Check:
    """A test of tests/cpp, and how it is called; or a file of tests in Python."""

    test: str
    arguments: tuple[object, ...] = ()

    @property
    def in_python(self) -> bool:
        return self.test.endswith(".py")


def checks_of(graphs: int) -> dict[str, tuple[Check, ...]]:
    """What is to find the faults of a folder of the core: the cheapest first. The last row is for all others."""
    beyond_rectangles = (
        Check("random_search", (10_000, 1, "shapes", "auto")),
        Check("random_search", (10_000, 1, "conflicts", "auto")),
    )
    searches = (
        Check("test_search"),
        Check("test_ejection"),
        Check("test_pairs"),
        Check("test_bands"),
        Check("test_stacks"),
        Check("random_search", (100_000, 1, "valley")),
        *beyond_rectangles,
    )
    return {
        "search": searches,
        "auto": searches,
        "problem": (Check("test_pairs"), Check("test_bands"), *beyond_rectangles),
        "order": (Check("test_order"), Check("random_orders", (graphs,))),
        "graph": (Check("test_graph"), Check("random_run", (graphs, "graphs")), Check("random_orders", (graphs,))),
        "": (Check("random_run", (graphs, "graphs")),),
    }


def main() -> int:
    """Build, try every fault, print a table; 1 if one survives."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--graphs", type=int, default=20_000, help="random graphs per fault at most")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="faults tried at a time")
    parser.add_argument("--only", nargs="+", default=[""], metavar="TEXT", help="only in files whose path holds one")
    parser.add_argument("--sample", type=int, default=len(FAULTS), metavar="N", help="try only N of them")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--core", type=Path, help="the core as a static library, built from these sources file by file")
    options = parser.parse_args()
    faults = [fault for fault in FAULTS if any(text in file_of(fault) for text in options.only)]
    faults = random.Random(options.seed).sample(faults, min(options.sample, len(faults)))
    table = Table("fault", "file", "found by", "seconds")
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        core = options.core or build_core(Path(folder), options.jobs)
        trial = Trial(Path(folder), core, checks_of(options.graphs))
        checks = {check for fault in faults for check in trial.checks_for(fault)}
        list(pool.map(trial.compile_test, {check.test for check in checks if not check.in_python}))
        if any(check.in_python for check in checks):
            trial.compile_bindings()
        found = list(pool.map(trial.of, faults))
        finders = [outcome.check for outcome in found if outcome.check is not None]
        for failure in pool.map(trial.without_fault, dict.fromkeys(finders)):
            if failure:
                print(f"without any fault: {failure}", file=sys.stderr)
                return 1
    for fault, outcome in zip(faults, found, strict=True):
        table.add_row(fault.what, file_of(fault), outcome.finding or "[bold]NOTHING[/bold]", f"{outcome.seconds:.1f}")
    Console(width=140).print(table)
    print(f"{len(finders)} of {len(faults)} faults found")
    return 0 if len(finders) == len(faults) else 1


def build_core(folder: Path, jobs: int) -> Path:
    """The core as a static library."""
    run("cmake", "-S", ROOT, "-B", folder / "core", "-G", "Ninja")
    run("cmake", "--build", folder / "core", "--target", "memplan_core", "-j", jobs)
    return folder / "core" / "libmemplan_core.a"


@dataclass(frozen=True)
class Outcome:
    """What finds a fault, how, and the seconds it took; None where nothing does."""

    check: Check | None
    finding: str | None
    seconds: float


@dataclass(frozen=True)
class Trial:
    """Tests the core with one of its files changed, in a folder of its own."""

    folder: Path
    core: Path
    checks: dict[str, tuple[Check, ...]]

    def checks_for(self, fault: Fault) -> tuple[Check, ...]:
        if fault.found_by:
            in_cpp = fault.found_by.endswith(".cpp")
            return (Check(Path(fault.found_by).stem if in_cpp else fault.found_by),)
        return self.checks.get(file_of(fault).partition("/")[0], self.checks[""])

    def compile_test(self, test: str) -> None:
        compile_cpp(TESTS / "cpp" / f"{test}.cpp", self.object_of(test))

    def compile_bindings(self) -> None:
        """All files of the bindings as one, which is quicker; it is linked with each mutant."""
        together = self.folder / "bindings.cpp"
        together.write_text("".join(f'#include "{file}"\n' for file in sorted(BINDINGS.glob("*.cpp"))))
        includes = subprocess.run(
            [sys.executable, "-m", "pybind11", "--includes"], capture_output=True, text=True, check=True
        )
        flags = ("-O0", "-fvisibility=hidden", '-DMEMPLAN_VERSION="0"', *includes.stdout.split())
        compile_cpp(together, self.object_of("bindings"), BINDINGS, *flags)

    def without_fault(self, check: Check) -> str | None:
        """How the check fails as things are, if it does."""
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        if check.in_python:
            return self.found_in_python(check, "memplan._core", self.linked(folder))
        return self.finding(check, folder / check.test)

    def of(self, fault: Fault) -> Outcome:
        """What finds the fault."""
        start = time.perf_counter()
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        file, text = mutated(fault)
        mutant = folder / file.name
        mutant.write_text(text, encoding="utf-8")
        if file.suffix == ".cpp":
            compile_cpp(mutant, folder / "mutant.o", file.parent)
        outcome = Outcome(None, None, 0)
        for check in self.checks_for(fault):
            if finding := self.finding_of(check, fault, mutant):
                outcome = Outcome(check, finding, 0)
                break
        print(f"{fault.what}: {outcome.finding or 'NOTHING'}", file=sys.stderr, flush=True)
        return replace(outcome, seconds=time.perf_counter() - start)

    def finding_of(self, check: Check, fault: Fault, mutant: Path) -> str | None:
        """How a check fails on a mutant, if it does."""
        folder = mutant.parent
        if not check.in_python:
            return self.finding(check, folder / check.test, folder / "mutant.o")
        if mutant.suffix == ".py":
            return self.found_in_python(
                check, "memplan." + file_of(fault).removesuffix(".py").replace("/", "."), mutant
            )
        return self.found_in_python(check, "memplan._core", self.linked(folder, folder / "mutant.o"))

    def linked(self, folder: Path, *mutant: Path) -> Path:
        """The core as a module of Python, with the mutant in the place of its original."""
        module = folder / "_core.so"
        run("c++", "-shared", self.object_of("bindings"), *mutant, self.core, "-pthread", "-o", module)
        return module

    def found_in_python(self, check: Check, module: str, file: Path) -> str | None:
        """The first test of a file of tests that fails where a module comes from another file."""
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "seeding.mutated",
            "-p",
            "no:cacheprovider",
            "-xq",
            "-n0",
            "-rN",
        ]
        command += ["--tb=no", "--hypothesis-seed=0", f"tests/{check.test}"]
        environment = os.environ | {"MEMPLAN_MUTANT": f"{module}={file}", "PYTHONPATH": str(TESTS)}
        try:
            done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
        except subprocess.TimeoutExpired:
            return f"{check.test}, does not end"
        if done.returncode == 0:
            return None
        if done.returncode < 0:
            return f"{check.test}, signal {-done.returncode}"
        if done.returncode > 1:
            raise SystemExit(f"{check.test} did not run:\n{done.stdout}{done.stderr}")
        passed = re.search(r"(\d+) passed", done.stdout)
        return f"{check.test}, after {passed[1] if passed else 0} tests"

    def finding(self, check: Check, binary: Path, *mutant: Path) -> str | None:
        """The test, and after how much it failed, with the mutant in the place of its original."""
        run("c++", self.object_of(check.test), *mutant, self.core, "-pthread", "-o", binary)
        try:
            done = subprocess.run([binary, *map(str, check.arguments)], capture_output=True, text=True, timeout=120)
        except subprocess.TimeoutExpired:
            return f"{check.test}, does not end"
        if done.returncode == 0:
            return None
        tried = re.search(r"^\d+ (graphs|problems)", done.stdout, re.MULTILINE)
        return f"{check.test}, {tried[0]}" if tried else check.test

    def object_of(self, test: str) -> Path:
        return self.folder / f"{test}.o"


def file_of(fault: Fault) -> str:
    """The file that the fault changes, below cpp/src or python/memplan."""
    file, _ = mutated(fault)
    return str(file.relative_to(CORE if file.is_relative_to(CORE) else PACKAGE))


def compile_cpp(source: Path, target: Path, include: Path = CORE, *flags: str) -> None:
    folders = [f"-I{folder}" for folder in (ROOT / "cpp" / "include", CORE, include)]
    run("c++", "-std=c++20", "-O1", "-fPIC", *folders, *flags, "-c", source, "-o", target)


def run(*command: object) -> None:
    """Run a tool; its output is shown if it fails."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{command[0]} failed:\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    sys.exit(main())
