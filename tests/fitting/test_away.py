"""What a fitted plan has given up, in pictures: gaps in the lives of tensors, and arrows to where they come back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest

import memplan
from builders.graphs import chain
from memplan.draw import away
from memplan.draw.colours import colouring
from memplan.draw.gantt import save_plot
from memplan.plans.returns import Return, returns_of
from memplan.plans.slots import Slot

PLAIN = memplan.plan(chain(8), inplace=False)
AGAIN = memplan.fit(chain(8), 400, allow=["recompute"], inplace=False)
MOVED = memplan.fit(chain(8), 400, allow=["offload"], inplace=False, transfer=0.01)


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    plt.close("all")


def gap(first: int, last: int, size: int) -> Return:
    return Return("recompute", "t", Slot("t", 0, size, 0, first, 1), Slot("t~1", 0, size, last, last + 1, 1))


@pytest.mark.parametrize("plan", [AGAIN, MOVED])
def test_each_change_is_a_gap_between_two_slots(plan: memplan.Plan) -> None:
    returns = returns_of(plan)
    assert [one.tensor for one in returns] == [name for change in plan.changes for name in change.tensors]
    for one, change in zip(returns, plan.changes, strict=True):
        assert one.kind == change.kind
        assert one.left.name.partition("~")[0] == one.back.name.partition("~")[0] == one.tensor
        assert plan[one.left.name] == one.left
        assert plan[one.back.name] == one.back
        assert one.left.last <= plan.order.index(change.before)
        assert one.left.last <= one.back.first
    assert returns_of(PLAIN) == ()


def test_a_tensor_that_comes_back_twice_leaves_twice() -> None:
    twice = [one for one in returns_of(AGAIN) if one.left.name != one.tensor]
    assert twice
    assert all(one.left.name == f"{one.tensor}~1" and one.back.name == f"{one.tensor}~2" for one in twice)


def test_a_plan_from_a_file_has_its_gaps(tmp_path: Path) -> None:
    AGAIN.to_json(tmp_path / "plan.json")
    assert returns_of(memplan.read_plan(tmp_path / "plan.json")) == returns_of(AGAIN)


def test_gaps_are_stacked_and_never_overlap() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        spans = [(int(a), int(a + d), int(s)) for a, d, s in rng.integers(1, 20, (12, 3))]
        returns = [gap(*span) for span in spans]
        offsets = away.stacked(returns)
        boxes = [(o, o + size, first, last) for o, (first, last, size) in zip(offsets.tolist(), spans, strict=True)]
        assert all(
            a[1] <= b[0] or b[1] <= a[0] or a[3] <= b[2] or b[3] <= a[2] for a in boxes for b in boxes if a is not b
        )
        assert away.height(returns) == max(top for _, top, _, _ in boxes)


def test_a_picture_shows_what_is_away() -> None:
    ax = MOVED.plot()
    boxes, panel, load = ax.figure.axes
    assert boxes is ax
    returns = returns_of(MOVED)
    assert [len(c.get_paths()) for c in panel.collections] == [len(returns)]
    assert panel.collections[0].get_hatch() == away.HATCH
    assert panel.get_legend().get_texts()[0].get_text() == f"{len(returns)} tensors moved out, and fetched"
    assert panel.get_ylabel() == "away (B)"
    assert load.get_xlabel() == "step"
    arrows = [patch for patch in ax.patches if patch.get_linestyle() == "--"]
    assert len(arrows) == min(len(returns), away.MOST_ARROWS)
    assert "of the cost added" in ax.get_title(loc="left")
    assert len(PLAIN.plot().figure.axes) == 2


def test_only_the_largest_gaps_have_arrows() -> None:
    """Others would hide the boxes."""
    many = [gap(1, 10 + k, 4) for k in range(20)]
    assert away.largest(many) == many[:-9:-1]
    ax = plt.figure().add_subplot()
    ax.set_xlim(0, 100)
    away.draw_arrows(many, (0, 100), ax)
    assert len(ax.patches) == away.MOST_ARROWS
    away.draw_arrows(many, (0, 12), ax)
    assert len(ax.patches) == away.MOST_ARROWS
    own = AGAIN.plot(plt.figure().add_subplot())
    assert len(own.patches) > 1
    one = returns_of(AGAIN)[0]
    drawn = [r for r in returns_of(AGAIN) if one.tensor in (r.left.name, r.back.name)]
    marked = AGAIN.plot(plt.figure().add_subplot(), highlight=one.tensor)
    assert len(marked.patches) == len(drawn) == 1


def test_what_came_back_has_its_colour() -> None:
    for plan, colours in [(AGAIN, colouring(AGAIN)), (MOVED, colouring(MOVED))]:
        for one in returns_of(plan):
            left, back = (colours.colours[plan.buffer_of(slot.name)] for slot in (one.left, one.back))
            assert left == back


def test_before_and_after_side_by_side(tmp_path: Path) -> None:
    before, after = memplan.draw.plot_plans([PLAIN, AGAIN])
    figure = before.figure
    assert len(figure.axes) == 6
    blank, panel = (ax for ax in figure.axes if ax.get_subplotspec().rowspan.start == 1)
    assert not blank.axison
    assert panel.collections
    assert "changes" in after.get_title(loc="left")
    shown = dict(zip(range(len(AGAIN)), after.collections[0].get_facecolors(), strict=True))
    for one in returns_of(AGAIN):
        first, again = (shown[AGAIN.buffer_of(slot.name)] for slot in (one.left, one.back))
        assert first.tolist() == again.tolist()
    save_plot(AGAIN, tmp_path / "plan.png")
    assert (tmp_path / "plan.png").stat().st_size > 1000


def test_tensors_that_have_no_place_are_left_out() -> None:
    change = replace(AGAIN.changes[0], tensors=("x",), ops=("f0~1",))
    assert AGAIN.fitting is not None
    assert returns_of(replace(AGAIN, fitting=replace(AGAIN.fitting, changes=(change,)))) == ()
