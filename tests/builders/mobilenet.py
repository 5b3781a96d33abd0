"""MobileNet v2 as a graph dict: int8, NHWC, each op with its loop over rows (Sandler et al., CVPR 2018, table 2)."""

from __future__ import annotations

from typing import Any

BLOCKS = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


def mobilenet_v2(resolution: int = 224, width: float = 1.0) -> dict[str, Any]:
    """The network for square pictures, and with so many times the channels; costs are multiplications."""
    tensors: list[dict[str, Any]] = []
    ops: list[dict[str, Any]] = []

    def tensor(name: str, rows: int, channels: int, kind: str = "intermediate") -> str:
        tensors.append({"name": name, "shape": [1, rows, rows, channels], "dtype": "int8", "kind": kind})
        return name

    def op(name: str, source: str, channels: int, kernel: int = 1, stride: int = 1, depthwise: bool = False) -> str:
        _, rows, _, given = next(t["shape"] for t in tensors if t["name"] == source)
        made = -(-rows // stride)
        tensor(name, made, channels)
        loop = {"extent": made, "reads": {source: [1, stride, kernel, kernel // 2]}, "writes": {name: [1, 1]}}
        cost = float(made * made * channels * kernel * kernel * (1 if depthwise else given))
        entry = {"name": f"{name}:op", "type": "Conv", "inputs": [source], "outputs": [name]}
        ops.append({**entry, "loops": [loop], "cost": cost})
        return name

    def add(name: str, a: str, b: str) -> str:
        shape = next(t["shape"] for t in tensors if t["name"] == a)
        tensor(name, shape[1], shape[3])
        loop = {"extent": shape[1], "reads": {a: [1, 1, 1, 0], b: [1, 1, 1, 0]}, "writes": {name: [1, 1]}}
        inplace = [{"output": name, "input": x} for x in (a, b)]
        entry = {"name": f"{name}:op", "type": "Add", "inputs": [a, b], "outputs": [name]}
        ops.append({**entry, "inplace": inplace, "loops": [loop], "cost": 0.0})
        return name

    channels = rounded(32 * width)
    now = op("stem", tensor("x", resolution, 3, "input"), channels, 3, 2)
    block = 0
    for expansion, wanted, repeats, stride in BLOCKS:
        for repeat in range(repeats):
            block += 1
            before, out, hidden = now, rounded(wanted * width), channels * expansion
            if expansion != 1:
                now = op(f"b{block}.expand", now, hidden)
            now = op(f"b{block}.depthwise", now, hidden, 3, stride if repeat == 0 else 1, depthwise=True)
            now = op(f"b{block}.project", now, out)
            if repeat > 0 and channels == out:
                now = add(f"b{block}.add", now, before)
            channels = out
    now = op("head", now, rounded(1280 * max(width, 1.0)))
    tensors.append({"name": "pooled", "bytes": rounded(1280 * max(width, 1.0))})
    ops.append({"name": "pool", "type": "Pool", "inputs": [now], "outputs": ["pooled"], "cost": 0.0})
    tensors.append({"name": "y", "bytes": 1000, "kind": "output"})
    ops.append({"name": "classify", "type": "Dense", "inputs": ["pooled"], "outputs": ["y"], "cost": 1.28e6})
    return {"tensors": tensors, "ops": ops, "outputs": ["y"]}


def rounded(channels: float) -> int:
    """To a multiple of 8, and never below nine tenths."""
    found = max(8, int(channels + 4) // 8 * 8)
    return found + 8 if found < 0.9 * channels else found
