"""What a program holds when it holds most: by kind, by line, and what grows."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

import memplan
from builders.cuda_traces import of_instance
from builders.paths import SHARED
from memplan.cli import main

Dict = dict[str, Any]
MIB = 2**20
SNAPSHOTS = sorted((SHARED / "snapshots").glob("*.json.gz"))
MODEL, STEP = "/home/me/model.py", "/home/me/train.py"
OPTIM = "/lib/python3/site-packages/torch/optim/adamw.py"


class Trace:
    """Events of a program that allocates at ever new addresses."""

    def __init__(self) -> None:
        self.events: list[Dict] = []
        self.live: dict[int, Dict] = {}
        self.next = 2**40

    def alloc(self, mib: int, line: int, file: str = MODEL, name: str = "forward") -> int:
        frames = [{"filename": file, "line": line, "name": name}]
        if name == "backward":
            frames = [{"filename": "??", "line": 0, "name": "MmBackward0::apply"}]
        event = {"action": "alloc", "addr": self.next, "size": mib * MIB, "stream": 0, "frames": frames}
        self.events.append(event)
        self.live[self.next] = event
        self.next += mib * MIB
        return int(event["addr"])

    def free(self, *addresses: int) -> None:
        for address in addresses:
            event = self.live.pop(address)
            self.events += [{**event, "action": action} for action in ("free_requested", "free_completed")]

    def snapshot(self) -> Dict:
        blocks = [
            {"address": a, "size": e["size"], "state": "active_allocated", "frames": e["frames"]}
            for a, e in self.live.items()
        ]
        size = self.next - 2**40
        segment = {"address": 2**40, "total_size": size, "stream": 0, "segment_type": "large", "blocks": blocks}
        return {"segments": [segment], "device_traces": [self.events]}


def training(steps: int, leaks: bool = False, layers: int = 6) -> Trace:
    """Layers of 4 MiB with activations of 8, gradients that live to the next step, and states of the first step."""
    trace = Trace()
    for layer in range(layers):
        trace.alloc(4, layer, name="__init__")
    gradients: list[int] = []
    for step in range(steps):
        activations = []
        for layer in range(layers):
            activations.append(trace.alloc(8, 10 + layer))
            trace.free(trace.alloc(2, 30 + layer))
        trace.free(*gradients)
        gradients = []
        for layer in reversed(range(layers)):
            gradients.append(trace.alloc(4, 50 + layer, name="backward"))
            trace.free(activations[layer])
        for layer in range(layers):
            if step == 0:
                trace.alloc(8, 70, OPTIM, "_init_group")
            trace.free(trace.alloc(1, 71 + layer, OPTIM, "step"))
        if leaks:
            trace.alloc(3, 99, STEP, "log")
    return trace


def test_kinds_follow_from_frames_and_lives() -> None:
    found = memplan.torch.post_mortem(training(8).snapshot())
    kinds = {row.kind: (row.blocks, row.bytes) for row in found.kinds}
    assert found.steps >= 6
    assert kinds["activation"] == (6, 48 * MIB)
    assert kinds["optimizer's state"] == (6, 48 * MIB)
    assert kinds["weight"] == (6, 24 * MIB)
    assert kinds["gradient"][1] in (24 * MIB, 28 * MIB)
    assert found.allocated == sum(row.bytes for row in found.kinds)
    assert found.lines[0].bytes == 48 * MIB
    assert not found.growing


def test_a_leak_is_found_with_its_line() -> None:
    found = memplan.torch.post_mortem(training(9, leaks=True).snapshot())
    (row,) = found.growing
    assert (row.line, row.bytes, row.blocks) == ("train.py:99:log", 3 * MIB, 1)
    assert "Grows from step to step" in str(found)
    assert "train.py:99:log" in str(found)


def test_a_loop_over_layers_is_no_step() -> None:
    assert memplan.torch.post_mortem(training(1, layers=24).snapshot()).steps == 0


def test_where_memory_ran_out() -> None:
    trace = training(4)
    trace.events.append({"action": "oom", "device_free": MIB, "size": 64 * MIB, "stream": 0})
    found = memplan.torch.post_mortem(trace.snapshot())
    assert found.asked == 64 * MIB
    assert "Memory ran out when 64.00 MiB more were asked for." in str(found)


@pytest.mark.skipif(not SNAPSHOTS, reason="the snapshots lie beside the checkout")
def test_a_real_training_step_holds_activations() -> None:
    (path,) = (path for path in SNAPSHOTS if path.name.startswith("medium_train_1024"))
    found = memplan.torch.post_mortem(of_instance(path))
    most = found.kinds[0]
    assert most.kind == "activation"
    assert most.bytes > 0.6 * found.allocated


def test_the_command_explains_a_snapshot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps(training(5).snapshot()))
    page, record = tmp_path / "held.html", tmp_path / "held.json"
    assert main(["explain", str(path), "--html", str(page), "--json", str(record)]) == 0
    assert "optimizer's state" in capsys.readouterr().out
    assert "activation" in page.read_text()
    assert json.loads(record.read_text())["peak"] == memplan.torch.post_mortem(path).allocated


def test_recording_writes_a_snapshot_where_memory_runs_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    from memplan.torch.snapshot import recording as room

    asked: list[Dict] = []
    snapshot = training(2).snapshot()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(room, "record_memory_history", lambda **options: asked.append(options))
    monkeypatch.setattr(room, "dump_memory_snapshot", lambda path: Path(path).write_bytes(pickle.dumps(snapshot)))
    path = tmp_path / "oom.pickle"
    with pytest.raises(torch.cuda.OutOfMemoryError, match="no more"), memplan.torch.recording(path, max_entries=7):
        raise torch.cuda.OutOfMemoryError("no more")
    assert asked == [{"max_entries": 7}, {"enabled": None}]
    assert memplan.torch.post_mortem(path).allocated > 0
    other = tmp_path / "other.pickle"
    with pytest.raises(ZeroDivisionError), memplan.torch.recording(other):
        raise ZeroDivisionError
    assert not other.exists()


def test_recording_needs_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(RuntimeError, match="needs a GPU"), memplan.torch.recording(tmp_path / "oom.pickle"):
        pass
