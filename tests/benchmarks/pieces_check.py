"""Random networks of torch in random pieces beside the same networks whole: inference, and loss and gradients.

The pieces are run in the arena, and as the program that the plan gives. Programs are also compared to programs of the
whole: for one sample, torch's backward of batch norm may be wrong in both, and is right in the arena.

Run: ``python tests/benchmarks/pieces_check.py [--count 10000] [--seed 0] [--json F]``. Networks are in double
precision, and results are compared to 9 digits, so that nothing but the order of sums may differ: 9 digits of a result,
or of the largest one, as a gradient may be the small difference of large ones. Bytes of the arena are filled with
garbage as soon as they are free.
"""

from __future__ import annotations

import collections
import random
import sys
from pathlib import Path
from typing import Any

import torch
from reporting import arguments, report

import memplan

sys.path.insert(0, str(Path(__file__).parents[1]))
from builders.random_nets import RandomNet
from builders.splitting import in_random_pieces
from memplan.running.plans import program_of

HEAD = ("networks", "run in pieces", "ops in pieces", "no region", "refused", "wrong", "bit for bit")


def main() -> None:
    """Run the networks, and print the table."""
    parser = arguments(__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    found: collections.Counter[str] = collections.Counter()
    refused: collections.Counter[str] = collections.Counter()
    for seed in range(options.seed, options.seed + options.count):
        outcome, ops, text = check(seed)
        found[outcome] += 1
        found["ops"] += ops
        if outcome == "refused":
            refused[text] += 1
        if outcome == "wrong":
            print(seed, text, flush=True)
    ran = found["equal"] + found["bit for bit"] + found["wrong"]
    row = [options.count, ran, found["ops"], found["no region"], found["refused"], found["wrong"], found["bit for bit"]]
    report("pieces check", HEAD, [[str(cell) for cell in row]], [dict(zip(HEAD, row, strict=True))], options)
    for text, count in refused.most_common():
        print(count, text)


def check(seed: int) -> tuple[str, int, str]:
    """What came of a network: equal, bit for bit, no region, refused or wrong; how many ops ran in pieces."""
    chance = random.Random(seed)
    train = chance.random() < 0.5
    net = RandomNet(seed).double().train(train)
    x = torch.randn(net.shape, dtype=torch.float64)
    source: Any = torch.nn.Sequential(net, _Loss()) if train else net
    whole = memplan.plan(source, "first_fit", args=(x,), train=train, alignment=16)
    plan = in_random_pieces(whole, chance, whole=0.1)
    if plan is None:
        return "no region", 0, ""
    vars(plan)["_network"] = program_of(whole)  # looked at once
    try:
        results = [_results(one, x, seed) for one in (whole, plan)]
        programs = [_by_program(one, x, seed) for one in (whole, plan)]
    except memplan.errors.UnsupportedError as error:
        return "refused", 0, str(error).partition("(")[2]
    ops = len(plan.graph.ops) - len(whole.graph.ops)
    largest = max(1.0, *(float(a.nan_to_num().abs().max()) for a in results[0] if a.numel()))
    for how, pairs in (("run", [results]), ("program", [programs, (results[0], programs[1])])):
        wrong = [_wrong(*pair, largest) for pair in pairs]
        if all(wrong):
            return "wrong", ops, f"{how}: {wrong[0]}"
    return "bit for bit" if all(map(torch.equal, *results)) else "equal", ops, ""


def _wrong(expected: list[torch.Tensor], found: list[torch.Tensor], largest: float) -> str:
    """The first result that differs, in words; "" if there is none."""
    for a, b in zip(expected, found, strict=True):
        if a.shape != b.shape or not torch.allclose(a, b, rtol=1e-9, atol=1e-9 * largest, equal_nan=True):
            return f"{a.shape} {(a - b).abs().max() if a.shape == b.shape else b.shape}"
    return ""


class _Loss(torch.nn.Module):
    def forward(self, results: tuple[torch.Tensor, ...]) -> torch.Tensor:
        loss, *kept = results
        return sum((one.square().mean() for one in kept), loss.sum())


def _results(plan: Any, x: torch.Tensor, seed: int) -> list[torch.Tensor]:
    torch.manual_seed(seed)
    run = plan.run(x, check=True)
    given = list(run.outputs) if run.loss is None else [run.loss, *run.gradients.values()]
    return [tensor.clone() for tensor in given]


def _by_program(plan: Any, x: torch.Tensor, seed: int) -> list[torch.Tensor]:
    torch.manual_seed(seed)
    training = plan.source.reading.train
    with torch.set_grad_enabled(training):
        made = plan.program(x)
    loss, given = made if training else (None, made)
    return [*given] if loss is None else [loss, *given.values()]


if __name__ == "__main__":
    main()
