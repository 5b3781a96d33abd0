"""Sizes of dtypes: how many bytes a dense tensor of a dtype and a shape takes.

Elements narrower than a byte are packed, so sizes are counted in bits and rounded up to whole bytes once per
tensor. Underscores in a name are ignored: `float8_e4m3fn` and `float8e4m3fn` are the same dtype.
"""

from __future__ import annotations

import operator
import reprlib
from collections.abc import Sequence

from .text import number

INT64_MAX = 2**63 - 1

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
    """Bytes of a dense, packed tensor: ceil(elements * bits / 8).

    >>> nbytes("float32", [2, 3])
    24
    >>> nbytes("int4", [3])
    2

    ValueError if the dtype is unknown (the message lists the known ones), a dimension is negative, or it takes more
    bytes than int64 holds; TypeError if a dimension is not an int.
    """
    width = bits(dtype)
    size = (elements(shape) * width + 7) // 8
    if size > INT64_MAX:
        raise ValueError(f"{dtype} of shape {reprlib.repr(list(shape))} takes {size} bytes, more than int64 holds")
    return size


def elements(shape: Sequence[int]) -> int:
    """The product of the dimensions, each an int >= 0; ValueError if it is more than int64 holds."""
    dimensions = [_dimension(axis, value) for axis, value in enumerate(shape)]
    product = 0 if 0 in dimensions else 1
    for dimension in dimensions if product else ():
        product *= dimension
        if product > INT64_MAX:
            raise ValueError(f"shape {reprlib.repr(list(shape))} has more elements than int64 holds")
    return product


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
    try:
        dimension = operator.index(value)
    except TypeError:
        raise TypeError(f"shape[{axis}] must be an int >= 0, got {value!r}") from None
    if not 0 <= dimension <= INT64_MAX:
        raise ValueError(f"shape[{axis}] must be an int >= 0 that int64 holds, got {number(dimension)}")
    return dimension
