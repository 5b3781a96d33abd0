"""Names as people see them: nothing that they hold acts on a terminal, or draws as something else."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence


def printable(text: str) -> str:
    """The text on one line: line ends, control characters and what turns the direction of text around are escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def number(value: int) -> str:
    """Its digits; of one that Python would not write, how long it is."""
    return str(value) if value.bit_length() <= 256 else f"an integer of {value.bit_length()} bits"


def offer(name: str, names: Sequence[str], what: str) -> str:
    """What there is instead of a name: "did you mean 'mel'?", or "the inputs are 'mel', 'tokens'"."""
    near = nearest(name, names)
    if near is not None:
        return f"did you mean {near!r}?"
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return f"the {what} are {', '.join(map(repr, names[:10]))}{more}" if names else f"there are no {what}"


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The name that another may stand for: in small letters, or with a slip."""
    low = {known.casefold(): known for known in names}
    near = difflib.get_close_matches(name.casefold(), low, n=1)
    return low[near[0]] if near else None


def one_of(what: str, names: Sequence[str], got: object) -> str:
    """That one of a few names was expected: "kind must be one of input, output, got 'inptu'; did you mean 'input'?"."""
    near = nearest(got, names) if isinstance(got, str) else None
    return f"{what} must be one of {', '.join(names)}, got {got!r}" + (f"; did you mean {near!r}?" if near else "")


def one_line(text: str) -> str:
    """The lines of a message as one, printable: "a; b"."""
    return printable("; ".join(line for piece in text.split("\n") if (line := piece.strip())))


def counted(count: int, things: str) -> str:
    """A number of things: ``counted(1, "tensors")`` is ``'1 tensor'``."""
    return f"{count:,} {things if count != 1 else things.removesuffix('s')}"
