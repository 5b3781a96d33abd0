"""What exact_small.py and pools_small.py share: kinds of random problems, what came out of each, and its seconds."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from reporting import show


@dataclass
class Found:
    """What came out for one kind."""

    seen: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)

    def row(self, kind: str, counts: Sequence[str]) -> list[str]:
        at = sorted(self.seconds)
        quantiles = [f"{1e3 * at[min(len(at) - 1, int(share * len(at)))]:.3f}" for share in (0.5, 0.99, 1)]
        return [kind, *(str(self.seen[what]) for what in counts), *quantiles]


def judged(
    doc: str | None, kinds: Iterable[str], counts: Sequence[str], judge: Callable[[str, int, Found], None]
) -> int:
    """Print the table; 1 where a plan is wrong, a better one missed, or a proof false."""
    parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    parser.add_argument("--problems", type=int, default=10_000, help="of each kind")
    parser.add_argument("--kinds", default=",".join(kinds))
    parser.add_argument("--seed", type=int, default=0, help="of the first problem")
    options = parser.parse_args()
    rows, wrong = [], 0
    for kind in options.kinds.split(","):
        found, start = Found(), time.perf_counter()
        for seed in range(options.seed, options.seed + options.problems):
            judge(kind, seed, found)
        rows.append([*found.row(kind, counts), f"{time.perf_counter() - start:.0f}"])
        print(*rows[-1], file=sys.stderr, flush=True)
        wrong += sum(found.seen[what] for what in ("invalid", "missed", "false proofs"))
    show(("kind", *counts, "median ms", "99 % ms", "most ms", "seconds in all"), rows)
    return 1 if wrong else 0
