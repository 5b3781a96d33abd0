"""Small pictures inside a page: a Gantt chart and a load curve, drawn in the colour of the text around them."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element, SubElement

import numpy as np

from .. import _core
from ..plans.usage import parts_by_buffer, rectangles
from ..printing.units import format_bytes, shortened
from .bands import bands, places_of_names, spaced
from .borders import borders
from .colours import PALETTE, colouring
from .curve import load_shown
from .highlight import steps_of
from .outline import outline

if TYPE_CHECKING:
    from ..plans.plan import Plan

_WIDTH, _HEIGHT = 720, 260  # of the chart, in pixels
_LEFT, _TOP, _RIGHT, _BOTTOM = 86, 10, 12, 24  # around it
_BORDER = 0.4  # the width of the border of a box that is not thin, in pixels
_STRIP = 46  # the height of the load below the boxes, in pixels
_MOST_BOXES = 800  # that are drawn one by one, with their names to point at; more are an image
_LINE = {"fill": "none", "stroke": "currentColor", "stroke-width": "1.2"}


class _Scale:
    """From steps and bytes to pixels."""

    def __init__(self, steps: tuple[int, int], top: int) -> None:
        self.first, self.last = steps
        self.top = max(top, 1)

    def x(self, step: int) -> float:
        return _LEFT + _WIDTH * ((step - self.first) / (self.last - self.first))

    def y(self, bytes_: int) -> float:
        return _TOP + _HEIGHT * (1 - bytes_ / self.top)

    def point(self, step: int, bytes_: int) -> str:
        return f"{self.x(step):.1f} {self.y(bytes_):.1f}"


def gantt_svg(plan: Plan) -> Element:
    """The boxes of a plan and its peak or pools, and below them its load, where it hides none."""
    picture = _picture(f"{len(plan):,} buffers in {format_bytes(plan.peak)}", _STRIP + 14)
    plan = spaced(plan)
    scale = _Scale(steps_of(plan), plan.peak)
    parts = plan.problem.parts
    if len(plan) + (0 if parts is None else len(parts)) <= _MOST_BOXES:
        _add_boxes(picture, plan, scale)
    else:
        _add_image(picture, plan, scale)
    _add_strip(picture, plan.problem, scale)
    if plan.memories is None:
        _add_line(picture, scale, plan.peak, "6 4")
    _add_pools(picture, plan, scale)
    _add_axes(picture, scale, plan.memories is None)
    return picture


def _add_line(picture: Element, scale: _Scale, bytes_: int, dashes: str = "none") -> None:
    line = {**_LINE, "stroke-dasharray": dashes, "d": f"M{scale.point(scale.first, bytes_)}H{_LEFT + _WIDTH}"}
    SubElement(picture, "path", line)


def _add_pools(picture: Element, plan: Plan, scale: _Scale) -> None:
    """Where pools begin, their capacities, and their names on the left."""
    found = bands(plan)
    names = SubElement(picture, "g", {"fill": "currentColor", "text-anchor": "end"})
    for band, place in zip(found, places_of_names(found, 14 / 3 * scale.top / _HEIGHT), strict=True):
        _add_line(picture, scale, band.begin)
        if band.limit is not None:
            _add_line(picture, scale, band.limit, "2 4")
        name = SubElement(names, "text", {"x": str(_LEFT - 6), "y": f"{scale.y(round(place)) + 4:.1f}"})
        name.text = shortened(band.memory.name, 12)
        SubElement(name, "title").text = band.text.replace("\n", " ")


def curve_svg(problem: _core.Problem) -> Element:
    """The load over the steps."""
    steps = (int(problem.first.min()), int(problem.last.max())) if len(problem) else (0, 1)
    scale = _Scale(steps, problem.load)
    picture = _picture(f"the load, at most {format_bytes(problem.load)}")
    curve = _staircase(problem, scale)
    area = f"{curve}V{scale.y(0):.1f}H{scale.x(steps[0]):.1f}Z"
    SubElement(picture, "path", {"d": area, "fill": PALETTE[0], "fill-opacity": "0.6"})
    SubElement(picture, "path", {**_LINE, "d": curve})
    _add_axes(picture, scale)
    return picture


def _add_strip(picture: Element, problem: _core.Problem, scale: _Scale) -> None:
    """The load below the chart, on its steps and much lower."""
    bottom = _TOP + _HEIGHT + _BOTTOM + 10 + _STRIP
    flat = _STRIP / _HEIGHT
    strip = SubElement(
        picture, "g", {"transform": f"translate(0 {bottom - flat * (_TOP + _HEIGHT):.2f}) scale(1 {flat:.4f})"}
    )
    curve = _staircase(problem, scale)
    area = f"{curve}V{scale.y(0):.1f}H{scale.x(scale.first):.1f}Z"
    SubElement(strip, "path", {"d": area, "fill": "currentColor", "fill-opacity": "0.25"})
    SubElement(strip, "path", {**_LINE, "stroke-width": "1", "vector-effect": "non-scaling-stroke", "d": curve})
    text = SubElement(picture, "text", {"x": str(_LEFT - 6), "y": str(bottom), "text-anchor": "end"})
    text.set("fill", "currentColor")
    text.text = "load"


def _picture(what: str, below: int = 0) -> Element:
    width, height = _LEFT + _WIDTH + _RIGHT, _TOP + _HEIGHT + _BOTTOM + below
    attributes = {
        "viewBox": f"0 0 {width} {height}",
        "width": str(width),
        "role": "img",
        "aria-label": what,
        "style": "max-width: 100%; height: auto; font: 12px sans-serif",
        "xmlns": "http://www.w3.org/2000/svg",
    }
    return Element("svg", attributes)


def _staircase(problem: _core.Problem, scale: _Scale) -> str:
    step, load = load_shown(problem, scale.first, scale.last, _WIDTH)
    points = zip(step.tolist(), load.tolist(), strict=True)
    path = [f"H{scale.x(at):.1f}V{scale.y(bytes_):.1f}" for at, bytes_ in points]
    return f"M{scale.point(scale.first, 0)}" + "".join(path)


def _add_boxes(picture: Element, plan: Plan, scale: _Scale) -> None:
    shapes = parts_by_buffer(plan.problem)
    group = SubElement(picture, "g", {"fill-opacity": "0.85", "stroke": "black", "stroke-width": f"{_BORDER:g}"})
    life, size = plan.problem.last - plan.problem.first, plan.problem.size
    thickness = np.minimum(life * (_WIDTH / (scale.last - scale.first)), size * (_HEIGHT / scale.top))
    widths = borders(thickness, _BORDER).tolist()
    for b, (slot, colour) in enumerate(zip(plan, colouring(plan).colours, strict=True)):
        if slot.bytes == 0:
            continue
        loops = outline(shapes.get(b, [(0, slot.bytes, slot.first, slot.last)]))
        border = "".join("M" + "L".join(scale.point(x, slot.offset + y) for x, y in loop) + "Z" for loop in loops)
        box = SubElement(group, "path", {"d": border, "fill": colour})
        if widths[b] < _BORDER:
            box.attrib |= {"stroke-width": f"{widths[b]:.2f}"} if widths[b] else {"stroke": "none"}
        where = f"at {slot.offset:,}, steps {slot.first:,} to {slot.last:,}"
        SubElement(box, "title").text = f"{shortened(slot.name)}: {format_bytes(slot.bytes)} {where}"


def _add_image(picture: Element, plan: Plan, scale: _Scale) -> None:
    from matplotlib.colors import to_rgba_array
    from matplotlib.image import imsave

    colours = (to_rgba_array(colouring(plan).colours, 0.85) * 255).astype(np.uint8)
    pixels = np.zeros((_HEIGHT, _WIDTH, 4), dtype=np.uint8)
    for b, left, right, bottom, top in _rectangles(plan, scale):
        pixels[top:bottom, left:right] = colours[b]
    file = io.BytesIO()
    imsave(file, pixels, format="png")
    address = f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode('ascii')}"
    area = {"x": _LEFT, "y": _TOP, "width": _WIDTH, "height": _HEIGHT}
    SubElement(picture, "image", {**{key: str(value) for key, value in area.items()}, "href": address})


def _rectangles(plan: Plan, scale: _Scale) -> Iterator[tuple[int, int, int, int, int]]:
    """Per used rectangle, the buffer and its pixels, at least one: left, right, bottom, top; from the corner."""
    offsets = plan.offsets.tolist()
    for b, begin, end, first, last in rectangles(plan.problem).tolist():
        left, right = int(scale.x(first) - _LEFT), round(scale.x(last) - _LEFT)
        top, bottom = int(scale.y(offsets[b] + end) - _TOP), round(scale.y(offsets[b] + begin) - _TOP)
        yield b, left, max(right, left + 1), max(bottom, top + 1), top


def _add_axes(picture: Element, scale: _Scale, of_bytes: bool = True) -> None:
    bottom = _TOP + _HEIGHT
    SubElement(picture, "path", {**_LINE, "d": f"M{_LEFT} {_TOP}V{bottom}H{_LEFT + _WIDTH}"})
    text = SubElement(picture, "g", {"fill": "currentColor"})
    size = [(format_bytes(scale.top), _LEFT - 6, _TOP + 8, "end"), ("0", _LEFT - 6, bottom, "end")]
    for words, x, y, anchor in (
        *(size if of_bytes else []),
        (f"step {scale.first:,}", _LEFT, bottom + 17, "start"),
        (f"{scale.last:,}", _LEFT + _WIDTH, bottom + 17, "end"),
    ):
        SubElement(text, "text", {"x": str(x), "y": str(y), "text-anchor": anchor}).text = words
