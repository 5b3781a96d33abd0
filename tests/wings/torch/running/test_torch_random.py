"""Random networks run inside their plans, with kernels served: `tests/benchmarks/serve_check.py` runs thousands."""

from __future__ import annotations

import sys

import pytest

pytest.importorskip("torch")

from builders.serving import WAYS, held


@pytest.mark.few(4)
@pytest.mark.parametrize("seed", range(9))
def test_equal_to_eager(seed: int) -> None:
    found = held(WAYS[seed % len(WAYS)], seed)
    assert not found["differ"]
    assert found["served"] or sys.platform != "linux"
