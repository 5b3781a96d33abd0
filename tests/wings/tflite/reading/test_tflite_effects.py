"""Operators of TFLite with states or chance: none moves before what it depends on, runs again, or runs in pieces."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import memplan

pytest.importorskip("tflite")

from builders.tflite_files import Net, model
from memplan.tflite.reading import effects
from memplan.tflite.reading.effects import Effects, Ties


def graph_of(tmp_path: Path, *nets: Net) -> memplan.Graph:
    path = tmp_path / "m.tflite"
    path.write_bytes(model(*nets))
    return memplan.capture(path).graph


def waits(graph: memplan.Graph) -> dict[str, list[str]]:
    return {op.name: op.after for op in graph.ops if op.after}


def again(graph: memplan.Graph) -> list[str]:
    return [op.name for op in graph.ops if op.recompute]


def streaming(states: int = 2, wide: int = 64) -> tuple[Net, Net]:
    """Each layer reads a state and changes it; all states are read at the beginning, and set by CALL_ONCE."""
    first, net = Net("init"), Net()
    for k in range(states):
        handle = first.handle(f"state{k}")
        first.assign(handle, first.floats(f"zeros{k}", 1, wide))
    net.once(1)
    handles = [net.handle(f"state{k}") for k in range(states)]
    x = net.dense(net.input("x", 1, 4), "wide", 4, wide)
    old = [net.read(handle, f"old{k}", 1, wide) for k, handle in enumerate(handles)]
    for k in range(states):
        x = net.add(x, old[k], f"new{k}", 1, wide)
        net.assign(handles[k], x)
        x = net.op("TANH", [x], f"y{k}", 1, wide)
    net.outputs = [net.dense(x, "z", wide, 4)]
    return net, first


def test_variables_are_read_and_assigned_in_their_order(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, *streaming())
    assert waits(graph) == {
        "READ_VARIABLE_4": ["CALL_ONCE_0"],
        "READ_VARIABLE_5": ["CALL_ONCE_0"],
        "ASSIGN_VARIABLE_7": ["CALL_ONCE_0", "READ_VARIABLE_4"],
        "ASSIGN_VARIABLE_10": ["CALL_ONCE_0", "READ_VARIABLE_5"],
    }
    assert again(graph) == [op.name for op in graph.ops if op.type in ("FULLY_CONNECTED", "ADD", "TANH")]


def test_no_order_takes_a_read_past_what_is_assigned(tmp_path: Path) -> None:
    """The read is of a wide tensor, which is needed late: without ties it would move behind the assignment."""
    net = Net()
    handle, x = net.handle("state"), net.input("x", 1, 4)
    old = net.read(handle, "old", 1, 256)
    net.assign(handle, net.dense(x, "new", 4, 256))
    narrow = net.dense(net.dense(x, "wide", 4, 512), "narrow", 512, 4)
    net.outputs = [net.add(narrow, net.dense(old, "short", 256, 4), "y", 1, 4)]
    path = tmp_path / "m.tflite"
    path.write_bytes(model(net))
    for order in ("best", *memplan.orders()):
        found = memplan.plan(path, order=order if isinstance(order, str) else order.name).order
        assert found.index("READ_VARIABLE_1") < found.index("ASSIGN_VARIABLE_3")
    given, best = (memplan.plan(path, order=order) for order in ("given", "best"))
    assert best.peak <= given.peak


def test_different_states_may_change_places(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, *streaming(3))
    assert memplan.plan(graph, order="best").peak < memplan.plan(graph).peak


def test_fit_reads_no_state_again(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, *streaming())
    least = memplan.fit(graph, "least", allow=["recompute", "order", "split"])
    copied = {op.name.split("~")[0] for op in least.graph.ops if "~" in op.name}
    assert copied <= set(again(graph))
    assert all(not op.loops for op in graph.ops if not op.recompute)


@pytest.mark.parametrize("kind", ["RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL", "MULTINOMIAL"])
def test_random_numbers_are_drawn_one_after_another(kind: str, tmp_path: Path) -> None:
    net = Net()
    shape = net.tensor("shape", 2, dtype="INT32", data=np.array([1, 64], np.int32))
    drawn = [net.op(kind, [shape], f"r{k}", 1, 64, table="RandomOptions") for k in range(3)]
    net.outputs = [net.add(net.add(drawn[2], drawn[0], "a", 1, 64), drawn[1], "b", 1, 64)]
    graph = graph_of(tmp_path, net)
    assert waits(graph) == {f"{kind}_1": [f"{kind}_0"], f"{kind}_2": [f"{kind}_1"]}
    assert again(graph) == ["ADD_3", "ADD_4"]


def test_custom_operators_keep_their_order_among_all_states(tmp_path: Path) -> None:
    net = Net()
    handle, x = net.handle("state"), net.input("x", 1, 8)
    for k in range(2):
        net.op("SignalFramer", [x], f"c{k}", 1, 8, custom=True)
        net.read(handle, f"r{k}", 1, 8)
    net.op("RELU", [x], "y", 1, 8)
    graph = graph_of(tmp_path, net)
    assert waits(graph) == {
        "READ_VARIABLE_2": ["SignalFramer_1"],
        "SignalFramer_3": ["SignalFramer_1", "READ_VARIABLE_2"],
        "READ_VARIABLE_4": ["SignalFramer_3"],
    }
    assert again(graph) == ["RELU_5"]


@pytest.mark.parametrize("kind", sorted(effects._RECURRENT))
def test_variable_tensors_are_states(kind: str, tmp_path: Path) -> None:
    """Two operators change one state, a RESHAPE between them shows it: it neither moves nor lies in its bytes."""
    net = Net()
    x, state = net.input("x", 1, 8), net.tensor("state", 1, 8, variable=True)
    flat = net.tensor("flat/shape", 1, dtype="INT32", data=np.array([8], np.int32))
    net.op(kind, [x, state], "a", 1, 8)
    net.op("RESHAPE", [state, flat], "flat", 8, table="ReshapeOptions")
    net.op(kind, [x, state], "b", 1, 8)
    net.op("ABS", [state], "c", 1, 8)
    graph = graph_of(tmp_path, net)
    first, view, second, last = (op.name for op in graph.ops)
    assert waits(graph) == {view: [first], second: [first, view], last: [second]}
    assert again(graph) == []
    assert not any(op.slices or op.inplace or op.loops for op in graph.ops)


def test_tables_are_states(tmp_path: Path) -> None:
    net = Net()
    keys = net.tensor("keys", 4, dtype="INT64", data=np.arange(4))
    tables = [
        net.op("HASHTABLE", [], f"table{k}", dtype="RESOURCE", options={"TableId": k}, table="HashtableOptions")
        for k in (1, 2)
    ]
    net.op("HASHTABLE_IMPORT", [tables[0], keys, keys])
    net.op("HASHTABLE_IMPORT", [tables[1], keys, keys])
    net.op("HASHTABLE_FIND", [tables[0], keys, keys], "found", 4, dtype="INT64")
    net.op("HASHTABLE_SIZE", [tables[1]], "size", dtype="INT64")
    graph = graph_of(tmp_path, net)
    found = {"HASHTABLE_FIND_4": ["HASHTABLE_IMPORT_2"], "HASHTABLE_SIZE_5": ["HASHTABLE_IMPORT_3"]}
    assert waits(graph) == found
    assert again(graph) == []


def test_a_handle_from_elsewhere_may_be_of_any_state(tmp_path: Path) -> None:
    net = Net()
    given = net.tensor("given", dtype="RESOURCE")
    net.inputs.append(given)
    handle = net.handle("state")
    net.read(handle, "a", 1, 8)
    net.assign(given, net.input("x", 1, 8))
    net.read(handle, "b", 1, 8)
    assert waits(graph_of(tmp_path, net)) == {
        "ASSIGN_VARIABLE_2": ["READ_VARIABLE_1"],
        "READ_VARIABLE_3": ["ASSIGN_VARIABLE_2"],
    }


@pytest.mark.parametrize(("inner", "tied"), [("RANDOM_UNIFORM", True), ("RELU", False)])
def test_what_runs_a_subgraph_does_what_is_done_there(inner: str, tied: bool, tmp_path: Path) -> None:
    net, condition, body = Net(), Net("condition"), Net("body")
    condition.outputs = [condition.op("LESS", [condition.input("x", 1, 8)] * 2, "go", dtype="BOOL")]
    body.outputs = [body.op(inner, [body.input("x", 1, 8)], "y", 1, 8)]
    loop = {"CondSubgraphIndex": 1, "BodySubgraphIndex": 2}
    x = net.input("x", 1, 8)
    for k in range(2):
        net.op("WHILE", [x], f"y{k}", 1, 8, options=loop, table="WhileOptions")
    graph = graph_of(tmp_path, net, condition, body)
    assert waits(graph) == ({"WHILE_1": ["WHILE_0"]} if tied else {})
    assert again(graph) == ([] if tied else ["WHILE_0", "WHILE_1"])


def test_ties_name_what_was_touched_last() -> None:
    ties, a, b = Ties(), frozenset({"a"}), frozenset({"b"})
    rows = [
        ("1", Effects(reads=a), []),
        ("2", Effects(changes=a), ["1"]),
        ("3", Effects(reads=a | b), ["2"]),
        ("4", Effects(reads=a), ["2"]),
        ("5", Effects(), []),
        ("6", Effects(changes=b, reads=a), ["2", "3"]),
        ("7", Effects(changes=a), ["2", "3", "4", "6"]),
        ("8", Effects(anything=True), ["1", "2", "3", "4", "6", "7"]),
        ("9", Effects(reads=b), ["8"]),
        ("10", Effects(changes=b), ["8", "9"]),
        ("11", Effects(anything=True), ["8", "9", "10"]),
    ]
    assert [ties.after(name, of) for name, of, _ in rows] == [expected for *_, expected in rows]
