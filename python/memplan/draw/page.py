"""The interactive page: plans as Gantt charts side by side, in one HTML file that needs no network.

page.html is the frame, page.js what happens in the browser; bokeh draws.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from ..dtypes import typed_shape
from ..errors import MissingDependencyError
from ..files import write_text
from ..plans.buffer_info import BufferInfo, buffer_infos
from ..plans.plan import Plan
from ..plans.pools_text import cost_text, pools_table
from ..plans.returns import Return, returns_of
from ..plans.usage import rectangles
from ..plans.verdict import changes_text, enough, optimal, title_of
from ..printing.units import format_bytes, percent, seconds
from ..text import printable
from .away import KINDS, height
from .bands import spaced
from .charts import Axes, add_arrows, away_chart, gantt_chart, load_chart, small
from .colours import COLOUR_BY, Colouring, colourings, samples
from .highlight import checked_plans, is_plan, marks, names_in

_BESIDE = 3  # charts in a row
_TENANTS = 6  # tensors that a tooltip lists
_HERE = Path(__file__).parent


def write_page(
    plans: Plan | Sequence[Plan],
    path: str | os.PathLike[str],
    *,
    title: str = "memory plan",
    highlight: str | Iterable[str] = (),
    colour_by: str = "buffer",
) -> None:
    """Write plans into one interactive HTML file, side by side: plans of several planners, or of several networks.

    - Steps go across, addresses go up, each buffer is a box, and the load is below. All charts zoom and pan together.
    - A tooltip says what a buffer is, and which ops make and read it.
    - A search finds tensors by a part of their name.
    - Colours tell buffers apart, or show the order of birth, size, lifetime, kind, type of op or layer, as in
      `plot_plans`.

    The file opens from a disk and never uses a network.

    Parameters
    ----------
    plans
        One plan, or several.
    path
        The file to write.
    title
        The heading.
    highlight
        Names of tensors, buffers or modules that are marked when the page opens, as in `Plan.plot`.
    colour_by
        What the colours tell when the page opens: "buffer", "order", "size", "lifetime", "kind", "op_type" or
        "layer".

    Raises
    ------
    TypeError
        `plans` is neither a plan nor a list of plans.
    ValueError
        There are no plans, one of them lacks what is to be highlighted, or their colours cannot tell what is asked.
    MissingDependencyError
        Bokeh is not installed, or is older than 3.8.
    """
    plans = checked_plans([plans] if is_plan(plans) else plans)
    if not plans:
        raise ValueError("plans must hold at least one plan, got none")
    require_bokeh()
    names = names_in(highlight)
    marked = dict.fromkeys(printable(mark.slot.name) for plan in plans for mark in marks(plan, names))
    write_text(path, _page(plans, printable(title), list(marked), colour_by))


def require_bokeh() -> None:
    """MissingDependencyError where a page cannot be written; tooltips of older versions take names for HTML."""
    try:
        from bokeh import __version__ as version
    except ImportError as error:
        raise MissingDependencyError("an interactive page needs bokeh: pip install 'memplan[page]'") from error
    if tuple(map(int, version.split(".")[:2])) < (3, 8):
        raise MissingDependencyError(
            f"an interactive page needs bokeh >= 3.8, got {version}: pip install --upgrade 'memplan[page]'"
        )


def _page(plans: Sequence[Plan], title: str, marked: list[str], colour_by: str) -> str:
    from bokeh.document import Document
    from bokeh.embed import file_html
    from bokeh.models import CustomJS
    from bokeh.resources import Resources
    from jinja2 import Environment

    infos = [buffer_infos(plan) for plan in plans]
    known = _paints(plans, infos)
    first = _first(known, plans, infos, colour_by)
    views = _views([spaced(plan) for plan in plans], infos, known, first)
    fills = [_fill(k, paint) for k, paint in enumerate(known)]
    controls = _controls(known, first)
    document = Document(title=title)
    charts = (view[chart] for view in views for chart in ("gantt", "away", "load") if chart in view)
    for root in (*controls.values(), *charts):
        document.add_root(root)
    start = CustomJS(
        args={"views": views, "fills": fills, **controls, "marked": marked},
        code="memplan.start(views, fills, search, paint, marked)",
    )
    document.js_on_event("document_ready", start)
    orders = any(plan.ordered_by != "given" for plan in plans)
    html: str = file_html(
        document,
        Resources(mode="inline"),
        title,
        template=Environment(autoescape=True).from_string(_beside("page.html")),
        template_variables={
            "figures": _said([_figures(plan, orders) for plan in plans]),
            "pools": [
                (title_of(plan) if len(plans) > 1 else "", pools_table(plan.pools))
                for plan in plans
                if plan.pools is not None
            ],
            "away": ["away" in view for view in views],
            "legends": known,
            "first": first,
            "script": _beside("page.js"),
            "columns": min(len(plans), _BESIDE),
        },
    )
    return html


@dataclass(frozen=True)
class _Paint:
    """A way to colour the boxes of all plans: per plan a code per buffer, which counts in the palette, and its legend.

    The legend is a text, a ramp of colours between two texts, or entries of names and colours.
    """

    name: str
    palette: list[str]
    codes: list[npt.NDArray[Any]]
    text: str = ""
    ramp: tuple[str, list[str], str] | None = None
    entries: tuple[tuple[str, str], ...] = ()


def _paints(plans: Sequence[Plan], infos: Sequence[Sequence[BufferInfo]]) -> list[_Paint]:
    """All that tell something of these plans."""
    paints = []
    for by in COLOUR_BY:
        try:
            found = colourings(plans, by, infos)
        except ValueError:  # they have no graphs, or no layers
            continue
        if by == "buffer" or found[0].limits is not None or len(found[0].legend) > 1:
            paints.append(_paint(found))
    return paints


def _first(
    known: Sequence[_Paint], plans: Sequence[Plan], infos: Sequence[Sequence[BufferInfo]], colour_by: str
) -> int:
    """Which of these ways to colour is asked for; what tells nothing of these plans is the first, or refused."""
    title = colourings(plans, colour_by, infos)[0].title
    return next((k for k, paint in enumerate(known) if paint.name == title), 0)


def _paint(found: Sequence[Colouring]) -> _Paint:
    palette = sorted({colour for colouring in found for colour in colouring.colours}) or ["white"]
    code = {colour: k for k, colour in enumerate(palette)}
    kind = np.uint8 if len(palette) <= 256 else np.uint16
    codes = [np.array([code[colour] for colour in colouring.colours], dtype=kind) for colouring in found]
    first = found[0]
    if first.limits is not None:
        low, high = (format_bytes(n) if first.by == "size" else f"{n:,}" for n in first.limits)
        ends = {"size": (f"≤ {low}", high), "order": (f"step {low}", f"step {high}")}.get(
            first.by, (low, f"{high} steps")
        )
        return _Paint(first.title, palette, codes, ramp=(ends[0], samples(np.linspace(0, 1, 18)), ends[1]))
    entries, every = first.entries()
    text = "in turn, by birth: neighbours differ" if first.by == "buffer" else f"every {every}." if every > 1 else ""
    return _Paint(first.title, palette, codes, text, entries=tuple((printable(name), c) for name, c in entries))


def _views(
    plans: Sequence[Plan], infos: Sequence[Sequence[BufferInfo]], known: Sequence[_Paint], first: int
) -> list[dict[str, Any]]:
    """Per plan, the models of its charts."""
    axes = Axes.of(plans)
    views = []
    given_up = [returns_of(plan) for plan in plans]
    highest = max(map(height, given_up))
    for k, (plan, returns) in enumerate(zip(plans, given_up, strict=True)):
        codes, fill = [paint.codes[k] for paint in known], _fill(first, known[first])
        boxes = _box_columns(plan, infos[k], codes) | _away_column(plan, returns)
        view = gantt_chart(plan, boxes, _tenant_columns(infos[k]), fill, axes, f"gantt{k}")
        if returns:
            buffers = [plan.buffer_of(one.back.name) for one in returns]
            columns = {f"code{c}": code[buffers] for c, code in enumerate(codes)}
            view |= away_chart(returns, columns, fill, highest, axes, f"away{k}")
            add_arrows(returns, view["gantt"])
        views.append(view | load_chart(plan, axes, f"load{k}"))
    return views


def _away_column(plan: Plan, returns: Sequence[Return]) -> dict[str, Any]:
    """Per box, when what lies in it leaves and comes back; nothing where none does."""
    told = {one.left.name: f"away from step {one.left.last:,} to {one.back.first:,}" for one in returns}
    told |= {one.back.name: f"{KINDS[one.kind]}: was away from step {one.left.last:,} on" for one in returns}
    names = [plan.problem.name(b) for b in rectangles(plan.problem)[:, 0].tolist()]
    return {"away": [told.get(name, "-") for name in names]} if returns else {}


def _fill(k: int, paint: _Paint) -> Any:
    """The colour of a box, from its code."""
    from bokeh.transform import linear_cmap

    return linear_cmap(f"code{k}", paint.palette, -0.5, len(paint.palette) - 0.5)


def _controls(known: Sequence[_Paint], first: int) -> dict[str, Any]:
    """The search box, and the choice of colours."""
    from bokeh.models import AutocompleteInput, RadioButtonGroup

    search = AutocompleteInput(
        name="search",
        placeholder="a part of a tensor's name",
        search_strategy="includes",
        case_sensitive=False,
        restrict=False,
        min_characters=1,
        max_completions=20,
        width=300,
    )
    return {"search": search, "paint": RadioButtonGroup(name="paint", labels=[c.name for c in known], active=first)}


def _beside(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


def _said(figures: Sequence[list[tuple[str, str, str]]]) -> list[list[tuple[str, str, str]]]:
    """Without the columns that say nothing of any plan."""
    told = [any(value for _, value, _ in column) for column in zip(*figures, strict=True)]
    return [[figure for figure, kept in zip(row, told, strict=True) if kept] for row in figures]


def _figures(plan: Plan, orders: bool) -> list[tuple[str, str, str]]:
    """The figures of the heading, with the order if asked: label, value, and the exact value where that is rounded."""
    winner = plan.planner if plan.winner == plan.planner else f"{plan.planner} ({plan.winner} won)"
    sizes = {"peak": plan.peak, "lower bound": plan.lower_bound, "load": plan.load, "naive": plan.naive}
    of_one = plan.pools is None  # arena: what only that has
    gap = f"none: proven {optimal(plan)}" if plan.optimal else enough(plan) or percent(plan.gap)
    return [
        ("planner", winner, ""),
        *([("order", plan.ordered_by, "")] if orders else []),
        *(
            (label, format_bytes(size), f"{size:,} bytes") if of_one or label in ("load", "naive") else (label, "", "")
            for label, size in sizes.items()
        ),
        ("gap", gap if of_one else "", ""),
        ("changes", *_changes(plan)),
        ("cost", "" if plan.pools is None else cost_text(plan.pools).removeprefix("cost "), ""),
        ("buffers", f"{len(plan):,}", ""),
        ("planned in", f"{seconds(plan.seconds)}{', interrupted' if plan.interrupted else ''}", ""),
    ]


def _changes(plan: Plan) -> tuple[str, str]:
    """How much was given up, in short and in full; empty for a plan that was not fitted."""
    fitting = plan.fitting
    if fitting is None:
        return "", ""
    return f"{len(fitting.changes):,}, cost +{fitting.added_cost / (fitting.cost or 1.0):.2%}", changes_text(fitting)


def _box_columns(plan: Plan, infos: Sequence[BufferInfo], codes: Sequence[npt.NDArray[Any]]) -> dict[str, Any]:
    """A row per box: a buffer with bytes, or a part of one that is shaped, with what is told of the buffer."""
    problem, rows = plan.problem, rectangles(plan.problem)
    buffer, begin, end, first, last = rows.T
    offset = plan.offsets[buffer]
    columns: dict[str, Any] = {
        "left": small(first),
        "right": small(last),
        "bottom": (offset + begin).astype(float),
        "top": (offset + end).astype(float),
        "bytes": problem.size[buffer].astype(float),
        "name": [printable(problem.name(b)) for b in buffer.tolist()],
        "border": np.zeros(len(buffer), np.uint8),  # the alpha of borders, which page.js says by what is in sight
        **{f"code{k}": code[buffer] for k, code in enumerate(codes)},
    }
    if problem.parts is not None:
        columns |= {"first": small(problem.first[buffer]), "last": small(problem.last[buffer])}
        columns["offset"] = offset.astype(float)
    if plan.pools is not None:
        pools = [plan.pools.of(b) for b in buffer.tolist()]
        columns["pool"] = [printable(pool.name) for pool in pools]
        if plan.pools.accessed:
            columns["accessed"] = np.array([plan.pools.accessed[b] for b in buffer.tolist()], dtype=float)
        columns["address"] = np.array([pool.base - pool.begin for pool in pools], dtype=float) + offset
    told = {"type": _type, "made_by": _made_by, "last_read": _last_read, "tenants": _tenants}
    texts = {name: [say(info) for info in infos] for name, say in told.items()}
    columns |= {name: [said[b] or "-" for b in buffer.tolist()] for name, said in texts.items() if any(said)}
    return columns


def _type(info: BufferInfo) -> str:
    return printable(typed_shape(info.dtype, info.shape))


def _made_by(info: BufferInfo) -> str:
    if info.writer is None:
        return f"graph {info.kind}" if info.kind else ""
    return _op(info.writer)


def _last_read(info: BufferInfo) -> str:
    if info.returned:
        return "the caller (a graph output)"
    return "" if info.reader is None else _op(info.reader)


def _op(op: _core.Op) -> str:
    return printable(f"{op.name} ({op.type})" if op.type else op.name)


def _tenants(info: BufferInfo) -> str:
    names = [f"{printable(slot.name)} [{slot.first}, {slot.last})" for slot in info.tenants[:_TENANTS]]
    hidden = len(info.tenants) - len(names)
    return ", ".join([*names, f"and {hidden} more"] if hidden > 0 else names)


def _tenant_columns(infos: Sequence[BufferInfo]) -> dict[str, Any]:
    """A row per tensor that lies in the bytes of another: where a search finds it."""
    slots = [slot for info in infos for slot in info.tenants]
    return {
        "name": [printable(slot.name) for slot in slots],
        "left": [slot.first for slot in slots],
        "right": [slot.last for slot in slots],
        "bottom": [slot.offset for slot in slots],
        "top": [slot.end for slot in slots],
    }
