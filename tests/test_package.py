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

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "python" / "memplan"

# Module or package of memplan -> what it may import from, types included, besides the core and itself.
EVERYWHERE = {"errors", "dtypes", "files", "sizes", "text"}
UPSTREAM: dict[str, set[str]] = {
    "errors": set(),
    "dtypes": set(),
    "files": set(),
    "sizes": set(),
    "text": set(),
    "generate": set(),
    "inplace_ops": {"ops"},
    "kinds": set(),
    "ops": set(),
    "planning": set(),
    "proofs": set(),
    "facts": {"inplace_ops", "kinds", "proofs"},
    "options": {"inplace_ops", "kinds", "ops", "planning"},
    "importers": {"inplace_ops", "kinds", "options", "planning", "facts"},
    "placed": {"facts", "kinds", "options"},
    "solving": {"facts", "inplace_ops", "kinds", "options", "placed", "planning"},
    "api": {"importers", "inplace_ops", "kinds", "facts", "options", "planning", "proofs", "solving"},
    "obstructions": {"facts", "options", "planning", "proofs"},
    "verifying": {"api", "facts", "kinds", "options", "placed"},
    "ranges": {"api", "facts", "importers", "ops", "planning"},
    "methods": {"api", "facts", "importers", "kinds", "ops", "options", "planning"},
    "fitting": {"api", "facts", "importers", "inplace_ops", "kinds", "options", "solving"},
    "estimating": {"api", "facts", "fitting", "importers", "kinds", "options"},
    "comparing": {"api", "options", "planning", "facts"},
    "export": {"facts", "comparing"},
    "present": {"facts", "comparing"},
    "inductor": {"api", "importers", "facts", "present"},
    "run": {
        *("api", "estimating", "facts", "importers", "inductor", "inplace_ops", "kinds", "options"),
        *("placed", "planning"),
    },
    "cli": {
        *("api", "comparing", "estimating", "facts", "fitting", "importers", "inplace_ops", "kinds", "options"),
        *("planning", "present"),
    },
}
# The files whose objects show and write themselves: methods that import what does so when they are called.
HAND_OVER = {
    "facts/fitting",
    "facts/pareto",
    "facts/memories",
    "facts/methods",
    "facts/ranged",
    "facts/plan",
    "facts/tensors",
    "facts/diff",
    "facts/estimate",
    "facts/fragmentation",
    "facts/explain/explanation",
    "facts/explain/reuse",
    "comparing/comparison",
    "comparing/sweep/result",
}
SHOWN_BY = {"present", "export", "run"}
# Files of importers that may look at plans; the others read networks.
READ_PLANS = {"importers/plan_files", "importers/plan_json", "importers/snapshot/recorded"}


class Import(NamedTuple):
    """One file's import of another: both by path, as "facts/plan"; a package is its "facts/__init__"."""

    file: str
    target: str
    in_function: bool
    type_only: bool

    @property
    def hands_over(self) -> bool:
        """From facts to what shows them; or, only to be named as a type, from an error or a method's result."""
        later = self.in_function or self.type_only
        held = self.file == "errors" and part(self.target) in ("facts", "proofs")
        return later and (self.file in HAND_OVER or held)


@cache
def sources() -> dict[str, Path]:
    """All files, but those of the root, which gather names: nothing imports from them."""
    paths = {path.relative_to(PACKAGE).with_suffix("").as_posix(): path for path in sorted(PACKAGE.rglob("*.py"))}
    return {name: path for name, path in paths.items() if name not in ("__init__", "__main__")}


def file_of(parts: list[str]) -> str | None:
    """The file of a module; None for what is no file of the package in Python."""
    path = "/".join(parts)
    return next((name for name in (path, f"{path}/__init__") if name in sources()), None)


def import_nodes(tree: ast.AST, in_function: bool, type_only: bool) -> Iterator[tuple[ast.AST, bool, bool]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.expr):
            continue  # which holds no statement
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node, in_function, type_only
        checking = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        function = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        yield from import_nodes(node, in_function or function, type_only or checking)


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
def imports() -> tuple[Import, ...]:
    """All imports between files of the package."""
    return tuple(
        Import(name, target, in_function, type_only)
        for name, path in sources().items()
        for node, in_function, type_only in import_nodes(ast.parse(path.read_text()), False, False)
        for target in targets(name, node)
        if target != name
    )


def part(name: str) -> str:
    return name.split("/")[0]


def circle(needs: dict[str, set[str]]) -> set[str]:
    """What remains when all that needs nothing is taken away, again and again."""
    left = dict(needs)
    while ready := [name for name, needed in left.items() if not needed & set(left)]:
        for name in ready:
            del left[name]
    return set(left)


def needs_of(found: list[Import]) -> dict[str, set[str]]:
    return {name: {i.target for i in found if i.file == name} for name in sources()}


def test_what_runs_forms_no_circle() -> None:
    """Imports inside functions count as those of modules do: none is there to get around a circle."""
    assert not circle(needs_of([i for i in imports() if not i.type_only]))


def test_types_form_no_circle_either() -> None:
    """But for methods that hand over, which name and import what is below them."""
    assert not circle(needs_of([i for i in imports() if not i.hands_over]))


def test_imports_point_upstream_only() -> None:
    wrong = [
        i
        for i in imports()
        if not i.hands_over and part(i.target) not in {part(i.file), *EVERYWHERE, *UPSTREAM[part(i.file)]}
    ]
    assert not wrong


def test_the_drawing_has_no_circle_and_is_of_what_exists() -> None:
    assert not circle(UPSTREAM)
    assert not any(UPSTREAM[name] for name in EVERYWHERE)
    assert set(UPSTREAM) == {part(name) for name in sources()}


def test_objects_hand_over_to_what_shows_and_writes_them_only() -> None:
    for name in HAND_OVER:
        below = {part(i.target) for i in imports() if i.file == name and i.hands_over and not i.type_only}
        assert below - {part(name), *EVERYWHERE} <= SHOWN_BY, name
        assert below & SHOWN_BY, f"{name} hands over no more"


def test_the_checkers_of_proofs_see_nothing_of_the_project() -> None:
    checkers = {
        "proofs/checker",
        "proofs/pair_checker",
        "proofs/pair_items",
        "proofs/order_checker",
        "proofs/order_model",
    }
    seen = {(i.file, i.target) for i in imports() if i.file in checkers}
    assert seen == {
        ("proofs/order_checker", "proofs/order_model"),
        ("proofs/pair_checker", "proofs/checker"),
        ("proofs/pair_items", "proofs/pair_checker"),
    }
    assert not any("_core" in (PACKAGE / f"{name}.py").read_text() for name in checkers)


def test_importers_of_networks_see_no_plans() -> None:
    for i in imports():
        if part(i.file) == "importers" and i.file not in READ_PLANS:
            assert part(i.target) != "facts", i


def test_every_module_says_what_it_is() -> None:
    for path in sources().values():
        assert ast.get_docstring(ast.parse(path.read_text())), path


def test_heavy_packages_are_imported_inside_functions_only() -> None:
    for path in sources().values():
        runtime = path.parent.parent == PACKAGE / "run"
        if (runtime or path.parent.name in ("onnx", "torch", "inductor")) and path.stem != "__init__":
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
                "tflite",
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
