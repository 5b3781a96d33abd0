"""Plans in files of TFLite: operators in another order, several subgraphs; TFLite Micro computes the same in less."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import memplan
from builders.commands import run

pytest.importorskip("tflite")

import tflite

from builders.tflite_files import Net, model
from builders.tflite_states import drawn, traced
from memplan.tflite.reading import control

OPTIONS: dict[str, Any] = {"place": ("input", "intermediate", "output"), "alignment": 16}
WIDE = 128


def streaming() -> tuple[Net, Net]:
    """Three layers with states, as converters write them: all are read before the first layer, and set by CALL_ONCE."""
    first, net = Net("init"), Net()
    for k in range(3):
        handle = first.handle(f"state{k}")
        first.assign(handle, first.floats(f"zeros{k}", 1, WIDE))
    net.once(1)
    handles = [net.handle(f"state{k}") for k in range(3)]
    x = net.input("x", 1, 4)
    old = [net.read(handle, f"old{k}", 1, WIDE) for k, handle in enumerate(handles)]
    for k in range(3):
        x = net.add(net.dense(x, f"wide{k}", 4, WIDE), old[k], f"new{k}", 1, WIDE)
        net.assign(handles[k], net.op("TANH", [x], f"next{k}", 1, WIDE))
        x = net.dense(x, f"narrow{k}", WIDE, 4)
    net.outputs = [x]
    return net, first


def branches() -> Net:
    """Two wide tensors at once in the order of the file; one by one in a better one."""
    net = Net()
    x = net.input("x", 1, 4)
    wide = [net.dense(x, f"wide{k}", 4, WIDE) for k in range(3)]
    a, b, c = (net.dense(t, f"narrow{k}", WIDE, 4) for k, t in enumerate(wide))
    net.outputs = [net.add(net.add(a, b, "s", 1, 4), c, "y", 1, 4)]
    return net


def written(tmp_path: Path, data: bytes, **options: Any) -> tuple[Any, bytes]:
    """The plan in the best order, and the file with it."""
    given, target = tmp_path / "given.tflite", tmp_path / "planned.tflite"
    given.write_bytes(data)
    signature = options.pop("signature", None)
    plan = memplan.plan(given, order="best", signature=signature, **OPTIONS, **options)
    plan.to_tflite(target, given, signature=signature)
    return plan, target.read_bytes()


def operators(data: bytes, subgraph: int = 0) -> list[tuple[str, list[int], list[int]]]:
    found = tflite.Model.GetRootAsModel(data, 0)
    graph = found.Subgraphs(subgraph)
    rows = []
    for operator in map(graph.Operators, range(graph.OperatorsLength())):
        kind = tflite.BUILTIN_OPCODE2NAME[found.OperatorCodes(operator.OpcodeIndex()).BuiltinCode()]
        inputs, outputs = (
            [getattr(operator, what)(k) for k in range(getattr(operator, f"{what}Length")())]
            for what in ("Inputs", "Outputs")
        )
        rows.append((kind, inputs, outputs))
    return rows


def metadata(data: bytes) -> dict[bytes, bytes]:
    found = tflite.Model.GetRootAsModel(data, 0)
    entries = [found.Metadata(k) for k in range(found.MetadataLength())]
    return {e.Name(): found.Buffers(e.Buffer()).DataAsNumpy().tobytes() for e in entries}


def offsets(data: bytes) -> list[int]:
    return np.frombuffer(metadata(data)[b"OfflineMemoryAllocation"], "<i4").tolist()


@pytest.mark.parametrize("nets", [(branches(),), streaming()], ids=["branches", "streaming"])
def test_operators_are_in_the_order_of_the_plan(nets: tuple[Net, ...], tmp_path: Path) -> None:
    data = model(*nets, signatures={"serving_default": 0})
    plan, planned = written(tmp_path, data)
    given = operators(data)
    assert operators(planned) == [given[int(name.rsplit("_", 1)[1])] for name in plan.order] != given
    assert [operators(planned, k) for k in range(1, len(nets))] == [operators(data, k) for k in range(1, len(nets))]
    counts = [len(net.tensors) for net in nets]
    assert offsets(planned)[:3] == [1, 0, sum(counts)]
    assert offsets(planned)[3 + counts[0] :] == [-1] * sum(counts[1:])
    again = memplan.plan(tmp_path / "planned.tflite", **OPTIONS)
    assert again.peak == plan.peak < memplan.plan(tmp_path / "given.tflite", **OPTIONS).peak
    root = tflite.Model.GetRootAsModel(planned, 0)
    assert (root.Version(), root.SignatureDefs(0).SignatureKey()) == (3, b"serving_default")


def test_a_plan_whose_order_cannot_run(tmp_path: Path) -> None:
    """A graph that was written anew, without what ties the operators: it assigns a state before it reads it."""
    net = Net()
    handle, x = net.handle("state"), net.input("x", 1, 8)
    net.outputs = [net.read(handle, "y", 1, 8)]
    net.assign(handle, x)
    given = tmp_path / "m.tflite"
    given.write_bytes(model(net))
    graph = memplan.capture(given).graph.to_dict()
    for op in graph["ops"]:
        op.pop("after", None)
    graph["ops"][1:] = reversed(graph["ops"][1:])
    plan = memplan.plan(graph, **OPTIONS)
    assert plan.order == ("VAR_HANDLE_0", "ASSIGN_VARIABLE_2", "READ_VARIABLE_1")
    with pytest.raises(ValueError, match=r"in an order in which they cannot run: .*ASSIGN_VARIABLE_2"):
        plan.to_tflite(tmp_path / "n.tflite", given)
    assert list(tmp_path.iterdir()) == [given]


def test_the_tensors_of_a_signature_lie_where_they_are_counted(tmp_path: Path) -> None:
    nets = Net("main"), branches()
    nets[0].outputs = [nets[0].op("ABS", [nets[0].input("x", 1, 4)], "y", 1, 4)]
    data = model(*nets, signatures={"first": 0, "second": 1})
    plan, planned = written(tmp_path, data, signature="second")
    found = offsets(planned)[3:]
    assert found[:2] == [-1, -1]
    assert found[2 + nets[1].inputs[0]] == plan["x"].offset
    assert (operators(planned, 0), operators(planned, 1) == operators(data, 1)) == (operators(data, 0), False)
    place = ["--place", "input,intermediate,output", "--alignment", "16", "--order", "best"]
    source, target = tmp_path / "given.tflite", tmp_path / "c.tflite"
    assert run("plan", source, *place, "--signature", "second", "--tflite", target) == 0
    assert target.read_bytes() == planned


def test_control_dependencies_follow_the_operators(tmp_path: Path) -> None:
    """Pairs of the file bind the order; they are written with the new places, and no other entry changes."""
    net = branches()
    free = model(net)
    edges = [(0, 2), (5, 6)], [(0, 0)]
    rest = {"min_runtime_version": b"1.5.0"}
    data = model(net, metadata={"model_control_dependencies": control.written(edges), **rest})
    (tmp_path / "m.tflite").write_bytes(data)
    after = {op.name: op.after for op in memplan.capture(tmp_path / "m.tflite").graph.ops if op.after}
    assert after == {"FULLY_CONNECTED_2": ["FULLY_CONNECTED_0"], "ADD_6": ["FULLY_CONNECTED_5"]}
    plan, planned = written(tmp_path, data)
    place = {int(name.rsplit("_", 1)[1]): step for step, name in enumerate(plan.order)}
    found = metadata(planned)
    assert control.read(found[b"model_control_dependencies"]) == [
        [(place[0], place[2]), (place[5], place[6])],
        [(0, 0)],
    ]
    assert found[b"min_runtime_version"] == b"1.5.0"
    assert set(found) == {b"model_control_dependencies", b"min_runtime_version", b"OfflineMemoryAllocation"}
    assert b"model_control_dependencies" not in metadata(written(tmp_path, free)[1])


@pytest.mark.parametrize("edges", [[], [[]], [[(0, 1), (127, 128)], [], [(-1, 300), (2**31 - 1, -(2**31))]]])
def test_control_dependencies_are_read_as_they_are_written(edges: list[list[tuple[int, int]]]) -> None:
    assert control.read(control.written(edges)) == edges
    assert control.read(b"\2") == []
    with pytest.raises(IndexError, match="ends too early"):
        control.read(control.written([[(0, 300)]])[:-1])


def test_what_a_newer_schema_has_is_not_dropped(tmp_path: Path) -> None:
    data = bytearray(model(branches()))
    (root,) = struct.unpack_from("<I", data, 0)
    table = root - struct.unpack_from("<i", data, root)[0]
    there = data[table : table + struct.unpack_from("<H", data, table)[0]]
    fields = there + bytes(4 + 2 * 8 - len(there)) + struct.pack("<H", 4)
    struct.pack_into("<H", fields, 0, len(fields))
    grown = data + fields  # another table of fields behind the file, with a ninth
    struct.pack_into("<i", grown, root, root - len(data))
    given = tmp_path / "m.tflite"
    given.write_bytes(grown)
    with pytest.raises(memplan.errors.SourceError, match="has fields of a newer schema, which would be lost"):
        memplan.plan(given, **OPTIONS).to_tflite(tmp_path / "n.tflite", given)


def test_random_models_with_states_do_the_same_in_every_order(tmp_path: Path) -> None:
    """Random numbers, variables, variable tensors and custom operators, in branches too."""
    orders = [order.name for order in memplan.orders() if order.name != "given"]
    given, target = tmp_path / "given.tflite", tmp_path / "planned.tflite"
    moved = 0
    for seed in range(12):
        data = drawn(seed)
        given.write_bytes(data)
        for order in ("best", orders[seed % len(orders)]):
            plan = memplan.plan(given, order=order, **OPTIONS)
            plan.to_tflite(target, given)
            assert traced(target.read_bytes()) == traced(data), (seed, order)
            moved += operators(target.read_bytes()) != operators(data)
    assert moved >= 12


# Run


def outputs(data: bytes, arena: int, inputs: Sequence[Any]) -> list[Any] | None:
    """What TFLite Micro computes call after call in so many bytes; None where they are too few."""
    from tflite_micro import runtime

    try:
        interpreter = runtime.Interpreter.from_bytes(data, arena_size=arena)
        found = []
        for x in inputs:
            interpreter.set_input(x, 0)
            interpreter.invoke()
            found.append(interpreter.get_output(0).copy())
    except RuntimeError:
        return None
    return found


@pytest.mark.parametrize("nets", [(branches(),), streaming()], ids=["branches", "streaming"])
def test_tflite_micro_computes_the_same_in_another_order(nets: tuple[Net, ...], tmp_path: Path) -> None:
    pytest.importorskip("tflite_micro")
    data = model(*nets)
    plan, planned = written(tmp_path, data)
    chance = np.random.default_rng(0)
    inputs = [chance.standard_normal((1, 4)).astype(np.float32) for _ in range(4)]
    expected, got = outputs(data, 1 << 16, inputs), outputs(planned, 1 << 16, inputs)
    assert expected is not None
    assert got is not None
    assert all(np.array_equal(one, other) for one, other in zip(expected, got, strict=True))
    assert not np.array_equal(expected[0], expected[1])
    assert plan.peak < memplan.plan(tmp_path / "given.tflite", **OPTIONS).peak
    if len(nets) == 1:  # where an arena is too small for resource variables, TFLite Micro ends the process
        sizes = range(2048, 1 << 14, 64)
        least = [next(n for n in sizes if outputs(file, n, inputs[:1]) is not None) for file in (data, planned)]
        assert least[0] - least[1] >= 512  # one wide tensor
