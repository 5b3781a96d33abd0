"""Networks of torch with ops in pieces.

`table.py` says how calls are made in pieces, the files that it names how their arguments change. `recording.py` says
where pieces lie, and gives a recording that runs as any other.
"""

from .calls import Composed
from .inlining import Inlining

__all__ = ["Composed", "Inlining"]
