"""Several memory snapshots beside each other."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

import memplan
from builders.cuda_traces import Request, program, recorded
from memplan.cli import main
from oracles.caching import MIB


def steps(held: int) -> list[Request]:
    """Four steps, each of which holds blocks of 3, 5 and so many MiB at once."""
    requests: list[Request] = []
    for _ in range(4):
        first = len(requests)
        requests += [Request(3 * MIB), Request(5 * MIB), Request(held * MIB), Request(MIB)]
        requests += [Request(of=first + k) for k in range(4)]
    return requests


def test_what_differs_is_found_by_line() -> None:
    before, after = (recorded(steps(held)).snapshot for held in (7, 90))
    found = memplan.torch.side_by_side([before, after])
    assert [one.source for one in found.snapshots] == ["snapshot 1", "snapshot 2"]
    assert [one.allocated for one in found.snapshots] == [16 * MIB, 99 * MIB]
    assert [one.reserved for one in found.snapshots] == [22 * MIB, 112 * MIB]
    assert [int(one.live.max()) for one in found.snapshots] == [16 * MIB, 99 * MIB]
    most = found.lines[0]
    assert (most.bytes, most.differs) == ((7 * MIB, 90 * MIB), 83 * MIB)
    assert [row.differs for row in found.lines[1:]] == [0] * (len(found.lines) - 1)
    assert sum(row.bytes[1] for row in found.kinds) == 99 * MIB
    text = str(found)
    assert "snapshot 2 holds most: 83.00 MiB more than snapshot 1." in text
    assert "train.py:2:step" in text
    assert "train.py:1:step" not in text  # what is equal is not shown beside what differs


def test_devices_of_one_snapshot_are_ranks_too() -> None:
    one, other = (recorded(steps(held)).snapshot for held in (7, 90))
    both = {
        "segments": [*one["segments"], *({**segment, "device": 1} for segment in other["segments"])],
        "device_traces": [one["device_traces"][0], other["device_traces"][0]],
    }
    found = memplan.torch.side_by_side([both])
    assert [(row.device, row.allocated) for row in found.snapshots] == [(0, 16 * MIB), (1, 99 * MIB)]
    assert "snapshot 1, device 1" in str(found)
    with pytest.raises(memplan.errors.SourceError, match="two devices or more to compare, got 1"):
        memplan.torch.side_by_side([both], device=1)


def test_one_without_a_trace_is_named(tmp_path: Path) -> None:
    path = tmp_path / "empty.pickle"
    path.write_bytes(pickle.dumps({"segments": [], "device_traces": [[]]}))
    with pytest.raises(memplan.errors.SourceError, match=r"empty\.pickle: expected a trace"):
        memplan.torch.side_by_side([recorded(program(1)).snapshot, path])


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [tmp_path / rank / "oom.pickle" for rank in ("rank0", "rank1")]
    for k, path in enumerate(paths):
        path.parent.mkdir()
        path.write_bytes(pickle.dumps(recorded(steps(7 + 83 * k)).snapshot))
    names = [str(path) for path in paths]
    page, figures, picture = (tmp_path / f"found.{kind}" for kind in ("html", "json", "png"))
    assert main(["diff", *names, "--html", str(page)]) == 0
    diff = capsys.readouterr().out
    assert f"{paths[1].with_suffix('.pickle')} holds most" in diff.replace("\n", " ")
    assert main(["compare", *names, "--json", str(figures), "--plot", str(picture)]) == 0
    assert capsys.readouterr().out == diff
    assert "data:image/png" in page.read_text()
    assert picture.read_bytes().startswith(b"\x89PNG")
    data = json.loads(figures.read_text())
    assert [row["allocated"] for row in data["snapshots"]] == [16 * MIB, 99 * MIB]
    assert data["lines"][0]["bytes"] == [7 * MIB, 90 * MIB]
    assert main(["compare", *names, "--csv", str(tmp_path / "x.csv")]) == 2
    assert "--csv is for planners" in capsys.readouterr().err
    renamed = paths[1].rename(paths[1].with_name("other.pickle"))
    assert main(["compare", names[0], str(renamed), "--planners", "first_fit"]) == 0
    assert "first_fit" in capsys.readouterr().out
