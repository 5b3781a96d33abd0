"""Plans of torch, run: the calls that the importer saw, one after another, on views of one arena."""

from __future__ import annotations

import os
from typing import Any

from ...importers.graph_dict import graph_of
from ...options.source import Source
from ...running.program import Program
from ..installed import names_of_torch, require_torch
from ..reading import import_pt2, import_torch

_WHAT = "running a plan of torch"


def program_of(source: Source) -> Program:
    """The program of a module, graph, exported program or .pt2 file."""
    require_torch(_WHAT)
    with names_of_torch(_WHAT):
        from .module_state import Modes, weights_held
        from .program import TorchProgram
        from .recording import Recording

    recording = Recording()
    value = source.value
    modes = Modes(value)
    read = source.reading
    options: dict[str, Any] = {"train": read.train, "dims": read.dims, "inplace_ops": frozenset(read.inplace_ops)}
    options |= {"optimizer": read.optimizer, "keep_gradients": read.keep_gradients}
    if isinstance(value, (str, os.PathLike)):
        spec = import_pt2(value, **options, trust=read.trust, listener=recording)
    else:
        spec = import_torch(value, args=tuple(read.args), kwargs=read.kwargs, **options, listener=recording)
    graph = graph_of(spec, measured=True)
    return TorchProgram(source, graph, recording, weights_held(value), modes, program_of)
