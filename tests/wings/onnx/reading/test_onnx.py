"""The ONNX importer: one small model for each thing that it promises."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from builders.onnx_models import (
    F32,
    I64,
    TensorProto,
    const,
    graph,
    helper,
    kinds,
    model,
    node,
    numpy_helper,
    onnx,
    sizes,
    stub,
    value,
)
from memplan.errors import MissingDependencyError, SourceError
from memplan.onnx.reading import import_onnx


def chain(shape=("batch", 4)):
    return model([node("Relu", ["x"], ["y"], name="act")], [value("x", shape)], [value("y", shape)])


def test_the_whole_dict():
    assert import_onnx(chain((2, 4))) == {
        "tensors": [
            {"name": "x", "bytes": 32, "kind": "input", "shape": [2, 4], "dtype": "float32"},
            {"name": "y", "bytes": 32, "kind": "intermediate", "shape": [2, 4], "dtype": "float32"},
        ],
        "ops": [
            {
                "name": "act",
                "type": "Relu",
                "inputs": ["x"],
                "outputs": ["y"],
                "workspace": 0,
                "alias": [],
                "inplace": [{"output": "y", "input": "x", "offset": 0}],
                "loops": [
                    {"extent": 2, "reads": {"x": [0, 1, 1, 0]}, "writes": {"y": [0, 1]}},
                    {"extent": 4, "reads": {"x": [1, 1, 1, 0]}, "writes": {"y": [1, 1]}},
                    {"extent": 8, "reads": {"x": [[0, 1], 1, 1, 0]}, "writes": {"y": [[0, 1], 1]}},
                ],
            }
        ],
        "outputs": ["y"],
    }


def test_path_as_string_and_pathlike_and_model_agree(tmp_path):
    path = tmp_path / "m.onnx"
    onnx.save(chain((2, 4)), path)
    assert import_onnx(path) == import_onnx(str(path)) == import_onnx(chain((2, 4)))


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nothing\.onnx"):
        import_onnx(tmp_path / "nothing.onnx")


@pytest.mark.parametrize("content", [b"PK\x03\x04 not a model", b"\xff" * 100, b"", b"hello, world"])
def test_file_that_is_no_model(tmp_path, content):
    path = tmp_path / "bad.onnx"
    path.write_bytes(content)
    with pytest.raises(SourceError, match=r"bad\.onnx.*ONNX"):
        import_onnx(path)


def test_directory(tmp_path):
    with pytest.raises(SourceError, match="not readable as an ONNX ModelProto"):
        import_onnx(tmp_path)


def test_other_source_types():
    with pytest.raises(TypeError, match=r"source must be a path or an onnx\.ModelProto, got int"):
        import_onnx(3)


def test_model_without_a_graph():
    with pytest.raises(SourceError, match="without a graph"):
        import_onnx(onnx.ModelProto())


def test_importing_the_module_does_not_import_onnx():
    code = "import sys, memplan.onnx.reading; assert 'onnx' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_missing_onnx_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingDependencyError, match=r"pip install memplan\[onnx\]"):
        import_onnx("m.onnx")


def test_model_is_not_modified():
    body = graph([node("Constant", [], ["k"], value_float=1.0), node("Add", ["x", "k"], ["b"])], [], [value("b", None)])
    nodes = [
        node("Constant", [], ["c"], value=const("", True, np.bool_)),
        node("If", ["c"], ["y"], then_branch=body, else_branch=body),
    ]
    source = model(nodes, [value("x", ["n"])], [value("y", ["n"])])
    before = source.SerializeToString(deterministic=True)
    import_onnx(source, dims={"n": 3})
    assert source.SerializeToString(deterministic=True) == before


def test_no_nodes():
    result = import_onnx(model([], [value("x", [3])], [value("x", [3])]))
    assert sizes(result) == {"x": 12}
    assert (result["ops"], result["outputs"]) == ([], ["x"])


def test_dims_bind_inputs_and_what_follows():
    result = import_onnx(chain(), dims={"batch": 8})
    assert sizes(result) == {"x": 128, "y": 128}


def test_dims_may_be_numpy_integers_and_zero():
    assert sizes(import_onnx(chain(), dims={"batch": np.int64(0)})) == {"x": 0, "y": 0}


def test_all_missing_symbols_are_listed():
    source = model(
        [node("Add", ["a", "b"], ["y"])], [value("a", ["n", "m"]), value("b", ["k", "m"])], [value("y", None)]
    )
    unbound = (
        "symbolic dimensions without a size: 'm' (dimension 1 of 'a'); 'k' (dimension 0 of 'b'); "
        "pass dims={'m': ..., 'k': ...} (--dims m=N --dims k=N)"
    )
    with pytest.raises(SourceError, match=re.escape(unbound)):
        import_onnx(source, dims={"n": 1})


def test_unknown_symbol_lists_what_the_model_has():
    with pytest.raises(SourceError, match=r"no symbolic dimension of the model: 'bath'; the model has 'batch'"):
        import_onnx(chain(), dims={"bath": 8})
    with pytest.raises(SourceError, match="the model has none"):
        import_onnx(chain((2, 4)), dims={"batch": 8})


def test_dimension_without_name_is_called_by_input_and_axis():
    source = chain((None, -1, 4))
    with pytest.raises(SourceError, match=r"'x\[0\]' \(dimension 0 of 'x'\); 'x\[1\]'"):
        import_onnx(source)
    assert sizes(import_onnx(source, dims={"x[0]": 2, "x[1]": 3}))["y"] == 96


def test_symbols_of_intermediates_can_be_bound():
    source = model(
        [node("NonZero", ["x"], ["n"]), node("Relu", ["f"], ["y"]), node("Cast", ["n"], ["f"], to=F32)],
        [value("x", [4])],
        [value("y", [1, "found"])],
    )
    del source.graph.node[:]
    source.graph.node.extend([node("NonZero", ["x"], ["n"], name="nz"), node("Cast", ["n"], ["y"], to=F32)])
    source.graph.value_info.append(value("n", [1, "found"], I64))
    assert sizes(import_onnx(source, dims={"found": 3})) == {"x": 16, "n": 24, "y": 12}
    with pytest.raises(SourceError, match=r"'n', written by node 'nz'.*\[1, found\].*dims=\{'found'"):
        import_onnx(source)


@pytest.mark.parametrize("bad", [[("batch", 8)], "batch=8", 8])
def test_dims_that_are_no_mapping(bad):
    with pytest.raises(TypeError, match="dims must be a mapping"):
        import_onnx(chain(), dims=bad)


@pytest.mark.parametrize("bad", [True, 8.0, "8", None])
def test_dims_with_values_that_are_no_ints(bad):
    with pytest.raises(TypeError, match=r"dims\['batch'\] must be an int >= 0"):
        import_onnx(chain(), dims={"batch": bad})


@pytest.mark.parametrize("bad", [-1, 2**63])
def test_dims_out_of_range(bad):
    with pytest.raises(SourceError, match=r"dims\['batch'\] must be an int >= 0"):
        import_onnx(chain(), dims={"batch": bad})


def test_input_without_shape():
    with pytest.raises(SourceError, match="input 'x' has no known size: its shape is unknown"):
        import_onnx(chain(None))


def test_fixed_reshape_that_a_binding_breaks():
    source = model(
        [node("Reshape", ["x", "to"], ["y"], name="r")],
        [value("x", ["batch", 4])],
        [value("y", [1, 4])],
        [const("to", [1, 4])],
    )
    assert sizes(import_onnx(source, dims={"batch": 1}))["y"] == 16
    with pytest.raises(SourceError, match=r"node 'r' \(Reshape\)|written by node 'r' \(Reshape\)"):
        import_onnx(source, dims={"batch": 8})


def test_stale_declared_shapes_do_not_count():
    source = model(
        [node("Relu", ["x"], ["h"]), node("Relu", ["h"], ["y"])],
        [value("x", ["batch", 4])],
        [value("y", [1, 4])],
        infos=[value("h", [1, 4])],
    )
    assert sizes(import_onnx(source, dims={"batch": 8})) == {"x": 128, "h": 128, "y": 128}


def test_shape_arithmetic_is_followed():
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "one"], ["seq"]),
        node("Range", ["zero", "seq", "step"], ["positions"]),
        node("Div", ["seq", "two"], ["half"]),
        node("Unsqueeze", ["half", "axes"], ["half1"]),
        node("Concat", ["minus", "half1"], ["target"], axis=0),
        node("Reshape", ["x", "target"], ["y"]),
        node("Expand", ["e", "target2"], ["z"]),
        node("Concat", ["half1", "half1"], ["target2"], axis=0),
    ]
    nodes[-2:] = reversed(nodes[-2:])
    constants = {"one": 1, "zero": 0, "step": 1, "two": 2, "axes": [0], "minus": [-1]}
    weights = [const(name, content) for name, content in constants.items()]
    source = model(nodes, [value("x", ["b", "seq"]), value("e", [1])], [value("y", None), value("z", None)], weights)
    result = import_onnx(source, dims={"b": 3, "seq": 10})
    shapes = {t["name"]: t["shape"] for t in result["tensors"]}
    assert (shapes["positions"], shapes["y"], shapes["z"]) == ([10], [6, 5], [5, 5])
    assert len(result["ops"]) == len(nodes)
    assert kinds(result)["target"] == "intermediate"


def test_external_data_stays_unread(tmp_path):
    source = model(
        [node("MatMul", ["x", "w"], ["y"])],
        [value("x", [2, 64])],
        [value("y", [2, 64])],
        [const("w", np.zeros((64, 64)), np.float32)],
    )
    path = tmp_path / "m.onnx"
    onnx.save(source, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    os.remove(tmp_path / "weights.bin")
    result = import_onnx(path)
    assert sizes(result) == {"x": 512, "w": 64 * 64 * 4, "y": 512}
    assert kinds(result)["w"] == "weight"


def test_weights_beyond_two_gigabytes():
    weights = [stub(f"w{i}", [2**16, 2**16]) for i in range(8)]
    nodes = [node("MatMul", [f"h{i}", f"w{i}"], [f"h{i + 1}"]) for i in range(8)]
    result = import_onnx(model(nodes, [value("h0", [1, 2**16])], [value("h8", None)], weights))
    assert sum(t["bytes"] for t in result["tensors"] if t["kind"] == "weight") == 8 * 2**34


def test_large_payload_is_not_serialised(monkeypatch):
    big = numpy_helper.from_array(np.zeros((1 << 20,), np.float32), "w")
    source = model([node("Add", ["x", "w"], ["y"])], [value("x", [1 << 20])], [value("y", None)], [big])
    seen = []
    infer = onnx.shape_inference.infer_shapes
    monkeypatch.setattr(
        onnx.shape_inference,
        "infer_shapes",
        lambda m, **kw: (seen.append(len(m.SerializeToString())), infer(m, **kw))[1],
    )
    assert sizes(import_onnx(source))["y"] == 4 << 20
    assert max(seen) < 1000


def test_weights_listed_as_inputs_are_weights_and_need_no_dims():
    source = model(
        [node("Add", ["x", "w"], ["y"])],
        [value("x", [4]), value("w", ["anything"])],
        [value("y", None)],
        [const("w", np.ones(4), np.float32)],
        ir=3,
        opset=9,
    )
    assert kinds(import_onnx(source)) == {"x": "input", "w": "weight", "y": "intermediate"}


def test_sparse_initializer_has_its_dense_size():
    sparse = helper.make_sparse_tensor(
        helper.make_tensor("w", F32, [2], [1.0, 2.0]), helper.make_tensor("i", I64, [2], [3, 70]), [10, 8]
    )
    source = model([node("MatMul", ["x", "w"], ["y"])], [value("x", [1, 10])], [value("y", None)], sparse=[sparse])
    result = import_onnx(source)
    assert sizes(result) == {"x": 40, "w": 320, "y": 32}
    assert kinds(result)["w"] == "weight"


SPARSE = helper.make_sparse_tensor(
    helper.make_tensor("v", F32, [1], [1.0]), helper.make_tensor("i", I64, [1], [3]), [5, 5]
)


@pytest.mark.parametrize(
    ("attribute", "content", "expected", "dtype"),
    [
        ("value", const("v", np.zeros((3, 2)), np.float16), 12, "float16"),
        ("value_float", 1.5, 4, "float32"),
        ("value_floats", [1.5, 2.5], 8, "float32"),
        ("value_int", 1, 8, "int64"),
        ("value_ints", [1, 2, 3], 24, "int64"),
        ("value_ints", list(range(3000)), 24000, "int64"),
        ("sparse_value", SPARSE, 100, "float32"),
    ],
)
def test_constants_are_weights(attribute, content, expected, dtype):
    nodes = [node("Constant", [], ["c"], **{attribute: content}), node("Identity", ["c"], ["y"])]
    result = import_onnx(model(nodes, [], [value("y", None)]))
    assert [op["type"] for op in result["ops"]] == ["Identity"]
    assert sizes(result) == {"c": expected, "y": expected}
    assert kinds(result)["c"] == "weight"
    assert result["tensors"][0]["dtype"] == dtype


@pytest.mark.parametrize(("attribute", "content"), [("value_string", "a"), ("value_strings", ["a", "b"])])
def test_constants_of_strings_are_refused(attribute, content):
    nodes = [node("Constant", [], ["c"], **{attribute: content}), node("Relu", ["x"], ["y"])]
    with pytest.raises(SourceError, match="constant 'c' holds strings"):
        import_onnx(model(nodes, [value("x", [1])], [value("y", None)]))


def test_outputs_may_be_inputs_weights_and_constants():
    source = model(
        [node("Constant", [], ["c"], value_int=1)],
        [value("x", [2])],
        [value("x", [2]), value("w", None), value("c", [])],
        [const("w", [1.0], np.float32)],
    )
    result = import_onnx(source)
    assert result["outputs"] == ["x", "w", "c"]
    assert kinds(result) == {"x": "input", "w": "weight", "c": "weight"}


def test_node_names_become_unique():
    nodes = [
        node("Relu", ["x"], ["a"]),
        node("Relu", ["a"], ["b"], name="same"),
        node("Relu", ["b"], ["c"], name="same"),
        node("Relu", ["c"], ["d"], name="Relu_0"),
    ]
    result = import_onnx(model(nodes, [value("x", [1])], [value("d", None)]))
    assert [op["name"] for op in result["ops"]] == ["Relu_0_1", "same", "Relu_2", "Relu_0"]


def test_views_are_aliases():
    nodes = [
        node("Relu", ["x"], ["t"]),
        node("Identity", ["t"], ["a"]),
        node("Reshape", ["a", "to"], ["b"]),
        node("Unsqueeze", ["b", "axis"], ["c"]),
        node("Squeeze", ["c", "axis"], ["d"]),
        node("Flatten", ["d"], ["e"]),
        node("Transpose", ["e"], ["y"]),
    ]
    weights = [const("to", [3, 2]), const("axis", [0])]
    result = import_onnx(model(nodes, [value("x", [2, 3])], [value("y", None)], weights))
    aliases = [(a["output"], a["input"], a["offset"]) for op in result["ops"] for a in op["alias"]]
    assert aliases == [("a", "t", 0), ("b", "a", 0), ("c", "b", 0), ("d", "c", 0), ("e", "d", 0)]


def test_an_operator_of_another_domain_is_no_alias():
    nodes = [node("Reshape", ["x"], ["y"], domain="mine", name="r")]
    result = import_onnx(model(nodes, [value("x", [2])], [value("y", [2])], domains=["mine"]))
    assert result["ops"][0] == {
        "name": "r", "type": "mine.Reshape", "inputs": ["x"], "outputs": ["y"], "workspace": 0, "alias": [],
        "after": [], "recompute": False
    }  # fmt: skip


def test_the_default_domain_has_two_names():
    nodes = [node("Identity", ["x"], ["y"], domain="ai.onnx", name="i")]
    result = import_onnx(model(nodes, [value("x", [2])], [value("y", None)]))
    assert result["ops"][0]["type"] == "Identity"
    assert result["ops"][0]["alias"]


def test_empty_inputs_and_outputs_are_skipped_and_repeated_inputs_merged():
    nodes = [
        node("Clip", ["x", "", "top"], ["a"]),
        node("Dropout", ["a"], ["b", ""]),
        node("Mul", ["b", "b"], ["y"]),
    ]
    weights = [const("top", 6.0, np.float32)]
    result = import_onnx(model(nodes, [value("x", [4])], [value("y", None)], weights))
    assert [(op["inputs"], op["outputs"]) for op in result["ops"]] == [
        (["x", "top"], ["a"]), (["a"], ["b"]), (["b"], ["y"])
    ]  # fmt: skip


def test_mask_of_an_old_dropout_has_the_size_of_its_data():
    nodes = [node("Dropout", ["x"], ["y", "mask"])]
    assert sizes(import_onnx(model(nodes, [value("x", [6])], [value("y", None)], opset=9, ir=4)))["mask"] == 24


def test_functions_are_inlined():
    body = [node("Relu", ["a"], ["b"]), node("Mul", ["b", "b"], ["c"])]
    opsets = [helper.make_opsetid("", 21)]
    function = helper.make_function("mine", "Act", ["a"], ["c"], body, opsets)
    nodes = [node("Act", ["x"], ["h"], domain="mine"), node("Act", ["h"], ["y"], domain="mine")]
    source = model(nodes, [value("x", ["n"])], [value("y", None)], functions=[function], domains=["mine"])
    result = import_onnx(source, dims={"n": 5})
    assert [op["type"] for op in result["ops"]] == ["Relu", "Mul", "Relu", "Mul"]
    assert all(size == 20 for size in sizes(result).values())


def test_custom_operators_use_declared_shapes():
    nodes = [node("Magic", ["x"], ["m"], domain="mine", name="magic"), node("Relu", ["m"], ["y"])]
    args = nodes, [value("x", ["n", 2])], [value("y", None)]
    source = model(*args, infos=[value("m", ["n", 7])], domains=["mine"])
    assert sizes(import_onnx(source, dims={"n": 3})) == {"x": 24, "m": 84, "y": 84}
    with pytest.raises(SourceError, match=r"tensor 'm', written by node 'magic' \(Magic\), has no known size"):
        import_onnx(model(*args, domains=["mine"]), dims={"n": 3})


def test_unknown_size_names_tensor_node_and_remedy():
    outputs = [value("y", None, I64)]
    source = model([node("NonZero", ["x"], ["y"], name="nz")], [value("x", [4, 5])], outputs)
    pattern = r"tensor 'y', written by node 'nz' \(NonZero\), has no known size.*\[2, \?\].*value_info"
    with pytest.raises(SourceError, match=pattern):
        import_onnx(source)


def test_inference_says_why():
    source = model([node("MatMul", ["a", "b"], ["y"])], [value("a", [2, 3]), value("b", [4, 5])], [value("y", None)])
    with pytest.raises(SourceError, match=r"'y'.*onnx's shape inference says: .*Incompatible dimensions"):
        import_onnx(source)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (helper.make_tensor_type_proto(TensorProto.STRING, [2]), "input 'x' holds strings"),
        (helper.make_sequence_type_proto(helper.make_tensor_type_proto(F32, [2])), "'x' is of sequence type"),
        (helper.make_optional_type_proto(helper.make_tensor_type_proto(F32, [2])), "'x' is of optional type"),
        (helper.make_map_type_proto(I64, helper.make_tensor_type_proto(F32, [2])), "'x' is of map type"),
        (helper.make_sparse_tensor_type_proto(F32, [2]), "'x' is of sparse_tensor type"),
    ],
)
def test_types_without_a_fixed_size_are_refused(kind, expected):
    source = model([], [helper.make_value_info("x", kind)], [helper.make_value_info("x", kind)])
    with pytest.raises(SourceError, match=expected):
        import_onnx(source)


def test_sequences_between_nodes_are_refused():
    nodes = [node("SequenceConstruct", ["x"], ["s"]), node("SequenceLength", ["s"], ["y"])]
    with pytest.raises(SourceError, match=r"'s', written by node 'SequenceConstruct_0'.*sequence type"):
        import_onnx(model(nodes, [value("x", [1])], [value("y", None)]))


def test_size_beyond_int64():
    with pytest.raises(SourceError, match=r"input 'x' has no valid size: shape .* has more elements than int64 holds"):
        import_onnx(chain((2**32, 2**32)))


def test_empty_tensors_and_scalars():
    source = model([node("Relu", ["x"], ["y"]), node("Relu", ["z"], ["u"])], [value("x", [0, 4]), value("z", [])], [])
    assert sizes(import_onnx(source)) == {"x": 0, "z": 4, "y": 0, "u": 4}


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [("INT4", 8), ("UINT4", 8), ("FLOAT4E2M1", 8), ("FLOAT8E4M3FN", 15), ("BFLOAT16", 30), ("BOOL", 15)],
)
def test_narrow_dtypes_are_packed(dtype, expected):
    number = getattr(TensorProto, dtype, None)
    if number is None:
        pytest.skip(f"onnx {onnx.__version__} has no {dtype}")
    source = model([], [value("x", [3, 5], number)], [value("x", [3, 5], number)], opset=23, ir=11)
    result = import_onnx(source)
    assert sizes(result) == {"x": expected}
    assert result["tensors"][0]["dtype"] == dtype.lower()


def test_reading_what_nothing_provides():
    with pytest.raises(SourceError, match=r"node 'r' \(Relu\) reads 'h'"):
        import_onnx(model([node("Relu", ["h"], ["y"], name="r")], [], [value("y", None)]))


def test_output_that_nothing_writes():
    with pytest.raises(SourceError, match="output 'z' is no input or initializer"):
        import_onnx(model([node("Relu", ["x"], ["y"])], [value("x", [1])], [value("z", [1])]))


def test_tensor_written_twice():
    nodes = [node("Relu", ["x"], ["y"]), node("Abs", ["x"], ["y"], name="second")]
    with pytest.raises(SourceError, match=r"'y', written by node 'second' \(Abs\), is defined a second time"):
        import_onnx(model(nodes, [value("x", [1])], [value("y", None)]))


@pytest.mark.parametrize(
    ("bad", "expected"),
    [
        (node("Cast", ["x"], ["y"], name="n"), "lacks the attribute 'to'"),
        (
            node("Cast", ["x"], ["y"], to="float", name="n"),
            "attribute 'to' of node 'n' .* must be INT, got STRING",
        ),
        (node("Add", ["x"], ["y"], name="n"), "has 1 inputs; its operator expects 2"),
        (node("Add", ["x", ""], ["y"], name="n"), "leaves input 1 empty"),
        (node("Relu", ["x"], ["y", "z"], name="n"), "has 2 outputs; its operator expects 1"),
    ],
)
def test_nodes_that_do_not_fit_their_operator(bad, expected):
    with pytest.raises(SourceError, match=expected):
        import_onnx(model([bad], [value("x", [1])], [value("y", None)]))


def test_long_vectors_cost_no_memory():
    nodes = [node("Cast", ["x"], ["h"], to=I64), node("Add", ["h", "h"], ["z"]), node("Gather", ["z", "i"], ["y"])]
    source = model(nodes, [value("x", [2**50])], [value("y", None)], [const("i", [0, 1])])
    assert sizes(import_onnx(source))["y"] == 16


# Files that somebody has made up


@pytest.mark.parametrize(
    ("text", "field"),
    [
        (b"hidden_1", r"model\.graph\.node\[0\]\.output\[0\]"),
        (b"first_op", r"model\.graph\.node\[0\]\.name"),
        (b"my_graph", r"model\.graph\.name"),
        (b"the_input", r"model\.graph\.node\[0\]\.input\[0\]"),
        (b"my_weight", r"model\.graph\.initializer\[0\]\.name"),
        (b"batch_dim", r"model\.graph\.input\[0\]\.type\.tensor_type\.shape\.dim\[0\]\.dim_param"),
    ],
)
@pytest.mark.parametrize("in_memory", [False, True])
def test_names_that_are_no_text(text: bytes, field: str, in_memory: bool, tmp_path: Path) -> None:
    nodes = [
        onnx.helper.make_node("Relu", ["the_input"], ["hidden_1"], name="first_op"),
        onnx.helper.make_node("Relu", ["hidden_1"], ["y"]),
    ]
    ends = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["batch_dim"]) for name in ("the_input", "y")
    ]
    weight = onnx.helper.make_tensor("my_weight", onnx.TensorProto.FLOAT, [1], [1.0])
    graph = onnx.helper.make_graph(nodes, "my_graph", ends[:1], ends[1:], [weight])
    data = onnx.helper.make_model(graph).SerializeToString().replace(text, b"\xff\xfe" + text[2:])
    path = tmp_path / "model.onnx"
    path.write_bytes(data)
    source = onnx.load_from_string(data) if in_memory else path
    what = "the ModelProto" if in_memory else r"model\.onnx'"
    with pytest.raises(SourceError, match=rf"{what}: {field}, b'.xff.xfe\w+', must be UTF-8 text"):
        import_onnx(source, dims={"batch_dim": 2})


def doubling(levels: int) -> onnx.ModelProto:
    """A call of the last of some functions, each of which calls the one before it twice."""
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("f", 1)]
    functions = []
    for i in range(levels):
        called, domain = (f"f{i - 1}", "f") if i else ("Relu", "")
        nodes = [onnx.helper.make_node(called, ends[:1], ends[1:], domain=domain) for ends in (["a", "b"], ["b", "c"])]
        functions.append(onnx.helper.make_function("f", f"f{i}", ["a"], ["c"], nodes, opsets))
    ends = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2]) for name in "xy"]
    call = onnx.helper.make_node(f"f{levels - 1}", ["x"], ["y"], domain="f")
    graph = onnx.helper.make_graph([call], "doubling", ends[:1], ends[1:])
    return onnx.helper.make_model(graph, opset_imports=opsets, functions=functions)


def test_functions_that_double() -> None:
    assert len(import_onnx(doubling(6))["ops"]) == 64
    for levels, count in ((17, "131072"), (40, "1099511627776"), (80, r"more than 10\*\*15")):
        begin = time.monotonic()
        with pytest.raises(SourceError, match=f"has {count} nodes once .* more than the 100000 that are taken"):
            import_onnx(doubling(levels))
        assert time.monotonic() - begin < 1


def test_a_function_that_calls_itself() -> None:
    model = doubling(2)
    model.functions[0].node[0].op_type, model.functions[0].node[0].domain = "f1", "f"
    with pytest.raises(SourceError, match="function 'f1' of domain 'f' calls itself"):
        import_onnx(model)
