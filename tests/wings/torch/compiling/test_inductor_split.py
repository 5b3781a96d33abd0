"""`torch.compile(model, backend="memplan", options={"budget": ..., "allow": ["split"]})`."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch._dynamo.backends.common import aot_autograd  # noqa: E402
from torch._dynamo.utils import counters  # noqa: E402
from torch._functorch.aot_autograd import make_boxed_func  # noqa: E402
from torch._inductor.decomposition import select_decomp_table  # noqa: E402

import memplan  # noqa: E402
from builders.random_steps import STEPS  # noqa: E402
from memplan.torch.compiling import budget, partitions, splitting  # noqa: E402
from memplan.torch.compiling.compiled import loaded_since, times_loaded  # noqa: E402
from memplan.torch.compiling.settings import settings_of  # noqa: E402
from memplan.torch.compiling.step_load import SCALES, storages  # noqa: E402
from memplan.torch.compiling.tangents import linear_in  # noqa: E402
from memplan.torch.running.pieces.graph import KEPT  # noqa: E402
from memplan.torch.running.pieces.random_rows import RANDOM_ROWS  # noqa: E402

TOKENS, WIDTH, CLASSES = 16, 4, 200


class Head(nn.Module):
    """Hidden states and the loss of a language model."""

    def __init__(self, **how: Any) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, CLASSES, bias=False)
        self.how = how

    def forward(self, x: Any, y: Any) -> Any:
        return nn.functional.cross_entropy(self.last(self.first(x)), y, **self.how)


class AndLogits(Head):
    def forward(self, x: Any, y: Any) -> Any:
        logits = self.last(self.first(x))
        return nn.functional.cross_entropy(logits, y), logits


class AndMore(Head):
    def forward(self, x: Any, y: Any) -> Any:
        hidden = self.first(x)
        return nn.functional.cross_entropy(self.last(hidden), y), hidden.sigmoid()


class OfOne(Head):
    """A loss that is a vector of one number, and a weight that has no axes."""

    def __init__(self) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(1.5))

    def forward(self, x: Any, y: Any) -> Any:
        return nn.functional.cross_entropy(self.last(self.first(x)) * self.factor, y).reshape(1)


class Picture(nn.Module):
    """A decoder of pictures: backward of convolutions gives several tensors, and of the resizing adds up rows."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Upsample(scale_factor=4, mode="bilinear")
        self.first, self.last = nn.Conv2d(4, 4, 3, padding=1), nn.Conv2d(4, 3, 3, padding=1)

    def forward(self, x: Any, y: Any) -> Any:
        return (torch.tanh(self.last(self.up(self.first(x).relu()))) - y).square().mean()


class Layers(Head):
    """Layers, and the mean over targets that count: between forward and backward, a number needs all of them."""

    def forward(self, x: Any, y: Any) -> Any:
        for _ in range(3):
            x = x + nn.functional.gelu(self.first(x))
        return nn.functional.cross_entropy(self.last(x), y)


class Rays(Head):
    """Light along rays: backward of what adds up goes backwards, and repeats what is one for a ray."""

    def forward(self, x: Any, y: Any) -> Any:
        passed = torch.cumprod(torch.cat([torch.ones_like(x[:, :1]), 1 - self.first(x).sigmoid()], 1), 1)[:, :-1]
        colour = (passed.unsqueeze(2) * self.last(x).sigmoid().unsqueeze(1)).mean(1)
        return (colour - y.unsqueeze(1)).square().mean()


def compiled(model: nn.Module, seen: dict[str, Any], budget_bytes: int = 28_000) -> Any:
    """A model whose graphs run op by op, the loss in pieces; what forward and backward are."""

    class Noted(budget.WithinBudget):
        def __call__(self, gm: Any, joint_inputs: Any, **kwargs: Any) -> Any:
            graphs = super().__call__(gm, joint_inputs, **kwargs)
            seen["graphs"] = graphs
            return graphs

    def as_it_is(graph: Any, inputs: Any) -> Any:
        return make_boxed_func(graph.forward)

    torch._dynamo.reset()
    partition = Noted(budget_bytes, allow=("split",))
    how = {"fw_compiler": as_it_is, "partition_fn": partition, "decompositions": select_decomp_table()}
    return torch.compile(model, backend=aot_autograd(**how))


def gradients(model: nn.Module, run: Any, x: Any, y: Any, scale: float, times: int) -> list[Any]:
    model.zero_grad()
    x.grad = None
    for _ in range(times):
        result = run(x, y)
        parts = result if isinstance(result, tuple) else (result,)
        sum((part.mean() * scale * (k + 1) for k, part in enumerate(parts)), torch.zeros(())).backward()
    return [x.grad, *(p.grad.clone() for p in model.parameters())]


def example() -> tuple[Any, Any]:
    torch.manual_seed(0)
    y = torch.randint(0, CLASSES, (TOKENS,))
    y[3:9] = -100
    return torch.randn(TOKENS, WIDTH, dtype=torch.float64, requires_grad=True), y


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[splitting.Split]:
    """What graphs are split into."""
    found: list[splitting.Split] = []

    def split(*args: Any, **how: Any) -> splitting.Split:
        found.append(splitting.split_graph(*args, **how))
        return found[-1]

    monkeypatch.setattr(budget, "split_graph", split)
    return found


@pytest.mark.parametrize("kind", [Layers, Rays])
def test_a_whole_step_is_in_pieces(kind: type[Head], found: list[splitting.Split]) -> None:
    torch.manual_seed(0)
    model, (x, y) = kind().double(), example()
    expected = gradients(model, model, x, y, 1.0, 1)
    for got, wanted in zip(gradients(model, compiled(model, {}, 9_000), x, y, 1.0, 1), expected, strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-12, atol=1e-14)
    assert [change.pieces for change in found[-1].changes] == [16]
    assert len(found[-1].changes[0].ops) > 80


@pytest.mark.slow
def test_what_is_counted_over_all_samples_does_not_end_a_region(found: list[splitting.Split]) -> None:
    """Backward divides by how many targets count, so the count stays out of the region that all else is in."""
    torch.manual_seed(0)
    model, (tokens,), loss = STEPS["adapters"]()
    run = compiled(lambda tokens: loss(model(tokens)), {}, 30 * 2**20)  # type: ignore[arg-type]
    run(tokens).backward()
    [change] = found[-1].changes
    assert len(change.ops) > 700


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("model", "scale", "times"),
    [
        (Head, 1.0, 1),
        (Head, 1024.0, 2),
        (lambda: Head(label_smoothing=0.1), 1.0, 1),
        (lambda: Head(reduction="sum"), 0.5, 1),
        (AndMore, 1.0, 1),
        (OfOne, 7.0, 2),
    ],
)
def test_a_loss_in_pieces_has_equal_gradients(model: Any, scale: float, times: int) -> None:
    (x, y), seen = example(), dict[str, Any]()
    own = model().double()
    expected = gradients(own, own, x, y, scale, times)
    found = gradients(own, compiled(own, seen), x, y, scale, times)
    torch.testing.assert_close(found, expected)
    forward, backward = seen["graphs"]
    made = [size for node in forward.graph.nodes for size in storages(node).values()]
    assert max(made) < 8 * TOKENS * CLASSES  # bytes: logits are never whole
    joined = forward.graph.find_nodes(op="call_function", target=torch.ops.aten.cat.default)
    assert not any(piece.target is torch.ops.aten.gather.default for node in joined for piece in node.args[0])
    assert any(SCALES in node.meta for node in backward.graph.nodes)
    assert not any(node.target is torch.ops.aten.exp.default for node in backward.graph.nodes)


@pytest.mark.parametrize(("given", "is_linear"), [("atg", True), ("tag", True), ("ttg", False), ("tab", False)])
def test_a_product_and_a_sum_at_once_is_linear_in_what_both_are(given: str, is_linear: bool) -> None:
    """The backward of softmax is -y * sum + g, where the sum and g depend on the tangent."""
    graph = torch.fx.Graph()
    named = {name: graph.placeholder({"t": "tangents_1"}.get(name, name)) for name in "tab"}
    named["g"] = graph.call_function(torch.ops.aten.mul.Tensor, (named["t"], named["b"]))
    for node in named.values():
        node.meta["val"] = torch.zeros(())
    last = graph.call_function(torch.ops.prims.fma.default, tuple(named[name] for name in given))
    last.meta["val"] = torch.zeros(())
    assert (linear_in(graph)[last] is named["t"]) == is_linear


@pytest.mark.parametrize(("into", "is_linear"), [("t", True), ("zeros", True), ("ones", False), ("a", False)])
@pytest.mark.parametrize("embedding", [False, True])
def test_what_is_written_into_zeros_is_linear(embedding: bool, into: str, is_linear: bool) -> None:
    """The backward of taking q, k and v from one tensor, and that of an embedding."""
    graph = torch.fx.Graph()
    named = {name: graph.placeholder(name) for name in ("tangents_1", "a")}
    for node in named.values():
        node.meta["val"] = torch.zeros(())
    many = {"t": graph.call_function(torch.ops.aten.expand.default, (named["tangents_1"], [3, 4])), "a": named["a"]}
    for name, value in (("zeros", 0), ("ones", 1)):
        many[name] = graph.call_function(torch.ops.aten.full.default, ([3, 4], value))
    row = graph.call_function(torch.ops.aten.expand.default, (named["tangents_1"], [4]))
    if embedding:
        given = (many[into], named["a"], [named["a"]], row)
        last = graph.call_function(torch.ops.aten._unsafe_masked_index_put_accumulate.default, given)
    else:
        last = graph.call_function(torch.ops.aten.select_scatter.default, (many[into], row, 0, 1))
    assert (linear_in(graph)[last] is named["tangents_1"]) == is_linear


@pytest.mark.parametrize(
    ("op", "more", "is_linear"),
    [
        (torch.ops.aten.div.Tensor_mode, {"rounding_mode": None}, True),
        (torch.ops.aten.div.Tensor_mode, {"rounding_mode": "floor"}, False),
        (torch.ops.prims.convert_element_type.default, torch.bfloat16, True),
        (torch.ops.prims.convert_element_type.default, torch.float16, False),
        (torch.ops.prims.convert_element_type.default, torch.float8_e5m2, False),
        (torch.ops.prims.convert_element_type.default, torch.int8, False),
    ],
)
def test_what_is_rounded_is_not_linear(op: Any, more: Any, is_linear: bool) -> None:
    """Nor what is of a type that does not hold small numbers."""
    graph, value = torch.fx.Graph(), torch.ones(())
    tangent = graph.placeholder("tangents_1")
    tangent.meta["val"] = value
    args, kwargs = ((2.0,), more) if isinstance(more, dict) else ((more,), {})
    last = graph.call_function(op, (tangent, *args), kwargs)
    last.meta["val"] = op(value, *args, **kwargs)
    assert (linear_in(graph)[last] is tangent) == is_linear


def test_rows_for_later_pieces_and_masks_are_written_at_once() -> None:
    """Else Inductor keeps what they are made of: all rows, and the random numbers."""
    aten, graph = torch.ops.aten, torch.fx.Graph()
    seed, x = graph.placeholder("seed"), graph.placeholder("x")
    seed.meta["val"], x.meta["val"] = torch.zeros((), dtype=torch.int64), torch.zeros(8, 4)
    drawn = graph.call_function(RANDOM_ROWS, ([8, 4], seed, "rand", 0, 0, 4))
    mask, copied = graph.call_function(aten.gt.Scalar, (drawn, 0.5)), graph.call_function(aten.clone.default, (x,))
    made = [drawn, mask, copied, graph.call_function(aten.mul.Tensor, (mask, copied))]
    for node, value in zip(made, (torch.zeros(4, 4), torch.zeros(4, 4) > 0, x.meta["val"], x.meta["val"]), strict=True):
        node.meta["val"] = value
    copied.meta[KEPT] = True
    graph.output((made[-1],))
    splitting._write_at_once(graph)
    written = [next(iter(node.users)) for node in (mask, copied)]
    assert [node.target for node in written] == [torch.ops.prims.inductor_force_stride_order.default] * 2
    assert made[-1].args == (*written,)
    assert [len(node.users) for node in (drawn, mask, copied)] == [1, 1, 1]


def test_a_view_of_all_that_a_region_makes_is_not_in_pieces() -> None:
    """The core shows it whole, after the region."""
    ops = [SimpleNamespace(name=name) for name in ("norm", "mm", "view")]
    read: Any = SimpleNamespace(graph=SimpleNamespace(ops=ops))
    change: Any = SimpleNamespace(ops=["mm", "view", "norm"], loops=[2, 0, 1], again=["mm"])
    assert splitting._region(read, change, {"norm": 1, "mm": 2}) == [(0, 1, False), (1, 2, True)]


def test_inference_goes_through_norms_where_ops_may_run_again() -> None:
    """Compilers see variances and elements in place of norms, with small ops between these."""
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(4, 8), nn.SiLU(), nn.Conv2d(8, 2, 3, padding=1)]
    net, x = nn.Sequential(*layers).eval(), torch.randn(1, 3, 64, 64)
    graphs: list[Any] = []

    def compiler(graph: Any, _: Any) -> Any:
        graphs.append(splitting.split_graph(graph, 4 * 20_000, again=True))
        return make_boxed_func(graphs[-1].module.forward)

    decompositions = select_decomp_table()
    backend = aot_autograd(fw_compiler=compiler, inference_compiler=compiler, decompositions=decompositions)
    with torch.no_grad():
        found = torch.compile(net, backend=backend)(x)
        torch.testing.assert_close(found, net(x))
    [split] = graphs
    assert any(change.reruns for change in split.changes)
    whole = 8 * 64 * 64 * 4  # bytes of a map that the norm goes over
    assert all(value < whole for node in split.module.graph.nodes for value in storages(node).values())


@pytest.mark.slow
def test_backward_of_convolutions_runs_within_forward() -> None:
    torch.manual_seed(0)
    x = torch.randn(4, 4, 6, 6, dtype=torch.float64, requires_grad=True)
    y, own, seen = torch.randn(4, 3, 24, 24, dtype=torch.float64), Picture().double(), dict[str, Any]()
    expected = gradients(own, own, x, y, 3.0, 2)
    found = gradients(own, compiled(own, seen, 60_000), x, y, 3.0, 2)
    torch.testing.assert_close(found, expected)
    forward, backward = seen["graphs"]
    within = forward.graph.find_nodes(op="call_function", target=torch.ops.aten.convolution_backward.default)
    assert len(within) >= 2
    assert max(size for node in forward.graph.nodes for size in storages(node).values()) < 8 * 4 * 4 * 24 * 24
    assert any(SCALES in node.meta for node in backward.graph.nodes)


def test_where_something_else_reads_the_logits_backward_stays() -> None:
    (x, y), seen = example(), dict[str, Any]()
    own = AndLogits().double()
    expected = gradients(own, own, x, y, 1.0, 1)
    torch.testing.assert_close(gradients(own, compiled(own, seen), x, y, 1.0, 1), expected)
    assert not any(SCALES in node.meta for node in seen["graphs"][1].graph.nodes)


def test_half_precision_keeps_its_scale() -> None:
    """Gradients for 1 would be too small: that is why losses are scaled."""
    seen: dict[str, Any] = {}
    own = Head().half()
    x, y = example()
    gradients(own, compiled(own, seen), x.detach().half().requires_grad_(), y, 1024.0, 1)
    assert not any(SCALES in node.meta for node in seen["graphs"][1].graph.nodes)


def test_what_is_allowed_is_checked() -> None:
    def settings(**options: Any) -> Any:
        return settings_of(options, {}, set())[0]

    assert settings(budget="60%", allow=["split", "recompute"]).allow == ("recompute", "split")
    with pytest.raises(
        ValueError, match="allow must hold ways among recompute, split, got 'splt'; did you mean 'split'"
    ):
        settings(budget="60%", allow=["splt"])
    with pytest.raises(ValueError, match="allow needs budget"):
        settings(allow=["split"])


@pytest.mark.slow
def test_the_backend_takes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What attempts have lowered is in torch's cache when it is to run."""
    x, y = example()
    own = Head().double()
    expected = gradients(own, own, x, y, 3.0, 1)
    torch._dynamo.reset()
    counters.clear()
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    run = torch.compile(own, backend="memplan", options={"budget": "97%", "allow": ["split"]})
    with torch._inductor.config.patch(fx_graph_cache=True):
        torch.testing.assert_close(gradients(own, run, x, y, 3.0, 1), expected)
    assert counters["inductor"]["fxgraph_cache_hit"] == 2
    assert "fxgraph_cache_bypass" not in counters["inductor"]


@pytest.mark.slow
def test_inference_in_pieces_holds_less() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 1, 1)).eval()
    x = torch.randn(1, 1, 8, 96)
    torch._dynamo.reset()
    before = times_loaded()
    run = torch.compile(net, backend="memplan", options={"budget": "kept + 12KiB", "allow": ["split"]})
    with torch.no_grad():
        torch.testing.assert_close(run(x), net(x))
    [found] = loaded_since(before)
    assert max(found.planned) <= 12 * 1024  # the first convolution alone makes 24


def test_fewer_pieces_where_that_costs_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """What runs again costs more, the fewer pieces there are; what each piece reads costs more, the more there are."""
    asked: list[tuple[int, int]] = []

    class Cuts:
        def __init__(self, module: Any, *_: Any, **__: Any) -> None:
            self.pieces = len(module.graph.nodes)

        def usual(self) -> tuple[int, Any]:
            return 1000, None

    def split(_: Any, capacity: int, most: int, **__: Any) -> Any:
        asked.append((capacity, most))
        pieces = min(most, 40 if capacity else 64)
        return budget.Split(SimpleNamespace(graph=SimpleNamespace(nodes=range(pieces))), (change(pieces),), cost=pieces)

    def within(cuts: Cuts, *_: Any, **__: Any) -> Any:
        if cuts.pieces in none:
            raise memplan.InfeasibleError("none")
        return partitions.Partition((cuts.pieces, None), 0, 100 / cuts.pieces)  # type: ignore[arg-type]

    def change(pieces: int) -> Any:
        return SimpleNamespace(pieces=pieces)

    monkeypatch.setattr(budget, "copied", lambda module: module)
    monkeypatch.setattr(budget, "Cuts", Cuts)
    monkeypatch.setattr(budget, "split_graph", split)
    monkeypatch.setattr(budget, "within", within)
    partitioner = budget.WithinBudget(500, allow=("split", "recompute"))
    graph = SimpleNamespace(graph=SimpleNamespace(nodes=()))
    none = {64}
    assert partitioner(graph, ())[0] == 8
    assert asked == [(500, 64), (500, 16), (500, 8), (500, 4)]
    monkeypatch.setattr(Cuts, "by_torch", lambda cuts: partitions.Partition((cuts.pieces, None), 0, 0.0), raising=False)
    asked.clear()
    assert partitioner(graph, ())[0] == 8
    assert not asked  # it is known
    partitioner = budget.WithinBudget(500, allow=("split", "recompute"))
    none = {4, 8, 16, 40}
    asked.clear()
    assert partitioner(graph, ())[0] == 64
    assert asked[-4:] == [(0, 64), (0, 16), (0, 8), (0, 4)]
