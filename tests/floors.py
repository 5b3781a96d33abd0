"""Draws which rooms use which, of the core and of the package, and the borders of wings.

Run: ``python tests/floors.py [CHECKOUT]``.

A room is a folder or module. Rooms come from the ground: each after all that it uses, but for those in a circle, which
come last. Imports in functions and for types count, but for the methods of a plan, which hand on to the rooms above.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

Uses = dict[str, set[str]]


def of_the_core(root: Path) -> Uses:
    """Folders of the core; a public header is in the folder of the source of its name, or else a room of its own."""
    source, public = root / "cpp" / "src", root / "cpp" / "include" / "memplan"
    home = {path.stem: path.parent for path in source.rglob("*.cpp") if (public / f"{path.stem}.hpp").exists()}

    def room(path: Path) -> str:
        folder = home.get(path.stem) if path.parent == public else path.parent
        if folder is None:
            return path.name
        return re.sub("/(own|literature)$", "", folder.relative_to(source).as_posix())

    uses: Uses = {}
    for path in [*source.rglob("*.[ch]pp"), *(p for p in public.glob("*.hpp") if p.stem != "memplan")]:
        named = re.findall(r'^\s*#include "([^"]+)"', path.read_text(), re.MULTILINE)
        seen = [
            public / name.removeprefix("memplan/") if name.startswith("memplan/") else source / name for name in named
        ]
        uses.setdefault(room(path), set()).update(room(other) for other in seen)
    return uses


def of_the_package(root: Path) -> Uses:
    """Folders of the package, and its modules beside them."""
    package = root / "python" / "memplan"
    uses: Uses = {}
    for path in package.rglob("*.py"):
        inside = path.relative_to(package).with_suffix("").parts
        if len(inside) > 1 or not inside[0].startswith("__"):
            uses.setdefault(inside[0], set()).update(_imported(path, inside, package))
    return uses


def _imported(path: Path, inside: tuple[str, ...], package: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in tree.body if inside == ("plans", "plan") else ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or node.level == 0:
            continue
        base = [*inside[: len(inside) - node.level], *(node.module or "").split(".")]
        for parts in [[part for part in base if part]] if any(base) else [[alias.name] for alias in node.names]:
            if (package / parts[0]).is_dir() or (package / f"{parts[0]}.py").exists():
                yield parts[0]


def borders(root: Path, wings: Sequence[str]) -> Iterator[str]:
    """A line per wing, and one for the front: lines of Python, and names that cross the border to it and from it."""
    package = root / "python" / "memplan"
    lines: Counter[str] = Counter()
    crossing: dict[tuple[str, str], set[str]] = {}
    for path in package.rglob("*.py"):
        inside = path.relative_to(package).with_suffix("").parts
        own = inside[0] if inside[0] in wings else "front"
        text = path.read_text(encoding="utf-8")
        lines[own] += text.count("\n")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and node.level > 0:
                base = [*inside[: len(inside) - node.level], *(node.module or "").split(".")]
                for alias in node.names:
                    named = [part for part in (*base, alias.name) if part]
                    other = named[0] if named[0] in wings else "front"
                    crossing.setdefault((own, other), set()).add(".".join(named))
    yield f"  {'front':12} {lines['front']:7,} lines"
    for wing in wings:
        takes, gives = (len(crossing.get(pair, ())) for pair in ((wing, "front"), ("front", wing)))
        yield f"  {wing:12} {lines[wing]:7,} lines  takes {takes} names of the front, which takes {gives} of it"


def drawn(uses: Uses) -> Iterator[str]:
    """A line per room, from the ground."""
    left = {room: used - {room} for room, used in uses.items()}
    width = max(map(len, left))
    while ready := sorted(room for room, used in left.items() if not used & left.keys()):
        for room in ready:
            yield f"  {room:{width}}  {', '.join(sorted(left.pop(room)))}"
    yield f"  in circles: {', '.join(sorted(left)) or 'none'}"
    yield from (f"  {room:{width}}  {', '.join(sorted(used))}" for room, used in sorted(left.items()))


if __name__ == "__main__":
    checkout = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1]
    for title, found in (("core", of_the_core(checkout)), ("package", of_the_package(checkout))):
        print(title, *drawn(found), sep="\n")
    print("borders", *borders(checkout, ("torch", "onnx", "tflite", "executorch", "jax")), sep="\n")
