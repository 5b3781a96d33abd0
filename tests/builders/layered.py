"""Random networks of layers: their orders differ much, and none of these is proven to be best."""

from __future__ import annotations

import random
from typing import Any


def layers(ops: int) -> dict[str, Any]:
    """Square layers, each op of which reads two of the layer before."""
    chance = random.Random(0)
    width = int(ops**0.5)
    names = [f"t{k}" for k in range(ops)]
    reads = [names[k // width * width - width : k // width * width] if k >= width else ["x"] for k in range(ops)]
    return {
        "tensors": [
            {"name": "x", "bytes": 1, "kind": "input"},
            *({"name": name, "bytes": chance.randint(1, 1000)} for name in names),
        ],
        "ops": [
            {"name": f"o{k}", "inputs": sorted({chance.choice(reads[k]) for _ in range(2)}), "outputs": [names[k]]}
            for k in range(ops)
        ],
        "outputs": names[-1:],
    }
