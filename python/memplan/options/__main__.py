"""``python -m memplan.options`` writes keywords.py: the options of functions as type checkers and editors see them."""

from __future__ import annotations

from pathlib import Path

from .declaring import options_of
from .taking import RECORDS, TAKES

_HEAD = '''"""The options of functions, for type checkers and editors: ``python -m memplan.options`` writes them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    from .. import _core
'''


def keywords() -> str:
    """The text of keywords.py."""
    blocks = [_HEAD]
    for function, takes in TAKES.items():
        title = "".join(word.title() for word in function.split("_"))
        rows = [f"    {one.name}: {one.type}".replace("'", '"') for one in options_of(*RECORDS) if one.name in takes]
        doc = f'    """Of `memplan.{function}`."""'
        blocks.append("\n".join([f"class {title}Options(TypedDict, total=False):", doc, "", *rows]))
    return "\n\n\n".join(block.rstrip("\n") for block in blocks) + "\n"


if __name__ == "__main__":
    (Path(__file__).parent / "keywords.py").write_text(keywords(), encoding="utf-8")
