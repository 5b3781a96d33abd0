"""Tensors of which backward needs the shape alone: a number, shown in that shape, stands for them.

The backward of pooling and padding is given what was pooled or padded, and computes nothing of it. Forward would save
it, or backward would compute it again.
"""

from __future__ import annotations

from contextlib import nullcontext

import torch
from torch import fx

from ..private_compiler import detect_fake_mode

_aten = torch.ops.aten
READS_SHAPE = {  # whose second argument is a tensor that is as large as the result
    *(_aten.avg_pool2d_backward.default, _aten.avg_pool3d_backward.default),
    *(_aten._adaptive_avg_pool2d_backward.default, _aten._adaptive_avg_pool3d_backward.default),
    *(_aten.adaptive_max_pool2d_backward.default, _aten.adaptive_max_pool3d_backward.default),
    *(_aten.max_pool2d_with_indices_backward.default, _aten.max_pool3d_with_indices_backward.default),
    *(_aten.replication_pad1d_backward.default, _aten.replication_pad2d_backward.default),
    _aten.replication_pad3d_backward.default,
}


def keep_shapes(nodes: fx.Graph) -> None:
    """Give such ops a number in place of a tensor.

    Not where sizes are symbolic, nor where the tensor lies in another layout than the usual: the result has it too.
    """
    for node in [node for node in nodes.nodes if node.target in READS_SHAPE]:
        shown = node.args[1].meta["val"]
        if not all(isinstance(side, int) for side in shown.shape) or not shown.is_contiguous():
            continue
        how = {"dtype": shown.dtype, "device": shown.device}
        with nodes.inserting_before(node):
            zero = nodes.call_function(_aten.full.default, ([], 0), how)
            shape = nodes.call_function(_aten.expand.default, (zero, [*shown.shape]))
        with torch.no_grad(), detect_fake_mode(shown) or nullcontext():
            zero.meta["val"] = _aten.full.default([], 0, **how)
            shape.meta["val"] = _aten.expand.default(zero.meta["val"], [*shown.shape])
        node.update_arg(1, shape)
