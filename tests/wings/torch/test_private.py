"""The wall to torch: private names come through two files, and where one is missing, what needs it says so."""

import ast
import functools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import memplan
from memplan.doctor import doctor

pytest.importorskip("torch", reason="reads torch's names")

import torch

import memplan.torch
from memplan.torch.installed import TESTED, names_of_torch

PACKAGE = Path(memplan.__file__).parent
ROOT = Path(__file__).parents[3]
WALLS = [PACKAGE / name for name in ("torch/private.py", "torch/private_compiler.py", "executorch/versions.py")]


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def dotted(node: ast.AST) -> list[str]:
    """`torch.fx.Graph` as its names; those of what is no chain of names are left out."""
    if isinstance(node, ast.Attribute):
        return [*dotted(node.value), node.attr]
    return [node.id] if isinstance(node, ast.Name) else []


@functools.cache
def nodes_of(path: Path) -> list[ast.AST]:
    return [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]


def names_in(path: Path) -> Iterator[str]:
    """Private names of torch's modules in a file, with all that leads to them."""
    known = {}
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            mine = [one for one in node.names if one.name.split(".")[0] == "torch"]
            known |= {one.asname or "torch": one.name if one.asname else "torch" for one in mine}
            yield from (one.name for one in mine)
        elif isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").split(".")[0] == "torch":
            known.update({one.asname or one.name: f"{node.module}.{one.name}" for one in node.names})
            yield from (f"{node.module}.{one.name}" for one in node.names)
    for node in nodes_of(path):
        chain = dotted(node)
        if len(chain) > 1 and chain[0] in known:
            yield ".".join([known[chain[0]], *chain[1:]])


def attributes_in(path: Path) -> set[str]:
    """Private attributes of objects that are not the file's own, also as strings, as for getattr."""
    nodes = nodes_of(path)
    chains = [dotted(node) for node in nodes if isinstance(node, ast.Attribute)]
    found = {chain[-1] for chain in chains if chain and chain[0] not in ("self", "cls", "torch", "_aten")}
    found |= {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return {name for name in found if is_private(name) and name.isidentifier()}


def test_private_names_of_torch_come_through_the_walls() -> None:
    of_objects = set.union(*map(attributes_in, WALLS))
    of_objects |= {part for wall in WALLS for name in names_in(wall) for part in name.split(".") if is_private(part)}
    assert {"_schema", "_version", "_cdata", "_C", "_inductor"} <= of_objects
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if path in WALLS or not any(name in text for name in ("torch", *of_objects)):
            continue
        names = [name for name in names_in(path) if any(map(is_private, name.split("."))) and ".ops." not in name]
        assert not names, path
        assert not attributes_in(path) & of_objects, path


# Each line takes something from torch in a process of its own, which has begun with all of torch: to import it takes
# seconds.
LACKING = """
import json, os, sys, torch, torch.export, torch._inductor.compile_fx
for line in sys.argv[1:]:
    if child := os.fork():
        assert os.waitpid(child, 0)[1] == 0
        continue
    exec(line)
    from memplan.doctor import doctor
    print(json.dumps([line, [[door.door, door.why] for door in doctor("torch").doors]]), flush=True)
    os._exit(0)
"""
WITHOUT = {
    "del torch._C._set_conj": ({"plan.run", "plan.program"}, "for views that are conjugated"),
    "from torch._inductor import custom_graph_pass; del custom_graph_pass.get_hash_for_files": (
        {'torch.compile(backend="memplan")'},
        "for partitions within a budget",
    ),
    "torch.__version__ = '9.9.1'": (
        {'torch.compile(backend="memplan")', "capture_inductor"},
        f"as it is in torch {', '.join(TESTED)}; this is torch 9.9.1",
    ),
}
WITHOUT_SEQUENCES = "del torch.autograd._get_sequence_nr"

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")


@pytest.fixture(scope="module")
def failing() -> dict[str, dict[str, str]]:
    """The doors that do not work, and why, where a line of Python has taken something from torch."""
    command = [sys.executable, "-W", "ignore", "-c", LACKING, *WITHOUT, WITHOUT_SEQUENCES]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    found = dict(json.loads(line) for line in ran.stdout.splitlines() if line.startswith("["))
    return {line: {door: why for door, why in doors if why} for line, doors in found.items()}


@pytest.mark.slow
@forks
@pytest.mark.parametrize("without", WITHOUT)
def test_doors_that_need_a_name_say_that_torch_lacks_it(without: str, failing: dict[str, dict[str, str]]) -> None:
    doors, needed = WITHOUT[without]
    found = failing[without]
    assert found.keys() == doors
    assert all(needed in why and "\n" not in why for why in found.values())


@pytest.mark.slow
@forks
def test_what_reads_needs_the_names_that_reading_takes(failing: dict[str, dict[str, str]]) -> None:
    found = failing[WITHOUT_SEQUENCES]
    assert "plan(snapshot)" not in found
    assert "'_get_sequence_nr'" in found["plan(module)"]


def test_an_attribute_that_a_tensor_lacks_is_the_mistake_of_whoever_asks() -> None:
    with pytest.raises(AttributeError, match="nothing"), names_of_torch("reading"):
        getattr(torch.ones(1), "nothing")  # noqa: B009


@pytest.mark.slow
def test_every_door_works() -> None:
    found = doctor("torch", run=True)
    assert [(door.door, door.why) for door in found.doors if door.state != "works"] == []
    assert f"torch {torch.__version__.split('+')[0]}" in str(found)


def test_supported_is_what_the_doctor_says() -> None:
    assert memplan.torch.supported().doors == doctor("torch").doors


def test_the_tested_versions_are_those_that_the_pages_name() -> None:
    for page in ("README.md", "docs/formats.md", "docs/api.rst"):
        text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
        assert all(f"torch {version}" in text for version in TESTED), page
    assert ".".join(torch.__version__.split(".")[:2]) in TESTED
