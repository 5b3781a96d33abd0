"""Orders of ops: legal, never worse than the given one, and bounded from below with every sharing."""

from __future__ import annotations

import itertools
import random
import signal
import time
from typing import Any

import pytest

import memplan
from builders import graphs
from builders.graphs import two_branches
from builders.layered import layers
from builders.order_rows import orders_of
from builders.sharing_options import PLACES, USUAL
from memplan import _core
from memplan.importers.graph_dict import graph_of
from oracles.sharing import least_peak, small_graph


def in_order(graph: dict[str, Any], order: list[int]) -> dict[str, Any]:
    return {**graph, "ops": [graph["ops"][k] for k in order]}


def with_bodies(chance: random.Random, graph: dict[str, Any]) -> dict[str, Any]:
    """The graph with some of its ops in the body of a loop, and some of these in a body inside of it."""
    ops = [dict(op) for op in graph["ops"]]
    begin, end = 0, len(ops)
    path = ""
    while end - begin > 1 and chance.random() < (0.6 if path else 1):
        begin, end = sorted(chance.sample(range(begin, end + 1), 2))
        path = f"{path}/loop{begin}".lstrip("/")
        for op in ops[begin:end]:
            op["body"] = path
    return {**graph, "ops": ops}


def keeps_bodies(graph: dict[str, Any], order: list[int]) -> bool:
    """Whether ops of each body come one after the other."""
    paths = [graph["ops"][k].get("body", "").split("/") for k in order]
    for depth in range(1, max(map(len, paths)) + 1):
        here = ["/".join(path[:depth]) if len(path) >= depth else "" for path in paths]
        runs = [path for path, _ in itertools.groupby(here) if path]
        if len(runs) != len(set(runs)):
            return False
    return True


def check(seed: int, ops: int = 5, bodies: bool = False) -> str:
    """Hold one random graph against all its orders with all their sharing; what came of it."""
    chance = random.Random(seed)
    graph = small_graph(chance, streams=False, ops=ops)
    if bodies:
        graph = with_bodies(chance, graph)
    place = chance.choice(PLACES) if chance.random() < 0.5 else USUAL
    donate = [t["name"] for t in graph["tensors"] if t["kind"] == "input" and chance.random() < 0.4]
    orders = [order for order in orders_of(graph) if keeps_bodies(graph, order)]
    if len(orders) < 2:
        return "one order"
    try:
        least = min(least_peak(in_order(graph, order), place, donate) for order in orders)
    except ValueError:
        return "too large"
    storage = _core.StorageOptions(sorted(place), donate=donate)
    captured = graph_of(graph)
    best = _core.order_of(captured, "best", storage)
    story = f"seed {seed}: load {best.load}, bound {best.bound}, order {best.ops}, where {least} are enough: {graph}"
    assert list(best.ops) in orders, story
    assert best.bound <= least, story
    assert best.load <= _core.buffers_of(captured, storage).problem.load, story
    assert best.load == _core.buffers_of(_core.reordered(captured, best.ops), storage).problem.load, story
    assert _core.order_bound(captured, storage)[0] <= least, story
    exact = _core.order_of(captured, "exact", storage)
    assert list(exact.ops) in orders, story
    assert best.bound <= exact.bound <= least, story
    plan = memplan.plan(graph, order="best", place=sorted(place), donate=donate)
    assert plan.peak <= memplan.plan(graph, place=sorted(place), donate=donate).peak, story
    assert plan.order_bound is not None, story
    assert plan.order_bound <= least <= plan.peak, story
    return "proven" if plan.order_optimal else "open"


@pytest.mark.parametrize("part", [0, *(pytest.param(k, marks=pytest.mark.slow) for k in range(1, 90))])
def test_no_order_and_no_sharing_beats_the_bound(part: int) -> None:
    came = [check(seed) for seed in range(part * 100, part * 100 + 100)]
    assert min(came.count("proven"), came.count("open")) > 10  # the others have one order


@pytest.mark.parametrize("part", [0, *(pytest.param(k, marks=pytest.mark.slow) for k in range(1, 90))])
def test_no_order_that_keeps_bodies_together_beats_the_bound(part: int) -> None:
    came = [check(seed, 6, bodies=True) for seed in range(part * 100, part * 100 + 100)]
    assert min(came.count("proven"), came.count("open")) > 3  # most others have one order, or too many


def test_fit_and_split_refuse_bodies() -> None:
    graph = two_branches()
    graph["ops"][0]["body"] = "loop"
    with pytest.raises(memplan.errors.UnsupportedError, match="fit does not support bodies of loops"):
        memplan.fit(graph, 13)
    assert {one.kind for one in memplan.plan(graph).explain().advice} <= {"order", "donate"}


# What a shape of a graph asks for


def test_a_branch_is_finished_before_the_next_one_begins() -> None:
    plan = memplan.plan(two_branches(), order="best")
    assert (plan.peak, plan.order_bound, plan.order_optimal) == (12, 12, True)
    assert plan.order.index("less") == plan.order.index("left") + 1
    given = memplan.plan(two_branches())
    assert (given.peak, given.optimal, given.order_optimal) == (21, True, False)
    assert given.order == ("left", "right", "less", "fewer", "join")
    assert memplan.reorder(two_branches()) == plan.graph


def training_step(layers: int) -> dict[str, Any]:
    """A chain forward and back: each gradient is much larger than all else of its layer, and the last one is largest.

    An update waits for what reads the weight, as it overwrites this.
    """
    sizes: dict[str, int] = {}
    ops: list[dict[str, Any]] = []

    def op(name: str, inputs: list[str], size: int, after: tuple[str, ...] = ()) -> str:
        sizes[name] = size
        ops.append({"name": name, "inputs": inputs, "outputs": [name], "after": list(after)})
        return name

    kept = ["x"]
    for k in range(layers):
        kept.append(op(f"forward{k}", [kept[-1]], 4))
    above = op("loss", [kept[-1]], 4)
    for k in reversed(range(layers)):
        below = op(f"back{k}", [above, kept[k + 1]], 4)
        op(f"gradient{k}", [above, kept[k]], 100 if k == layers - 1 else 20)
        above = below
    for k in range(layers):
        op(f"update{k}", [f"gradient{k}"], 0, (f"back{k}",))
    tensors = [{"name": "x", "bytes": 4, "kind": "input"}, *({"name": n, "bytes": b} for n, b in sizes.items())]
    return {"tensors": tensors, "ops": ops, "outputs": []}


def test_a_gradient_counts_as_falling_where_its_update_is_all_that_waits_for_it() -> None:
    order = [op.name for op in memplan.reorder(training_step(20), order="hill_valley").ops]
    between = [order.index(f"update{k}") - order.index(f"gradient{k}") for k in range(20)]
    assert between == [1] * 20


def test_a_large_gradient_waits_until_less_is_alive() -> None:
    """It would lie on all that the forward pass has kept; later it does not."""
    plan = memplan.plan(training_step(60), order="best")
    assert plan.order_optimal
    assert plan.peak < memplan.plan(training_step(60), order="hill_valley").peak
    order = plan.order
    assert order.index("gradient59") > order.index("gradient50")


def test_an_op_that_overwrites_comes_after_those_that_read_before() -> None:
    graph = graphs.graph(
        [graphs.tensor("x", 4, "input"), *({"name": n, "bytes": 4} for n in "abcd")],
        graphs.op("make", "x", "a"),
        graphs.op("read", "a", "b"),
        graphs.op("write", "a", "c", overwrite=["c a"]),
        graphs.op("end", "b c", "d"),
        outputs="d",
    )
    captured = graph_of(graph)
    with pytest.raises(memplan.errors.GraphError, match="op 'write' must come after op 'read'"):
        _core.reordered(captured, [0, 2, 1, 3])
    assert list(_core.order_of(captured, "best").ops) == [0, 1, 2, 3]


@pytest.mark.parametrize("ops", [[0, 1, 2, 3], [0, 1, 2, 3, 3], [0, 1, 2, 3, 5], [0, 1, 2, 3, -1]])
def test_an_order_has_each_op_once(ops: list[int]) -> None:
    with pytest.raises(memplan.errors.GraphError, match="must have each of the 5 ops once"):
        _core.reordered(graph_of(two_branches()), ops)


def test_what_after_says_is_kept() -> None:
    graph = two_branches()
    graph["ops"][2]["after"] = ["right"]  # so both are in memory at once, whatever is done
    plan = memplan.plan(graph, order="best")
    assert plan.order.index("right") < plan.order.index("less")


def test_several_streams_keep_their_order() -> None:
    graph = two_branches()
    graph["ops"][0]["stream"] = 1
    plan = memplan.plan(graph, order="best")
    assert plan.order == ("left", "right", "less", "fewer", "join")
    assert (plan.order_bound, plan.order_optimal) == (0, False)


def test_real_networks_are_proven() -> None:
    plan = memplan.plan("example:resnet50_train", order="best")
    given = memplan.plan("example:resnet50_train")
    assert plan.order_optimal
    assert plan.peak == given.order_bound
    assert plan.peak < given.peak
    assert sorted(plan.order) == sorted(given.order)


def test_a_search_proves_what_cuts_do_not() -> None:
    """Only the last of two readers may write over what both read; for the cuts, either may."""
    graph = graphs.graph(
        [graphs.tensor("x", 1, "input"), *({"name": name, "bytes": 10} for name in "abc")],
        graphs.op("make", "x", "a"),
        graphs.op("left", "a", "b", inplace=["b a"]),
        graphs.op("right", "a", "c", inplace=["c a"]),
    )
    captured = graph_of(graph)
    assert _core.order_bound(captured)[0] == 10
    assert (_core.order_of(captured, "exact").bound, _core.order_of(captured, "exact").load) == (20, 20)
    assert _core.order_of(captured, "exact:work=0").bound == 10
    plan = memplan.plan(graph, order="best")
    assert (plan.peak, plan.order_bound, plan.order_optimal) == (20, 20, True)


def test_what_fits_in_no_order_says_what_every_order_needs() -> None:
    graph = two_branches()
    bound = memplan.plan(graph, order="best").order_bound
    assert bound is not None
    with pytest.raises(memplan.InfeasibleError) as caught:
        memplan.plan(graph, order="best", capacity=bound - 1)
    fits = f"a capacity of {bound - 1} bytes in any order of the ops: at least {bound} bytes are needed"
    assert str(caught.value).splitlines()[0] == f"no plan fits {fits}"
    assert str(caught.value).splitlines()[1].startswith("most is alive at step ")
    assert (caught.value.proven, caught.value.lower_bound, caught.value.capacity) == (True, bound, bound - 1)
    with pytest.raises(memplan.InfeasibleError, match="at least 21 bytes are needed"):
        memplan.plan(graph, capacity=bound)  # in the given order


def test_what_fits_in_no_order_that_was_found_is_not_proven() -> None:
    graph = layers(100)
    found = memplan.plan(graph, "first_fit", order="best:work=100000")
    assert found.order_bound is not None
    assert found.order_bound < found.peak
    with pytest.raises(memplan.InfeasibleError, match="in any order of the ops: the best order found needs") as caught:
        memplan.plan(graph, "first_fit", order="best:work=100000", capacity=found.load - 1)
    assert not caught.value.proven
    assert caught.value.lower_bound == found.proven_of_orders <= found.order_bound
    assert memplan.plan(graph, "first_fit").proven_of_orders == 0


def test_a_graph_without_ops() -> None:
    plan = memplan.plan(
        {"tensors": [{"name": "x", "bytes": 4, "kind": "input"}], "ops": [], "outputs": ["x"]}, order="best"
    )
    assert (plan.peak, plan.order) == (0, ())


def test_the_same_order_every_time() -> None:
    graph = memplan.capture("example:resnet50_train").graph
    assert list(_core.order_of(graph, "best").ops) == list(_core.order_of(graph, "best").ops)


def test_less_work_is_no_worse_than_the_given_order() -> None:
    graph = memplan.capture("example:resnet50_train").graph
    given = _core.buffers_of(graph).problem.load
    assert _core.order_of(graph, "best:work=0").load <= given
    assert _core.order_of(graph, "best", time_limit=1e-9).load <= given


@pytest.mark.slow
def test_work_and_time_end_the_search_and_the_bound() -> None:
    graph = graph_of(layers(5000))
    begin = time.perf_counter()
    best = _core.order_of(graph, "best")
    assert time.perf_counter() - begin < 20  # a second; without an end of the work it is more than a minute
    assert 0 < best.bound < best.load
    begin = time.perf_counter()
    assert _core.order_of(graph, f"best:work={10**15}", time_limit=0.2).bound <= best.load
    assert time.perf_counter() - begin < 10


def test_each_plan_told_of_is_better() -> None:
    peaks: list[int] = []
    plan = memplan.plan(two_branches(), order="best", on_improvement=lambda found: peaks.append(found.peak))
    assert peaks == sorted(set(peaks), reverse=True)
    assert peaks[-1] == plan.peak


def test_an_interrupt_keeps_the_best_order_so_far() -> None:
    graph = memplan.capture("example:resnet50_train").graph
    handler = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.001)
        best = _core.order_of(graph, f"best:work={10**15}")
    except KeyboardInterrupt:  # before it began
        return
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
    assert best.load <= _core.buffers_of(graph).problem.load


def test_a_search_tells_of_better_orders_and_of_higher_bounds() -> None:
    graph = graph_of(layers(2500))
    told: list[memplan.planning.OrderProgress] = []
    best = memplan.plan(graph, "naive", order="best:work=3000000", on_order=told.append)
    assert told[0].found_by == "given"
    assert {"windows", "blocks"} & set(told[-1].found_by.split("+"))
    for before, after in itertools.pairwise(told):
        assert after.needed <= before.needed
        assert after.bound >= before.bound
        assert (after.needed, after.bound) != (before.needed, before.bound)
    assert (told[-1].needed, told[-1].bound) == (best.load, best.proven_of_orders)
    assert repr(told[0]) == f"OrderProgress(found_by='given', needed={told[0].needed}, bound=0)"


@pytest.mark.parametrize("order", ["best", "exact", "windows", "lpmf"])
def test_every_order_is_told_of(order: str) -> None:
    told: list[memplan.planning.OrderProgress] = []
    graph = memplan.reorder(two_branches(), order=order, on_order=told.append)
    assert told[-1].needed == _core.buffers_of(graph).problem.load
    assert graph == memplan.reorder(two_branches(), order=order)


def test_who_is_told_may_end_the_search() -> None:
    def fails(found: memplan.planning.OrderProgress) -> None:
        raise OSError(f"told of {found.found_by}")

    def enough(found: memplan.planning.OrderProgress) -> None:
        if found.found_by != "given":
            raise KeyboardInterrupt

    with pytest.raises(OSError, match="told of given"):
        memplan.reorder(two_branches(), on_order=fails)
    graph = graph_of(layers(400))
    plan = memplan.plan(graph, "naive", order="best", on_order=enough)
    assert plan.interrupted
    assert plan.load < memplan.plan(graph, "naive").load  # the best order so far is kept
    with pytest.raises(TypeError, match="on_order must be callable with an OrderProgress, got 3"):
        memplan.plan(two_branches(), order="best", on_order=3)  # type: ignore[arg-type]


def test_reorder_takes_what_may_be_done_with_memory() -> None:
    """Inputs that may be taken, ops that may not write over an input, and alignment, change which order is best."""
    chance, taken = random.Random(5), set[str]()
    for _ in range(100):
        graph = small_graph(chance, streams=False, ops=7)
        for k, op in enumerate(graph["ops"]):
            op["type"] = "even" if k % 2 == 0 else "odd"
        options: dict[str, Any] = {
            "donate": [tensor["name"] for tensor in graph["tensors"] if tensor["kind"] == "input"],
            "disable_inplace_ops": ["even"],
            "alignment": "64",
        }
        for name, value in options.items():
            option = {name: value}
            found = memplan.reorder(graph, **option)
            storage = memplan.plan(graph, "naive", **option).storage
            assert found == _core.reordered(graph_of(graph), _core.order_of(graph_of(graph), "best", storage).ops)
            taken.update([name] if found != memplan.reorder(graph) else [])
    assert taken == set(options)
    with pytest.raises(memplan.errors.GraphError, match="donate must name graph inputs, got 'y'"):
        memplan.reorder(two_branches(), donate=["y"])


def test_a_capacity_that_fits_in_one_order_only() -> None:
    assert memplan.plan(two_branches(), order="best", capacity=12).peak == 12
    assert memplan.plan(two_branches(), order="best", capacity=21).peak <= 21
    with pytest.raises(memplan.InfeasibleError):
        memplan.plan(two_branches(), capacity=12)
    with pytest.raises(memplan.InfeasibleError):
        memplan.plan(two_branches(), order="best", capacity=11)


def test_what_is_no_order_is_refused() -> None:
    with pytest.raises(ValueError, match=r"order must be one of given, best, .*, got 'fast'"):
        memplan.plan(two_branches(), order="fast")
    with pytest.raises(ValueError, match="order 'best' takes NAME=VALUE for work, got 'k=1'"):
        memplan.reorder(two_branches(), order="best:k=1")
    with pytest.raises(ValueError, match=r"parameter start must be one of given, .*, got 'last'"):
        memplan.reorder(two_branches(), order="windows:start=last")
    with pytest.raises(TypeError, match=r"order must be a name from orders\(\), got 1"):
        memplan.plan(two_branches(), order=1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="option order applies to graphs"):
        memplan.plan(([1], [0], [1]), order="best")
    with pytest.raises(TypeError, match="reorder takes graphs"):
        memplan.reorder(([1], [0], [1]))
    assert memplan.plan(([1], [0], [1])).order_bound is None


def test_a_capacity_that_only_the_best_order_fits_is_met() -> None:
    """Even where its plan peaks above the load of the given order, whose plan is then tried, and does not fit."""
    sizes, reads = {"a": 7, "b": 2, "c": 6, "d": 5, "e": 9}, {"b": ["a"], "d": ["b", "a"]}
    graph = {
        "tensors": [{"name": name, "bytes": size} for name, size in sizes.items()],
        "ops": [{"name": f"op {name}", "inputs": reads.get(name, []), "outputs": [name]} for name in sizes],
        "outputs": ["e"],
    }
    with pytest.raises(memplan.InfeasibleError):
        memplan.plan(graph, "mxnet", capacity=16)
    assert memplan.plan(graph, "mxnet", order="best", capacity=16).peak == 16 > memplan.plan(graph).load
