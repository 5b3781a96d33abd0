"""`memplan doctor`: what works with what is installed, and why something does not."""

import importlib
import json
import sys

import pytest

from memplan import frontend
from memplan.cli import main
from memplan.doctor import doctor


def ready() -> None:
    """Imports nothing."""


def locked() -> None:
    int("key")


def unhinged() -> None:
    importlib.import_module("no_such_hinge")


DOORS = (
    frontend.Door("opens", ready, ready),
    frontend.Door("is locked", ready, locked),
    frontend.Door("lacks its hinge", unhinged),
)


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wing with three doors, one of which can be opened."""
    module = type(sys)("toy")
    module.WING = frontend.Wing(doors=DOORS, packages=("memplan", "no-such-package"))  # type: ignore[attr-defined]
    monkeypatch.setattr(frontend, "names", lambda: ["toy"])
    monkeypatch.setattr(frontend, "package", lambda name: module)


@pytest.mark.usefixtures("toy")
def test_doors_are_imported_or_tried() -> None:
    assert [door.state for door in doctor().doors] == ["ready", "ready", "fails"]
    found = doctor("toy", run=True)
    assert [door.state for door in found.doors] == ["works", "fails", "fails"]
    assert "invalid literal" in found.doors[1].why
    assert "no_such_hinge" in str(found)
    assert "no no-such-package" in str(found)


@pytest.mark.usefixtures("toy")
def test_the_exit_status_says_whether_all_doors_work(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json", "--run"]) == 1
    record = json.loads(capsys.readouterr().out)
    assert (record["format"], record["version"]) == ("memplan.doctor", 1)
    assert [(door["wing"], door["door"], door["tried"]) for door in record["doors"]] == [
        ("toy", "opens", True),
        ("toy", "is locked", True),
        ("toy", "lacks its hinge", False),
    ]
    assert record["doors"][0]["why"] == ""


def test_a_wing_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "jaxx"]) == 2
    assert "no wing 'jaxx' is installed, there are executorch, jax, onnx, tflite, torch" in capsys.readouterr().err


def test_a_wing_that_cannot_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    def package(name: str) -> None:
        raise ImportError(f"{name} is broken")

    monkeypatch.setattr(frontend, "package", package)
    (found,) = doctor("onnx").doors
    assert (found.state, found.why) == ("fails", "onnx is broken")
