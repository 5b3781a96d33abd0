"""Folders of `--xla_dump_to`: the module that is there, and what XLA has assigned."""

from __future__ import annotations

from pathlib import Path

import pytest

import memplan
from builders.hlo import SCHEDULED, TPU

GPU_FILE = "module_0002.jit_step.sm_9.0_gpu_after_optimizations.txt"
ASSIGNED = """BufferAssignment:
allocation 0: size 2048, parameter 1, shape |f32[16,32]| at ShapeIndex {}, maybe-live-out:
 value: <5 w.1 @0> (size=2048,offset=0): f32[16,32]{1,0}
 value: <9 new @0> (size=2048,offset=0): f32[16,32]{1,0}
allocation 1: size 512, parameter 0, shape |f32[8,16]| at ShapeIndex {}:
 value: <4 x.1 @0> (size=512,offset=0): f32[8,16]{1,0}
allocation 2: size 1024, maybe-live-out:
 value: <7 tanh_fusion @0> (size=1024,offset=0): f32[8,32]{1,0}
allocation 3: size 16, output shape is |(f32[16,32], f32[8,32])|, maybe-live-out:
 value: <11 tuple.1{} @0> (size=16,offset=0): (f32[16,32]{1,0}, f32[8,32]{1,0})
allocation 4: size 4, thread-local:
 value: <2 p0 @0> (size=4,offset=0): f32[]
allocation 5: size 64, constant:
 value: <3 c @0> (size=64,offset=0): f32[16]{0}
allocation 6: size 3072, preallocated-temp:
 value: <6 dot.1 @0> (size=1024,offset=0): f32[8,32]{1,0}
 value: <8 dot.2 @0> (size=2048,offset=1024): f32[16,32]{1,0}
allocation 7: size 4096, color 5, preallocated-temp:
 value: <10 kept @0> (size=4096,offset=0): f32[1024]{0}

Total bytes used: 10836 (10.6KiB)
"""


@pytest.mark.parametrize(
    "name",
    [
        "module_0000.jit_step.cpu_after_optimizations.txt",
        GPU_FILE,
        "module_0003.jit_step.gfx942_gpu_after_optimizations.txt",
        "module_0023.jit_step.after_optimizations.txt",
    ],
)
def test_the_only_module_of_a_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(SCHEDULED)
    (tmp_path / "module_0000.jit_step.before_optimizations.txt").write_text("not this one")
    (tmp_path / name.replace("optimizations.txt", "optimizations-live-range.txt")).write_text("nor this one")
    assert memplan.plan(str(tmp_path)).peak == memplan.plan(tmp_path / name).peak == 5120


def test_the_last_stage_of_a_module(tmp_path: Path) -> None:
    stages = "after_optimizations", "after_optimizations_after_buffer_assignment"
    for stage, text in zip(stages, (SCHEDULED, TPU), strict=True):
        (tmp_path / f"module_0023.jit_step.{stage}.txt").write_text(text)
    assert memplan.plan(tmp_path).peak == 2048


def test_of_several_modules_a_file_is_to_be_named(tmp_path: Path) -> None:
    for number in range(12):
        (tmp_path / f"module_{number:04}.jit_add.cpu_after_optimizations.txt").write_text(SCHEDULED * 2)
    (tmp_path / GPU_FILE).write_text(SCHEDULED)
    with pytest.raises(memplan.errors.SourceError) as raised:
        memplan.plan(tmp_path)
    said = str(raised.value)
    assert f"{tmp_path} has 13 modules; name the file of one: module_0000.jit_add" in said
    assert said.endswith("module_0009.jit_add.cpu_after_optimizations.txt and 3 more")
    for path in tmp_path.glob("*.jit_add.*"):
        path.unlink()
    assert memplan.plan(tmp_path).peak == 5120
    (tmp_path / GPU_FILE).rename(tmp_path / "module_0002.jit_step.before_optimizations.txt")
    with pytest.raises(
        memplan.errors.SourceError, match=r"expected a file \*after_optimizations\.txt, as --xla_dump_to"
    ):
        memplan.plan(tmp_path)


def test_what_xla_has_assigned_is_read_beside_a_module(tmp_path: Path) -> None:
    """Not what is only read, constants, what a thread has, and what lies on the host."""
    (tmp_path / GPU_FILE).write_text(SCHEDULED)
    assert "xla" not in memplan.compare(tmp_path, ["auto"])
    (tmp_path / GPU_FILE.replace(".txt", "-buffer-assignment.txt")).write_text(ASSIGNED)
    for source in (tmp_path, tmp_path / GPU_FILE):
        assert memplan.compare(source, ["auto"])["xla"].peak == 2048 + 1024 + 16 + 3072
