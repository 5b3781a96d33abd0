"""What is asked of where things lie, of any source: pins, reserved bytes, what lies together and what is apart."""

from __future__ import annotations

import pickle
import random
from pathlib import Path
from typing import Any

import pytest

import memplan
from builders import graphs
from builders.commands import run
from builders.optima import proven
from builders.registered import PLANNERS
from memplan import _core
from oracles.exactness import FIXED

NETWORK: dict[str, Any] = graphs.graph(
    "x 8 input, a 8, b 8, c 8, d 8",
    graphs.op("make_a", "x", "a"),
    graphs.op("make_b", "a", "b", inplace=["b a"]),
    graphs.op("make_c", "b", "c", workspace=4),
    graphs.op("make_d", "c", "d"),
    outputs="d",
)
ALIVE = {"size": [10, 10, 6], "first": [0, 0, 2], "last": [5, 5, 3], "names": ["a", "b", "c"]}


def problem(**columns: Any) -> memplan.Problem:
    return memplan.Problem(**(ALIVE | columns))


def offsets(plan: memplan.Plan) -> dict[str, int]:
    plan.verify()
    return dict(zip(plan.tensors.names, plan.tensors.offset.tolist(), strict=True))


# Graphs


def test_graphs_take_pins_by_name() -> None:
    lies = offsets(memplan.plan(NETWORK, pin={"c": "16", "make_c.workspace": 40}))
    assert (lies["c"], lies["make_c.workspace"]) == (16, 40)
    graph = memplan.capture(NETWORK | {"pin": {"d": 16}}).graph
    assert memplan.plan(graph, "greedy_by_size")["d"].offset == 16
    assert "load" in graph._repr_html_()


def test_what_shares_bytes_with_a_pinned_tensor_lies_right() -> None:
    plan = memplan.plan(NETWORK, pin={"b": 24})
    lies = offsets(plan)
    assert (lies["a"], lies["b"]) == (24, 24)  # in place
    apart = memplan.plan(NETWORK, pin={"a": 0, "b": 24})
    lies = offsets(apart)
    assert (lies["a"], lies["b"]) == (0, 24)
    assert [shared.output for shared in apart.sharing] == []


def test_parts_of_a_pinned_whole_lie_in_it() -> None:
    tensors = [{"name": "x", "bytes": 4, "kind": "input"}]
    tensors += [{"name": name, "bytes": size} for name, size in (("p", 4), ("q", 4), ("whole", 8), ("y", 8))]
    parts = [{"output": "whole", "input": "p", "offset": 0}, {"output": "whole", "input": "q", "offset": 4}]
    ops: list[dict[str, Any]] = [
        {"inputs": ["x"], "outputs": ["p"]},
        {"inputs": ["x"], "outputs": ["q"]},
        {"inputs": ["p", "q"], "outputs": ["whole"], "concat": parts},
        {"inputs": ["whole"], "outputs": ["y"]},
    ]
    graph = {"tensors": tensors, "ops": ops, "outputs": ["y"]}
    plan = memplan.plan(graph, pin={"q": 20})
    assert (offsets(plan)["p"], offsets(plan)["whole"]) == (16, 16)
    plan = memplan.plan(graph, pin={"q": 0})  # the whole would begin before the arena, so that q is copied
    assert offsets(plan)["q"] == 0
    assert "q" not in {shared.inner for shared in plan.sharing}
    ops[1]["outputs"], ops[1]["alias"] = ["q"], []
    viewed = {"name": "view", "bytes": 4}
    tensors.append(viewed)
    ops.append({"inputs": ["whole"], "outputs": ["view"], "alias": [{"output": "view", "input": "whole", "offset": 4}]})
    graph["outputs"] = ["y", "view"]
    with pytest.raises(
        memplan.errors.GraphError, match="pin of 'view' must be >= 4: it lies that far inside 'whole', got 0"
    ):
        memplan.plan(graph, pin={"view": 0})
    with pytest.raises(
        memplan.errors.GraphError, match="pin of 'view' must be 12, got 16: both it and 'whole', which is p"
    ):
        memplan.plan(graph, pin={"whole": 8, "view": 16})


def test_reserved_bytes_of_a_graph() -> None:
    assert min(offsets(memplan.plan(NETWORK, reserved=[(0, 100)])).values()) == 100
    lies = offsets(memplan.plan(NETWORK, reserved=[(0, 100, 3, 4)]))
    assert min(lies["c"], lies["d"]) == 100
    assert lies["a"] == 0


def test_tensors_together_and_apart() -> None:
    lies = offsets(memplan.plan(NETWORK, together=[("a", "c", 64), ("d", "make_c.workspace", -4)]))
    assert (lies["c"] - lies["a"], lies["make_c.workspace"] - lies["d"]) == (64, -4)
    lies = offsets(memplan.plan(NETWORK, contiguous=[("d", "c", "make_c.workspace")]))
    assert (lies["c"] - lies["d"], lies["make_c.workspace"] - lies["c"]) == (8, 8)
    plan = memplan.plan(NETWORK, apart=[("a", "b", "c", "d")])
    assert plan.peak == plan.lower_bound == 32  # each has its own bytes; the workspace lies over a or d
    assert memplan.plan(NETWORK, together=[("a", "d")]).peak == memplan.plan(NETWORK).peak == 20


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"pin": {"e": 0}}, ValueError, "pin must name tensors, got 'e'; "),
        ({"pin": {"x": 0}}, ValueError, "pin names 'x', which has no place in the arena: it is of kind input; the opt"),
        ({"pin": {"c": 0, "d": 4}}, ValueError, r"pins: buffer 'c' at bytes \[0, 8\) and buffer 'd' at bytes \[4, 12"),
        (
            {"pin": {"c": 0}, "reserved": [(4, 5)]},
            ValueError,
            r"buffer 'c' at bytes \[0, 8\) and reserved bytes \[4, 5",
        ),
        ({"pin": {"c": 4}, "alignment": 8}, ValueError, r"\(buffer 'c'\) must be a multiple of 8, got 4"),
        (
            {"together": [("c", "d", 4)]},
            ValueError,
            "'c' and buffer 'd' at 4 bytes from each other share 4 bytes while",
        ),
        ({"together": [("c",)]}, TypeError, r"together\[0\] must be \(a, b, distance\), or \(a, b\) for one address"),
        ({"together": [("c", "c", 4)]}, ValueError, r"together\[0\] names 'c' 2 times"),
        ({"together": "cd"}, TypeError, "together must be rows"),
        ({"contiguous": [("c", "e")]}, ValueError, r"contiguous\[0\] must name tensors, got 'e'"),
        ({"apart": [("c",)]}, TypeError, r"apart\[0\] must be two names or more"),
        ({"exclude": ["e"]}, ValueError, "exclude must name tensors, got 'e'"),
        ({"exclude": ["make_c.workspace"]}, ValueError, "exclude must name tensors of the graph, got 'make_c.workspac"),
        ({"exclude": "c"}, TypeError, "exclude must be a collection of names, got 'c'"),
        ({"exclude": ["c"], "pin": {"c": 0}}, ValueError, r"pin names 'c', which has no place in .*: it is excluded"),
    ],
)
def test_what_graphs_cannot_have(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        memplan.plan(NETWORK, **options)


def viewed() -> dict[str, Any]:
    """The network with a view of c."""
    view = {"name": "show", "inputs": ["c"], "outputs": ["v"], "alias": [{"output": "v", "input": "c", "offset": 4}]}
    return NETWORK | {
        "tensors": [*NETWORK["tensors"], {"name": "v", "bytes": 4}],
        "ops": [*NETWORK["ops"], view],
        "outputs": ["d", "v"],
    }


def test_excluded_tensors_have_no_place() -> None:
    plan = memplan.plan(NETWORK, exclude=["b"], order="best")
    assert set(offsets(plan)) == {"a", "c", "d", "make_c.workspace"}  # nor is b written over a
    assert (plan.peak, plan.optimal, plan.sharing) == (16, True, ())
    memplan.order_bound(plan).check(plan.graph)
    with pytest.raises(KeyError, match=r"'b' \(intermediate\) is not placed in the arena; see the options `pl"):
        plan["b"]
    for name in ("c", "v"):  # a view takes what it shows with it
        assert set(offsets(memplan.plan(viewed(), exclude=[name]))) == {"a", "b", "d", "make_c.workspace"}
    assert set(offsets(memplan.plan(viewed(), place=["input", "intermediate"], exclude=["x", "c"]))) == {"a", "b"}


def test_what_is_excluded_shares_no_bytes_by_choice() -> None:
    tensors = [{"name": "x", "bytes": 4, "kind": "input"}]
    tensors += [{"name": name, "bytes": size} for name, size in (("p", 4), ("whole", 8), ("s", 4), ("y", 4))]
    ops: list[dict[str, Any]] = [
        {"inputs": ["x"], "outputs": ["p"]},
        {"inputs": ["p"], "outputs": ["whole"], "concat": [{"output": "whole", "input": "p", "offset": 4}]},
        {"inputs": ["whole"], "outputs": ["s"], "slice": [{"output": "s", "input": "whole", "offset": 0}]},
        {"inputs": ["s"], "outputs": ["y"], "inplace": [{"output": "y", "input": "s"}]},
    ]
    graph = {"tensors": tensors, "ops": ops, "outputs": ["y"]}
    assert len(memplan.plan(graph).sharing) == 3
    for name, left in (
        ("p", {"slice", "inplace"}),
        ("whole", {"inplace"}),
        ("s", {"concat"}),
        ("y", {"concat", "slice"}),
    ):
        plan = memplan.plan(graph, exclude=[name], order="best")
        assert {shared.how for shared in plan.sharing} <= left
        assert name not in offsets(plan)
        assert plan.order_bound <= plan.lower_bound <= plan.peak
        memplan.order_bound(plan).check(plan.graph)


def test_programs_run_with_what_is_excluded_elsewhere() -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4))
    x = torch.ones(2, 8)
    plan = memplan.plan(model, args=(x,), exclude=["1.relu"])
    assert set(offsets(plan)) == {"0.addmm", "2.addmm"}
    assert torch.equal(plan.run(x, check=True).outputs, model(x))


def test_excluded_tensors_of_other_plans() -> None:
    asked = viewed() | {"exclude": ["v"]}
    lies = {"a": 0, "b": 0, "make_c.workspace": 8, "d": 0}
    assert memplan.verify(asked, lies) == 12
    with pytest.raises(memplan.errors.InvalidPlanError, match="'v' is excluded from the arena, but is at offset 20"):
        memplan.verify(asked, lies | {"c": 16})
    with pytest.raises(ValueError, match="offsets has no 'a'"):
        memplan.verify(asked, {})


def test_excluded_buffers_of_a_problem_are_left_out() -> None:
    plan = memplan.plan(memplan.Problem([4, 5, 6], [0] * 3, [2] * 3), exclude=["#1"], pin={"#2": 4})
    assert (plan.peak, plan["#0"].offset, plan["#2"].offset) == (10, 0, 4)
    with pytest.raises(ValueError, match="pin must name buffers, got 'b'; the buffers are 'a', 'c'"):
        memplan.plan(problem(), exclude=["b"], pin={"b": 0})
    with pytest.raises(ValueError, match="exclude must name buffers, got 'd'"):
        memplan.plan(problem(), exclude=["d"])


def test_excluded_on_the_command_line(tmp_path: Path) -> None:
    path, out = tmp_path / "l.csv", tmp_path / "plan.csv"
    path.write_text("id,lower,upper,size\na,0,5,10\nb,0,5,10\nc,6,7,8\n")
    assert run("plan", path, "--exclude", "a,c", "--csv", out) == 0
    assert memplan.read_problem(out).names == ["b"]


def test_views_are_neither_elsewhere_nor_apart() -> None:
    graph = viewed()
    assert memplan.plan(graph, together=[("c", "v", 4)]).peak == memplan.plan(graph).peak
    with pytest.raises(
        memplan.errors.GraphError, match="'c' and 'v' cannot be 8 bytes apart: both lie in 'c', 4 bytes from"
    ):
        memplan.plan(graph, together=[("c", "v", 8)])
    with pytest.raises(memplan.errors.GraphError, match="apart: 'c' and 'v' both lie in 'c'"):
        memplan.plan(graph, apart=[("c", "v")])
    with pytest.raises(memplan.errors.GraphError, match="it shares bytes with 'v', which is excluded"):
        memplan.plan(graph, exclude=["v"], pin={"c": 0})


KEYS = {
    "pin": {"c": 16},
    "reserved": [[0, 8], [24, 32, 2, 3]],
    "together": [["c", "d", -8]],
    "contiguous": [["d", "c"]],
    "apart": [["a", "d"]],
    "exclude": ["b"],
}


def test_keys_of_a_graph_dict(tmp_path: Path) -> None:
    graph = memplan.capture(NETWORK | KEYS).graph
    assert isinstance(graph, memplan.Graph)
    assert (
        memplan.capture(graph.to_dict()).graph
        == graph
        == pickle.loads(pickle.dumps(graph))
        != memplan.capture(NETWORK).graph
    )
    assert memplan.capture(graph, inplace_ops=["Relu"]).graph.layout == graph.layout
    plan = memplan.plan(graph, barrier=["make_b"], order="best", pin={"a": 32})
    lies = offsets(plan)
    assert (lies["a"], lies["c"], lies["d"]) == (32, 16, 8)
    plan.to_json(tmp_path / "plan.json")
    assert memplan.read_plan(tmp_path / "plan.json").problem == plan.problem
    for key, value, message in [
        ("pin", [0], "pin must be a mapping from names of tensors"),
        ("apart", [["a", "e"]], r"apart\[0\] must name tensors, got 'e'"),
    ]:
        with pytest.raises(memplan.errors.GraphError, match=message):
            memplan.plan(NETWORK | {key: value})


def test_graphs_made_by_hand_may_name_what_is_not_there() -> None:
    graph = memplan.capture(NETWORK).graph
    for layout, message in [
        (_core.Layout([("e", 0)]), "pin must name tensors or workspaces of the graph, got 'e'"),
        (_core.Layout([("c", -4)]), "pin of 'c' must be >= 0, got -4"),
    ]:
        with pytest.raises(memplan.errors.GraphError, match=message):
            memplan.plan(memplan.Graph(graph.tensors, graph.ops, graph.outputs, layout))
    assert not _core.Layout()


def test_the_replay_sees_who_lies_elsewhere() -> None:
    lies = {"a": 0, "b": 0, "c": 16, "make_c.workspace": 24, "d": 8}
    asked = NETWORK | {
        "pin": {"c": 16, "make_c.workspace": 24},
        "together": [["d", "c", 8]],
        "reserved": [[40, 48, 0, 2]],
    }
    assert memplan.verify(asked, lies) == 28
    for change, message in [
        ({"c": 32}, "'c' must be at offset 16, to which it is pinned, but is at offset 32"),
        ({"make_c.workspace": 32}, "'make_c.workspace' must be at offset 24, to which it is pinned, but is at offset"),
        ({"d": 0}, "'c' must be 8 bytes after 'd', which is at offset 0, but is at offset 16"),
        ({"a": 40, "b": 40}, r"writes tensor 'a' at offset 40, but bytes \[40, 48\) are reserved"),
    ]:
        with pytest.raises(memplan.errors.InvalidPlanError, match=message):
            memplan.verify(asked, lies | change)
    asked["reserved"] = [[0, 8, 1, 2], [8, 100, 2, 3]]
    with pytest.raises(memplan.errors.InvalidPlanError) as wrong:
        memplan.verify(asked, lies)
    assert "op 'make_b' (step 1) reads tensor 'a' at offset 0, but bytes [0, 8) are reserved" in str(wrong.value)
    assert "op 'make_c' (step 2) writes its workspace at offset 24, but bytes [8, 100) are reserved" in str(wrong.value)


def test_fit_refuses_what_it_does_not_keep() -> None:
    with pytest.raises(ValueError, match="fit does not support pins, reserved bytes, excluded tensors, or"):
        memplan.fit(NETWORK | KEYS, 12)


def test_random_chains_with_pins() -> None:
    """Sharing never makes it worse, and all that is pinned lies there."""
    for seed in range(60):
        chance = random.Random(seed)
        names = [f"t{k}" for k in range(8)]
        tensors = [{"name": "t0", "bytes": 8, "kind": "input"}]
        tensors += [{"name": name, "bytes": chance.choice([4, 8, 12])} for name in names[1:]]
        ops: list[dict[str, Any]] = []
        for k, name in enumerate(names[1:], 1):
            reads = sorted({names[k - 1], chance.choice(names[:k])})
            inplace = [{"output": name, "input": read} for read in reads if read != "t0"]
            ops.append({"inputs": reads, "outputs": [name], "inplace": inplace})
        graph = {"tensors": tensors, "ops": ops, "outputs": [names[-1]]}
        pin = {name: 4 * chance.randrange(8) for name in chance.sample(names[1:], 2)}
        try:
            alone = memplan.plan(graph, pin=pin, inplace=False)
        except memplan.errors.ProblemError:  # these two pins overlap
            continue
        plan = memplan.plan(graph, pin=pin)
        assert offsets(plan) | pin == offsets(plan)
        assert plan.lower_bound <= plan.peak <= alone.peak


# Problems


def test_pins_and_distances_are_added_to_those_of_the_problem() -> None:
    plan = memplan.plan(problem(pins=[0, -1, -1], reserved=[(30, 31, 0, 1)]), pin={"b": 10}, reserved=[(40, 44)])
    assert plan.problem.pins.tolist() == [0, 10, -1]
    assert len(plan.problem.reserved) == 2
    asked = problem(pins=[0, -1, -1]), {"pin": {"c": 20}, "together": [("b", "c", 2)]}
    with pytest.raises(memplan.errors.ProblemError, match="share"):
        memplan.plan(asked[0], **asked[1])


def test_distances_are_a_column() -> None:
    given = problem(together=[(0, 2, 64)])
    assert given.together.tolist() == [[0, 2, 64]]
    assert pickle.loads(pickle.dumps(given)) == given != problem()
    assert given.with_together() == problem()
    assert problem().together is None
    plan = memplan.plan(given)
    assert (plan["c"].offset - plan["a"].offset, plan.peak, plan.optimal) == (64, 70, True)
    assert memplan.generate.mirrored(memplan.generate.mirrored(given)) == given
    assert memplan.plan(memplan.generate.shuffled(given)).peak == 70


@pytest.mark.parametrize("planner", PLANNERS)
def test_all_planners_keep_distances(planner: str) -> None:
    given = problem(together=[(2, 1, 8), (1, 0, -10)], first=[0, 0, 5], last=[5, 5, 9])
    plan = memplan.plan(given, planner)
    plan.verify()
    assert plan["c"].offset + 8 == plan["b"].offset == plan["a"].offset + 10


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"together": [(0, 1, 5)]}, r"'a' and buffer 'b' at 5 bytes from each other share 5 bytes while .* \[0, 5\)"),
        ({"together": [(0, 0, 1)]}, "together: buffer 'a' cannot be 1 bytes from itself"),
        ({"together": [(0, 3, 1)]}, r"together must name buffers in \[0, 3\), got 3"),
        (
            {"together": [(0, 1, 10), (1, 2, 5), (0, 2, 16)]},
            "'a' and buffer 'c' cannot be 16 bytes apart: by other rows, i",
        ),
        ({"together": [(0, 1, 2**62)]}, "must be at most 2\\^61 bytes apart"),
        ({"together": [(0, 1, 2**61 - 1), (1, 2, 2**61 - 1)]}, "are in a group that is more than 2\\^61 bytes wide"),
        ({"together": [(0, 1, 12)], "alignment": [8, 8, 1]}, "cannot be 12 bytes apart: .* multiples of 8 and of 8"),
        (
            {"together": [(0, 2, 4)], "first": [0, 0, 6], "last": [5, 5, 9], "conflicts": [(0, 2)]},
            "and these two conflict",
        ),
        (
            {"together": [(0, 1, 16)], "pins": [0, 32, -1]},
            "are pinned to offsets 0 and 32, and cannot be 16 bytes apart",
        ),
        (
            {"together": [(0, 1, 16)], "pins": [-1, 8, -1]},
            "'a' and buffer 'b' cannot lie together: .* begins 8 bytes befo",
        ),
        (
            {"together": [(0, 1, 16)], "pins": [4, -1, -1], "alignment": [1, 8, 1]},
            "the pin 4 of the former puts the latter at offset 20, which is no multiple of 8",
        ),
        ({"together": [(0, 1, 16)], "alignment": [2**40, 2**40 - 1, 1]}, "have alignments whose common multiple is"),
        ({"together": [(0, 1)]}, "together must have 3 columns"),
    ],
)
def test_distances_that_cannot_be(columns: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        problem(**columns)


def test_what_changes_is_checked_again() -> None:
    given = problem(together=[(0, 1, 16)])
    with pytest.raises(memplan.errors.ProblemError, match="cannot lie together"):
        given.with_pins([-1, 8, -1])
    with pytest.raises(memplan.errors.ProblemError, match="and these two conflict"):
        problem(together=[(0, 2, 4)], first=[0, 0, 6], last=[5, 5, 9]).with_conflicts([(0, 2)])


def test_verify_sees_who_has_parted() -> None:
    (fault,) = _core.verify(problem(together=[(0, 1, 16)]), [0, 20, 60])
    assert (fault.kind, fault.buffer, fault.other) == ("parted", 0, 1)
    assert fault.message == "buffer 'b' at offset 20 must begin 16 bytes after buffer 'a' at offset 0"
    assert _core.verify(problem(together=[(0, 1, -16)]), [16, 0, 60]) == []


def test_alignments_of_members_hold_for_the_group() -> None:
    given = problem(together=[(0, 1, 13)], alignment=[3, 8, 1])
    plan = memplan.plan(given)
    plan.verify()
    assert (plan["a"].offset, plan["b"].offset) == (3, 16)
    assert memplan.plan(given.with_pins([27, -1, -1])).peak == 50
    assert memplan.plan(problem(size=[0, 0, 0], together=[(0, 1, 13)])).offsets.tolist() == [0, 13, 0]


def test_apart_is_a_conflict_of_problems() -> None:
    assert memplan.plan(problem(last=[2, 5, 3]), apart=[("a", "c")]).problem.conflicts.tolist() == [[0, 2]]
    plan = memplan.plan(problem(together=[(0, 1, 10)], last=[1, 5, 3]), apart=[("a", "c")], together=[("c", "a", 6)])
    assert (plan.peak, plan.problem.together.tolist()) == (26, [[0, 1, 10], [2, 0, 6]])
    assert (
        memplan.plan(
            problem(together=[(0, 1, 10)], last=[1, 5, 3], reserved=[(0, 1, 4, 2**40)], conflicts=[(0, 2)])
        ).peak
        == 26
    )
    with pytest.raises(
        memplan.errors.UnsupportedError, match="lie together and conflict with others need steps of their own"
    ):
        memplan.plan(problem(together=[(0, 1, 10)], last=[1, 2**63 - 1, 3], conflicts=[(0, 2)]))


def test_capacities_and_alignments() -> None:
    given = problem(together=[(0, 1, 30)])
    with pytest.raises(memplan.InfeasibleError, match="at least 40 bytes are needed"):
        memplan.plan(given, capacity=39)
    assert memplan.plan(given, capacity=40, alignment=2).peak == 40
    peaks: list[int] = []
    memplan.plan(problem(together=[(0, 2, 30)]), on_improvement=lambda plan: peaks.append(plan.peak))
    assert peaks[-1] == 36


def test_columns_of_a_csv(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "l.csv"
    path.write_text("id,lower,upper,size,together,apart\na,0,5,10,,\nb+1,0,5,10,a-16,\nc,6,7,8,b+1,a\nd,6,7,8,,a b+1\n")
    found = memplan.read_problem(path)
    assert found.together.tolist() == [[0, 1, -16], [1, 2, 0]]
    assert found.conflicts.tolist() == [[0, 2], [0, 3], [1, 3]]
    path.write_text("id,lower,upper,size,together\na,0,5,10,b+1\n")
    with pytest.raises(memplan.errors.SourceError, match="line 2, column 5: expected the id of a buffer, got 'b'"):
        memplan.read_problem(path)
    path.write_text("id,lower,upper,size\na,0,5,10\nb,0,5,10\nc,6,7,8\n")
    out = tmp_path / "plan.json"
    asked = ["--together", "a,b,-16", "--together", "a,c", "--contiguous", "a,c", "--apart", "b,c"]
    assert run("plan", path, *asked[:2], *asked[2:4], "--apart", "b,c", "--json", out) == 0
    back = memplan.read_plan(out)
    assert back.problem.together.tolist() == [[0, 1, -16], [0, 2, 0]]
    out.write_text(out.read_text().replace("-16", '"-16"'))
    with pytest.raises(memplan.errors.SourceError, match=r"together\[0\] distance must be of type int, got '-16'"):
        memplan.read_plan(out)
    out.write_text(out.read_text().replace('"-16"', "-16, 1"))
    with pytest.raises(
        memplan.errors.SourceError, match=r"together\[0\] must be two positions of buffers and a distance"
    ):
        memplan.read_plan(out)
    assert run("plan", path, "--together", "a") == 2
    assert "--together: takes A,B or A,B,N" in capsys.readouterr().err


# Beside other ways to find an optimum


@pytest.mark.parametrize("kind", FIXED)
def test_optima_of_random_problems(kind: str) -> None:
    assert proven("auto", kind, range(40), 8) >= 39


@pytest.mark.slow
@pytest.mark.parametrize("kind", FIXED)
def test_optima_of_many_random_problems(kind: str) -> None:
    assert proven("auto", kind, range(1000, 2000), 12) >= 990
