"""Bytes that an overlapped plan takes for dead may hold anything: a network runs the same with garbage in them."""

from __future__ import annotations

from pathlib import Path

import pytest

import memplan

pytest.importorskip("tflite_micro")
from builders.micro_garbage import Fill, dead, model, results

RUNS = 100
PLACE = ("input", "intermediate", "output")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("garbage") / "model.tflite"
    file.write_bytes(model())
    return file


@pytest.fixture(scope="module")
def plan(path: Path) -> memplan.Plan:
    found = planned(path)
    assert found.peak < memplan.plan(path, place=PLACE).peak
    return found


@pytest.fixture(scope="module")
def wanted(plan: memplan.Plan) -> list[bytes]:
    """The results of tensors that lie apart."""
    apart, end = dict[str, int](), 0
    for name, slot in plan.tensors.items():
        apart[name] = end
        end += slot.bytes
    found = results(model(offsets=apart), RUNS)
    assert len(set(found)) == RUNS
    return found


def planned(path: Path, pin: dict[str, int] | None = None) -> memplan.Plan:
    return memplan.plan(path, place=PLACE, overlap="tflite-micro", pin=pin)


def offsets(plan: memplan.Plan, fills: list[Fill]) -> dict[str, int]:
    return {name: slot.offset for name, slot in plan.tensors.items()} | {fill.name: fill.begin for fill in fills}


def test_results_are_equal_with_garbage_in_dead_bytes(plan: memplan.Plan, wanted: list[bytes], tmp_path: Path) -> None:
    """memplan takes the garbage for tensors like others, and proves that it lies in nothing that lives."""
    fills = dead(plan)
    assert {fill.after for fill in fills} == set(range(-1, len(plan.graph.ops) - 1))
    path, out = tmp_path / "garbage.tflite", tmp_path / "planned.tflite"
    path.write_bytes(model(fills))
    filled = planned(path, offsets(plan, fills))
    assert filled.peak == plan.peak
    filled.to_tflite(out, path)
    assert results(out.read_bytes(), RUNS) == wanted


def test_garbage_of_one_byte_too_much_is_found(plan: memplan.Plan, wanted: list[bytes]) -> None:
    fills = dead(plan)
    assert results(model(fills, offsets(plan, fills)), RUNS) == wanted
    for k, fill in enumerate(fills):
        wider = fill._replace(begin=fill.begin - 1) if fill.begin > 0 else fill._replace(end=fill.end + 1)
        reaching = [*fills[:k], wider, *fills[k + 1 :]]
        assert results(model(reaching, offsets(plan, reaching)), RUNS) != wanted, fill


def test_what_lies_one_pixel_too_far_is_found(path: Path, plan: memplan.Plan, wanted: list[bytes]) -> None:
    """memplan takes offsets at which results are equal, and refuses those at which they are not."""
    refused, shapes = 0, {tensor.name: tensor.shape for tensor in plan.graph.tensors}
    for name, slot in plan.tensors.items():
        pixel = shapes[name][-1]
        for offset in (slot.offset - pixel, slot.offset + pixel):
            if offset < 0:
                continue
            moved = offsets(plan, []) | {name: offset}
            try:
                planned(path, moved)
                taken = True
            except memplan.errors.ProblemError:
                taken, refused = False, refused + 1
            assert (results(model(offsets=moved), RUNS) == wanted) == taken, (name, offset)
    assert refused >= 6
