"""What other planners document of pins, reserved bytes, gaps, hints, pools and co-location: no plan is above them.

Figures alone are taken: sizes, steps, offsets, and the bytes that their tests or pages expect.

minimalloc   google/minimalloc, Apache 2.0: README.md, tests/solver_test.cc, tests/converter_test.cc
TVM          apache/tvm, Apache 2.0: tests/python/tir-usmp/test_tir_usmp_algo.py
TFLite Micro tensorflow/tflite-micro, Apache 2.0: lite/micro/memory_planner/greedy_memory_planner_test.cc and
             non_persistent_buffer_planner_shim_test.cc, lite/micro/micro_allocator_test.cc, docs/memory_management.md
XLA          openxla/xla, Apache 2.0: service/heap_simulator/heap_simulator_test.cc
IREE         iree-org/iree, Apache 2.0 with LLVM exceptions: Stream/Transforms/test/layout_slices.mlir
ONNX Runtime microsoft/onnxruntime, MIT: test/framework/allocation_planner_test.cc
dsa-solver   tonibohnlein/dsa-solver, Apache 2.0: tests/dsa_tests.cpp, tests/data/pypto_structured_v1.json
OmniMalloc   fpedd/omnimalloc, Apache 2.0: README.md, examples/01_basic.py, tests/unit/allocators/test_pinning.py
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

import memplan
from memplan import Problem
from memplan.plans import Pool

Row = tuple[int, int, int]  # bytes, first step, step after the last


class Example(NamedTuple):
    """Buffers, with what is asked of them, and the peak that their source expects; None: nothing fits `capacity`."""

    rows: list[Row]
    peak: int | None
    capacity: int | None = None
    asked: Mapping[str, Any] = MappingProxyType({})  # columns of Problem
    at: Mapping[int, int] = MappingProxyType({})  # offsets that are expected, where pins or the room leave no choice


def problem_of(example: Example) -> Problem:
    size, first, last = (list(column) for column in zip(*example.rows, strict=True))
    return Problem(size, first, last, **example.asked)


def pins(count: int, **at: int) -> list[int]:
    """b2=1: buffer 2 is pinned to offset 1."""
    return [at.get(f"b{b}", -1) for b in range(count)]


def pairs(conflicts: str) -> list[tuple[int, int]]:
    """Of letters, "abc": the first conflicts with those after it, if each of them says the same of it."""
    said = {row[0]: set(row[1:]) for row in conflicts.split()}
    letters = sorted(said)
    return [
        (letters.index(a), letters.index(b))
        for a in letters
        for b in letters
        if a < b and b in said[a] and a in said[b]
    ]


FIVE = [(1, 1, 2), (1, 0, 2), (2, 2, 3), (1, 1, 3), (2, 0, 1)]
STAIRS = [(30, 0, 108), (50, 36, 144), (42, 84, 144), (42, 84, 129), (70, 99, 144), (30, 0, 144)]
STAIRS_IN_USE = [  # buffer, bytes and steps: the windows of its gaps, and all bytes in between
    *[(0, 0, 30, 0, 36), (0, 10, 30, 36, 72), (0, 20, 30, 72, 108)],
    *[(1, 20, 30, 36, 72), (1, 10, 40, 72, 108), (1, 0, 50, 108, 144)],
    *[(2, 0, 42, 84, 114), (2, 0, 28, 114, 129), (2, 0, 14, 129, 144)],
    *[(3, 0, 42, 84, 99), (3, 14, 42, 99, 114), (3, 28, 42, 114, 129)],
    *[(4, 28, 42, 99, 114), (4, 14, 56, 114, 129), (4, 0, 70, 129, 144)],
    *[(5, 0, 30, 0, 72), (5, 0, 20, 72, 108), (5, 0, 10, 108, 144)],
]
RESNET = [  # sid_2, PaddedInput, Conv2dOutput, sid_8, PaddedInput_1, Conv2dOutput_1, sid_7, PaddedInput_2, …
    *[(720_000, 0, 8), (720_000, 1, 3), (256, 2, 3), (720_000, 2, 4), (758_912, 3, 5), (256, 4, 5)],
    *[(720_000, 4, 6), (720_000, 5, 7), (256, 6, 7), (5_760_000, 6, 9), (720_000, 7, 9), (256, 8, 9)],
]
PERSON_DETECTION = [  # bytes, in the order of the ops: each tensor lives from the op that makes it to the next
    *[18432, 18432, 36864, 9216, 18432, 18432, 18432, 4608, 9216, 9216, 9216, 2304, 4608, 4608, 4608, 4608],
    *[4608, 4608, 4608, 4608, 4608, 4608, 4608, 1152, 2304, 2304, 2304, 256, 3],
]
LINEAR = "ab bac cbd dce edf fe"
FANOUT = "abc bace ceabd dbfce ecfbd fdef gf"

EXAMPLES = {
    "minimalloc: README": Example([(4, 0, 3), (4, 3, 9), (4, 0, 9), (4, 9, 21), (4, 0, 21)], 12, 12),
    "minimalloc: two buffers": Example([(2, 0, 2), (2, 1, 3)], 4, 4),
    "minimalloc: two partitions": Example([(2, 0, 2), (2, 1, 3), (2, 3, 5), (2, 4, 6)], 4, 4),
    "minimalloc: even alignment": Example([(1, 0, 2), (1, 0, 2)], 3, 4, {"alignment": 2}),
    "minimalloc: infeasible, tricky": Example(
        [(3, 0, 1), (1, 0, 3), (3, 4, 5), (1, 2, 5), (2, 1, 2), (2, 3, 4), (1, 1, 4)], None, 4
    ),
    "minimalloc: a fixed buffer": Example(FIVE, 3, 3, {"pins": pins(5, b2=1)}, {2: 1}),
    "minimalloc: a fixed buffer, infeasible": Example(FIVE, None, 3, {"pins": pins(5, b0=0)}),
    "minimalloc: a gap": Example(
        [(2, 0, 4), (2, 1, 3)], 2, 2, {"parts": [(0, 0, 2, 0, 1), (0, 0, 2, 3, 4)]}, {0: 0, 1: 0}
    ),
    "minimalloc: tetris": Example(
        [(2, 0, 10), (2, 0, 10)],
        3,
        3,
        {"parts": [(0, 0, 1, 0, 5), (0, 0, 2, 5, 10), (1, 0, 2, 0, 5), (1, 1, 2, 5, 10)]},
    ),
    "minimalloc: stairs": Example(STAIRS, 144, 144, {"parts": STAIRS_IN_USE}),
    "TVM: linear": Example(
        [(size, k, k + 1) for k, size in enumerate((10, 20, 100, 40, 50, 50))], 140, None, {"conflicts": pairs(LINEAR)}
    ),
    "TVM: fanout": Example(
        [(size, k, k + 1) for k, size in enumerate((10, 20, 100, 40, 50, 60, 70))],
        190,
        None,
        {"conflicts": pairs(FANOUT)},
    ),
    "TVM: part of a ResNet": Example(RESNET, 7_200_256),
    "TFLite Micro: basics": Example([(10, 0, 2), (20, 2, 4)], 20, None, {}, {0: 0, 1: 0}),
    "TFLite Micro: medium": Example([(10, 0, 2), (20, 1, 3), (30, 2, 4), (40, 3, 5), (50, 0, 2)], 90),
    "TFLite Micro: overlap": Example([(100, 0, 2), (50, 2, 4), (20, 1, 3)], 120),
    "TFLite Micro: person detection": Example(
        [(9216, 0, 30), *((size, k, k + 2) for k, size in enumerate(PERSON_DETECTION))], 241_026
    ),
    "TFLite Micro: a given plan": Example([(10, 0, 2), (20, 0, 2)], 30, None, {"pins": [0, 10]}, {0: 0, 1: 10}),
    "TFLite Micro: offline": Example(
        [(48, 0, 1), (48, 0, 2), (48, 1, 3), (48, 2, 3)], 96, None, {"pins": [0, 48, 0, 48]}
    ),
    "TFLite Micro: offline and online": Example(
        [(48, 0, 1), (48, 0, 1), (48, 0, 2), (48, 1, 2), (48, 1, 2)],
        144,
        None,
        {"pins": [0, 48, -1, 0, -1]},
        {2: 96, 4: 48},
    ),
    "XLA: decreasing size": Example([(10, 0, 3), (20, 1, 5), (40, 2, 6), (30, 3, 7), (50, 4, 8)], 140),
    "XLA: colocated": Example([(40, 0, 1), (20, 1, 2), (40, 2, 3)], 40, None, {"together": [(0, 2, 0)]}),
    "XLA: colocated II": Example([(40, 0, 1), (20, 1, 4), (40, 2, 3)], 60, None, {"together": [(0, 2, 0)]}),
    "XLA: colocated III": Example([(10, 0, 1), (30, 1, 4), (10, 2, 3)], 40, None, {"together": [(0, 2, 0)]}),
    "XLA: colocated, smaller": Example([(40, 0, 1), (20, 1, 4), (30, 2, 3)], 50, None, {"together": [(0, 2, 0)]}),
    "XLA: colocated, larger": Example([(40, 0, 1), (20, 1, 4), (50, 2, 3)], 70, None, {"together": [(0, 2, 0)]}),
    "IREE: slices": Example(
        [(112, 0, 2), (112, 1, 3), (112, 2, 4), (208, 0, 5), (208, 5, 7), (112, 5, 9)], 432, None, {"alignment": 16}
    ),
    "dsa-solver: several lives": Example(
        [(32, 0, 6), (32, 2, 4), (32, 1, 3)], 64, None, {"parts": [(0, 0, 32, 0, 2), (0, 0, 32, 4, 6)]}
    ),
    "dsa-solver: separated, pinned and reserved": Example(
        [(16, 0, 2), (16, 2, 4), (16, 0, 4)],
        64,
        None,
        {"alignment": 16, "conflicts": [(0, 1)], "pins": pins(3, b2=32), "reserved": [(0, 16, -(2**63), 2**63 - 1)]},
        {2: 32},
    ),
    "OmniMalloc: README": Example([(64, 0, 10), (64, 12, 20), (32, 5, 15)], 96),
    "OmniMalloc: basic": Example([(5, 0, 10), (5, 12, 20), (4, 5, 15), (5, 15, 23)], 10),
    "OmniMalloc: a pin": Example([(10, 0, 5), (10, 0, 5)], 110, None, {"pins": [100, -1]}),
    "OmniMalloc: a pin in the way": Example([(10, 0, 5), (10, 2, 7)], 20, None, {"pins": [0, -1]}, {1: 10}),
    "OmniMalloc: a pin, later": Example([(10, 0, 5), (10, 5, 9)], 10, None, {"pins": [0, -1]}, {1: 0}),
    "OmniMalloc: the gap below a pin": Example(
        [(10, 0, 5), (20, 0, 5), (90, 0, 5)], 150, None, {"pins": [50, -1, -1]}, {1: 0, 2: 60}
    ),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_never_above_what_is_documented(name: str) -> None:
    example = EXAMPLES[name]
    problem = problem_of(example)
    if example.peak is None:
        with pytest.raises(memplan.InfeasibleError) as refused:
            memplan.plan(problem, capacity=example.capacity)
        assert refused.value.proven
        assert example.capacity is not None
        proof = memplan.refute(problem, example.capacity)
        assert proof is not None
        proof.check(problem)
        return
    plan = memplan.plan(problem)
    assert plan.optimal
    assert plan.peak <= example.peak
    if plan.peak == example.peak:
        assert {b: int(plan.offsets[b]) for b in example.at} == example.at
    if example.capacity is not None:
        assert memplan.plan(problem, capacity=example.capacity).peak <= example.capacity


def test_only_these_are_below() -> None:
    """Two of TFLite Micro: what its greedy rule makes 90 needs 80, and the other asks for less than the sum."""
    below = {n for n, e in EXAMPLES.items() if e.peak is not None and memplan.plan(problem_of(e)).peak < e.peak}
    assert below == {"TFLite Micro: medium", "TFLite Micro: person detection"}


# Columns of files


def test_minimalloc_files(tmp_path: Path) -> None:
    """converter_test.cc: columns in any order, gaps with and without windows, hints, offsets as pins."""
    path = tmp_path / "problem.csv"
    path.write_text(
        "id,lower,upper,size,alignment,hint,gaps\n0,5,10,15,1,0,\n1,6,12,18,2,-1,7-8 9-10@1:16\n", encoding="utf-8"
    )
    problem = memplan.read_problem(path)
    assert sorted(problem.parts.tolist()) == [[1, 0, 18, 6, 7], [1, 0, 18, 8, 9], [1, 0, 18, 10, 12], [1, 1, 16, 9, 10]]
    path.write_text("lower,size,offset,id,upper\n6,18,21,1,12\n5,15,1,0,10\n", encoding="utf-8")
    assert memplan.read_problem(path).pins.tolist() == [21, 1]


def test_minimalloc_names_what_cannot_be_placed() -> None:
    """ComputeIrreducibleInfeasibleSubset."""
    problem = Problem([2] * 5, [0, 0, 2, 3, 4], [2, 2, 5, 6, 7])
    found = memplan.explaining.obstruction(problem, 4)
    assert found is not None
    assert (found.buffers, found.irreducible) == (("#2", "#3", "#4"), True)
    assert found.proof is not None
    found.proof.check(found.problem)


# Hints


def test_xla_hints() -> None:
    """ChunkCandidate: the heap grows to 35, four of five get the offset that they prefer. Here 30 are enough."""
    rows = {"a": (5, 6, 11), "b": (10, 3, 6), "c": (5, 2, 9), "d": (5, 0, 3), "e": (10, 11, 14), "f": (5, 3, 6)}
    rows["g"] = (10, 4, 9)
    size, first, last = zip(*rows.values(), strict=True)
    preferred = {"a": 5, "d": 10, "e": 10, "f": 20, "g": 15}
    plan = memplan.plan(Problem(size, first, last, names=list(rows)), keep=preferred)
    assert plan.peak == 30
    assert len(plan.moved) <= 2
    assert sorted(plan.moved) == sorted(n for n, at in preferred.items() if plan[n].offset != at)


def test_omnimalloc_extends_an_earlier_plan() -> None:
    """What was placed stays where it is, and more is placed around it: pins, or an earlier plan to keep."""
    first = memplan.plan(([16] * 8, list(range(8)), [k + 3 for k in range(8)]))
    size, born = [16] * 8 + [24] * 4, [*range(8), *range(4)]
    dead = [k + 3 for k in range(8)] + [k + 5 for k in range(4)]
    fixed = memplan.plan(Problem(size, born, dead, pins=[*first.offsets.tolist(), *[-1] * 4]))
    kept = memplan.plan(Problem(size, born, dead), keep=first)
    assert fixed.offsets[:8].tolist() == first.offsets.tolist()
    assert kept.peak <= fixed.peak


# Pools


def test_tvm_pools() -> None:
    """test_mobilenet_subgraph: 200,704 bytes of fast memory; TVM needs 1,117,462 to 1,418,560 of slow memory beside."""
    names = ["sid_9", "PaddedInput_7", "Conv2dOutput_7", "sid_8", "tensor_2"]
    problem = Problem([301_056, 314_646, 256, 802_816, 200_704], [0, 1, 2, 2, 3], [2, 3, 3, 4, 4], names=names)
    assert problem.load == 1_117_718
    plan = memplan.plan(problem, pools=[Pool("fast", 200_704), Pool("slow")])
    assert plan.pools is not None
    assert plan.pools.cost_optimal
    assert plan.pools["fast"].peak <= 200_704
    assert plan.pools["slow"].peak <= 1_117_462
    assert {name for name in names if plan[name].pool == "fast"} == {"Conv2dOutput_7", "tensor_2"}


def test_tvm_pools_that_are_too_small() -> None:
    """test_no_pool_error: three buffers of 10 bytes that conflict, and 10 bytes."""
    with pytest.raises(memplan.InfeasibleError, match="into 'tiny'"):
        memplan.plan(([10] * 3, [0] * 3, [1] * 3), pools=[Pool("tiny", 10)])


def test_dsa_solver_pools() -> None:
    """TestFixedPoolsAreIndependent: each buffer in its pool, both at offset 0."""
    pools = [Pool("left", 64, accepts=["#0"]), Pool("right", 64, accepts=["#1"])]
    plan = memplan.plan(([32, 48], [0, 0], [4, 4]), pools=pools)
    assert plan.pools is not None
    assert [plan.pools[name].peak for name in ("left", "right")] == [32, 48]


# Graphs: what must share bytes, what may


def network(alias: bool, **more: int) -> dict[str, Any]:
    """Five tensors in a chain, of which two may share bytes in place; or must, as views."""
    size = {"X1": 64, "X2": 64, "X3": 64, "X4": 64} | more
    names = list(size)
    kinds = {names[0]: "input", names[-1]: "output"}
    how = "alias" if alias else "inplace"
    ops: list[dict[str, Any]] = [{"inputs": [a], "outputs": [b]} for a, b in pairwise(names)]
    ops[1][how] = [{"output": "X3", "input": "X2"}]
    tensors = [{"name": n, "bytes": b, "kind": kinds.get(n, "intermediate")} for n, b in size.items()]
    return {"tensors": tensors, "ops": ops, "outputs": [names[-1]]}


def test_onnx_runtime_in_place() -> None:
    """InPlaceTest and InPlaceSizeMismatchTest: X3 takes the bytes of X2 where sizes agree, else X4 does."""
    plan = memplan.plan(network(alias=False))
    assert plan["X3"].offset == plan["X2"].offset
    assert [(shared.output, shared.input) for shared in plan.sharing] == [("X3", "X2")]
    plan = memplan.plan(network(alias=False, X3=96, X5=64))
    assert plan.sharing == ()
    assert plan.peak == 96 + 64
    assert plan["X4"].offset in (plan["X2"].offset, plan["X5"].offset)


def test_dsa_solver_must_alias() -> None:
    """TestColocation: buffers alive at once at one address. In a graph that is a view."""
    plan = memplan.plan(network(alias=True))
    assert plan["X3"].offset == plan["X2"].offset
    with pytest.raises(memplan.errors.ProblemError, match="share 16 bytes while both are alive"):
        Problem([32, 16], [0, 0], [4, 4], together=[(0, 1, 0)])


def test_omnimalloc_pins_with_vector_clocks() -> None:
    """Cores that know little of each other: the buffers conflict, and the pin holds."""
    plan = memplan.plan(Problem([10, 10], [[0, 0], [0, 0]], [[4, 1], [1, 4]], pins=[64, -1]))
    assert plan.offsets.tolist() == [64, 0]
