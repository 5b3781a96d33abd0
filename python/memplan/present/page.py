"""The interactive page: plans as Gantt charts side by side, in one HTML file that needs no network.

page.html is the frame, page.js what happens in the browser; bokeh draws.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..errors import MissingDependencyError
from ..export.files import write_text
from ..plan import parts_by_buffer
from .charts import Axes, gantt_chart, load_chart, small
from .colouring import Colouring, colourings
from .facts import Facts, facts_of
from .units import format_bytes, printable

if TYPE_CHECKING:
    from ..plan import Plan

_BESIDE = 3  # charts in a row
_TENANTS = 6  # tensors that a tooltip lists
_HERE = Path(__file__).parent


def write_page(plans: Plan | Sequence[Plan], path: str | os.PathLike[str], *, title: str = "memory plan") -> None:
    """Write plans into one interactive HTML file, side by side: those of several planners, or of several networks.

    Steps go across and addresses up, one box per buffer, with the load below; all charts zoom and pan together. A
    tooltip says what a buffer is and which ops make and read it, a search finds tensors by a part of their name, and
    colours tell the order of birth, size, kind, or type of op. The file opens from a disk and never uses a network.

    Parameters
    ----------
    plans
        One plan, or several.
    path
        The file to write.
    title
        The heading.

    Raises
    ------
    ValueError
        There are no plans.
    MissingDependencyError
        Bokeh is not installed, or is older than 3.8.
    """
    plans = list(plans) if isinstance(plans, Sequence) else [plans]
    if not plans:
        raise ValueError("plans must hold at least one plan, got none")
    _require_bokeh()
    write_text(path, _page(plans, printable(title)))


def _require_bokeh() -> None:
    """Tooltips of older ones take names for HTML."""
    try:
        from bokeh import __version__ as version
    except ImportError as error:
        raise MissingDependencyError("an interactive page needs bokeh: pip install 'memplan[page]'") from error
    if tuple(map(int, version.split(".")[:2])) < (3, 8):
        raise MissingDependencyError(
            f"an interactive page needs bokeh >= 3.8, got {version}: pip install --upgrade 'memplan[page]'"
        )


def _page(plans: Sequence[Plan], title: str) -> str:
    from bokeh.document import Document
    from bokeh.embed import file_html
    from bokeh.models import CustomJS
    from bokeh.resources import Resources
    from jinja2 import Environment

    facts = [facts_of(plan) for plan in plans]
    known = colourings(plans, facts)
    views = _views(plans, facts, known)
    fills = [_fill(k, colouring) for k, colouring in enumerate(known)]
    controls = _controls(known)
    document = Document(title=title)
    for root in (*controls.values(), *(view[chart] for view in views for chart in ("gantt", "load"))):
        document.add_root(root)
    start = CustomJS(
        args={"views": views, "fills": fills, **controls}, code="memplan.start(views, fills, search, paint)"
    )
    document.js_on_event("document_ready", start)
    html: str = file_html(
        document,
        Resources(mode="inline"),
        title,
        template=Environment(autoescape=True).from_string(_beside("page.html")),
        template_variables={
            "figures": [_figures(plan) for plan in plans],
            "legends": known,
            "script": _beside("page.js"),
            "columns": min(len(plans), _BESIDE),
        },
    )
    return html


def _views(plans: Sequence[Plan], facts: Sequence[Sequence[Facts]], known: Sequence[Colouring]) -> list[dict[str, Any]]:
    """Per plan, the models of its charts."""
    axes = Axes.of(plans)
    views = []
    for k, plan in enumerate(plans):
        boxes = _box_columns(plan, facts[k], [colouring.codes[k] for colouring in known])
        view = gantt_chart(plan, boxes, _tenant_columns(facts[k]), _fill(0, known[0]), axes, f"gantt{k}")
        views.append(view | load_chart(plan, axes, f"load{k}"))
    return views


def _fill(k: int, colouring: Colouring) -> Any:
    """The colour of a box, from its code."""
    from bokeh.transform import linear_cmap

    return linear_cmap(f"code{k}", list(colouring.palette), -0.5, len(colouring.palette) - 0.5)


def _controls(known: Sequence[Colouring]) -> dict[str, Any]:
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
    return {"search": search, "paint": RadioButtonGroup(name="paint", labels=[c.name for c in known], active=0)}


def _beside(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


def _figures(plan: Plan) -> list[tuple[str, str, str]]:
    """The figures of the heading: label, value, and the exact value where that is rounded."""
    winner = plan.planner if plan.winner == plan.planner else f"{plan.planner} ({plan.winner} won)"
    sizes = (("peak", plan.peak), ("lower bound", plan.lower_bound), ("load", plan.load), ("no reuse", plan.naive))
    return [
        ("planner", winner, ""),
        *((label, format_bytes(size), f"{size:,} bytes") for label, size in sizes),
        ("gap", "none: proven optimal" if plan.optimal else f"{plan.gap:.3%} at most", ""),
        ("buffers", f"{len(plan):,}", ""),
        ("planned in", f"{plan.seconds:.3g} s{', interrupted' if plan.interrupted else ''}", ""),
    ]


def _box_columns(plan: Plan, facts: Sequence[Facts], codes: Sequence[npt.NDArray[np.uint8]]) -> dict[str, Any]:
    """A row per box: a buffer with bytes, or a part of one that is shaped, with what is told of the buffer."""
    problem, parts = plan.problem, parts_by_buffer(plan.problem)
    plain = np.zeros((len(plan), 5), dtype=np.int64)
    plain[:, 0], plain[:, 2], plain[:, 3], plain[:, 4] = np.arange(len(plan)), problem.size, problem.first, problem.last
    shown = plain[(problem.size > 0) & ~np.isin(plain[:, 0], list(parts))]
    rows = shown if problem.parts is None else np.concatenate([shown, problem.parts])
    buffer, begin, end, first, last = rows.T
    offset = plan.offsets[buffer]
    columns: dict[str, Any] = {
        "left": small(first),
        "right": small(last),
        "bottom": (offset + begin).astype(float),
        "top": (offset + end).astype(float),
        "bytes": problem.size[buffer].astype(float),
        "name": [printable(problem.name(b)) for b in buffer.tolist()],
        **{f"code{k}": code[buffer] for k, code in enumerate(codes)},
    }
    if parts:
        columns |= {"first": small(problem.first[buffer]), "last": small(problem.last[buffer])}
        columns["offset"] = offset.astype(float)
    told = {"shape": [fact.shape for fact in facts], "made_by": [fact.made_by for fact in facts]}
    told |= {"last_read": [fact.last_read for fact in facts], "tenants": [_tenants(fact) for fact in facts]}
    columns |= {name: [texts[b] or "-" for b in buffer.tolist()] for name, texts in told.items() if any(texts)}
    return columns


def _tenants(fact: Facts) -> str:
    names = [f"{printable(slot.name)} [{slot.first}, {slot.last})" for slot in fact.tenants[:_TENANTS]]
    hidden = len(fact.tenants) - len(names)
    return ", ".join([*names, f"and {hidden} more"] if hidden > 0 else names)


def _tenant_columns(facts: Sequence[Facts]) -> dict[str, Any]:
    """A row per tensor that lies in the bytes of another: where a search finds it."""
    slots = [slot for fact in facts for slot in fact.tenants]
    return {
        "name": [printable(slot.name) for slot in slots],
        "left": [slot.first for slot in slots],
        "right": [slot.last for slot in slots],
        "bottom": [slot.offset for slot in slots],
        "top": [slot.end for slot in slots],
    }
