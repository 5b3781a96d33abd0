"""In which mode a program was exported: its operators say so, and the program itself cannot change it any more."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import fx

from ..notes import say

_FLAGS = ("train", "training")  # arguments of operators


def note_mode(module: fx.GraphModule, train: bool) -> None:
    """Say so if all operators that ask for the mode were given another one than is planned for."""
    found = dict[str, bool]()
    for name, trains in _asked(module):
        found[name] = trains
        if trains is train:
            return
    if found:
        mode, other = ("eval", "train") if train else ("train", "eval")
        steps = ("inference", "training") if train else ("training", "inference")
        kinds = sorted(found, key=lambda name: "norm" in name)
        what = f"{', '.join(kinds[:-1])} and {kinds[-1]}" if len(kinds) > 1 else kinds[0]
        runs = "run" if len(kinds) > 1 else "runs"
        say(
            f"exported in {mode} mode: {what} {runs} as in {steps[0]}, and so does all else that asks for the mode; "
            f"for {steps[1]}, which may need other bytes, export the model after model.{other}()"
        )


def _asked(module: fx.GraphModule) -> Iterator[tuple[str, bool]]:
    """Operators that ask whether a model trains, by name, and what they were told."""
    graphs = [part for part in module.modules() if isinstance(part, fx.GraphModule)]
    for node in (node for part in graphs for node in part.graph.nodes):
        if not isinstance(node.target, torch._ops.OpOverload):
            continue
        schema = node.target._schema
        name = str(schema.name).rpartition("::")[2]
        if name.endswith("_no_training"):
            yield "batch_norm", False
        for position, argument in enumerate(schema.arguments):
            if argument.name in _FLAGS:
                given = node.args[position] if position < len(node.args) else node.kwargs.get(argument.name)
                yield name, bool(given)
