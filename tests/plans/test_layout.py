"""The layout table: who lies where and when, who takes the bytes over, and what is a view of what."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import memplan
from builders import graphs
from memplan import generate
from memplan.draw.layout import HEADER, layout_rows, summary_rows
from memplan.plans.record import FiledOrder
from memplan.printing.units import format_bytes, gap_text, seconds, unit_of, with_bytes

VIEWS: dict[str, Any] = graphs.graph(
    "t 32, v 16, u 4, y 20 output, z 32 output",
    graphs.op("make", "", "t"),
    graphs.op("view", "t", "v", alias=["v t 8"]),
    graphs.op("again", "v", "u", alias=["u v 4"]),
    graphs.op("use", "u", "y"),
    graphs.op("last", "y", "z"),
)

# Births in the order c, a, b; b takes over bytes of both others, c's first.
THREE = memplan.Problem([4, 8, 6], [1, 4, 0], [3, 5, 2], 1, ["a", "b", "c"])


def rows(plan: memplan.Plan) -> list[tuple[Any, ...]]:
    return [(r.name, r.size, r.first, r.last, r.address, r.note) for r in layout_rows(plan)]


def test_rows_by_birth_then_address() -> None:
    assert rows(memplan.plan(THREE, "first_fit")) == [
        ("c", 6, 0, 2, 0, "reused by b"),
        ("a", 4, 1, 3, 6, "reused by b"),
        ("b", 8, 4, 5, 0, ""),
    ]


def test_no_reuse_no_note() -> None:
    assert {row[-1] for row in rows(memplan.plan(THREE, "naive"))} == {""}


def test_reuse_names_the_first_that_comes() -> None:
    plan = memplan.plan(memplan.Problem([8, 4, 8], [0, 1, 2], [1, 2, 3], 1, ["a", "b", "c"]), "first_fit")
    assert [row[-1] for row in rows(plan)] == ["reused by b", "reused by c", ""]


def test_views_follow_their_buffer() -> None:
    assert rows(memplan.plan(VIEWS, "first_fit")) == [
        ("t", 32, 0, 4, 0, "5 parts, reused by z"),
        ("v", 16, 1, 3, 8, "alias of t"),
        ("u", 4, 2, 4, 12, "alias of t"),
        ("y", 20, 3, 5, 32, ""),
        ("z", 32, 4, 5, 0, ""),
    ]


def test_parts_are_counted_and_taken_over_each_by_itself() -> None:
    """b lies in bytes of a that a has not begun to use, and a takes them over; c does so after a's first part."""
    parts = [(0, 0, 4, 0, 3), (0, 4, 8, 3, 6), (3, 0, 2, 5, 6)]
    problem = memplan.Problem([8, 4, 4, 2], [0, 1, 4, 5], [6, 2, 5, 6], 1, ["a", "b", "c", "d"], parts)
    offsets = np.array([0, 4, 0, 8])
    plan = memplan.Plan(problem, offsets, 10, 10, True, "by hand", "by hand", 0.0)
    plan.verify()
    assert rows(plan) == [
        ("a", 8, 0, 6, 0, "2 parts, reused by c"),
        ("b", 4, 1, 2, 4, "reused by a"),
        ("c", 4, 4, 5, 0, ""),
        ("d", 2, 5, 6, 8, "1 part"),
    ]


# A DenseNet in miniature: each concatenation takes the last one and what was made of it; relu is in place, then cut.
DENSE: dict[str, Any] = graphs.graph(
    "f0 8, f1 4, c1 12, f2 4, c2 16, r 16, v 16, s 4, y 2, w 1",
    graphs.op("a", "", "f0"),
    graphs.op("b", "f0", "f1"),
    graphs.op("join1", "f0 f1", "c1", concat=["c1 f0", "c1 f1 8"]),
    graphs.op("c", "c1", "f2"),
    graphs.op("join2", "c1 f2", "c2", concat=["c2 c1", "c2 f2 12"]),
    graphs.op("relu", "c2", "r", inplace=["r c2"]),
    graphs.op("view", "r", "v", alias=["v r"]),
    graphs.op("cut", "v", "s", slice=["s v 4"]),
    graphs.op("end", "s", "y"),
    graphs.op("set", "y", "w", overwrite=["w y 1"]),
    outputs="w",
)


def test_names_along_a_chain_are_those_of_the_ops() -> None:
    plan = memplan.plan(DENSE)
    notes = {row.name: row.note.removesuffix(", reused by y") for row in layout_rows(plan)}
    assert notes == {
        "c2": "4 parts",
        "f0": "part of c1",
        "f1": "part of c1",
        "c1": "part of c2",
        "f2": "part of c2",
        "r": "in place of c2",
        "v": "alias of r",
        "s": "slice of v",
        "y": "",
        "w": "overwrites y",
    }


def test_what_others_bring_along_is_inside_the_whole() -> None:
    """r takes the bytes of p and becomes a part of c: no op says anything of p and c."""
    graph = graphs.graph(
        [{"name": name, "bytes": size} for name, size in (("p", 8), ("r", 8), ("c", 12), ("y", 1))],
        graphs.op("make", "", "p"),
        graphs.op("relu", "p", "r", inplace=["r p"]),
        graphs.op("pad", "r", "c", concat=["c r 4"]),
        graphs.op("end", "c", "y"),
        outputs="y",
    )
    notes = {row.name: row.note for row in layout_rows(memplan.plan(graph))}
    assert notes["p"] == "inside c"
    assert notes["r"] == "in place of p, part of c"


def figures(plan: memplan.Plan) -> dict[str, str]:
    return dict(summary_rows(plan))


def test_the_summary_counts_what_is_shared() -> None:
    assert figures(memplan.plan(DENSE))["shared"] == "1 in place, 1 slice, 4 parts of concatenations"
    assert figures(memplan.plan(DENSE, zero_copy=False))["shared"] == "1 in place"
    assert "shared" not in figures(memplan.plan(DENSE, zero_copy=False, inplace=False))
    assert "shared" not in figures(memplan.plan(THREE))


def test_the_summary_counts_pools() -> None:
    plan = memplan.plan(THREE)
    assert "pools" not in figures(plan)
    assert figures(dataclasses.replace(plan, objects=1200))["objects"] == "1,200"


def test_the_proof_says_what_was_proven() -> None:
    plan = memplan.plan(THREE, "first_fit")
    assert (plan.load, plan.peak) == (10, 10)
    assert figures(plan)["proof"] == "optimal: the peak equals the load"
    higher = dataclasses.replace(plan, peak=12, lower_bound=12)
    assert figures(higher)["proof"] == "optimal: the peak equals the proven lower bound of 12 bytes"
    apart = dataclasses.replace(plan, peak=12, optimal=False)
    assert figures(apart)["proof"] == "gap 20.000%, not proven optimal"
    between = dataclasses.replace(plan, peak=12, lower_bound=11, optimal=False)
    assert figures(between)["proof"] == "gap 9.091%, not proven optimal: from the proven lower bound of 11 bytes"


def test_where_little_is_left_the_proof_says_how_to_look_for_it() -> None:
    little = dataclasses.replace(memplan.plan(THREE), peak=10_010, lower_bound=10_000, optimal=False)
    more = '; "auto:effort=1000000000" looks longer for the last 10 B'
    assert figures(little)["proof"].endswith(more)
    assert not figures(dataclasses.replace(little, planner="first_fit"))["proof"].endswith(more)
    assert "looks longer" not in figures(dataclasses.replace(little, peak=10_011))["proof"]


def test_the_summary_says_what_is_proven_of_all_orders() -> None:
    given = memplan.plan("example:resnet50_train")
    best = memplan.plan("example:resnet50_train", order="best")
    assert "order" not in figures(given)
    assert figures(given)["proof"] == "optimal in this order: the peak equals the load"
    assert figures(best)["order"] == "best: no order needs less"
    assert figures(best)["proof"] == "optimal in any order: the peak equals the load"
    below = dataclasses.replace(best, peak=best.peak + 1)
    assert figures(below)["order"] == f"best: no order needs less than {with_bytes(best.peak)}"
    streams = dataclasses.replace(best, filed_order=FiledOrder(best.order, 0))
    assert figures(streams)["order"] == "best"


def test_text_of_the_whole() -> None:
    assert memplan.plan(VIEWS, "first_fit").layout().splitlines() == [
        "Tensor  Size  Start  End  Address     Note",
        "t         32      0    4  0x00000000  5 parts, reused by z",
        "v         16      1    3  0x00000008  alias of t",
        "u          4      2    4  0x0000000c  alias of t",
        "y         20      3    5  0x00000020",
        "z         32      4    5  0x00000000",
    ]


def test_empty() -> None:
    assert memplan.plan(([], [], [])).layout().split() == list(HEADER)


def test_on_screen_it_is_shortened() -> None:
    plan = memplan.plan(generate.layered(1000), "first_fit")
    text = plan.layout(limit=40)
    assert "… and 960 more" in text
    assert "#39" in text
    assert "#40 " not in text
    assert len(text.splitlines()) < 60


def test_in_a_file_it_is_whole(tmp_path: Path) -> None:
    plan = memplan.plan(generate.layered(1000), "first_fit")
    plan.to_layout(tmp_path / "layout.txt")
    text = (tmp_path / "layout.txt").read_text(encoding="utf-8")
    assert text == plan.layout() + "\n"
    assert len(text.splitlines()) == 1001
    assert "more" not in text


@pytest.mark.parametrize("limit", [0, 1, 3, 100])
def test_limit(limit: int) -> None:
    text = memplan.plan(THREE, "first_fit").layout(limit=limit)
    assert sum(name in text.split() for name in "abc") >= min(limit, 3)
    assert (f"… and {3 - limit} more" in text) == (limit < 3)


def test_long_names_are_cut_on_screen_and_whole_in_the_file(tmp_path: Path) -> None:
    name = "layer." * 60
    plan = memplan.plan(memplan.Problem([4096, 2], [0, 5], [1, 6], 1, [name, "next"]), "first_fit")
    shown = plan.layout(limit=40)
    assert max(len(line) for line in shown.splitlines()) <= 120
    assert "4.00 KiB" in shown
    assert "0x00000000" in shown
    assert "reused by next" in shown
    assert name in plan.layout()


def test_names_are_no_markup() -> None:
    plan = memplan.plan(memplan.Problem([1], [0], [1], 1, ["[red]:smile:[/red]"]))
    assert "[red]:smile:[/red]" in plan.layout(limit=40)


def test_a_name_never_breaks_the_table() -> None:
    """One line per row, whatever is in a name."""
    plan = memplan.plan(memplan.Problem([1, 2], [0, 0], [1, 1], 1, ["two\nlines", "b"]))
    assert len(plan.layout().splitlines()) == 3


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1, "1 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (1536, "1.50 KiB"),
        (2**20 - 1, "1024.00 KiB"),
        (2**20, "1.00 MiB"),
        (5 * 2**30, "5.00 GiB"),
        (2**40, "1.00 TiB"),
        (2**50, "1.00 PiB"),
        (2**62, "4.00 EiB"),
        (2**80, "1048576.00 EiB"),
    ],
)
def test_format_bytes(size: int, text: str) -> None:
    assert format_bytes(size) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(None, ""), (0, "0 s"), (31.2e-6, "0.000031 s"), (0.01234, "0.0123 s"), (999.4, "999 s"), (1234.5, "1,234 s")],
)
def test_seconds(count: float | None, text: str) -> None:
    assert seconds(count) == text


@pytest.mark.parametrize(
    ("peak", "bound", "text"),
    [(5, 5, "optimal"), (0, 0, "optimal"), (6, 5, "gap 20.000%"), (2**60 + 1, 2**60, "gap <0.001%")],
)
def test_a_gap_that_is_not_proven_is_never_called_optimal(peak: int, bound: int, text: str) -> None:
    assert gap_text(peak, bound) == text


def test_unit_of() -> None:
    assert unit_of(0) == unit_of(1023) == (1, "B")
    assert unit_of(2**20) == (2**20, "MiB")


def test_a_negative_limit_is_refused() -> None:
    with pytest.raises(ValueError, match="limit must be >= 0 or None, got -1"):
        memplan.plan(([4], [0], [1])).layout(limit=-1)


def test_long_names_leave_room_for_figures() -> None:
    name = "model.layers.{}.self_attn.a_projection_with_a_very_long_name"
    problem = memplan.Problem([512 * 1024] * 3, [0, 1, 2], [2, 3, 4], names=[name.format(i) for i in range(3)])
    shown = memplan.plan(problem).layout(limit=3).splitlines()
    assert all(len(line) <= 120 for line in shown)
    for line, whole in zip(shown[2:], memplan.plan(problem).layout().splitlines()[1:], strict=True):
        assert line.split()[1:3] == ["512.00", "KiB"]
        assert line.split()[3:6] == whole.split()[2:5]
        assert line.split()[0].startswith("model.layers.")
