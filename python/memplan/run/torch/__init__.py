"""Plans of torch, run: the calls that the importer saw, one after another, on views of one arena."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...facts.source import Source
from ...importers.graph_dict import graph_of
from ...importers.torch import import_pt2, import_torch
from ..program import Program

if TYPE_CHECKING:
    from torch import Tensor


def program_of(source: Source) -> Program:
    """The program of a module, graph, exported program or .pt2 file."""
    from .program import TorchProgram
    from .recording import Recording

    recording = Recording()
    value = source.value
    options: dict[str, Any] = {"train": source.train, "dims": source.dims, "inplace_ops": frozenset(source.inplace_ops)}
    if source.kind == ".pt2":
        spec = import_pt2(value, **options, trust=source.trust, listener=recording)
    else:
        spec = import_torch(value, args=tuple(source.args), kwargs=source.kwargs, **options, listener=recording)
    graph = graph_of(spec, measured=True)
    return TorchProgram(source, graph, recording, lambda: _held(value))


def _held(value: Any) -> Mapping[str, Tensor]:
    """The weights that a network has now, by name; those of a file are those that were read."""
    import torch

    if isinstance(value, torch.export.ExportedProgram):
        return {**value.constants, **value.state_dict}
    if isinstance(value, torch.nn.Module):
        from ...importers.torch.module import weights_of

        return weights_of(getattr(value, "_orig_mod", value))
    return {}
