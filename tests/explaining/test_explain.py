"""Explanations: every figure against the oracle, every claim of a saving against planning again with the change."""

from __future__ import annotations

import copy
import itertools
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import memplan
from builders import models
from builders.graphs import W, X, graph, op, tensor
from builders.html_pages import Page
from builders.looped import wide_blocks
from builders.paths import DATA, ROOT
from builders.strategies import BOUNDED, bounded, graph_dicts, relation_graphs, shaped_problems
from memplan.explaining.explanation import Advice, Explanation
from memplan.kinds import KINDS, PLACED
from memplan.plans.inplace import RULES
from oracles import plain as oracle

Dict = dict[str, Any]
NETWORKS = ["vgg16_b1_train", "bert_b8_infer", "swin_t_b8_infer", "mobilenet_v2_b1_infer"]
INSTANCES = ["A", "K"]


class DenseNet(nn.Module):
    """Two blocks in which each layer reads all before it, joined."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Conv2d(4 + 4 * (k % 4), 4, 3, padding=1) for k in range(8)])
        self.between = nn.Conv2d(20, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        for block in (self.layers[:4], self.layers[4:]):
            found = [x]
            for layer in block:
                found.append(torch.relu(layer(torch.cat(found, 1))))
            x = nn.functional.avg_pool2d(self.between(torch.cat(found, 1)), 2)
        return x.mean()


def dense_plan() -> memplan.Plan:
    return memplan.plan(DenseNet(), args=(torch.randn(2, 4, 16, 16),), train=True)


def transformer_plan() -> memplan.Plan:
    example = models.CATALOGUE["gpt2"]()
    return memplan.plan(example.model.train(), kwargs=dict(example.inputs), train=True)


@pytest.fixture(scope="module")
def plans() -> dict[str, memplan.Plan]:
    """Plans of networks and of lists of lifetimes, some with a peak above the load."""
    torch.manual_seed(0)
    found = {name: memplan.plan(DATA / "torch" / f"{name}.json", "first_fit") for name in NETWORKS}
    found |= {name: memplan.plan(DATA / "minimalloc" / f"{name}.1048576.csv", "first_fit") for name in INSTANCES}
    return found | {
        "densenet": dense_plan(),
        "transformer": transformer_plan(),
        "resnet50_train": memplan.plan("example:resnet50_train", "first_fit"),
    }


EVERY = [*NETWORKS, *INSTANCES, "densenet", "transformer", "resnet50_train"]
GRAPHS = [name for name in EVERY if name not in INSTANCES]


# The same figures, computed plainly


def pieces(plan: memplan.Plan) -> list[tuple[int, int, int, int, int]]:
    """What buffers use, one by one: (buffer, begin, end, first, last)."""
    p = plan.problem
    parts: list[tuple[int, int, int, int, int]] = [] if p.parts is None else [tuple(row) for row in p.parts.tolist()]
    shaped = {part[0] for part in parts}
    columns = zip(p.size.tolist(), p.first.tolist(), p.last.tolist(), strict=True)
    return parts + [(b, 0, s, f, m) for b, (s, f, m) in enumerate(columns) if b not in shaped and s > 0]


def load_at(used: list[tuple[int, int, int, int, int]], step: int) -> int:
    return sum(end - begin for _, begin, end, first, last in used if first <= step < last)


def loads(used: list[tuple[int, int, int, int, int]]) -> dict[int, int]:
    """The load at every step at which something is born or dies."""
    change: dict[int, int] = {}
    for _, begin, end, first, last in used:
        change[first] = change.get(first, 0) + end - begin
        change[last] = change.get(last, 0) - end + begin
    steps = sorted(change)
    return dict(zip(steps, itertools.accumulate(change[step] for step in steps), strict=True))


def highest(used: list[tuple[int, int, int, int, int]]) -> int:
    return max(loads(used).values(), default=0)


def away(
    used: list[tuple[int, int, int, int, int]], windows: dict[int, tuple[int, int]]
) -> list[tuple[int, int, int, int, int]]:
    """What is used when some buffers use nothing in some steps."""
    left = []
    for b, begin, end, first, last in used:
        low, high = windows.get(b, (last, last))
        left += [(b, begin, end, f, m) for f, m in ((first, min(last, low)), (max(first, high), last)) if f < m]
    return left


def check_figures(plan: memplan.Plan, e: Explanation) -> None:
    """Peak, load, what is in use, what is free, and what comes next."""
    used = pieces(plan)
    curve = loads(used)
    assert (e.peak, e.load, e.naive, e.buffers) == (plan.peak, highest(used), plan.naive, len(plan))
    if not used:
        assert e.peak_step is None
        assert e.alive == ()
        return
    assert e.peak_step is not None
    assert e.load_step is not None
    assert e.load_step.load == e.load == load_at(used, e.load_step.step)
    assert e.peak_step.load == load_at(used, e.peak_step.step) == sum(a.bytes for a in e.alive)
    assert sum(a.bytes for a in e.alive_at_load) == e.load
    assert e.load_step == e.peak_step or e.peak_step.load < e.load
    tops = [p for p in used if plan.offsets[p[0]] + p[2] == max(plan.offsets[q[0]] + q[2] for q in used)]
    assert e.peak_step.load == max(load for s, load in curve.items() if any(p[3] <= s < p[4] for p in tops))
    assert [a.bytes for a in e.alive] == sorted((a.bytes for a in e.alive), reverse=True)
    assert sum(a.share for a in e.alive) == pytest.approx(e.peak_step.load / e.peak)
    assert sum(size for _, size in e.holes) == e.peak - e.peak_step.load
    for offset, size in e.holes:
        for b, begin, end, first, last in used:
            lies = offset < plan.offsets[b] + end and plan.offsets[b] + begin < offset + size
            assert not (lies and first <= e.peak_step.step < last)
    assert dict(e.curve) == curve
    steps = sorted(curve)
    spans = itertools.pairwise(steps)
    assert e.crowded == sum(b - a for a, b in spans if curve[a] >= 0.9 * e.load)
    check_next(e, curve)


def check_next(e: Explanation, curve: dict[int, int]) -> None:
    """The next-highest step lies beyond a valley, and nothing beyond one is higher."""
    assert e.load_step is not None
    top = e.load_step.step

    def beyond_a_valley(step: int) -> bool:
        between = [curve[s] for s in sorted(curve, reverse=step > top) if min(step, top) <= s <= max(step, top)]
        return any(nearer < farther for farther, nearer in itertools.pairwise(between))

    others = [load for step, load in curve.items() if beyond_a_valley(step)]
    assert (e.next_step.load if e.next_step else None) == max(others, default=None)


def check_savings(plan: memplan.Plan, e: Explanation) -> None:
    """What is idle is not used by any op then, and what would be left without it is right, alone and together."""
    used = pieces(plan)
    windows = {i.name: (buffer_of(plan, i.name), (i.first, i.last)) for i in e.idle}
    assert e.load_step is not None or not e.idle
    for idle in e.idle:
        buffer, window = windows[idle.name]
        assert e.load_step is not None
        assert window[0] <= e.load_step.step < window[1]
        assert idle.load == highest(away(used, {buffer: window}))
        there = [p for p in used if p[0] == buffer and p[3] <= e.load_step.step < p[4]]
        assert idle.bytes == sum(p[2] - p[1] for p in there)
        assert idle.byte_steps == idle.bytes * (idle.last - idle.first)
        if plan.graph is not None and plan.buffers is not None:
            members = {t.name for t in plan.graph.tensors if buffer_of(plan, t.name) == buffer}
            ops = plan.graph.ops[window[0] : window[1]]
            assert not any(members & {*o.inputs, *o.outputs} for o in ops)
    for advice in e.advice:
        if advice.kind in ("offload", "hand_over", "without"):
            together = away(used, dict(windows[name] for name in advice.names))
            assert advice.load == highest(together)


def buffer_of(plan: memplan.Plan, name: str) -> int:
    if plan.graph is None or plan.buffers is None:
        return [slot.name for slot in plan].index(name)
    index = plan.graph.index(name)
    return -1 if index is None else int(plan.buffers.buffer_of_tensor[index])


def check_options(source: Any, plan: memplan.Plan, e: Explanation, **asked: Any) -> None:
    """What a change of options promises is the load of the plan with that change."""
    for advice in e.advice:
        changed = with_advice(advice, asked)
        if changed is not None:
            assert memplan.plan(source, "first_fit", **changed).load == advice.load < plan.load


def with_advice(advice: Advice, asked: Dict) -> Dict | None:
    """The options with the change, or both, None where it is not about options."""
    changed = with_change(advice.kind, advice.names, asked)
    return with_change(*advice.also, changed) if changed is not None and advice.also is not None else changed


def with_change(kind: str, names: tuple[str, ...], asked: Dict) -> Dict | None:
    return {
        "donate": {**asked, "donate": [*asked.get("donate", ()), *names]},
        "inplace": {**asked, "inplace": True},
        "zero_copy": {**asked, "zero_copy": True},
        "disable_inplace_ops": {
            **asked,
            "disable_inplace_ops": set(asked.get("disable_inplace_ops", ())) - set(names),
        },
        "INPLACE_OPS": {**asked, "inplace_ops": {*asked.get("inplace_ops", ()), *memplan.inplace_ops.INPLACE_OPS}},
        "inplace_ops": {**asked, "inplace_ops": {*asked.get("inplace_ops", ()), *names}},
    }.get(kind)


# Everywhere


@given(shaped_problems())
@BOUNDED
def test_figures_of_random_problems(case: Any) -> None:
    columns, parts, conflicts = case
    problem = memplan.Problem(*columns, None, parts or None, conflicts or None)
    plan = memplan.plan(problem, "first_fit" if not (parts or conflicts) else "greedy_by_size")
    e = plan.explain()
    check_figures(plan, e)
    if e.peak_step is not None:
        assert e.peak_step.load == oracle.load_at(columns, parts, e.peak_step.step)
    assert e.conflicts == (0 if problem.conflicts is None else len(problem.conflicts))


@given(st.one_of(graph_dicts(), relation_graphs()), st.booleans())
@bounded(100)
def test_figures_of_random_graphs(source: Dict, everything: bool) -> None:
    place = KINDS if everything else PLACED
    plan = memplan.plan(source, "greedy_by_size", place=place)
    e = plan.explain()
    check_figures(plan, e)
    check_savings(plan, e)
    check_alive(plan, e)
    assert all(b.rule in (*RULES, "") for b in e.blocked)


@pytest.mark.slow
@given(relation_graphs())
@settings(BOUNDED, max_examples=60)
def test_options_of_random_graphs(source: Dict) -> None:
    for o in source["ops"]:
        o["type"] = f"T{len(o['inputs'])}"
    for asked in ({}, {"inplace": False}, {"zero_copy": False}, {"disable_inplace_ops": ["T1"]}):
        plan = memplan.plan(source, "greedy_by_size", **asked)
        for advice in plan.explain().advice:
            changed = with_advice(advice, asked)
            if changed is not None:
                assert memplan.plan(source, "greedy_by_size", **changed).load == advice.load < plan.load


@pytest.mark.few(1)
@pytest.mark.parametrize("name", EVERY)
def test_figures_of_networks_and_instances(name: str, plans: dict[str, memplan.Plan]) -> None:
    plan = plans[name]
    e = plan.explain()
    check_figures(plan, e)
    check_savings(plan, e)
    check_alive(plan, e)
    check_chains(plan, e)


@pytest.mark.parametrize("name", [name for name in GRAPHS if name not in ("densenet", "transformer")])
def test_options_of_networks(name: str, plans: dict[str, memplan.Plan]) -> None:
    check_options(plans[name].graph, plans[name], plans[name].explain())


def check_alive(plan: memplan.Plan, e: Explanation) -> None:
    """Tensors that are named as alive have been written, and something still needs them."""
    if plan.graph is None or e.peak_step is None:
        return
    ops = {o.name: (step, o) for step, o in enumerate(plan.graph.ops)}
    for alive in e.alive:
        assert alive.born <= e.peak_step.step < alive.dies
        index = plan.graph.index(alive.name)
        if index is None:
            assert alive.why in ("workspace", "its storage is kept whole")
            continue
        info = plan.graph.tensor(index)
        assert (alive.shape, alive.dtype) == (None if info.shape is None else tuple(info.shape), info.dtype)
        if alive.op:
            assert alive.name in ops[alive.op][1].outputs or alive.why == "its storage is kept whole"
            assert ops[alive.op][0] == alive.born
            assert ops[alive.op][1].type == alive.op_type
        if alive.reader:
            step, reader = ops[alive.reader]
            assert step == alive.dies - 1
            assert {name for name in reader.inputs if buffer_of(plan, name) == buffer_of(plan, alive.name)}
            assert alive.why == f"read by {alive.reader}"
            assert (alive.via or alive.name) in reader.inputs
            later = [o for o in plan.graph.ops[alive.dies :] if alive.name in o.inputs]
            assert later == []


def check_chains(plan: memplan.Plan, e: Explanation) -> None:
    """Each of a chain takes over bytes of the one before it, and together they take that much less."""
    slots = {slot.name: slot for slot in plan}
    names = [name for chain in e.chains for name in chain.buffers]
    assert len(names) == len(set(names))
    assert [chain.saved for chain in e.chains] == sorted((chain.saved for chain in e.chains), reverse=True)
    for chain in e.chains:
        members = [slots[name] for name in chain.buffers]
        assert chain.bytes == sum(slot.bytes for slot in members)
        for one, other in itertools.pairwise(members):
            assert max(one.offset, other.offset) < min(one.end, other.end)
            assert one.last <= other.first or plan.problem.parts is not None
        ends = sorted({byte for slot in members for byte in (slot.offset, slot.end)})
        covered = [(a, b) for a, b in itertools.pairwise(ends) if any(s.offset <= a < s.end for s in members)]
        assert chain.saved == chain.bytes - sum(b - a for a, b in covered)


# Recomputing: the graph with ops run again is planned


def running_again(source: Dict, tensors: dict[str, int]) -> Dict:
    """A graph in which the op of each tensor runs again right before a step, and what comes later reads that."""
    source = copy.deepcopy(source)
    ops, known = source["ops"], {t["name"]: t for t in source["tensors"]}
    maker = {name: k for k, o in enumerate(ops) for name in o["outputs"]}
    show = {v["output"]: v["input"] for o in ops for v in o.get("alias", ())}
    runs: dict[int, list[Dict]] = {}
    for name, step in sorted(tensors.items(), key=lambda item: maker[item[0]]):
        new: dict[str, str] = {}

        def run(k: int, new: dict[str, str] = new, name: str = name, step: int = step) -> None:
            again = {key: ops[k][key] for key in ("type", "workspace") if key in ops[k]}
            outputs = {out: f"{out}.again.{name}" for out in ops[k]["outputs"]}
            source["tensors"] += [{**known[o], "name": n, "kind": "intermediate"} for o, n in outputs.items()]
            again["inputs"] = [new.get(i) or renamed(i, step) for i in ops[k]["inputs"]]
            views = [v for v in ops[k].get("alias", ()) if v["input"] in new]
            again["alias"] = [{**v, "output": outputs[v["output"]], "input": new[v["input"]]} for v in views]
            new.update(outputs)
            runs.setdefault(step, []).append(
                {**again, "name": f"{ops[k]['name']}.again.{name}", "outputs": [*outputs.values()]}
            )

        def renamed(read: str, step: int) -> str:
            return f"{read}.again.{read}" if step >= tensors.get(read, len(ops)) else read

        run(maker[name])
        for out in ops[maker[name]]["outputs"]:
            if out != name:
                del new[out]
        for view in show:
            if show[view] in new:
                run(maker[view])
        for later in ops[step:]:
            later.pop("loops", None)  # which name the inputs too
            later["inputs"] = [new.get(i, i) for i in later["inputs"]]
            for relation in ("alias", "inplace", "slice", "concat", "overwrite"):
                for entry in later.get(relation, ()):
                    entry["input"] = new.get(entry["input"], entry["input"])
    source["ops"] = [o for k, here in enumerate(ops) for o in (*runs.get(k, []), here)]
    return source


@pytest.mark.few(2)
@pytest.mark.parametrize("name", ["vgg16_b1_train", "densenet", "transformer", "resnet50_train"])
def test_recomputing_lowers_the_load_as_it_says(name: str, plans: dict[str, memplan.Plan]) -> None:
    plan = plans[name]
    e = plan.explain()
    assert plan.graph is not None
    advice = next(a for a in e.advice if a.kind == "recompute")
    assert set(advice.names) == {i.name for i in e.idle if i.recompute}
    again = running_again(plan.graph.to_dict(), {i.name: i.last for i in e.idle if i.recompute})
    assert memplan.plan(again, "first_fit").load <= advice.load < e.load


@pytest.mark.parametrize(
    ("reads", "found"),
    [
        (("big", "u kept a"), ["a", "kept"]),
        (("big", "u kept"), []),
        (("big a", "u kept"), ["a"]),  # a dies right before kept would be made from it
    ],
)
def test_recomputing_is_found_where_what_is_read_is_there(reads: tuple[str, str], found: list[str]) -> None:
    source = graph(
        [tensor("x", 1, "input"), tensor("big", 100), tensor("a", 90)],
        op("make", "x", "a", type="aten.mm.default"),
        op("relu", "a", "kept"),
        op("bulk", "x", "big", workspace=9),
        op("use", reads[0], "u"),
        op("end", reads[1], "y"),
        outputs="y",
    )
    e = memplan.plan(source).explain()
    assert sorted(i.name for i in e.idle if i.recompute) == found
    again = running_again(source, {i.name: i.last for i in e.idle if i.recompute})
    assert [memplan.plan(again).load] == ([a.load for a in e.advice if a.kind == "recompute"] or [e.load])


def test_the_workspace_of_what_runs_again_counts() -> None:
    source = graph(
        [tensor("x", 1, "input"), tensor("big", 100), tensor("a", 90)],
        op("make", "x", "a", workspace=60),
        op("bulk", "x", "big"),
        op("use", "big", "u"),
        op("end", "u a", "y"),
        outputs="y",
    )
    e = memplan.plan(source).explain()
    advice = next(a for a in e.advice if a.kind == "recompute")
    assert memplan.plan(running_again(source, {"a": 3})).load == advice.load == 90 + 60 + 8


def test_idle_steps_end_where_an_op_only_looks() -> None:
    """peek makes and frees nothing, but a is in use there, at the highest load."""
    source = graph(
        [X, tensor("big", 100)],
        op("make", "x", "a"),
        op("bulk", "x", "big"),
        op("peek", "a", ""),
        op("end", "big a", ""),
    )
    e = memplan.plan(source).explain()
    assert [(i.name, i.first, i.last, i.load) for i in e.idle] == [("a", 1, 2, 108)]
    assert e.advice == ()


@pytest.mark.parametrize(
    "type", ["aten.native_dropout.default", "aten.bernoulli_.float", "aten.rand.default", "Dropout", ""]
)
def test_what_may_not_run_again_is_not_recomputed(type: str) -> None:
    """What is drawn by chance, by its type; and what the graph says."""
    source = graph(
        [X, tensor("big", 100), tensor("a", 100)],
        op("make", "x", "a", type=type, recompute=type != ""),
        op("bulk", "x", "big", workspace=50),
        op("end", "big a", "y"),
        outputs="y",
    )
    assert [i.name for i in memplan.plan(source).explain().idle] == ["a"]
    assert not any(i.recompute for i in memplan.plan(source).explain().idle)


def test_what_was_changed_since_is_not_recomputed() -> None:
    bulk = op("bulk", "x", "big", workspace=50)
    ops = [op("make", "x", "a", type="aten.empty_like.default"), bulk, op("end", "big a", "y")]
    tensors = [X, tensor("big", 100), tensor("a", 100)]
    assert any(i.recompute for i in memplan.plan(graph(tensors, *ops, outputs="y")).explain().idle)
    ops.insert(1, op("draw", "a", "", type="aten.bernoulli_.float"))
    assert not any(i.recompute for i in memplan.plan(graph(tensors, *ops, outputs="y")).explain().idle)


# Rules: which one forbids, and what is won without it


def relu(**more: Any) -> Dict:
    return op("relu", "t", "y", type="Relu", **more)


MAKE = op("make", "x", "t", type="Conv")
RULE_CASES: dict[str, tuple[Dict, Dict]] = {
    "disabled": (graph([X], MAKE, relu(inplace=["y t"]), outputs="y"), {"inplace": False}),
    "not listed": (graph([X], MAKE, relu(), outputs="y"), {}),
    "not donated": (graph([X], op("relu", "x", "y", type="Relu", inplace=["y x"]), outputs="y"), {}),
    "reads for others": (graph([X], MAKE, op("mm", "t", "y", type="aten.mm.default"), outputs="y"), {}),
    "read later": (graph([X], MAKE, relu(inplace=["y t"]), op("add", "y t", "")), {}),
    "kept": (graph([X], MAKE, relu(inplace=["y t"]), outputs="y t"), {}),
    "too small": (graph([X, tensor("t", 4), tensor("y", 8)], MAKE, relu(inplace=["y t"]), outputs="y"), {}),
    "harmful": (
        graph([tensor("x", 9, "input"), tensor("t", 9)], MAKE, relu(inplace=["y t 1"]), outputs="y"),
        {"alignment": 4},
    ),
}


@pytest.mark.parametrize("rule", RULE_CASES)
def test_a_rule_that_keeps_an_output_out_of_its_input(rule: str) -> None:
    source, asked = RULE_CASES[rule]
    e = memplan.plan(source, **asked).explain()
    blocked = {b.output: b for b in e.blocked}
    assert blocked["y"].rule == rule
    assert blocked["y"].bytes == 8
    assert blocked["y"].input in blocked["y"].reason


def test_every_rule_has_a_case() -> None:
    assert set(RULE_CASES) == set(RULES)


@pytest.mark.parametrize(
    ("rule", "kind", "names"),
    [
        ("disabled", "inplace", ()),
        ("not listed", "INPLACE_OPS", ("Relu",)),
        ("not donated", "donate", ("x",)),
    ],
)
def test_what_an_option_forbids_is_advised(rule: str, kind: str, names: tuple[str, ...]) -> None:
    source, asked = RULE_CASES[rule]
    plan = memplan.plan(source, **asked)
    advice = [a for a in plan.explain().advice if a.kind == kind]
    assert [a.names for a in advice] == [names]
    check_options(source, plan, plan.explain(), **asked)


def test_types_that_are_disabled_are_advised_one_by_one() -> None:
    source = graph([X], MAKE, relu(inplace=["y t"]), outputs="y")
    asked = {"disable_inplace_ops": ["Relu", "Add"]}
    e = memplan.plan(source, **asked).explain()
    assert [(a.kind, a.names, a.load) for a in e.advice] == [("disable_inplace_ops", ("Relu",), 8)]


def test_types_whose_kernels_would_have_to_allow_it_come_last() -> None:
    source = graph([X], MAKE, op("soft", "t", "y", type="Softmax"), outputs="y")
    e = memplan.plan(source).explain()
    assert [(a.kind, a.names, a.load, a.bytes) for a in e.advice] == [("inplace_ops", ("Softmax",), 8, 8)]
    assert "Softmax in place, if its kernel may write over what it reads" in str(e)


def test_a_saving_too_small_to_say_gives_way_to_a_kernel_that_would_help() -> None:
    tensors = [tensor(name, 10_000) for name in ("t", "y")]
    source = {
        "tensors": tensors,
        "ops": [op("make", "", "t"), op("soft", "t", "y", type="Softmax")],
        "outputs": ["y"],
    }
    e = memplan.plan(source).explain()
    (softmax,) = e.advice
    said = str(replace(e, advice=(Advice("recompute", ("t",), e.load - 1, 1), softmax)))
    (helps,) = re.findall(r"The load would be lower with [^.]*", said)
    assert helps.startswith("The load would be lower with Softmax in place")


@pytest.mark.parametrize(("loss", "found"), [(4, 0), (500, 1), (5_000, 1)])
def test_what_nobody_would_act_on_is_no_advice(loss: int, found: int) -> None:
    """A loss is an output that is made early; handing it over then brings its bytes, of 100,000."""
    source = graph(
        [tensor("x", 1, "input"), tensor("loss", loss, "output"), tensor("wide", 100_000), tensor("y", 8, "output")],
        op("forward", "x", "loss"),
        op("widen", "x", "wide"),
        op("backward", "wide", "y"),
        outputs="loss y",
    )
    e = memplan.plan(source).explain()
    assert ("hand_over" in [a.kind for a in e.advice]) == bool(found)
    text = str(e)
    assert ("Nothing that was tried alone lowers the load by a percent or more." in text) == (loss < 1000)
    assert ("nothing that was tried alone, by a percent or more" in text) == (loss < 1000)


def test_two_changes_that_help_together_only_are_found() -> None:
    """A step that writes a row into each of two caches: neither donating them nor writing in place helps alone."""
    caches = [tensor(name, 1 << 16, "input") for name in ("k", "v")]
    rows = [tensor("row", 64, "input")]
    made = [tensor(name, 1 << 16) for name in ("k1", "v1")]
    source = {
        "tensors": [*caches, *rows, *made],
        "ops": [
            {"name": f"write_{name}", "type": "mine.update_row", "inputs": [name, "row"], "outputs": [f"{name}1"]}
            for name in ("k", "v")
        ],
        "outputs": ["k1", "v1"],
    }
    plan = memplan.plan(source)
    assert plan.load == 2 << 16
    (advice,) = [a for a in plan.explain().advice if a.also is not None]
    assert (advice.kind, advice.names, advice.load) == ("donate", ("k", "v"), 0)
    assert not [a for a in plan.explain().advice if a.also is None and a.kind in ("donate", "inplace_ops")]
    assert advice.also == ("inplace_ops", ("mine.update_row",))
    check_options(source, plan, plan.explain())
    said = " ".join(str(plan.explain()).split())
    assert "donate=['k', 'v'] and mine.update_row in place, if its kernel may write over what it reads (0 B" in said


def test_pairs_are_not_tried_where_one_change_does_all() -> None:
    source = graph([X], MAKE, op("soft", "t", "y", type="Softmax"), outputs="y")
    assert [a.also for a in memplan.plan(source).explain().advice] == [None]


def test_only_the_inputs_that_matter_are_to_be_donated() -> None:
    small = tensor("s", 1, "input")
    ops = [op("other", "s", "o", inplace=["o s"]), op("relu", "x", "y", inplace=["y x"]), op("end", "y", "z")]
    e = memplan.plan(graph([X, small, tensor("o", 1)], *ops, outputs="z")).explain()
    assert [(a.kind, a.names) for a in e.advice if a.kind == "donate"] == [("donate", ("x",))]


def test_a_later_reader_is_named_through_the_view_that_it_reads() -> None:
    source = graph(
        [X],
        MAKE,
        op("view", "t", "v", alias=["v t"]),
        relu(inplace=["y t"]),
        op("late", "v y", "", type="Add"),
    )
    e = memplan.plan(source).explain()
    reasons = {b.output: b.reason for b in e.blocked}
    assert reasons["y"] == "t, as v, is read by late"
    assert {(a.name, a.why, a.via) for a in e.alive} >= {("t", "read by late", "v")}


# What is in use


def test_values_are_counted_once_and_named_by_what_wrote_them() -> None:
    source = graph(
        [X, tensor("c", 16), tensor("v", 16), tensor("out", 1)],
        op("p", "x", "p", type="Conv"),
        op("q", "p", "q", type="Conv"),
        op("join", "p q", "c", type="Concat", concat=["c p", "c q 8"]),
        op("view", "c", "v", alias=["v c"]),
        op("end", "v", "out"),
        outputs="out",
    )
    plan = memplan.plan(source)
    assert len(plan) == 2
    e = plan.explain()
    assert e.peak_step is not None
    assert e.peak_step.op == "end"
    assert [(a.name, a.bytes, a.op, a.why, a.via) for a in e.alive] == [
        ("c", 16, "join", "read by end", "v"),
        ("out", 1, "end", "graph output", ""),
    ]


def test_bytes_that_change_hands_are_those_of_what_is_written() -> None:
    source = graph([X], op("make", "x", "t"), op("relu", "t", "y", inplace=["y t"], workspace=4), outputs="y")
    assert [a.name for a in memplan.plan(source).explain().alive] == ["y", "relu.workspace"]


def test_steps_at_nine_tenths_of_the_load_count() -> None:
    assert memplan.plan(memplan.Problem([10, 9, 8], [0, 1, 3], [1, 3, 4])).explain().crowded == 3


def test_what_is_kept_without_a_reader() -> None:
    source = graph([X, W], op("a", "x", "y t", workspace=8), outputs="y")
    e = memplan.plan(source, place=("input", "weight", "intermediate", "output", "workspace")).explain()
    assert {(a.name, a.why, a.op, a.op_type) for a in e.alive} == {
        ("x", "read by a", "", "input"),
        ("w", "weight", "", "weight"),
        ("y", "graph output", "a", ""),
        ("t", "nothing reads it", "a", ""),
        ("a.workspace", "workspace", "a", ""),
    }


def test_shapes_and_dtypes_are_shown_where_the_graph_knows_them() -> None:
    example = memplan.plan(DenseNet(), args=(torch.randn(2, 4, 16, 16),)).explain()
    largest = example.alive[0]
    assert largest.dtype == "float32"
    assert largest.shape is not None
    assert np.prod(largest.shape) * 4 == largest.bytes
    assert f"float32[{','.join(map(str, largest.shape))}]" in str(example)


# Text, HTML, JSON


def test_the_first_sentences() -> None:
    plan = memplan.plan("example:resnet50_train", "first_fit")
    what, how_far, helps, orders = sentences(plan)
    assert what.startswith("Step 842, add_12, makes the peak of 163.47 MiB: 177 tensors hold 144.88 MiB there")
    assert what.endswith("most bytes, 157.86 MiB, are in use at step 723, add_8.")
    assert how_far.startswith("The peak is 5.61 MiB (3.552%) above the load")
    assert "and a better plan in this order could win at most that" in how_far
    assert helps == (
        'The load would be lower with order="best" (150.06 MiB, 4.9% less), or with 90 graph outputs handed over when '
        "made, not at the end (90.15 MiB, 42.9% less)."
    )
    assert orders.startswith('With order="best" the ops need 150.06 MiB, 4.9% less, and no order needs less: add_8')
    assert "<h2>first_fit: 557 buffers in 163.47 MiB</h2>" in plan.explain()._repr_html_()


def sentences(plan: memplan.Plan) -> tuple[str, ...]:
    found = plan.explain().sentences
    text = " ".join(str(plan.explain()).split())
    assert text.startswith(" ".join(found))
    return found


def test_what_is_proven_is_said() -> None:
    problem = memplan.Problem([4, 2, 4, 4], [1, 2, 4, 2], [2, 4, 7, 5])
    assert "best possible for these lifetimes: it equals the load" in sentences(memplan.plan(problem))[1]
    assert "(25.000%) above the load" in sentences(memplan.plan(problem, "first_fit"))[1]
    higher = memplan.plan(memplan.Problem([3, 3], [0, 0], [1, 1], 4), "exhaustive")
    assert (higher.peak, higher.load, higher.optimal) == (7, 6, True)
    assert "it equals a proven lower bound" in sentences(higher)[1]
    assert "all of it proven unavoidable" in str(higher.explain())


def test_pairs_that_never_share_bytes_are_said() -> None:
    problem = memplan.Problem([4, 4], [0, 1], [1, 2], 1, None, None, [[0, 1]])
    plan = memplan.plan(problem, "greedy_by_size")
    assert (plan.peak, plan.load) == (8, 4)
    assert "a proven lower bound, the bytes of 2 buffers of which no two may share any" in sentences(plan)[1]


def test_nothing_helps_where_two_steps_are_as_high() -> None:
    plan = memplan.plan(memplan.Problem([4, 2, 4], [0, 1, 2], [1, 2, 3]))
    assert sentences(plan)[2] == "Nothing that was tried alone lowers the load: it is as high at step 2."


@pytest.mark.parametrize("source", [([], [], []), ([0], [0], [1])], ids=["no buffers", "no bytes"])
def test_a_plan_of_nothing(source: Any) -> None:
    e = memplan.plan(source).explain()
    assert str(e) == "No buffer has bytes: there is nothing to place."
    assert "nothing to place" in e._repr_html_()


def test_json_holds_every_field(tmp_path: Path, plans: dict[str, memplan.Plan]) -> None:
    e = plans["densenet"].explain()
    e.to_json(tmp_path / "e.json")
    spec = json.loads((tmp_path / "e.json").read_text(encoding="utf-8"))
    assert (spec["format"], spec["version"]) == ("memplan.explanation", 1)
    assert spec["peak_step"] == vars(e.peak_step)
    assert [a["name"] for a in spec["alive"]] == [a.name for a in e.alive]
    assert set(spec) == {"format", "version", "memplan", *Explanation.__dataclass_fields__} - {"plan"}


def test_the_page_shows_what_the_text_shows(tmp_path: Path, plans: dict[str, memplan.Plan]) -> None:
    plan = plans["vgg16_b1_train"]
    e = plan.explain()
    e.to_html(tmp_path / "e.html")
    page = Page((tmp_path / "e.html").read_text(encoding="utf-8"))
    assert tuple(text for tag, text in page.found if tag == "p")[:4] == sentences(plan)
    cells = {text for tag, text in page.found if tag == "td"}
    assert {a.name for a in e.alive[:12]} <= cells
    assert "svg" in e._repr_html_()


def test_names_are_escaped(tmp_path: Path) -> None:
    plan = memplan.plan(memplan.Problem([4], [0], [1], names=["<b>\n&"]))
    page = Page(plan.explain()._repr_html_())
    assert ("td", "<b>\\n&") in page.found
    assert "<b>\\n&" in str(plan.explain())


def test_the_same_plan_has_the_same_page(plans: dict[str, memplan.Plan]) -> None:
    e = plans["A"].explain()
    assert "memplan" in e._repr_html_()
    assert str(e) == str(plans["A"].explain())


def test_the_document_shows_real_output() -> None:
    text = (ROOT / "docs" / "explain.md").read_text(encoding="utf-8")
    plan = memplan.plan("example:gpt2_train", "first_fit")
    other = memplan.plan("example:gpt2_train", "first_fit", inplace_ops=memplan.inplace_ops.INPLACE_OPS)
    best = memplan.plan("example:resnet50_train", order="best")
    shown_of = (plan.explain(), plan.reuse("pow_14"), plan.diff(other), best.explain())
    real = "\n\n".join(map(str, shown_of))
    shown = re.findall(r"```text\n(.*?)\n```", text, re.DOTALL)
    assert len(shown) == 7
    for block in shown:
        end = "" if block.startswith(("In use at", "Why no order")) else "\n\n"  # these tables are shown in part
        assert block + end in real + "\n\n"
    for rule in RULES:
        assert f'"{rule}"' in text


def test_it_says_what_pieces_would_bring() -> None:
    source = wide_blocks(1)
    plan = memplan.plan(source)
    e = plan.explain()
    (advice,) = [a for a in e.advice if a.kind == "split"]
    assert advice.names == ("wide0", "window0")
    applied = e.apply("split")
    assert applied.load == advice.load <= e.load / 2
    assert [change.tensors for change in applied.changes] == [advice.names]
    assert applied.added_cost > 0
    assert e.load_step is not None
    used = memplan.plan(applied.graph).problem.load_curve()[1]
    assert e.load - advice.bytes <= max(used) == advice.load
    assert any("ops in pieces, so that wide0, window0 are never whole" in text for text in e.sentences)
    silent = {**source, "ops": [{name: op[name] for name in op if name != "loops"} for op in source["ops"]]}
    assert not [a for a in memplan.plan(silent).explain().advice if a.kind == "split"]
