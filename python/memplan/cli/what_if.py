"""``memplan what-if``."""

from __future__ import annotations

import argparse
from pathlib import Path

from .arguments import Commands, check_targets, new_command
from .terminal import INVALID, OK, readers_may_leave, waiting
from .values import size

EXAMPLES = """
memplan what-if snapshot.pickle
memplan what-if snapshot.pickle --capacity 24GiB --plot reserved.png
"""


def add(commands: Commands) -> None:
    """Add the command."""
    text = "say what torch's CUDA allocator would have reserved with other settings, from a memory snapshot"
    command = new_command(commands, "what-if", text, EXAMPLES)
    command.set_defaults(run=run)
    command.add_argument("source", metavar="SNAPSHOT", help="what torch.cuda.memory._dump_snapshot wrote (.pickle)")
    command.add_argument("--capacity", type=size, metavar="N", help="bytes of the device, such as 24GiB: what fits")
    command.add_argument("--device", type=int, metavar="D", help="the device (default: the only one with events)")
    command.add_argument(
        "--setting",
        action="append",
        default=[],
        metavar="TEXT",
        help="one more to try, as PYTORCH_ALLOC_CONF has it; may be given several times",
    )
    command.add_argument("--plot", type=Path, metavar="F", help="the bytes over the trace, as a picture")


def run(options: argparse.Namespace) -> int:
    """Replay, try settings, draw and print; returns the exit status."""
    from ..files import replacing
    from ..importers import form_of

    check_targets([options.plot], [options.source])
    form = form_of(options.source)
    if form.what_if is None:
        raise ValueError(f"{options.source}: expected a memory snapshot of torch, a .pickle file, got {form.name}")
    with waiting(f"replaying {options.source}"):
        found = form.what_if(options.source, capacity=options.capacity, device=options.device, settings=options.setting)
    if options.plot is not None:
        with replacing(options.plot) as beside:
            found.plot().savefig(beside)
    with readers_may_leave():
        print(found)
    return INVALID if found.rows[0].fits is False else OK
