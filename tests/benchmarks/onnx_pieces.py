"""Models of ONNX whose ops run in pieces, as `plan.to_onnx` writes them, beside the same models in ONNX Runtime.

Networks of torch are exported, and `memplan.fit` finds pieces for a share of their peak. Memory is that of fresh
processes, a model each: anonymous memory at most in two runs, above what there is once the session is made; and
above what there is before, so with weights and nodes. Once with the options that sessions have, and once without their
memory pattern, which keeps a block for a whole run beside the arena of the first. Seconds are of both models in turns,
in processes of their own: on the clock with two threads, and of the processor with one, which other processes disturb
less. All figures are medians over the processes, and shares of seconds medians of shares.
Run: ``python tests/benchmarks/onnx_pieces.py [--networks a,b] [--processes N] [--json F] [--docs]``.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from reporting import MIB, arguments, report
from torch import Tensor, nn

CAPACITY = "30%"  # of the peak of a plan
HEAD = (
    *("network", "plan, MiB", "in pieces"),
    *("run, MiB", "in pieces", "session and run", "in pieces"),
    *("run without pattern", "in pieces", "seconds", "in pieces", "of the processor", "in pieces"),
    *("nodes", "difference"),
)


class SuperResolution(nn.Module):
    """Eight convolutions of a picture, and pixels shuffled into one of twice the size."""

    def __init__(self, channels: int = 32, layers: int = 6) -> None:
        super().__init__()
        self.head = nn.Conv2d(3, channels, 5, padding=2)
        self.body = nn.ModuleList(nn.Conv2d(channels, channels, 3, padding=1) for _ in range(layers))
        self.tail = nn.Conv2d(channels, 12, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        first = y = self.head(x).relu()
        for layer in self.body:
            y = layer(y).relu()
        return nn.functional.pixel_shuffle(self.tail(y + first), 2)


def twice(inputs: int, outputs: int) -> nn.Sequential:
    """Two convolutions with what follows them."""
    layers = [nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU()]
    return nn.Sequential(*layers, nn.Conv2d(outputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU())


class UNet(nn.Module):
    """Three steps down, three up, and what was there on the way down beside them."""

    def __init__(self, widths: tuple[int, ...] = (16, 32, 64, 128)) -> None:
        super().__init__()
        self.down = nn.ModuleList(twice(*pair) for pair in zip((3, *widths), widths, strict=False))
        pairs = list(itertools.pairwise(widths))
        self.up = nn.ModuleList(nn.ConvTranspose2d(wide, narrow, 2, stride=2) for narrow, wide in pairs)
        self.after = nn.ModuleList(twice(2 * narrow, narrow) for narrow, _ in pairs)
        self.last = nn.Conv2d(widths[0], 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        kept = []
        for layer in self.down[:-1]:
            kept.append(layer(x))
            x = nn.functional.max_pool2d(kept[-1], 2)
        x = self.down[-1](x)
        for k in reversed(range(len(kept))):
            x = self.after[k](torch.cat([kept[k], self.up[k](x)], 1))
        return self.last(x)


class Block(nn.Module):
    """Attention of all positions to all, and a feed-forward layer."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.projections = nn.ModuleList(nn.Linear(width, width) for _ in range(4))
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.heads = heads

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        y = self.norms[0](x)
        size = width // self.heads
        q, k, v = (f(y).view(batch, length, self.heads, size).transpose(1, 2) for f in self.projections[:3])
        y = torch.softmax(q @ k.transpose(2, 3) * size**-0.5, -1) @ v
        x = x + self.projections[3](y.transpose(1, 2).reshape(batch, length, width))
        return x + self.narrow(nn.functional.gelu(self.wide(self.norms[1](x))))


class Transformer(nn.Module):
    """An encoder of a long sequence."""

    def __init__(self, width: int = 256, heads: int = 8, layers: int = 4, length: int = 2048) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(64, width), nn.Linear(width, 64)
        self.position = nn.Parameter(0.02 * torch.randn(1, length, width))
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x) + self.position
        for block in self.blocks:
            x = block(x)
        return self.last(x)


NETWORKS: dict[str, tuple[type[nn.Module], tuple[int, ...]]] = {
    "super-resolution, 512": (SuperResolution, (1, 3, 512, 512)),
    "U-Net, 512": (UNet, (1, 3, 512, 512)),
    "transformer, 2,048 positions": (Transformer, (1, 2048, 64)),
}


def main() -> None:
    """Measure each network, and print the table."""
    if sys.argv[1:2] == ["--memory"]:
        print(json.dumps(memory_of(*sys.argv[2:])))
        return
    if sys.argv[1:2] == ["--turns"]:
        print(json.dumps(in_turns(sys.argv[2:])))
        return
    parser = arguments(__doc__)
    parser.add_argument("--networks", default="", help="beginnings of names, separated by commas")
    parser.add_argument("--processes", type=int, default=5)
    options = parser.parse_args()
    wanted = tuple(options.networks.split(","))
    rows = [measured(name, options.processes) for name in NETWORKS if name.startswith(wanted)]
    report("onnx in pieces", HEAD, [cells_of(row) for row in rows], rows, options, page="split.md")


def measured(name: str, processes: int) -> dict[str, Any]:
    """The row of a network."""
    import onnx

    import memplan

    with tempfile.TemporaryDirectory() as scratch:
        files = {which: str(Path(scratch, f"{which}.onnx")) for which in ("whole", "pieces")}
        export(name, files["whole"])
        whole = memplan.plan(files["whole"])
        plan = memplan.fit(files["whole"], CAPACITY, allow=("split",))
        plan.to_onnx(files["pieces"])
        row: dict[str, Any] = {"network": name, "plan": whole.peak, "plan_pieces": plan.peak}
        row["nodes"] = [len(onnx.load(path).graph.node) for path in files.values()]
        found: dict[str, list[dict[str, Any]]] = {}
        for _ in range(processes):
            for which, path in files.items():
                for pattern in ("pattern", "plain"):
                    found.setdefault(f"{which} {pattern}", []).append(in_process("--memory", path, pattern))
            found.setdefault("turns", []).append(in_process("--turns", *files.values()))
    row["memory"] = {
        key: {what: statistics.median(one[what] for one in all_of) for what in ("run", "session")}
        for key, all_of in found.items()
        if key != "turns"
    }
    for key in ("seconds", "processor"):
        taken = [one[key] for one in found["turns"]]
        row[key] = statistics.median(whole for whole, _ in taken), statistics.median(part / of for of, part in taken)
    row["difference"] = max(one["difference"] for one in found["turns"])
    print(row, file=sys.stderr, flush=True)
    return row


def export(name: str, path: str) -> None:
    network, shape = NETWORKS[name]
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(network().eval(), (torch.randn(shape),), path, dynamo=False, input_names=["x"])


def in_process(*args: str) -> dict[str, Any]:
    """What a process of its own says."""
    done = subprocess.run([sys.executable, __file__, *args], capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def session_of(path: str, pattern: bool = True, threads: int = 2) -> tuple[Any, dict[str, Any]]:
    """A session, and its inputs."""
    import numpy as np
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads, options.enable_mem_pattern = threads, pattern
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    return session, {"x": np.random.default_rng(0).standard_normal(given.shape).astype(np.float32)}


def memory_of(path: str, pattern: str) -> dict[str, int]:
    """The anonymous memory of this process at most, above what it has with a session, and above what it has without."""
    import onnxruntime  # noqa: F401  its own memory is there before

    before = memory()["RssAnon"]
    session, inputs = session_of(path, pattern == "pattern")
    ctypes.CDLL(None).malloc_trim(0)
    base = memory()["RssAnon"]
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    for _ in range(2):
        session.run(None, inputs)
    after = memory()
    most = after["VmHWM"] - after["RssFile"]
    return {"run": most - base, "session": most - before}


def in_turns(paths: list[str]) -> dict[str, Any]:
    """The seconds of a run of each model, and how far their results are apart at most."""
    sessions = [session_of(path) for path in paths]
    results = [session.run(None, inputs)[0] for session, inputs in sessions]
    seconds = timed(sessions, time.perf_counter)
    processor = timed([session_of(path, threads=1) for path in paths], time.process_time)
    difference = float(abs(results[0] - results[1]).max())
    return {"seconds": seconds, "processor": processor, "difference": difference}


def timed(sessions: Sequence[tuple[Any, Any]], clock: Callable[[], float]) -> list[float]:
    """The median of three runs of each session after a first one, in turns."""
    taken: list[list[float]] = [[] for _ in sessions]
    for _ in range(4):
        for mine, (session, inputs) in zip(taken, sessions, strict=True):
            begin = clock()
            session.run(None, inputs)
            mine.append(clock() - begin)
    return [statistics.median(mine[1:]) for mine in taken]


def memory() -> dict[str, int]:
    """What the process holds, in bytes."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    found = dict(line.split(":", 1) for line in lines)
    return {key: int(found[key].split()[0]) * 1024 for key in ("VmHWM", "RssAnon", "RssFile")}


def cells_of(row: dict[str, Any]) -> list[str]:
    """A row of the table: what the model takes, and the share of that in pieces."""

    def pair(whole: float, pieces: float) -> list[str]:
        return [f"{whole / MIB:.1f}", f"{pieces / whole:.3f}"]

    of = row["memory"]
    cells = [*pair(row["plan"], row["plan_pieces"])]
    for pattern, what in (("pattern", "run"), ("pattern", "session"), ("plain", "run")):
        cells += pair(of[f"whole {pattern}"][what], of[f"pieces {pattern}"][what])
    cells += [f"{row[key][k]:.3f}" for key in ("seconds", "processor") for k in range(2)]
    return [row["network"], *cells, " / ".join(map(str, row["nodes"])), f"{row['difference']:.1e}"]


if __name__ == "__main__":
    main()
