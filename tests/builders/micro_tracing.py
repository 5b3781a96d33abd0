"""What the table says of drawn operators of TFLite Micro beside what their kernels, as plain loops, read and write."""

from __future__ import annotations

import math
from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

from builders.micro_cases import draw
from memplan.tflite.reading.loops import Operator
from memplan.tflite.reading.micro import Kernel, ordered
from oracles import traces
from oracles.loops import window
from oracles.micro_kernels import KERNELS, Case, Log
from oracles.traces import Claim

BYTES = {"bool": 1, "int8": 1, "uint8": 1, "int16": 2, "int32": 4, "float32": 4, "int64": 8}
_WINDOWS = ("CONV_2D", "DEPTHWISE_CONV_2D", "AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D")
_SAME_ROWS = ("FULLY_CONNECTED", "SOFTMAX", "CONCATENATION")


class Traced(NamedTuple):
    """An operator, what the table says of it, and what its kernel reads and writes."""

    case: Case
    claim: Claim
    log: Log

    def wrong(self) -> list[str]:
        return traces.wrong(self.claim, self.log)

    def inputs(self) -> list[int]:
        """Those that the log has."""
        return sorted({code % 8 for code in self.log} & set(range(len(self.case.inputs))))

    def sizes(self, tensor: int) -> tuple[int, int]:
        return BYTES[self.case.dtypes[tensor]], BYTES[self.case.made_dtype]

    def distances(self, tensor: int) -> tuple[int, int]:
        """How many bytes behind an input the output may begin, at most 0, and at least 0: as near as is claimed."""
        before, behind = (traces.closest(self.claim, tensor, self.sizes(tensor), direction) for direction in (-1, 1))
        return -before, behind

    def lost(self) -> list[str]:
        """Runs the kernel with the output as near to each input as the claim allows, on both sides, byte by byte."""
        found = []
        for tensor in self.inputs():
            sizes, elements = self.sizes(tensor), math.prod(self.case.inputs[tensor])
            for at in self.distances(tensor):
                if traces.overwritten(self.log, tensor, at, sizes, elements):
                    found.append(f"input {tensor} is lost if the output begins {at} bytes behind it")
        return found

    def bytes_of(self, tensor: int) -> tuple[int, int]:
        """Of an input, and of the output."""
        given, made = self.sizes(tensor)
        return math.prod(self.case.inputs[tensor]) * given, math.prod(self.case.made) * made

    def apart(self, tensor: int) -> int:
        return sum(self.bytes_of(tensor))

    def together(self, tensor: int, claim: Claim | None = None) -> int:
        """Bytes of an input and the output where they overlap as far as is claimed; as far as the log shows if None."""
        given, made = self.bytes_of(tensor)
        found = []
        for direction in (-1, 1):
            if claim is None:
                at = traces.closest_of_log(self.claim, tensor, self.sizes(tensor), direction, self.log)
            else:
                at = traces.closest(claim, tensor, self.sizes(tensor), direction)
            found.append(max(at + given, made) if direction < 0 else max(at + made, given))
        return min(found)


def traced(kernel: Kernel, seed: int) -> Traced | None:
    """None if the table has nothing to say of what is drawn."""
    chance = Random(f"{kernel.operator} {seed}")
    case = draw(kernel.operator, chance.choice(kernel.dtypes), chance)
    known = ordered(operator_of(case), [str(k) for k in range(len(case.inputs))], ["y"])
    if known is None:
        return None
    return Traced(case, Claim(known.loops, known.reads_first, case.inputs, case.made), KERNELS[case.kind](case))


def operator_of(case: Case) -> Operator:
    return Operator(case.inputs, [case.made], case.dtypes, case.kind, case.option, case.constants.get, case.made_dtype)


def mistakes(one: Traced) -> Iterator[tuple[str, Claim]]:
    """Claims that are wrong of this operator, as its kernel reads all rows that the true one names."""
    claim = one.claim
    if len(claim.loops) == 2:
        yield "loops turned", claim._replace(loops=claim.loops[::-1])
    dilated = any(one.case.option(name, 1) > 1 for name in ("DilationHFactor", "DilationWFactor"))
    windows = one.case.kind in _WINDOWS and not dilated
    if (windows or one.case.kind in _SAME_ROWS) and claim.iterations < math.prod(claim.made):
        yield "reads first", claim._replace(reads_first=True)
    if not windows and one.case.kind not in (*_SAME_ROWS, "SLICE", "PAD"):
        return
    for name, change in (("padding", (0, 0, 1)), ("padding", (0, 0, -1)), ("window", (0, -1, 0)), ("step", (1, 0, 0))):
        for k, loop in enumerate(claim.loops):
            for tensor, (axis, *numbers) in loop["reads"].items():
                other = [n + more for n, more in zip(numbers, change, strict=True)]
                if loses(loop, one.case.inputs[int(tensor)], axis, numbers, other):
                    changed = {**loop, "reads": {**loop["reads"], tensor: [axis, *other]}}
                    yield f"{name} off by one", claim._replace(loops=[*claim.loops[:k], changed, *claim.loops[k + 1 :]])


def loses(loop: Any, shape: Any, axis: Any, numbers: list[int], other: list[int]) -> bool:
    """Whether an iteration of the other loop misses a row that there is."""
    first, last = axis if isinstance(axis, (list, tuple)) else (axis, axis)
    rows = range(math.prod(shape[first : last + 1]))
    return any(
        set(rows) & set(range(*window(numbers, i))) - set(range(*window(other, i))) for i in range(loop["extent"])
    )
