"""The shape of the Python package: data flows one way, what imports what says so, and names are where they are said."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from builders.paths import ROOT
from memplan.offered import OFFERED

PACKAGE = ROOT / "python" / "memplan"

# The floors of the front, from the ground: what is in a module or folder imports from it and from those before it.
FLOORS = (
    *(
        "frontend",
        "text",
        "errors",
        "calls",
        "dtypes",
        "sizes",
        "files",
        "kinds",
        "ops",
        "inplace_ops",
        "generate",
        "printing",
    ),
    *("doctor", "offered"),
    *("planning", "options", "proofs", "plans", "importers", "solving", "verifying", "draw", "export"),
    *("running", "estimating", "explaining", "fitting", "diffs"),
    *("ranges", "comparing", "methods", "api", "cli"),
)
# Above it, beside each other: a package for each framework.
WINGS = ("torch", "onnx", "tflite", "executorch", "jax")
# The one file that looks up: the methods of a plan hand on to the floors above when they are called.
HANDS_ON = "plans/plan"
# Files of importers that may look at plans; the others read networks.
READ_PLANS = {"importers/plan_files", "importers/plan_json"}


class Import(NamedTuple):
    """One file's import of another: both by path, as "plans/record"; a package is its "plans/__init__"."""

    file: str
    target: str


@cache
def sources() -> dict[str, Path]:
    """All files, but those of the root, which gather names: nothing imports from them."""
    paths = {path.relative_to(PACKAGE).with_suffix("").as_posix(): path for path in sorted(PACKAGE.rglob("*.py"))}
    return {name: path for name, path in paths.items() if name not in ("__init__", "__main__")}


def file_of(parts: list[str]) -> str | None:
    """The file of a module; None for what is no file of the package in Python."""
    path = "/".join(parts)
    return next((name for name in (path, f"{path}/__init__") if name in sources()), None)


def targets(name: str, node: ast.AST) -> Iterator[str]:
    """The files that an import of a file asks for, and the packages that come to life with them."""
    assert isinstance(node, ast.ImportFrom | ast.Import)
    if isinstance(node, ast.Import) or node.level == 0:
        named = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
        assert not any(module.split(".")[0] == "memplan" for module in named), f"{name} imports memplan by its name"
        return
    folder = name.split("/")[:-1]
    base = folder[: len(folder) - node.level + 1] + (node.module.split(".") if node.module else [])
    for alias in node.names:
        found = file_of([*base, alias.name]) or file_of(base)
        if found is None:
            assert "_core" in (alias.name, *base), f"{name} imports {alias.name} from the root, which gathers names"
            continue
        yield found
        folders = found.split("/")[:-1]
        packages = ["/".join(folders[:depth]) for depth in range(1, len(folders) + 1)]
        yield from (f"{package}/__init__" for package in packages if not name.startswith(f"{package}/"))


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imported(path: Path) -> tuple[ast.Import | ast.ImportFrom, ...]:
    return tuple(node for node in ast.walk(parsed(path)) if isinstance(node, ast.Import | ast.ImportFrom))


@cache
def imports() -> tuple[Import, ...]:
    """All imports between files of the package."""
    return tuple(
        Import(name, target)
        for name, path in sources().items()
        for node in imported(path)
        for target in targets(name, node)
        if target != name
    )


def part(name: str) -> str:
    return name.split("/")[0]


def floor(name: str) -> int:
    return FLOORS.index(part(name))


def test_imports_point_to_floors_below() -> None:
    """Imports in functions count as those of modules do, and so do those for types alone."""
    front = [i for i in imports() if part(i.file) not in WINGS and part(i.target) not in WINGS]
    assert not [i for i in front if floor(i.target) > floor(i.file) and i.file != HANDS_ON]
    assert {part(name) for name in sources()} == {*FLOORS, *WINGS}


def test_a_plan_hands_on_only_when_it_is_asked() -> None:
    """Nothing of the floors above is imported with the module: only in methods, and for types."""
    above = [
        target
        for node in ast.parse(sources()[HANDS_ON].read_text()).body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for target in targets(HANDS_ON, node)
        if floor(target) > floor(HANDS_ON)
    ]
    assert not above


def test_no_wing_knows_another() -> None:
    for i in imports():
        if part(i.file) in WINGS:
            assert part(i.target) in (part(i.file), *FLOORS), i


def taken_by_wings() -> Iterator[tuple[str, str, str]]:
    """Each name of the front that a wing imports: the file of the wing, the module, and the name in it."""
    for name, path in sources().items():
        if part(name) not in WINGS:
            continue
        package = path.relative_to(PACKAGE).parent.parts
        for node in imported(path):
            if isinstance(node, ast.ImportFrom) and node.level > len(package):
                for alias in node.names:
                    inside = file_of([*(node.module or "").split("."), alias.name] if node.module else [alias.name])
                    yield name, ".".join(filter(None, [node.module, alias.name if inside else ""])), alias.name


def test_wings_take_what_the_front_offers() -> None:
    known = {
        entry for _, module, name in taken_by_wings() for entry in (module, f"{module}.{name}") if entry in OFFERED
    }
    for file, module, name in taken_by_wings():
        assert {module or name, f"{module}.{name}"} & OFFERED.keys(), (file, module, name)
    assert OFFERED.keys() - known <= {"_core"}, "what no wing takes need not be offered"
    assert all(sentence and "\n" not in sentence for sentence in OFFERED.values())


def test_the_front_knows_no_wing() -> None:
    assert not [i for i in imports() if part(i.file) not in WINGS and part(i.target) in WINGS]


def test_importers_of_networks_see_no_plans() -> None:
    for i in imports():
        if part(i.file) == "importers" and i.file not in READ_PLANS:
            assert part(i.target) != "plans", i


def test_every_module_says_what_it_is() -> None:
    for path in sources().values():
        assert ast.get_docstring(parsed(path)), path


def test_heavy_packages_are_imported_inside_functions_only() -> None:
    for path in sources().values():
        if path.relative_to(PACKAGE).parts[0] in WINGS and path.stem != "__init__":
            continue  # imported by their __init__ when they are needed
        for node in parsed(path).body:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and node.level == 0 else []
            assert not {name.split(".")[0] for name in names} & {
                "torch",
                "onnx",
                "matplotlib",
                "rich",
                "ortools",
                "tflite",
                "jax",
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
