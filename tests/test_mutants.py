"""The list of seeded faults fits the sources; that each is found is up to tests/mutants.py itself."""

from __future__ import annotations

import pytest

import mutants
from faults import FAULTS, Fault


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.what)
def test_its_line_is_there_once(fault: Fault) -> None:
    assert mutants.source_of(fault).count(fault.old) == 1
