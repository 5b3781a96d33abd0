"""The one way in: every kind of source, options and their types, threads, and a light import."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import memplan
from builders import graphs
from builders.paths import DATA
from memplan import generate

EXAMPLES = ("gpt2_infer", "gpt2_train", "resnet50_infer", "resnet50_train")
GRAPH: dict[str, Any] = graphs.graph("x 16 input, y 20", graphs.op("relu", "x", "y"), outputs="y")
ARRAYS = ([4, 5], [0, 1], [2, 3])


# Sources


def test_a_graph_dict_and_a_graph() -> None:
    graph = memplan.capture(GRAPH).graph
    assert memplan.plan(GRAPH) == memplan.plan(graph)
    assert memplan.plan(graph).graph == graph


def test_a_problem_is_used_as_it_is() -> None:
    problem = memplan.Problem(*ARRAYS)
    assert memplan.plan(problem).problem is problem
    assert memplan.capture(problem) is problem


@pytest.mark.parametrize(
    "source", [ARRAYS, list(ARRAYS), tuple(np.array(c) for c in ARRAYS)], ids=["tuple", "list", "arrays"]
)
def test_arrays(source: Any) -> None:
    assert memplan.plan(source).problem == memplan.Problem(*ARRAYS)


def test_paths_are_strings_or_path_objects() -> None:
    path = DATA / "minimalloc" / "A.1048576.csv"
    assert memplan.plan(str(path)) == memplan.plan(path)
    graph = DATA / "torch" / "vgg16_b1_infer.json"
    assert memplan.plan(str(graph)) == memplan.plan(graph)


def test_suffixes_in_capitals(tmp_path: Path) -> None:
    (tmp_path / "L.CSV").write_text("id,lower,upper,size\na,0,2,10\n")
    assert memplan.plan(tmp_path / "L.CSV").peak == 10


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples(name: str) -> None:
    plan = memplan.plan(f"example:{name}")
    assert plan.graph is not None
    assert len(plan) > 50
    assert plan.lower_bound <= plan.peak < plan.naive
    plan.verify()


def test_an_unknown_example_lists_the_names() -> None:
    with pytest.raises(memplan.errors.SourceError, match=f"no example 'alexnet'; there are {', '.join(EXAMPLES)}"):
        memplan.plan("example:alexnet")


@pytest.mark.parametrize(
    "source", [None, 3, 1.5, {1, 2}, ARRAYS[:2], (*ARRAYS, [1, 1]), ["a", "b", "c"], b"model.onnx", object()]
)
def test_other_sources_are_refused_with_what_is_accepted(source: Any) -> None:
    with pytest.raises(TypeError) as error:
        memplan.plan(source)
    message = str(error.value)
    kinds = "graph dict,memplan.Graph,memplan.Problem,arrays,.onnx,.json,.csv,.pt2,example:NAME,ModelProto,nn.Module"
    for accepted in (*kinds.split(","), "fx.GraphModule", "ExportedProgram"):
        assert accepted in message
    assert type(source).__qualname__ in message


def test_a_class_in_place_of_an_object_is_named() -> None:
    class Net:
        pass

    with pytest.raises(TypeError, match=r"; got the class test_a_class.*\.Net, not an instance of it$"):
        memplan.plan(Net)


@pytest.mark.parametrize("path", ["model.rst", "model", "lifetimes.csv.gz"])
def test_other_paths_are_refused(path: str) -> None:
    with pytest.raises(
        TypeError, match=f"a path must end in .json, .csv, .hlo, .onnx, .tflite, .pt2 or .pickle, got '{path}'"
    ):
        memplan.plan(path)


# Options


def test_place_chooses_the_kinds() -> None:
    assert [slot.name for slot in memplan.plan(GRAPH)] == ["y"]
    assert [slot.name for slot in memplan.plan(GRAPH, place=["input"])] == ["x"]
    assert [slot.name for slot in memplan.plan(GRAPH, place={"input", "output"})] == ["x", "y"]
    assert len(memplan.plan(GRAPH, place=())) == 0


def test_place_refuses_unknown_kinds_and_a_bare_string() -> None:
    with pytest.raises(ValueError, match=r"input, weight, intermediate, output, workspace.*'params'"):
        memplan.plan(GRAPH, place=["params"])
    with pytest.raises(TypeError, match="place must be a collection of kinds"):
        memplan.plan(GRAPH, place="input")


def test_alignment_joins_a_problems_own() -> None:
    plan = memplan.plan(memplan.Problem([4, 5, 6], [0, 0, 0], [1, 1, 1], [1, 6, 16], ["a", "b", "c"]), alignment=4)
    assert plan.problem.alignment.tolist() == [4, 12, 16]
    assert plan.problem.names == ["a", "b", "c"]
    assert not (plan.offsets % plan.problem.alignment).any()


def test_alignments_without_a_common_multiple_are_refused() -> None:
    with pytest.raises(ValueError, match="no common multiple that fits int64"):
        memplan.plan(memplan.Problem([1], [0], [1], 2**40), alignment=3**25)


@pytest.mark.parametrize("alignment", [1.0, None, True, [8]])
def test_alignment_of_another_type(alignment: Any) -> None:
    with pytest.raises(TypeError, match="alignment must be an integer"):
        memplan.plan(ARRAYS, alignment=alignment)


def test_numpy_numbers_are_taken() -> None:
    options = {"alignment": np.int64(8), "seed": np.uint64(3), "threads": np.int32(2), "time_limit": np.float64(1)}
    assert memplan.plan(ARRAYS, **options).offsets.tolist() == memplan.plan(ARRAYS, alignment=8).offsets.tolist()


@pytest.mark.parametrize(
    "options",
    [{"time_limit": "soon"}, {"seed": 1.5}, {"seed": "a"}, {"threads": None}, {"threads": 2.5}, {"planner": None}],
)
def test_options_of_another_type_are_refused_by_name(options: dict[str, Any]) -> None:
    with pytest.raises(TypeError) as error:
        memplan.plan(ARRAYS, **options)
    assert next(iter(options)) in str(error.value)
    assert "incompatible function arguments" not in str(error.value)


@pytest.mark.parametrize(
    ("options", "option"),
    [
        ({"inclusive": True}, "inclusive"),
        ({"dims": {"batch": 8}}, "dims"),
        ({"train": True}, "train"),
        ({"args": (1,)}, "args"),
        ({"kwargs": {"x": 1}}, "kwargs"),
    ],
)
@pytest.mark.parametrize("source", [GRAPH, ARRAYS, "example:resnet50_infer"], ids=["dict", "arrays", "example"])
def test_options_of_other_sources_are_refused(source: Any, options: dict[str, Any], option: str) -> None:
    with pytest.raises(TypeError, match=f"option {option} does not apply to a source of kind"):
        memplan.plan(source, **options)


@pytest.mark.parametrize("option", ["inplace", "zero_copy", "train", "inclusive", "trust"])
@pytest.mark.parametrize("value", ["yes", 1, None, []])
def test_what_is_on_or_off_takes_nothing_else(option: str, value: Any) -> None:
    with pytest.raises(TypeError, match=rf"^{option} must be True or False, got {re.escape(repr(value))}$"):
        memplan.plan(GRAPH, **{option: value})
    memplan.plan(GRAPH, inplace=np.bool_(True))


@pytest.mark.parametrize(
    ("name", "offered"),
    [
        ("mell", "got 'mell'; did you mean 'mel'"),
        ("zzz", "got 'zzz'; the inputs are 'mel', 'tokens'"),
        ("y", "got 'y', which is of kind output; the inputs are 'mel', 'tokens'"),
    ],
)
def test_what_may_be_donated_is_offered(name: str, offered: str) -> None:
    given = [{"name": name, "bytes": 4, "kind": "input"} for name in ("mel", "tokens")]
    op = {"inputs": ["mel", "tokens"], "outputs": ["y"]}
    graph = {"tensors": [*given, {"name": "y", "bytes": 4}], "ops": [op], "outputs": ["y"]}
    with pytest.raises(memplan.errors.GraphError, match=rf"^donate must name graph inputs, {offered}\??$"):
        memplan.plan(graph, donate=[name])
    assert memplan.plan(graph, donate=["mel"]).peak == 4


def test_without_inputs_nothing_can_be_donated() -> None:
    graph = {"tensors": [{"name": "y", "bytes": 4}], "ops": [{"inputs": [], "outputs": ["y"]}], "outputs": ["y"]}
    with pytest.raises(memplan.errors.GraphError, match="got 'x'; there are no inputs"):
        memplan.plan(graph, donate=["x"])
    graph["tensors"] += [{"name": f"x{k}", "bytes": 4, "kind": "input"} for k in range(12)]
    with pytest.raises(memplan.errors.GraphError, match=r"'x9' and 2 more$"):
        memplan.plan(graph, donate=["q"])


def test_options_are_given_by_name() -> None:
    with pytest.raises(TypeError, match="positional"):
        memplan.plan(ARRAYS, "auto", 8)  # type: ignore[misc]


def test_changing_the_dict_afterwards_changes_no_plan() -> None:
    spec = {**GRAPH, "outputs": ["y"]}
    plan = memplan.plan(spec)
    spec["outputs"].clear()
    assert plan == memplan.plan(GRAPH)


# Threads


def test_many_threads_get_the_same_plans() -> None:
    sources = [f"example:{name}" for name in EXAMPLES] + [generate.layered(2000, seed=seed) for seed in range(4)]
    expected = [memplan.plan(source) for source in sources]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(3):
            assert list(pool.map(memplan.plan, sources)) == expected


def test_threads_may_share_a_problem() -> None:
    problem = memplan.Problem(*generate_columns(20_000))
    with ThreadPoolExecutor(8) as pool:
        plans = list(
            pool.map(lambda planner: memplan.plan(problem, planner), ["first_fit", "best_fit", "worst_fit"] * 8)
        )
    for plan, again in zip(plans, plans[3:], strict=False):
        assert plan == again


def generate_columns(buffers: int) -> tuple[np.ndarray, ...]:
    problem = generate.layered(buffers)
    return problem.size, problem.first, problem.last


def longest_pause(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds of `work`, and the longest that another thread had to wait for its turn meanwhile."""
    pauses, done = [], threading.Event()

    def tick() -> None:
        before = time.perf_counter()
        while not done.is_set():
            time.sleep(0.001)
            now = time.perf_counter()
            pauses.append(now - before)
            before = now

    thread = threading.Thread(target=tick)
    thread.start()
    begin = time.perf_counter()
    work()
    seconds = time.perf_counter() - begin
    done.set()
    thread.join()
    return seconds, max(pauses)


@pytest.mark.parametrize("planner", ["first_fit", "greedy_by_size"])
def test_other_threads_run_during_a_solve(planner: str) -> None:
    """A solve that held the interpreter's lock would pause the other thread for as long as it takes."""
    problem = generate.layered(200_000)
    for _ in range(5):  # a busy machine may pause any thread; once is enough
        seconds, pause = longest_pause(lambda: memplan.plan(problem, planner))
        assert seconds > 0.05
        if pause < seconds / 2:
            return
    pytest.fail(f"the other thread waited {pause:.3f} s of the {seconds:.3f} s that the solve took")


# The package

LIGHT = """
import sys
before = set(sys.modules)
import memplan
memplan.plan(([4, 5], [0, 1], [2, 3])).verify()
for heavy in ("torch", "onnx", "matplotlib", "rich", "ortools", "bokeh"):
    assert heavy not in sys.modules, heavy
"""

QUICK = """
import time
import numpy
begin = time.perf_counter()
import memplan
print(time.perf_counter() - begin)
"""


def test_import_is_light() -> None:
    subprocess.run([sys.executable, "-c", LIGHT], check=True, timeout=60)


def test_import_is_quick() -> None:
    runs = [
        subprocess.run([sys.executable, "-c", QUICK], capture_output=True, check=True, timeout=60) for _ in range(3)
    ]
    assert min(float(run.stdout) for run in runs) < 1  # 0.15 seconds on a quiet machine, with numpy


def test_everything_public_is_there_and_documented() -> None:
    assert memplan.__all__ == sorted(memplan.__all__, key=lambda name: (not name.isupper(), name))
    for name in memplan.__all__:
        assert getattr(memplan, name).__doc__


def test_errors_are_value_errors() -> None:
    for error in (
        memplan.errors.SourceError,
        memplan.errors.GraphError,
        memplan.errors.ProblemError,
        memplan.errors.UnsupportedError,
        memplan.InfeasibleError,
    ):
        assert issubclass(error, ValueError)
    assert issubclass(memplan.errors.MissingDependencyError, ImportError)


def test_place_is_for_graphs() -> None:
    with pytest.raises(TypeError, match="option place applies to graphs"):
        memplan.plan(([1], [0], [1]), place=("weight",))
    with pytest.raises(ValueError, match="place must hold kinds among"):
        memplan.plan(([1], [0], [1]), place=("bogus",))
    assert memplan.plan(([1], [0], [1]), place=("workspace", "output", "intermediate")).peak == 1


def test_auto_keeps_its_time_limit() -> None:
    """Random lifetimes, where what comes before the rounds takes long and is cut short."""
    random = np.random.default_rng(0)
    first = random.integers(0, 8_000, 8_000)
    problem = memplan.Problem(random.integers(1, 10**6, 8_000), first, first + random.integers(1, 2_000, 8_000))
    unlimited = memplan.plan(problem, "auto:effort=1")
    limited = memplan.plan(problem, "auto:effort=1", time_limit=unlimited.seconds / 10)
    assert limited.winner in ("first_fit", "best_fit")
    assert limited.seconds < unlimited.seconds / 2
