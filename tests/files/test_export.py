"""Plans as files: every form comes back, and nothing is ever half written."""

from __future__ import annotations

import dataclasses
import json
import os
import pickle
import re
import signal
import stat
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import memplan
from builders import graphs
from builders.paths import ROOT
from builders.strategies import BOUNDED, columns, shaped_problems
from memplan import files
from memplan.importers.plan_files import match_offsets, placed_rows

NAMES = ["plain", "a,b", 'quo"ted', "größe/重み", "$x_1$", "#0", "two words"]


@pytest.fixture
def plan() -> memplan.Plan:
    problem = memplan.Problem(
        [10, 6, 8, 0, 3, 3, 9], [0, 1, 3, 0, 2, 5, -1], [2, 4, 5, 9, 3, 6, 1], [1, 8] + [1] * 5, NAMES
    )
    return memplan.plan(problem, "first_fit")


@pytest.fixture
def graph_plan() -> memplan.Plan:
    return memplan.plan(
        graphs.graph(
            "x 16 input, t 32, v 16",
            graphs.op("conv", "x", "t", workspace=64),
            graphs.op("view", "t", "v", alias=["v t 8"]),
            outputs="v",
        )
    )


def test_minimalloc_form(plan: memplan.Plan, tmp_path: Path) -> None:
    plan.to_csv(tmp_path / "plan.csv")
    lines = (tmp_path / "plan.csv").read_bytes().decode().split("\n")
    assert lines[0] == "id,lower,upper,size,alignment,offset"
    assert lines[1] == f"plain,0,2,10,1,{plan.offsets[0]}"
    assert lines[2] == f'"a,b",1,4,6,8,{plan.offsets[1]}'
    assert lines[3] == f'"quo""ted",3,5,8,1,{plan.offsets[2]}'
    assert len(lines) == 9
    back = memplan.read_plan(tmp_path / "plan.csv")
    assert (back.problem, back.offsets.tolist()) == (plan.problem, plan.offsets.tolist())
    assert (back.peak, back.lower_bound, back.optimal) == (plan.peak, plan.lower_bound, plan.optimal)


def test_gantt_form(plan: memplan.Plan, tmp_path: Path) -> None:
    plan.to_csv(tmp_path / "plan.csv", form="gantt")
    lines = (tmp_path / "plan.csv").read_bytes().decode().split("\n")
    assert lines[0] == "tensor_name,size,offset,start_time,end_time"
    assert lines[1] == f"plain,10,{plan.offsets[0]},0,2"
    back = memplan.read_plan(tmp_path / "plan.csv")
    assert back.offsets.tolist() == plan.offsets.tolist()
    assert [s.name for s in back] == NAMES
    assert back.problem.alignment.tolist() == [1] * 7  # this form has no column for it


def test_unknown_form(plan: memplan.Plan, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="form must be one of minimalloc, gantt, got 'tflite'"):
        plan.to_csv(tmp_path / "plan.csv", form="tflite")
    assert not list(tmp_path.iterdir())


def test_json(plan: memplan.Plan, tmp_path: Path) -> None:
    plan.to_json(tmp_path / "plan.json")
    spec = json.loads((tmp_path / "plan.json").read_text(encoding="utf-8"))
    assert (spec["format"], spec["version"], spec["memplan"]) == ("memplan.plan", 1, memplan.__version__)
    assert (spec["planner"], spec["winner"]) == ("first_fit", "first_fit")
    assert (spec["peak"], spec["lower_bound"], spec["optimal"]) == (plan.peak, plan.lower_bound, plan.optimal)
    offset = plan["a,b"].offset
    assert spec["buffers"][1] == {"id": "a,b", "size": 6, "first": 1, "last": 4, "alignment": 8, "offset": offset}
    assert "tensors" not in spec
    back = memplan.read_plan(tmp_path / "plan.json")
    assert (back.problem, back.offsets.tolist(), back.planner) == (plan.problem, plan.offsets.tolist(), "first_fit")


def test_json_keeps_who_won_and_the_seconds(plan: memplan.Plan, tmp_path: Path) -> None:
    found = dataclasses.replace(plan, planner="auto", winner="valley", seconds=1.5, found_after=0.25)
    found.to_json(tmp_path / "plan.json")
    back = memplan.read_plan(tmp_path / "plan.json")
    assert (back.planner, back.winner, back.seconds, back.found_after) == ("auto", "valley", 1.5, 0.25)
    spec = json.loads((tmp_path / "plan.json").read_text(encoding="utf-8"))
    older = {key: value for key, value in spec.items() if key not in ("winner", "seconds", "found_after")}
    (tmp_path / "plan.json").write_text(json.dumps(older), encoding="utf-8")
    back = memplan.read_plan(tmp_path / "plan.json")
    assert (back.winner, back.seconds, back.found_after) == ("auto", 0, 0)
    for key, value in (("seconds", -1), ("seconds", "1"), ("found_after", True), ("winner", 3), ("planner", None)):
        (tmp_path / "plan.json").write_text(json.dumps(spec | {key: value}), encoding="utf-8")
        with pytest.raises(memplan.errors.SourceError, match=f"{key} must be .*, got {value!r}"):
            memplan.read_plan(tmp_path / "plan.json")


def test_json_of_an_interrupted_plan(plan: memplan.Plan, tmp_path: Path) -> None:
    for cut in (True, False):
        dataclasses.replace(plan, interrupted=cut).to_json(tmp_path / "plan.json")
        spec = json.loads((tmp_path / "plan.json").read_text(encoding="utf-8"))
        assert spec.get("interrupted") == (True if cut else None)
        assert memplan.read_plan(tmp_path / "plan.json").interrupted == cut
    (tmp_path / "plan.json").write_text(json.dumps(spec | {"interrupted": 1}), encoding="utf-8")
    with pytest.raises(memplan.errors.SourceError, match="interrupted must be true or false, got 1"):
        memplan.read_plan(tmp_path / "plan.json")


def test_json_keeps_what_nothing_shared_would_need(tmp_path: Path) -> None:
    """Two tensors in one buffer: its bytes alone do not say that there were two."""
    graph = graphs.graph(
        "a 8, b 8", graphs.op("one", "", "a"), graphs.op("two", "a", "b", inplace=["b a"]), outputs="b"
    )
    plan = memplan.plan(graph)
    plan.to_json(tmp_path / "plan.json")
    back = memplan.read_plan(tmp_path / "plan.json")
    assert (len(back), plan.naive, back.naive) == (1, 16, 16)
    spec = json.loads((tmp_path / "plan.json").read_text(encoding="utf-8"))
    del spec["naive"]  # as of files that were written without it
    (tmp_path / "plan.json").write_text(json.dumps(spec), encoding="utf-8")
    assert memplan.read_plan(tmp_path / "plan.json").naive == 8


def test_json_of_a_graph_maps_tensors(graph_plan: memplan.Plan, tmp_path: Path) -> None:
    graph_plan.to_json(tmp_path / "plan.json")
    tensors = json.loads((tmp_path / "plan.json").read_text(encoding="utf-8"))["tensors"]
    t = graph_plan["t"].offset
    assert tensors == {
        "t": {"buffer": 0, "offset": t, "bytes": 32},
        "v": {"buffer": 0, "offset": t + 8, "bytes": 16},
    }
    assert [s.name for s in memplan.read_plan(tmp_path / "plan.json")] == ["t", "conv.workspace"]


# a is a step down and b is in use inside it, where nothing of a is; c conflicts with both.
SHAPED = memplan.Problem(
    [8, 4, 4], [0, 2, 4], [4, 4, 6], 4, ["a", "b", "c"], [(0, 0, 4, 0, 4), (0, 4, 8, 0, 2)], [(0, 2), (1, 2)]
)


def test_json_keeps_the_order_and_the_bound_of_all_orders(tmp_path: Path) -> None:
    found = memplan.plan("example:resnet50_train", order="best")
    found.to_json(tmp_path / "plan.json")
    back = memplan.read_plan(tmp_path / "plan.json")
    assert (back.order, back.order_bound, back.order_optimal) == (found.order, found.peak, True)
    assert back.ordered_by == found.ordered_by == "best"
    assert pickle.loads(pickle.dumps(back)).order == found.order
    spec = json.loads((tmp_path / "plan.json").read_text(encoding="utf-8"))
    wrong = {
        "ordered_by must be the name of an order, got 7": {"ordered_by": 7},
        "order must be a list, got str": {"order": "conv"},
        "order[1] must be the name of an op, got 7": {"order": ["conv", 7]},
        "order names 'a' 2 times; each op runs once": {"order": ["a", "b", "a"]},
        "order_bound must be of type int, got None": {"order_bound": None},
        "order_bound must be >= 0 bytes, got -1": {"order_bound": -1},
        f"order_bound must be at most the peak of {found.peak} bytes, got {found.peak + 1}": {
            "order_bound": found.peak + 1
        },
    }
    for message, change in wrong.items():
        (tmp_path / "plan.json").write_text(json.dumps(spec | change), encoding="utf-8")
        with pytest.raises(memplan.errors.SourceError, match=re.escape(message)):
            memplan.read_plan(tmp_path / "plan.json")


def test_json_of_a_problem_has_no_order(plan: memplan.Plan, tmp_path: Path) -> None:
    plan.to_json(tmp_path / "plan.json")
    spec = json.loads((tmp_path / "plan.json").read_text(encoding="utf-8"))
    assert not {"order", "order_bound", "tensors"} & set(spec)
    back = memplan.read_plan(tmp_path / "plan.json")
    assert (back.order, back.order_bound, back.order_optimal, back.ordered_by) == ((), None, False, "given")


def test_json_of_shapes_and_conflicts(tmp_path: Path) -> None:
    plan = memplan.plan(SHAPED, "greedy_by_size")
    assert plan.offsets.tolist() == [0, 4, 8]
    plan.to_json(tmp_path / "plan.json")
    spec = json.loads((tmp_path / "plan.json").read_text(encoding="utf-8"))
    assert spec["buffers"][0]["parts"] == [
        {"begin": 0, "end": 4, "first": 0, "last": 4},
        {"begin": 4, "end": 8, "first": 0, "last": 2},
    ]
    assert "parts" not in spec["buffers"][1]
    assert spec["conflicts"] == [[0, 2], [1, 2]]
    assert "objects" not in spec
    back = memplan.read_plan(tmp_path / "plan.json")
    assert (back.problem, back.offsets.tolist(), back.objects) == (plan.problem, [0, 4, 8], 0)


def test_json_of_shapes_and_conflicts_is_verified(tmp_path: Path) -> None:
    plan = memplan.plan(SHAPED)
    for offsets, message in (
        ([4, 4, 12], "'a' at bytes .* and buffer 'b'"),
        ([0, 4, 4], "'c' .* and these two conflict"),
    ):
        wrong = dataclasses.replace(plan, offsets=np.array(offsets))
        wrong.to_json(tmp_path / "plan.json")
        with pytest.raises(memplan.errors.InvalidPlanError, match=message):
            memplan.read_plan(tmp_path / "plan.json")


def test_json_keeps_objects(plan: memplan.Plan, tmp_path: Path) -> None:
    dataclasses.replace(plan, objects=2).to_json(tmp_path / "plan.json")
    assert memplan.read_plan(tmp_path / "plan.json").objects == 2


def test_json_says_what_tensors_share(tmp_path: Path) -> None:
    graph = graphs.graph(
        [{"name": name, "bytes": size} for name, size in (("p", 8), ("r", 8), ("q", 4), ("c", 12), ("y", 1))],
        graphs.op("make", "", "p"),
        graphs.op("relu", "p", "r", inplace=["r p"]),
        graphs.op("more", "", "q"),
        graphs.op("join", "r q", "c", concat=["c r", "c q 8"]),
        graphs.op("end", "c", "y"),
        outputs="y",
    )
    memplan.plan(graph).to_json(tmp_path / "plan.json")
    tensors = json.loads((tmp_path / "plan.json").read_text(encoding="utf-8"))["tensors"]
    assert {name: tensor.get("shares") for name, tensor in tensors.items()} == {
        "p": None,
        "r": [{"how": "inplace", "with": "p"}, {"how": "concat", "with": "c"}],
        "q": [{"how": "concat", "with": "c"}],
        "c": None,
        "y": None,
    }
    memplan.read_plan(tmp_path / "plan.json").verify()


def test_json_without_what_may_be_left_out_is_read(tmp_path: Path) -> None:
    buffer = '{"id": "t", "size": 4096, "first": 0, "last": 2, "alignment": 1, "offset": 0}'
    text = f"""{{"format": "memplan.plan", "version": 1, "memplan": "0.1.0", "planner": "auto",
        "winner": "greedy_by_size", "peak": 4096, "lower_bound": 4096, "optimal": true, "seconds": 0.0001,
        "buffers": [{buffer}], "tensors": {{"t": {{"buffer": 0, "offset": 0, "bytes": 4096}}}}}}"""
    (tmp_path / "plan.json").write_text(text)
    plan = memplan.read_plan(tmp_path / "plan.json")
    assert plan.problem == memplan.Problem([4096], [0], [2], 1, ["t"])
    assert (plan.planner, plan.peak, plan.objects) == ("auto", 4096, 0)


def test_json_as_documented_is_read(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    (tmp_path / "plan.json").write_text(example)
    plan, spec = memplan.read_plan(tmp_path / "plan.json"), json.loads(example)
    assert (plan.peak, plan.lower_bound, plan.objects) == (spec["peak"], spec["lower_bound"], spec["objects"])
    assert len(plan.problem.parts) == 2
    assert plan.problem.conflicts.tolist() == spec["conflicts"]
    plan.to_json(tmp_path / "again.json")
    again = json.loads((tmp_path / "again.json").read_text(encoding="utf-8"))
    kept = ("version", "buffers", "conflicts", "order", "order_bound")
    assert {key: again[key] for key in kept} == {key: spec[key] for key in kept}


@pytest.mark.parametrize("form", ["minimalloc", "gantt"])
def test_csv_has_a_row_per_part(form: str, tmp_path: Path) -> None:
    plan = memplan.plan(SHAPED, "greedy_by_size")
    plan.to_csv(tmp_path / "plan.csv", form=form)
    back = memplan.read_plan(tmp_path / "plan.csv")
    assert [(s.name, s.offset, s.bytes, s.first, s.last) for s in back] == [
        ("a[0:4]", 0, 4, 0, 4),
        ("a[4:8]", 4, 4, 0, 2),
        ("b", 4, 4, 2, 4),
        ("c", 8, 4, 4, 6),
    ]
    assert back.problem.alignment.tolist() == ([1, 1, 4, 4] if form == "minimalloc" else [1] * 4)
    assert (back.peak, back.load) == (plan.peak, plan.load)


def test_csv_ids_of_parts_are_different(tmp_path: Path) -> None:
    """Bytes may be in use twice, and another buffer may have the name that a part would."""
    parts = [(0, 0, 4, 0, 1), (0, 0, 4, 2, 3), (0, 4, 8, 0, 3)]
    problem = memplan.Problem([8, 1, 2], [0, 0, 0], [3, 1, 3], 1, ["a", "a[0:4]", "a[4:8]"], parts)
    memplan.plan(problem).to_csv(tmp_path / "plan.csv")
    names = [slot.name for slot in memplan.read_plan(tmp_path / "plan.csv")]
    assert names == ["a[0:4]_", "a[0:4]__", "a[4:8]_", "a[0:4]", "a[4:8]"]


@given(shaped_problems(), st.sampled_from(["auto", "naive", "greedy_by_size"]))
@BOUNDED
def test_shapes_and_conflicts_round_trip(tmp_path_factory: pytest.TempPathFactory, case: Any, planner: str) -> None:
    folder = tmp_path_factory.mktemp("plans")
    columns, parts, conflicts = case
    names = [f"t{i}" for i in range(len(columns[0]))]
    plan = memplan.plan(memplan.Problem(*columns, names, parts, conflicts), planner)
    plan.to_json(folder / "plan.json")
    back = memplan.read_plan(folder / "plan.json")
    assert back.problem == plan.problem
    assert back.offsets.tolist() == plan.offsets.tolist()
    assert (back.peak, back.lower_bound) == (plan.peak, plan.problem.aligned_load)  # proofs of more are not in a file
    plan.to_csv(folder / "plan.csv")
    rows = memplan.read_plan(folder / "plan.csv")  # verified, as buffers of their own
    assert rows.load == plan.load
    assert rows.problem.parts is None
    assert rows.problem.conflicts is None


# Plans held against a problem from elsewhere


def test_offsets_are_matched_with_shapes_and_conflicts(tmp_path: Path) -> None:
    memplan.plan(SHAPED, "greedy_by_size").to_json(tmp_path / "plan.json")
    rows = placed_rows(tmp_path / "plan.json").rows
    matched, offsets, messages = match_offsets(SHAPED, rows)
    assert (matched, offsets.tolist(), messages) == (SHAPED, [0, 4, 8], [])

    unknown = memplan.Problem([1, 4, 4], [0, 2, 4], [1, 4, 6], 4, ["z", "b", "c"], None, [(0, 1), (1, 2)])
    matched, offsets, messages = match_offsets(unknown, rows)
    assert matched == memplan.Problem([4, 4], [2, 4], [4, 6], 4, ["b", "c"], None, [(0, 1)])
    assert offsets.tolist() == [4, 8]
    assert messages == ["buffer 'z' is not in the plan", "buffer 'a' is in the plan, but not in the problem"]


def test_parts_of_buffers_that_a_plan_lacks_go(tmp_path: Path) -> None:
    (tmp_path / "plan.csv").write_text("id,lower,upper,size,offset\nc,4,6,4,0\na,0,4,8,4\n")
    parts = [(0, 0, 1, 2, 4), (2, 0, 1, 4, 5)]
    problem = memplan.Problem([4, 8, 4], [2, 0, 4], [4, 4, 6], 1, ["b", "a", "c"], parts, [(0, 1), (1, 2)])
    matched, offsets, messages = match_offsets(problem, placed_rows(tmp_path / "plan.csv").rows)
    assert matched == memplan.Problem([8, 4], [0, 4], [4, 6], 1, ["a", "c"], [(1, 0, 1, 4, 5)], [(0, 1)])
    assert (offsets.tolist(), messages) == ([4, 0], ["buffer 'b' is not in the plan"])


def test_parts_that_differ_are_said(tmp_path: Path) -> None:
    memplan.plan(SHAPED).to_json(tmp_path / "plan.json")
    rows = placed_rows(tmp_path / "plan.json").rows
    plain = memplan.Problem(SHAPED.size, SHAPED.first, SHAPED.last, SHAPED.alignment, SHAPED.names)
    _, _, messages = match_offsets(plain, rows)
    assert messages == ["buffer 'a' has other parts in the plan than in the problem"]


@given(columns(), st.sampled_from(["naive", "first_fit", "greedy_by_size"]))
@BOUNDED
def test_round_trips(tmp_path_factory: pytest.TempPathFactory, problem: Any, planner: str) -> None:
    folder = tmp_path_factory.mktemp("plans")
    plan = memplan.plan(memplan.Problem(*problem, [f"t{i}" for i in range(len(problem[0]))]), planner)
    plan.to_csv(folder / "plan.csv")
    plan.to_json(folder / "plan.json")
    for file in ("plan.csv", "plan.json"):
        back = memplan.read_plan(folder / file)
        assert back.problem == plan.problem
        assert back.offsets.tolist() == plan.offsets.tolist()
        assert (back.peak, back.lower_bound, back.optimal) == (plan.peak, plan.lower_bound, plan.optimal)


@pytest.mark.parametrize("name", [" padded ", "carriage\rreturn", "line\nfeed", "tab\there", "'", '"', ",", "ä"])
@pytest.mark.parametrize("file", ["plan.csv", "plan.json"])
def test_any_name_comes_back(name: str, file: str, tmp_path: Path) -> None:
    plan = memplan.plan(memplan.Problem([4, 5], [0, 0], [1, 1], 1, [name, "b"]))
    (plan.to_csv if file.endswith("csv") else plan.to_json)(tmp_path / file)
    assert memplan.read_plan(tmp_path / file).problem == plan.problem


def test_the_largest_numbers_come_back(tmp_path: Path) -> None:
    plan = memplan.plan(memplan.Problem([2**63 - 1], [-(2**63)], [2**63 - 1], 1, ["all"]))
    plan.to_json(tmp_path / "plan.json")
    plan.to_csv(tmp_path / "plan.csv")
    for file in ("plan.json", "plan.csv"):
        assert memplan.read_plan(tmp_path / file).problem == plan.problem


# Plans in JSON that are not as memplan writes them


def tampered(plan: memplan.Plan, path: Path, **changes: Any) -> Path:
    plan.to_json(path)
    spec = json.loads(path.read_text(encoding="utf-8")) | changes
    path.write_text(json.dumps({key: value for key, value in spec.items() if value is not None}), encoding="utf-8")
    return path


PART = {"begin": 0, "end": 6, "first": 1, "last": 3}
BUFFER: dict[str, Any] = {"id": "a", "size": 6, "first": 1, "last": 4, "alignment": 8, "offset": 0}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "other"}, "expected format 'memplan.plan' version 1, got 'other' version 1"),
        ({"version": 2}, "expected format 'memplan.plan' version 1, got 'memplan.plan' version 2"),
        ({"buffers": None}, "buffers"),
        ({"buffers": 5}, "buffers"),
        ({"buffers": {"id": "a"}}, "buffers"),
        ({"buffers": [7]}, r"buffers\[0\]"),
        ({"buffers": [BUFFER | {"size": "6"}]}, r"buffers\[0\].size must be of type int, got '6'"),
        ({"buffers": [BUFFER | {"size": 6.0}]}, r"buffers\[0\].size must be of type int, got 6.0"),
        ({"buffers": [BUFFER | {"offset": True}]}, r"buffers\[0\].offset must be of type int, got True"),
        ({"buffers": [BUFFER | {"id": 3}]}, r"buffers\[0\].id must be of type str, got 3"),
        ({"buffers": [BUFFER | {"last": 2**63}]}, r"buffers\[0\].last must fit int64, got 9223372036854775808"),
        ({"buffers": [BUFFER | {"size": -1}]}, r"size\[0\] \(buffer 'a'\) must be >= 0, got -1"),
        ({"buffers": [BUFFER | {"last": 1}]}, r"last\[0\] \(buffer 'a'\) must be > first\[0\] = 1, got 1"),
        ({"buffers": [BUFFER, BUFFER | {"offset": 8}]}, "'a'"),
        ({"buffers": [BUFFER | {"parts": 3}]}, r"buffers\[0\].parts must be a list, got int"),
        ({"buffers": [BUFFER | {"parts": [PART, 3]}]}, r"buffers\[0\].parts\[1\].begin must be of type int, got None"),
        ({"buffers": [BUFFER | {"parts": [PART | {"end": "6"}]}]}, r"parts\[0\].end must be of type int, got '6'"),
        ({"buffers": [BUFFER | {"parts": [PART | {"last": 2**63}]}]}, r"parts\[0\].last must fit int64"),
        ({"buffers": [BUFFER | {"parts": [PART | {"end": 7}]}]}, r"bytes \[0, 7\) .* must lie within its 6 bytes"),
        ({"buffers": [BUFFER | {"parts": [PART, PART]}]}, "parts of buffer 0 overlap"),
        ({"conflicts": {}}, "conflicts must be a list, got dict"),
        ({"conflicts": [[0, 1], 2]}, r"conflicts\[1\] must be a pair of positions of buffers, got 2"),
        ({"conflicts": [[0, 1, 2]]}, r"conflicts\[0\] must be a pair of positions of buffers, got \[0, 1, 2\]"),
        ({"conflicts": [[0, 7]]}, r"conflicts\[0\] must hold positions of buffers, 0 to 6, got 7"),
        ({"conflicts": [[0, -1]]}, r"conflicts\[0\] must hold positions of buffers, 0 to 6, got -1"),
        ({"conflicts": [[False, 1]]}, r"conflicts\[0\] must hold positions of buffers, 0 to 6, got False"),
        ({"conflicts": [[1, 1]]}, "conflicts must be between two buffers, got buffer 1 twice"),
        ({"objects": "2"}, "objects must be of type int, got '2'"),
        ({"objects": -1}, "objects must be >= 0, got -1"),
        ({"naive": "2"}, "naive must be of type int, got '2'"),
        ({"naive": -1}, "naive must be >= 0 bytes, got -1"),
    ],
)
def test_bad_json_plans(changes: dict[str, Any], message: str, plan: memplan.Plan, tmp_path: Path) -> None:
    with pytest.raises(memplan.errors.SourceError, match=message) as error:
        memplan.read_plan(tampered(plan, tmp_path / "plan.json", **changes))
    assert str(error.value).startswith(str(tmp_path / "plan.json"))


def test_json_that_is_no_json(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text('{"format": \n  oops}')
    with pytest.raises(memplan.errors.SourceError, match=r"plan\.json: line 2, column 3: Expecting value"):
        memplan.read_plan(tmp_path / "plan.json")


def test_json_of_an_invalid_plan(plan: memplan.Plan, tmp_path: Path) -> None:
    path = tampered(plan, tmp_path / "plan.json", buffers=[BUFFER, BUFFER | {"id": "b"}])
    with pytest.raises(memplan.errors.InvalidPlanError, match=r"'a' at bytes .* and buffer 'b'"):
        memplan.read_plan(path)


# Writing


def fail(*_: object, **__: object) -> None:
    raise OSError("the disk is full")


@pytest.mark.parametrize("writer", ["csv", "json", "layout", "plot"])
@pytest.mark.parametrize("exists", [True, False])
def test_a_failing_write_leaves_nothing(
    writer: str, exists: bool, plan: memplan.Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from memplan.draw.gantt import save_plot

    target = tmp_path / ("plan.png" if writer == "plot" else "plan.txt")
    if exists:
        target.write_text("as before")
    monkeypatch.setattr("json.dump", fail)
    monkeypatch.setattr("pathlib.Path.write_text", fail)
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", fail)
    monkeypatch.setattr(memplan.Plan, "__iter__", lambda self: fail())
    write = {
        "csv": plan.to_csv,
        "json": plan.to_json,
        "layout": plan.to_layout,
        "plot": lambda path: save_plot(plan, path),
    }
    with pytest.raises(OSError, match="the disk is full"):
        write[writer](target)
    monkeypatch.undo()
    assert [path.name for path in tmp_path.iterdir()] == ([target.name] if exists else [])
    assert not exists or target.read_text() == "as before"


@pytest.mark.skipif(sys.platform == "win32", reason="SIGTERM of POSIX")
def test_a_write_that_is_terminated_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "plan.txt"
    target.write_text("old")
    write = f"""
import signal, sys, time
from memplan.files import replacing
with replacing({str(target)!r}) as beside:
    beside.write_text("half of")
    print("writing", flush=True)
    time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", write], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"writing\n"
        process.terminate()
        assert process.wait(10) == -signal.SIGTERM
    assert [path.name for path in tmp_path.iterdir()] == ["plan.txt"]
    assert target.read_text() == "old"


def test_a_write_restores_what_handles_signals(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    files.write_text(tmp_path / "a.txt", "a")
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_write_that_fails_half_way_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "file.txt"
    target.write_text("as before")
    with pytest.raises(KeyboardInterrupt), files.replacing(target) as beside:  # noqa: PT012
        beside.write_text("half of")
        raise KeyboardInterrupt
    assert [path.name for path in tmp_path.iterdir()] == ["file.txt"]
    assert target.read_text() == "as before"


def test_files_have_the_usual_permissions(plan: memplan.Plan, tmp_path: Path) -> None:
    (tmp_path / "usual").touch()
    plan.to_json(tmp_path / "plan.json")
    modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert len(modes) == 1


def test_a_missing_folder_is_named(plan: memplan.Plan, tmp_path: Path) -> None:
    target = tmp_path / "missing" / "plan.csv"
    with pytest.raises(FileNotFoundError) as error:
        plan.to_csv(target)
    assert error.value.filename in (str(target), str(target.parent))


def test_a_folder_is_no_target(plan: memplan.Plan, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match=str(tmp_path / "folder")):
        plan.to_csv(tmp_path / "folder")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_a_long_file_name_is_no_trouble(plan: memplan.Plan, tmp_path: Path) -> None:
    target = tmp_path / ("n" * 250 + ".csv")
    plan.to_csv(target)
    assert memplan.read_plan(target).peak == plan.peak


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_what_is_no_regular_file_is_never_replaced(plan: memplan.Plan, tmp_path: Path) -> None:
    """Devices and pipes are written to, or refused, but their names never become those of regular files."""
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with suppress(OSError):
            plan.to_csv(pipe)
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_link_stays_a_link(plan: memplan.Plan, tmp_path: Path) -> None:
    (tmp_path / "real.csv").write_text("old")
    (tmp_path / "link.csv").symlink_to("real.csv")
    plan.to_csv(tmp_path / "link.csv")
    assert (tmp_path / "link.csv").is_symlink()
    assert memplan.read_plan(tmp_path / "real.csv").peak == plan.peak
