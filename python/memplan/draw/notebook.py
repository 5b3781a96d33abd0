"""What a notebook shows of plans, graphs and problems: figures and a small picture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from xml.etree.ElementTree import Element, SubElement

from .. import _core
from ..plans.plan import Plan
from ..printing.tables import image_of, written
from ..printing.units import shortened, with_bytes
from .figures import load_figure, png
from .gantt import plan_picture
from .layout import summary_rows

_MOST_TYPES = 8


def plan_html(plan: Plan) -> str:
    """The figures of a plan, and a small Gantt chart: below 300 KB, however many buffers there are."""
    return _page("Plan", [_table(summary_rows(plan)), *([_image(plan_picture(plan), "the plan")] if len(plan) else [])])


def graph_html(graph: _core.Graph) -> str:
    """Tensors by kind, ops by type, and the load of what `memplan.plan` places by default, over the steps."""
    plain = _core.Graph(graph.tensors, graph.ops, graph.outputs)  # what a layout names may not be placed by default
    problem = _core.buffers_of(plain, _core.StorageOptions()).problem
    count: Counter[str] = Counter()
    weight: Counter[str] = Counter()
    for tensor in graph.tensors:
        count[tensor.kind] += 1
        weight[tensor.kind] += tensor.bytes
    ops = graph.ops
    kinds = [(kind, f"{count[kind]:,}, {with_bytes(weight[kind])}") for kind in count]
    rows = [("ops", f"{len(ops):,}"), ("tensors", f"{len(graph.tensors):,}"), *kinds]
    rows += [("load", f"{with_bytes(problem.load)}, of {len(problem):,} buffers placed by default")]
    types = _table(_most_common(op.type or "(no type)" for op in ops))
    return _page("Graph", [_columns([_table(rows), types] if ops else [_table(rows)]), *_curve(problem)])


def problem_html(problem: _core.Problem) -> str:
    """Counts, bytes, and the load over the steps."""
    rows = [("buffers", f"{len(problem):,}"), ("bytes", with_bytes(int(problem.size.sum())))]
    rows += [("load", with_bytes(problem.load))]
    if len(problem):
        rows += [("steps", f"{int(problem.first.min()):,} to {int(problem.last.max()):,}")]
        alignments = sorted({int(value) for value in problem.alignment})
        rows += [("alignment", ", ".join(f"{value:,}" for value in alignments[:6]) + " …" * (len(alignments) > 6))]
    if problem.parts is not None:
        rows += [("parts", f"{len(problem.parts):,}, of {len(set(problem.parts[:, 0].tolist())):,} buffers")]
    if problem.conflicts is not None:
        rows += [("conflicts", f"{len(problem.conflicts):,}")]
    if problem.pins is not None:
        rows += [("pinned", f"{int((problem.pins >= 0).sum()):,} buffers")]
    if problem.reserved is not None:
        rows += [("reserved", f"{len(problem.reserved):,} ranges")]
    return _page("Problem", [_table(rows), *_curve(problem)])


def _image(picture: bytes, alt: str) -> Element:
    image = image_of(picture, alt)
    image.set("style", "max-width: 100%; height: auto")
    return image


def _curve(problem: _core.Problem) -> list[Element]:
    return [_image(png(load_figure(problem)), "the load")] if len(problem) else []


def _most_common(types: Iterable[str]) -> list[tuple[str, str]]:
    count = Counter(types).most_common()
    rows = [(name, f"{number:,}") for name, number in count[:_MOST_TYPES]]
    rest = count[_MOST_TYPES:]
    return rows + ([(f"{len(rest):,} other types", f"{sum(n for _, n in rest):,}")] if rest else [])


def _page(kind: str, parts: Sequence[Element]) -> str:
    page = Element("div", {"style": "max-width: 60em"})
    SubElement(page, "strong").text = f"memplan.{kind}"
    page.extend(parts)
    return written(page)


def _columns(parts: Sequence[Element]) -> Element:
    columns = Element("div", {"style": "display: flex; flex-wrap: wrap; gap: 3em; align-items: flex-start"})
    columns.extend(parts)
    return columns


def _table(rows: Sequence[tuple[str, str]]) -> Element:
    """Two columns without a head; names are cut where they are long."""
    table = Element("table", {"style": "margin: 0.5em 0; border-collapse: collapse"})
    body = SubElement(table, "tbody")
    for label, value in rows:
        row = SubElement(body, "tr")
        SubElement(row, "th", {"style": "text-align: left; padding: 0.1em 1em 0.1em 0"}).text = shortened(label)
        SubElement(row, "td", {"style": "text-align: left; padding: 0.1em 0"}).text = shortened(value, 200)
    return table
