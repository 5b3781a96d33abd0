"""Random graphs of ops with loops: convolutions, resizes, sums, norms, views, over tensors of one axis."""

from __future__ import annotations

import random
from typing import Any


def looped_graph(chance: random.Random, ops: int, rows: int) -> dict[str, Any]:
    """A graph dict of so many ops, with up to so many rows in its inputs; each op has one loop, or none."""
    sizes: dict[str, int] = {"x": chance.randint(1, rows)}
    tensors = [_tensor("x", sizes["x"], chance, kind="input")]
    whole: set[str] = set()  # tensors that are read whole: sums
    made: list[dict[str, Any]] = []
    for k in range(ops):
        name = f"op{k}"
        source = chance.choice(list(sizes)[-3:])
        n = sizes[source]
        op: dict[str, Any] = {"name": name, "type": "f", "inputs": [source], "outputs": [f"t{k}"]}
        kind = chance.choice(("conv", "conv", "same", "add", "up", "resize", "sum", "norm", "early", "view", "none"))
        if n < 1 or (kind == "view" and source in whole):
            kind = "none"
        read, write, extent, size = [0, 1, 1, 0], [0, 1], n, n
        if kind == "conv":
            step, window = chance.randint(1, 3), chance.randint(1, 4)
            before = chance.randint(-1, window - 1)
            extent = size = max(1, -(-n // step) + chance.randint(-1, 1))
            read = [0, step, window, before]
        elif kind == "up":
            write, size = [0, 2], max(1, 2 * n - chance.randint(0, 1))
        elif kind == "resize":
            extent = size = chance.randint(1, 2 * n)
            read = [0, f"{n}/{size}", f"{n}/{size}", 0]
        if kind == "view":
            op["alias"] = [{"output": f"t{k}", "input": source}]
        if kind == "none":
            size = chance.randint(1, rows)
        elif kind == "sum":
            size = chance.randint(1, 2)
            op["loops"] = [{"extent": extent, "reads": {source: read}, "sums": [f"t{k}"]}]
            whole.add(f"t{k}")
        else:
            loop: dict[str, Any] = {"extent": extent, "reads": {source: read}, "writes": {f"t{k}": write}}
            other = [t for t in sizes if sizes[t] == n and t != source]
            if kind == "add" and other:
                second = chance.choice(other)
                op["inputs"].append(second)
                loop["reads"][second] = [0, 1, 1, 0]
            if kind == "early":
                op["outputs"].append(f"e{k}")
                first = chance.choice(list(sizes))
                if first not in op["inputs"]:
                    op["inputs"].append(first)
                loop["early"] = {f"e{k}": [first]}
            if kind == "norm":
                loop["statistics"] = {"inputs": [source], "bytes": chance.choice((1, 2, 5))}
                if chance.random() < 0.5:
                    op["outputs"].append(f"e{k}")
                    loop["early"] = {f"e{k}": []}
            if kind == "same" and chance.random() < 0.5:
                op["inplace"] = [{"output": f"t{k}", "input": source}]
            op["loops"] = [loop]
        view = kind == "view"
        row = next(t["bytes"] // sizes[source] for t in tensors if t["name"] == source) if view else None
        made.append(op)
        sizes[f"t{k}"] = size
        tensors.append(_tensor(f"t{k}", size, chance, row=row))
        if f"e{k}" in op["outputs"]:
            sizes[f"e{k}"] = 1
            tensors.append(_tensor(f"e{k}", 1, chance))
    used = {name for op in made for name in op["inputs"]}
    outputs = [t["name"] for t in tensors[1:] if t["name"] not in used or chance.random() < 0.1]
    return {"tensors": tensors, "ops": made, "outputs": outputs}


def _tensor(
    name: str, rows: int, chance: random.Random, kind: str = "intermediate", row: int | None = None
) -> dict[str, Any]:
    row = row or chance.choice((1, 2, 5, 8))
    return {"name": name, "shape": [rows, row], "dtype": "int8", "bytes": rows * row, "kind": kind}


def wide_blocks(count: int = 2, recompute: bool = True, act: bool = False) -> dict[str, Any]:
    """Blocks of three or four ops: rows become wide, go through a window of three, and are narrow. Costs are bytes."""
    tensors: list[dict[str, Any]] = [{"name": "x", "shape": [16, 30], "dtype": "int8", "kind": "input"}]
    ops = []
    for block in range(count):
        for name, width, window in (
            ("wide", 100, 1),
            *([("act", 100, 1)] if act else []),
            ("window", 100, 3),
            ("narrow", 30 if block < count - 1 else 1, 1),
        ):
            source, made = tensors[-1]["name"], f"{name}{block}"
            reads = {source: [0, 1, window, window // 2]}
            loop = {"extent": 16, "reads": reads, "writes": {made: [0, 1]}}
            tensors.append({"name": made, "shape": [16, width], "dtype": "int8"})
            ops.append({"name": f"{made}:op", "inputs": [source], "outputs": [made], "loops": [loop]})
            ops[-1] |= {"cost": 16.0 * width, "recompute": recompute}
    return {"tensors": tensors, "ops": ops, "outputs": [tensors[-1]["name"]]}
