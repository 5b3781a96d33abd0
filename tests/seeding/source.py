"""Where a fault is seeded: in the functions of a name, at the one place where some tokens stand.

Spaces, line ends and comments do not count. So a fault stays where it is when code is formatted, moved to another
file, or written around it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from builders.paths import ROOT

CORE, PACKAGE = ROOT / "cpp" / "src", ROOT / "python" / "memplan"

# What becomes of the tokens, if it is not a text that takes their place:
DROP = "the statement that holds them is gone"
TRUE, FALSE = "the operand of && and || that holds them is true", "the operand of && and || that holds them is false"

_COMMENTS = {".cpp": r"//[^\n]*|/\*.*?\*/", ".py": r"#[^\n]*"}
_TOKENS = r'"(?:\\.|[^"\\\n])*"|[A-Za-z_]\w*|\d[\w.\']*|<=>|->|\+\+|--|<<|>>|[<>=!+*/%&|^-]=|&&|\|\||::|.'
_CLOSED_BY = {"(": ")", "{": "}", "[": "]"}
_AROUND_OPERANDS = {"&&", "||", ";", ",", "?", ":", "{", "}", "return"}


class Fault(NamedTuple):
    """What is wrong, in which function, where in it, and what stands there then.

    Attributes
    ----------
    where : str
        The name of a function, or "file function" where several share it.
    at : str
        Tokens that stand once in it.
    becomes : str
        What takes their place: a text, DROP, TRUE or FALSE.
    found_by : str
        The file of tests in Python that is to find it; without one, tests of tests/cpp do.
    """

    what: str
    where: str
    at: str
    becomes: str
    found_by: str = ""


class Token(NamedTuple):
    text: str
    begin: int
    end: int


@cache
def tokens_of(text: str, suffix: str) -> list[Token]:
    found = re.finditer(rf"(?P<skip>\s+|{_COMMENTS[suffix]})|{_TOKENS}", text, re.DOTALL)
    return [Token(m[0], *m.span()) for m in found if m["skip"] is None]


@cache
def texts_of(folder: Path, suffix: str) -> list[tuple[Path, str]]:
    return [(path, path.read_text(encoding="utf-8")) for path in sorted(folder.rglob(f"*{suffix}"))]


def functions(name: str, file: str) -> Iterator[tuple[Path, str, list[Token]]]:
    """The functions of this name that the core and the package define: in the files called `file`, or in all."""
    for path, text in (*texts_of(CORE, ".cpp"), *texts_of(PACKAGE, ".py")):
        if file in ("", path.stem) and f"{name}(" in text:
            tokens = tokens_of(text, path.suffix)
            for begin, end in _in_cpp(name, tokens) if path.suffix == ".cpp" else _in_python(name, text, tokens):
                yield path, text, tokens[begin:end]


def mutated(fault: Fault) -> tuple[Path, str]:
    """The file that the fault changes, and what it holds then."""
    file, _, name = fault.where.rpartition(" ")
    places = []
    for path, text, tokens in functions(name, file):
        wanted, texts = [token.text for token in tokens_of(fault.at, path.suffix)], [token.text for token in tokens]
        starts = [k for k in range(len(texts)) if texts[k : k + len(wanted)] == wanted]
        places += [(path, text, *_changed(tokens, k, k + len(wanted), fault.becomes)) for k in starts]
    if len(places) != 1:
        raise ValueError(f"expected once in {fault.where}, found {len(places)} times: {fault.at}")
    [(path, text, begin, end, new)] = places
    return path, text[:begin] + new + text[end:]


def _changed(tokens: list[Token], first: int, last: int, becomes: str) -> tuple[int, int, str]:
    """From where to where the text changes, and into what."""
    if becomes == DROP:
        first, last = _reach(tokens, first, -1, {";", "{", "}"}), _reach(tokens, last - 2, 1, {";"}) + 1
        becomes = ""
    elif becomes in (TRUE, FALSE):
        first, last = (
            _reach(tokens, first, -1, _AROUND_OPERANDS, True),
            _reach(tokens, last - 1, 1, _AROUND_OPERANDS, True),
        )
        becomes = "true" if becomes == TRUE else "false"
    return tokens[first].begin, tokens[last - 1].end, becomes


def _reach(tokens: list[Token], at: int, step: int, ends: set[str], inside: bool = False) -> int:
    """How far what holds a token goes: to a token of `ends`, or out of its brackets if `inside`."""
    into, out_of = (_CLOSED_BY, _CLOSED_BY.values()) if step > 0 else (_CLOSED_BY.values(), _CLOSED_BY)
    depth = 0
    while True:
        at += step
        text = tokens[at].text
        if depth == 0 and (text in ends or (inside and text in out_of)):
            return at if step > 0 else at + 1
        depth = max(depth + (text in into) - (text in out_of), 0)


def _closing(tokens: list[Token], at: int) -> int:
    """What closes the bracket at `at`."""
    depth = 0
    for k in range(at, len(tokens)):
        depth += (tokens[k].text in _CLOSED_BY) - (tokens[k].text in _CLOSED_BY.values())
        if depth == 0:
            return k
    raise ValueError("a bracket is never closed")


def _in_cpp(name: str, tokens: list[Token]) -> Iterator[tuple[int, int]]:
    """The first token and the end of each function that is defined. What initialises members belongs to it."""
    for k in range(1, len(tokens) - 1):
        if tokens[k].text != name or tokens[k + 1].text != "(":
            continue
        at = _closing(tokens, k + 1) + 1
        while tokens[at].text in ("const", "noexcept", "override"):
            at += 1
        while at + 2 < len(tokens) and tokens[at].text in (":", ",") and tokens[at + 2].text in _CLOSED_BY:
            at = _closing(tokens, at + 2) + 1
        if tokens[at].text == "{":
            yield k, _closing(tokens, at) + 1


def _in_python(name: str, text: str, tokens: list[Token]) -> Iterator[tuple[int, int]]:
    starts = list(accumulate(map(len, text.splitlines(keepends=True)), initial=0))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            inside = range(starts[node.lineno - 1], starts[node.end_lineno or 0])
            found = [k for k, token in enumerate(tokens) if token.begin in inside]
            yield found[0], found[-1] + 1
