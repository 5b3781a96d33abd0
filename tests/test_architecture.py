"""The shape of the source: data flows one way, and what includes or imports what says so."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
INCLUDE = ROOT / "cpp" / "include" / "memplan"
SOURCE = ROOT / "cpp" / "src"
PACKAGE = ROOT / "python" / "memplan"

# Concept -> what its header and source may include, besides units and errors. A new concept needs a row here.
UPSTREAM: dict[str, set[str]] = {
    "units": set(),
    "errors": set(),
    "graph": set(),
    "graph/graph_checks": {"graph"},
    "graph/takeovers": set(),
    "happens_before": {"graph", "graph/takeovers"},
    "storage/groups": set(),
    "problem/max_tree": set(),
    "storage/forming": {"graph", "happens_before", "storage", "storage/groups"},
    "storage/sharing": {"graph", "happens_before", "storage", "storage/forming", "problem/max_tree"},
    "storage": {"graph", "happens_before"},
    "liveness": {"graph", "storage"},
    "sharing_bound": {"graph", "happens_before", "storage", "liveness"},
    "conflicts": set(),
    "problem": {"conflicts"},
    "buffers": {"graph", "storage", "liveness", "problem"},
    "bounds": {"problem"},
    "occupancy": {"problem"},
    "overlap": {"problem"},
    "plan": {"problem"},
    "infeasible": {"problem", "buffers", "bounds", "plan"},
    "planner": {"problem"},
    "placing/deadline": {"planner"},
    "planners/planners": {"planner", "placing/deadline"},
    "placing/free_blocks": set(),
    "placing/placed": {"problem", "occupancy"},
    "placing/in_order": {"planner", "placing/deadline", "placing/placed"},
    "placing/simulation": {"planner", "placing/free_blocks"},
    "placing/pools": {"planner"},
    "search/chance": set(),
    "search/luby": set(),
    "placing/section_lives": {"problem", "problem/max_tree", "placing/in_order"},
    "placing/by_offset": {"placing/section_lives"},
    "search/repair": {"problem", "placing/by_offset", "search/chance", "placing/placed"},
    "planners/squeaky_wheel": {
        "bounds",
        "plan",
        "planners/planners",
        "placing/deadline",
        "placing/in_order",
        "search/luby",
        "search/repair",
    },
    "search/sections": {"problem"},
    "search/floors": {"search/sections", "search/trail"},
    "search/marks": set(),
    "search/trail": set(),
    "search/valleys": {"search/floors", "search/marks"},
    "search/refutations": set(),
    "search/record": set(),
    "search/valley_search": {
        "search/floors",
        "search/valleys",
        "search/refutations",
        "search/record",
        "search/chance",
        "placing/deadline",
    },
    "search/squeeze": {"search/luby", "search/valley_search"},
    "planners/valley": {"plan", "planners/planners", "search/squeeze"},
    "planners/portfolio": {
        "bounds",
        "plan",
        "planner",
        "planners/planners",
        "planners/squeaky_wheel",
        "search/squeeze",
    },
    "registry": {"planner", "planners/planners"},
    "refute": {"problem", "planner", "search/valley_search"},
    "verify": {"problem"},
    "replay": {"graph"},
    "reuse": {"graph", "happens_before", "problem", "plan", "replay", "graph/takeovers"},
    "plan/attempt": {"plan", "planner", "problem", "solve"},
    "plan/solve_graph": {
        "graph",
        "storage",
        "happens_before",
        "buffers",
        "sharing_bound",
        "bounds",
        "plan",
        "infeasible",
        "planner",
        "registry",
        "replay",
        "solve",
        "plan/attempt",
    },
    "solve": {
        "graph",
        "problem",
        "buffers",
        "bounds",
        "plan",
        "infeasible",
        "planner",
        "registry",
        "verify",
        "replay",
    },
}
A_PLANNER = {
    "problem",
    "plan",
    "bounds",
    "overlap",
    "planner",
    "planners/planners",
    "placing/simulation",
    "placing/free_blocks",
    "search/chance",
    "placing/in_order",
    "placing/placed",
    "problem/max_tree",
    "placing/pools",
}
OWN_CHECKS = {  # private headers of a source, which see its public one
    "graph": {"graph/graph_checks"},
    "storage": {"storage/forming", "storage/sharing"},
    "solve": {"plan/attempt"},
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


def allowed(name: str) -> set[str]:
    if name not in UPSTREAM and name.startswith("planners/"):
        return A_PLANNER | {"units", "errors"}
    return UPSTREAM[name] | {"units", "errors"}


@pytest.mark.parametrize("path", [path for path in sources() if path.stem != "memplan"], ids=concept)
def test_includes_point_upstream_only(path: Path) -> None:
    name = concept(path)
    own = {name} | (OWN_CHECKS.get(name, set()) if path.suffix == ".cpp" else set())
    assert included(path) - own <= allowed(name)


def test_the_drawing_has_no_cycle() -> None:
    done: set[str] = set()
    while len(done) < len(UPSTREAM):
        ready = {name for name, needs in UPSTREAM.items() if name not in done and needs <= done}
        assert ready, f"a cycle among {set(UPSTREAM) - done}"
        done |= ready


def test_the_drawing_is_of_what_exists() -> None:
    assert set(UPSTREAM) <= {concept(path) for path in sources()}


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
        assert not any(name.startswith(("planners/", "placing/", "search/")) for name in sees)
    assert "problem" not in reachable(SOURCE / "checks" / "replay.cpp")


def test_planners_see_problems_only() -> None:
    for path in {*(SOURCE / "planners").iterdir()} - {SOURCE / "planners" / "registry.cpp"}:
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
    rows = re.findall(r'^\s*\{"(\w+)"', (SOURCE / "planners" / "registry.cpp").read_text(), re.MULTILINE)
    files = {path.stem for path in (SOURCE / "planners").glob("*.cpp")} - {"planner", "registry"}
    assert {"portfolio" if row == "auto" else row for row in rows} == files
    for stem in files:
        text = (SOURCE / "planners" / f"{stem}.cpp").read_text()
        assert "// Complexity:" in text
        assert "Guarantee:" in text


# Python

SHOWN_BY = {"export", "present"}
# Module or package of memplan -> what it may import from, besides the core, errors, dtypes, files and itself.
PYTHON_UPSTREAM: dict[str, set[str]] = {
    "errors": {"facts"},  # the type of what an error holds
    "dtypes": set(),
    "files": set(),
    "generate": set(),
    "inplace_ops": set(),
    "planning": set(),
    "proofs": set(),
    "facts": {"inplace_ops", *SHOWN_BY},  # methods that hand over to them, imported when called
    "export": {"facts", "comparing"},
    "present": {"facts", "comparing"},
    "importers": {"inplace_ops", "facts", "export", "memplan"},  # plan_files and plan_json read plans
    "api": {"importers", "facts", "planning", "proofs"},
    "inductor": {"api", "facts", "importers", "present"},
    "comparing": {"api", "facts", "planning", *SHOWN_BY},
    "cli": {"api", "comparing", "facts", "planning", "importers", "present", "memplan"},
    "memplan": {
        "api",
        "cli",
        "comparing",
        "facts",
        "generate",
        "importers",
        "inductor",
        "inplace_ops",
        "planning",
        "present",
        "proofs",
    },
}
# Files of importers that may look at plans; the others read networks.
READ_PLANS = {"plan_files", "plan_json"}


def package_of(path: Path) -> str:
    first = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    return "memplan" if first in ("__init__", "__main__") else first


def imported(path: Path) -> set[str]:
    """The project's top-level modules and packages that a file imports, anywhere in it."""
    found: set[str] = set()
    depth = len(path.relative_to(PACKAGE).parts)
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.ImportFrom) or node.level == 0:
            continue
        names = [node.module] if node.module else [alias.name for alias in node.names]
        if node.level < depth:
            found.add(package_of(path))
            continue
        known = {p.stem for p in PACKAGE.iterdir()} - {"__init__", "__main__"}
        found |= {top if (top := name.split(".")[0]) in known or top == "_core" else "memplan" for name in names}
    return found


def python_sources() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", python_sources(), ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_imports_point_upstream_only(path: Path) -> None:
    package = package_of(path)
    common = {"_core", "errors", "dtypes", "files", package}
    assert imported(path) - common <= PYTHON_UPSTREAM[package]


def test_facts_know_nothing_of_what_shows_them() -> None:
    handing_over = {
        "plan",
        "tensors",
        "diff",
        "explanation",
        "reuse",
    }  # have methods that hand over, imported when called
    for path in (PACKAGE / "facts").rglob("*.py"):
        assert path.stem in handing_over or not imported(path) & SHOWN_BY, path


def test_the_checker_of_proofs_sees_nothing_of_the_project() -> None:
    assert imported(PACKAGE / "proofs" / "checker.py") == set()


def test_importers_of_networks_see_no_plans() -> None:
    for path in (PACKAGE / "importers").glob("*.py"):
        if path.stem not in READ_PLANS:
            assert imported(path) <= {"importers", "inplace_ops", "_core", "errors", "dtypes"}, path


def test_every_module_says_what_it_is() -> None:
    for path in python_sources():
        assert ast.get_docstring(ast.parse(path.read_text())), path


def test_heavy_packages_are_imported_inside_functions_only() -> None:
    for path in python_sources():
        if path.parent.name in ("onnx", "torch", "inductor") and path.stem != "__init__":
            continue  # imported by their __init__ when they are needed
        for node in ast.parse(path.read_text()).body:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and node.level == 0 else []
            assert not {name.split(".")[0] for name in names} & {
                "torch",
                "onnx",
                "matplotlib",
                "rich",
                "ortools",
                "bokeh",
                "jinja2",
            }, path


def test_no_public_function_hides_a_module() -> None:
    for path in [PACKAGE, *(p.parent for p in PACKAGE.glob("*/**/__init__.py"))]:
        name = ".".join(path.relative_to(PACKAGE.parent).parts)
        package = importlib.import_module(name)
        for module in pkgutil.iter_modules([str(path)]):
            found = getattr(package, module.name, None)
            assert found is None or inspect.ismodule(found), f"{name}.{module.name}"


def test_the_interface_is_reached_by_attributes_as_it_is_written() -> None:
    page = (ROOT / "docs" / "api.rst").read_text(encoding="utf-8")
    names = re.findall(r"^\.\. auto\w+:: (\S+)", page, re.MULTILINE)
    assert len(names) > 40
    code = (
        "import functools, sys, memplan\nfor name in sys.argv[1:]: functools.reduce(getattr, name.split('.'), memplan)"
    )
    subprocess.run([sys.executable, "-c", code, *(name.removeprefix("memplan.") for name in names)], check=True)
