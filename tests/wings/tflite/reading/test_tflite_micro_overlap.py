"""TFLite Micro computes the same where the output lies as near to each input as the table of its kernels allows."""

from __future__ import annotations

import pytest

from builders.micro_tracing import traced
from memplan.tflite.reading.micro import Kernel, kernels
from oracles.traces import closest_of_log

pytest.importorskip("tflite_micro")
from builders.micro_files import apart, near, nearest, run

KNOWN = [kernel for kernel in kernels() if kernel.loops]


@pytest.mark.parametrize("kernel", KNOWN, ids=[kernel.operator for kernel in KNOWN])
def test_results_are_equal_byte_for_byte(kernel: Kernel) -> None:
    runs = 0
    for seed in range(40):
        one = traced(kernel, seed)
        if one is None:
            continue
        wanted = run(one.case, apart(one.case, one.inputs()), seed)
        assert wanted is not None
        for offsets in nearest(one):
            assert run(one.case, offsets, seed) == wanted, (one.case, offsets)
            runs += 1
        if runs >= 6:
            break
    assert runs


def test_runs_find_what_overlaps_too_far() -> None:
    """One element nearer than the log of the kernel has it, something is read that was written over."""
    (kernel,) = (kernel for kernel in KNOWN if kernel.operator == "CONV_2D")
    changed = count = 0
    for seed in range(20):
        one = traced(kernel, seed)
        if one is not None and (distance := closest_of_log(one.claim, 0, one.sizes(0), -1, one.log)):
            offsets = near(one.case, one.inputs(), 0, max(one.sizes(0)) - distance)
            changed += run(one.case, offsets, seed) != run(one.case, apart(one.case, one.inputs()), seed)
            count += 1
    assert count > 10
    assert changed > count / 2  # the others round to the same
