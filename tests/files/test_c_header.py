"""Plans as C headers: they compile without a warning as C and C++, say what the plan says, and a program runs so."""

from __future__ import annotations

import math
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import memplan
from builders import graphs
from builders.commands import run
from builders.paths import ROOT

EXAMPLE = ROOT / "docs" / "c_example"
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wsign-conversion", "-Wshadow", "-Wundef", "-Werror"]
LANGUAGES = {
    "c": ["cc", "-std=c11"],
    "c99": ["cc", "-std=c99"],
    "c++": ["c++", "-std=c++17"],
    "c++11": ["c++", "-std=c++11"],
}
ODD = [
    "conv.1",
    "conv_1",
    "CONV-1",
    "größe/重み",
    "*/",
    "end\\",
    "??/",
    "a\nb",
    "__x__",
    "arena",
    "arena_2",
    "3d",
    "重",
]

needs_compiler = pytest.mark.skipif(not all(shutil.which(name) for name in ("cc", "c++")), reason="needs a compiler")


def compile_with(language: str, *arguments: object) -> None:
    command, *flags = LANGUAGES[language]
    found = subprocess.run([command, *flags, *WARNINGS, *map(str, arguments)], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr


def constants(path: Path) -> dict[str, int]:
    return {name: int(value) for name, value in re.findall(r"#define (\w+) (\d+)U", path.read_text(encoding="utf-8"))}


@pytest.fixture
def odd(tmp_path: Path) -> tuple[memplan.Plan, Path]:
    count = len(ODD)
    problem = memplan.Problem(range(1, count + 1), [0] * count, [1] * count, 8, ODD)
    plan = memplan.plan(problem)
    plan.to_c_header(tmp_path / "net.h")
    return plan, tmp_path / "net.h"


def test_a_constant_for_each_tensor_whatever_its_name(odd: tuple[memplan.Plan, Path]) -> None:
    plan, path = odd
    found = constants(path)
    assert found["NET_ARENA_BYTES"] == plan.peak
    assert found["NET_ARENA_ALIGNMENT"] == 8
    stems = [
        "CONV_1",
        "CONV_1_2",
        "CONV_1_3",
        "GR_SSE",
        "TENSOR",
        "END",
        "TENSOR_2",
        "A_B",
        "X",
        "ARENA_2",
        "ARENA_2_2",
    ]
    for slot, stem in zip(plan, [*stems, "3D", "TENSOR_3"], strict=True):
        assert (found[f"NET_{stem}_OFFSET"], found[f"NET_{stem}_BYTES"]) == (slot.offset, slot.bytes)
    assert len(found) == 2 + 2 * len(plan)


@needs_compiler
@pytest.mark.parametrize("language", LANGUAGES)
def test_it_compiles_without_a_warning(language: str, odd: tuple[memplan.Plan, Path], tmp_path: Path) -> None:
    own = {"c": "_Alignas(N)", "c99": "__attribute__((aligned(N)))"}
    alignas = own.get(language, "alignas(N)").replace("N", "NET_ARENA_ALIGNMENT")
    source = tmp_path / "main.c"
    source.write_text(
        f'#include "net.h"\n#include "net.h"\nextern unsigned char *begin(void);\n'
        f"{alignas} static unsigned char arena[NET_ARENA_BYTES];\n"
        "unsigned char *begin(void) { return arena + NET_CONV_1_OFFSET; }\n"
    )
    compile_with(language, "-x", language.rstrip("19"), "-fsyntax-only", source)


@needs_compiler
@pytest.mark.parametrize("language", ["c", "c99"])
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("_C_OFFSET 16U", "_C_OFFSET 17U", "C is not aligned"),
        ("_C_OFFSET 16U", "_C_OFFSET 24U", "C ends beyond the arena"),
        ("_C_OFFSET 16U", "_C_OFFSET 4294967288U", "C ends beyond the arena"),
        ("_C_BYTES 8U", "_C_BYTES 4294967280U", "C ends beyond the arena"),
        ("_ARENA_BYTES 24U", "_ARENA_BYTES 23U", "C ends beyond the arena"),
    ],
)
def test_what_a_hand_has_changed_does_not_compile(
    old: str, new: str, message: str, language: str, tmp_path: Path
) -> None:
    path = tmp_path / "net.h"
    memplan.plan(memplan.Problem([8, 8, 8], [0] * 3, [1] * 3, 8, ["a", "b", "c"]), "first_fit").to_c_header(path)
    compile_with("c", "-x", "c", "-fsyntax-only", path)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    named = message if language == "c" else "NET_C_ALIGNED" if "aligned" in message else "NET_C_FITS"
    with pytest.raises(AssertionError, match=named):
        compile_with(language, "-x", "c", "-fsyntax-only", path)


def test_views_lie_where_they_must_and_prefixes_are_chosen(tmp_path: Path) -> None:
    graph = graphs.graph(
        "a 8, v 4", graphs.op("make", "", "a", workspace=4), graphs.op("look", "a", "v", alias=["v a 2"]), outputs="v"
    )
    plan = memplan.plan(graph, alignment=4)
    for prefix, given in (("my_net", "my_net"), ("PLAN_2_NET", None)):
        path = tmp_path / "2-net.h"
        plan.to_c_header(path, prefix=given)
        found = constants(path)
        assert found[f"{prefix}_V_OFFSET"] == found[f"{prefix}_A_OFFSET"] + 2
        assert found[f"{prefix}_MAKE_WORKSPACE_OFFSET"] == plan["make.workspace"].offset
        if shutil.which("cc"):
            compile_with("c", "-x", "c", "-fsyntax-only", path)


@pytest.mark.parametrize("prefix", ["", "_x", "1x", "a-b", "größe", 3])
def test_a_prefix_that_is_no_name(prefix: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="prefix must be a name in C that begins with a letter, got"):
        memplan.plan(([4], [0], [1])).to_c_header(tmp_path / "net.h", prefix=prefix)
    assert not list(tmp_path.iterdir())


def test_an_alignment_that_c_does_not_have(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="aligned to a power of two; the plan's buffers need 24 bytes"):
        memplan.plan(memplan.Problem([4, 4], [0, 0], [1, 1], [8, 12])).to_c_header(tmp_path / "net.h")


@needs_compiler
def test_the_example_of_the_docs_runs(tmp_path: Path) -> None:
    assert run("plan", EXAMPLE / "network.json", "--alignment", "16", "--c-header", tmp_path / "network.h") == 0
    compile_with("c", f"-I{tmp_path}", EXAMPLE / "main.c", "-lm", "-o", tmp_path / "network")
    out = subprocess.run([tmp_path / "network"], check=True, capture_output=True, text=True).stdout
    hidden = np.maximum(weights(4, 8).T @ [1.0, -2.0, 3.0, 0.5], 0.0)
    shares = np.exp(weights(8, 3).T @ hidden)
    expected = " ".join(f"{share:.4f}" for share in shares / math.fsum(shares))
    assert out == f"{expected} in 44 bytes\n"


def weights(rows: int, columns: int) -> np.ndarray:
    i, j = np.indices((rows, columns))
    return ((i + 2 * j) % 5 - 2) / 4
