"""Instances of the field: those in tests/data, which tests need, and larger, slow ones beside the checkout."""

from __future__ import annotations

from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from builders.paths import DATA, SHARED


def label(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def shipped(pattern: str) -> list[ParameterSet]:
    """Those in tests/data, as parameters of a test."""
    return [pytest.param(path, id=label(path)) for path in sorted(DATA.glob(pattern))]


def others(pattern: str) -> list[ParameterSet]:
    """Those beside the checkout that are not in tests/data; only --slow asks for them."""
    paths = sorted(SHARED.glob(pattern))
    missing = [path for path in paths if not (DATA / path.relative_to(SHARED)).exists()]
    return [pytest.param(path, id=label(path), marks=pytest.mark.slow) for path in missing]
