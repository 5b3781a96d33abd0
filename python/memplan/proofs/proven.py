"""What a proof shows, once it has been checked."""

from __future__ import annotations

from dataclasses import dataclass

from ..sizes import with_bytes


@dataclass(frozen=True, repr=False)
class Proven:
    """What has been proven; printed, it is a sentence.

    Attributes
    ----------
    what : str
        What holds, up to the bytes, such as "Every order of 12 ops needs at least".
    bytes : int
        For which bytes.
    by : str
        By what kind of proof, such as "a flow to what op 'conv' and later ops use".
    """

    what: str
    bytes: int
    by: str

    def __str__(self) -> str:
        return f"{self.what} {with_bytes(self.bytes)}. Proven by {self.by}."

    __repr__ = __str__
