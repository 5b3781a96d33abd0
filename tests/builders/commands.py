"""The command line, called here or as a process."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from builders.paths import DATA
from memplan import cli

LIFETIMES = str(DATA / "minimalloc" / "A.1048576.csv")


def run(*arguments: object) -> int:
    """The exit status, also when the parser of arguments is what ends the run."""
    try:
        return cli.main([str(argument) for argument in arguments])
    except SystemExit as stop:
        return int(stop.code or 0)


def shell(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "memplan", *(str(argument) for argument in arguments)]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=60, **options)
