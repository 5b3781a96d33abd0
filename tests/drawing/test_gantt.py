"""The Gantt picture: one collection of boxes, the load, the peak, and names where they fit."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
from hypothesis import given
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.text import Text

import memplan
from builders import graphs
from builders.looped import wide_blocks
from builders.strategies import BOUNDED, shaped_problems
from memplan import generate
from memplan.draw.colours import OTHERS, PALETTE, colouring, faded
from memplan.draw.gantt import save_plot
from memplan.draw.outline import outline
from memplan.plans.usage import step_of_peak
from oracles import plain as oracle

MIB = 2**20


@pytest.fixture
def ax() -> Axes:
    return Figure(figsize=(12, 7)).add_subplot()


@pytest.fixture
def plan() -> memplan.Plan:
    problem = memplan.Problem([4 * MIB, 2 * MIB, 0, 3 * MIB], [0, 2, 0, 4], [4, 8, 8, 8], 1, ["a", "b", "none", "c$_$"])
    return memplan.plan(problem, "first_fit")


def boxes(ax: Axes) -> PolyCollection:
    (collection,) = [c for c in ax.collections if isinstance(c, PolyCollection)]
    return collection


def corners(ax: Axes) -> list[tuple[float, float, float, float]]:
    """left, bottom, right, top of every box"""
    extents = [path.get_extents() for path in boxes(ax).get_paths()]
    return [(box.x0, box.y0, box.x1, box.y1) for box in extents]


def names(ax: Axes) -> set[str]:
    return {text.get_text() for text in ax.texts}


def line(ax: Axes, label: str) -> tuple[list[float], list[float]]:
    (found,) = [line for line in ax.lines if str(line.get_label()).startswith(label)]
    return list(found.get_xdata()), list(found.get_ydata())


def test_boxes_are_the_buffers_with_bytes(plan: memplan.Plan, ax: Axes) -> None:
    assert plan.plot(ax) is ax
    assert corners(ax) == [(s.first, s.offset, s.last, s.end) for s in plan if s.bytes]
    assert not ax.patches


# A step down, a staircase up, a buffer in use twice, a ring, and a plain one.
SHAPES = [
    *[(0, 0, 2, 0, 8), (0, 2, 4, 0, 3)],
    *[(1, 0, 1, 1, 9), (1, 1, 2, 2, 9), (1, 2, 3, 3, 9)],
    *[(2, 0, 2, 0, 2), (2, 0, 2, 5, 7)],
    *[(3, 0, 1, 0, 3), (3, 1, 2, 0, 1), (3, 1, 2, 2, 3), (3, 2, 3, 0, 3)],
]
SHAPED = memplan.Problem([4, 3, 2, 3, 5], [0, 0, 0, 0, 1], [9, 9, 9, 3, 2], 1, list("abcde"), SHAPES)


def cells(path: matplotlib.path.Path, steps: int, bytes_: int) -> set[tuple[int, int]]:
    """The (step, byte) cells whose middle is inside, by counting the lines to their left."""
    found = set()
    loops = path.to_polygons(closed_only=True)
    for step in range(steps):
        for byte in range(bytes_):
            crossed = 0
            for loop in loops:
                for (x, y0), (_, y1) in pairwise(loop):
                    crossed += x < step + 0.5 and min(y0, y1) < byte + 0.5 < max(y0, y1)
            if crossed % 2:
                found.add((step, byte))
    return found


def test_a_shaped_buffer_is_the_outline_of_its_parts(ax: Axes) -> None:
    plan = memplan.plan(SHAPED, "greedy_by_size")
    plan.plot(ax)
    paths = boxes(ax).get_paths()
    columns = [column.tolist() for column in (SHAPED.size, SHAPED.first, SHAPED.last, SHAPED.alignment)]
    assert len(paths) == 5
    for i, path in enumerate(paths):
        used = {(step, plan[i].offset + byte) for byte, step in oracle.cells(columns, SHAPES, i)}
        assert cells(path, 10, plan.peak + 1) == used
    loops = [len(path.to_polygons()) for path in paths]
    assert loops == [1, 1, 2, 2, 1]  # twice in use, and a ring with a hole
    assert len(boxes(ax).get_facecolors()) == 5


@given(shaped_problems(max_buffers=4))
@BOUNDED
def test_outlines_hold_what_parts_hold(case: Any) -> None:
    columns, parts, _ = case
    for buffer, size in enumerate(columns[0]):
        own = [part[1:] for part in parts if part[0] == buffer]
        inside = oracle.cells(columns, parts, buffer) if own else set()
        loops = outline(own)
        for byte in range(size):
            for step in range(columns[1][buffer], columns[2][buffer]):
                sides = [(a, b) for loop in loops for a, b in zip(loop, [*loop[1:], loop[0]], strict=True)]
                lines = [(a, b) for a, b in sides if a[0] <= step and min(a[1], b[1]) <= byte < max(a[1], b[1])]
                turns = sum(1 if b[1] < a[1] else -1 for a, b in lines)  # down on the left of what is inside
                assert turns == ((byte, step) in inside)
        for loop in loops:
            around = zip([loop[-1], *loop[:-1]], loop, [*loop[1:], loop[0]], strict=True)
            assert all((a[0] == b[0]) != (b[0] == c[0]) for a, b, c in around)  # corners alone


def test_outlines_that_touch_at_a_corner_stay_apart() -> None:
    assert outline([(0, 2, 0, 2), (2, 4, 2, 4)]) == [[(0, 0), (2, 0), (2, 2), (0, 2)], [(2, 2), (4, 2), (4, 4), (2, 4)]]
    assert outline([(2, 4, 0, 2), (0, 2, 2, 4)]) == [[(0, 2), (2, 2), (2, 4), (0, 4)], [(2, 0), (4, 0), (4, 2), (2, 2)]]


def test_a_name_is_in_the_largest_part(ax: Axes) -> None:
    parts = [(0, 0, 60, 0, 1), (0, 60, 100, 0, 9), (0, 99, 100, 9, 10)]  # a tall one, a large one, and a speck
    memplan.plan(memplan.Problem([100], [0], [10], 1, ["name"], parts)).plot(ax)
    (text,) = ax.texts
    assert (text.get_text(), text.get_position()) == ("name", (4.5, 80))


def test_the_load_is_of_the_parts(ax: Axes) -> None:
    problem = memplan.Problem([4, 2], [0, 2], [4, 4], 1, ["a", "b"], [(0, 0, 2, 0, 4), (0, 2, 4, 0, 2)])
    memplan.plan(problem).plot(ax)
    assert line(ax, "load") == ([0, 2, 4], [4, 4, 0])


def test_colours_are_from_the_palette(ax: Axes) -> None:
    memplan.plan(([1] * 50, list(range(50)), list(range(3, 53)))).plot(ax)
    used = {matplotlib.colors.to_hex(colour).upper() for colour in boxes(ax).get_facecolors()}
    assert used == set(PALETTE)


def test_load_and_peak(plan: memplan.Plan, ax: Axes) -> None:
    plan.plot(ax)
    steps, load = line(ax, "load")
    assert steps == [0, 2, 4, 8]
    assert load == [4 * MIB, 6 * MIB, 5 * MIB, 0]
    assert line(ax, "peak")[1] == [plan.peak, plan.peak]
    legend = ax.get_legend()
    assert legend is not None
    assert {text.get_text() for text in legend.get_texts()} == {"load, at most 6.00 MiB", "peak 6.00 MiB at step 2"}
    (staircase,) = [line for line in ax.lines if str(line.get_label()).startswith("load")]
    assert staircase.get_drawstyle() == "steps-post"


@pytest.mark.parametrize("own_figure", [True, False])
def test_the_load_hides_no_box(own_figure: bool) -> None:
    """One box of a single step makes the peak: its pixels, some across, have its colour from bottom to top."""
    problem = memplan.Problem([100, 100], [0, 150], [300, 151])
    plan = memplan.plan(problem)
    figure = Figure(figsize=(12, 7), layout="constrained")
    FigureCanvasAgg(figure)
    ax = plan.plot(None if own_figure else figure.add_subplot())
    canvas = ax.figure.canvas
    canvas.draw()
    pixels = np.asarray(canvas.buffer_rgba())[::-1, :, :3].astype(int)
    colour = (0.85 * np.array(to_rgb(colouring(plan).colours[1])) + 0.15) * 255
    for byte in (110, 150, 190, 197):
        x, y = ax.transData.transform((150.5, byte)).astype(int)
        assert np.abs(pixels[y, x] - colour).max() < 60
    plt.close("all")


def test_in_a_figure_of_its_own_the_load_has_a_strip(plan: memplan.Plan) -> None:
    ax = plan.plot()
    (strip,) = [other for other in ax.figure.axes if other is not ax]
    assert line(strip, "load")[1] == [4 * MIB, 6 * MIB, 5 * MIB, 0]
    assert (strip.get_xlim(), strip.get_ylabel(), strip.get_xlabel()) == (ax.get_xlim(), "load (MiB)", "step")
    assert legends(ax) == [["load, at most 6.00 MiB", "peak 6.00 MiB at step 2"]]
    plt.close("all")


def test_axes_and_title(plan: memplan.Plan, ax: Axes) -> None:
    plan.plot(ax)
    assert ax.get_xlabel() == "step"
    assert ax.get_ylabel() == "address (MiB)"
    assert ax.get_xlim() == (0, 8)
    assert ax.get_ylim()[0] == 0
    assert ax.get_ylim()[1] >= plan.peak
    ax.figure.canvas.draw()
    assert "2" in {label.get_text() for label in ax.get_yticklabels()}
    titles = {ax.get_title(loc=loc) for loc in ("left", "center", "right")}
    assert titles == {"first_fit: 4 buffers in 6.00 MiB, optimal", ""}
    plan.plot(ax, title="mine")
    assert "mine" in {ax.get_title(loc=loc) for loc in ("left", "center", "right")}


def test_title_of_a_plan_with_a_gap(ax: Axes) -> None:
    memplan.plan(memplan.Problem([10, 6, 8], [0, 1, 3], [2, 4, 5], [1, 8, 1]), "first_fit").plot(ax)
    assert "gap 37.500%" in "".join(ax.get_title(loc=loc) for loc in ("left", "center"))


def test_names_where_they_fit(plan: memplan.Plan, ax: Axes) -> None:
    plan.plot(ax)
    assert names(ax) == {"a", "b", "c$_$"}


def test_no_names_where_they_do_not_fit(ax: Axes) -> None:
    problem = memplan.Problem([1000, 1000, 1], [0, 0, 0], [100, 1, 100], 1, ["wide", "narrow and long" * 20, "flat"])
    memplan.plan(problem).plot(ax)
    assert names(ax) == {"wide"}


def test_names_stay_inside_their_boxes(ax: Axes) -> None:
    random = np.random.default_rng(1)
    size, first = random.integers(1, 60, 40), random.integers(0, 30, 40)
    problem = memplan.Problem(size, first, first + random.integers(1, 12, 40), 1, [f"layer{i}.relu" for i in range(40)])
    plan = memplan.plan(problem)
    plan.plot(ax)
    ax.figure.canvas.draw()
    assert ax.texts
    for text in ax.texts:
        inside = text.get_window_extent().transformed(ax.transData.inverted())
        middle = (inside.x0 + inside.x1) / 2, (inside.y0 + inside.y1) / 2
        (slot,) = [s for s in plan if s.first < middle[0] < s.last and s.offset < middle[1] < s.end]
        assert slot.name.endswith(text.get_text().removeprefix("…"))
        assert slot.first <= inside.x0 <= inside.x1 <= slot.last
        assert slot.offset <= inside.y0 <= inside.y1 <= slot.end


def test_into_the_given_axes_only(plan: memplan.Plan, ax: Axes) -> None:
    before = plt.get_fignums()
    plan.plot(ax)
    assert plt.get_fignums() == before


def test_without_axes_a_figure_is_made(plan: memplan.Plan) -> None:
    made = plan.plot()
    assert made.figure.number in plt.get_fignums()
    plt.close(made.figure)


@pytest.mark.parametrize(
    "columns",
    [
        ([], [], []),
        ([0, 0], [0, 3], [1, 9]),
        ([1], [0], [1]),
        ([5], [-7], [-3]),
        ([2**62], [0], [1]),
        ([3, 4], [2**61, 2**61 + 1], [2**61 + 2, 2**61 + 3]),
    ],
    ids=["empty", "zero-size", "one byte", "negative steps", "2^62 bytes", "late steps"],
)
def test_degenerate_plans(columns: tuple[list[int], ...], ax: Axes, tmp_path: Path) -> None:
    plan = memplan.plan(columns)
    plan.plot(ax)
    assert len(boxes(ax).get_paths()) == sum(size > 0 for size in columns[0])
    ax.figure.savefig(tmp_path / "plan.png", dpi=40)


@pytest.mark.parametrize(
    ("suffix", "magic"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF"), ("PNG", b"\x89PNG")]
)
def test_saved_in_every_format(plan: memplan.Plan, tmp_path: Path, suffix: str, magic: bytes) -> None:
    target = tmp_path / f"plan.{suffix}"
    save_plot(plan, target)
    assert target.read_bytes().startswith(magic)
    assert [path.name for path in tmp_path.iterdir()] == [target.name]
    assert not plt.get_fignums()


def test_ten_thousand_buffers_in_one_collection(ax: Axes, tmp_path: Path) -> None:
    plan = memplan.plan(generate.layered(10_000), "first_fit")
    begin = time.perf_counter()
    save_plot(plan, tmp_path / "plan.png")
    seconds = time.perf_counter() - begin
    assert seconds < 6  # 2 seconds on a quiet machine
    plan.plot(ax)
    assert len(boxes(ax).get_paths()) == 10_000
    assert len(ax.get_children()) < 400


def test_no_screen_is_needed(tmp_path: Path) -> None:
    script = (
        "import sys, memplan, memplan.draw.gantt as gantt\n"
        "gantt.save_plot(memplan.plan(([4, 5], [0, 1], [2, 3])), sys.argv[1])\n"
        "assert 'tkinter' not in sys.modules\n"
    )
    environment = {"MPLCONFIGDIR": str(tmp_path), "MPLBACKEND": "TkAgg", "PATH": ""}
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "plan.png")], check=True, env=environment)
    assert (tmp_path / "plan.png").stat().st_size > 0


def colours_of(collection: PolyCollection) -> list[str]:
    return [matplotlib.colors.to_hex(colour).upper() for colour in collection.get_facecolors()]


def polys(ax: Axes) -> list[PolyCollection]:
    return [c for c in ax.collections if isinstance(c, PolyCollection)]


def legends(ax: Axes) -> list[list[str]]:
    found = [child for child in ax.get_children() if isinstance(child, Legend)]
    return [[text.get_text() for text in legend.get_texts()] for legend in found]


def test_the_peak_is_marked_at_its_step(plan: memplan.Plan, ax: Axes) -> None:
    plan.plot(ax)
    (mark,) = [line for line in ax.lines if line.get_marker() == "v"]
    assert (list(mark.get_xdata()), list(mark.get_ydata())) == ([2.5], [plan.peak])


def test_the_step_of_the_peak_is_one_of_those_alive_at_the_top() -> None:
    problem = memplan.Problem([5, 5, 4, 3], [0, 4, 5, 2], [3, 9, 8, 4])
    plan = replace(memplan.plan(problem), offsets=np.array([0, 0, 5, 7]), peak=10)  # the load is highest at 5
    assert step_of_peak(plan) == 2
    parts = [(0, 0, 1, 0, 9), (0, 3, 4, 3, 5)]  # at step 7, with the highest load, its upper part is not in use
    shaped = replace(memplan.plan(memplan.Problem([4, 2], [0, 7], [9, 8], 1, None, parts)), offsets=np.array([0, 1]))
    assert (shaped.peak, step_of_peak(shaped)) == (4, 3)
    assert step_of_peak(memplan.plan(([], [], []))) is None
    assert step_of_peak(memplan.plan(([0], [0], [1]))) is None


def test_what_is_highlighted_keeps_its_colour_and_is_labelled(plan: memplan.Plan, ax: Axes) -> None:
    own = colouring(plan).colours
    plan.plot(ax, highlight="b")
    everything, strong = polys(ax)
    assert colours_of(everything) == [faded(own[b]) for b in (0, 1, 3)]
    assert colours_of(strong) == [own[1]]
    assert strong.get_zorder() > everything.get_zorder()
    (extent,) = [path.get_extents() for path in strong.get_paths()]
    assert (extent.x0, extent.y0, extent.x1, extent.y1) == (2, plan["b"].offset, 8, plan["b"].end)
    assert names(ax) == {"b, 2.00 MiB"}


INSIDE = graphs.graph(
    "t 8, view 4, y 4 output",
    graphs.op("o", "", "t"),
    graphs.op("v", "t", "view", alias=["view t 4"]),
    graphs.op("p", "view", "y"),
    outputs="y",
)


def test_a_tensor_is_drawn_over_the_buffer_that_it_lies_in(ax: Axes) -> None:
    plan = memplan.plan(INSIDE)
    plan.plot(ax, highlight=["view"])
    _, buffer = polys(ax)
    assert buffer.get_alpha() == 0.4
    (patch,) = ax.patches
    slot = plan["view"]
    assert (patch.get_xy(), patch.get_width(), patch.get_height()) == ((slot.first, slot.offset), 2, 4)
    assert names(ax) == {"view, 4 B"}


def test_of_many_in_a_module_the_largest_are_named_within_the_picture(ax: Axes) -> None:
    names_ = [f"encoder.0.attention.output_{k}" for k in range(40)] + ["rest"]
    problem = memplan.Problem([*range(1, 41), 10_000], [0] * 41, [2] * 40 + [100], 1, names_)
    plan = memplan.plan(problem)
    plan.plot(ax, highlight=names_[:40])
    FigureCanvasAgg(ax.figure).draw()
    beside = [text for text in ax.texts if text.get_text().startswith("encoder")]
    assert {text.get_text().split(",")[0] for text in beside} == set(names_[32:40])
    for text in beside:
        area, room = text.get_window_extent(), ax.get_window_extent()
        assert room.y0 - 2 <= area.y0 <= area.y1 <= room.y1 + 2


def test_names_of_what_is_small_stand_beside_and_apart(ax: Axes) -> None:
    names_ = [f"encoder.layer.{k}.attention.output" for k in range(8)] + ["rest"]
    problem = memplan.Problem([1] * 8 + [10_000], [0] * 9, [2] * 8 + [100], 1, names_)
    memplan.plan(problem).plot(ax, highlight=names_[:8])
    FigureCanvasAgg(ax.figure).draw()
    boxes_ = [Text.get_window_extent(text).padded(2) for text in ax.texts]
    assert len(boxes_) == 8
    assert not any(a.overlaps(b) for k, a in enumerate(boxes_) for b in boxes_[:k])
    assert all(ax.bbox.x0 <= box.x0 and box.x1 <= ax.bbox.x1 for box in boxes_)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"highlight": "bb"}, r"highlight: the plan has no tensor or buffer named 'bb'; there is 'b'"),
        ({"highlight": ["a", "zzz"]}, r"highlight: the plan has no tensor or buffer named 'zzz'$"),
        ({"colour_by": "kind"}, "needs the plan of a graph"),
        ({"colour_by": "hue"}, "colour_by must be one of"),
        ({"zoom": "top"}, r"zoom must be 'peak' or two steps \(first, last\) with first < last.*\[0, 8\), got 'top'"),
        ({"zoom": (3,)}, r"got \(3,\)"),
        ({"zoom": (3, 3)}, r"got \(3, 3\)"),
        ({"zoom": (8, 9)}, r"got \(8, 9\)"),
        ({"zoom": (0.5, 2)}, r"got \(0\.5, 2\)"),
        ({"zoom": 7}, "got 7"),
    ],
)
def test_wrong_options_are_refused(plan: memplan.Plan, ax: Axes, options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plan.plot(ax, **options)
    assert not ax.collections


def test_what_is_not_placed_cannot_be_highlighted(ax: Axes) -> None:
    graph = graphs.graph("x 4 input, y 4 output", graphs.op("o", "x", "y"), outputs="y")
    with pytest.raises(ValueError, match=r"highlight: 'x' \(input\) is not placed in the arena"):
        memplan.plan(graph).plot(ax, highlight="x")


def test_zoom_shows_the_steps_asked_for(ax: Axes) -> None:
    plan = memplan.plan(([1] * 100, list(range(100)), list(range(2, 102))))
    plan.plot(ax, zoom=(10, 12))
    assert ax.get_xlim() == (10, 12)
    assert len(boxes(ax).get_paths()) == 3  # alive in [10, 12)
    for text in ax.texts:
        assert 10 < text.get_position()[0] < 12
    plan.plot(ax, zoom=(-5, np.int64(3)))
    assert ax.get_xlim() == (0, 3)


def test_what_is_highlighted_out_of_sight_is_named_at_the_edge(ax: Axes) -> None:
    problem = memplan.Problem([4, 4, 4], [0, 40, 98], [2, 60, 100], 1, ["early", "middle", "late"])
    memplan.plan(problem).plot(ax, zoom=(30, 70), highlight=["early", "late"])
    FigureCanvasAgg(ax.figure).draw()
    assert names(ax) == {"early, 4 B, in steps 0 to 1", "late, 4 B, in steps 98 to 99"}
    early, late = (next(text for text in ax.texts if text.get_text().startswith(name)) for name in ("early", "late"))
    assert (early.xy[0], late.xy[0]) == (30, 70)  # type: ignore[attr-defined]  # where their lines point to
    assert all(ax.bbox.x0 <= Text.get_window_extent(text).x0 <= ax.bbox.x1 for text in (early, late))


def test_zoom_to_the_peak(ax: Axes) -> None:
    plan = memplan.plan(([1] * 100 + [50], [*range(100), 70], [*range(1, 101), 71]))
    plan.plot(ax, zoom="peak")
    assert ax.get_xlim() == (62, 79)
    memplan.plan(([], [], [])).plot(ax, zoom="peak")


def test_groups_are_listed_and_scales_have_a_bar(ax: Axes) -> None:
    plan = memplan.plan(INSIDE)
    plan.plot(ax, colour_by="kind")
    assert sorted(map(sorted, legends(ax))) == [
        ["intermediate", "output"],
        ["load, at most 8 B", "peak 8 B at step 0"],
    ]
    sized = Figure(figsize=(12, 7), layout="constrained").add_subplot()
    plan.plot(sized, colour_by="size")
    (bar,) = [other for other in sized.figure.axes if other is not sized]
    assert [label.get_text() for label in bar.get_yticklabels()] == ["4 B", "8 B"]
    assert colours_of(boxes(sized)) == [colour.upper() for colour in colouring(plan, "size").colours]


def test_a_legend_of_many_layers_lists_some(ax: Axes) -> None:
    problem = memplan.Problem([1] * 60, [0] * 60, [1] * 60, 1, [f"layers.{k}.conv" for k in range(60)])
    memplan.plan(problem).plot(ax, colour_by="layer")
    groups = max(legends(ax), key=len)
    assert groups == [f"layers.{k}" for k in range(0, 60, 3)]


def test_long_loads_keep_their_highest_steps(ax: Axes) -> None:
    random = np.random.default_rng(3)
    first = np.arange(20_000)
    plan = memplan.plan((random.integers(1, 1000, 20_000), first, first + 3), "first_fit")
    plan.plot(ax)
    steps, load = line(ax, "load")
    assert len(steps) < 4000
    assert max(load) == plan.load
    exact = dict(zip(*(column.tolist() for column in plan.problem.load_curve()), strict=True))
    for (begin, end), highest in zip(pairwise(steps), load, strict=False):
        assert highest == max(exact[step] for step in range(int(begin), int(end)))


def test_many_boxes_are_an_image_in_a_vector_file(tmp_path: Path) -> None:
    plan = memplan.plan(generate.layered(6000), "first_fit")
    save_plot(plan, tmp_path / "plan.svg")
    assert (tmp_path / "plan.svg").stat().st_size < 1_500_000
    assert b"<image" in (tmp_path / "plan.svg").read_bytes()


def test_plans_side_by_side_colour_a_buffer_the_same() -> None:
    problem = memplan.Problem([3, 2, 4, 1], [0, 1, 2, 0], [2, 4, 5, 5], 1, list("abcd"))
    other = memplan.Problem([1, 3, 2, 4, 9], [0, 0, 1, 2, 0], [5, 2, 4, 6, 1], 1, list("dabce"))
    plans = [memplan.plan(problem, "naive"), memplan.plan(problem, "first_fit"), memplan.plan(other, "first_fit")]
    axes = memplan.draw.plot_plans(plans)
    try:
        assert len({ax.figure for ax in axes}) == 1
        assert {(ax.get_xlim(), ax.get_ylim()) for ax in axes} == {((0, 6), (0, 13 * 1.03))}
        first, second, third = (colours_of(boxes(ax)) for ax in axes)
        assert first == second
        assert third == [first[3], first[0], first[1], first[2], OTHERS]
        moved = sum(a != b for a, b in zip(plans[0].offsets, plans[1].offsets, strict=True))
        assert axes[1].get_title(loc="left").endswith(f"\n{moved} buffers elsewhere than in the first")
        assert "elsewhere" not in axes[0].get_title(loc="left")
    finally:
        plt.close(axes[0].figure)


def test_plans_side_by_side_take_the_same_options() -> None:
    plans = [memplan.plan(INSIDE, name) for name in ("naive", "first_fit")]
    axes = memplan.draw.plot_plans(plans, titles=["one", "two"], highlight="y", colour_by="kind", zoom=(1, 3))
    try:
        assert [ax.get_title(loc="left").splitlines()[0] for ax in axes] == ["one", "two"]
        assert all(names(ax) == {"y, 4 B"} and ax.get_xlim() == (1, 3) for ax in axes)
        assert [["intermediate", "output"] in legends(ax) for ax in axes] == [False, True]
    finally:
        plt.close(axes[0].figure)


@pytest.mark.parametrize(("count", "titles"), [(0, None), (1, ["a", "b"])])
def test_side_by_side_needs_plans_and_their_titles(count: int, titles: Any) -> None:
    before = plt.get_fignums()
    with pytest.raises(ValueError, match=f"plot_plans needs at least one plan, .* got {count} plans"):
        memplan.draw.plot_plans([memplan.plan(([1], [0], [1]))] * count, titles=titles)
    assert plt.get_fignums() == before


def test_thin_boxes_have_finer_borders() -> None:
    plan = memplan.plan(([1 << 20, 1 << 10, 1 << 20], [0, 0, 2], [2, 1000, 1000]), "naive")
    boxes = plan.plot(zoom=(0, 500)).collections[0]
    short, thin, large = boxes.get_linewidths()
    assert large == 0.6
    assert 0 < short < 0.6
    assert thin == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda plan: memplan.draw.plot_plans({"a": plan}), "plans must be a list of plans, such as .*, got a dict"),
        (lambda plan: memplan.draw.plot_plans(plan), "plans must be a list of plans, such as .*, got a Plan"),
        (lambda plan: memplan.draw.plot_plans([plan, 1]), "got a int in it"),
        (
            lambda plan: memplan.draw.plot_plans([plan], titles={"a": 1}),
            r"titles must be a list of strings, .*got \{'a': 1\}",
        ),
        (lambda plan: memplan.draw.plot_plans([plan], titles="a"), "titles must be a list of strings"),
        (
            lambda plan: memplan.draw.write_page({"a": plan}, "page.html"),
            "plans must be a list of plans, such as .*, got a dict",
        ),
        (lambda plan: plan.plot(highlight={"a": 1}), "highlight must be a name or a list of names, got {'a': 1}"),
        (
            lambda plan: memplan.draw.plot_plans([plan], highlight={"a": 1}),
            "highlight must be a name or a list of names",
        ),
        (
            lambda plan: memplan.draw.write_page(plan, "page.html", highlight={"a": 1}),
            "highlight must be a name or a list",
        ),
        (lambda plan: memplan.compare(plan.problem, {"auto": 1}), "planners must be a list of names"),
        (lambda plan: memplan.sweep({"a": plan.problem}, {"auto": 1}), "planners must be a list of names"),
        (lambda plan: memplan.plan(plan.problem, place={"input": 1}), "place must be a collection of kinds"),
        (lambda plan: memplan.plan(plan.problem, donate={"input": 1}), "donate must be a collection of names"),
        (lambda plan: memplan.plan("example:gpt2_infer", inplace_ops={"Add": 1}), "inplace_ops must be a collection"),
    ],
)
def test_mappings_are_no_lists(call: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        call(memplan.plan(memplan.Problem([1], [0], [1])))


def test_a_plan_in_pieces_has_steps_of_its_own_and_rows_the_colour_of_their_tensor() -> None:
    graph = wide_blocks()
    whole = memplan.plan(graph)
    pieces = memplan.fit(graph, "least", allow=("split",))
    names = [pieces.problem.name(b) for b in range(len(pieces))]
    assert any("/1of" in name for name in names)
    axes = memplan.draw.plot_plans([whole, pieces])
    own = [ax.get_xlim()[1] for ax in axes]
    assert own == [int(plan.problem.last.max()) for plan in (whole, pieces)]
    assert own[0] < own[1]
    colours = dict(zip(names, colouring(pieces).colours, strict=True))
    of_tensor: dict[str, set[str]] = {}
    for name, colour in colours.items():
        of_tensor.setdefault(pieces.fitting.whole(name), set()).add(colour)
    assert len(of_tensor) < len(names)
    assert all(len(found) == 1 for found in of_tensor.values())
    shown = {tuple(c) for c in boxes(axes[1]).get_facecolor()[:, :3]}  # in the colours of the first plan
    first = dict(zip(map(whole.problem.name, range(len(whole))), colouring(whole).colours, strict=True))
    assert {to_rgb(first[name]) for name in of_tensor if name in first} <= shown
    assert whole.fitting is None
    plt.close("all")
