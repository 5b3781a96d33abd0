"""Bytes of programs whose ops run in pieces: `plan.program` by torch's allocator, beside `plan.run` of the same plan.

``plan.run`` has the arena and what kernels take besides. Each plan is the one that `memplan.fit` gives for a share of
the plan as it is.

Run: ``python tests/benchmarks/split_programs.py [--plans unet:inference:least,...] [--json F] [--docs]``.
"""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from paid_networks import NETWORKS
from paid_steps import WithLoss, allocated
from reporting import Rows, arguments, mib, report
from torch.utils import _pytree as pytree

import memplan

PLANS = (
    "unet:inference:least",
    "super_resolution:inference:40%",
    "densenet:inference:30%",
    "clip:inference:40%",
    "qwen2:gradients:60%",
    "super_resolution:gradients:50%",
)
HEAD = ("network", "of the plan", "ops", "plan.run, MiB", "program, MiB", "difference")


def main() -> None:
    """Run each plan both ways, and print the table."""
    parser = arguments(__doc__)
    parser.add_argument("--plans", type=lambda text: text.split(","), default=PLANS)
    options = parser.parse_args()
    rows: Rows = []
    for name, mode, share in (plan.split(":") for plan in options.plans):
        rows.append({"network": name, "mode": mode, "share": share, **measured(name, mode, share)})
        print(rows[-1], flush=True)
    report("programs in pieces", HEAD, [cells_of(row) for row in rows], rows, options, page="split.md")


def measured(name: str, mode: str, share: str) -> dict[str, Any]:
    """The figures of one plan."""
    torch.manual_seed(0)
    network, batch, loss_of = NETWORKS[name]()
    train = mode == "gradients"
    network.train(train)
    module = WithLoss(network, loss_of) if train else network
    plan = memplan.fit(module, share, allow=("split",), train=train, kwargs=batch, time_limit=60, kernels=False)
    program = plan.program
    with contextlib.nullcontext() if train else torch.no_grad():
        run = plan.run(kwargs=batch)
        expected = [run.loss, *run.gradients.values()] if train else tensors_of(run.outputs)
        found = tensors_of(program(**batch))
        run = plan.run(kwargs=batch)  # which knows what its kernels take
        return {
            "ops": len(plan.graph.ops) if plan.graph else 0,
            "run": plan.peak + run.outside,
            "program": allocated(lambda: program(**batch)),
            "difference": max(map(difference, expected, found)),
        }


def tensors_of(outputs: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(outputs) if isinstance(leaf, torch.Tensor)]


def difference(expected: torch.Tensor, found: torch.Tensor) -> float:
    """The largest one, of the largest value."""
    return float((expected - found).abs().max()) / max(float(expected.abs().max()), 1e-9)


def cells_of(row: dict[str, Any]) -> list[str]:
    """A row of the table."""
    sizes = mib(row["run"]), mib(row["program"])
    return [f"{row['network']}, {row['mode']}", row["share"], f"{row['ops']:,}", *sizes, f"{row['difference']:.1e}"]


if __name__ == "__main__":
    main()
