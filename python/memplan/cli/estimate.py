"""``memplan estimate`` and ``memplan largest``."""

from __future__ import annotations

import argparse
from typing import Any

from .arguments import Commands, add_reading, capturing, new_command
from .terminal import INVALID, OK, readers_may_leave, waiting
from .values import seconds, step_budget

EXAMPLES = """
memplan estimate model.pt2 --dims s0=8 --train --optimizer AdamW --device cuda
memplan estimate model.onnx --dims batch=8
"""
_EXAMPLES_OF_LARGEST = """
memplan largest model.onnx --budget 64MiB --dim batch
memplan largest model.pt2 --budget 24GiB --dim s0 --train --optimizer AdamW
"""


_BUDGET = "bytes that a step may hold: 24GiB, or 'kept + 24GiB' to leave out weights, states and inputs"


def add(commands: Commands) -> None:
    """Add the commands."""
    command = new_command(
        commands, "estimate", "say what a step of a network holds at its worst moment, by what it is for", EXAMPLES
    )
    command.set_defaults(run=run)
    _add_network(command)
    command = new_command(
        commands, "largest", "find the largest batch or length with which a step fits a budget", _EXAMPLES_OF_LARGEST
    )
    command.set_defaults(run=run_largest)
    command.add_argument("--budget", type=step_budget, required=True, metavar="N", help=_BUDGET)
    command.add_argument("--dim", required=True, metavar="NAME", help="the symbolic dimension that is to be large")
    command.add_argument("--fit", action="store_true", help="let ops run again, as `memplan fit` does, in an arena")
    command.add_argument("--time-limit", type=seconds, metavar="S", help="with --fit: end each search after S seconds")
    _add_network(command)


def _add_network(command: argparse.ArgumentParser) -> None:
    text = "a model (.pt2, .onnx, .tflite or .json) or example:NAME, each tensor of which is held to its last use"
    command.add_argument("source", metavar="SOURCE", help=text)
    add_reading(command.add_argument_group("how the source is read"))
    command.add_argument(
        "--device", choices=("cpu", "cuda"), default="cpu", help="whose allocator rounds sizes (default: cpu)"
    )


def _asked(options: argparse.Namespace) -> dict[str, Any]:
    if options.optimizer is not None and not options.train:
        raise ValueError("--optimizer needs --train: its step follows the backward pass")
    return {**capturing(options), "device": options.device}


def run(options: argparse.Namespace) -> int:
    """Estimate and print; returns the exit status."""
    from ..estimating.estimate import estimate

    with waiting(f"reading {options.source}"):
        found = estimate(options.source, **_asked(options))
    with readers_may_leave():
        print(found)
    return OK


def run_largest(options: argparse.Namespace) -> int:
    """Try sizes and print; returns the exit status, 1 where not even the smallest fits."""
    from ..fitting.largest import largest

    asked: dict[str, Any] = {"dim": options.dim, "fit": options.fit, "time_limit": options.time_limit}
    with waiting("trying sizes"):
        found = largest(options.source, options.budget, **asked, **_asked(options))
    with readers_may_leave():
        print(found)
    return OK if found.size else INVALID
