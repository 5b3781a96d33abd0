"""Products of matrices: operands that a library cannot read as they lie are copied."""

from __future__ import annotations

import math

from torch import Tensor

from .called import Called
from .operands import nbytes


def product(call: Called) -> int:
    """Of two matrices."""
    names = [name for name in ("self", "mat1", "mat2") if call.tensor(name) is not None]
    return sum(_matrix(call.given(name)) for name in names[-2:])


def with_vector(call: Called) -> int:
    """Of a matrix and a vector."""
    return _matrix(call.given("mat" if call.tensor("mat") is not None else "self"))


def _matrix(matrix: Tensor) -> int:
    rows, columns = matrix.shape
    by_row = matrix.stride(1) == 1 and matrix.stride(0) >= max(1, columns)
    by_column = matrix.stride(0) == 1 and matrix.stride(1) >= max(1, rows)
    return 0 if by_row or by_column else nbytes(matrix)


def trilinear(call: Called) -> int:
    """Slice by slice along an axis: the product of two tensors, and that with the third."""
    axis, added = int(call["unroll_dim"]), set(call["sumdim"])
    shapes = []
    for number in (1, 2, 3):
        shape, expanded = list(call.given(f"i{number}").shape), call[f"expand{number}"]
        for place in sorted(expanded):
            shape.insert(place, 1)
        shapes.append([1 if place == axis else size for place, size in enumerate(shape)])
    first, second, third = shapes
    later = {place for place in added if place != axis and place not in call["expand3"]}
    pair = [max(a, b) for a, b in zip(first, second, strict=True)]
    product = [1 if place in added - later - {axis} else size for place, size in enumerate(pair)]
    whole = [1 if place in later else max(a, b) for place, (a, b) in enumerate(zip(product, third, strict=True))]
    return (math.prod(product) + math.prod(whole)) * call.made.dtype.itemsize
