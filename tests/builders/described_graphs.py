"""A graph whose buffers say what they are."""

from __future__ import annotations

import memplan

GRAPH = memplan.Graph(
    [
        memplan.Tensor("x", 64, "input", [4, 4], "float32"),
        memplan.Tensor("a", 64, shape=[4, 4], dtype="float32"),
        memplan.Tensor("view", 32, shape=[8], dtype="float32"),
        memplan.Tensor("b", 64),
        memplan.Tensor("unread", 16),
    ],
    [
        memplan.Op("conv_1", "Conv", ["x"], ["a"], workspace=128),
        memplan.Op("cut", "View", ["a"], ["view"], aliases=[("view", "a", 32)]),
        memplan.Op("add", "Add", ["view", "x"], ["b"]),
        memplan.Op("log", "", ["b"], ["unread"]),
    ],
    ["b"],
)
