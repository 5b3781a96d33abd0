"""greedy_by_size on the cases of TensorFlow Lite's tests; its plain version is in test_planners.py."""

from __future__ import annotations

import pytest

import memplan
from builders import peers


@pytest.mark.parametrize(
    ("rows", "offsets", "peak"),
    [
        (peers.TFLITE_CHAIN, [0, 64, 0, 64, 0], 96),
        (peers.TFLITE_COMPLEX, [0, 32, 80, 64, 88, 0, 64, 72, 0], 96),
    ],
    ids=["chain", "complex"],
)
def test_offsets_of_tflite(rows: list[peers.ComparisonRow], offsets: list[int], peak: int) -> None:
    plan = memplan.plan(peers.problem(rows), "greedy_by_size")
    assert plan.offsets.tolist() == offsets
    assert plan.peak == peak
