"""Peak against seconds on the problems that do not end at once: what a search has found by when, seed by seed.

Run: ``python tests/benchmarks/anytime.py [--seconds 10] [--seeds 0,1,2,3,4] [--peers none] [--output FILE]``; draws
docs/images/anytime.png and prints where each run ends. Other planners that are installed are drawn where they end.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib import pyplot as plt
from matplotlib.ticker import FuncFormatter, NullLocator
from measuring import header, instance, label
from peer_planners import Peer, Peers, available
from rich.console import Console
from rich.table import Table

import memplan

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PROBLEMS = ("minimalloc/D.1048576", "minimalloc/J.1048576", "iopddl/S_1")
PICTURE = Path(__file__).parents[2] / "docs" / "images" / "anytime.png"
BLUE, GREY = "#0072B2", "#666666"
MARKS = {"SuperMalloc": ("#D55E00", "s"), "CP-SAT": ("#009E73", "D"), "MiniMalloc": ("#CC79A7", "^")}


@dataclass
class Curve:
    """A run: when it had found what."""

    planner: str
    seed: int
    seconds: list[float]
    peaks: list[int]
    bound: int
    winner: str


def run(problem: memplan.Problem, planner: str, seed: int, seconds: float) -> Curve:
    """Plan once and listen; the last point is the end of the run."""
    curve = Curve(planner, seed, [], [], 0, "")
    begin = time.perf_counter()

    def listen(plan: memplan.Plan) -> None:
        curve.seconds.append(time.perf_counter() - begin)
        curve.peaks.append(plan.peak)

    plan = memplan.plan(problem, planner, time_limit=seconds, seed=seed, on_improvement=listen)
    listen(plan)
    curve.bound, curve.winner = plan.lower_bound, plan.winner
    return curve


def draw(ax: Axes, name: str, problem: memplan.Problem, curves: list[Curve], peers: list[Peer]) -> None:
    """The share above the load against seconds, both on scales where the last percents are seen."""
    load = problem.load
    bounds = [curve.bound / load - 1 for curve in curves]
    for curve in curves:
        above = [peak / load - 1 for peak in curve.peaks]
        ax.step(curve.seconds, above, where="post", color=BLUE, lw=1.2, alpha=0.6)
        ax.plot(curve.seconds[-1], above[-1], "o", color=BLUE, ms=4)
    ax.plot([], [], "o-", color=BLUE, label=f"{curves[0].planner}, {len(curves)} seeds")
    for peer in peers:
        if peer.peak is not None:
            color, mark = MARKS[peer.name]
            ax.plot(peer.seconds, peer.peak / load - 1, mark, color=color, ms=8, label=peer.name)
    if max(bounds) > 0:
        ax.axhline(max(bounds), color=GREY, ls="--", label="proven bound")
    shares = [peak / load - 1 for curve in curves for peak in curve.peaks]
    shares += [peer.peak / load - 1 for peer in peers if peer.peak is not None]
    least = min((share for share in (*shares, *bounds) if share > 0), default=0.001)
    if min(shares) > 0:
        ax.set_yscale("log")
        ax.set_ylim(least / 1.5, max(shares) * 1.5)
    else:  # the load is a value too
        ax.set_yscale("symlog", linthresh=least)
        ax.set_ylim(-least / 4, max(shares) * 1.5)
    ax.set_xscale("log")
    ticks = [digit * 10.0**power for power in range(-7, 2) for digit in (1, 2, 5)]
    low, high = ax.get_ylim()
    ax.set_yticks([tick for tick in (0, *ticks) if low <= tick <= high and not 0 < tick < least / 1.5])
    ax.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{share * 100:.3g} %"))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda seconds, _: f"{seconds:g}"))
    ax.grid(which="major", color="#DDDDDD")
    ax.set_title(f"{label(name)}: {len(problem):,} buffers, load {load:,}", loc="left", fontsize=10)
    ax.set_xlabel("seconds")
    ax.legend(fontsize=8, framealpha=0.9)


def main() -> None:
    """Run, draw, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--planner", default="auto")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--seeds", default="0,1,2,3,4")
    parser.add_argument("--peers", default="all", help="all that are installed, none, or names with commas")
    parser.add_argument("--output", type=Path, default=PICTURE)
    options = parser.parse_args()
    listed = {"all": available(), "none": []}.get(options.peers)
    peers = Peers(options.peers.split(",") if listed is None else listed, options.seconds)
    problems = {name: problem for name in PROBLEMS if (problem := instance(name)) is not None}
    figure, axes = plt.subplots(
        1, len(problems), figsize=(4.6 * len(problems), 4.2), layout="constrained", squeeze=False
    )
    table = Table("problem", "run", "seconds", "peak", "above the load", "plans", "winner")
    for ax, (name, problem) in zip(axes[0], problems.items(), strict=True):
        curves = [run(problem, options.planner, int(seed), options.seconds) for seed in options.seeds.split(",")]
        found = [peer for kind in peers.names if (peer := peers.run(kind, name, problem)) is not None]
        draw(ax, name, problem, curves, found)
        for curve in curves:
            figures = (f"{curve.seconds[-1]:.2f}", f"{curve.peaks[-1]:,}", f"{curve.peaks[-1] / problem.load - 1:.4%}")
            table.add_row(label(name), f"seed {curve.seed}", *figures, str(len(curve.peaks) - 1), curve.winner)
        for peer in found:
            peak = "" if peer.peak is None else f"{peer.peak:,}"
            above = "" if peer.peak is None else f"{peer.peak / problem.load - 1:.4%}"
            table.add_row(label(name), peer.name, f"{peer.seconds:.2f}", peak, above)
    axes[0][0].set_ylabel("peak above the load")
    options.output.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(options.output, dpi=110)
    console = Console(width=None if sys.stdout.isatty() else 140)
    for what, text in header().items():
        console.print(f"{what}: {text}", highlight=False)
    console.print(table)


if __name__ == "__main__":
    main()
