"""Names as people see them: nothing that they hold acts on a terminal, or draws as something else."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text on one line: line ends, control characters and what turns the direction of text around are escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def one_line(text: str) -> str:
    """The lines of a message as one, printable: "a; b"."""
    return printable("; ".join(line for piece in text.split("\n") if (line := piece.strip())))
