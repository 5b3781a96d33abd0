"""The charts of the interactive page: per plan its boxes and, below, its load, on axes that all plans share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..plans.plan import Plan
from ..plans.returns import Return
from ..plans.verdict import title_of
from ..text import printable
from .away import KINDS, ends_of, largest, spans, stacked
from .bands import LIMIT, SHADE, bands, places_of_names

_INK, _MARK, _LOAD = "#222222", "#D55E00", "#9AA8B8"
_AXIS = 90  # pixels left of every chart, so that what is above one another lies above one another
_NAMES = 112  # pixels right of the charts of pools, for their names
_LINES = 16  # of text that a chart is high at least
_TIP = "display: grid; grid-template-columns: max-content auto; gap: 1px 8px; max-width: 520px; overflow-wrap: anywhere"
_LABEL = "color: #595959; text-align: right"
_BOX = {"left": "left", "right": "right", "bottom": "bottom", "top": "top"}


@dataclass(frozen=True)
class Axes:
    """What the charts share: the steps, the addresses, the bytes in use, and whether they have pools."""

    steps: Any
    addresses: Any
    bytes: Any
    pools: bool

    @staticmethod
    def of(plans: Sequence[Plan]) -> Axes:
        """Axes that hold all of these plans."""
        from bokeh.models import Range1d

        lives = [(int(p.problem.first.min()), int(p.problem.last.max())) for p in plans if len(p)] or [(0, 1)]
        begin, end = min(first for first, _ in lives), max(last for _, last in lives)
        top = max([1, *(plan.peak for plan in plans)])
        beyond = (end - begin) * 0.1
        return Axes(
            Range1d(begin, end, bounds=(begin - beyond, end + beyond), min_interval=1, name="steps"),
            Range1d(0, top * 1.03, bounds=(-0.1 * top, 1.1 * top), min_interval=1, name="addresses"),
            Range1d(0, top * 1.08, name="bytes"),
            any(plan.pools is not None for plan in plans),
        )


def gantt_chart(
    plan: Plan, boxes: Mapping[str, Any], tenants: Mapping[str, Any], fill: Any, axes: Axes, name: str
) -> dict[str, Any]:
    """The boxes of a plan, and the models that page.js moves: see the keys of the result."""
    from bokeh.models import BoxAnnotation, ColumnDataSource, TapTool, Text
    from bokeh.plotting import figure

    source = ColumnDataSource(dict(boxes), name=f"{name} boxes")
    marks = ColumnDataSource({side: [] for side in _BOX}, name=f"{name} marks")
    labels = ColumnDataSource({column: [] for column in ("x", "y", "text", "angle")}, name=f"{name} labels")
    chart = figure(
        name=name,
        title=title_of(plan),
        tools="pan,box_zoom,wheel_zoom,reset,save",
        toolbar_location="above",
        active_drag="pan",
        active_scroll="wheel_zoom",
        x_range=axes.steps,
        y_range=axes.addresses,
        **_frame(axes),
    )
    drawn = chart.quad(**_BOX, source=source, fill_color=fill, line_color=_INK, line_width=0.5, line_alpha="border")
    drawn.nonselection_glyph = drawn.selection_glyph = None
    veil = BoxAnnotation(fill_color="white", fill_alpha=0.7, line_color=None, visible=False, level="annotation")
    chart.add_layout(veil)
    if plan.pools is None:
        chart.add_layout(_peak(plan))
    chart.quad(**_BOX, source=marks, level="overlay", fill_color=_MARK, line_color="black", line_width=2.5)
    text = Text(text_font_size="11px", text_align="center", text_baseline="middle", angle="angle", text_color="black")
    text.update(background_fill_color="white", background_fill_alpha=0.6, padding=1, border_radius=2)
    chart.add_glyph(labels, text, level="overlay")
    _name_axes(chart, "address", ticks=8)
    if plan.pools is not None:
        _add_pools(plan, chart)
    _follow_pointer(chart)
    chart.add_tools(_box_tips(boxes, drawn), TapTool(renderers=[drawn], visible=False))
    return {
        "gantt": chart,
        "boxes": source,
        "tenants": ColumnDataSource(dict(tenants)),
        "drawn": drawn,
        "veil": veil,
        "marks": marks,
        "labels": labels,
    }


def away_chart(
    returns: Sequence[Return], codes: Mapping[str, Any], fill: Any, highest: int, axes: Axes, name: str
) -> dict[str, Any]:
    """The gaps in the lives of tensors as boxes, and the models behind them: see the result."""
    from bokeh.models import ColumnDataSource, CustomJSHover, HoverTool, WheelZoomTool
    from bokeh.plotting import figure

    offsets, size = stacked(returns), np.array([one.back.bytes for one in returns], dtype=np.int64)
    gaps = np.array(spans(returns), dtype=np.int64)
    columns = {"left": small(gaps[:, 0]), "right": small(gaps[:, 1]), **codes}
    columns |= {"bottom": offsets.astype(float), "top": (offsets + size).astype(float), "bytes": size.astype(float)}
    columns |= {"name": [printable(one.tensor) for one in returns], "how": [KINDS[one.kind] for one in returns]}
    source = ColumnDataSource(columns, name=f"{name} gaps")
    chart = figure(
        name=name, tools="pan", toolbar_location=None, x_range=axes.steps, y_range=(0, highest * 1.08), **_frame(axes)
    )
    drawn = chart.quad(**_BOX, source=source, fill_color=fill, line_color=_INK, line_width=0.5)
    wheel = WheelZoomTool(dimensions="width")
    rows = [("tensor", "@name"), ("away in steps", "[@left, @right)"), ("then", "@how"), ("size", "@bytes{custom}")]
    formatters = {"@bytes": CustomJSHover(code="return memplan.bytes(value)")}
    tips = HoverTool(tooltips=_tip(rows), formatters=formatters, point_policy="follow_mouse")
    chart.add_tools(wheel, tips)
    chart.toolbar.active_scroll = wheel
    _name_axes(chart, "away", ticks=3)
    chart.xaxis.visible = False
    _follow_pointer(chart)
    return {"away": chart, "gone": drawn}


def add_arrows(returns: Sequence[Return], chart: Any) -> None:
    """From where the largest were last used to where they come back."""
    from bokeh.models import Arrow, VeeHead

    for one in largest(returns):
        (start, left), (end, back) = ends_of(one)
        style = {"line_color": _INK, "line_width": 1.5, "line_dash": "dashed" if one.kind == "offload" else "solid"}
        ends = {"x_start": start, "x_end": end, "y_start": left, "y_end": back}
        chart.add_layout(Arrow(end=VeeHead(size=9, fill_color=_INK, line_color=_INK), **ends, **style))


def load_chart(plan: Plan, axes: Axes, name: str) -> dict[str, Any]:
    """The bytes in use over time, with the peak as a line, and the models behind it: see the result."""
    from bokeh.models import ColumnDataSource, WheelZoomTool
    from bokeh.plotting import figure

    step, load = plan.problem.load_curve()
    names = [printable(op.name) for op in plan.graph.ops] if plan.graph is not None else []
    ops = [names[plan.steps.op_at(step)] for step in range(plan.steps.end)] if names else []
    curve = ColumnDataSource({"step": small(step), "load": load.astype(float), "none": np.zeros(len(step), np.uint8)})
    chart = figure(
        name=name, tools="pan", x_range=axes.steps, y_range=axes.bytes, toolbar_location=None, **_frame(axes)
    )
    if len(step):  # bokeh draws an area without points for ever
        chart.varea_step("step", "none", "load", source=curve, step_mode="after", fill_color=_LOAD)
    if plan.pools is None:
        chart.add_layout(_peak(plan))
    wheel = WheelZoomTool(dimensions="width")
    chart.add_tools(wheel)
    chart.toolbar.active_scroll = wheel
    _name_axes(chart, "load", ticks=3)
    _follow_pointer(chart)
    chart.xaxis.axis_label = "step"
    return {"load": chart, "curve": curve, "ops": ops}


def _peak(plan: Plan) -> Any:
    from bokeh.models import Span

    return Span(location=plan.peak, dimension="width", line_color=_INK, line_dash="dashed", line_width=1.5)


def _add_pools(plan: Plan, chart: Any) -> None:
    """A band per pool, with its capacity, and its name on an axis on the right."""
    from bokeh.models import BoxAnnotation, CustomJSTickFormatter, FixedTicker, LinearAxis, Span

    found = bands(plan)
    for k, band in enumerate(found):
        if k % 2:
            shade = BoxAnnotation(bottom=band.begin, top=band.end, fill_color=SHADE, fill_alpha=1, level="image")
            shade.line_color = None
            chart.add_layout(shade)
        chart.add_layout(Span(location=band.begin, dimension="width", line_color=_INK, line_width=1.5))
        if band.limit is not None:
            line = Span(location=band.limit, dimension="width", line_color=LIMIT, line_dash="dashed", line_width=1.5)
            chart.add_layout(line)
    places = places_of_names(found, plan.peak / _LINES)
    names = LinearAxis(
        ticker=FixedTicker(ticks=places),
        major_label_overrides={place: band.text for place, band in zip(places, found, strict=True)},
        major_tick_line_color=None,
        axis_line_color=None,
        major_label_text_font_size="12px",
    )
    begins, bases = [band.begin for band in found], [band.pool.base for band in found]
    code = "return memplan.tick(memplan.inPool(tick, begins, bases), ticks)"
    chart.yaxis.formatter = CustomJSTickFormatter(args={"begins": begins, "bases": bases}, code=code)
    chart.yaxis.axis_label = "address in the pool"
    chart.add_layout(names, "right")


def small(steps: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """Steps as a browser can hold them, in as few bytes as may be."""
    fits = not len(steps) or (steps.min() >= -(2**31) and steps.max() < 2**31)
    return steps.astype(np.int32 if fits else np.float64)


def _frame(axes: Axes) -> dict[str, Any]:
    """What all charts have in common.

    They are drawn on plain canvases, all boxes in every frame: with WebGL, 20,000 boxes take little less of the page's
    own time, and five times as long where WebGL is done in software.
    """
    return {
        "sizing_mode": "stretch_both",
        "lod_threshold": None,
        "min_border_left": _AXIS,
        "min_border_right": _NAMES if axes.pools else 16,
    }


def _name_axes(chart: Any, y: str, ticks: int) -> None:
    from bokeh.models import AdaptiveTicker, BasicTicker, CustomJSTickFormatter, NumeralTickFormatter

    chart.yaxis.axis_label = y
    chart.xaxis.ticker = BasicTicker(min_interval=1)
    chart.xaxis.formatter = NumeralTickFormatter(format="0,0")
    chart.yaxis.ticker = AdaptiveTicker(base=2, mantissas=[1], min_interval=1, desired_num_ticks=ticks)
    chart.yaxis.formatter = CustomJSTickFormatter(code="return memplan.tick(tick, ticks)")
    for axis in (*chart.xaxis, *chart.yaxis):
        axis.update(axis_label_text_font_style="normal", axis_label_text_font_size="13px")
        axis.update(major_label_text_font_size="12px", minor_tick_line_color=None)
    for grid in chart.grid:
        grid.grid_line_color = "#E4E4E4"
    chart.toolbar.logo = None


def _box_tips(boxes: Mapping[str, Any], drawn: Any) -> Any:
    from bokeh.models import CustomJSHover, HoverTool

    formatter = CustomJSHover(code="return memplan.bytes(value)")
    shaped = "offset" in boxes
    first, last, offset = ("first", "last", "offset") if shaped else ("left", "right", "bottom")
    if "pool" in boxes:
        offset = "address"
    rows = [
        ("tensor", "@name", "name"),
        ("type", "@type", "type"),
        ("made by", "@made_by", "made_by"),
        ("last read by", "@last_read", "last_read"),
        ("pool", "@pool", "pool"),
        ("address" if "pool" in boxes else "offset", f"@{offset}{{custom}}", offset),
        ("size", "@bytes{custom}", "bytes"),
        ("accessed", "@accessed{custom}", "accessed"),
        ("lives in steps", f"[@{first}, @{last})", first),
        ("also in its bytes", "@tenants", "tenants"),
        ("given up", "@away", "away"),
    ]
    return HoverTool(
        renderers=[drawn],
        tooltips=_tip([(label, text) for label, text, at in rows if at in boxes]),
        formatters={f"@{offset}": formatter, "@bytes": formatter, "@accessed": formatter},
        point_policy="follow_mouse",
    )


def _tip(rows: Sequence[tuple[str, str]]) -> str:
    """A tooltip of labels and texts."""
    shown = "".join(f'<span style="{_LABEL}">{label}</span><span>{text}</span>' for label, text in rows)
    return f'<div style="{_TIP}">{shown}</div>'


def _follow_pointer(chart: Any) -> None:
    """In the browser, not with a tool of bokeh: its line would draw all boxes anew at every move."""
    from bokeh.events import MouseLeave, MouseMove
    from bokeh.models import CustomJS

    chart.js_on_event(MouseMove, CustomJS(code="memplan.point(cb_obj.sx, cb_obj.x)"))
    chart.js_on_event(MouseLeave, CustomJS(code="memplan.point(null)"))
