"""Storages: which tensors share bytes, where inside each other they lie, and when they may not. A rule per test."""

from __future__ import annotations

from random import Random

import pytest

import memplan
from builders.graphs import Dict, W, X, buffers, graph, load, op, shared, tensor

ALL = ("input", "weight", "intermediate", "output", "workspace")


RELU = graph([X], op("a", "x", "t"), op("relu", "t", "y", type="Relu", inplace=["y t"]), outputs="y")


def in_place(middle: Dict, *more: Dict, tensors: tuple[Dict, ...] = (), outputs: str = "y") -> Dict:
    """x -> t, then an op that may write y over t, and what the test adds."""
    return graph([X, *tensors], op("a", "x", "t"), middle, *more, outputs=outputs)


# In place


def test_an_output_takes_the_bytes_of_an_input_that_is_read_for_the_last_time() -> None:
    assert shared(RELU) == {"inplace y t"}
    assert (load(RELU), load(RELU, inplace=False)) == (8, 16)


def test_without_inplace_nothing_is_taken() -> None:
    assert shared(RELU, inplace=False) == set()
    assert shared(RELU, zero_copy=False) == {"inplace y t"}


TAKE = op("relu", "t", "y", inplace=["y t"])


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(in_place(TAKE, op("late", "t", "z")), id="the input is read later"),
        pytest.param(in_place(TAKE, outputs="y t"), id="the input is a graph output"),
        pytest.param(
            in_place(op("look", "t", "v", alias=["v t"]), TAKE, op("late", "v", "z")), id="a view of it is read later"
        ),
        pytest.param(
            in_place(op("look", "t", "v", alias=["v t"]), TAKE, outputs="y v"), id="a view of it is a graph output"
        ),
        pytest.param(
            in_place(
                op("look", "t", "v", alias=["v t 4"]), op("add", "t v", "y", inplace=["y t"]), tensors=(tensor("v", 4),)
            ),
            id="another part of it is read by the op",
        ),
        pytest.param(
            in_place(op("both", "t", "y v", inplace=["y t"], alias=["v t"])), id="the op returns a view of it too"
        ),
        pytest.param(in_place(TAKE, tensors=(tensor("y", 9),)), id="the output is larger"),
        pytest.param(in_place(TAKE, tensors=(tensor("y", 0),)), id="the output has no bytes"),
        pytest.param(graph([X], op("relu", "x", "y", inplace=["y x"]), outputs="y"), id="the caller keeps the input"),
        pytest.param(graph([W], op("relu", "w", "y", inplace=["y w"]), outputs="y"), id="the input is a weight"),
        pytest.param(
            graph([W], op("v", "w", "v", alias=["v w"]), op("relu", "v", "y", inplace=["y v"]), outputs="y"),
            id="the input is a view of a weight",
        ),
        pytest.param(
            graph([X], op("set", "x", "z", overwrite=["z x"]), op("relu", "z", "y", inplace=["y z"]), outputs="y"),
            id="the input lies in what the caller keeps",
        ),
        pytest.param(in_place(op("relu", "t", "y")), id="the op does not say so"),
    ],
)
def test_in_place_is_refused_where(source: Dict) -> None:
    assert shared(source) == set()


def test_an_op_may_read_the_same_tensor_twice() -> None:
    assert shared(in_place(op("square", "t t", "y", inplace=["y t"]))) == {"inplace y t"}


def same_bytes(relation: str, *over: str) -> Dict:
    """x -> t, v with all bytes of t, and an op that reads both and may write y over some of them."""
    return in_place(
        op("look", "t", "v", **{relation: ["v t"]}), op("add", "t v", "y", inplace=[f"y {t}" for t in over])
    )


@pytest.mark.parametrize("relation", ["alias", "slice"])
@pytest.mark.parametrize("over", ["t", "v"])
def test_who_reads_the_same_bytes_by_another_name_is_not_written_over(relation: str, over: str) -> None:
    """As in x + x.t(): the transposed view has the same bytes, and its elements are at other places."""
    assert memplan.plan(same_bytes(relation, over)).peak == 16


def test_a_permission_does_not_pass_on_through_what_shares_bytes_by_choice() -> None:
    """t may be a slice of a, and y may be written over t; then a is not read while y is written."""
    source = graph(
        [X],
        op("make", "x", "a"),
        op("cut", "a", "t", slice=["t a"]),
        op("add", "t a", "y", inplace=["y t"]),
        outputs="y",
    )
    assert memplan.plan(source).peak == memplan.plan(source, order="best").peak == 16
    assert memplan.plan(source).optimal
    half = {name: tensor(name, 4) for name in "ty"}
    again = graph(
        [X, *half.values()],
        op("make", "x", "a"),
        op("cut", "a", "s", slice=["s a"]),
        op("cut again", "s", "t", slice=["t s 4"]),
        op("add", "t a", "y", inplace=["y t"]),
        outputs="y",
    )
    assert memplan.plan(again).peak == 12


@pytest.mark.parametrize("relation", ["alias", "slice"])
def test_an_op_may_be_over_the_same_bytes_by_two_names(relation: str) -> None:
    source = same_bytes(relation, "t", "v")
    assert memplan.plan(source).peak == 8
    assert "inplace y t" in shared(source)


def test_of_two_outputs_that_want_the_same_bytes_the_larger_gets_them() -> None:
    source = in_place(op("two", "t", "small y", inplace=["small t", "y t"]), tensors=(tensor("small", 4),))
    assert shared(source) == {"inplace y t"}


def test_two_outputs_share_the_halves_of_an_input() -> None:
    source = in_place(
        op("two", "t", "a1 b1", inplace=["a1 t", "b1 t 4"]), tensors=(tensor("a1", 4), tensor("b1", 4)), outputs="a1 b1"
    )
    assert shared(source) == {"inplace a1 t", "inplace b1 t"}
    assert memplan.plan(source)["b1"].offset == memplan.plan(source)["a1"].offset + 4


def test_the_input_that_fits_best_is_taken() -> None:
    source = graph(
        [X, tensor("big", 20)],
        op("a", "x", "big"),
        op("b", "x", "t"),
        op("add", "big t", "y", inplace=["y big", "y t"]),
        outputs="y",
    )
    assert shared(source) == {"inplace y t"}


def test_a_chain_in_place_is_one_buffer() -> None:
    chain = [op(f"s{i}", f"t{i}", f"t{i + 1}", inplace=[f"t{i + 1} t{i}"]) for i in range(5)]
    found = buffers(graph([X], op("a", "x", "t0"), *chain, outputs="t5"))
    assert (len(found.problem), found.problem.load) == (1, 8)


def test_a_small_output_does_not_keep_a_large_input_alive() -> None:
    """In place the 100 bytes would live to the end, next to the 100 of `big`."""
    source = graph(
        [X, tensor("t", 100), tensor("y", 1), tensor("big", 100)],
        op("a", "x", "t"),
        op("sum", "t", "y", inplace=["y t"]),
        op("b", "x", "big"),
        op("end", "big y", "z"),
    )
    assert "inplace y t" not in shared(source)
    assert load(source) == 109


@pytest.mark.parametrize(
    ("listed", "taken"),
    [("Relu", False), ("aten.relu", True), ("Tanh", True), ("", True)],
)
def test_disable_inplace_ops_names_types_of_ops(listed: str, taken: bool) -> None:
    assert bool(shared(RELU, disable_inplace_ops=[listed])) == taken


@pytest.mark.parametrize(
    ("listed", "taken"),
    [("aten.add", False), ("aten.add.Tensor", False), ("aten.add.Scalar", True), ("aten.ad", True), ("aten", False)],
)
def test_disable_inplace_ops_takes_overloads_by_their_prefix(listed: str, taken: bool) -> None:
    source = in_place(op("add", "t", "y", type="aten.add.Tensor", inplace=["y t"]))
    assert bool(shared(source, disable_inplace_ops=[listed])) == taken


# What the caller gave


GIVEN = graph([X], op("relu", "x", "y", inplace=["y x"]), op("end", "y", "z"), outputs="z")


@pytest.mark.parametrize("donate", [["x"], ["x", "x"]])
def test_a_donated_input_is_taken_and_its_taker_lives_there(donate: list[str]) -> None:
    assert shared(GIVEN, donate=donate) == {"inplace y x"}
    assert memplan.plan(GIVEN, donate=donate).problem.names == ["z"]
    assert memplan.plan(GIVEN, donate=donate, place=ALL).problem.names == ["x", "z"]


def test_a_donated_input_that_is_a_graph_output_is_kept() -> None:
    assert shared({**GIVEN, "outputs": ["z", "x"]}, donate=["x"]) == set()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("q", "donate must name graph inputs, got 'q'"),
        ("y", "donate must name graph inputs, got 'y', which is of kind intermediate"),
    ],
)
def test_only_inputs_are_donated(name: str, message: str) -> None:
    with pytest.raises(memplan.errors.GraphError, match=message):
        memplan.plan(GIVEN, donate=[name])


# Alignment


def test_in_place_keeps_alignment() -> None:
    source = in_place(op("relu", "t", "y", inplace=["y t 4"]), tensors=(tensor("y", 4),))
    assert shared(source, alignment=4) == {"inplace y t"}
    assert shared(source, alignment=8) == set()


def test_a_view_at_an_odd_offset_is_not_taken_where_offsets_are_aligned() -> None:
    source = in_place(
        op("look", "t", "v", alias=["v t 3"]),
        op("relu", "v", "y", inplace=["y v"]),
        tensors=(tensor("v", 4), tensor("y", 4)),
    )
    assert (shared(source), shared(source, alignment=4)) == ({"inplace y v"}, set())


@pytest.mark.parametrize(("offset", "alignment", "is_shared"), [(4, 4, True), (4, 8, False), (3, 1, True)])
def test_slices_and_parts_keep_alignment(offset: int, alignment: int, is_shared: bool) -> None:
    assert bool(shared(slice_of(offset), alignment=alignment)) == is_shared
    concat = graph([X, tensor("c", 16)], op("a", "x", "p"), op("cat", "p", "c", concat=[f"c p {offset}"]), outputs="c")
    assert bool(shared(concat, alignment=alignment)) == is_shared


# Slices


def slice_of(offset: int, *more: Dict, kind: str = "intermediate", outputs: str = "z") -> Dict:
    """t of 16 bytes, a slice s of 4, and its reader."""
    first = [] if kind in ("input", "weight") else [op("a", "x", "t")]
    return graph(
        [X, tensor("t", 16, kind), tensor("s", 4), tensor("z", 1), tensor("n", 4)][: 5 if more else 4],
        *first,
        op("cut", "t", "s", slice=[f"s t {offset}"]),
        op("use", "s", "z"),
        *more,
        outputs=outputs,
    )


def test_a_slice_lies_inside_what_it_is_cut_from() -> None:
    plan = memplan.plan(slice_of(6))
    assert shared(slice_of(6)) == {"slice s t"}
    assert plan["s"].offset == plan["t"].offset + 6
    assert shared(slice_of(6), zero_copy=False) == set()
    assert shared(slice_of(6), inplace=False) == {"slice s t"}


def test_the_bytes_around_a_slice_are_free_when_the_whole_is_done() -> None:
    problem = buffers(slice_of(6)).problem
    assert problem.parts is not None
    assert [part[1:].tolist() for part in problem.parts if part[0] == 0] == [
        [0, 6, 0, 2],
        [6, 10, 0, 3],
        [10, 16, 0, 2],
    ]


@pytest.mark.parametrize("kind", ["input", "weight"])
def test_a_slice_of_what_is_given_is_shared_unless_the_caller_gets_it(kind: str) -> None:
    assert shared(slice_of(0, kind=kind)) == {"slice s t"}
    assert shared(slice_of(0, kind=kind, outputs="z s")) == set()


LATE = op("late", "s", "")


def test_a_slice_of_bytes_that_are_overwritten_while_it_lives_is_a_copy() -> None:
    over = op("set", "t", "n", overwrite=["n t 6"])
    assert shared(slice_of(6, over, LATE)) == set()
    assert shared(slice_of(0, over, LATE)) == {"slice s t"}
    assert shared(slice_of(6, over)) == {"slice s t"}  # it is dead by then


def test_a_slice_that_is_overwritten_while_the_whole_lives_is_a_copy() -> None:
    over = op("set", "s", "n", overwrite=["n s"])
    assert shared(slice_of(6, over, op("late", "t", "m"))) == set()
    assert shared(slice_of(6, over)) == {"slice s t"}  # the whole is dead by then


@pytest.mark.parametrize("kind", ["input", "weight"])
def test_a_slice_of_what_the_caller_keeps_is_a_copy_if_it_is_overwritten(kind: str) -> None:
    assert shared(slice_of(6, op("set", "s", "n", overwrite=["n s"]), kind=kind)) == set()


def test_a_small_slice_does_not_keep_a_large_whole_alive() -> None:
    big = graph(
        [X, tensor("t", 100), tensor("s", 1), tensor("big", 100)],
        op("a", "x", "t"),
        op("cut", "t", "s", slice=["s t"]),
        op("b", "x", "big"),
        op("end", "big s", "z"),
    )
    assert shared(big) == set()


# Concatenations


def concat(*more: Dict, parts: tuple[Dict, ...] = (), outputs: str = "z", views: tuple[str, ...] = ()) -> Dict:
    """p and q, and c of both."""
    return graph(
        [X, tensor("c", 16), *parts],
        op("a", "x", "p"),
        op("b", "x", "q"),
        op("cat", "p q", "c", concat=list(views) or ["c p", "c q 8"]),
        op("use", "c", "z"),
        *more,
        outputs=outputs,
    )


def test_parts_are_written_into_the_whole() -> None:
    source = concat()
    plan = memplan.plan(source)
    assert shared(source) == {"concat c p", "concat c q"}
    assert [plan[name].offset - plan["c"].offset for name in "pq"] == [0, 8]
    assert (load(source), load(source, zero_copy=False)) == (24, 32)
    assert shared(source, zero_copy=False) == set()


def test_bytes_of_a_whole_live_from_the_first_of_their_parts() -> None:
    problem = buffers(concat()).problem
    assert problem.parts is not None
    assert [part[1:].tolist() for part in problem.parts if part[0] == 0] == [[0, 8, 0, 4], [8, 16, 1, 4]]


OVER_P, OVER_C = (op("set", name, "n", overwrite=[f"n {name}"]) for name in "pc")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param(
            concat(OVER_P, op("late", "c", "m")), {"concat c q"}, id="a part is overwritten while the whole lives"
        ),
        pytest.param(concat(OVER_P), {"concat c p", "concat c q"}, id="a part is overwritten when the whole is dead"),
        pytest.param(
            concat(OVER_C, op("late", "p q", "m")), {"concat c q"}, id="the whole is overwritten while its parts live"
        ),
        pytest.param(
            concat(OVER_C), {"concat c p", "concat c q"}, id="the whole is overwritten when its parts are dead"
        ),
        pytest.param(concat(views=("c p", "c x 8")) | {}, None, id="no input of the op"),
    ],
)
def test_parts_that_stay_apart(source: Dict, expected: set[str] | None) -> None:
    if expected is None:
        with pytest.raises(memplan.errors.GraphError, match="concat input tensor 'x' is not an input of that op"):
            memplan.plan(source)
    else:
        assert shared(source) == expected


def test_a_tensor_lives_once_in_a_concatenation_of_itself() -> None:
    source = graph([X, tensor("c", 16)], op("a", "x", "p"), op("cat", "p p", "c", concat=["c p", "c p 8"]), outputs="c")
    assert len(buffers(source).shared) == 1


def test_what_is_given_is_copied_into_a_concatenation() -> None:
    source = graph(
        [X, W, tensor("c", 24)],
        op("a", "x", "p"),
        op("cat", "x w p", "c", concat=["c x", "c w 8", "c p 16"]),
        outputs="c",
    )
    assert shared(source) == {"concat c p"}


def test_nested_concatenations_are_one_buffer() -> None:
    """As in DenseNet: every whole is the first part of the next."""
    ops = [op("a", "x", "w0")]
    for i in range(1, 6):
        ops.append(op(f"c{i}", f"w{i - 1}", f"p{i}"))
        ops.append(op(f"k{i}", f"w{i - 1} p{i}", f"w{i}", concat=[f"w{i} w{i - 1}", f"w{i} p{i} {8 * i}"]))
    source = graph([X, *(tensor(f"w{i}", 8 * (i + 1)) for i in range(6))], *ops, outputs="w5")
    plan = memplan.plan(source)
    assert (len(plan.problem), plan.peak) == (1, 48)
    assert memplan.plan(source, zero_copy=False).problem.load == 40 + 8 + 48


def test_a_part_in_place_brings_its_chain() -> None:
    source = concat()
    source["ops"][0]["outputs"] = ["r"]
    source["tensors"].append(tensor("r"))
    source["ops"].insert(1, op("relu", "r", "p", inplace=["p r"]))
    assert shared(source) == {"inplace p r", "concat c p", "concat c q"}


# Overwrites


def test_an_overwrite_frees_the_ends() -> None:
    source = graph(
        [X, tensor("t", 20), tensor("z", 10)],
        op("a", "x", "t"),
        op("set", "t", "z", overwrite=["z t 6"]),
        op("use", "z", "y"),
        outputs="y",
    )
    problem = buffers(source).problem
    assert problem.parts is not None
    assert [part[1:].tolist() for part in problem.parts] == [[0, 6, 0, 2], [6, 16, 0, 3], [16, 20, 0, 2]]


def test_an_updated_weight_stays_where_it_is() -> None:
    source = graph([X, W], op("update", "x w", "n", overwrite=["n w"]), op("use", "n", "y"), outputs="y")
    assert memplan.plan(source).problem.names == ["y"]
    placed = memplan.plan(source, place=ALL)
    assert placed["n"].offset == placed["w"].offset
    assert placed["w"].last == 2


def test_the_rest_of_an_overwritten_tensor_is_not_taken() -> None:
    """v shows bytes that the overwrite leaves; y may not take all of z, for z is an output."""
    source = graph(
        [X, tensor("t", 16), tensor("v"), tensor("z")],
        op("a", "x", "t"),
        op("look", "t", "v", alias=["v t"]),
        op("set", "t", "z", overwrite=["z t 8"]),
        op("relu", "v", "y", inplace=["y v"]),
        op("end", "z", "q", inplace=["q z"]),
        outputs="y z",
    )
    assert shared(source) == {"inplace y v"}


# Streams


def streams(after: bool) -> Dict:
    """t is read by b, and by c which may take its bytes, on another stream."""
    order = {"after": ["b"]} if after else {}
    return graph(
        [X],
        op("a", "x", "t"),
        op("b", "t", "u"),
        op("c", "t", "v", inplace=["v t"], stream=1, **order),
        op("d", "v", "w1", stream=1),
        outputs="u w1",
    )


def test_on_streams_a_reader_beside_forbids_in_place() -> None:
    assert shared(streams(after=False)) == set()
    assert shared(streams(after=True)) == {"inplace v t"}


def test_on_streams_what_may_run_side_by_side_conflicts() -> None:
    def pairs(after: bool) -> list[list[str]]:
        order = {"after": ["b"]} if after else {}
        source = graph([X], op("a", "x", "t"), op("b", "t", "u"), op("c", "x", "v", stream=1, **order))
        problem = buffers(source).problem
        found = [] if problem.conflicts is None else problem.conflicts.tolist()
        return [sorted(problem.names[i] for i in row) for row in found]

    assert pairs(after=False) == [["t", "v"], ["u", "v"]]
    assert pairs(after=True) == []


def test_on_streams_no_storage_has_a_shape() -> None:
    source = concat()
    assert buffers(source).problem.parts is not None
    source["ops"][1]["stream"] = 1
    assert buffers(source).problem.parts is None
    assert shared(source) == {"concat c p", "concat c q"}


def test_an_overwrite_that_races_is_refused() -> None:
    source = graph([X], op("a", "x", "t"), op("b", "t", "u"), op("c", "t", "n", overwrite=["n t"], stream=1))
    with pytest.raises(
        memplan.errors.GraphError, match="op 'c' on stream 1 overwrites bytes that op 'b' on stream 0 uses"
    ):
        memplan.plan(source)
    source["ops"][2]["after"] = ["b"]
    assert memplan.plan(source).verify() is None


# Counts


def test_naive_counts_a_storage_that_sharing_moved_out_of_the_arena() -> None:
    """y, an output, takes t; then their storage is the output's, and outputs are not placed here."""
    plan = memplan.plan(RELU, place=["intermediate"])
    assert (plan.naive, plan.peak) == (8, 0)
    assert memplan.plan(RELU, place=["intermediate"], inplace=False).naive == 8


def test_sizes_whose_sum_is_too_large_share_nothing() -> None:
    huge = [tensor(name, 2**62, "weight") for name in ("w1", "w2")]
    source = {**RELU, "tensors": [*RELU["tensors"], *huge]}
    assert shared(source) == set()
    assert memplan.plan(source).peak == 16


def test_views_near_the_largest_offsets() -> None:
    source = graph(
        [X, tensor("t", 2**62), tensor("v", 2**61), tensor("y", 4)],
        op("a", "x", "t"),
        op("look", "t", "v", alias=[f"v t {2**61}"]),
        op("relu", "v", "y", inplace=[f"y v {2**61 - 4}"]),
        outputs="y",
    )
    plan = memplan.plan(source)
    assert plan["y"].offset == 2**62 - 4
    assert shared(source) == {"inplace y v"}


def test_bytes_are_free_between_the_members_that_use_them() -> None:
    """What t held around z is dead when z moves into c with all of t's bytes, and c is written two steps later."""
    source = graph(
        [tensor("t", 48), tensor("z", 7), tensor("c", 63), tensor("other", 40)],
        op("make", "", "t"),
        op("set", "t", "z", overwrite=["z t 26"]),
        op("between", "", "other"),
        op("cat", "z", "c", concat=["c z 28"]),
        outputs="c",
    )
    problem = buffers(source, planner="greedy_by_size").problem
    assert shared(source, planner="greedy_by_size") == {"concat c z"}
    assert problem.parts is not None
    rows = [tuple(row[1:]) for row in problem.parts.tolist() if row[0] == problem.names.index("c")]
    around = [(2, 28), (35, 50)]
    expected = [(0, 2, 3, 4), (28, 35, 0, 4), (50, 63, 3, 4)]
    expected += [(begin, end, *steps) for begin, end in around for steps in ((0, 2), (3, 4))]
    assert rows == sorted(expected)
    assert load(source) == 63
    assert load(source, zero_copy=False) == 70


def small_net(seed: int) -> Dict:
    """16 ops in a row that read one or two of the last, all of which may be in place."""
    random = Random(seed)
    count = 16
    sizes = [random.randint(1, 9) for _ in range(count)]
    ops = []
    for i in range(count):
        read = " ".join(sorted({f"t{j}" for j in (i - 1, i - random.randint(1, 5)) if j >= 0})) or "x"
        ops.append(op(f"op{i}", read, f"t{i}", inplace=[f"t{i} {t}" for t in read.split() if t != "x"]))
    return graph([X, *(tensor(f"t{i}", size) for i, size in enumerate(sizes))], *ops, outputs=f"t{count - 1}")


def test_auto_is_not_worse_than_nothing_shared_whatever_its_parameters() -> None:
    source = small_net(17777)
    plan, shared = memplan.plan(source), memplan.plan(source, "valley")
    apart = memplan.plan(source, inplace=False, zero_copy=False)
    assert plan.peak <= apart.peak < shared.peak
    assert (plan.peak, plan.optimal) == (plan.load, True)
    assert shared.sharing
    assert memplan.plan(source, "auto:effort=2200000").peak == plan.peak
    assert memplan.plan(source, time_limit=1e-9).sharing
