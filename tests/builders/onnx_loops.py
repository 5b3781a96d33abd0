"""Loops of nodes of ONNX, and sessions that run them."""

from __future__ import annotations

from memplan.onnx.reading import import_onnx


def loops_of(drawn):
    return import_onnx(drawn.model())["ops"][0].get("loops", [])


def session_of(model):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
