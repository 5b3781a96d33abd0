"""ONNX models run in their arenas, with poison: how many plans, how many wrong, and what a wrong lifetime shows as.

Run: ``python tests/benchmarks/run_check_onnx.py [--json F] [--docs]``. A row is a door; for each of its models there
are plans by `auto` and `first_fit`, with sharing and without, with inputs in the arena, at random offsets, and on three
streams, run in random legal orders. Results are held bit by bit against the same operators on the whole model.

Then lifetimes are shortened by one step, one buffer at a time, at most 40 of a model, in its plan by `auto`. The plan
of that is run with poison, too: a result that differs, or an error, has caught it.
"""

from __future__ import annotations

import io
import logging
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import onnx
import onnxruntime
import torch
from reporting import Rows, arguments, report

import memplan
from builders.models import CATALOGUE, inference_inputs
from builders.onnx_exported import optimised
from builders.onnx_package_models import DATA, LIGHT, RANDOM, operator_cases
from builders.onnx_running import caught, fed, plans_of, same, wanted
from builders.onnx_sessions import loop, session_options
from builders.running import on_streams, random_order
from memplan.errors import SourceError
from memplan.onnx.running import program_of
from memplan.onnx.wing import MODEL
from memplan.options.source import Source

HEAD = ("door", "models", "plans", "wrong", "lives shortened", "found")
MOST = 40  # lifetimes of a model that are shortened
Model = tuple[onnx.ModelProto, dict[str, Any]]  # and what it is fed


def main() -> None:
    options = arguments(__doc__).parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    rows: Rows = []
    for row in checks():
        rows.append(row)
        print(row, file=sys.stderr, flush=True)
    report("run-check-onnx", HEAD, [[str(row[key]) for key in HEAD] for row in rows], rows, options)


def checks() -> Iterator[dict[str, Any]]:
    """A row of the table per door."""
    exported = list(networks(older))
    yield row_of("onnx's models of operators", operators(), streams=0)
    yield row_of("torch's older exporter", exported)
    yield row_of("torch's newer exporter", networks(newer))
    yield row_of("optimised by ONNX Runtime", map(by_runtime, exported), "onnxruntime")
    yield row_of("onnx's light networks", light(), "onnxruntime", streams=0)
    yield row_of("loops and branches", looped())


def row_of(door: str, models: Any, engine: Any = "reference", streams: int = 2) -> dict[str, Any]:
    """The figures of one door; models that memplan refuses are left out."""
    total = dict.fromkeys(HEAD[1:], 0)
    for source, feeds in models:
        try:
            program = program_of(Source(source, MODEL, engine=engine))
        except SourceError:
            continue
        expected = by_whole(source, feeds) if engine == "onnxruntime" else wanted(source, feeds)
        plans = plans_of(source)
        runs = [(plan, None) for plan in plans]
        for seed in range(streams):
            spread = memplan.plan(on_streams(program.graph, 3, seed))
            runs += [(spread, random_order(spread, k)) for k in range(2)]
        found = (program.bind(plan).run([feeds], check=True, order=order).outputs for plan, order in runs)
        seen, of = caught(program, plans[0], feeds, expected, MOST)
        wrong = sum(not same(outputs, expected) for outputs in found)
        for name, figure in zip(HEAD[1:], (1, len(runs), wrong, of, seen), strict=True):
            total[name] += figure
    return {"door": door, **total}


def operators() -> Iterator[Model]:
    """The models of onnx's tests, but for random numbers and those that its reference does not run."""
    for case in operator_cases():
        given = [onnx.numpy_helper.to_array(x) if isinstance(x, onnx.TensorProto) else x for x in case.data_sets[0][0]]
        feeds = dict(zip([value.name for value in case.model.graph.input], given, strict=True))
        if any(word in case.name for word in RANDOM):
            continue
        try:
            wanted(case.model, feeds)
        except Exception:
            continue
        yield case.model, feeds


class Called(torch.nn.Module):
    """A model of transformers that takes its inputs in order and gives its first output."""

    def __init__(self, model: torch.nn.Module, names: list[str]) -> None:
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *args: torch.Tensor) -> Any:
        cache = {} if "pixel_values" in self.names else {"use_cache": False}
        return self.model(**dict(zip(self.names, args, strict=True)), **cache)[0]


def networks(export: Callable[[torch.nn.Module, tuple[Any, ...]], onnx.ModelProto]) -> Iterator[Model]:
    """The networks of the catalogue that an exporter takes."""
    for make in CATALOGUE.values():
        torch.manual_seed(0)
        example = make()
        inputs = inference_inputs(example)
        try:
            source = export(Called(example.model, list(inputs)).eval(), tuple(inputs.values()))
        except Exception as error:  # each exporter has networks that it refuses
            print(f"{make.__name__}: {type(error).__name__}", file=sys.stderr)
            continue
        arrays = [tensor.numpy() for tensor in inputs.values()]
        yield source, dict(zip([value.name for value in source.graph.input], arrays, strict=True))


def older(module: torch.nn.Module, args: tuple[Any, ...]) -> onnx.ModelProto:
    file = io.BytesIO()
    torch.onnx.export(module, args, file, dynamo=False)
    return onnx.load_from_string(file.getvalue())


def newer(module: torch.nn.Module, args: tuple[Any, ...]) -> onnx.ModelProto:
    program = torch.onnx.export(module, args, dynamo=True, verbose=False)
    assert program is not None
    return program.model_proto


def by_runtime(model: Model) -> Model:
    with tempfile.TemporaryDirectory() as folder:
        return optimised(model[0], "EXTENDED", Path(folder)), model[1]


def light() -> Iterator[Model]:
    for name in LIGHT:
        source = onnx.load(DATA / "light" / name)
        yield source, fed(source)


def looped() -> Iterator[Model]:
    source = loop("yes")
    yield source, fed(source)


def by_whole(source: onnx.ModelProto, feeds: dict[str, Any]) -> dict[str, Any]:
    """What ONNX Runtime gives for the whole model, without optimisations."""
    make = partial(onnxruntime.InferenceSession, sess_options=session_options(onnxruntime))
    session = make(source.SerializeToString(), providers=["CPUExecutionProvider"])
    return dict(zip([output.name for output in source.graph.output], session.run(None, feeds), strict=True))


if __name__ == "__main__":
    main()
