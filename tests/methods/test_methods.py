"""Several methods in one arena: what stays lies at one place, nothing else uses its bytes, and the peak is proven."""

from __future__ import annotations

import copy
import json
import pickle
import random
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import memplan
from builders import graphs
from builders.plans import places_of
from builders.strategies import bounded, places, relation_graphs
from memplan.plans.crossing import crossings
from oracles.machine import Machine


def model(length: int, cache: int = 512, kind: str = "input") -> dict[str, Any]:
    """A step of attention over `length` tokens, which reads a cache and writes it anew."""
    sizes = {"h": 64 * length, "q": 64 * length, "new": cache, "s": 32 * length, "y": 16 * length}
    return graphs.graph(
        [
            graphs.tensor("x", 4 * length, "input"),
            graphs.tensor("w", 400, "weight"),
            graphs.tensor("cache", cache, kind),
            *({"name": name, "bytes": size} for name, size in sizes.items()),
        ],
        graphs.op("embed", "x", "h"),
        graphs.op("query", "h w", "q"),
        graphs.op("put", "cache h", "new", inplace=["new cache"]),
        graphs.op("attend", "q new", "s"),
        graphs.op("project", "s", "y"),
        outputs="y new",
    )


BOTH = {"cache": {"prefill": ("cache", "new"), "decode": ("cache", "new")}}
METHODS = {"prefill": model(32), "decode": model(1)}


def test_what_stays_lies_at_one_place_and_the_rest_overlaps() -> None:
    many = memplan.plan_many(METHODS, shared=BOTH)
    (stays,) = many.shared
    for method in many:
        plan = many[method]
        assert plan["cache"].offset == plan["new"].offset == stays.offset
        assert [(s.how, s.output, s.input) for s in plan.sharing if s.input == "cache"] == [("inplace", "new", "cache")]
        plan.verify()
    assert (many.peak, many.lower_bound, many.optimal, many.gap) == (2 * 2048 + 512, 2 * 2048 + 512, True, 0)
    assert {name: plan.lower_bound for name, plan in many.methods.items()} == {"prefill": many.peak, "decode": 640}
    assert many.separate == many.peak + 640
    assert len(many) == 2
    assert many.problem.load == many.peak
    assert many.offsets.tolist() == many.whole.offsets.tolist()


def test_names_may_differ_and_a_method_may_write_only() -> None:
    many = memplan.plan_many(
        METHODS, shared={"cache": {"prefill": "new", "decode": ["cache", "new"]}}, alignment=64, order="best"
    )
    assert many["prefill"]["new"].offset == many["decode"]["cache"].offset == many.shared[0].offset
    assert "cache" not in many["prefill"].tensors.names  # the caller's, as it would be alone
    assert many["prefill"].ordered_by == "best"
    prefill = many["prefill"]
    assert prefill.problem.first[prefill.buffer_of("new")] == 0  # its bytes are not lent before it is written


def test_an_output_that_stays_is_not_lent_before_it_is_written() -> None:
    """Alone, `new` would take the bytes of what is dead by then: the peak would be 4096."""
    graph = model(32)
    embed, query, put, attend, project = graph["ops"]
    put["inputs"], attend["inputs"], put["inplace"] = ["s"], ["q"], []
    graph["ops"] = [embed, query, attend, project, put]
    many = memplan.plan_many({"a": graph, "b": model(1)}, shared={"cache": {"a": "new", "b": ("cache", "new")}})
    assert memplan.plan(graph).peak < many.peak == many.lower_bound == 2 * 2048 + 512


def test_weights_stay_and_other_weights_do_not_move() -> None:
    methods = {"a": model(8, kind="weight"), "b": model(4, kind="weight")}
    many = memplan.plan_many(methods, shared=["cache"])
    assert many["a"]["cache"].offset == many["b"]["cache"].offset
    assert "w" not in many["a"].tensors.names
    placed = memplan.plan_many(methods, shared=["cache"], place=("weight", "intermediate", "output", "workspace"))
    assert "w" in placed["a"].tensors.names
    both = memplan.plan_many(methods, shared=["cache", "w"])
    assert both["a"]["w"].offset == both["b"]["w"].offset
    assert many["a"].graph == memplan.capture(methods["a"]).graph
    inputs = memplan.plan_many(methods, shared=["cache"], place=("input", "intermediate", "output", "workspace"))
    assert "x" in inputs["a"].tensors.names
    assert "w" not in inputs["a"].tensors.names


def test_problems_and_graphs_share_an_arena() -> None:
    problem = memplan.Problem([512, 64, 32], [5, 6, 8], [6, 9, 10], names=["state", "t", "u"])
    many = memplan.plan_many(
        {"graph": model(2), "problem": problem},
        shared={"cache": {"graph": ("cache", "new"), "problem": "state"}},
    )
    plan = many["problem"]
    assert plan["state"].offset == many["graph"]["cache"].offset
    assert (plan.problem.first[0], plan.problem.last[0]) == (5, 10)
    assert many.optimal
    assert memplan.plan_many({"a": ([4, 4], [0, 1], [1, 2]), "b": ([6], [0], [3])}).peak == 6


def test_pins_reserved_bytes_and_conflicts_are_carried() -> None:
    many = memplan.plan_many(
        METHODS,
        shared=BOTH,
        reserved=[(0, 64)],
        each={"decode": {"pin": {"cache": 1024}, "apart": [("h", "y")], "together": [("h", "q", 64)]}},
    )
    assert many["prefill"]["new"].offset == 1024
    assert min(many.offsets.tolist()) >= 64
    decode = many["decode"]
    assert decode["q"].offset == decode["h"].offset + 64
    assert not set(range(decode["h"].offset, decode["h"].offset + 64)) & {decode["y"].offset}
    with pytest.raises(ValueError, match="shared 'cache' is pinned to 0 in 'prefill', and to 1024 in 'decode'"):
        memplan.plan_many(
            METHODS, shared=BOTH, each={"prefill": {"pin": {"new": 0}}, "decode": {"pin": {"cache": 1024}}}
        )
    streams = model(2)
    streams["ops"][1]["stream"] = 1
    assert memplan.plan_many({"a": streams, "b": model(2)}, shared={"c": {"a": "new", "b": "new"}}).peak > 0


def test_what_is_reserved_in_a_method_is_so_while_it_runs() -> None:
    graph = graphs.graph("x 64, y 64", graphs.op("make", "", "x"), graphs.op("use", "x", "y"), outputs="y")
    many = memplan.plan_many({"one": graph, "two": graph}, each={"two": {"reserved": [(0, 64, 1, 2)]}})
    assert sorted(many["one"].offsets.tolist()) == [0, 64]
    assert sorted(many["two"].offsets.tolist()) == [64, 128]


def test_branches_of_which_a_run_takes_one_are_carried() -> None:
    graph = graphs.graph(
        "x 4 input, a 64, b 64, y 4",
        graphs.op("then", "x", "a"),
        graphs.op("else", "x", "b"),
        graphs.op("join", "a b", "y"),
        outputs="y",
    )
    exclusive = [[["then"], ["else"]]]
    alone = memplan.plan(graph, exclusive=exclusive)
    many = memplan.plan_many({"one": graph, "two": graph}, shared=["y"], exclusive=exclusive)
    assert many.peak == alone.peak == 64 + 4 < memplan.plan(graph).peak


def test_parts_of_a_tensor_stay() -> None:
    """Two halves of a weight are shared, and a method has one of them alone."""

    def halves(*names: str) -> dict[str, Any]:
        views = [{"output": name, "input": "kv", "offset": 32 * (name == "v")} for name in names]
        return {
            "tensors": [
                {"name": "kv", "bytes": 64, "kind": "weight"},
                *({"name": name, "bytes": 32} for name in names),
                {"name": "t", "bytes": 48},
            ],
            "ops": [
                {"name": "view", "inputs": ["kv"], "outputs": list(names), "alias": views},
                {"name": "use", "inputs": list(names), "outputs": ["t"]},
            ],
            "outputs": ["t"],
        }

    alone = graphs.graph("v 32 input, o 80", graphs.op("op", "v", "o"), outputs="o")
    many = memplan.plan_many({"both": halves("k", "v"), "one": alone}, shared=["k", "v"])
    assert many["both"]["v"].offset == many["both"]["kv"].offset + 32 == many["one"]["v"].offset
    assert many.peak == 64 + 80
    part = memplan.plan_many({"both": halves("v"), "one": alone}, shared=["v"], alignment=16)
    assert part["both"]["v"].offset == part["one"]["v"].offset
    assert part.peak == 32 + 80  # the rest of kv is free in the other method
    names = {"k": {"both": "k", "one": "v"}}
    below = memplan.plan_many({"both": halves("k"), "one": alone}, shared=names, alignment=16)
    assert below["both"]["k"].offset == below["one"]["v"].offset
    assert below.peak == 32 + 80  # so it is where the rest lies above


def test_slices_of_what_stays_lie_in_it_unless_something_is_written_over_them() -> None:
    graph = graphs.graph(
        "cache 8 input, part 4, new 4",
        graphs.op("cut", "cache", "part", slice=["part cache"]),
        graphs.op("add", "part", "new", inplace=["new part"]),
        outputs="new",
    )
    many = memplan.plan_many({"step": graph}, shared=["cache"])
    places = {name: many["step"][name].offset for name in ("cache", "part", "new")}
    assert (many.peak, places) == (12, {"cache": 0, "part": 0, "new": 8})
    written = moved(many, "step", "new", 0)
    assert [fault.message for fault in crossings(written.methods, many.shared, many.peak)] == [
        "method 'step': tensor 'new' uses the bytes [0, 4), but [0, 8) are those of 'cache', which stays"
    ]


def test_a_tensor_may_stay_for_one_method_alone() -> None:
    many = memplan.plan_many(METHODS, shared={"mine": {"decode": ("cache", "new")}})
    assert many.peak == 2 * 2048 + 512 + 512
    assert many.shared[0].tensors == {"decode": ("cache", "new")}


@pytest.mark.parametrize(
    ("shared", "message"),
    [
        (["cash"], "shared must name tensors of the methods, got 'cash'; did you mean 'cache'"),
        ("cache", "shared must be names such as"),
        ({"cache": "x"}, "shared must be names such as"),
        ({"cache": {}}, r"shared\['cache'\] must name a tensor of some method, got none"),
        ({"c": {"prefil": "cache"}}, "must be by method, got 'prefil'; did you mean 'prefill'"),
        ({"c": {"prefill": "cash"}}, "must name tensors of that method, got 'cash'; did you mean 'cache'"),
        ({"c": {"prefill": ("a", "b", "c")}}, r"shared\['c'\]\['prefill'\] must be a name, or two"),
        (["h"], "shared 'h' must have as many bytes in all methods: 'h' of 'prefill' has 2048, and 'h' of 'decode' "),
        ({"c": {"prefill": "h"}}, "shared 'c' in method 'prefill': 'h' is an intermediate: what stays must be"),
        ({"c": {"prefill": ("x", "y")}}, "shared 'c' must have as many bytes"),
        ({"a": {"prefill": "new"}, "b": {"prefill": "new"}}, "its bytes are those of 'a', which is shared too"),
    ],
)
def test_what_cannot_be_shared_is_named(shared: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        memplan.plan_many(METHODS, shared=shared)


def test_what_may_be_meant_is_offered_caches_first() -> None:
    """Weights come last, and what cannot stay not at all."""
    with pytest.raises(ValueError, match=r"got 'kv'; the tensors are 'cache', 'new', 'x', 'y', 'w'$"):
        memplan.plan_many(METHODS, shared=["kv"])
    with pytest.raises(ValueError, match=r"got 'kv'; the tensors are 'cache', 'new', 'x', 'y', 'w'$"):
        memplan.plan_many(METHODS, shared={"kv": {"decode": "kv"}})


def test_what_is_read_later_cannot_be_written_over() -> None:
    graph = model(2)
    graph["ops"][3]["inputs"].append("cache")
    with pytest.raises(ValueError, match=r"method 'a': 'cache' cannot stay where it is: .*'attend'.*'cache'"):
        memplan.plan_many({"a": graph}, shared={"cache": {"a": ("cache", "new")}})
    graph = model(2)
    del graph["ops"][2]["inplace"]
    with pytest.raises(ValueError, match=r"'new' must be written over 'cache' in place, but op 'put' \(\) may"):
        memplan.plan_many({"a": graph}, shared={"cache": {"a": ("cache", "new")}})
    with pytest.raises(ValueError, match="'cache' must be a whole input to be written over by 'new'"):
        memplan.plan_many({"a": model(2, kind="weight")}, shared={"cache": {"a": ("cache", "new")}})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pools": [memplan.plans.Pool("a")]}, "plan_many takes no option 'pools'"),
        ({"keep": {}}, "plan_many takes no option 'keep'"),
        ({"each": {"decode": {"capacity": 4}}}, r"each\['decode'\]: plan_many takes no option 'capacity'"),
        ({"each": {"decod": {}}}, "each must be by method, got 'decod'; did you mean 'decode'"),
        ({"each": {"decode": 4}}, "each must be options by method"),
        ({"exclude": ["new"]}, "shared 'cache' in method 'prefill': 'new' is excluded from the arena"),
        ({"donate": ["z"]}, "method 'prefill': donate must name graph inputs, got 'z'"),
        ({"donate": ["w"]}, "method 'prefill': donate must name graph inputs, got 'w', which is of kind weight"),
        ({"donate": ["cache"]}, "method 'prefill': donate names 'cache', which stays between the methods as 'cache'"),
        ({"capacity": 100}, "100"),
    ],
)
def test_what_does_not_go_with_methods_is_refused_by_name(options: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        memplan.plan_many(METHODS, shared=BOTH, **options)
    with pytest.raises(TypeError, match="methods must be sources by name"):
        memplan.plan_many([model(1)])  # type: ignore[arg-type]


def test_a_capacity_is_that_of_the_common_arena() -> None:
    least = memplan.plan_many(METHODS, shared=BOTH).peak
    assert memplan.plan_many(METHODS, shared=BOTH, capacity=least, time_limit=60, seed=1, threads=1).peak == least
    with pytest.raises(memplan.InfeasibleError) as caught:
        memplan.plan_many(METHODS, shared=BOTH, capacity=least - 1)
    assert caught.value.proven
    assert caught.value.problem is not None


def test_any_planner_will_do() -> None:
    many = memplan.plan_many(METHODS, "naive", shared=BOTH)
    assert many.peak > many.lower_bound
    assert not many.optimal
    assert "gap" in str(many)
    assert "gap" in repr(many)
    with pytest.raises(memplan.InfeasibleError):
        memplan.plan_many(METHODS, "naive", shared=BOTH, capacity=many.peak - 1)


def test_a_state_of_a_problem_has_the_columns_that_methods_carry() -> None:
    """Whoever adds a column to problems has to carry it into the joint problem, or refuse it."""
    columns = [column for column in dir(memplan.Problem) if isinstance(getattr(memplan.Problem, column), property)]
    assert set(columns) == {
        *("size", "first", "last", "alignment", "names", "parts", "conflicts", "pins", "reserved", "together"),
        *("branches", "load", "aligned_load"),
    }


# The check across methods


def moved(many: memplan.methods.MethodsPlan, method: str, name: str, offset: int) -> memplan.methods.MethodsPlan:
    """With one buffer of a method elsewhere."""
    plan = many[method]
    offsets = plan.offsets.copy()
    offsets[plan.buffer_of(name)] = offset
    peak = int((offsets + plan.problem.size).max())
    return replace(many, methods={**many.methods, method: replace(plan, offsets=offsets, peak=peak)})


def test_the_check_across_methods_sees_what_each_plan_alone_does_not() -> None:
    """A method that does not have the cache may not use its bytes, and both must have it at one place."""
    many = memplan.plan_many({**METHODS, "other": model(4)}, shared={"cache": BOTH["cache"]})
    (stays,) = many.shared
    intruding = moved(many, "other", "q", stays.offset)
    found = crossings(intruding.methods, many.shared, many.peak)
    assert next(fault.message for fault in found).startswith("method 'other': tensor 'q' uses the bytes [")
    elsewhere = moved(many, "decode", "cache", stays.offset + 8)
    messages = [fault.message for fault in crossings(elsewhere.methods, many.shared, many.peak)]
    assert any("'cache', which is shared as 'cache', is at [8, 520); it must be at [0, 512)" in m for m in messages)
    beyond = moved(many, "other", "q", many.peak)
    assert "beyond the arena" in crossings(beyond.methods, many.shared, many.peak)[0].message


def test_a_plan_whose_methods_are_valid_alone_is_refused() -> None:
    """Decode as it is planned alone is a valid plan, but its cache is elsewhere, or its tensors are in the cache."""
    many = memplan.plan_many(METHODS, shared=BOTH, each={"prefill": {"pin": {"cache": 4096}}})
    alone = memplan.plan_many({"decode": METHODS["decode"]}, shared={"cache": {"decode": ("cache", "new")}})["decode"]
    alone.verify()
    with pytest.raises(memplan.errors.InvalidPlanError, match="'cache', which is shared as 'cache', is at"):
        replace(many, methods={**many.methods, "decode": alone}).verify()
    other = memplan.plan(model(8))
    other.verify()
    mixed = replace(many, methods={**many.methods, "other": replace(other, offsets=other.offsets + 4000)})
    mixed.methods["other"].__dict__["peak"] = other.peak + 4000
    with pytest.raises(memplan.errors.InvalidPlanError, match="those of 'cache', which stays"):
        mixed.verify()
    broken = moved(many, "decode", "h", many["decode"]["q"].offset)
    with pytest.raises(memplan.errors.InvalidPlanError, match="method 'decode': "):
        broken.verify()


# Bytes that run


@given(relation_graphs(), relation_graphs(), places, st.data())
@bounded(25)
def test_methods_that_run_in_one_arena_compute_what_they_compute_apart(
    one: dict[str, Any], other: dict[str, Any], place: list[str], data: st.DataObject
) -> None:
    graphs = {"a": one, "b": copy.deepcopy(one), "c": other}
    given = [t["name"] for t in one["tensors"] if t["kind"] in ("input", "weight")]
    names = sorted({*given, *one["outputs"]})
    chosen = data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
    shared: dict[str, dict[str, tuple[str, ...]]] = {n: {"a": (n,), "b": (n,)} for n in chosen}
    pairs = [(v["input"], v["output"]) for op in one["ops"] for v in op.get("inplace", ()) if not v["offset"]]
    if pairs and data.draw(st.booleans()):
        pair = data.draw(st.sampled_from(pairs))
        shared = {"pair": {"a": pair, "b": pair}}
    try:
        many = memplan.plan_many(graphs, shared=shared, place=place)
    except ValueError:  # it cannot stay
        assume(False)
        return
    many.verify()
    graph_dicts = {m: many[m].graph.to_dict() for m in many}  # type: ignore[union-attr]
    where = {m: places_of(many[m]) for m in many}
    apart, together = Machine(graph_dicts, shared), Machine(graph_dicts, shared, where, many.peak)
    for turn, method in enumerate(random.Random(0).choices(["a", "b", "c"], k=6)):
        assert apart.run(method, turn) == together.run(method, turn)


# Shown and written


def test_a_table_a_picture_and_files(tmp_path: Path) -> None:
    many = memplan.plan_many(METHODS, shared=BOTH, alignment=64)
    text = str(many)
    assert "2 methods in one arena of 4.50 KiB (4,608 bytes), optimal" in text
    assert "stays between methods: 512 B: cache" in text
    assert "nothing stays between methods" in str(memplan.plan_many(METHODS))
    assert "prefill" in many._repr_html_()
    assert repr(many) == "<memplan.methods.MethodsPlan: prefill, decode, peak 4608 bytes, optimal>"
    ax = many.plot()
    assert {"prefill", "decode"} <= {label.get_text() for label in ax.texts}
    assert [label.get_text() for label in many.plot(zoom=(5, 9)).texts].count("prefill") == 0
    many.to_json(tmp_path / "many.json")
    read = json.loads((tmp_path / "many.json").read_text())
    assert (read["peak"], read["shared"][0]["tensors"]["decode"]) == (4608, ["cache", "new"])
    assert read["methods"]["decode"]["peak"] == many["decode"].peak
    with pytest.raises(KeyError, match="there is no method 'train'"):
        many["train"]
    again = pickle.loads(pickle.dumps(many))
    assert again["decode"] == many["decode"]


def test_one_header_for_all_methods(tmp_path: Path) -> None:
    many = memplan.plan_many({"a": model(1), "a.b": model(2)}, alignment=64)
    many.to_c_header(tmp_path / "net.h")
    text = (tmp_path / "net.h").read_text()
    macros = [line.split()[1] for line in text.splitlines() if line.startswith("#define") and "_OFFSET" in line]
    assert len(set(macros)) == len(macros) == 10
    assert f"#define NET_ARENA_BYTES {many.peak}U" in text
    assert "NET_A_H_OFFSET" in text
    if compiler := shutil.which("cc"):
        (tmp_path / "main.c").write_text('#include "net.h"\nint main(void) { return NET_A_B_Y_BYTES != 32; }\n')
        subprocess.run([compiler, "-std=c11", "-Wall", "-Werror", "main.c", "-o", "main"], cwd=tmp_path, check=True)
        subprocess.run([tmp_path / "main"], check=True)
