"""What an operator costs: floating-point operations, as torch counts them, and bytes that it reads and writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch.utils.flop_counter import flop_registry

from .effects import flat_tensors


def cost_of(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any) -> Any:
    """Operations and bytes, one for each; none for a view. Symbolic where sizes are."""
    given = list(flat_tensors([list(args), dict(kwargs)]))
    known = {id(t.untyped_storage()) for t in given}
    if not func._schema.is_mutable and all(id(t.untyped_storage()) in known for t in flat_tensors(result)):
        return 0
    count = flop_registry.get(func._overloadpacket)
    flops = 0 if count is None else count(*args, **kwargs, out_val=result)
    return flops + sum(t.numel() * t.element_size() for t in [*given, *flat_tensors(result)])
