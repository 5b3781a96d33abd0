"""Products of matrices: operands that a library cannot read as they lie are copied."""

from __future__ import annotations

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
