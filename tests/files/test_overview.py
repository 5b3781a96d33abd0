"""The file from which the overview of greedy, beam and exhaustive planning draws a plan, as memplan reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

import memplan

CSV = """\
tensor_name,size,offset,start_time,end_time
conv1_weight,102400,0,1,10
layer1_activation,204800,102400,5,15
pool1_output,102400,102400,16,25
conv2_weight,204800,0,11,30
layer2_activation,409600,204800,20,35
output,102400,614400,36,40
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "memory_plan.csv"
    path.write_text(CSV)
    return path


@pytest.mark.parametrize("inclusive", [False, True])
def test_its_plan_is_invalid_however_ends_are_read(path: Path, inclusive: bool) -> None:
    """conv2_weight lies over layer1_activation in steps 11 to 15, and over pool1_output in 16 to 25."""
    with pytest.raises(memplan.errors.InvalidPlanError) as caught:
        memplan.read_plan(path, inclusive=inclusive)
    lines = str(caught.value).splitlines()[1:]
    assert len(lines) == 2
    for line, other in zip(lines, ("layer1_activation", "pool1_output"), strict=True):
        assert "conv2_weight" in line
        assert other in line


@pytest.mark.parametrize("inclusive", [False, True])
def test_its_buffers_can_be_planned_in_as_many_bytes(path: Path, inclusive: bool) -> None:
    """716,800 bytes, those of pool1_output, conv2_weight and layer2_activation together; the file's end there too."""
    problem = memplan.read_problem(path, inclusive=inclusive)
    assert problem.load == 614400 + 102400
    for planner in ("greedy_by_size", "exhaustive"):
        assert memplan.plan(problem, planner).optimal


@pytest.mark.parametrize("k", [1, 16, 1000])
def test_by_birth_into_free_blocks_they_cannot(path: Path, k: int) -> None:
    """conv2_weight lies on the two that are born before it, so that layer2_activation finds no room below 512,000."""
    assert memplan.plan(path, f"beam:k={k}").peak == 512000 + 409600


def test_a_plan_written_in_its_form_is_read_back(path: Path, tmp_path: Path) -> None:
    plan = memplan.plan(memplan.read_problem(path), "exhaustive")
    rows = [f"{s.name},{s.bytes},{s.offset},{s.first},{s.last}" for s in plan]
    written = tmp_path / "written.csv"
    written.write_text("\n".join([CSV.splitlines()[0], *rows]) + "\n")
    assert memplan.read_plan(written).offsets.tolist() == plan.offsets.tolist()
