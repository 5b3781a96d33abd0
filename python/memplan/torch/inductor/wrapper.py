"""What torch.compile's wrapper code does with memory: plain records, without torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Block:
    """Bytes that a wrapper holds during the steps [first, last), and the buffers that lie in them, one after another.

    ``source`` says who allocates them: "wrapper", its own line; "kernel", a kernel that returns them; "input", a
    donated input whose bytes a buffer takes over, which counts from there; "given", an input until the graph lets it
    go; or "scratch", a kernel that frees them again. A block that ``escapes`` is freed by no line: the graph returns
    it, or torch keeps it.
    """

    buffers: list[str]
    bytes: int
    first: int
    last: int
    source: str
    escapes: bool = False
    device: str = "cpu"

    @property
    def name(self) -> str:
        """The buffer that the block was made for."""
        return self.buffers[0]


@dataclass(frozen=True)
class Call:
    """A call of a kernel that allocates what it returns, in a step: each block of it, and where it is in the result.

    A path is empty if the result is the buffer itself, and (2,) if it is the third of several.
    """

    step: int
    results: list[tuple[tuple[int, ...], Block]]


@dataclass(frozen=True)
class Pool:
    """One allocation of torch's memory planner: bytes, the steps that it is held, and where its buffers lie in it."""

    bytes: int
    first: int
    last: int
    offsets: dict[str, int]
