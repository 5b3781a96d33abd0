"""Loops of ONNX, and the options of sessions that keep nodes as they are."""

from __future__ import annotations

import numpy as np

from builders.onnx_models import BOOL, I64, const, graph, model, node, value


def session_options(ort):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return options


def body_of(nodes, outputs):
    inputs = [value("i", [], I64), value("go", [], BOOL), value("h", [2, 3])]
    return graph(nodes, inputs, [value("on", [], BOOL), *(value(name, None) for name in outputs)])


def loop(condition="", until=None):
    """A loop that collects, reads outer values, and may end before its time."""
    limit = [node("Less", ["i", "until"], ["on"])] if until is not None else [node("Identity", ["go"], ["on"])]
    body = body_of(
        [
            *limit,
            node("MatMul", ["h", "w"], ["m"]),
            node("If", ["go"], ["n"], then_branch=branch("Tanh", "t"), else_branch=branch("Neg", "e")),
            node("Cast", ["i"], ["number"], to=1),
        ],
        ["n", "m", "number"],
    )
    nodes = [
        node("Relu", ["x"], ["first"]),
        node("Loop", ["trips", condition, "first"], ["last", "all", "numbers"], body=body, name="loop"),
        node("Neg", ["all"], ["y"]),
        node("Exp", ["numbers"], ["z"]),
        node("Add", ["last", "first"], ["u"]),
    ]
    weights = [
        const("trips", 4),
        const("w", np.arange(9).reshape(3, 3) / 9, np.float32),
        const("yes", True, np.bool_),
        *([] if until is None else [const("until", until)]),
    ]
    return model(nodes, [value("x", [2, 3])], [value(name, None) for name in "yzu"], weights)


def branch(op_type, name):
    return graph([node(op_type, ["m"], [name])], [], [value(name, None)])
