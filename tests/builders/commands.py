"""The command line, called here or as a process."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from builders.paths import DATA
from memplan import cli

LIFETIMES = str(DATA / "minimalloc" / "A.1048576.csv")


def run(*arguments: object) -> int:
    """The exit status, also when the parser of arguments is what ends the run."""
    try:
        return cli.main([str(argument) for argument in arguments])
    except SystemExit as stop:
        return int(stop.code or 0)


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The one line with which a command is refused."""
    assert run(*arguments) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("memplan: error: ")
    return err


def shell(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "memplan", *(str(argument) for argument in arguments)]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=60, **options)
