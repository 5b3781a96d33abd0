"""The code of the pages runs as it stands: what has prompts gives what is shown."""

import os
from doctest import ELLIPSIS, NORMALIZE_WHITESPACE
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser

from memplan.planning import registry


def elsewhere(namespace: dict[str, Any]) -> None:
    """What a page writes goes to a folder that is removed after it, as are the planners that it registers."""
    namespace["_registered"] = dict(registry._registered)
    namespace["_scratch"] = scratch = TemporaryDirectory()
    namespace["_before"] = Path.cwd()
    os.chdir(scratch.name)


def back(namespace: dict[str, Any]) -> None:
    registry._registered.clear()
    registry._registered.update(namespace["_registered"])
    os.chdir(namespace["_before"])
    namespace["_scratch"].cleanup()


PAGES = ["quickstart.md", "concepts.md", "constraints.md", "extend.md", "faq.md", "run.md", "snapshots.md", "order.md"]
PAGES += ["estimate.md", "fit.md", "split.md", "memories.md", "methods.md"]

pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser(doctest_optionflags=ELLIPSIS | NORMALIZE_WHITESPACE)],
    patterns=[*PAGES, *(f"{package}.md" for package in ("executorch", "jax") if find_spec(package))],
    setup=elsewhere,
    teardown=back,
).pytest()
