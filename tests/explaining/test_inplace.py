"""Why an output does not lie in the bytes of an input: the rules that explanations state are those of the core."""

from __future__ import annotations

from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

import memplan
from builders import graphs
from builders.strategies import BOUNDED, relation_graphs
from memplan import _core
from memplan.plans.dataflow import Dataflow
from memplan.plans.inplace import rules_of

Relation = dict[str, Any]


def with_one_choice(graph: dict[str, Any], step: int, relation: Relation) -> _core.Graph:
    """The graph in which nothing may share bytes by choice but this output with this input."""
    ops = [{**op, "inplace": [], "slice": [], "concat": []} for op in graph["ops"]]
    ops[step]["inplace"] = [relation]
    graph_or_problem = memplan.capture({**graph, "ops": ops}).graph
    assert isinstance(graph_or_problem, _core.Graph)
    return graph_or_problem


@given(relation_graphs(), st.data())
@BOUNDED
def test_an_output_takes_an_input_where_no_rule_forbids_it(graph: dict[str, Any], data: st.DataObject) -> None:
    """Where nothing is placed, no load can rise, so that the core shares whatever is safe."""
    try:
        memplan.plan(graph, "naive")
    except memplan.errors.GraphError:  # overwrites that race with a stream
        assume(False)
    inputs = [tensor["name"] for tensor in graph["tensors"] if tensor["kind"] == "input"]
    donate = data.draw(st.lists(st.sampled_from(inputs), unique=True)) if inputs else []
    for step, op in enumerate(graph["ops"]):
        for relation in op.get("inplace", []):
            captured = with_one_choice(graph, step, relation)
            output, source = captured.index(relation["output"]), captured.index(relation["input"])
            assert output is not None
            assert source is not None
            if captured.tensor(output).bytes == 0:
                continue
            shared = _core.buffers_of(captured, _core.StorageOptions(["workspace"], donate=donate)).shared
            apart = memplan.plan(captured, "naive", inplace=False, zero_copy=False, donate=donate)
            *rules, load = rules_of(Dataflow(apart), step, output, source)
            assert load == "harmful"
            assert bool(shared) == (set(rules) <= {"disabled"})


def test_what_another_stream_may_still_read_is_said() -> None:
    graph = graphs.graph(
        "a 4, b 1, c 4",
        graphs.op("make", "", "a"),
        graphs.op("look", "a", "b", stream=1),
        graphs.op("write", "a", "c", inplace=["c a"]),
        outputs="b c",
    )
    (blocked,) = (b for b in memplan.plan(graph).explain().blocked if b.output == "c")
    assert (blocked.rule, blocked.reason) == ("read later", "a may still be read by look")


def test_who_reads_the_same_bytes_by_another_name_is_said() -> None:
    graph = graphs.graph(
        [{"name": name, "bytes": 4} for name in "avy"],
        graphs.op("make", "", "a"),
        graphs.op("look", "a", "v", alias=["v a"]),
        graphs.op("add", "a v", "y", inplace=["y a"]),
        outputs="y",
    )
    plan = memplan.plan(graph)
    (blocked,) = plan.explain().blocked
    assert (blocked.rule, blocked.reason) == ("not listed", "the op is not said to write over v")
    permitted = [{"output": "y", "input": name} for name in "av"]
    both = {**graph, "ops": [*graph["ops"][:2], {**graph["ops"][2], "inplace": permitted}]}
    for source, rules in ((graph, ["harmful", "disabled"]), (both, ["disabled"])):
        *found, load = rules_of(Dataflow(memplan.plan(source, inplace=False)), 2, 2, 0)
        assert (found, load) == (rules, "harmful")
