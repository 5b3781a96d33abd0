"""The shape of the core: data flows one way, and what includes what says so. That of the package: test_package.py."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from builders.paths import ROOT

INCLUDE = ROOT / "cpp" / "include" / "memplan"
SOURCE = ROOT / "cpp" / "src"

# The floors of the core, from the ground: a file includes files of its own room and of the floors below.
FLOORS = (
    "base",
    "problem",
    "graph",
    "storage",
    "placing",
    "caching",
    "search",
    "search/pairs",
    "search/valley",
    "search/stacks",
    "search/wheel",
    "search/orders",
    "search/ejection",
    "planners",
    "auto",
    "registry",
    "order",
    "checks",
    "solve",
    "methods",
    "ranges",
    "pools",
    "pricing",
    "keep",
    "fit",
    "split",
)
HEADERS_ALONE = {  # public headers without a source of their name
    "units": "base",
    "errors": "base",
    "limits": "base",
    "layout": "problem",
    "plan_options": "problem",
    "order_info": "order",
    "caching": "caching",
}


def sources() -> list[Path]:
    return sorted([*INCLUDE.glob("*.hpp"), *SOURCE.rglob("*.hpp"), *SOURCE.rglob("*.cpp")])


def concept(path: Path) -> str:
    """A public header and its source share the header's name; what is private goes by its folder too."""
    if (INCLUDE / f"{path.stem}.hpp").exists():
        return path.stem
    return path.relative_to(SOURCE).with_suffix("").as_posix()


def included(path: Path) -> set[str]:
    """The project's headers that a file includes, as concepts."""
    names = re.findall(r'^\s*#\s*include\s*"([^"]+)\.hpp"', path.read_text(), re.MULTILINE)
    return {name.removeprefix("memplan/") for name in names}


def floor(name: str) -> int:
    """Of a header: that of its folder; a public one lives where its source does."""
    if "/" not in name:
        found = [path.parent.relative_to(SOURCE).as_posix() for path in SOURCE.rglob(f"{name}.cpp")]
        room = HEADERS_ALONE[name] if name in HEADERS_ALONE else next(room for room in found if room in FLOORS)
    else:
        room = name.rpartition("/")[0]
    return FLOORS.index("planners" if room.startswith("planners") else room)


def test_includes_point_to_floors_below() -> None:
    for path in sources():
        if path.stem == "memplan":
            continue
        own = concept(path)
        upwards = {name for name in included(path) - {own} if floor(name) > floor(own)}
        assert not upwards, f"{path.relative_to(ROOT)} includes {upwards}, which live on floors above its own"


def test_every_room_is_on_a_floor() -> None:
    rooms = {path.parent.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.?pp")}
    assert rooms - {"planners/own", "planners/literature"} == set(FLOORS)


def reachable(path: Path) -> set[str]:
    """Everything that a file sees through its includes."""
    seen: set[str] = set()
    waiting = included(path)
    while waiting:
        name = waiting.pop()
        seen.add(name)
        header = INCLUDE / f"{name}.hpp" if (INCLUDE / f"{name}.hpp").exists() else SOURCE / f"{name}.hpp"
        waiting |= included(header) - seen
    return seen


def test_the_checks_share_no_code_with_what_they_check() -> None:
    made_by = {
        "occupancy",
        "happens_before",
        "graph/takeovers",
        "liveness",
        "storage",
        "buffers",
        "planner",
        "registry",
        "bounds",
        "solve",
        "reuse",
    }
    for check, other in (("verify", "replay"), ("replay", "verify")):
        sees = reachable(SOURCE / "checks" / f"{check}.cpp")
        assert not sees & made_by
        assert other not in sees
        assert not any(name.startswith(("planners/", "placing/", "search/", "auto/")) for name in sees)
    assert "problem" not in reachable(SOURCE / "checks" / "replay.cpp")


def test_planners_see_problems_only() -> None:
    for path in (SOURCE / "planners").rglob("*.?pp"):
        assert not reachable(path) & {
            "graph",
            "storage",
            "liveness",
            "buffers",
            "verify",
            "replay",
            "registry",
            "solve",
        }


def test_one_header_includes_the_whole_public_interface() -> None:
    assert included(INCLUDE / "memplan.hpp") == {path.stem for path in INCLUDE.glob("*.hpp")} - {"memplan"}


def test_the_core_knows_no_python_and_no_framework() -> None:
    for path in sources():
        includes = re.findall(r"^\s*#\s*include\s*<([^>]+)>", path.read_text(), re.MULTILINE)
        assert not [name for name in includes if "/" in name or name.endswith((".h", ".hpp"))], path
        assert not re.search(r"pybind11|Python\.h|\bpy::", path.read_text()), path


def test_every_header_is_guarded_and_opens_with_what_it_is() -> None:
    for path in [*INCLUDE.glob("*.hpp"), *SOURCE.rglob("*.hpp")]:
        text = path.read_text()
        assert text.startswith("// "), path
        assert "#pragma once" in text, path


def test_every_planner_has_a_file_and_every_file_a_row() -> None:
    rows = re.findall(r'^\s*\{"(\w+)"', (SOURCE / "registry" / "registry.cpp").read_text(), re.MULTILINE)
    files = {path.stem: path.read_text() for path in (SOURCE / "planners").rglob("*.cpp")}
    files["auto"] = (SOURCE / "auto" / "auto.cpp").read_text()
    assert set(rows) == set(files)
    for text in files.values():
        assert "// Complexity:" in text
        assert "Guarantee:" in text


def test_every_order_has_a_file() -> None:
    """But for lists, whose rules are in one file; each says first what it is."""
    table = (SOURCE / "order" / "order_registry.cpp").read_text()
    rows = set(re.findall(r'^\s*\{"(\w+)"', table, re.MULTILINE))
    rows |= set(re.findall(r'^\s*\{"(\w+)",$', table, re.MULTILINE))
    lists = set(re.findall(r'\{"(\w+)", ListKey', (SOURCE / "order" / "lists.cpp").read_text()))
    assert len(lists) == 8
    for row in rows - lists:
        assert (SOURCE / "order" / f"{row}.cpp").read_text().startswith(f"// {row}: ")
    assert lists < rows


# The repository

ROOT_HOLDS = {
    ".ci",
    ".clang-format",
    ".github",
    ".gitignore",
    "CHANGELOG.md",
    "CMakeLists.txt",
    "CONTRIBUTING.md",
    "LICENSE",
    "README.md",
    "cpp",
    "docs",
    "notebooks",
    "pyproject.toml",
    "python",
    "tests",
}
MAY_COME = {".pre-commit-config.yaml"}


def test_the_root_holds_what_is_listed() -> None:
    """What scripts and sessions write there by mistake is not committed."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z"]
    try:
        listed = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git repository")
    assert {name.partition("/")[0] for name in listed.split("\0") if name} - MAY_COME == ROOT_HOLDS


def test_the_map_of_contributing_names_what_is_there() -> None:
    """Every public header, every module and package of Python; and nothing that is gone."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    page = page[page.index("## Where things live") : page.index("## Add a planner")]
    named = set(re.findall(r"`([\w./]+(?:\.hpp|\.cpp|\.py|/))`", page))
    files = {path.name for folder in ("cpp", "python", "tests") for path in (ROOT / folder).rglob("*.*p*")}
    package = ROOT / "python" / "memplan"
    for name in named:
        places = (
            ROOT / name,
            ROOT / "tests" / name,
            package / name,
            package / "facts" / name,
            *(package / wing / name for wing in ("torch", "onnx", "tflite", "torch/training")),
            SOURCE / name,
            SOURCE / "search" / name,
            SOURCE / "planners" / name,
        )
        assert any(place.exists() for place in places) or ("/" not in name and name in files), name
    headers = {path.name for path in INCLUDE.glob("*.hpp")} - {"memplan.hpp"}
    modules = {path.name + "/" * path.is_dir() for path in package.iterdir() if not path.name.startswith(("_", "py"))}
    assert not (headers | modules) - named - {"examples/"}, "name it in CONTRIBUTING.md"
