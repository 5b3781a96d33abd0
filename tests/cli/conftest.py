"""Files that several commands are tested with."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def lifetimes(tmp_path: Path) -> Path:
    path = tmp_path / "lifetimes.csv"
    path.write_text("id,lower,upper,size\na,0,2,10\nb,1,4,6\nc,3,5,8\n")
    return path


@pytest.fixture
def offsets(tmp_path: Path) -> Path:
    path = tmp_path / "offsets.csv"
    path.write_text("id,lower,upper,size,offset\na,0,2,10,0\nb,1,4,6,10\nc,3,5,8,0\n")
    return path
