"""Problems: columns of int64, used as they are, checked once."""

from __future__ import annotations

import array
import copy
import gc
import pickle
import subprocess
import sys

import numpy as np
import pytest

import memplan
import oracle

COLUMNS = ("size", "first", "last", "alignment")


def int64(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def test_int64_arrays_are_not_copied() -> None:
    given = [int64(4, 5), int64(0, 1), int64(2, 3), int64(1, 8)]
    problem = memplan.Problem(*given)
    for name, column in zip(COLUMNS, given, strict=True):
        assert np.shares_memory(getattr(problem, name), column)


def test_columns_are_read_only_int64_views() -> None:
    problem = memplan.Problem(int64(4, 5), int64(0, 1), int64(2, 3))
    for name in COLUMNS:
        column = getattr(problem, name)
        assert (column.dtype, column.shape) == (np.int64, (2,))
        assert np.shares_memory(column, getattr(problem, name))
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 1


def test_given_arrays_stay_writeable() -> None:
    size = int64(4)
    memplan.Problem(size, [0], [1])
    size[0] = 5


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
import sys
import memplan
try:
    memplan.Problem([4, 5], [0, 0], [1, 1], names=sys.argv[2:]).name(int(sys.argv[1]))
except IndexError as error:
    print(error)
"""


@pytest.mark.parametrize("names", [[], ["a", "b"]], ids=["nameless", "named"])
@pytest.mark.parametrize("buffer", [2, -1, 10**8])
def test_names_of_buffers_that_are_not_there(names: list[str], buffer: int) -> None:
    """In a process of its own: reading beyond the names would end it."""
    result = subprocess.run([sys.executable, "-c", NAME_OF, str(buffer), *names], capture_output=True, text=True)
    assert result.returncode == 0
    assert result.stdout == f"buffer {buffer} is out of range: the problem has 2 buffers\n"


@pytest.mark.parametrize("names", ["ab", ["a", 3], ["a", None], ["a", "\ud800"], 5], ids=repr)
def test_names_that_are_no_list_of_text(names: object) -> None:
    with pytest.raises(memplan.ProblemError, match="names must"):
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
    with pytest.raises(memplan.ProblemError, match=message):
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
    with pytest.raises(memplan.ProblemError, match=message):
        memplan.Problem([4, 5], [0, 0], [1, 1], names=names)
