"""Control dependencies in the metadata of a model: pairs of operators of which the first has to run before the second.

The converter writes them for operators with side effects, and where it computes tensors again. Numbers are varints, as
in protocol buffers: the version, the count of subgraphs, and for each the count of its pairs and these, zigzag-encoded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

NAME = b"model_control_dependencies"
_VERSION = 1

Edges = list[tuple[int, int]]


def read(data: bytes) -> list[Edges]:
    """The pairs of each subgraph; none if the data is of another version. IndexError: it ends too early."""
    numbers = _numbers(data)
    try:
        if next(numbers) != _VERSION:
            return []
        counts = range(next(numbers))
        return [[(_signed(next(numbers)), _signed(next(numbers))) for _ in range(next(numbers))] for _ in counts]
    except (StopIteration, RuntimeError):
        raise IndexError(f"the metadata {NAME.decode()} ends too early") from None


def written(edges: Sequence[Edges]) -> bytes:
    numbers = [_VERSION, len(edges)]
    for pairs in edges:
        numbers.append(len(pairs))
        numbers += [2 * k if k >= 0 else -2 * k - 1 for pair in pairs for k in pair]
    return b"".join(map(_varint, numbers))


def _numbers(data: bytes) -> Iterator[int]:
    value = shift = 0
    for byte in data:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            yield value
            value = shift = 0


def _varint(number: int) -> bytes:
    found = bytearray()
    while number >= 128:
        found.append(number % 128 + 128)
        number //= 128
    return bytes([*found, number])


def _signed(number: int) -> int:
    return -(number // 2) - 1 if number % 2 else number // 2
