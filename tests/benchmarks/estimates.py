"""`memplan.estimate` beside what torch's CPU allocator really gives out, and `memplan.largest` tried for real.

Run: ``python tests/benchmarks/estimates.py [--models bert,gpt2] [--json F] [--docs]``. The peak is that of the bytes
which torch's CPU allocator gives out in one step, above those before it: activations, gradients, and what kernels need.
Weights, inputs and states were there before; errors are in % of what comes on top of them.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import torch
from networks import NETWORKS, network
from real_peaks import allocated
from reporting import Rows, arguments, mib, pivoted, report

import memplan

SECTIONS = ("estimates", "largest")
HEAD = ("network", "step", "estimate, MiB", "of it kept", "really", "error of the rest")
LARGEST = ("network", "budget, MiB", "largest batch", "really, MiB", "one more, really", "tried", "on the right side")
STEPS = ("inference", "training", "AdamW")
TRIED = ("encoder", "bert", "gpt2", "vit")


def main() -> None:
    """Estimate, run, print."""
    parser = arguments(__doc__)
    parser.add_argument("--models", default=",".join([*NETWORKS, "encoder"]), help="names, separated by commas")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    names = options.models.split(",")
    rows: Rows = []
    for name in names:
        for kind in STEPS:
            rows.append({"name": name, "step": kind, **measured(name, kind)})
            print(*cells_of(rows[-1]), flush=True)
    tried: Rows = []
    for name in (name for name in TRIED if name in names):
        tried.append({"name": name, **sized(name)})
        print(*cells_of_size(tried[-1]), file=sys.stderr, flush=True)
    tables = ((HEAD, [cells_of(row) for row in rows], rows), (LARGEST, [cells_of_size(row) for row in tried], tried))
    for section, (head, cells, found) in zip(SECTIONS, tables, strict=True):
        short = pivoted(head, cells, head[:1], head[1:2], head[2:]) if head is HEAD else None
        report(section, head, cells, found, options, "estimate.md", short)


class Encoder(torch.nn.Module):
    """A transformer of torch itself, with dropout, under a classification."""

    def __init__(self) -> None:
        super().__init__()
        layer = torch.nn.TransformerEncoderLayer(256, 8, 1024, batch_first=True)
        self.encoder, self.head = torch.nn.TransformerEncoder(layer, 4), torch.nn.Linear(256, 10)

    def forward(self, x: torch.Tensor, labels: torch.Tensor | None = None) -> Any:
        out = self.head(self.encoder(x).mean(1))
        return out if labels is None else {"loss": torch.nn.functional.cross_entropy(out, labels)}


def made(name: str, train: bool) -> tuple[Any, dict[str, Any]]:
    """A network and what it is called with."""
    if name != "encoder":
        return network(name, train=train)
    torch.manual_seed(0)
    inputs = {"x": torch.randn(8, 64, 256), "labels": torch.randint(0, 10, (8,))}
    return Encoder().train(train), inputs if train else {"x": inputs["x"]}


def measured(name: str, kind: str) -> dict[str, Any]:
    """Bytes: what is said, and what is given out."""
    model, inputs = made(name, kind != "inference")
    optimizer = torch.optim.AdamW(model.parameters()) if kind == "AdamW" else None
    how: dict[str, Any] = {"train": kind != "inference", "optimizer": optimizer and torch.optim.AdamW}
    try:
        said = memplan.estimate(model, kwargs=inputs, **how)
    except memplan.errors.SourceError as error:  # it branches on random numbers
        return {"refused": str(error)}
    return {"said": said.total, "kept": said.kept, "really": said.kept + really(model, inputs, how["train"], optimizer)}


def really(model: Any, inputs: dict[str, Any], train: bool, optimizer: Any = None) -> int:
    """The peak of a step; with an optimizer, of its second one."""

    def step() -> Any:
        with torch.set_grad_enabled(train):
            result = model(**inputs)
            if train:
                loss_of(result).backward()
            if optimizer is not None:
                optimizer.step()
        return result

    if optimizer is not None:
        step()
        optimizer.zero_grad()
    peak = allocated(step)
    model.zero_grad()
    return peak


def loss_of(result: Any) -> torch.Tensor:
    loss: torch.Tensor = result["loss"] if isinstance(result, dict) else result.loss
    return loss


def sized(name: str) -> dict[str, Any]:
    """The largest batch of a step of training within three times what the usual one needs, and the steps beside it."""
    model, inputs = made(name, True)
    usual = memplan.estimate(model, kwargs=inputs, train=True)
    capacity = usual.kept + 3 * (usual.total - usual.kept)
    found = memplan.largest(model, capacity, kwargs=inputs, train=True, axes=dict.fromkeys(inputs, 0))
    real = []
    for size in (found.size, found.size + 1):
        more = {k: v.repeat(-(-size // len(v)), *[1] * (v.dim() - 1))[:size] for k, v in inputs.items()}
        kept = memplan.estimate(model, kwargs=more, train=True).kept
        real.append(kept + really(model, more, True))
    return {"capacity": capacity, "size": found.size, "real": real, "tried": len(found.tried)}


def cells_of(row: dict[str, Any]) -> list[str]:
    """A row of the table."""
    if "refused" in row:
        return [row["name"], row["step"], "refused: it reads a value", "", "", ""]
    said, real, kept = row["said"], row["really"], row["kept"]
    return [row["name"], row["step"], mib(said), mib(kept), mib(real), f"{(said - kept) / (real - kept) - 1:+.2%}"]


def cells_of_size(row: dict[str, Any]) -> list[str]:
    """A row of the second table."""
    right = row["real"][0] <= row["capacity"] < row["real"][1]
    sizes = [mib(row["capacity"]), str(row["size"]), *map(mib, row["real"])]
    return [row["name"], *sizes, str(row["tried"]), "yes" if right else "no"]


if __name__ == "__main__":
    main()
