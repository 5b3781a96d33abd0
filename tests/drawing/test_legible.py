"""Pictures can be read: names have their last part where they are long, lines cross no text, borders hide no box."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

import memplan
from memplan.draw.labels import ending
from memplan.plans import Pool

KIB = 1024


def chain(*sizes: int, prefix: str = "model.encoder.layers.0.self_attention.output.dense.") -> dict[str, Any]:
    """A graph of ops one after another, with long names."""
    names = [f"{prefix}addmm_{k}" for k in range(len(sizes))]
    tensors: list[dict[str, Any]] = [{"name": "x", "bytes": 64, "kind": "input"}]
    tensors += [{"name": name, "bytes": size} for name, size in zip(names, sizes, strict=True)]
    ops = [
        {"name": f"{name}.op", "inputs": [before], "outputs": [name]}
        for before, name in zip(["x", *names], names, strict=False)
    ]
    return {"tensors": tensors, "ops": ops, "outputs": names[-1:]}


def on_agg(width: float = 12, height: float = 7, dpi: float = 100) -> Axes:
    figure = Figure(figsize=(width, height), layout="constrained", dpi=dpi)
    FigureCanvasAgg(figure)
    return figure.add_subplot()


def drawn(ax: Axes) -> Axes:
    ax.figure.draw_without_rendering()
    return ax


def extents(texts: Any) -> list[Bbox]:
    return [text.get_window_extent() for text in texts]


# Long names


@pytest.mark.parametrize(
    ("name", "most", "text"),
    [
        ("relu", 4, "relu"),
        ("relu", 3, ""),
        ("layers.0.attn.addmm_3", 21, "layers.0.attn.addmm_3"),
        ("layers.0.attn.addmm_3", 20, "…attn.addmm_3"),
        ("layers.0.attn.addmm_3", 12, "…addmm_3"),
        ("layers.0.norm.0", 9, "…norm.0"),  # a number alone says nothing
        ("layers.0.native_layer_norm.0", 12, "…ayer_norm.0"),
        ("/encoder/dense/MatMul_output_0", 16, "…MatMul_output_0"),
        ("layers.0.native_layer_norm.0", 4, ""),
    ],
)
def test_the_end_of_a_name(name: str, most: int, text: str) -> None:
    assert ending(name, most) == text


@pytest.mark.parametrize("width", [5, 12, 24])
def test_boxes_with_long_names_show_the_last_part(width: float) -> None:
    plan = memplan.plan(chain(*[64 * KIB] * 6))
    ax = on_agg(width)
    drawn(plan.plot(ax))
    assert len(ax.texts) == 6
    for text in ax.texts:
        (slot,) = [slot for slot in plan if slot.name.endswith(text.get_text().lstrip("…"))]
        assert "addmm_" in text.get_text()
        inside = text.get_window_extent().transformed(ax.transData.inverted())
        assert slot.first <= inside.x0 <= inside.x1 <= slot.last
        assert slot.offset <= inside.y0 <= inside.y1 <= slot.end


def test_what_is_highlighted_with_a_long_name_stays_in_the_picture() -> None:
    plan = memplan.plan(chain(64 * KIB, 64 * KIB, 64, 64 * KIB, prefix="encoder." * 30))
    ax = on_agg(6)
    drawn(plan.plot(ax, highlight="encoder." * 30 + "addmm_2"))
    (label,) = ax.texts
    assert "addmm_2, 64 B" in label.get_text()
    box, room = label.get_window_extent(), ax.get_window_extent()
    assert room.x0 <= box.x0 <= box.x1 <= room.x1


# Many boxes


def many(count: int) -> memplan.Plan:
    random = np.random.default_rng(0)
    first = random.integers(0, count, count)
    last = first + 1 + random.integers(0, max(count // 40, 3), count)
    return memplan.plan(memplan.Problem(random.integers(1, 200, count) * 64, first, last), "first_fit")


@pytest.mark.parametrize("count", [1, 10, 5000])
def test_borders_hide_no_box(count: int) -> None:
    """A box has no border where that would be a good part of what is seen of it."""
    plan = many(count)
    ax = on_agg()
    plan.plot(ax)
    area, (boxes,) = ax.get_window_extent(), ax.collections[:1]
    across, up = area.width * 72 / 100 / np.ptp(ax.get_xlim()), area.height * 72 / 100 / np.ptp(ax.get_ylim())
    thickness = np.minimum((plan.problem.last - plan.problem.first) * across, plan.problem.size * up)
    borders = np.broadcast_to(np.asarray(boxes.get_linewidths()), thickness.shape)  # type: ignore[attr-defined]
    assert np.all(borders <= thickness / 4)
    assert np.all(borders[thickness < 1] == 0)
    assert np.all(borders[thickness > 8] > 0.3)


def test_many_boxes_are_bright() -> None:
    """What is seen is the palette, whose colours are none darker than this, not the black of borders."""
    step = np.arange(8000)
    plan, ax = memplan.plan(memplan.Problem(np.full(8000, 64), step, step + 1), "first_fit"), on_agg(4, 4, 60)
    plan.plot(ax)
    figure: Any = ax.figure
    figure.canvas.draw()
    area = ax.get_window_extent()
    pixels = np.asarray(figure.canvas.buffer_rgba())[:, :, :3]
    height = pixels.shape[0]
    inside = pixels[height - int(area.y0) - 100 : height - int(area.y0) - 2, int(area.x0) + 20 : int(area.x1) - 40]
    assert np.mean(inside.max(axis=2) < 90) < 0.01


# Several methods


def test_names_of_methods_touch_no_line_and_no_mark() -> None:
    wide, narrow = chain(*[64 * KIB] * 12), chain(16 * KIB)
    many = memplan.plan_many(
        {"prefill": wide, "decode": wide, "a_long_name": narrow, "another": narrow, "verify": wide}
    )
    for width in (6, 12, 20):
        ax = on_agg(width)
        drawn(many.plot(ax))
        names = {text.get_text(): text.get_window_extent() for text in ax.texts if "addmm" not in text.get_text()}
        assert {"prefill", "decode", "verify"} <= names.keys()
        upright = [x for line in ax.lines if np.ptp(x := line.get_window_extent().extents[[0, 2]]) < 1e-6]
        assert len(upright) >= 4
        for name, box in names.items():
            assert not any(box.x0 < x[0] < box.x1 for x in upright), name
        assert not any(a.overlaps(b) for a, b in combinations(names.values(), 2))
        (mark,) = [line for line in ax.lines if line.get_marker() == "v"]
        assert not any(box.overlaps(mark.get_window_extent()) for box in names.values())


# Lines that meet


def curve(limit: int) -> Any:
    pools = [Pool("sram", limit), Pool("dram")]
    return memplan.pareto(chain(40, 30, 20, 10, 40), pools=pools, capacities=[10, 30, 50, 60])


def test_no_line_runs_through_the_legend_of_a_curve() -> None:
    ax = drawn(curve(40).plot())
    legend = ax.get_legend()
    assert legend is not None
    frame = legend.get_frame()
    assert legend.get_frame_on()
    assert frame.get_alpha() in (None, 1)
    assert legend.get_zorder() > max(line.get_zorder() for line in ax.lines)
    box = legend.get_window_extent()
    for line in ax.lines:
        crossed = line.get_path().transformed(line.get_transform()).intersects_bbox(box, filled=False)
        assert not crossed, line.get_label()
    plt.close("all")


def test_the_given_capacity_and_the_load_are_seen_where_they_are_one() -> None:
    load = curve(40).load
    ax = curve(load).plot()
    below, above = sorted(
        (
            line
            for line in ax.lines
            if line.get_xdata()[0] == line.get_xdata()[-1] == load and len(line.get_xdata()) == 2
        ),
        key=lambda line: line.get_zorder(),
    )
    assert below.get_linewidth() >= 2 * above.get_linewidth()
    assert below.get_linestyle() == "-"
    plt.close("all")


@pytest.mark.parametrize("pools", [2, 3])
def test_the_capacity_of_a_pool_and_the_base_of_the_next_are_apart(pools: int) -> None:
    limits = [Pool(f"sram{k}", 64 * KIB) for k in range(pools - 1)]
    plan = memplan.plan(chain(*[48 * KIB] * 5), pools=[*limits, Pool("dram")])
    ax = drawn(plan.plot())
    lines = [line for line in ax.lines if np.ptp(line.get_window_extent().extents[[1, 3]]) < 1e-6]
    heights = sorted(line.get_window_extent().y0 for line in lines)
    assert len(heights) >= pools + 1
    assert min(np.diff(heights)) > 3  # pixels
    plt.close("all")


# Dark backgrounds


def test_lines_and_names_are_seen_in_a_dark_style() -> None:
    with plt.style.context("dark_background"):
        plan = memplan.plan(chain(*[48 * KIB] * 5), pools=[Pool("sram", 64 * KIB), Pool("dram")])
        step = memplan.plan_many({"a": chain(64, 64), "b": chain(64, 64)})
        for ax in (plan.plot(), memplan.plan(chain(64, 64)).plot(), step.plot(), curve(40).plot()):
            paper = np.array(to_rgb(ax.get_facecolor()))
            for drawn_ in (line for own in ax.figure.axes for line in own.lines):
                assert np.abs(np.array(to_rgb(drawn_.get_color())) - paper).max() > 0.3, drawn_.get_label()
            for text in ax.texts:
                if text.get_path_effects():  # a light halo is around it
                    assert to_rgb(text.get_color()) == (0, 0, 0)
                elif (box := text.get_bbox_patch()) is not None:
                    assert to_rgb(text.get_color()) != to_rgb(box.get_facecolor())
        plt.close("all")
