"""What eager torch really allocates, beside the load and the plan of the graph captured from the same call.

Run: ``python tests/benchmarks/real_peaks.py [--models bert,gpt2] [--json F] [--docs]``. torch's profiler reports every
allocation and free of its CPU allocator during one call (and its backward); the peak is the most that is allocated
since the call began. Parameters and inputs were there before. memplan's graph is planned apart (nothing shares bytes by
choice, as in eager) and as it is by default.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

from reporting import Rows, arguments, mib, ratio, report

import memplan

HEAD = ("model", "run", "really, MiB", "load apart", "plan apart", "load", "plan", "plan / really")
MODELS = ("resnet", "convnext", "vit", "bert", "gpt2", "whisper")


def main() -> None:
    """Run, capture, plan, print."""
    parser = arguments(__doc__)
    parser.add_argument("--models", default=",".join(MODELS), help="names, separated by commas")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    rows: Rows = []
    for name in options.models.split(","):
        for train in (False, True):
            rows.append(measured(name, train))
            print(rows[-1], file=sys.stderr, flush=True)
    report("real peaks", HEAD, [cells(row) for row in rows], rows, options)


def measured(name: str, train: bool) -> dict[str, Any]:
    """The figures of one network, in bytes."""
    from networks import network

    model, inputs = network(name, train=train)
    peak = allocated(lambda: step(model, inputs, train))
    graph = memplan.capture(model, kwargs=inputs, train=train).graph
    apart, plan = memplan.plan(graph, inplace=False, zero_copy=False), memplan.plan(graph)
    names = ("model", "train", "really", "load_apart", "plan_apart", "load", "plan")
    return dict(zip(names, (name, train, peak, apart.load, apart.peak, plan.load, plan.peak), strict=True))


def step(model: Any, inputs: dict[str, Any], train: bool) -> Any:
    """One forward, or one forward and backward; what it returns is still held when the profile ends."""
    import torch

    with torch.set_grad_enabled(train):
        result = model(**inputs)
        if train:
            result.loss.backward()
    return result


def allocated(run: Callable[[], Any]) -> int:
    """The most bytes that torch's CPU allocator has given out during a call, above those before it."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        result = run()
    events = [e for e in profiler.profiler.kineto_results.events() if e.name() == "[memory]"]
    held = peak = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    del result
    return peak


def cells(row: dict[str, Any]) -> list[str]:
    """A row of the table."""
    sizes = [mib(row[name]) for name in ("really", "load_apart", "plan_apart", "load", "plan")]
    return [row["model"], "training" if row["train"] else "inference", *sizes, ratio(row["plan"], row["really"])]


if __name__ == "__main__":
    main()
