"""Convolutions that run pixel by pixel, each output over the input that it is made of, as overlap.md has them."""

from itertools import pairwise

import memplan

names = ["x", "y", "z", "v", "w"]
tensors = [{"name": name, "shape": [1, 16, 16, 8], "dtype": "int8", "kind": "intermediate"} for name in names]
tensors[0]["kind"] = "input"
ops = [
    {
        "inputs": [source],
        "outputs": [made],
        "loops": [{"extent": 16, "reads": {source: [axis, 1, 3, 1]}, "writes": {made: [axis, 1]}} for axis in (1, 2)],
        "ordered": [0, 1],
    }
    for source, made in pairwise(names)
]
graph = {"tensors": tensors, "ops": ops, "outputs": ["w"]}
memplan.plan(graph, place=("input", "intermediate", "output")).plot()
