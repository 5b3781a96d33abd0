"""Problems: columns of int64, copied and checked once."""

from __future__ import annotations

import array
import copy
import ctypes
import gc
import pickle
import subprocess
import sys
import weakref
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import memplan
from builders.strategies import BOUNDED, shaped_problems
from oracles import plain as oracle

COLUMNS = ("size", "first", "last", "alignment")


def int64(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def test_arrays_are_copied() -> None:
    given = [int64(4, 5), int64(0, 1), int64(2, 3), int64(1, 8)]
    problem = memplan.Problem(*given)
    for name, column in zip(COLUMNS, given, strict=True):
        assert not np.shares_memory(getattr(problem, name), column)
        before = column.tolist()
        column[:] = -1
        assert getattr(problem, name).tolist() == before


def test_parts_and_conflicts_are_copied() -> None:
    parts, conflicts = np.array([[0, 0, 2, 0, 1]]), np.array([[0, 1]])
    problem = memplan.Problem([4, 5], [0, 1], [2, 3], parts=parts, conflicts=conflicts)
    parts[:], conflicts[:] = -1, -1
    assert problem.parts is not None
    assert problem.parts.tolist() == [[0, 0, 2, 0, 1]]
    assert problem.conflicts is not None
    assert problem.conflicts.tolist() == [[0, 1]]


def test_columns_are_read_only_and_made_once() -> None:
    problem = memplan.Problem(int64(4, 5), int64(0, 1), int64(2, 3))
    for name in COLUMNS:
        column = getattr(problem, name)
        assert (column.dtype, column.shape) == (np.int64, (2,))
        assert getattr(problem, name) is column
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 1
        for view in (column, column[:], column.reshape(2, 1)):
            with pytest.raises(ValueError, match="WRITEABLE"):
                view.setflags(write=True)
        assert not isinstance(column.base, np.ndarray)
        with pytest.raises(TypeError):
            memoryview(column.base)


def written_by_force(column: np.ndarray, value: int) -> None:
    """As torch.from_numpy lets its tensors be written, with no more than a warning."""
    address = column.__array_interface__["data"][0]
    ctypes.memset(address, value, column.nbytes)


def test_what_is_written_by_force_into_a_column_reaches_no_plan() -> None:
    problem = memplan.Problem([4, 5], [0, 1], [2, 3])
    same = memplan.Problem([4, 5], [0, 1], [2, 3])
    for name in COLUMNS:
        written_by_force(getattr(problem, name), 0xFF)
    assert problem == same
    assert memplan.plan(problem).peak == 9


def test_a_column_outlives_its_problem() -> None:
    problem = memplan.Problem([4, 5], [0, 1], [2, 3])
    alive = weakref.ref(problem)
    column = problem.size
    del problem
    gc.collect()
    assert alive() is None
    assert column.tolist() == [4, 5]
    assert memplan.Problem([1], [0], [1]).size.tolist() == [1]  # perhaps where the other was


def test_arrays_may_change_while_they_are_planned() -> None:
    """A thread writes into the arrays all the time, which would break the memory of planners that read them."""
    done = subprocess.run([sys.executable, "-c", WRITER], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


WRITER = """
import threading
import numpy as np
import memplan

rng = np.random.default_rng(1)
first = rng.integers(0, 1000, 20000)
arrays = rng.integers(1, 1000, 20000), first, first + rng.integers(1, 50, 20000)
good = [column.copy() for column in arrays]
wild = rng.integers(-2**40, 2**40, 20000)
ended = threading.Event()

def write():
    while not ended.is_set():
        for column, values in zip(arrays, good):
            column[:] = wild
            column[:] = values

thread = threading.Thread(target=write)
thread.start()
for planner in ("linear_scan", "first_fit") * 5:
    try:
        memplan.plan(arrays, planner)
    except ValueError:
        pass
ended.set()
thread.join()
"""


def test_read_only_arrays_are_taken() -> None:
    size = int64(4)
    size.flags.writeable = False
    assert memplan.Problem(size, [0], [1]).size.tolist() == [4]


@pytest.mark.parametrize(
    "size",
    [
        [4, 5],
        (4, 5),
        range(4, 6),
        array.array("q", [4, 5]),
        np.array([4, 5], dtype=np.int8),
        np.array([4, 5], dtype=np.uint64),
        np.array([4, 5], dtype=">i8"),
        int64(4, 0, 5, 0)[::2],
        np.array([[4, 9], [5, 9]])[:, 0],
        memoryview(int64(4, 5)),
    ],
    ids=["list", "tuple", "range", "array", "int8", "uint64", "big-endian", "strided", "column", "memoryview"],
)
def test_anything_that_holds_integers_is_taken(size: object) -> None:
    assert memplan.Problem(size, [0, 1], [2, 3]).size.tolist() == [4, 5]


def test_views_outlive_problem_and_problem_outlives_arrays() -> None:
    size = np.arange(1000, dtype=np.int64)
    problem = memplan.Problem(size, np.zeros(1000, dtype=np.int64), np.ones(1000, dtype=np.int64))
    del size
    gc.collect()
    assert problem.size.tolist() == list(range(1000))
    view = problem.size
    del problem
    gc.collect()
    overwriting = [np.full(1000, -1, dtype=np.int64) for _ in range(100)]  # a freed column would be among these
    assert view.tolist() == list(range(1000))
    assert len(overwriting) == 100


def test_alignment_is_one_number_or_a_column() -> None:
    assert memplan.Problem([4, 5], [0, 0], [1, 1]).alignment.tolist() == [1, 1]
    assert memplan.Problem([4, 5], [0, 0], [1, 1], 16).alignment.tolist() == [16, 16]
    assert memplan.Problem([4, 5], [0, 0], [1, 1], alignment=[3, 8]).alignment.tolist() == [3, 8]


def test_alignment_may_be_a_numpy_integer() -> None:
    assert memplan.Problem([4], [0], [1], np.int64(16)).alignment.tolist() == [16]


def test_names() -> None:
    problem = memplan.Problem([4, 5], [0, 0], [1, 1], names=["a", "b"])
    assert problem.names == ["a", "b"]
    assert (problem.name(0), problem.name(1)) == ("a", "b")
    nameless = memplan.Problem([4, 5], [0, 0], [1, 1])
    assert nameless.names == []
    assert nameless.name(1) == "#1"


NAME_OF = """
import memplan
for names in ([], ["a", "b"]):
    for buffer in (2, -1, 10**8):
        try:
            memplan.Problem([4, 5], [0, 0], [1, 1], names=names).name(buffer)
        except IndexError as error:
            print(error)
"""


def test_names_of_buffers_that_are_not_there() -> None:
    """In a process of its own: reading beyond the names would end it."""
    result = subprocess.run([sys.executable, "-c", NAME_OF], capture_output=True, text=True)
    assert result.returncode == 0
    said = [f"buffer {buffer} is out of range: the problem has 2 buffers" for buffer in (2, -1, 10**8)]
    assert result.stdout.splitlines() == 2 * said


@pytest.mark.parametrize("names", ["ab", ["a", 3], ["a", None], ["a", "\ud800"], 5], ids=repr)
def test_names_that_are_no_list_of_text(names: object) -> None:
    with pytest.raises(memplan.errors.ProblemError, match="names must"):
        memplan.Problem([4, 5], [0, 0], [1, 1], names=names)


def test_empty() -> None:
    problem = memplan.Problem([], [], [])
    assert (len(problem), problem.load) == (0, 0)
    step, bytes_ = problem.load_curve()
    assert (step.tolist(), bytes_.tolist()) == ([], [])


def test_load_curve() -> None:
    problem = memplan.Problem([4, 5, 0], [0, 2, 9], [3, 5, 10])
    step, bytes_ = problem.load_curve()
    assert (step.dtype, bytes_.dtype) == (np.int64, np.int64)
    assert step.tolist() == [0, 2, 3, 5, 9, 10]
    assert bytes_.tolist() == [4, 9, 5, 0, 0, 0]
    assert problem.load == 9 == oracle.load(([4, 5, 0], [0, 2, 9], [3, 5, 10], [1, 1, 1]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([-8], [0], [1]), r"size\[0\] must be >= 0, got -8"),
        (([1, 1], [0, 3], [1, 3]), r"last\[1\] must be > first\[1\] = 3, got 3"),
        (([1, 1], [0, 3], [1, 2]), r"last\[1\] must be > first\[1\] = 3, got 2"),
        (([1], [0], [1], 0), r"alignment\[0\] must be >= 1, got 0"),
        (([1, 1], [0, 0], [1, 1], [4, -4]), r"alignment\[1\] must be >= 1, got -4"),
        (([1, 1], [0], [1, 1]), "first must have one entry per buffer: size has 2, first has 1"),
        (([1, 1], [0, 0], [1]), "last must have one entry per buffer: size has 2, last has 1"),
        (([1, 1], [0, 0], [1, 1], [1]), "alignment must have one entry per buffer: size has 2, alignment has 1"),
        (([1, 1], [0, 0], [1, 1], 1, ["a"]), "names must have one entry per buffer: size has 2, names has 1"),
        (([-1], [0], [1], 1, ["conv"]), r"size\[0\] \(buffer 'conv'\) must be >= 0, got -1"),
        (([1.0], [0], [1]), "size must hold integers that fit int64, got float64"),
        (([1], [0.5], [1]), "first must hold integers that fit int64, got float64"),
        (([True], [0], [1]), "size must hold integers that fit int64, got bool"),
        ((["1"], [0], [1]), "size must hold integers that fit int64, got <U1"),
        (([[1, 2]], [0, 0], [1, 1]), "size must have one dimension, got 2"),
        ((1, 0, 1), "size must have one dimension, got 0"),
        (([[1], [2, 3]], [0, 0], [1, 1]), "size must be a sequence of integers, got <class 'list'>"),
        (([2**63], [0], [1]), "size must fit int64, got 9223372036854775808"),
        (([2**70], [0], [1]), "size must hold integers that fit int64, got object"),
        (([1], [0], [1], 2**70), "alignment must hold integers that fit int64, got object"),
        (([1], [0], [1], True), "alignment must hold integers that fit int64, got bool"),
        (([1], [0], [1], 1.5), "alignment must hold integers that fit int64, got float64"),
        (([2**62, 2**62], [0, 5], [1, 6]), r"add up to at most 2\^63 - 1 bytes; .* at size\[1\] = 4611686018427387904"),
        (([2**63 - 1, 1], [0, 5], [1, 6]), r"add up to at most 2\^63 - 1 bytes"),
    ],
)
def test_bad_columns(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(memplan.errors.ProblemError, match=message):
        memplan.Problem(*arguments)


def test_the_largest_sum_is_taken() -> None:
    assert memplan.Problem([2**62, 2**62 - 1], [0, 0], [1, 1]).load == 2**63 - 1
    assert memplan.Problem([2**63 - 1, 0], [0, 0], [1, 1], [1, 2**62]).load == 2**63 - 1


def test_pickle_and_copy() -> None:
    problem = memplan.Problem(int64(4, 5), int64(0, 1), int64(2, 3), int64(1, 8), ["a", "ü"])
    for other in (pickle.loads(pickle.dumps(problem)), copy.deepcopy(problem)):
        assert other == problem
        assert not np.shares_memory(other.size, problem.size)
        assert not other.size.flags.writeable


def test_equality() -> None:
    def make(size: int = 4, first: int = 0, last: int = 2, alignment: int = 1, name: str = "a") -> memplan.Problem:
        return memplan.Problem([size], [first], [last], alignment, [name])

    assert make() == make()
    for other in (make(size=5), make(first=1), make(last=3), make(alignment=2), make(name="b")):
        assert make() != other
    assert make() != memplan.Problem([4], [0], [2])
    assert make() != ([4], [0], [2])


def test_repr() -> None:
    assert repr(memplan.Problem([4, 5], [0, 0], [1, 1])) == "<memplan.Problem: 2 buffers>"


@pytest.mark.parametrize(
    ("names", "message"), [(["a", "a"], "names must be unique, got 'a' again"), (["a", ""], "empty")]
)
def test_names_are_different_and_not_empty(names: list[str], message: str) -> None:
    with pytest.raises(memplan.errors.ProblemError, match=message):
        memplan.Problem([4, 5], [0, 0], [1, 1], names=names)


# Shapes and conflicts

# Three buffers of 10 bytes in steps [0, 4): the first is a step down, the last is not in use all the time.
TEN = ([10, 10, 10], [0, 0, 0], [4, 4, 4])
PARTS = [(2, 0, 10, 3, 4), (0, 4, 10, 0, 2), (0, 0, 4, 0, 4), (2, 0, 10, 0, 1)]
Shaped = tuple[tuple[list[int], ...], list[tuple[int, ...]], list[tuple[int, int]]]


def shaped(case: Shaped) -> memplan.Problem:
    problem, parts, conflicts = case
    return memplan.Problem(*problem, parts=parts, conflicts=conflicts)


def test_parts_come_back_sorted() -> None:
    problem = memplan.Problem(*TEN, parts=PARTS)
    assert problem.parts is not None
    assert (problem.parts.dtype, problem.parts.shape) == (np.int64, (4, 5))
    assert [tuple(row) for row in problem.parts.tolist()] == [
        (0, 0, 4, 0, 4),
        (0, 4, 10, 0, 2),
        (2, 0, 10, 0, 1),
        (2, 0, 10, 3, 4),
    ]
    assert problem.conflicts is None


def test_load_counts_what_is_in_use() -> None:
    problem = memplan.Problem(*TEN, parts=PARTS)
    step, bytes_ = problem.load_curve()
    assert (step.tolist(), bytes_.tolist()) == ([0, 1, 2, 3, 4], [30, 20, 14, 24, 0])
    assert problem.load == 30


def test_conflicts_come_back_once_each() -> None:
    problem = memplan.Problem(*TEN, conflicts=np.array([[2, 1], [1, 2], [0, 2], [2, 1]]))
    assert problem.conflicts is not None
    assert (problem.conflicts.dtype, problem.conflicts.tolist()) == (np.int64, [[0, 2], [1, 2]])
    assert problem.parts is None


@pytest.mark.parametrize("none", [None, [], np.empty((0, 5), dtype=np.int64), ()], ids=["None", "list", "array", "()"])
def test_no_parts_and_no_conflicts(none: Any) -> None:
    problem = memplan.Problem(*TEN, parts=none, conflicts=none)
    assert (problem.parts, problem.conflicts) == (None, None)
    assert problem == memplan.Problem(*TEN)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([(3, 0, 1, 0, 1)], r"parts must name buffers in \[0, 3\), got 3"),
        ([(-1, 0, 1, 0, 1)], r"parts must name buffers in \[0, 3\), got -1"),
        ([(2**40, 0, 1, 0, 1)], r"parts must name buffers in \[0, 3\), got 1099511627776"),
        ([(1, 0, 11, 0, 1)], r"bytes \[0, 11\) in steps \[0, 1\) of buffer 1 must lie within its 10 bytes"),
        ([(1, -1, 4, 0, 1)], r"bytes \[-1, 4\) .* must lie within its 10 bytes"),
        ([(1, 4, 4, 0, 1)], r"bytes \[4, 4\) .* must lie within its 10 bytes"),
        ([(1, 0, 4, 0, 5)], r"bytes \[0, 4\) in steps \[0, 5\) of buffer 1 must lie within its life \[0, 4\)"),
        ([(1, 0, 4, -1, 2)], r"must lie within its life \[0, 4\)"),
        ([(1, 0, 4, 2, 2)], r"must lie within its life \[0, 4\)"),
        ([(1, 0, 6, 0, 3), (1, 5, 7, 2, 4)], r"parts of buffer 1 overlap: bytes \[0, 6\) .* and bytes \[5, 7\) "),
        ([(1, 0, 6, 0, 3), (1, 0, 6, 0, 3)], "parts of buffer 1 overlap"),
        ([(1, 0, 1, 0)], r"parts must have 5 columns, got \(1, 4\)"),
        ([1, 0, 1, 0, 1], r"parts must have 5 columns, got \(5,\)"),
        ([(1, 0, 1.5, 0, 1)], "parts must hold integers that fit int64, got float64"),
        ([(1, 0, 2**63, 0, 1)], "parts must"),
        ("parts", "parts must"),
    ],
)
def test_bad_parts(parts: Any, message: str) -> None:
    with pytest.raises(memplan.errors.ProblemError, match=message):
        memplan.Problem(*TEN, parts=parts)


@pytest.mark.parametrize(
    ("conflicts", "message"),
    [
        ([(0, 3)], r"conflicts must name buffers in \[0, 3\), got 3"),
        ([(-1, 0)], r"conflicts must name buffers in \[0, 3\), got -1"),
        ([(1, 1)], "conflicts must be between two buffers, got buffer 1 twice"),
        ([(0, 1, 2)], r"conflicts must have 2 columns, got \(1, 3\)"),
        ([0, 1], r"conflicts must have 2 columns, got \(2,\)"),
        ([(0, True), (1, 0.5)], "conflicts must hold integers that fit int64, got float64"),
        (5, "conflicts must"),
    ],
)
def test_bad_conflicts(conflicts: Any, message: str) -> None:
    with pytest.raises(memplan.errors.ProblemError, match=message):
        memplan.Problem(*TEN, conflicts=conflicts)


@given(shaped_problems())
@BOUNDED
def test_shapes_and_conflicts_come_back(case: Shaped) -> None:
    _, parts, conflicts = case
    problem = shaped(case)
    got = problem.parts.tolist() if problem.parts is not None else []
    assert [tuple(row) for row in got] == sorted(parts)
    got = problem.conflicts.tolist() if problem.conflicts is not None else []
    assert {tuple(row) for row in got} == {tuple(sorted(pair)) for pair in conflicts}


@given(shaped_problems())
@BOUNDED
def test_shapes_and_conflicts_pickle_and_copy(case: Shaped) -> None:
    problem = shaped(case)
    for other in (pickle.loads(pickle.dumps(problem)), copy.deepcopy(problem)):
        assert other == problem
        assert np.array_equal(other.parts, problem.parts)
        assert np.array_equal(other.conflicts, problem.conflicts)


@given(shaped_problems(), st.randoms(use_true_random=False))
@BOUNDED
def test_equality_is_of_shapes_and_conflicts_in_any_order(case: Shaped, random: Any) -> None:
    columns, parts, conflicts = case
    problem = shaped(case)
    other = [(b, a) for a, b in random.sample(conflicts, len(conflicts))]
    assert shaped((columns, random.sample(parts, len(parts)), other)) == problem
    assert (shaped((columns, [], conflicts)) == problem) == (not parts)
    assert (shaped((columns, parts, [])) == problem) == (not conflicts)
    if parts:
        assert shaped((columns, parts[1:], conflicts)) != problem


@given(shaped_problems())
@BOUNDED
def test_load_is_that_of_the_bytes_in_use(case: Shaped) -> None:
    columns, parts, _ = case
    problem = shaped(case)
    first, last = columns[1:3]
    steps = range(min(first, default=0), max(last, default=0) + 1)
    loads = {step: oracle.load_at(columns, parts, step) for step in steps}
    assert problem.load == max(loads.values())
    step, bytes_ = problem.load_curve()
    assert (np.diff(step) > 0).all()
    curve = dict(zip(step.tolist(), bytes_.tolist(), strict=True))
    now = 0
    for t in steps:  # the curve says where it changes, and nothing changes elsewhere
        now = curve.get(t, now)
        assert now == loads[t]


@given(shaped_problems(), st.data())
@BOUNDED
def test_a_part_that_is_moved_out_is_refused(case: Shaped, data: st.DataObject) -> None:
    columns, parts, _ = case
    assume(parts)
    k = data.draw(st.integers(0, len(parts) - 1))
    buffer, begin, end, first, last = parts[k]
    wrong = data.draw(
        st.sampled_from(
            [
                (buffer, -1, end, first, last),
                (buffer, begin, columns[0][buffer] + 1, first, last),
                (buffer, end, end, first, last),
                (buffer, begin, end, columns[1][buffer] - 1, last),
                (buffer, begin, end, first, columns[2][buffer] + 1),
                (buffer, begin, end, last, first),
                (len(columns[0]), begin, end, first, last),
            ]
        )
    )
    with pytest.raises(memplan.errors.ProblemError, match="parts"):
        memplan.Problem(*columns, parts=[*parts[:k], wrong, *parts[k + 1 :]])


@given(shaped_problems(), st.data())
@BOUNDED
def test_parts_that_meet_are_refused(case: Shaped, data: st.DataObject) -> None:
    columns, parts, _ = case
    assume(parts)
    buffer, begin, end, first, last = data.draw(st.sampled_from(parts))
    inside = st.tuples(st.integers(begin, end - 1), st.integers(first, last - 1))
    byte, step = data.draw(inside)
    with pytest.raises(memplan.errors.ProblemError, match=f"parts of buffer {buffer} overlap"):
        memplan.Problem(*columns, parts=[*parts, (buffer, byte, byte + 1, step, step + 1)])


def layered() -> memplan.Problem:
    """One that asks for everything."""
    return memplan.Problem(
        [8, 8, 4, 16, 4, 8],
        [0, 0, 2, 3, 4, 6],
        [2, 3, 4, 6, 6, 8],
        [4, 1, 1, 8, 4, 1],
        names=list("abcdef"),
        parts=[(3, 0, 8, 3, 5), (3, 8, 16, 4, 6)],
        conflicts=[(0, 5), (2, 5)],
        pins=[0, -1, -1, -1, -1, -1],
        reserved=[(96, 128, 0, 4)],
        together=[(1, 2, 8), (2, 4, 16)],
        branches=["", "", "", "s/then", "s/else", ""],
    )


def test_a_subset_has_all_that_holds_among_its_buffers() -> None:
    some = layered().subset([4, 1, 5, 0])
    assert some.names == list("ebfa")
    assert [some.size.tolist(), some.first.tolist()] == [[4, 8, 8, 8], [4, 0, 6, 0]]
    assert [some.alignment.tolist(), some.last.tolist()] == [[4, 1, 1, 4], [6, 3, 8, 2]]
    assert some.parts is None
    assert some.conflicts is not None
    assert some.conflicts.tolist() == [[2, 3]]
    assert some.pins is not None
    assert some.pins.tolist() == [-1, -1, -1, 0]
    assert some.together is not None
    assert some.together.tolist() == [[0, 1, -24]]  # by one that is gone
    assert some.branches == ["s/else", "", "", ""]
    assert np.array_equal(some.reserved, layered().reserved)
    shaped = layered().subset([3])
    assert shaped.parts is not None
    assert shaped.parts.tolist() == [[0, 0, 8, 3, 5], [0, 8, 16, 4, 6]]
    assert layered().subset(range(6)).replace(together=layered().together) == layered()
    assert len(layered().subset([])) == 0


@pytest.mark.parametrize("buffers", [[0, 6], [-1], [2, 2]])
def test_a_subset_names_buffers_each_once(buffers: list[int]) -> None:
    with pytest.raises(memplan.errors.ProblemError, match=r"must name buffers in \[0, 6\).*got"):
        layered().subset(buffers)


def test_columns_are_replaced_and_checked() -> None:
    given = layered()
    assert given.replace() == given
    stricter = given.replace(alignment=[8, 4, 4, 8, 8, 4])
    assert stricter.alignment.tolist() == [8, 4, 4, 8, 8, 4]
    assert stricter.replace(alignment=given.alignment) == given
    assert given.replace(parts=None).parts is None
    assert given.replace(names=None).name(0) == "#0"
    assert given.replace(pins=None, reserved=None, together=None).pins is None
    with pytest.raises(memplan.errors.ProblemError, match="must have one entry per buffer"):
        given.replace(size=[1])
    with pytest.raises(memplan.errors.ProblemError, match=r"'b' and buffer 'c' .* share"):
        given.replace(last=[2, 4, 4, 6, 6, 8], together=[(1, 2, 0)])
    with pytest.raises(TypeError, match="replace takes columns of a Problem, got sizes"):
        given.replace(sizes=[1])
