"""What a step of a network needs, by what it is for; and the largest size that fits."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from ..plans.changes import Change
from ..printing.tables import html, text

ROUNDED = {"cpu": 1, "cuda": 512}  # bytes: what allocators round sizes up to
PHASES = ("forward", "backward", "update")
PARTS = ("weights", "gradients", "states", "inputs", "activations", "temporaries", "workspaces", "rounding")


@dataclass(frozen=True)
class Estimate:
    """Bytes that eager torch holds at the worst moment of a step; see `memplan.estimate`.

    Attributes
    ----------
    weights : int
        Parameters and buffers.
    gradients : int
        Of parameters, as far as they are there at that moment.
    states : int
        Of the optimizer.
    inputs : int
        The arguments.
    activations : int
        What forward has made, and holds for the backward pass or for itself.
    temporaries : int
        What the backward pass or the optimizer has made, besides gradients of parameters.
    workspaces : int
        What kernels are known to need for themselves.
    rounding : int
        What the allocator adds: on CUDA it gives multiples of 512 bytes.
    phase : str
        When the worst moment is: "forward", "backward" or "update".
    at : str
        The op of that moment, by type.
    device : str
        "cpu" or "cuda".
    reserved : int or None
        On CUDA, the most that torch's caching allocator reserves in the first three steps of a loop.
    suffices : int or None
        On CUDA, with how many bytes of the device these steps run: what is only cached goes back where memory runs out.
    notes : tuple of str
        What is not known.
    """

    weights: int = 0
    gradients: int = 0
    states: int = 0
    inputs: int = 0
    activations: int = 0
    temporaries: int = 0
    workspaces: int = 0
    rounding: int = 0
    phase: str = "forward"
    at: str = ""
    device: str = "cpu"
    reserved: int | None = None
    suffices: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def parts(self) -> dict[str, int]:
        """Bytes by what they are for; they sum up to `total`."""
        return {name: getattr(self, name) for name in PARTS}

    @property
    def total(self) -> int:
        """Bytes that are held at the worst moment."""
        return sum(self.parts.values())

    @property
    def kept(self) -> int:
        """Bytes that are there before the step and after it: weights, states and inputs."""
        return self.weights + self.states + self.inputs

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain Python objects."""
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**own, "notes": list(self.notes), "total": self.total}

    def __str__(self) -> str:
        from .text import estimate_table

        return text(estimate_table(self))

    def _repr_html_(self) -> str:
        from .text import estimate_table

        return html(estimate_table(self))


@dataclass(frozen=True)
class Largest:
    """The largest size that fits; see `memplan.largest`.

    Attributes
    ----------
    size : int
        Of the axes; 0 if not even 1 fits.
    budget : int
        Bytes that were given.
    total, next_total : int or None
        Bytes that are needed at `size`, and at one more. With ``fit=True``, what an arena and all that lies outside
        of it need; None where no schedule was found.
    tried : dict
        Bytes by size, of all sizes that were looked at; None where no schedule was found.
    changes : tuple of Change
        With ``fit=True``, what is given up at `size`.
    added_cost : float
        With ``fit=True``, what that costs, as a share of all ops.
    limit : str
        Why one more cannot be asked for, if that is not for its bytes: the source does not hold for it.
    besides : bool
        The budget was "kept + ...": all bytes here are besides weights, states and inputs.
    """

    size: int
    budget: int
    total: int | None
    next_total: int | None
    tried: dict[int, int | None]
    changes: tuple[Change, ...] = ()
    added_cost: float = 0.0
    limit: str = ""
    besides: bool = False

    def __int__(self) -> int:
        return self.size

    def __str__(self) -> str:
        from .text import largest_text

        return largest_text(self)
