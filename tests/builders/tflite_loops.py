"""Loops of operators of TFLite, and what runs them."""

from __future__ import annotations

from typing import Any

import numpy as np

from builders.tflite_ops import Drawn
from memplan.tflite.reading import loops as tflite_loops
from oracles.tflite import KERNELS


def run_of(kind: str, drawn: Drawn) -> Any:
    constants = {f"x{k}": drawn.inputs[k] for k in drawn.fixed}

    def run(feeds: Any) -> dict[str, Any]:
        arrays = [{**feeds, **constants}[f"x{k}"] for k in range(len(drawn.inputs))]
        with np.errstate(all="ignore"):
            return {"y": np.array(KERNELS[kind](drawn.options, drawn.made, *arrays), order="C")}

    return run


def feeds_of(drawn: Drawn) -> dict[str, Any]:
    return {f"x{k}": array for k, array in enumerate(drawn.inputs) if k not in drawn.fixed}


def loops_of(kind: str, drawn: Drawn) -> Any:
    made = drawn.made if drawn.made is not None else list(run_of(kind, drawn)(feeds_of(drawn))["y"].shape)
    operator = tflite_loops.Operator(
        [list(array.shape) for array in drawn.inputs],
        [made],
        [str(array.dtype) for array in drawn.inputs],
        kind,
        lambda name, otherwise: drawn.options.get(name, otherwise),
        lambda position: drawn.inputs[position] if position in drawn.fixed else None,
    )
    return tflite_loops.loops(operator, [f"x{k}" for k in range(len(drawn.inputs))], ["y"])
