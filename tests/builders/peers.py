"""What other projects' own tests expect of their planners: sizes, lifetimes and answers, as facts.

Rows are (size, first, last); `inclusive` says that `last` is the last step alive, as in the project's test.
"""

from __future__ import annotations

from collections.abc import Sequence

import memplan

ComparisonRow = tuple[int, int, int]


def problem(rows: Sequence[ComparisonRow], alignment: int = 1, *, inclusive: bool = True) -> memplan.Problem:
    size, first, last = ([row[k] for row in rows] for k in range(3))
    return memplan.Problem(size, first, [step + inclusive for step in last], alignment)


# TensorFlow Lite, tensorflow/lite/delegates/gpu/common/memory_management_test.cc: ChainRecords, ComplexRecords.
TFLITE_CHAIN = [(16, 0, 1), (8, 1, 2), (64, 2, 3), (32, 3, 4), (8, 4, 5)]
TFLITE_COMPLEX = [
    (32, 0, 1),
    (32, 1, 4),
    (8, 2, 5),
    (16, 3, 5),
    (8, 4, 5),
    (64, 5, 7),
    (8, 6, 8),
    (8, 7, 8),
    (16, 8, 9),
]

# Apache TVM, tests/python/unittest/test_tir_usmp_algo_hill_climb.py: test_intervals; each is expected to reach
# its load. Rows there are (first, last, size), the last step alive.
TVM_ALLOC_MAX = [(2048, 0, 159), (7904, 0, 13), (16, 4, 35), (32768, 12, 17), (32768, 16, 21)]
TVM_SIMPLE = [
    (131072, 0, 23),
    (65568, 4, 5),
    (8192, 4, 9),
    (15360, 8, 30),
    (65568, 10, 11),
    (4096, 10, 15),
    (65552, 16, 17),
    (2048, 16, 21),
    (32784, 22, 23),
    (1024, 22, 27),
]
TVM_FIVE = [(95, 4, 5), (52135, 1, 4), (12136, 3, 4), (62099, 3, 5), (50458, 4, 5)]

# Arm Vela, ethosu/vela/test/test_hillclimb_allocation.py: test_allocate, with the size that it expects.
VELA = [
    ([(8000, 0, 100), (8016, 0, 1), (2000, 100, 110), (4000, 108, 110), (6000, 109, 110)], 16016),
    (TVM_SIMPLE, 216096),
]

# OpenXLA, xla/service/heap_simulator/heap_simulator_test.cc, GlobalDecreasingSizeBestFitHeapTest: the alignment, the
# buffers a, b, … with the calls of Alloc and Free as steps, the offsets and the size of the heap.
XLA = {
    "DecreasingSize": (1, [(10, 0, 4), (30, 1, 5), (20, 2, 6), (40, 3, 7)], [90, 40, 70, 0], 100),
    "DecreasingSizeWithAlignment": (20, [(10, 0, 3), (20, 1, 5), (50, 2, 6), (40, 4, 7)], [60, 100, 0, 60], 120),
    "BestFit": (1, [(10, 0, 3), (20, 1, 6), (40, 2, 7), (30, 4, 8), (50, 5, 9)], [90, 120, 50, 90, 0], 140),
}


def tvm_linear() -> memplan.Problem:
    """Apache TVM, tests/python/unittest/test_tir_usmp_algo.py: test_linear, aligned to 16.

    TVM gives pairs that conflict, not lifetimes: here each buffer has a step of its own. It has two pools, of which the
    fast one takes tensor_2 and Conv2dOutput_7; with one for all they end below the slow pool's expected size.
    """
    size = {"sid_8": 802816, "PaddedInput_7": 314646, "sid_9": 301056, "Conv2dOutput_7": 256, "tensor_2": 200704}
    conflicts = [(0, 1), (0, 3), (0, 4), (1, 2), (1, 3)]
    return memplan.Problem(list(size.values()), range(5), range(1, 6), 16, list(size), conflicts=conflicts)


TVM_LINEAR_PEAK = 1418528


def tvm_fanout() -> memplan.Problem:
    """The same file's test_fanout."""
    size = {"sid_2": 720000, "sid_6": 5760000, "sid_7": 720000, "sid_8": 720000}
    size |= {"PaddedInput": 720000, "PaddedInput_1": 758912, "PaddedInput_2": 720000, "PaddedInput_3": 720000}
    size |= {"Conv2dOutput": 256, "Conv2dOutput_1": 256, "Conv2dOutput_2": 256, "Conv2dOutput_3": 256}
    together = [  # what the test says conflicts: every pair within a row
        ("sid_2", "sid_8", "PaddedInput", "Conv2dOutput"),
        ("sid_2", "sid_8", "PaddedInput_1"),
        ("sid_2", "sid_7", "PaddedInput_1", "Conv2dOutput_1"),
        ("sid_2", "sid_7", "PaddedInput_2"),
        ("sid_2", "sid_6", "PaddedInput_2", "Conv2dOutput_2"),
        ("sid_2", "sid_6", "PaddedInput_3"),
        ("sid_6", "PaddedInput_3", "Conv2dOutput_3"),
    ]
    names = list(size)
    pairs = {(names.index(a), names.index(b)) for row in together for a in row for b in row if a != b}
    n = len(names)
    conflicts = sorted({(min(pair), max(pair)) for pair in pairs})
    return memplan.Problem(list(size.values()), range(n), range(1, n + 1), 1, names, conflicts=conflicts)


TVM_FANOUT_PEAK = 7200256
