"""Small random graphs whose tensors may share bytes in every way, and whose ops say loops: for what is made to fit."""

from __future__ import annotations

import random
from typing import Any

from memplan.errors import GraphError
from memplan.importers.graph_dict import graph_of

Dict = dict[str, Any]


def shared_graph(chance: random.Random) -> Dict:
    """Up to nine ops that slice, join, write in place, show again, or go along rows."""
    while True:
        graph = _drawn(chance)
        try:
            graph_of(graph)
        except GraphError:  # an op of which not all that was drawn goes together
            continue
        return graph


def _drawn(chance: random.Random) -> Dict:
    rows = chance.choice([2, 3, 4, 6, 8])
    shapes = {"x": [rows, chance.randint(1, 24)]}
    ops: list[Dict] = []
    for k in range(chance.randint(2, 9)):
        made = list(shapes)
        inputs = [made[-1]] if chance.random() < 0.6 else []
        inputs += [chance.choice(made[-5:]) for _ in range(max(1 - len(inputs), chance.choice([0, 0, 0, 1, 2])))]
        inputs = list(dict.fromkeys(inputs))
        outputs = [f"t{k}"] + [f"u{k}"] * (chance.random() < 0.15)
        for name in outputs:
            shapes[name] = [rows if chance.random() < 0.8 else chance.randint(1, 8), chance.randint(1, 24)]
        ops.append({"name": f"o{k}", "inputs": inputs, "outputs": outputs} | _kind(chance, inputs, outputs[0], shapes))
        _say_more(chance, ops[-1], shapes)
    tensors = [{"name": name, "shape": shape, "dtype": "int8"} for name, shape in shapes.items()]
    tensors[0]["kind"] = "input"
    kept = [tensors[-1]["name"]] + [chance.choice(list(shapes)[1:])] * chance.randint(0, 1)
    return {"tensors": tensors, "ops": ops, "outputs": list(dict.fromkeys(kept))}


def _kind(chance: random.Random, inputs: list[str], output: str, shapes: dict[str, list[int]]) -> Dict:
    """What an op says of its first output; its shape becomes one of that kind."""
    kind, source = chance.random(), shapes[inputs[0]]
    if kind < 0.2:
        shapes[output] = [source[0], max(1, source[1] - chance.randint(0, 3))]
        offset = chance.randint(0, _bytes(source) - _bytes(shapes[output]))
        return {"slice": [{"output": output, "input": inputs[0], "offset": offset}]}
    if kind < 0.35 and len(inputs) > 1:
        begins = [sum(_bytes(shapes[name]) for name in inputs[:i]) for i in range(len(inputs) + 1)]
        shapes[output] = [1, begins[-1]]
        parts = zip(inputs, begins[:-1], strict=True)
        return {"concat": [{"output": output, "input": name, "offset": begin} for name, begin in parts]}
    if kind < 0.55:
        shapes[output] = list(source)
        return {"inplace": [{"output": output, "input": inputs[0]}]}
    if kind < 0.62:
        shapes[output] = list(source)
        return {"alias": [{"output": output, "input": inputs[0]}]}
    return {}


def _say_more(chance: random.Random, op: Dict, shapes: dict[str, list[int]]) -> None:
    if chance.random() < 0.25:
        op["workspace"] = chance.randint(1, 40)
    if chance.random() < 0.6:
        op["cost"] = chance.randint(0, 9)
    if chance.random() < 0.1:
        op["recompute"] = False
    extents = {shapes[name][0] for name in (*op["inputs"], *op["outputs"])}
    if len(extents) > 1 or op.keys() & {"alias", "concat"} or chance.random() < 0.4:
        return
    window = chance.choice([1, 1, 1, 3])
    reads = {name: [0, 1, window, window // 2] for name in op["inputs"]}
    op["loops"] = [{"extent": extents.pop(), "reads": reads, "writes": {name: [0, 1] for name in op["outputs"]}}]
    if chance.random() < 0.3:
        op["ordered"] = [0]


def _bytes(shape: list[int]) -> int:
    return shape[0] * shape[1]
