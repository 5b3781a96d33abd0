"""Sizes of dtypes."""

from __future__ import annotations

import numpy as np
import pytest

from memplan.dtypes import bits, nbytes, typed_shape


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        ("float64", 80), ("float32", 40), ("float16", 20), ("bfloat16", 20), ("bool", 10),
        ("int64", 80), ("int32", 40), ("int16", 20), ("int8", 10), ("int4", 5), ("int2", 3),
        ("uint64", 80), ("uint32", 40), ("uint16", 20), ("uint8", 10), ("uint4", 5), ("uint2", 3),
        ("complex64", 80), ("complex128", 160), ("float8e4m3fn", 10), ("float8_e5m2", 10),
        ("float8e8m0", 10), ("float6e2m3", 8), ("float4e2m1", 5), ("float4_e2m1fn", 5),
    ],
)  # fmt: skip
def test_ten_elements(dtype, expected):
    assert nbytes(dtype, [2, 5]) == expected


@pytest.mark.parametrize(("shape", "expected"), [([], 1), ([0], 0), ([1], 1), ([2], 1), ([3], 2), ([5, 3], 8)])
def test_sub_byte_elements_are_packed_once_per_tensor(shape, expected):
    assert nbytes("int4", shape) == expected


@pytest.mark.parametrize("name", ["float64", "float32", "float16", "int8", "uint32", "bool", "complex128"])
def test_agrees_with_numpy(name):
    assert nbytes(name, (3, 7)) == np.zeros((3, 7), name).nbytes


def test_sizes_are_exact_as_far_as_int64_goes():
    assert nbytes("int8", [2**31 - 1, 2**32]) == 2**63 - 2**32
    assert nbytes("int8", [2**40, 0, 2**40]) == 0
    with pytest.raises(
        ValueError, match=r"float32 of shape \[1073741824, 2147483648\] takes 9223372036854775808 bytes"
    ):
        nbytes("float32", [2**30, 2**31])
    for shape in ([2**40, 2**40], [2**32] * 100_000):
        with pytest.raises(ValueError, match="has more elements than int64 holds"):
            nbytes("int8", shape)
    with pytest.raises(ValueError, match=r"shape\[0\] must be .*, got an integer of 16610 bits"):
        nbytes("int8", [10**5000])


def test_dimensions_may_be_numpy_integers():
    assert nbytes("float32", list(np.array([2, 3]))) == 24


def test_unknown_dtype_lists_the_known_ones():
    with pytest.raises(ValueError, match=r"dtype must be one of bool, .*bfloat16.*; got 'string'"):
        nbytes("string", [1])


def test_negative_dimension():
    with pytest.raises(ValueError, match=r"shape\[1\] must be an int >= 0 that int64 holds, got -3"):
        nbytes("float32", [2, -3])


def test_dimension_that_is_no_int():
    with pytest.raises(TypeError, match=r"shape\[0\] must be an int >= 0, got 2.5"):
        nbytes("float32", [2.5])


def test_bits_of_an_element():
    assert [bits(dtype) for dtype in ("float32", "bool", "int4", "float6_e2m3", "complex128")] == [32, 8, 4, 6, 128]
    with pytest.raises(ValueError, match=r"dtype must be one of .*; got 'float12'"):
        bits("float12")


def test_a_dtype_with_its_shape() -> None:
    assert typed_shape("float32", (2, 3)) == "float32[2,3]"
    assert typed_shape("float32", []) == "float32[]"
    assert typed_shape("float32", None) == "float32"
    assert typed_shape("", None) == ""
