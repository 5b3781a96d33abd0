"""The table of TFLite Micro's kernels says what they do: beside logs of the same kernels as plain loops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from builders.micro_cases import DRAWS
from builders.micro_tracing import Traced, mistakes, operator_of, traced
from memplan.tflite.reading.micro import Kernel, Ordered, in_order, kernels, ordered
from oracles import traces
from oracles.micro_kernels import KERNELS, Case
from oracles.traces import Claim

KNOWN = [kernel for kernel in kernels() if kernel.loops]
VARIED = "CONV_2D DEPTHWISE_CONV_2D MAX_POOL_2D RESIZE_BILINEAR CONCATENATION PAD STRIDED_SLICE SOFTMAX ADD"


def drawn(kernel: Kernel, count: int) -> Iterator[Traced]:
    """So many operators of which the table says something."""
    found = 0
    for seed in range(20 * count):
        one = traced(kernel, seed)
        if one is not None:
            yield one
            found += 1
        if found == count:
            return
    raise AssertionError(f"the table says too little of {kernel.operator}")


def said(kind: str, inputs: Any, made: Any, dtypes: str, **options: Any) -> Ordered | None:
    given, result = (side.split() for side in dtypes.split("->"))
    case = Case(kind, inputs, made, given, result[0], options)
    return ordered(operator_of(case), [f"x{k}" for k in range(len(inputs))], ["y"])


def test_every_kernel_of_the_table_is_traced() -> None:
    assert {kernel.operator for kernel in KNOWN} == set(DRAWS) == set(KERNELS)
    assert len({kernel.operator for kernel in kernels()}) == len(kernels()) > len(KNOWN)
    for kernel in kernels():
        assert "tensorflow/lite/" in kernel.source
        assert kernel.note.endswith(".")
        assert bool(kernel.loops) == bool(kernel.dtypes)


@pytest.mark.parametrize("kernel", KNOWN, ids=[kernel.operator for kernel in KNOWN])
def test_kernels_read_and_write_as_the_table_says(kernel: Kernel) -> None:
    for one in drawn(kernel, 12 if kernel.operator in VARIED.split() else 4):
        assert not one.wrong(), one.case
        assert not one.lost(), one.case


def test_mistakes_in_the_table_are_found() -> None:
    found: Counter[str] = Counter()
    for kernel in KNOWN:
        if kernel.operator in f"{VARIED} SLICE FULLY_CONNECTED".split():
            for one in drawn(kernel, 15):
                for name, claim in mistakes(one):
                    found[name] += 1
                    assert traces.wrong(claim, one.log), (name, one.case)
    assert min(found.values()) >= 20
    assert set(found) == {"loops turned", "reads first", "padding off by one", "window off by one", "step off by one"}


def test_an_image_by_pixels_and_a_batch_by_rows() -> None:
    rows = {"extent": 8, "reads": {"x0": [1, 1, 3, 1]}, "writes": {"y": [1, 1]}}
    columns = {"extent": 6, "reads": {"x0": [2, 1, 3, 1]}, "writes": {"y": [2, 1]}}
    images = {"extent": 2, "reads": {"x0": [0, 1, 1, 0]}, "writes": {"y": [0, 1]}}
    found = [
        said("CONV_2D", [[n, 8, 6, 3], [4, 3, 3, 3]], [n, 8, 6, 4], "int8 int8 -> int8", StrideH=1, StrideW=1)
        for n in (1, 2)
    ]
    assert found == [Ordered([rows, columns], False), Ordered([images, rows], False)]
    assert found[0] is not None
    assert in_order([images, columns], found[0]) == {"loops": [images, columns, rows], "ordered": [2, 1]}


def test_elements_lie_over_what_they_are_made_of() -> None:
    whole = {"extent": 24, "reads": {"x0": [[0, 2], 1, 1, 0]}, "writes": {"y": [[0, 2], 1]}}
    known = said("RELU", [[2, 3, 4]], [2, 3, 4], "int8 -> int8")
    assert known == Ordered([whole], True)
    assert in_order([], known) == {"loops": [whole], "ordered": [0], "reads_first": True}


def test_one_channel_is_read_before_it_is_written() -> None:
    known = said("MAX_POOL_2D", [[1, 4, 4, 1]], [1, 2, 2, 1], "int8 -> int8", FilterHeight=2, StrideH=2, StrideW=2)
    assert known is not None
    assert known.reads_first


@pytest.mark.parametrize(
    ("kind", "inputs", "made", "dtypes"),
    [
        ("CONV_2D", [[1, 8, 8, 3], [4, 3, 3, 3]], [1, 8, 8, 4], "float32 int8 -> float32"),
        ("CONV_2D", [[8, 8, 3], [4, 3, 3, 3]], [8, 8, 4], "int8 int8 -> int8"),
        ("DEQUANTIZE", [[4, 4]], [4, 4], "int16 -> float32"),  # which a compiler may reorder
        ("QUANTIZE", [[4, 4]], [4, 4], "int32 -> int16"),
        ("FULLY_CONNECTED", [[1, 8], [4, 8]], [1, 4], "int8 int8 -> int8"),  # one row
        ("FULLY_CONNECTED", [[4, 8], [4, 16]], [4, 4], "int8 int8 -> int8"),  # other rows than those of the input
        ("SOFTMAX", [[1, 10]], [1, 10], "int8 -> int8"),
        ("CONCATENATION", [[1, 1, 3]], [1, 1, 3], "int8 -> int8"),  # one copy of all
        ("RELU", [[2] * 6], [2] * 6, "int8 -> int8"),
        ("MEAN", [[1, 4, 4, 8], [2]], [1, 8], "int8 int32 -> int8"),
        ("RESHAPE", [[4, 4], [1]], [16], "int8 int32 -> int8"),
        ("TRANSPOSE", [[4, 4], [2]], [4, 4], "int8 int32 -> int8"),
    ],
)
def test_what_is_not_in_the_table_does_not_overlap(kind: str, inputs: Any, made: Any, dtypes: str) -> None:
    assert said(kind, inputs, made, dtypes) is None


def test_positions_of_a_resize_of_integers_drift() -> None:
    """They are in units of 1 / 1024 of a row: of 55 rows from 2, one reads another row than it would by floats."""
    options = {"HalfPixelCenters": True}
    case = Case("RESIZE_BILINEAR", [[1, 2, 1, 1], [2]], [1, 55, 1, 1], ["int8", "int32"], "int8", options)
    log = KERNELS[case.kind](case)
    for dtype, wrong in (("int8", False), ("float32", True)):
        known = ordered(operator_of(case._replace(dtypes=[dtype, "int32"], made_dtype=dtype)), ["0", "1"], ["y"])
        assert known is not None
        assert bool(traces.wrong(Claim(known.loops, known.reads_first, case.inputs, case.made), log)) == wrong
    behind = said("RESIZE_BILINEAR", [[1, 2, 1, 1], [2]], [1, 65, 1, 1], "int8 int32 -> int8")
    assert behind is None  # the kernel reads a third row
