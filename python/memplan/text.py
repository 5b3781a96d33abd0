"""Names as people see them: nothing that they hold acts on a terminal, or draws as something else."""

from __future__ import annotations

import difflib
from collections.abc import Sequence


def printable(text: str) -> str:
    """The text on one line: line ends, control characters and what turns the direction of text around are escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def offer(name: str, names: Sequence[str], what: str) -> str:
    """What there is instead of a name: "there is 'mel'", or "the inputs are 'mel', 'tokens'"."""
    near = difflib.get_close_matches(name, names, n=1)
    if near:
        return f"there is {near[0]!r}"
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return f"the {what} are {', '.join(map(repr, names[:10]))}{more}" if names else f"there are no {what}"


def one_line(text: str) -> str:
    """The lines of a message as one, printable: "a; b"."""
    return printable("; ".join(line for piece in text.split("\n") if (line := piece.strip())))
