"""Fit: graphs that give up what it takes to be within a capacity, against all schedules of small graphs."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

import memplan
from builders import graphs
from builders.fit_cases import APART, Dict, check_random, check_training, fitted
from builders.graphs import chain
from builders.looped import wide_blocks
from memplan import _core
from memplan.importers.graph_dict import graph_of
from memplan.plans.costs import costs_of


@pytest.mark.few(1)
@pytest.mark.parametrize("ways", [["recompute"], ["offload"], ["recompute", "offload"]])
def test_small_graphs_are_as_good_as_the_best_of_all_schedules(ways: list[str]) -> None:
    found = [check_random(seed, ways, most=8) for seed in range(200)]
    assert found.count("infeasible") < 130
    assert found.count("equal") > 5 * (found.count("above") + found.count("not found"))


@pytest.mark.slow  # the same, more often; tests/benchmarks/fit_small.py does it ten times as often
@pytest.mark.parametrize("ways", [["recompute"], ["offload"], ["recompute", "offload"]])
def test_many_small_graphs_are_as_good_as_the_best_of_all_schedules(ways: list[str]) -> None:
    for seed in range(200, 1200):
        check_random(seed, ways)


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize("ways", [["recompute"], ["offload"], ["recompute", "offload"]])
def test_training_graphs_are_near_the_least_of_an_integer_program(ways: list[str]) -> None:
    pytest.importorskip("ortools")
    found = [check_training(seed, ways, work=2_000_000) for seed in range(8)]
    costs = [(one.found, one.least) for one in found if one.least is not None and one.found is not None]
    assert len(costs) >= 4
    assert sum(cost for cost, _ in costs) <= 1.2 * sum(least for _, least in costs)


def test_a_graph_that_fits_is_left_as_it_is() -> None:
    found = fitted(chain(), 10_000)
    assert found.graph == graph_of(chain())
    assert (found.changes, found.added_cost, found.cost_bound) == ([], 0, 0)


def test_what_comes_back_is_a_copy_that_later_ops_read() -> None:
    found = fitted(chain(3), 300)
    [change] = found.changes
    assert (change.tensors, change.ops, change.before, change.bytes) == (["t0"], ["f0~1"], "b0", 100)
    assert change.after == "f1"
    ops = {op.name: op for op in found.graph.ops}
    assert ops["f0~1"].outputs == ["t0~1"]
    assert ops["b0"].inputs == ["g1", "t0~1"]


def test_several_ops_come_back_one_after_another() -> None:
    found = fitted(chain(16), 800, states=0, work=10**7)
    assert 0 < found.cost_bound <= found.added_cost < 20
    again = fitted(chain(16), 800, states=0, work=10**7)
    assert again.graph == found.graph


def test_a_chain_is_fitted_as_well_as_by_checkpoints() -> None:
    """Chen et al. keep every fourth of 16 and run each segment again: 12 ops, and 4 + 4 tensors besides two."""
    assert fitted(chain(16), 1000, states=0, work=10**8).added_cost <= 12


def test_the_op_that_needs_too_much_is_named() -> None:
    with pytest.raises(memplan.InfeasibleError, match=r"op 'b.' needs 300 bytes .* capacity is 299") as caught:
        fitted(chain(), 299)
    assert caught.value.proven
    assert caught.value.lower_bound == 300
    large = chain()
    for tensor in large["tensors"]:
        tensor["bytes"] = 3 * 2**29
    with pytest.raises(memplan.InfeasibleError) as caught:
        memplan.fit(large, "2GiB", allow=["recompute"])
    assert str(caught.value) == (
        "op 'b4' needs 4.50 GiB (4831838208 bytes) whatever is given up, capacity is 2.00 GiB (2147483648 bytes); "
        "its largest tensor, 'g5', takes 1.50 GiB (1610612736 bytes); in the given order of the ops, as allow holds "
        "recompute and not order"
    )


def test_the_error_is_of_the_order_that_needs_least() -> None:
    graph = graphs.graph([{"name": name, "bytes": 100, "kind": "output"} for name in ("a", "b", "c")], outputs="a b c")
    graph["tensors"].append({"name": "big", "bytes": 500})
    graph["tensors"].append({"name": "small", "bytes": 10, "kind": "output"})
    graph["outputs"].append("small")
    for name in ("a", "b", "c"):
        graph["ops"].append({"name": f"make_{name}", "inputs": [], "outputs": [name]})
    graph["ops"].append({"name": "make_big", "inputs": [], "outputs": ["big"]})
    graph["ops"].append({"name": "use", "inputs": ["big"], "outputs": ["small"]})
    with pytest.raises(memplan.InfeasibleError) as given:
        memplan.fit(graph, 400, allow=["recompute"])
    with pytest.raises(memplan.InfeasibleError) as best:
        memplan.fit(graph, 400, allow=["recompute", "order"])
    assert (given.value.lower_bound, best.value.lower_bound) == (810, 510)


def test_where_a_plan_has_gaps_less_than_the_load_is_asked_for() -> None:
    # the graph has a load of 15,000 and no plan below 16,000: within the capacity of a byte less, it would come again
    made = [("a", 6, "x"), ("b", 3, "a"), ("c", 6, "a"), ("d", 2, "ba"), ("e", 3, "ba"), ("f", 2, "e")]
    made += [("g", 6, "df"), ("h", 2, "fd"), ("i", 6, "b"), ("y", 2, "g")]
    tensors = [{"name": "x", "shape": [1], "dtype": "int8", "kind": "input"}]
    tensors += [{"name": name, "shape": [size * 1000], "dtype": "int8"} for name, size, _ in made]
    ops = [{"name": f"make_{name}", "inputs": [*read], "outputs": [name], "cost": 1.0} for name, _, read in made]
    net = {"tensors": tensors, "ops": ops, "outputs": ["y"]}
    plan = memplan.plan(net)
    assert (plan.load, plan.peak) == (15000, 16000)
    for capacity in (15000, 15999):
        found = memplan.fit(net, capacity, allow=("recompute",))
        assert (found.peak, found.added_cost) == (14000, 2.0)


def test_what_draws_random_numbers_does_not_run_again() -> None:
    graph = chain(3)
    graph["ops"][0]["recompute"] = False
    with pytest.raises(memplan.InfeasibleError):
        fitted(graph, 300)


def changed_chain() -> Dict:
    """conv -> relu_ in place, whose result is read at the end; y is idle in between."""
    tensors: list[Dict] = [{"name": "x", "bytes": 10, "kind": "input"}]
    tensors += [{"name": name, "bytes": 100} for name in ("y", "relu", "a", "b", "c", "z")]
    view = [{"output": "relu", "input": "y", "offset": 0}]
    ops = [
        {"name": "conv", "inputs": ["x"], "outputs": ["y"]},
        {"name": "relu_", "type": "aten.relu_", "inputs": ["y"], "outputs": ["relu"], "alias": view},
        {"name": "a", "inputs": ["relu"], "outputs": ["a"]},
        {"name": "b", "inputs": ["a"], "outputs": ["b"]},
        {"name": "c", "inputs": ["a", "b"], "outputs": ["c"]},
        {"name": "z", "inputs": ["c", "relu"], "outputs": ["z"]},
    ]
    return {"tensors": tensors, "ops": ops, "outputs": ["z"]}


def test_what_was_changed_in_place_is_made_by_all_that_wrote_it() -> None:
    found = fitted(changed_chain(), 300)
    [change] = found.changes
    assert change.ops == ["conv~1", "relu_~1"]
    ops = {op.name: op for op in found.graph.ops}
    assert ops["relu_~1"].aliases == [("relu~1", "y~1", 0)]
    assert ops["z"].inputs == ["c", "relu~1"]


def test_what_reads_something_that_was_changed_since_does_not_run_again() -> None:
    graph = changed_chain()
    graph["tensors"].append({"name": "x_", "bytes": 10})
    view = [{"output": "x_", "input": "x", "offset": 0}]
    change = {"name": "add_", "type": "aten.add_.Tensor", "inputs": ["x"], "outputs": ["x_"], "alias": view}
    graph["ops"].insert(4, change)
    with pytest.raises(memplan.InfeasibleError):
        fitted(graph, 300)


def test_a_copy_of_what_is_changed_later_comes_before_the_change() -> None:
    """`add_` changes x after a copy has read it: whoever orders the ops anew has to know."""
    graph = changed_chain()
    graph["tensors"].append({"name": "x_", "bytes": 10})
    view = [{"output": "x_", "input": "x", "offset": 0}]
    change = {"name": "add_", "type": "aten.add_.Tensor", "inputs": ["x"], "outputs": ["x_"], "alias": view}
    graph["ops"].append(change)
    found = fitted(graph, 300)
    assert "conv~1" in found.graph.ops[-1].after


def test_views_of_what_comes_back_are_made_again() -> None:
    graph = changed_chain()
    graph["ops"][1] |= {"type": "view"}
    found = fitted(graph, 300)
    assert [op.name for op in found.graph.ops if "~" in op.name] == ["conv~1", "relu_~1"]
    assert found.added_cost == 110  # a view costs nothing


def test_graph_outputs_stay_where_they_are() -> None:
    graph = chain(3)
    graph["outputs"].append("t0")
    with pytest.raises(memplan.InfeasibleError):
        fitted(graph, 300)


def test_intermediates_alone_are_fitted() -> None:
    """None of them can lie in an output, which is elsewhere."""
    graph = graph_of(chain(3))
    storage = _core.StorageOptions(place=["intermediate"])
    found = _core.fit_graph(graph, [1.0] * 6, ["same"] * 6, storage, 300)
    assert found.load <= 300
    assert found.added_cost == 1


def test_an_error_names_no_op_where_none_is_known_to_need_bytes() -> None:
    """Whatever is made may lie in the output, and that is not placed."""
    tensors = [{"name": "a", "bytes": 100}, {"name": "b", "bytes": 100}, {"name": "y", "bytes": 100}]
    over = [{"output": "y", "input": name} for name in "ab"]
    ops = [
        {"name": "f", "inputs": [], "outputs": ["a", "b"]},
        {"name": "g", "inputs": ["a", "b"], "outputs": ["y"], "inplace": over},
    ]
    graph = graph_of({"tensors": tensors, "ops": ops, "outputs": ["y"]})
    storage = _core.StorageOptions(place=["intermediate"])
    with pytest.raises(memplan.InfeasibleError, match=r"the least load found is 100 bytes$"):
        _core.fit_graph(graph, [1.0] * 2, ["same"] * 2, storage, 50)


def test_ops_on_several_streams_are_refused() -> None:
    graph = chain(3)
    graph["ops"][1]["stream"] = 1
    with pytest.raises(memplan.errors.UnsupportedError, match="one stream"):
        fitted(graph, 300)


def test_costs_are_checked() -> None:
    graph = graph_of(chain(3))
    with pytest.raises(memplan.errors.GraphError, match="one per op, 6, got 1"):
        _core.fit_graph(graph, [1.0], ["same"], APART, 300)
    with pytest.raises(memplan.errors.GraphError, match="op 'f0': cost must be finite and >= 0, got -1"):
        _core.fit_graph(graph, [-1.0] * 6, ["same"] * 6, APART, 300)
    with pytest.raises(ValueError, match="same, changes or never, got 'x'"):
        _core.fit_graph(graph, [1.0] * 6, ["x"] * 6, APART, 300)
    with pytest.raises(ValueError, match="one entry per op"):
        _core.fit_graph(graph, [1.0], [], APART, 300)


def test_a_time_limit_keeps_the_best() -> None:
    found = fitted(chain(60), 3000, time_limit=0.2, work=10**12)
    assert found.added_cost > 0


# memplan.fit


def test_fit_gives_a_plan_with_its_changes() -> None:
    plan = memplan.fit(chain(), 450, inplace=False)
    plan.verify()
    assert plan.peak <= 450
    assert plan.added_cost == plan.cost_bound == sum(change.cost for change in plan.changes) > 0
    assert plan.fitting is not None
    assert plan.fitting.cost == 12
    assert plan.fitting.capacity == 450
    assert list(plan.fitting) == list(plan.changes)
    assert "bytes are free from" in plan.changes[0].why
    assert "% of the cost added" in plan.summary()


def test_what_was_given_up_is_printed() -> None:
    plan = memplan.fit(chain(), 450, inplace=False)
    assert plan.fitting is not None
    share = f"{len(plan.changes)} changes, {plan.added_cost / plan.fitting.cost:.2%} of the cost added"
    line, price = str(plan).split("\n")
    assert line.startswith("peak 400 bytes")
    assert price.startswith(f"to fit 450 B: {share}")
    assert share in str(plan.fitting)


def test_the_dearest_changes_are_listed_and_all_are_summed_up() -> None:
    again = [memplan.plans.Change("recompute", tuple("abcd"), ("f~1",), "f", "g", 2048, k) for k in range(25)]
    moved = memplan.plans.Change("offload", ("x",), ("x~out", "x~in"), "f", "g", 2048, 50)
    fitting = memplan.plans.Fitting((*again, moved), 4096, 1000, 350, 100)
    rows = str(fitting).splitlines()
    assert rows[0] == "To fit 4.00 KiB: 26 changes, 35.00% of the cost added, 10.00% at least"
    assert rows[4].split() == ["offload", "x", "2.00", "KiB", "f", "g", "5.000%"]
    assert "a, b, c and 1 more" in rows[5]
    assert sum("2.00 KiB" in row for row in rows) == 20
    assert rows[-3:] == [
        "and 6 changes more, which cost less",
        "offload: 1 tensor, 5.000% of the cost",
        "recompute: 4 tensors, 30.000% of the cost",
    ]
    assert "<td>offload</td>" in fitting._repr_html_()


def test_costs_in_seconds_are_said_to_be() -> None:
    fitting = memplan.plans.Fitting((memplan.plans.Change("order"),), 100, 2.0, 0.5, 0.25, "seconds")
    expected = "To fit 100 B: 1 change, 25.00% of the cost added (0.5 seconds), 12.50% at least"
    assert str(fitting).startswith(expected)
    assert "order: the load is lower in this order" in str(fitting)


def test_other_plans_have_no_changes() -> None:
    plan = memplan.plan(chain())
    assert (plan.changes, plan.added_cost, plan.cost_bound, plan.fitting) == ((), 0, 0, None)
    assert "nothing is given up" in memplan.fit(chain(), "1KiB").summary()


def test_another_order_is_free() -> None:
    tensors = [{"name": name, "bytes": size} for name, size in [("a", 10), ("big", 100), ("b", 10), ("huge", 100)]]
    tensors += [{"name": name, "bytes": 1} for name in ("r", "s", "z")]
    ops: list[Dict] = [
        {"name": "a", "inputs": [], "outputs": ["big"]},
        {"name": "b", "inputs": [], "outputs": ["huge"], "recompute": False},
        {"name": "r", "inputs": ["big"], "outputs": ["r"]},
        {"name": "s", "inputs": ["huge"], "outputs": ["s"]},
        {"name": "join", "inputs": ["r", "s"], "outputs": ["z"]},
    ]
    graph = {"tensors": [t for t in tensors if t["name"] not in "ab"], "ops": ops, "outputs": ["z"]}
    plan = memplan.fit(graph, 110)
    assert [change.kind for change in plan.changes] == ["order"]
    assert plan.added_cost == 0
    assert "lower in this order" in plan.changes[0].why
    with pytest.raises(memplan.InfeasibleError):
        memplan.fit(graph, 110, allow=["recompute"])


def test_inputs_are_donated_where_that_is_allowed() -> None:
    graph: Dict = graphs.graph("x 100 input, y 100", graphs.op("f", "x", "y", inplace=["y x"]), outputs="y")
    with pytest.raises(memplan.InfeasibleError):
        memplan.fit(graph, 50)
    [change] = memplan.fit(graph, 50, allow=["donate"]).changes
    assert (change.kind, change.tensors) == ("donate", ("x",))
    assert "written over" in change.why


def test_plans_keep_their_changes_in_files(tmp_path: Any) -> None:
    plan = memplan.fit(chain(), 450, inplace=False)
    plan.to_json(tmp_path / "plan.json")
    assert memplan.read_plan(tmp_path / "plan.json").fitting == plan.fitting


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('"added_cost": ', '"added_cost": -', "fitting.added_cost must be finite and >= 0"),
        ('"capacity": 450', '"capacity": "x"', "fitting.capacity must be of type int, got 'x'"),
        ('"kind": "recompute"', '"kind": 1', r"fitting.changes\[0\].kind must be of type str"),
        ('"tensors": [\n     "t0"', '"tensors": [\n     7', "tensors must hold names, got 7"),
    ],
)
def test_files_with_wrong_changes_are_refused(old: str, new: str, expected: str, tmp_path: Any) -> None:
    path = tmp_path / "plan.json"
    memplan.fit(chain(3), 300, inplace=False).to_json(path)
    text = path.read_text().replace('"capacity": 300', '"capacity": 450')
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(memplan.errors.SourceError, match=expected):
        memplan.read_plan(path)


def test_each_op_in_pieces_has_a_loop(tmp_path: Any) -> None:
    path = tmp_path / "plan.json"
    plan = memplan.fit(wide_blocks(1), "least", allow=("split",))
    plan.to_json(path)
    assert memplan.read_plan(path).fitting == plan.fitting
    assert len({*memplan.read_plan(path).changes, *plan.changes}) == len(plan.changes)  # they are hashable
    spec = json.loads(path.read_text())
    spec["fitting"]["changes"][0]["loops"].pop()
    path.write_text(json.dumps(spec))
    with pytest.raises(
        memplan.errors.SourceError, match=r"changes\[0\].loops must hold a loop for each of \d+ ops, got"
    ):
        memplan.read_plan(path)


def test_options_are_checked() -> None:
    with pytest.raises(
        ValueError, match="allow must hold ways among recompute, offload, order, donate, split, got 'magic'"
    ):
        memplan.fit(chain(), 450, allow=["magic"])
    with pytest.raises(ValueError, match="cost must be one of auto, bytes, flops"):
        memplan.fit(chain(), 450, cost="time")
    with pytest.raises(memplan.errors.SourceError, match="'nop', which is no op"):
        memplan.fit(chain(), 450, cost={"nop": 1})
    with pytest.raises(ValueError, match="cost of 'f0' must be a finite number >= 0"):
        memplan.fit(chain(), 450, cost={"f0": -1})
    with pytest.raises(ValueError, match="got none; without any, use plan"):
        memplan.fit(chain(), 450, allow=())
    for option in ("transfer", "hidden"):
        with pytest.raises(ValueError, match="transfer and hidden need 'offload' among what allow holds"):
            memplan.fit(chain(), 450, **{option: 1.0})
    with pytest.raises(TypeError, match="fit takes graphs"):
        memplan.fit(([1], [0], [1]), 450)


def test_costs_may_be_given_by_op() -> None:
    """Only f1 may run again at a cost; f0 is free."""
    plan = memplan.fit(chain(3), 300, cost={"f1": 5.0}, inplace=False)
    assert plan.added_cost == 0


def test_bytes_are_the_costs_where_nothing_is_said() -> None:
    graph = graph_of(changed_chain())
    assert costs_of(graph, "bytes") == [110, 100, 200, 200, 300, 300]
    assert costs_of(graph, "auto") == costs_of(graph, "flops") == costs_of(graph, "bytes")


# On the command line


def test_the_command_prints_and_writes(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    import json

    from memplan.cli import main

    source, written, plan = tmp_path / "graph.json", tmp_path / "fitted.json", tmp_path / "plan.json"
    source.write_text(json.dumps(chain()))
    arguments = ["fit", str(source), "--capacity", "450", "--no-inplace", "--graph", str(written), "--json", str(plan)]
    pytest.importorskip("bokeh", reason="needs bokeh: pip install 'memplan[page]'")
    arguments += ["--html", str(tmp_path / "page.html")]
    assert main([*arguments, "--plot", str(tmp_path / "plan.svg")]) == 0
    assert (tmp_path / "page.html").read_text().count('<div class="away">') == 2
    out = capsys.readouterr().out
    assert "To fit 450 B: " in out
    assert re.search(r"recompute +t0 +100 B +f1 +b1", out)
    assert memplan.plan(str(written), inplace=False).load <= 450
    assert memplan.read_plan(plan).changes
    assert (tmp_path / "plan.svg").exists()
    assert main(["fit", str(source), "--capacity", "10"]) == 1
    assert "needs" in capsys.readouterr().err
