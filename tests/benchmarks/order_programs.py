"""Programs in the best order: bytes at the peak before and after, in four runtimes, and whether results are equal.

Run: ``python tests/benchmarks/order_programs.py [--only fx,onnx,executorch,buffers,compile] [--names vit] [--json F]
[--docs]``.

- fx: `plan.program` of the given and of the best order, each planned with nothing shared by choice. Bytes are what
  torch's CPU allocator gives out at most during a call, and load is the plan's. Results are held against each other and
  against eager torch; a network that asks whether it is traced may run other operators in eager torch.
- onnx: ONNX Runtime without optimisations, on what its basic ones have made of the model. Bytes are what its arena has
  in use at most after any kernel, without weights, with its default order of execution and with that of priority. Its
  memory-efficient order is refused outside of training.
- executorch: the arena of programs lowered without a backend, run by its runtime.
- buffers: loads of Inductor's buffers in its own order of kernels and in memplan's; no kernel is compiled.
- compile: kernels compiled and run, with buffers in arenas, by torch's allocator as for fx.
"""

from __future__ import annotations

import json
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from networks import NETWORKS, network
from real_peaks import allocated
from reporting import Rows, arguments, pivoted, ratio, report

import memplan
from memplan.torch.reading.module import loss_of

sys.path.insert(0, str(Path(__file__).parents[1]))
SECTION = "programs"
HEAD = ("runtime", "network", "run", "given, KiB", "best, KiB", "best / given", "load, best / given", "equal")
ORDERS = ("given", "best")
Row = dict[str, Any]


def main() -> None:
    """Run those that are asked for."""
    parser = arguments(__doc__)
    parser.add_argument("--only", default=",".join(PARTS), help="runtimes, separated by commas")
    parser.add_argument("--names", default="", help="networks, separated by commas; all, if none")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    rows: Rows = []
    for part in options.only.split(","):
        for row in PARTS[part](set(options.names.split(",")) - {""}):
            rows.append(row)
            print(row, file=sys.stderr, flush=True)
    cells = [cells_of(row) for row in rows]
    shorter = pivoted(HEAD, cells, HEAD[1:2], (HEAD[0], HEAD[2]), HEAD[5:7])
    report(SECTION, HEAD, cells, rows, options, "order.md", shorter)


def row_of(runtime: str, name: str, run: str, sizes: list[int], loads: list[int] | None, equal: bool | None) -> Row:
    """The figures of one network, given and best."""
    return {"runtime": runtime, "network": name, "run": run, "sizes": sizes, "loads": loads, "equal": equal}


def cells_of(row: Row) -> list[str]:
    """A row of the table."""
    (given, best), loads = row["sizes"], row["loads"]
    sizes = [*(f"{size / 1024:,.1f}" for size in (given, best)), ratio(best, given)]
    equal = {True: "yes", False: "NO", None: ""}[row["equal"]]
    equal += "" if row.get("eager", True) else "; eager runs other operators"
    return [row["runtime"], row["network"], row["run"], *sizes, ratio(loads[1], loads[0]) if loads else "", equal]


def torch_networks(names: set[str], train: bool) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """Networks of transformers, and small ones whose branches stand in a bad order."""
    from builders.branching import BRANCHING, branching

    for name in BRANCHING:
        if not names or name in names:
            model, x = branching(name)
            yield name, model.train(train), {"x": x}
    for name in NETWORKS:
        if not names or name in names:
            model, inputs = network(name, train=train)
            if hasattr(model.config, "layerdrop"):
                model.config.layerdrop = 0.0  # else chance decides which layers run
            yield name, model, inputs | ({"return_dict": False} if "labels" not in inputs or not train else {})


def leaves(value: Any) -> list[Any]:
    """The tensors of a result."""
    import torch
    from torch.utils._pytree import tree_leaves

    return [leaf.detach().clone() for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def same(one: list[Any], other: list[Any]) -> bool:
    """Whether they are equal bit for bit."""
    import torch

    return len(one) == len(other) and all(map(torch.equal, one, other))


# torch.fx


def fx(names: set[str]) -> Iterator[Row]:
    """`plan.program` of networks, in inference and training."""
    for train in (False, True):
        for name, model, inputs in torch_networks(names, train):
            try:
                yield measured(name, model, inputs, train)
            except memplan.errors.SourceError as error:  # a network that reads a number from a tensor
                print(error, file=sys.stderr)


def measured(name: str, model: Any, inputs: dict[str, Any], train: bool) -> Row:
    """One network; random numbers are the same in each run."""
    import torch

    def step(run: Callable[..., Any]) -> Any:
        torch.manual_seed(0)
        with torch.set_grad_enabled(train):
            return run(**inputs)

    def eager() -> list[Any]:
        model.zero_grad()
        result = step(model)
        if not train:
            return leaves(result)
        loss = loss_of(name, result)
        loss.backward()
        return [loss.detach(), *(p.grad for p in model.parameters() if p.grad is not None)]

    state = {key: value.clone() for key, value in model.state_dict().items()}
    expected = eager()
    results, sizes, loads = [], [], []
    for order in ORDERS:
        plan = memplan.plan(model, kwargs=inputs, train=train, inplace=False, zero_copy=False, order=order)
        program = partial(step, plan.program)
        model.load_state_dict(state)
        found = program()
        if train:
            found = [found[0], *(found[1][key] for key, p in model.named_parameters() if p.grad is not None)]
        results.append(leaves(found))
        sizes.append(allocated(program))
        loads.append(plan.load)
    row = row_of("torch.fx", name, "training" if train else "inference", sizes, loads, same(*results))
    return row | {"eager": same(results[1], expected)}


# ONNX Runtime


def onnx(names: set[str]) -> Iterator[Row]:
    """Light models of the onnx package, and the small networks that torch exports."""
    import onnx
    import torch

    from builders.branching import BRANCHING, branching

    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        light = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
        paths = sorted(light.glob("*.onnx"))
        for name in BRANCHING:
            model, x = branching(name)
            torch.onnx.export(model, (x,), scratch / f"{name}.onnx", dynamo=True, verbose=False, external_data=False)
            paths.append(scratch / f"{name}.onnx")
        for path in paths:
            if not names or path.stem in names:
                yield from by_onnx_runtime(path, scratch)


def by_onnx_runtime(path: Path, scratch: Path) -> Iterator[Row]:
    """A model in both orders, and each with all orders of execution."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(scratch / "optimised.onnx")
    ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    files, loads = [], []
    for order in ORDERS:
        plan = memplan.plan(scratch / "optimised.onnx", order=order)
        files.append(scratch / f"{order}.onnx")
        plan.to_onnx(files[-1])
        loads.append(plan.load)
    for how in ("default", "priority_based"):
        runs = [run_by_onnx_runtime(file, scratch, how) for file in files]
        equal = all(a.tobytes() == b.tobytes() for a, b in zip(runs[0][1], runs[1][1], strict=True))
        yield row_of(f"ONNX Runtime, {how.partition('_')[0]}", path.stem, "", [run[0] for run in runs], loads, equal)


def run_by_onnx_runtime(path: Path, scratch: Path, how: str) -> tuple[int, list[Any]]:
    """The most bytes that the arena has in use after a kernel, without weights, and the results."""
    import numpy as np
    import onnxruntime as ort
    from runtimes import runs_of

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.execution_order = getattr(ort.ExecutionOrder, how.upper())
    options.intra_op_num_threads = 1
    options.enable_mem_pattern = False
    options.enable_profiling, options.profile_file_prefix = True, str(scratch / "profile")
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    chance = np.random.default_rng(0)
    dtypes = {"tensor(float)": np.float32, "tensor(int64)": np.int64}
    inputs = {given.name: chance.random(given.shape).astype(dtypes[given.type]) for given in session.get_inputs()}
    results = session.run(None, inputs)
    (first, _) = runs_of(json.loads(Path(session.end_profiling()).read_text()))
    weights = first[0]["mem_bytes_requested_in_use"] - first[0]["mem_requested_in_use_delta"]
    return max(kernel["mem_bytes_requested_in_use"] for kernel in first) - weights, results


# ExecuTorch


def executorch(names: set[str]) -> Iterator[Row]:
    """The networks of bench_executorch.py, the small ones, GPT-2 and Mamba."""
    import bench_executorch as bench
    import torch

    from builders.branching import BRANCHING, branching
    from builders.models import CATALOGUE, Example

    def gpt2() -> Example:
        example = CATALOGUE["gpt2"]()
        example.model.set_attn_implementation("eager")  # the usual one does not lower at this size
        return example

    examples = {**bench.NETWORKS, "gpt2": gpt2, "mamba": lambda: Example(*network("mamba", train=False))}
    for name in (*BRANCHING, *examples):
        if names and name not in names:
            continue
        torch.manual_seed(0)
        if name in BRANCHING:
            model, x = branching(name)
            values = (x,)
        else:
            example = examples[name]()
            inputs = bench.inputs_of(example)
            model, values = bench.Called(example.model, list(inputs)), tuple(inputs.values())
        exported = torch.export.export(model, values)
        found = []
        for order in ORDERS:
            memory = memplan.executorch.memory_planning_pass(order=order)
            program, *_ = bench.lowered(exported, memory)
            found.append((memory.arenas[-1], bench.outputs(program, values)))
        sizes, loads = ([getattr(arena, what) for arena, _ in found] for what in ("bytes", "load"))
        yield row_of("ExecuTorch", name, "", sizes, loads, same(found[0][1], found[1][1]))


# torch.compile


def buffers(names: set[str]) -> Iterator[Row]:
    """Loads of the scheduler's buffers, without code: one row for each graph that holds a MiB or more, or is small."""
    import torch
    from torch import fx
    from torch._inductor.graph import GraphLowering

    from memplan.torch.compiling import compiling
    from memplan.torch.compiling.kernel_order import in_order, piece_graph_of

    found: list[list[int]] = []

    def watched(nodes: Any, order: str, returned: Any) -> Any:
        pieces = piece_graph_of(nodes, set(returned))
        better = pieces.in_order(order)
        load = pieces.load()
        found.append([load, load if better is None else min(load, pieces.load(better))])
        return in_order(nodes, order, returned)

    def compile_to_module(graph: Any) -> Any:
        def call(args: list[Any]) -> Any:
            return fx.Interpreter(graph.module).boxed_run(args)

        graph.codegen()
        return SimpleNamespace(call=call, __file__=None)

    patches = (
        mock.patch.object(GraphLowering, "compile_to_module", compile_to_module),
        mock.patch.object(compiling, "in_order", watched),
        torch._inductor.config.patch(force_disable_caches=True, compile_threads=1),
    )
    for train in (False, True):
        for name, model, inputs in torch_networks(names, train):
            found.clear()
            torch._dynamo.reset()
            with patches[0], patches[1], patches[2], torch.set_grad_enabled(train):
                run = torch.compile(model, backend="memplan", dynamic=False, options={"order": "best"})
                result = run(**inputs)
                if train:
                    loss_of(name, result).backward()
            kinds = ("forward", "backward") if train else ("inference",)
            for kind, sizes in zip(kinds, found, strict=False):
                yield row_of("Inductor's buffers", name, kind, sizes, sizes, None)


def compile(names: set[str]) -> Iterator[Row]:
    """Networks compiled and run; minutes for each."""
    import torch

    def step_of(model: Any, inputs: dict[str, Any], train: bool, how: dict[str, Any]) -> Callable[[], list[Any]]:
        run = torch.compile(model, dynamic=False, **how)

        def step() -> list[Any]:
            torch.manual_seed(0)
            with torch.set_grad_enabled(train):
                result = run(**inputs)
                if train:
                    loss_of("it", result).backward()
            gradients = [p.grad for p in model.parameters() if p.grad is not None] if train else []
            model.zero_grad()  # what a step begins with is the same each time: no gradients
            return leaves(result) + gradients

        return step

    for train in (False, True):
        for name, model, inputs in torch_networks(names, train):
            results, sizes, loads = [], [], []
            for order in ("by torch", *ORDERS):
                torch._dynamo.reset()
                memplan.torch.clear_compiled_plans()
                how = (
                    {"backend": "memplan", "options": {"order": order}} if order in ORDERS else {"backend": "inductor"}
                )
                step = step_of(model, inputs, train, how)
                with torch._inductor.config.patch(fx_graph_cache=False):
                    results.append(step())
                if order in ORDERS:
                    sizes.append(allocated(step))
                    loads.append(max((found.load for found in memplan.torch.compiled_plans()), default=0))
            equal = all(same(results[0], other) for other in results[1:])
            yield row_of("torch.compile", name, "training" if train else "inference", sizes, loads, equal)


PARTS: dict[str, Callable[[set[str]], Iterator[Row]]] = {
    "fx": fx,
    "onnx": onnx,
    "executorch": executorch,
    "buffers": buffers,
    "compile": compile,
}

if __name__ == "__main__":
    main()
