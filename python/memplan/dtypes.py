"""Sizes of dtypes: how many bytes a dense tensor of a dtype and a shape takes.

Elements narrower than a byte are packed, so sizes are counted in bits and rounded up to whole bytes once per
tensor. Underscores in a name are ignored: `float8_e4m3fn` and `float8e4m3fn` are the same dtype.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence

_INTEGERS = {f"{sign}int{bits}": bits for sign in ("", "u") for bits in (2, 4, 8, 16, 32, 64)}
_FLOATS = {"float64": 64, "float32": 32, "float16": 16, "bfloat16": 16}
_NARROW_FLOATS = {
    "float8e3m4": 8,
    "float8e4m3": 8,
    "float8e4m3b11fnuz": 8,
    "float8e4m3fn": 8,
    "float8e4m3fnuz": 8,
    "float8e5m2": 8,
    "float8e5m2fnuz": 8,
    "float8e8m0": 8,
    "float8e8m0fnu": 8,
    "float6e2m3": 6,
    "float6e2m3fn": 6,
    "float6e3m2": 6,
    "float6e3m2fn": 6,
    "float4e2m1": 4,
    "float4e2m1fn": 4,
}
_BITS = {"bool": 8, **_INTEGERS, **_FLOATS, **_NARROW_FLOATS, "complex64": 64, "complex128": 128}


def nbytes(dtype: str, shape: Sequence[int]) -> int:
    """Bytes of a dense, packed tensor.

    Parameters
    ----------
    dtype : str
        Name of the element type: `float32`, `bfloat16`, `int4`, `float8e4m3fn`, `bool`, `complex64`, ...
    shape : sequence of int
        Dimensions, each >= 0; empty for a scalar.

    Returns
    -------
    int
        ceil(elements * bits / 8), in bytes; exact, of any magnitude.

    Raises
    ------
    ValueError
        If the dtype is unknown (the message lists the known ones) or a dimension is negative.
    TypeError
        If a dimension is not an int.

    Examples
    --------
    >>> nbytes("float32", [2, 3])
    24
    >>> nbytes("int4", [3])
    2
    """
    width = bits(dtype)
    elements = math.prod(_dimension(axis, value) for axis, value in enumerate(shape))
    return (elements * width + 7) // 8


def typed_shape(dtype: str, shape: Sequence[int] | None) -> str:
    """For people: "float32[2,3]", which no table breaks; what is not known is left out."""
    return dtype + ("" if shape is None else f"[{','.join(map(str, shape))}]")


def is_known(dtype: str) -> bool:
    """Whether it is the name of a dtype."""
    return dtype.replace("_", "") in _BITS


def bits(dtype: str) -> int:
    """Bits of one element of a dtype; ValueError if it is unknown (the message lists the known ones)."""
    width = _BITS.get(dtype.replace("_", "")) if isinstance(dtype, str) else None
    if width is None:
        raise ValueError(f"dtype must be one of {', '.join(_BITS)}; got {dtype!r}")
    return width


def _dimension(axis: int, value: int) -> int:
    expected = f"shape[{axis}] must be an int >= 0, got {value!r}"
    try:
        dimension = operator.index(value)
    except TypeError:
        raise TypeError(expected) from None
    if dimension < 0:
        raise ValueError(expected)
    return dimension
