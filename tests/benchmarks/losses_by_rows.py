"""What losses of a language model's head hold: eager, fitted, by torch's own fused loss, chunked by Inductor, planned.

A step is a head, a loss and their backward, with 4 x 256 hidden states of width 256. Bytes are those of torch's
allocator, without weights and hidden states, but with their gradients. Each way runs in a process of its own. A
difference is the largest of a gradient from eager's, as a share of the largest number in it. Seconds are those of the
processor. `fit:1.1` has 1.1 times the budget that `fit` finds, which is the least.
Run: ``python tests/benchmarks/losses_by_rows.py [--words 16000,128000] [--losses a,b] [--ways a,b] [--json F]
[--docs]``.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from itertools import product
from pathlib import Path
from typing import Any

from paid_steps import allocated
from reporting import arguments, mib, pivoted, report

sys.path.insert(0, str(Path(__file__).parents[1]))

WAYS = ("eager", "fit", "fit:1.1", "linear_cross_entropy", "auto_chunker", "plan")
HEAD = ("loss", "words", "way", "MiB", "of eager", "difference", "seconds", "times eager")
SHOWN = ("MiB", "difference", "times eager")
BATCH, LENGTH, WIDTH = 4, 256, 256


def main() -> None:
    """Run each way in a process of its own, and print the table."""
    if sys.argv[1:2] == ["--one"]:
        loss, words, way, expected = sys.argv[2:]
        print(json.dumps(one(loss, int(words), way, Path(expected))))
        return
    from builders.row_losses import LOSSES

    parser = arguments(__doc__)
    parser.add_argument("--words", type=lambda text: [*map(int, text.split(","))], default=[16_000, 128_000])
    parser.add_argument("--losses", type=lambda text: text.split(","), default=list(LOSSES))
    parser.add_argument("--ways", type=lambda text: text.split(","), default=list(WAYS))
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for words, loss in product(options.words, options.losses):
        with tempfile.TemporaryDirectory() as folder:
            base: dict[str, Any] = {}
            for way in options.ways:
                found = in_process(loss, words, way, Path(folder) / "eager.pt")
                base = found if way == "eager" else base
                rows.append({"loss": loss, "words": words, "way": way, **found, "base": base})
                print(*cells_of(rows[-1]), flush=True)
    cells = [cells_of(row) for row in rows]
    shown = pivoted(HEAD, [row for row in cells if row[4]], ("loss", "words"), ("way",), SHOWN)
    report("losses by rows", HEAD, cells, rows, options, "training.md", shown)


def in_process(loss: str, words: int, way: str, expected: Path) -> dict[str, Any]:
    """The figures of a process of its own, or its error."""
    command = [sys.executable, __file__, "--one", loss, str(words), way, str(expected)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if "Error: " in line]
        return {"error": (said or done.stderr.strip().splitlines())[-1][:200]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def cells_of(row: dict[str, Any]) -> list[str]:
    """A row of the table."""
    named = [row["loss"], f"{row['words']:,}", row["way"]]
    if "error" in row:
        return [*named, row["error"], *[""] * (len(HEAD) - 4)]
    base = row["base"]
    shares = [f"{row[key] / base[key]:.3f}" if key in base and key in row else "" for key in ("bytes", "seconds")]
    seconds = f"{row['seconds']:.2f}" if "seconds" in row else ""
    difference = f"{row['difference']:.0e}" if "difference" in row else ""
    return [*named, mib(row["bytes"]), shares[0], difference, seconds, shares[1]]


def one(loss: str, words: int, way: str, expected: Path) -> dict[str, Any]:
    """The figures of this process. Eager leaves its gradients in a file."""
    import torch

    import memplan
    from builders.row_losses import LOSSES, Scored

    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Scored(words, WIDTH, LOSSES[loss])
    hidden = torch.randn(BATCH, LENGTH, WIDTH, requires_grad=True)
    args = (hidden, torch.randn(BATCH, LENGTH, WIDTH), torch.randint(0, words, (BATCH, LENGTH)))
    if way == "plan":
        plan = memplan.fit(model, "least", args=args, train=True, allow=("split",), time_limit=60.0, kernels=True)
        return {"bytes": plan.peak}
    run: Any = model
    if way.startswith("fit"):
        fitted = memplan.torch.fit(model, "least", args=args, allow=["split"])
        if factor := way.partition(":")[2]:
            fitted.remove()
            memplan.torch.fit(model, int(float(factor) * fitted.after.total), args=args, allow=["split"])
    elif way == "linear_cross_entropy":
        run = fused(loss, model)
    elif way == "auto_chunker":
        run = torch.compile(model, options={"auto_chunker.enable": True})

    def step() -> None:
        hidden.grad = model.head.weight.grad = None
        run(*args).backward()

    step()
    found: list[Any] = [hidden.grad, model.head.weight.grad]
    if way == "eager":
        torch.save(found, expected)
    pairs = zip(found, torch.load(expected), strict=True)
    difference = max(float((a - b).abs().max() / b.abs().max().clamp_min(1e-30)) for a, b in pairs)
    del found, pairs
    hidden.grad = model.head.weight.grad = None
    bytes = allocated(step)
    begin = time.process_time()
    step()
    return {"bytes": bytes, "difference": difference, "seconds": time.process_time() - begin}


def fused(loss: str, model: Any) -> Any:
    """The loss by torch's own fused loss, in the sizes of pieces that it takes by default."""
    import torch
    from torch.nn import functional

    weight, options = model.head.weight, torch.nn.LinearCrossEntropyOptions()

    def entropy(hidden: Any, ids: Any, **how: Any) -> Any:
        return functional.linear_cross_entropy(hidden.flatten(0, 1), weight, ids.flatten(), options=options, **how)

    def masked(hidden: Any, _: Any, ids: Any) -> Any:
        mask = (ids % 3 > 0).float()
        return (entropy(hidden, ids, reduction="none") * mask.view(-1)).sum() / mask.sum()

    def nll(hidden: Any, _: Any, ids: Any) -> Any:
        target = ids[:, 1:].masked_fill(ids[:, 1:] % 5 == 0, -100)
        return entropy(hidden[:, :-1], target)

    def gathered(hidden: Any, _: Any, ids: Any) -> Any:
        return entropy(hidden, ids)

    def focal(hidden: Any, _: Any, ids: Any) -> Any:
        lost = entropy(hidden, ids, reduction="none")
        return ((1 - torch.exp(-lost)) ** 2 * lost).mean()

    known = {"masked": masked, "nll_loss": nll, "gathered": gathered, "focal": focal}
    if loss not in known:
        raise NotImplementedError("not this loss")
    return known[loss]


if __name__ == "__main__":
    main()
