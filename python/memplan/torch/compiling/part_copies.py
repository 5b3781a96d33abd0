"""Copies of parts of a gradient, where a part is read long after the rest: the whole need not stay for it.

As the gradient of a concatenation of what was computed just before and of what comes from far away.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import nullcontext

import torch
from torch import fx

from ..private_compiler import detect_fake_mode
from .step_load import IN_MEMORY, storages

_aten = torch.ops.aten


def copy_parts(nodes: fx.Graph, backward: Collection[str]) -> bool:
    """Write copies into a joint graph, right after what they are parts of; whether there are any."""
    place = {node: k for k, node in enumerate(nodes.nodes)}
    late = [part for node in nodes.nodes if node.name in backward and (part := _late_part(node, place))]
    for part in late:
        readers = [*part.users]
        part.all_input_nodes[0].append(part)
        with nodes.inserting_after(part):
            copied = nodes.call_function(_aten.clone.default, (part,))
        with torch.no_grad(), detect_fake_mode(part.meta["val"]) or nullcontext():
            copied.meta = {**part.meta, "val": part.meta["val"].clone(), IN_MEMORY: True}
        for reader in readers:
            reader.replace_input_with(part, copied)
    return bool(late)


def _late_part(node: fx.Node, place: dict[fx.Node, int]) -> fx.Node | None:
    """The part of a tensor, at most half of it, that is read after all others were."""
    parts = [*node.users]
    if len(parts) < 2 or not all(part.target == _aten.slice.Tensor and part.users for part in parts):
        return None
    if any(storages(user).keys() & storages(node).keys() for part in parts for user in part.users):
        return None  # views of parts
    *rest, late = sorted(parts, key=lambda part: min(place[user] for user in part.users))
    if max(place[user] for part in rest for user in part.users) >= min(place[user] for user in late.users):
        return None
    return late if 2 * late.meta["val"].nbytes <= node.meta["val"].untyped_storage().nbytes() else None
