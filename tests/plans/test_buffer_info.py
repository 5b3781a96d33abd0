"""What a graph says of the buffers of its plan."""

from __future__ import annotations

import pytest

import memplan
from builders import graphs
from builders.described_graphs import GRAPH
from memplan.plans.buffer_info import BufferInfo, buffer_infos, module_path


def by_name(plan: memplan.Plan) -> dict[str, BufferInfo]:
    return {slot.name: info for slot, info in zip(plan, buffer_infos(plan), strict=True)}


def test_kinds_shapes_and_the_ops_that_write_and_read_a_buffer() -> None:
    plan = memplan.plan(GRAPH, place=("input", "intermediate", "output", "workspace"))
    infos = by_name(plan)
    rows = {
        name: (
            info.kind,
            info.dtype,
            info.shape,
            info.writer and info.writer.name,
            info.op_type,
            info.reader and info.reader.name,
            info.returned,
        )
        for name, info in infos.items()
    }
    assert rows == {
        "x": ("input", "float32", (4, 4), None, "input", "add", False),
        "a": ("intermediate", "float32", (4, 4), "conv_1", "Conv", "add", False),
        "b": ("output", "", None, "add", "Add", "log", True),
        "unread": ("intermediate", "", None, "log", "", None, False),
        "conv_1.workspace": ("workspace", "", None, "conv_1", "Conv", "conv_1", False),
    }
    assert infos["a"].tensors == ("a", "view")
    assert infos["a"].tenants == (plan["view"],)
    assert infos["a"].tenants[0].offset == plan["a"].offset + 32


def test_a_concatenation_is_written_first_by_the_op_of_its_first_part() -> None:
    graph = graphs.graph(
        [{"name": name, "bytes": size} for name, size in (("a", 4), ("b", 4), ("y", 8))],
        graphs.op("first", "", "a", type="A"),
        graphs.op("second", "", "b", type="B"),
        graphs.op("cat", "a b", "y", type="Concat", concat=["y a", "y b 4"]),
        outputs="y",
    )
    (info,) = buffer_infos(memplan.plan(graph))
    assert (info.op_type, info.kind, info.returned, info.tensors) == ("A", "output", True, ("a", "b", "y"))


def test_nothing_is_known_of_the_buffers_of_a_problem() -> None:
    assert buffer_infos(memplan.plan(([8, 4, 0], [0, 1, 0], [2, 3, 3]))) == [BufferInfo()] * 3


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("layer1.0.conv1.convolution", ("layer1", "0", "conv1")),
        ("backward.layer1.0.conv1.add", ("layer1", "0", "conv1")),
        ("backward", ()),
        ("relu", ()),
        ("/layer1/layer1.0/conv1/Conv", ("layer1", "layer1.0", "conv1")),
        ("", ()),
    ],
)
def test_module_paths(name: str, path: tuple[str, ...]) -> None:
    assert module_path(name) == path
