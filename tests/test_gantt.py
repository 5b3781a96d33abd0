"""The Gantt picture: one collection of boxes, the load, the peak, and names where they fit."""

from __future__ import annotations

import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
from hypothesis import given
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

import memplan
import oracle
from memplan import generate
from memplan.present.colours import PALETTE
from memplan.present.gantt import save_plot
from memplan.present.outline import outline
from strategies import BOUNDED, shaped_problems

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
    assert "at most 37.500% above the optimum" in "".join(ax.get_title(loc=loc) for loc in ("left", "center"))


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
        slot = plan[text.get_text()]
        inside = text.get_window_extent().transformed(ax.transData.inverted())
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
        "import sys, memplan, memplan.present.gantt as gantt\n"
        "gantt.save_plot(memplan.plan(([4, 5], [0, 1], [2, 3])), sys.argv[1])\n"
        "assert 'tkinter' not in sys.modules\n"
    )
    environment = {"MPLCONFIGDIR": str(tmp_path), "MPLBACKEND": "TkAgg", "PATH": ""}
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "plan.png")], check=True, env=environment)
    assert (tmp_path / "plan.png").stat().st_size > 0
