"""Models that the onnx package holds."""

from __future__ import annotations

import os
import warnings
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import numpy as np
import pytest

from builders.onnx_models import onnx

DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"


LIGHT = sorted(name for name in os.listdir(DATA / "light") if name.endswith(".onnx"))


@cache
def operator_cases(every=1):
    """onnx's test models of single operators, and of the functions that some stand for; of one operator in so many."""
    nodes = pytest.importorskip("onnx.backend.test.case.node")
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for module in sorted(found.name for found in iter_modules(nodes.__path__))[::every]:
            import_module(f"{nodes.__name__}.{module}")  # which makes its models
    cases = [case for case in nodes._NodeTestCases if case.model is not None]
    if not cases:
        pytest.skip(f"onnx {onnx.__version__} keeps these models on disk")
    return cases


RANDOM = ("bernoulli", "randomuniform", "randomnormal", "multinomial", "training_dropout")
