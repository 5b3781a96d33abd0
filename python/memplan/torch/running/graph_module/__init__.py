"""A network as a graph of torch.fx, in the order of a plan, with ops in pieces or run again.

`module.py` makes the graph. `writing.py` makes nodes of calls, `nodes.py` knows which tensors they show, and
`parts.py` writes pieces: `storages.py` says what they share, `slicing.py` which tensors are slices of others.
"""

from .module import call_like, reordered

__all__ = ["call_like", "reordered"]
