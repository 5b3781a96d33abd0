"""Wings of other packages: the front finds them, reads what they take, and runs what they run."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import memplan
from memplan import frontend

Install = Callable[[str, str], None]

TOY = """
from memplan import Graph
from memplan.frontend import Form, Wing

class Row:
    sizes = (4, 8)

def read(source, reading):
    sizes = source.sizes if isinstance(source, Row) else map(int, open(source).read().split())
    sizes = [size * (reading.dims or {}).get("n", 1) for size in sizes]
    tensors = [{"name": "x", "bytes": 1, "kind": "input"}]
    tensors += [{"name": f"t{k}", "bytes": size} for k, size in enumerate(sizes)]
    names = [tensor["name"] for tensor in tensors]
    ops = [{"name": f"f{k}", "inputs": [a], "outputs": [b]} for k, (a, b) in enumerate(zip(names, names[1:]))]
    return {"tensors": tensors, "ops": ops, "outputs": names[-1:]}

TAKES = frozenset({"dims", "inplace_ops"})
FILE = Form(".toy", read, TAKES, suffixes=(".toy",))
WING = Wing((Form("toy", read, TAKES, accepts=lambda x: isinstance(x, Row)), FILE), ("toy.Row",))
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Puts a package with a wing on the path: its name, and its module's text."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def forget() -> None:
        frontend.package.cache_clear()
        frontend.wings.cache_clear()

    def add(name: str, text: str) -> None:
        module = f"{name}_of_test_{abs(hash(tmp_path))}"  # a new one per test: modules stay imported
        (tmp_path / f"{module}.py").write_text(text)
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[memplan.wings]\n{name} = {module}\n")
        forget()

    yield add
    monkeypatch.undo()
    forget()


def test_another_package_brings_a_wing(install: Install, tmp_path: Path) -> None:
    install("toy", TOY)
    assert memplan.plan(memplan.toy.Row(), alignment=1).peak == 12
    path = tmp_path / "net.toy"
    path.write_text("4 8 16")
    assert memplan.plan(path, dims={"n": 2}).problem.size.tolist() == [8, 16, 32]
    with pytest.raises(TypeError, match=r"train does not apply to a source of kind \.toy; it applies to: "):
        memplan.plan(path, train=True)
    with pytest.raises(TypeError, match=r"a path must end in .*\.toy"):
        memplan.plan("net.rst")
    with pytest.raises(TypeError, match=r"source must be .*toy\.Row"):
        memplan.plan(3)
    with pytest.raises(TypeError, match="the plan holds no network"):
        memplan.plan(path).run()


NEEDY = TOY.replace("import Form", "import FOLDER, Form").replace('(".toy",)', '(".toy", FOLDER)')
NEEDY = NEEDY.replace("map(int, open(source).read().split())", "[4, 8]")
NEEDY = NEEDY.replace("    tensors = [", "    notes.needs('needy', 16)\n    tensors = [").replace(
    "class Row", "from memplan.importers import notes\n\nclass Row"
)


def test_a_wing_takes_a_folder(install: Install, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"a path must end in .*\.csv.*, got "):
        memplan.plan(tmp_path)
    install("toy", NEEDY)
    assert memplan.plan(tmp_path, alignment=1).peak == 12
    with pytest.raises(TypeError, match=r"a path must end in .*\.toy.*, got "):
        memplan.plan(tmp_path / "sub")


def test_what_others_need_is_a_row_of_comparisons(install: Install, tmp_path: Path) -> None:
    install("toy", NEEDY)
    network = pickle.loads(pickle.dumps(memplan.capture(memplan.toy.Row())))
    found = memplan.compare(network, ["auto", "naive"], orders=["given", "best"])
    assert [(row.planner, row.order, row.peak) for row in found][-1] == ("needy", "given", 16)
    assert found["needy"].plan is None
    assert found["needy"].gap == 16 / 12 - 1
    assert "needy" in str(found)
    found.to_csv(tmp_path / "found.csv")
    assert "needy,given,16," in (tmp_path / "found.csv").read_text()
    assert "needy" not in memplan.compare(network, ["auto"], place=("intermediate",))
    refused = memplan.compare(network, ["auto"], capacity=8)
    assert refused["needy"].error == "InfeasibleError"
    assert not refused.fits
    assert memplan.compare(network, ["auto"], capacity=16)["needy"].error == ""


def test_a_copy_of_a_plan_has_a_source_of_the_same_form() -> None:
    tape = memplan.plan(memplan.importers.Tape())
    assert copy.deepcopy(tape.source).form is tape.source.form


def test_a_wing_that_cannot_be_used_is_told_and_left_out(install: Install) -> None:
    install("broken", "raise ImportError('no such kernel')")
    with pytest.warns(RuntimeWarning, match="wing 'broken' cannot be used: ImportError: no such kernel"):
        assert memplan.plan({"tensors": [], "ops": [], "outputs": []}).peak == 0
    frontend.wings.cache_clear()


def test_a_module_without_a_wing_is_refused(install: Install) -> None:
    install("empty", "")
    with pytest.raises(TypeError, match=r"wing 'empty', .* must be a module with WING"):
        memplan.empty  # noqa: B018


def test_names_that_no_wing_has_are_no_attributes() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'jx'"):
        memplan.jx  # noqa: B018
    assert {"torch", "onnx", "tflite", "executorch", "jax"} <= {*dir(memplan)}
