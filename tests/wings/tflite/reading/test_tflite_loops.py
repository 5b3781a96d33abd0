"""Loops of TFLite's operators: a row of an input is poisoned, and only what is said to read it may change."""

from __future__ import annotations

import numpy as np
import pytest

import memplan
from builders.arrays import poisoned
from builders.paths import DATA
from builders.tflite_loops import feeds_of, loops_of, run_of
from builders.tflite_ops import OPERATORS
from memplan.tflite.reading import loops as tflite_loops
from oracles.loops import check_loop


@pytest.mark.few(30)
@pytest.mark.parametrize("kind", OPERATORS)
def test_poisoned_rows_change_what_reads_them_and_nothing_else(kind: str) -> None:
    chance, count = np.random.default_rng(len(kind)), 0
    for _ in range(8):
        drawn = OPERATORS[kind](chance)
        for loop in loops_of(kind, drawn):
            check_loop(loop, feeds_of(drawn), run_of(kind, drawn), poisoned, idle=int(kind.startswith("RESIZE")))
            count += 1
    assert count


def test_every_entry_of_the_table_is_drawn() -> None:
    assert set(OPERATORS) == {*tflite_loops.RULES, *tflite_loops._VIEWS}


def test_a_model() -> None:
    """What is read of the file: paddings, strides, axes that are constants."""
    ops = {op.type: op for op in memplan.capture(DATA / "tflite" / "convolution.tflite").graph.ops}
    loops = {kind: [(loop.extent, loop.reads) for loop in op.loops] for kind, op in ops.items()}
    assert loops["CONV_2D"][0] == (8, [(0, 1, 1, 1, 3, 1, 1)])  # input, axes, step, window, before, per
    assert loops["MAX_POOL_2D"][0] == (4, [(0, 1, 1, 2, 2, 0, 1)])
    assert [extent for extent, _ in loops["FULLY_CONNECTED"]] == [3, 64]


def test_integers_are_not_added_up() -> None:
    def extents(dtype: str, weights: str) -> list[int]:
        options = {"Padding": 1, "StrideH": 1, "StrideW": 1}
        shapes = [[1, 4, 5, 6], [7, 1, 1, 6]]
        operator = tflite_loops.Operator(
            shapes, [[1, 4, 5, 7]], [dtype, weights], "CONV_2D", options.get, lambda k: None
        )
        return [loop["extent"] for loop in tflite_loops.loops(operator, ["x", "w"], ["y"])]

    assert extents("float32", "float32") == [4, 5, 7, 20, 6]  # 20: rows and columns together
    assert extents("int8", "int8") == [4, 5, 7, 20]
    assert extents("float32", "int8") == []  # scaled by all rows of the input
