"""Short ways to write ONNX models, and to read what the importer makes of them."""

from __future__ import annotations

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
helper, numpy_helper, TensorProto = onnx.helper, onnx.numpy_helper, onnx.TensorProto
F32, I64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def value(name, shape, dtype=F32):
    return helper.make_tensor_value_info(name, dtype, shape)


def node(op_type, inputs, outputs, **attributes):
    return helper.make_node(op_type, inputs, outputs, **attributes)


def const(name, array, dtype=np.int64):
    return numpy_helper.from_array(np.asarray(array, dtype), name)


def graph(nodes, inputs, outputs, weights=(), infos=(), sparse=()):
    return helper.make_graph(nodes, "g", inputs, outputs, weights, value_info=infos, sparse_initializer=sparse)


def model(*args, functions=(), domains=(), opset=21, ir=10, **kwargs):
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in domains)]
    return helper.make_model(graph(*args, **kwargs), opset_imports=opsets, functions=functions, ir_version=ir)


def stub(name, dims, dtype=F32, location="elsewhere.bin"):
    """An initializer whose payload is in a file that does not exist."""
    tensor = TensorProto(name=name, dims=dims, data_type=dtype, data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=location)
    return tensor


def sizes(result):
    return {t["name"]: t["bytes"] for t in result["tensors"]}


def kinds(result):
    return {t["name"]: t["kind"] for t in result["tensors"]}


def ops(result):
    return {op["name"]: op for op in result["ops"]}
