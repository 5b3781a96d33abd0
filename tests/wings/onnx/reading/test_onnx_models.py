"""The ONNX importer on the models that the onnx package brings."""

from __future__ import annotations

from collections import Counter

import pytest

import memplan
from builders.onnx_models import numpy_helper, onnx, sizes
from builders.onnx_package_models import DATA, LIGHT, RANDOM, operator_cases
from builders.onnx_running import same, wanted
from builders.running import random_plan
from memplan.errors import SourceError
from memplan.onnx.reading import import_onnx
from memplan.running.plans import program_of


def test_there_are_nine_light_models():
    assert len(LIGHT) == 9


@pytest.mark.few(4)
@pytest.mark.parametrize("name", LIGHT)
def test_light_models_import_and_plan(name):
    source = onnx.load(DATA / "light" / name)
    result = import_onnx(DATA / "light" / name)
    assert len(result["ops"]) == len(source.graph.node)
    names = {v for n in source.graph.node for v in (*n.input, *n.output)} | {v.name for v in source.graph.input}
    assert {t["name"] for t in result["tensors"]} == names - {""}
    assert result["outputs"] == [v.name for v in source.graph.output]
    plan = memplan.plan(result, "greedy_by_size")  # auto would search the larger ones for seconds
    assert plan.peak >= plan.lower_bound > 0


def test_light_alexnet_by_hand():
    result = import_onnx(DATA / "light" / "light_bvlc_alexnet.onnx")
    size = sizes(result)
    weights = sum(size[op["outputs"][0]] for op in result["ops"] if op["type"] == "ConstantOfShape")
    assert weights == 4 * 60_965_224  # the network's published number of parameters
    assert (len(result["tensors"]), len(result["ops"])) == (60, 40)
    # conv 11x11 stride 4 on 224: 54; pool 3x3 stride 2: 26, conv 5x5 pad 2; pool: 12; convs 3x3 pad 1; pool: 5 or 6
    shapes = {t["name"]: t["shape"] for t in result["tensors"]}
    assert shapes["r0"] == [1, 96, 54, 54]
    assert shapes["r4"] == [1, 256, 26, 26]
    assert shapes["r8"] == [1, 384, 12, 12]
    assert size["r0"] == 4 * 96 * 54 * 54


def refusals(models):
    """How many import, and why the others do not; anything but a SourceError is let through."""
    imported, refused = 0, {}
    for name, source in models:
        try:
            import_onnx(source)
            imported += 1
        except SourceError as error:
            refused[name] = str(error)
    return imported, refused


def justified(message):
    reasons = (
        "strings",
        "sequence type",
        "optional type",
        "no known size",
        "no valid size",
        "symbolic dimensions without a size",
        "only the bodies of If, Loop and Scan",
    )
    return any(reason in message for reason in reasons)


def test_models_on_disk_import_or_are_refused():
    paths = sorted(DATA.glob("*/*/model.onnx"))
    imported, refused = refusals((path.parent.name, path) for path in paths)
    assert len(paths) > 100
    assert imported >= 0.9 * len(paths)
    assert [name for name, message in refused.items() if not justified(message)] == []


@pytest.mark.parametrize("every", [24, pytest.param(1, marks=pytest.mark.slow)])
def test_operator_test_models_import_or_are_refused(every):
    cases = operator_cases(every)
    imported, refused = refusals((case.name, case.model) for case in cases)
    assert len(cases) > 1000 / every
    assert imported >= 0.94 * len(cases)
    assert [name for name, message in refused.items() if not justified(message)] == []


def outcome(case, planner):
    """What comes of a plan of a case that is run, with poison, at random offsets."""
    given = [numpy_helper.to_array(x) if isinstance(x, onnx.TensorProto) else x for x in case.data_sets[0][0]]
    feeds = dict(zip([value.name for value in case.model.graph.input], given, strict=True))
    try:
        plan = memplan.plan(case.model, planner)
        program = program_of(plan)
    except SourceError as error:
        others = ("opset 8, which scans a batch", "it needs ONNX Runtime")  # which is not installed
        return "refused" if justified(str(error)) or any(why in str(error) for why in others) else str(error)
    found = program.bind(random_plan(plan, 0)).run([feeds], check=True).outputs
    try:
        expected = wanted(case.model, feeds)
    except Exception:
        return "the reference fails"
    return "the same" if same(found, expected) else f"{case.name} differs"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("every", "part"), [(8, 5), pytest.param(1, 1, marks=[pytest.mark.slow, pytest.mark.no_cover])]
)
def test_operator_test_models_run(every, part):
    chosen = [case for case in operator_cases(every) if not any(word in case.name for word in RANDOM)][::part]
    found = Counter(outcome(case, "auto" if k % 2 else "first_fit") for k, case in enumerate(chosen))
    assert found["the same"] > 0.9 * len(chosen)
    assert found.keys() <= {"the same", "refused", "the reference fails"}
