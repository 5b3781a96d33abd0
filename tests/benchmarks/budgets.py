"""Networks within shares of what they hold: accepted and held, or refused, by torch.compile and by `memplan.torch.fit`.

Run: ``python tests/benchmarks/budgets.py [--networks tcn,unet] [--shares 75,60] [--ways compile,fit] [--json F]
[--docs]``. Networks are those of `paid_networks`, and a GPT-2 with 50,257 words. torch.compile: forward and backward,
besides weights and inputs ("kept + 75%"); *held* is what memplan counts, and *allocated* what torch's allocator gives
out, where the loss is computed outside of the graphs. fit: a whole step with AdamW; *held* is weights, states, inputs
and what the allocator gives out. Gradients (fit: losses and weights after three steps) are compared with those of the
usual step. What is in the file of --json already is not measured again.
"""

from __future__ import annotations

import copy
import json
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
from paid_networks import NETWORKS, Network, _of_transformers, _tokens
from real_peaks import allocated
from reporting import Rows, arguments, mib, ratio, report

import memplan
from memplan.files import write_text
from memplan.torch.compiling.compiled import loaded_since, times_loaded

SECTION = "budgets"
HEAD = ("network", "way", "budget", "usual, MiB", "held, MiB", "share", "allocated", "equal", "seconds", "why not")
GPT2 = {"n_embd": 64, "n_layer": 2, "n_head": 4, "use_cache": False}
ALL: dict[str, Callable[[], Network]] = {
    **NETWORKS,
    "gpt2": _of_transformers("GPT2Config", "GPT2LMHeadModel", GPT2, lambda: _tokens(50257, 2, 128)),
}
STEPS = 3
Tensors = list[torch.Tensor]


def network(name: str) -> Network:
    torch.manual_seed(0)
    module, batch, loss = ALL[name]()
    return module.train(), batch, loss


def compiled(name: str, share: int) -> dict[str, Any]:
    """Forward and backward by torch.compile, as it is and within a share."""
    module, batch, loss = network(name)
    module(**batch)  # what a network sets up once would break the first graph

    def measured(**options: Any) -> tuple[Tensors, int, int]:
        torch._dynamo.reset()
        before = times_loaded()
        run = torch.compile(module, backend="memplan", options=options or None)

        def step() -> Tensors:
            module.zero_grad()
            torch.manual_seed(1)
            loss(run(**batch), batch).backward()
            return [p.grad.clone() for p in module.parameters() if p.grad is not None]

        gradients = step()
        module.zero_grad()

        def again() -> Any:
            out = run(**batch)
            loss(out, batch).backward()
            return out

        real = allocated(again)
        graphs = loaded_since(before)  # with those that have no arena
        return gradients, max(planned for graph in graphs for planned in graph.planned), real

    expected, usual, real = measured()
    row = {"usual": usual, "allocated_usual": real}
    try:
        found, held, real = measured(budget=f"kept + {usual * share // 100}")
    except Exception as error:
        return row | refused(error, usual * share // 100)
    return row | {"held": held, "allocated": real, "equal": agreed(expected, found)}


def fitted(name: str, share: int) -> dict[str, Any]:
    """Steps of eager torch with AdamW, as they are and fitted."""
    module, batch, loss = network(name)

    def measured(module: Any, how: Callable[[Any, Any], Any]) -> tuple[Tensors, int]:
        optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)
        how(module, optimizer)
        losses = []

        def step() -> None:
            torch.manual_seed(len(losses))
            out = module(**batch)  # held until the step ends, as memplan counts it
            found = loss(out, batch)
            found.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(found.detach())

        for _ in range(STEPS):
            step()
        state = [*losses, *(tensor.detach().clone() for tensor in module.state_dict().values())]
        kept = [v for s in optimizer.state.values() for v in s.values() if isinstance(v, torch.Tensor)]
        kept += [*module.parameters(), *module.buffers(), *(v for v in batch.values() if isinstance(v, torch.Tensor))]
        return state, sum(tensor.nbytes for tensor in kept) + allocated(step)

    expected, usual = measured(copy.deepcopy(module), lambda *_: None)
    said: dict[str, Any] = {"usual": usual}

    def fit(module: Any, optimizer: Any) -> None:
        how = {"kwargs": batch, "optimizer": optimizer, "loss": lambda out: loss(out, batch)}
        found = memplan.torch.fit(module, f"{share}%", **how)
        said.update(before=found.before.total, after=found.after.total, cost=found.added_cost, how=str(found))

    try:
        found, held = measured(copy.deepcopy(module), fit)
    except memplan.InfeasibleError as error:
        return said | refused(error)
    return said | {"held": held, "equal": agreed(expected, found)}


def refused(error: Exception, limit: int | None = None) -> dict[str, Any]:
    """Why a budget was refused: the floor that forbids it, or the least that was found.

    Both are besides what is kept, where the ``limit`` is.
    """
    inner: Any = getattr(error, "inner_exception", error)
    if not isinstance(inner, memplan.InfeasibleError):
        return {"refused": f"{type(inner).__name__}: {inner}"}
    kept = 0 if limit is None else inner.capacity - limit
    least = None if inner.peak is None else inner.peak - kept
    return {"refused": str(inner), "proven": inner.proven, "floor": inner.lower_bound - kept, "least": least}


def agreed(expected: Tensors, found: Tensors) -> str:
    """How tensors agree: bit for bit, or the largest difference, divided by the largest number."""
    if all(map(torch.equal, expected, found)):
        return "yes"
    largest = max(float(tensor.abs().max()) for tensor in expected)
    apart = max(float((a - b).abs().max()) for a, b in zip(expected, found, strict=True))
    return f"within {apart / largest:.0e}"


def cells_of(row: dict[str, Any]) -> list[str]:
    """A row of the table."""
    cells = [row["network"], row["way"], f"{row['share']} %", mib(row["usual"])]
    seconds = f"{float(row['seconds']):.0f}"
    if "refused" not in row:
        real = ratio(row["allocated"], row["allocated_usual"]) if "allocated" in row else ""
        return [
            *cells,
            mib(row["held"]),
            ratio(row["held"], row["usual"]),
            real,
            row["equal"],
            f"{row['seconds']:.0f}",
            "",
        ]
    if row.get("proven"):
        why = f"proven: at least {row['floor'] / row['usual']:.3f}"
    else:
        why = f"least found {row['least'] / row['usual']:.3f}" if row.get("least") else row["refused"][:60]
    return [*cells, "refused", "", "", "", seconds, why]


def main() -> None:
    """Measure, print."""
    parser = arguments(__doc__)
    parser.add_argument("--networks", default=",".join(ALL), help="names, separated by commas")
    parser.add_argument("--shares", default="75,60", help="in %%, separated by commas")
    parser.add_argument("--ways", default="compile,fit")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    rows: Rows = json.loads(options.json.read_text())["rows"] if options.json and options.json.exists() else []
    for name in options.networks.split(","):
        for way in options.ways.split(","):
            for share in map(int, options.shares.split(",")):
                if any((row["network"], row["way"], row["share"]) == (name, way, share) for row in rows):
                    continue
                begin = time.perf_counter()
                found = {"compile": compiled, "fit": fitted}[way](name, share)
                rows.append(
                    {"network": name, "way": way, "share": share, **found, "seconds": time.perf_counter() - begin}
                )
                print(*cells_of(rows[-1]), rows[-1].get("refused", rows[-1].get("how", "")), sep=" | ", flush=True)
                if options.json:
                    write_text(options.json, json.dumps({"rows": rows}))
    wanted = [row for row in rows if row["network"] in options.networks.split(",")]
    report(SECTION, HEAD, [cells_of(row) for row in wanted], rows, options, "fit.md")


if __name__ == "__main__":
    main()
