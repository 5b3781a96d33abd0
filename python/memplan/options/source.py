"""What a plan was made from, as its caller gave it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..frontend import Form
from .records import Reading


@dataclass(frozen=True, eq=False)
class Source:
    """A network or a tape as `memplan.plan` was given it, with the options of its import.

    Attributes
    ----------
    value : Any
        The network: a module, graph, program or model, or the path of its file. Or a tape. It is held, not copied.
    form : Form
        The form in which it came; see `memplan.frontend`.
    reading : Reading
        How it was read; see `memplan.capture`.
    engine
        As in `Plan.run`.
    """

    value: Any
    form: Form
    reading: Reading = field(default_factory=Reading)
    engine: str = "reference"
