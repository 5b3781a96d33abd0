"""The doors of ONNX's wing: what each imports, and a small example of each, for `memplan doctor`."""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from ..errors import MissingDependencyError
from ..frontend import Door


def _imports(*packages: str) -> None:
    for package in packages:
        try:
            importlib.import_module(package)
        except ImportError as error:
            text = f"it needs {package}: pip install 'memplan[{package}]'"
            raise MissingDependencyError(text) from error


def _plan(path: Path) -> Any:
    """A plan of a chain of ops, in a file."""
    import onnx
    from onnx import TensorProto, helper

    from ..solving.planning import plan

    names = [f"t{k}" for k in range(4)]
    nodes = [helper.make_node("Relu", [a], [b]) for a, b in pairwise(names)]
    given, made = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [8]) for name in (names[0], names[-1]))
    graph = helper.make_graph(nodes, "chain", [given], [made])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return plan(path)


def _read() -> None:
    _imports("onnx")
    with tempfile.TemporaryDirectory() as folder:
        assert _plan(Path(folder) / "net.onnx").optimal


def _runs(engine: str, *packages: str) -> None:
    import numpy as np

    _imports(*packages)
    with tempfile.TemporaryDirectory() as folder:
        x = np.linspace(-1, 1, 8, dtype=np.float32)
        run = _plan(Path(folder) / "net.onnx").run({"t0": x}, engine=engine, check=True)
    assert np.array_equal(run.outputs["t3"], np.maximum(x, 0))


def _written() -> None:
    _imports("onnx")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "written.onnx"
        _plan(Path(folder) / "net.onnx").to_onnx(path)
        assert path.stat().st_size > 0


def doors(engines: Sequence[str]) -> tuple[Door, ...]:
    """All of them; `engines` may compute the ops of a plan."""
    needed = {"reference": ("onnx",), "onnxruntime": ("onnx", "onnxruntime")}
    runs = [
        Door(
            f'plan.run(engine="{engine}")',
            lambda engine=engine: _imports(*needed[engine]),  # type: ignore[misc]
            lambda engine=engine: _runs(engine, *needed[engine]),  # type: ignore[misc]
        )
        for engine in engines
    ]
    return (
        Door("plan('net.onnx')", lambda: _imports("onnx"), _read),
        *runs,
        Door("plan.to_onnx", lambda: _imports("onnx"), _written),
    )
