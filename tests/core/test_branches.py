"""Branches of which a run takes one: buffers of problems, ops of graphs."""

from __future__ import annotations

import itertools
import pickle
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import memplan
from builders import graphs
from builders.registered import PLANNERS
from memplan import _core

# a switch between two ways from x to y, and one inside of the second
NETWORK: dict[str, Any] = graphs.graph(
    "x 8 input, wide 64, left 64, right 64, deep 64, y 8",
    graphs.op("widen", "x", "wide"),
    graphs.op("go_left", "wide", "left", branch="if/left"),
    graphs.op("go_right", "wide", "right", branch="if/right"),
    graphs.op("go_deep", "right", "deep", branch="if/right/more/yes", workspace=16),
    graphs.op("merge", "left right deep", "y"),
    outputs="y",
)
COLUMNS: dict[str, Any] = {"size": [10, 10, 6, 4], "first": [0] * 4, "last": [5] * 4, "names": ["a", "b", "c", "d"]}


def problem(**columns: Any) -> memplan.Problem:
    return memplan.Problem(**(COLUMNS | {"branches": ["if/x", "if/y", "if/y", ""]} | columns))


# Problems


def test_buffers_of_two_branches_share_bytes() -> None:
    plan = memplan.plan(problem())
    plan.verify()
    assert (plan.peak, plan.lower_bound, plan.load, plan.optimal) == (20, 20, 20, True)  # the branch y, and d
    assert memplan.plan(problem(branches=["if/x", "if/y", "if/y/in/z", "if/y/in/w"])).peak == 16
    assert memplan.plan(problem(branches=["if/x", "if/y", "other/y", "other/z"])).peak == 16
    assert memplan.plan(problem(branches=[""] * 4)).problem.branches is None


def test_the_load_is_that_of_the_heaviest_run() -> None:
    """Of a branch and of one inside of it, wherever in its row it stands."""
    problem = memplan.Problem([8, 4, 1, 2], [0] * 4, [1] * 4)
    assert problem.with_branches(["if/a", "if/b", "if/c", ""]).load == 8 + 2
    assert problem.with_branches(["if/b", "if/a", "if/a/of/c", "if/a/of/d"]).load == 8
    assert problem.with_branches(["if/b/of/c", "if/a", "if/b/of/d", "if/b"]).load == 8 + 2


def test_branches_are_a_column() -> None:
    given = problem()
    assert given.branches == ["if/x", "if/y", "if/y", ""]
    assert pickle.loads(pickle.dumps(given)) == given != memplan.Problem(**COLUMNS) == given.with_branches()
    assert memplan.generate.mirrored(memplan.generate.mirrored(given)) == given
    assert sorted(memplan.generate.shuffled(given).branches) == sorted(given.branches)
    assert memplan.plan(given, exclude=["b"]).problem.branches == ["if/x", "if/y", ""]
    assert memplan.plan(given, alignment=4).problem.branches == given.branches


@pytest.mark.parametrize(
    ("branches", "message"),
    [
        (["if"] * 4, r"branches\[0\] \(buffer 'a'\) must be a switch and its branch, such as .*, got 'if'"),
        (["", "if/", "", ""], r"branches\[1\] \(buffer 'b'\) must be a switch and its branch"),
        (["", "if//b/c", "", ""], "must be a switch and its branch"),
        (["", "/then", "", ""], "must be a switch and its branch"),
        ([""], "branches must have one entry per buffer: size has 4, branches has 1"),
        ([1] * 4, "branches must hold strings that UTF-8 can hold, got 1"),
        ("abcd", "branches must be a sequence of strings"),
    ],
)
def test_branches_that_are_none(branches: Any, message: str) -> None:
    with pytest.raises(memplan.errors.ProblemError, match=message):
        problem(branches=branches)


def test_pins_of_two_branches_may_meet() -> None:
    plan = memplan.plan(problem(pins=[0, 4, -1, -1]))
    plan.verify()
    assert (plan.peak, plan.optimal) == (24, True)
    with pytest.raises(memplan.errors.ProblemError, match=r"pins: buffer 'a' .* and buffer 'b'"):
        problem(pins=[0, 4, -1, -1]).with_branches(["if/x", "if/x", "", ""])
    with pytest.raises(memplan.errors.ProblemError, match="share"):
        problem(together=[(0, 1, 4)]).with_branches()
    assert memplan.plan(problem(together=[(0, 1, 4)])).peak == 20


def test_reserved_bytes_count_only_while_a_buffer_lives() -> None:
    columns = {"last": [5, 3, 5, 5], "first": [0, 0, 0, 4]}
    plan = memplan.plan(problem(**columns, reserved=[(0, 4, 3, 2**63 - 1), (8, 12, 3, 4)]))
    plan.verify()
    assert (plan.peak, plan.optimal) == (22, True)
    assert memplan.plan(problem(reserved=[(0, 8, 0, 1), (8, 9, -5, 0)])).peak == 28


def test_conflicts_hold_in_whatever_branches() -> None:
    assert memplan.plan(problem(), apart=[("a", "b")]).peak == 24
    two, one = _core.verify(problem(conflicts=[(0, 1)]), [0, 0, 6, 20])
    assert "'b' at bytes [0, 10) and buffer 'c' at bytes [6, 12) share bytes [6, 10)" in two.message
    assert "these two conflict" in one.message


def test_shapes_in_branches_meet_part_by_part() -> None:
    parts = [(3, 0, 2, 0, 5), (3, 2, 4, 0, 1), (1, 0, 10, 1, 5)]
    plan = memplan.plan(problem(parts=parts))
    plan.verify()
    assert (plan.peak, plan.optimal) == (18, True)


@pytest.mark.parametrize("planner", PLANNERS)
def test_planners_take_branches_or_refuse_them_by_name(planner: str) -> None:
    row = next(row for row in memplan.planners() if planner in (row.name, row.alias))
    if "branches" not in row.supports:
        with pytest.raises(
            memplan.errors.UnsupportedError, match="does not support branches, which this problem asks for"
        ):
            memplan.plan(problem(), planner)
        return
    plan = memplan.plan(problem(), planner)
    plan.verify()
    assert 20 <= plan.peak <= 30


def test_what_branches_do_not_go_with() -> None:
    with pytest.raises(memplan.errors.UnsupportedError, match="refute does not support branches"):
        memplan.refute(problem(), 4)
    with pytest.raises(memplan.errors.UnsupportedError, match=r"refute.* does not support branches"):
        memplan.refute(problem(conflicts=[(0, 1)]), 4)
    with pytest.raises(memplan.errors.UnsupportedError, match="pools do not support branches"):
        memplan.plan(problem(), pools=[memplan.plans.Pool("sram")])
    with pytest.raises(memplan.errors.UnsupportedError, match="fit does not support branches"):
        memplan.fit(NETWORK, 100)
    with pytest.raises(
        memplan.errors.UnsupportedError, match="exclusive branches need steps of their own after the last"
    ):
        memplan.plan(problem(last=[2**63 - 1] * 4))


def test_infeasible_names_the_buffers_of_one_run() -> None:
    with pytest.raises(memplan.InfeasibleError) as caught:
        memplan.plan(problem(), capacity=19)
    assert (caught.value.lower_bound, caught.value.proven) == (20, True)
    assert caught.value.buffers == ("b", "c", "d")
    with pytest.raises(memplan.InfeasibleError) as caught:  # the heaviest branch is the first one
        memplan.plan(problem(branches=["if/y", "if/y", "if/x", ""]), capacity=19)
    assert (caught.value.lower_bound, caught.value.buffers) == (24, ("a", "b", "d"))
    _, rows = _core.heaviest_clique(problem())
    assert sorted(rows[:, 0].tolist()) == [1, 2, 3]


def test_files_keep_branches(tmp_path: Path) -> None:
    plan = memplan.plan(problem())
    plan.to_json(tmp_path / "plan.json")
    assert memplan.read_plan(tmp_path / "plan.json").problem == plan.problem
    text = (tmp_path / "plan.json").read_text()
    (tmp_path / "plan.json").write_text(text.replace('"if/x"', "3"))
    with pytest.raises(memplan.errors.SourceError, match=r"buffers\[0\].branch must be the name of a branch, got 3"):
        memplan.read_plan(tmp_path / "plan.json")
    plan.to_csv(tmp_path / "plan.csv")
    assert memplan.read_plan(tmp_path / "plan.csv").problem.branches == plan.problem.branches
    assert memplan.plan(tmp_path / "plan.csv").peak == plan.peak
    path = tmp_path / "l.csv"
    path.write_text("id,lower,upper,size,branch\na,0,5,10,if/x\nb,0,5,10,if/y\nc,0,5,6,if/y\nd,0,5,4,\n")
    assert memplan.read_problem(path) == problem()
    path.write_text("id,lower,upper,size,branch\na,0,5,10,if\n")
    with pytest.raises(memplan.errors.SourceError, match=r"l.csv: branches\[0\] \(buffer 'a'\) must be a switch"):
        memplan.read_problem(path)


# Options


def test_exclusive_buffers_by_name() -> None:
    plain = memplan.Problem(**COLUMNS)
    assert memplan.plan(plain, exclusive=[(["a"], ["b", "c"])]).peak == 20
    plan = memplan.plan(plain, exclusive=[(["a"], ["b", "c", "d"]), (["c"], ["d"])])  # the second row inside
    assert (plan.peak, plan.optimal) == (16, True)
    assert plan.problem.branches == [
        "exclusive[0]/0",
        "exclusive[0]/1",
        "exclusive[0]/1/exclusive[1]/0",
        "exclusive[0]/1/exclusive[1]/1",
    ]
    again = memplan.plan(memplan.plan(plain, exclusive=[(["a"], ["b"])]).problem, exclusive=[(["c"], ["d"])])
    assert (again.peak, again.problem.branches[2]) == (16, "exclusive[0]_/0")


@pytest.mark.parametrize(
    ("exclusive", "error", "message"),
    [
        ("ab", TypeError, "exclusive must be rows of branches such as"),
        ([(["a"],)], TypeError, r"exclusive\[0\] must be two branches or more"),
        ([("a", "b")], TypeError, r"exclusive\[0\]\[0\] must be a list of names, got 'a'"),
        ([(["a"], ["e"])], ValueError, r"exclusive\[0\] must name buffers, got 'e'"),
        ([(["a"], ["b", "a"])], ValueError, r"exclusive\[0\] names 'a' twice; it is in one branch"),
        (
            [(["a"], ["b"]), (["c"], ["b"])],
            ValueError,
            r"exclusive\[1\]: 'b' is in branch 'exclusive\[0\]/1', and others are in ''",
        ),
    ],
)
def test_exclusive_rows_that_are_none(exclusive: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        memplan.plan(memplan.Problem(**COLUMNS), exclusive=exclusive)


# Graphs


def test_what_two_branches_make_shares_bytes() -> None:
    plan = memplan.plan(NETWORK)
    plan.verify()
    assert (plan.peak, plan.load) == (144, 144)  # right, deep and a workspace; left lies over one of them
    assert plan["left"].offset in (plan["right"].offset, plan["deep"].offset)
    straight = NETWORK | {"ops": [{k: v for k, v in op.items() if k != "branch"} for op in NETWORK["ops"]]}
    assert memplan.plan(straight).peak > 200
    asked = memplan.plan(straight, exclusive=[(["go_left"], ["go_right", "go_deep"])])
    assert asked.peak == 144
    assert memplan.plan(straight | {"exclusive": [[["go_left"], ["go_right", "go_deep"]]]}).peak == 144


def test_graphs_keep_branches() -> None:
    graph = memplan.capture(NETWORK).graph
    assert isinstance(graph, memplan.Graph)
    assert [op.branch for op in graph.ops] == ["", "if/left", "if/right", "if/right/more/yes", ""]
    assert memplan.capture(graph.to_dict()).graph == graph == pickle.loads(pickle.dumps(graph))
    assert memplan.capture(graph, inplace_ops=["Relu"]).graph.ops[1].branch == "if/left"
    plan = memplan.plan(NETWORK, order="best", barrier=["merge"])
    assert plan.graph is not None
    assert [op.branch for op in plan.graph.ops] == [op.branch for op in graph.ops]
    assert (plan.order, plan.order_bound) == (tuple(op.name for op in graph.ops), 0)
    assert "144" in str(plan.explain())


@pytest.mark.parametrize(
    ("branch", "message"),
    [
        ("if", "op 'go_left': branch must be a switch and its branch, such as \"if1/then\", .* got 'if'"),
        ("more/no", None),
        (4, r"ops\[1\].branch must be a string, got 4"),
    ],
)
def test_branches_of_ops_that_are_none(branch: Any, message: str | None) -> None:
    ops = [op | {"branch": branch} if op["name"] == "go_left" else op for op in NETWORK["ops"]]
    if message is None:
        assert memplan.plan(NETWORK | {"ops": ops}).peak > 144  # another switch
        return
    with pytest.raises(memplan.errors.GraphError, match=message):
        memplan.capture(NETWORK | {"ops": ops})


def test_an_op_reads_nothing_of_another_branch() -> None:
    ops = [op | {"inputs": ["left"]} if op["name"] == "go_right" else op for op in NETWORK["ops"]]
    with pytest.raises(
        memplan.errors.GraphError,
        match="op 'go_right' of branch 'if/right' reads tensor 'left', which exists only in branch 'if/left'",
    ):
        memplan.capture(NETWORK | {"ops": ops})


def test_the_replay_sees_what_some_run_loses() -> None:
    lies = {"wide": 64, "left": 0, "right": 0, "deep": 64, "go_deep.workspace": 128, "y": 128}
    assert memplan.verify(NETWORK, lies) == 144
    with pytest.raises(
        memplan.errors.InvalidPlanError, match=r"op 'merge' .* reads tensor 'right' .*, but bytes .* hold tensor"
    ):
        memplan.verify(NETWORK, lies | {"deep": 32})
    with pytest.raises(memplan.errors.InvalidPlanError, match=r"go_left' .* writes while it reads tensor 'wide'"):
        memplan.verify(NETWORK, lies | {"left": 100})


# Beside plans of single runs


def runs(graph: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Each run of a graph as a graph without branches."""
    switches: dict[str, set[str]] = {}
    for op in graph["ops"]:
        for switch, branch in choices(op):
            switches.setdefault(switch, set()).add(branch)
    for taken in itertools.product(*map(sorted, switches.values())):
        takes = dict(zip(switches, taken, strict=True))
        ops = [op for op in graph["ops"] if all(takes[switch] == branch for switch, branch in choices(op))]
        made = {name for op in ops for name in op["outputs"]}
        there = made | {tensor["name"] for tensor in graph["tensors"] if tensor.get("kind") == "input"}
        yield {
            "tensors": [tensor for tensor in graph["tensors"] if tensor["name"] in there],
            "ops": [
                {
                    key: [entry for entry in value if (entry["input"] if isinstance(entry, dict) else entry) in there]
                    if isinstance(value, list)
                    else value
                    for key, value in op.items()
                    if key != "branch"
                }
                for op in ops
            ],
            "outputs": [name for name in graph["outputs"] if name in there],
        }


def choices(op: dict[str, Any]) -> list[tuple[str, str]]:
    words = op["branch"].split("/") if op.get("branch") else []
    return [("/".join(words[: k + 1]), words[k + 1]) for k in range(0, len(words), 2)]


def random_graph(seed: int) -> dict[str, Any]:
    chance = random.Random(seed)
    branches = ["", "", "i/a", "i/b", "i/b/k/c", "i/b/k/d", "j/a", "j/b"]
    tensors: list[dict[str, Any]] = [{"name": "x", "bytes": 8, "kind": "input"}]
    ops: list[dict[str, Any]] = []
    path = {"x": ""}
    for k in range(chance.randint(5, 10)):
        branch = chance.choice(branches) if chance.random() < 0.8 else ""
        mine = dict(choices({"branch": branch}))
        readable = [
            name for name, other in path.items() if all(mine.get(s, b) == b for s, b in choices({"branch": other}))
        ]
        reads = sorted(set(chance.choices(readable, k=chance.randint(1, 3))))
        tensors.append({"name": f"t{k}", "bytes": 4 * chance.randint(1, 4)})
        inplace = [{"output": f"t{k}", "input": name} for name in reads if name != "x" and chance.random() < 0.5]
        ops.append({"name": f"o{k}", "inputs": reads, "outputs": [f"t{k}"], "inplace": inplace, "branch": branch})
        ops[-1]["workspace"] = chance.choice([0, 0, 4])
        path[f"t{k}"] = branch
    return {"tensors": tensors, "ops": ops, "outputs": chance.sample(list(path)[1:], 2)}


def check(seeds: range) -> tuple[int, int]:
    """Plans, and plans with one offset changed, are right if each run is; how many were right and wrong."""
    right = wrong = 0
    for seed in seeds:
        graph, chance = random_graph(seed), random.Random(seed)
        plan = memplan.plan(graph)
        straight = graph | {"ops": [op | {"branch": ""} for op in graph["ops"]]}
        assert max(memplan.plan(run).lower_bound for run in runs(graph)) <= plan.peak <= memplan.plan(straight).peak
        assert plan.lower_bound <= plan.peak
        lies = dict(zip(plan.tensors.names, plan.tensors.offset.tolist(), strict=True))
        for _ in range(8):
            changed = lies | {chance.choice(list(lies)): 4 * chance.randrange(12)}
            of_all, of_runs = is_right(graph, changed), [is_right(run, changed) for run in runs(graph)]
            assert of_all == all(of_runs), (seed, changed)
            right, wrong = right + of_all, wrong + (not of_all)
    return right, wrong


def is_right(graph: dict[str, Any], lies: dict[str, int]) -> bool:
    names = {tensor["name"] for tensor in graph["tensors"]} | {f"{op['name']}.workspace" for op in graph["ops"]}
    try:
        memplan.verify(graph, {name: offset for name, offset in lies.items() if name in names})
    except memplan.errors.InvalidPlanError:
        return False
    return True


def test_a_plan_is_right_where_it_is_right_for_each_run() -> None:
    right, wrong = check(range(30))
    assert min(right, wrong) > 30


@pytest.mark.slow
def test_many_plans_are_right_where_they_are_right_for_each_run() -> None:
    check(range(1000, 3000))


def test_pairs_that_never_meet_take_no_time() -> None:
    """A branch of each switch moves to steps of its own. O(buffers^2) took eight seconds."""
    n = 30_000
    first = list(range(0, 10 * n, 10))
    branches = [f"if{i // 2}/{'ab'[i % 2]}" for i in range(n)]
    many = memplan.Problem([8] * n, first, [step + 15 for step in first], branches=branches)
    begin = time.process_time()
    plan = memplan.plan(many, "greedy_by_size")
    assert plan.peak == 16
    assert time.process_time() - begin < 2
