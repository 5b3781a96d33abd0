"""`memplan.fit` with "split": what it reaches, what it costs, and what it says."""

from __future__ import annotations

import itertools
import pickle
from pathlib import Path

import pytest

import memplan
from builders.graphs import op
from builders.looped import wide_blocks
from builders.mobilenet import mobilenet_v2


def test_mobilenet_in_pieces_repeats_no_multiplication() -> None:
    net = mobilenet_v2()
    assert memplan.plan(net).peak == 1_505_280
    plan = memplan.fit(net, 162_176, allow=("split",))
    assert plan.peak <= 162_176
    multiplications = sum(op["cost"] for op in net["ops"])
    parts = sum(op.cost for op in plan.graph.ops if op.type != "memplan.keep")
    assert parts == pytest.approx(multiplications, rel=1e-9)
    kept = [change for change in plan.changes if change.kind == "split"]
    assert plan.added_cost == pytest.approx(sum(2 * change.kept for change in kept))  # rows that are moved
    assert plan.cost_bound == 0  # nothing is proven of it


def test_the_least_is_lower_and_says_what_it_is_made_of() -> None:
    net = mobilenet_v2(96, 0.35)
    plan = memplan.fit(net, "least", allow=("split",))
    assert plan.peak <= 0.15 * memplan.plan(net).peak
    assert plan.fitting.load_bound <= plan.peak
    first = next(change for change in plan.changes if change.kind == "split")
    assert first.pieces > 1
    assert set(first.tensors) <= {tensor["name"] for tensor in net["tensors"]}
    assert "pieces, so that" in first.why
    assert "split" in str(plan.fitting)


@pytest.mark.parametrize(
    ("planner", "capacity", "most"), [("megengine", 16_000, 390_000), ("best_fit", 44_432, 200_000)]
)
def test_pieces_whose_plan_has_gaps_give_way_to_others(planner: str, capacity: int, most: float) -> None:
    # the first pieces fit by their load, but not as this planner lays them out
    plan = memplan.fit(mobilenet_v2(96, 0.35), capacity, planner=planner, allow=("split",))
    assert plan.peak <= capacity
    assert plan.added_cost <= most


def multiplications(plan: memplan.Plan) -> float:
    return sum(op.cost or 0 for op in plan.graph.ops if op.type != "memplan.keep")


def test_rows_are_made_again_where_nothing_else_helps() -> None:
    net = wide_blocks()
    with pytest.raises(memplan.InfeasibleError, match="in pieces, the least load found is 746"):
        memplan.fit(net, 600, allow=("split",))
    plan = memplan.fit(net, 600, allow=("split", "recompute"))
    assert plan.peak <= 600
    (change,) = (change for change in plan.changes if change.kind == "split")
    assert set(change.again) == {"wide0:op", "wide1:op"}
    assert "and 2 ops make rows again" in change.why
    assert multiplications(plan) > sum(op["cost"] for op in net["ops"])
    assert plan.added_cost == pytest.approx(sum(change.cost for change in plan.changes))
    with pytest.raises(memplan.InfeasibleError):
        memplan.fit(wide_blocks(recompute=False), 600, allow=("split", "recompute"))


def test_ops_one_after_another_make_rows_again_together() -> None:
    net = wide_blocks(act=True)
    kept = memplan.fit(net, "least", allow=("split",)).peak
    plan = memplan.fit(net, int(0.95 * kept), allow=("split", "recompute"))
    (change,) = (change for change in plan.changes if change.kind == "split")
    assert {"wide0:op", "act0:op"} <= set(change.again)


@pytest.mark.parametrize(("cost", "again"), [(0.0, True), (1e6, False)])
def test_rows_are_kept_or_made_again_as_costs_less(cost: float, again: bool) -> None:
    net = wide_blocks(1)
    net["ops"] = [{**op, "cost": cost} for op in net["ops"]]
    plan = memplan.fit(net, 450, allow=("split", "recompute"))
    (change,) = plan.changes
    assert bool(change.again) is again
    assert bool(change.kept) is not again
    assert multiplications(plan) == pytest.approx(3 * cost)


def test_a_plan_with_pieces_is_saved_and_read(tmp_path: Path) -> None:
    plan = memplan.fit(wide_blocks(), 600, allow=("split", "recompute"))
    assert any(change.again for change in plan.changes)
    plan.to_json(tmp_path / "plan.json")
    assert memplan.read_plan(tmp_path / "plan.json").changes == plan.changes


def test_a_plan_with_pieces_is_pickled() -> None:
    plan = memplan.fit(mobilenet_v2(96, 0.35), "30%", allow=("split",))
    again = pickle.loads(pickle.dumps(plan)).fitting.pieces
    assert again.graph == plan.fitting.pieces.graph
    same = [(p.does, p.of, p.loop, p.iterations, p.reads, p.writes) for p in plan.fitting.pieces.does]
    assert [(p.does, p.of, p.loop, p.iterations, p.reads, p.writes) for p in again.does] == same
    assert {p.does for p in again.does} == {"whole", "part", "keep"}


def test_a_call_has_a_price() -> None:
    net = mobilenet_v2(96, 0.35)
    free = memplan.fit(net, "30%", allow=("split",))
    dear = memplan.fit(net, "30%", allow=("split",), call=1000)
    calls = len(free.graph.ops) - len(net["ops"])
    assert dear.added_cost >= free.added_cost + 1000 * min(calls, 1)
    with pytest.raises(ValueError, match="call needs 'split' among what allow holds"):
        memplan.fit(net, "30%", call=3)
    with pytest.raises(ValueError, match="max_pieces must be >= 2"):
        memplan.fit(net, "30%", allow=("split",), max_pieces=1)


@pytest.mark.slow
def test_no_pieces_below_the_floor() -> None:
    net = mobilenet_v2(96, 0.35)
    with pytest.raises(memplan.InfeasibleError, match="while an op runs one iteration") as error:
        memplan.fit(net, 1000, allow=("split",))
    assert error.value.proven
    with pytest.raises(memplan.InfeasibleError, match="in pieces, the least load found is"):
        memplan.fit(net, 13_000, allow=("split",))


def test_a_curve_with_splits() -> None:
    net = mobilenet_v2(96, 0.35)
    seen: list[memplan.fitting.ParetoPoint] = []
    curve = memplan.pareto(net, ["100%", "40%", "20%", 1000], allow=("split",), max_pieces=64, on_point=seen.append)
    whole, *pieces, none = curve
    assert (whole.added_cost, none.plan, none.proven) == (0, None, True)
    assert "while an op runs one iteration" in none.why
    costs = [point.added_cost for point in curve if point.plan is not None]
    assert costs == sorted(costs)
    assert curve.cost == sum(op["cost"] for op in net["ops"])
    for point in pieces:
        assert point.plan is not None
        assert point.plan.peak <= point.capacity
        assert point.cost_bound == 0
        splits = [change for change in point.plan.changes if change.kind == "split"]
        assert splits
        assert max(change.pieces for change in splits) <= 64
    dear = memplan.pareto(net, ["40%"], allow=("split",), call=1000).points[0]
    assert dear.added_cost > next(point for point in seen if point.capacity == dear.capacity).added_cost
    by_default = memplan.pareto(net, allow=("split",), time_limit=1)
    assert len(by_default) == 8
    assert all(point.plan is not None for point in by_default)


def test_a_region_may_be_the_whole_network() -> None:
    """No region of a few ops is lower than the whole: every tensor between is alive with another of its size."""

    def op(name: str, *sources: str) -> dict[str, object]:
        sources = tuple(dict.fromkeys(sources))
        reads = {source: [0, 1, 1, 0] for source in sources}
        loop = {"extent": 16, "reads": reads, "writes": {name: [0, 1]}}
        return {"name": f"{name}:op", "type": "f", "inputs": [*sources], "outputs": [name], "loops": [loop]}

    count = 24  # as the two halves of a U-Net: what is made early is read late
    down = [op(f"d{k}", f"d{k - 1}" if k else "x") for k in range(count)]
    up = [op(f"u{k}", f"u{k + 1}" if k + 1 < count else f"d{count - 1}", f"d{k}") for k in reversed(range(count))]
    names = ["x", *(f"d{k}" for k in range(count)), *(f"u{k}" for k in range(count))]
    tensors = [{"name": name, "shape": [16, 1000], "dtype": "int8"} for name in names]
    tensors[0]["kind"] = "input"
    net = {"tensors": tensors, "ops": [*down, *up], "outputs": ["u0"]}
    plan = memplan.fit(net, "least", allow=("split",))
    assert plan.changes[0].pieces == 16
    assert plan.peak == 16_000 + (count + 1) * 1000  # what the caller gets, and a row of each that is read late


def test_rows_that_are_made_again_run() -> None:
    torch = pytest.importorskip("torch")
    wide, narrow = torch.nn.Conv2d(4, 32, 1), torch.nn.Conv2d(32, 4, 1)
    model = torch.nn.Sequential(wide, torch.nn.ReLU(), torch.nn.Conv2d(32, 32, 3, padding=1, groups=32), narrow).eval()
    x = torch.randn(1, 4, 16, 16)
    free = {op.name: 0.0 for op in memplan.plan(model, args=(x,)).graph.ops}
    plan = memplan.fit(model, "40%", allow=("split", "recompute"), args=(x,), cost=free, kernels=False)
    assert any(change.again for change in plan.changes)
    with torch.no_grad():
        torch.testing.assert_close(plan.run(x, check=True).outputs, model(x))


def test_what_is_to_be_gained_is_a_share_of_what_is_reached() -> None:
    plan = memplan.fit(wide_blocks(), "least", allow=("split",))
    share = 1 - plan.fitting.load_bound / plan.fitting.capacity
    assert 0 < share < 1
    assert f"at most {share:.3%} of it is to be gained" in " ".join(str(plan.fitting).split())


def by_rows(name: str, source: str, *weights: str) -> dict[str, object]:
    loop = {"extent": 64, "reads": {source: [0, 1, 1, 0]}, "writes": {name: [0, 1]}}
    return {"name": f"{name}:op", "type": "f", "inputs": [source, *weights], "outputs": [name], "loops": [loop]}


def of_rows(name: str, width: int, kind: str = "intermediate") -> dict[str, object]:
    return {"name": name, "shape": [64, width], "dtype": "int8", "kind": kind}


def test_what_each_piece_reads_whole_is_read_again() -> None:
    weights = [{"name": name, "bytes": 100_000, "kind": "weight"} for name in "wv"]
    tensors = [of_rows("x", 100, "input"), *weights, of_rows("a", 1000), of_rows("y", 100, "output")]
    net = {"tensors": tensors, "ops": [by_rows("a", "x", "w"), by_rows("y", "a", "v")], "outputs": ["y"]}
    plan = memplan.fit(net, "least", allow=("split",), call=0)
    assert (plan.changes[0].pieces, plan.added_cost) == (64, 63 * 200_000)
    assert memplan.fit(net, "least", allow=("split",), call=0, cost={"a:op": 5, "y:op": 5}).added_cost == 0
    at_half = memplan.pareto(net, ["50%"], allow=("split",), call=0).points[0]
    assert at_half.added_cost == memplan.fit(net, "50%", allow=("split",), call=0).added_cost == 3 * 200_000


def test_fewer_pieces_where_ops_run_again_anyway() -> None:
    """Tensors that wait are above the capacity in however many pieces; 4 pieces are enough if one of them is gone."""
    waiting = [{"name": f"t{k}", "bytes": 30_000} for k in range(3)]
    forward = [op(f"f{k}", f"t{k - 1}" if k else "x", f"t{k}") for k in range(3)]
    backward = [op(f"b{k}", f"{f'g{k + 1}' if k < 2 else 'y'} t{k}", f"g{k}") for k in reversed(range(3))]
    tensors = [
        *(of_rows("x", 100, "input"), *waiting, {"name": "w", "bytes": 5_000, "kind": "weight"}),
        *(
            of_rows("h", 100),
            of_rows("a", 1000),
            of_rows("y", 100),
            *({"name": f"g{k}", "bytes": 100} for k in range(3)),
        ),
    ]
    wide = [op("h:op", "t2", "h"), by_rows("a", "h", "w"), by_rows("y", "a", "w")]
    net = {"tensors": tensors, "ops": [*forward, *wide, *backward], "outputs": ["g0"]}
    plan = memplan.fit(net, 92_000, allow=("split", "recompute"), call=0)
    kinds = {change.kind: change for change in plan.changes}
    assert kinds.keys() == {"split", "recompute"}
    assert kinds["split"].pieces <= 4


def test_regions_are_cut_where_little_lies_between() -> None:
    """Windows of a long region reach far back, so that its first step takes many ops."""
    widths = {"x": 10, "a": 100, "b": 100, "c": 100, "d": 20, "e": 100, "f": 100, "g": 100, "y": 10}
    tensors = [{"name": name, "shape": [64, width], "dtype": "int8"} for name, width in widths.items()]
    tensors[0]["kind"] = "input"
    ops = [
        {"name": f"make {b}", "inputs": [a], "outputs": [b]}
        | {"loops": [{"extent": 64, "reads": {a: [0, 1, 7, 3]}, "writes": {b: [0, 1]}}]}
        for a, b in itertools.pairwise(widths)
    ]
    plan = memplan.fit({"tensors": tensors, "ops": ops, "outputs": ["y"]}, 7000, allow=["split"])
    assert [change.tensors for change in plan.changes] == [("a", "b", "c"), ("e", "f", "g")]
