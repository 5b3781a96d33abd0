"""Steps that draw random numbers, within 60 and 40 % of what they hold: by `memplan.torch.fit`, and by torch.compile.

Each step runs in a process of its own. It is forward, loss and backward. Bytes are weights, inputs, and what torch's
allocator gives out in a step. Those of `fit` are held against eager torch, those of torch.compile against Inductor, and
so are gradients (the largest difference, as a share of the largest number in one; those that are rounding alone are
left out) and processor seconds of a step. The budget of `fit` is a share of what `memplan.estimate` says, that of
torch.compile of what Inductor's code holds. `found in` are seconds of the clock of `fit`, or of the first step of
compiled code, caches off; for Inductor too.
Run: ``python tests/benchmarks/random_budgets.py [--networks a,b] [--ways fit,compile] [--json F] [--docs]``.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import product
from pathlib import Path
from typing import Any

from paid_steps import allocated
from reporting import arguments, mib, report

sys.path.insert(0, str(Path(__file__).parents[1]))

WAYS = {"fit": "eager", "compile": "Inductor"}  # and what each is held against
SECTIONS = {"fit": ("random budgets", "training.md"), "compile": ("random budgets compiled", "torch_compile.md")}
PERCENT = (60, 40)
HEAD = (
    "network",
    "way",
    "usual, MiB",
    "%",
    "held",
    "of the budget",
    "found in, s",
    "usual",
    "times usual",
    "difference",
    "or",
)
STEPS = 5
ROUNDING = 1e-7  # a share of the largest gradient of all


def main() -> None:
    """Run each step in a process of its own, and print the table."""
    if sys.argv[1:2] == ["--one"]:
        name, way, percent, expected = sys.argv[2:]
        print(json.dumps(one(name, way, int(percent), Path(expected))))
        return
    from builders.random_steps import STEPS as networks

    parser = arguments(__doc__)
    parser.add_argument("--networks", type=lambda text: text.split(","), default=list(networks))
    parser.add_argument("--ways", type=lambda text: text.split(","), default=list(WAYS))
    options = parser.parse_args()
    if options.docs and len(options.ways) != 1:
        parser.error("--docs needs --ways fit or --ways compile: each has a page of its own")
    rows: list[dict[str, Any]] = []
    for name, way in product(options.networks, options.ways):
        with tempfile.TemporaryDirectory() as folder:
            expected = Path(folder) / "usual.pt"
            usual = in_process(name, WAYS[way], 100, expected)
            for percent in PERCENT:
                found = in_process(name, way, percent, expected)
                rows.append({"network": name, "way": way, "percent": percent, **found, "usual": usual})
                print(*cells_of(rows[-1]), sep=" | ", flush=True)
    section, page = SECTIONS[options.ways[0]]
    report(section, HEAD, [cells_of(row) for row in rows], rows, options, page)


def in_process(*what: Any) -> dict[str, Any]:
    """The figures of a process of its own, or its error."""
    with tempfile.TemporaryDirectory() as caches:
        done = subprocess.run(
            [sys.executable, __file__, "--one", *map(str, what)],
            capture_output=True,
            text=True,
            env={**os.environ, "TORCHINDUCTOR_CACHE_DIR": caches},
        )
    if done.returncode:
        return {"error": done.stderr.strip().splitlines()[-1][:300]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def cells_of(row: dict[str, Any]) -> list[str]:
    """A row of the table."""
    usual = row["usual"]
    named = [row["network"], row["way"], mib(usual["bytes"]), str(row["percent"])]
    seconds = [f"{row['found']:.1f}", f"{usual['found']:.1f}"] if "found" in row else ["", ""]
    if "error" in row:
        return [*named, "", "", *seconds, "", "", row["error"]]
    within = row["bytes"] / (row["budget"] or usual["bytes"] * row["percent"] / 100)
    held, times = row["bytes"] / usual["bytes"], row["seconds"] / usual["seconds"]
    return [*named, f"{held:.3f}", f"{within:.3f}", *seconds, f"{times:.2f}", f"{row['difference']:.0e}", ""]


def one(name: str, way: str, percent: int, expected: Path) -> dict[str, Any]:
    """The figures of this process. What is usual leaves its gradients in a file."""
    import torch

    import memplan
    from builders.random_steps import STEPS as networks

    torch.manual_seed(0)
    torch.set_num_threads(1)
    model, args, loss = networks[name]()
    weights = [p for p in model.parameters() if p.requires_grad]
    kept = sum(t.nbytes for t in (*model.parameters(), *model.buffers(), *args))

    def forward(*args: Any) -> Any:
        return loss(model(*args))

    run: Any = forward
    begin, budget = time.perf_counter(), 0
    try:
        if way == "fit":
            fitted = memplan.torch.fit(model, f"{percent}%", args=args, loss=loss, allow=("recompute", "split"))
            budget = fitted.before.total * percent // 100
        elif way == "Inductor":
            run = torch.compile(forward)
        elif way == "compile":
            run = torch.compile(
                forward, backend="memplan", options={"budget": f"{percent}%", "allow": ("recompute", "split")}
            )

        def step(seed: int = 0) -> None:
            torch.manual_seed(seed)
            for weight in weights:
                weight.grad = None
            run(*args).backward()

        if way != "fit":
            step()
    except Exception as error:
        text = str(getattr(error, "inner_exception", error)).splitlines()[0]
        return {"error": text[:300], "found": time.perf_counter() - begin}
    found = time.perf_counter() - begin
    step()
    gradients: list[Any] = [weight.grad for weight in weights]
    if expected.exists():
        pairs = [*zip(gradients, torch.load(expected), strict=True)]
        least = ROUNDING * max(float(b.abs().max()) for _, b in pairs)
        shares = [float((a - b).abs().max() / b.abs().max()) for a, b in pairs if float(b.abs().max()) > least]
        difference = max(shares)
        del pairs
    else:
        torch.save(gradients, expected)
        difference = 0.0
    del gradients
    for weight in weights:
        weight.grad = None
    bytes = kept + allocated(step)
    seconds = []
    for seed in range(STEPS):
        start = time.process_time()
        step(seed)
        seconds.append(time.process_time() - start)
    return {
        "bytes": bytes,
        "budget": budget,
        "difference": difference,
        "seconds": statistics.median(seconds),
        "found": found,
    }


if __name__ == "__main__":
    main()
