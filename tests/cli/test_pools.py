"""``--pool`` of ``memplan plan`` and ``memplan explain``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memplan.cli import main


def test_pools_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "plan.json"
    pools = ["--pool", "sram=1MiB,align=64,base=128,cost=0.5,accepts=intermediate+workspace", "--pool", "dram,cost=2"]
    assert main(["plan", "example:resnet50_infer", *pools, "--json", str(target)]) == 0
    shown = capsys.readouterr().out
    assert "sram" in shown
    assert "proven to be the least" in shown
    sram, dram = json.loads(target.read_text())["pools"]
    assert (sram["capacity"], sram["alignment"], sram["base"], sram["cost_per_byte"]) == (2**20, 64, 128, 0.5)
    assert (dram["capacity"], dram["cost_per_byte"]) == (None, 2)


def test_pools_are_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "example:gpt2_infer", "--pool", "sram=1MiB", "--pool", "dram"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("sram holds ")
    assert "What costs most" in shown


@pytest.mark.parametrize(
    ("pool", "match"),
    [
        ("sram=lots", "capacity must be"),
        ("sram,cost=dear", "cost must be a number, got 'dear'"),
        ("sram,colour=red", "must be NAME=N and align=N"),
    ],
)
def test_bad_pools_are_refused(pool: str, match: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["plan", "example:resnet50_infer", "--pool", pool])
    assert match in capsys.readouterr().err
