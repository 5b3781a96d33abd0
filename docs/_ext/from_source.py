"""What pages say that is taken from the project itself while the site is built, so that it holds.

A page has a line `[[name]]` where such text goes.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import os
import re
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import memplan
from memplan.cli import main, parser
from memplan.planning import Parameter, PlannerInfo

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SOURCES = ROOT / "cpp" / "src"


def planner_table() -> str:
    """A row per planner, each with a link to its section."""
    lines = ["| planner | what it does | exact | supports | complexity |", "|---|---|---|---|---|"]
    for row in memplan.planners():
        exact = "yes" if row.exact else ""
        cells = (f"[`{row.name}`](#{row.name})", row.title, exact, ", ".join(row.supports), row.complexity)
        lines.append("| " + " | ".join(_cell(cell) for cell in cells) + " |")
    return "\n".join(lines)


FEATURES = ("alignment", "shapes", "conflicts", "pins", "reserved")


def feature_table() -> str:
    """A row per planner, a column per feature."""
    lines = [f"| planner | {' | '.join(FEATURES)} |", "|---|" + ":-:|" * len(FEATURES)]
    for row in memplan.planners():
        cells = ("yes" if feature in row.supports else "" for feature in FEATURES)
        lines.append(f"| [`{row.name}`](planners.md#{row.name}) | {' | '.join(cells)} |")
    return "\n".join(lines)


def order_table() -> str:
    """A row per order of ops."""
    lines = ["| order | what it does | complexity | source |", "|---|---|---|---|"]
    for row in memplan.orders():
        title = ". ".join([row.title, *(f"{p.name}={p.standard}: {_parameter(p)}" for p in row.parameters)])
        cells = (f"`{row.name}`", title, row.complexity, row.source)
        lines.append("| " + " | ".join(_cell(cell) for cell in cells) + " |")
    return "\n".join(lines)


def planner_sections() -> str:
    """A section per planner: its row, its parameters, and the head of its source."""
    return "\n\n".join(_section(row) for row in memplan.planners())


def _section(row: PlannerInfo) -> str:
    facts = [
        *([("Also known as", f"`{row.alias}`")] if row.alias else []),
        ("Exact", "yes: an optimum, given time" if row.exact else "no"),
        ("Supports", ", ".join(row.supports) or "sizes and lifetimes only"),
        ("Complexity", row.complexity),
        ("Source", row.source),
        *((f"`{parameter.name}={parameter.standard}`", _parameter(parameter)) for parameter in row.parameters),
    ]
    table = "\n".join(f"| {_cell(name)} | {_cell(text)} |" for name, text in facts)
    idea = _head(row).removeprefix(f"{row.name}: ") or f"{row.title}."
    return f"## `{row.name}`\n\n| | |\n|---|---|\n{table}\n\n{_markdown(idea[:1].upper() + idea[1:])}"


def _parameter(parameter: Parameter) -> str:
    limited = parameter.least is not None and parameter.most is not None
    numbers = f"{parameter.least:,} to {parameter.most:,}" if limited else parameter.expected
    values = ", ".join(f"`{word}`" for word in parameter.words) or numbers
    return f"{parameter.title}; {values}"


def _head(row: PlannerInfo) -> str:
    """The comment or docstring at the head of the planner's source: idea, guarantee, complexity, drawings."""
    if row.run is not None:
        return inspect.cleandoc(sys.modules[row.run.__module__].__doc__ or "")
    folder = SOURCES if row.name == "auto" else SOURCES / "planners"
    source = next(folder.glob(f"*/{row.name}.cpp")).read_text(encoding="utf-8")
    lines = []
    for line in source.splitlines():
        if not line.startswith("//"):
            break
        lines.append(line[2:].removeprefix(" "))
    return "\n".join(lines)


def _markdown(comment: str) -> str:
    """Plain text as Markdown: what is indented, drawings and lists, as it stands; the rest as paragraphs."""
    parts = re.split(r"((?:^ .*\n?(?:\n(?= ))*)+)", comment, flags=re.MULTILINE)
    prose, drawings = parts[0::2], parts[1::2]
    texts = [_escaped(prose[0])]
    for drawing, text in zip(drawings, prose[1:], strict=True):
        texts += [f"```text\n{textwrap.dedent(drawing).rstrip()}\n```", _escaped(text)]
    return "\n\n".join(texts)


def _escaped(prose: str) -> str:
    """Nothing but `code` is markup."""
    spans = prose.strip().split("`")
    spans[0::2] = [re.sub(r"([\\*_<>\[\]|#])", r"\\\1", span) for span in spans[0::2]]
    return "`".join(spans)


def commands() -> str:
    """The help of the command line and of each command."""
    os.environ["COLUMNS"] = "100"
    names = next(action.choices for action in parser()._actions if action.choices)
    return "\n\n".join(f"## memplan {name}\n\n```text\n{_help(name)}\n```" for name in names)


def _help(command: str) -> str:
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
        main([command, "--help"])
    return text.getvalue().strip()


def other_names() -> str:
    """Public names that the page of the interface has no place for yet."""
    page = (DOCS / "api.rst").read_text(encoding="utf-8")
    missing = [name for name in memplan.__all__ if not re.search(rf":: {name}\b", page) and name != "__version__"]
    if not missing:
        return ""
    return "\n".join(["Further names", "-------------", "", *map(_entry, missing)])


def _entry(name: str) -> str:
    value = getattr(memplan, name)
    if inspect.isclass(value):
        kind = "exception" if issubclass(value, Exception) else "class"
        return f".. auto{kind}:: {name}\n   :members:\n"
    return f".. autofunction:: {name}\n" if callable(value) else f".. autodata:: {name}\n   :no-value:\n"


def other_pages() -> str:
    """Pages that the contents do not name yet, for a list of contents."""
    index = (DOCS / "index.md").read_text(encoding="utf-8").split()
    return "\n".join(sorted(page.stem for page in DOCS.glob("*.md") if page.stem not in {*index, "index", "README"}))


def _cell(text: str) -> str:
    return text.replace("|", r"\|").replace("*", r"\*")


TEXTS: dict[str, Callable[[], str]] = {
    "order table": order_table,
    "planner table": planner_table,
    "feature table": feature_table,
    "planner sections": planner_sections,
    "commands": commands,
    "other names": other_names,
    "other pages": other_pages,
}


def fill_in(app: Any, docname: str, source: list[str]) -> None:
    """Put the texts where a page asks for them."""
    source[0] = re.sub(r"^\[\[([a-z ]+)\]\]$", lambda match: TEXTS[match[1]](), source[0], flags=re.MULTILINE)


def resolve_public(app: Any, env: Any, node: Any, contnode: Any) -> Any:
    """A link to where a class is documented, whichever module it is defined in: memplan._core.Graph, Graph."""
    if node.get("refdomain") != "py":
        return None
    name = node["reftarget"].rpartition(".")[2]
    domain = env.domains["py"]
    for target, found in sorted(domain.objects.items(), key=lambda item: len(item[0])):
        if target.startswith("memplan.") and target.endswith(f".{name}") and found.objtype in ("class", "exception"):
            return domain.resolve_xref(env, node["refdoc"], app.builder, found.objtype, target, node, contnode)
    return None


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("source-read", fill_in)
    app.connect("missing-reference", resolve_public)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
