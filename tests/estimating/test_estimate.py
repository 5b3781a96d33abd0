"""`memplan.estimate` and `memplan.largest`: what they say is what torch's CPU allocator gives out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import memplan  # noqa: E402
from builders import onnx_models as onnx_build  # noqa: E402
from builders.commands import LIFETIMES, run  # noqa: E402
from memplan import _core  # noqa: E402
from memplan.printing.units import format_bytes  # noqa: E402
from memplan.torch import estimating  # noqa: E402
from memplan.torch.reading.workspaces import workspace_of  # noqa: E402
from oracles.allocator import peak  # noqa: E402
from oracles.caching import MIB, Allocator  # noqa: E402

SCALARS = 64  # bytes: kernels make tensors of the numbers that they are given


def block(dropout: float = 0.1) -> Any:
    layers = [torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Dropout(dropout), torch.nn.Linear(256, 64)]
    return torch.nn.Sequential(*layers, torch.nn.LayerNorm(64))


def two_layers() -> Any:
    """Searches for what runs again take long in larger ones."""
    return torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.Tanh(), torch.nn.Linear(32, 32), torch.nn.Tanh())


def step_of(model: Any, x: Any, optimizer: Any = None, autocast: Any = None) -> Any:
    def step() -> Any:
        with torch.autocast("cpu", autocast, enabled=autocast is not None):
            out = model(x)
        out.sum().backward()
        if optimizer is not None:
            optimizer.step()
        return out

    return step


def test_inference_is_what_is_given_out() -> None:
    model, x = block().eval(), torch.randn(32, 64)
    with torch.no_grad():
        real = peak(lambda: model(x))
    found = memplan.estimate(model, args=(x,))
    assert found.total - found.kept == real
    assert found.weights == sum(p.nbytes for p in model.parameters())
    assert (found.inputs, found.gradients, found.states, found.phase) == (x.nbytes, 0, 0, "forward")


def test_training_is_what_is_given_out() -> None:
    model, x = block(), torch.randn(512, 64)
    found = memplan.estimate(model, args=(x,), train=True)
    assert found.total - found.kept == pytest.approx(peak(step_of(model, x)), abs=SCALARS)
    assert found.phase == "backward"
    assert found.activations > 0
    assert found.temporaries > 0
    assert all(p.grad is not None for p in model.parameters())  # the step's, which the estimate leaves alone


@pytest.fixture
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def convolutions(name: str) -> tuple[Any, Any]:
    nn, x = torch.nn, torch.randn(4, 16, 32, 32)
    layers = {
        "plain": nn.Sequential(nn.Conv2d(16, 24, 3, padding=1), nn.BatchNorm2d(24), nn.SiLU(), nn.Conv2d(24, 16, 1)),
        "by channel": nn.Sequential(nn.Conv2d(16, 16, 7, padding=3, groups=16), nn.Conv2d(16, 16, 3, groups=16)),
        "transposed": nn.Sequential(nn.Conv2d(16, 32, 2, 2), nn.ReLU(), nn.ConvTranspose2d(32, 16, 2, 2)),
        "channels last": nn.Sequential(nn.Conv2d(16, 32, 3), nn.ReLU(), nn.Conv2d(32, 16, 3)),
        "an image": nn.Sequential(nn.Conv2d(3, 16, 3, 2), nn.ReLU(), nn.Conv2d(16, 32, 3)),
        "narrow groups": nn.Sequential(nn.Conv2d(16, 16, 5, padding=2, groups=4), nn.ReLU()),
    }
    if name == "channels last":
        return layers[name].to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    return layers[name], torch.randn(4, 3, 64, 64) if name == "an image" else x


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("whole", [False, True])
def test_a_gradient_that_is_a_slice_is_copied_for_a_convolution(last: bool, whole: bool, one_thread: None) -> None:
    """As that of a concatenation is. Batch norm makes its result twice where the gradient lies as its input does."""
    form = torch.channels_last if last else torch.contiguous_format
    x, wide = torch.randn(4, 32, 32, 32), torch.randn(4, 32 if whole else 64, 32, 32)
    x, gradient = x.to(memory_format=form), wide.to(memory_format=form)[:, :32]
    weight, numbers = torch.randn(32, 32, 3, 3), torch.ones(32)
    how = [32], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [True, True, True]
    norm = numbers, numbers, numbers, numbers, numbers, True, 1e-5, [True, True, True]
    for name, args in (
        ("convolution_backward", (gradient, x, weight, *how)),
        ("native_batch_norm_backward", (gradient, x, *norm)),
    ):
        op = getattr(torch.ops.aten, name).default
        made = op(*args)
        real = peak(lambda op=op, args=args: op(*args)) - sum(tensor.nbytes for tensor in made)
        assert abs(workspace_of(op, args, {}, made) - real) < x.nbytes / 4, name


@pytest.mark.parametrize(
    "name",
    ["plain", "by channel", "transposed", "channels last", "an image", "narrow groups"],
)
@pytest.mark.parametrize("train", [False, True])
def test_kernels_of_convolutions_copy_what_they_are_given(name: str, train: bool, one_thread: None) -> None:
    """With several threads, gradients of weights are summed up from some of each."""
    torch.manual_seed(0)
    model, x = convolutions(name)
    found = memplan.estimate(model.train(train), args=(x,), train=train)
    with torch.set_grad_enabled(train):
        real = peak(step_of(model, x) if train else lambda: model(x))
    assert found.total - found.kept == pytest.approx(real, rel=0.01)
    assert found.workspaces > x.nbytes / 2 or name in ("plain", "channels last")


class Applied(torch.nn.Module):
    """A function as a network."""

    def __init__(self, function: Any, *parts: Any) -> None:
        super().__init__()
        self.function, self.parts = function, torch.nn.ModuleList(parts)

    def forward(self, *args: Any) -> Any:
        return self.function(*self.parts, *args)


def test_a_bias_is_added_in_place_by_a_layer_alone() -> None:
    """Eager torch writes over the product that it has just made; what the caller adds is new."""
    linear, x = torch.nn.Linear(64, 256), torch.randn(32, 16, 64).transpose(0, 1)
    by_hand = Applied(lambda layer, x: x @ layer.weight.t() + layer.bias, linear)
    called = Applied(lambda layer, x: torch.add(torch.matmul(x, layer.weight.t()), layer.bias), linear)
    totals = []
    for model in (linear, by_hand, called):
        for given in (x, x[0], x[:, :, None].expand(16, 32, 2, 64)):
            for train in (False, True):
                found = memplan.estimate(model, args=(given,), train=train)
                model.zero_grad()
                with torch.set_grad_enabled(train):
                    real = peak(step_of(model, given) if train else lambda m=model, given=given: m(given))
                assert found.total - found.kept == real
                totals.append(found.total)
    assert totals[0] < totals[6] == totals[12]


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("inputs", [24, 64, 200])
def test_recurrent_layers_keep_gates_and_states(inputs: int, train: bool) -> None:
    class Last(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = torch.nn.LSTM(inputs, 64, 2, batch_first=True, bidirectional=True)

        def forward(self, x: Any) -> Any:
            return self.lstm(x)[0][:, -1]

    model, x = Last().train(train), torch.randn(8, 20, inputs)
    found = memplan.estimate(model, args=(x,), train=train)
    with torch.set_grad_enabled(train):
        real = peak(step_of(model, x) if train else lambda: model(x))
    assert found.total - found.kept == pytest.approx(real, rel=0.05 if train else 0.12)


@pytest.mark.parametrize("wide", [64, 1024])
def test_a_layer_in_one_op_holds_what_it_makes_in_between(wide: int) -> None:
    layer = torch.nn.TransformerEncoderLayer(64, 4, wide, batch_first=True).eval()
    attention = torch.nn.MultiheadAttention(64, 4, batch_first=True).eval()
    for length in (16, 96):
        x = torch.randn(4, length, 64)
        with torch.no_grad():
            found = memplan.estimate(layer, args=(x,))
            assert found.total - found.kept == pytest.approx(peak(lambda x=x: layer(x)), abs=4 * SCALARS)
            found = memplan.estimate(attention, args=(x, x, x), kwargs={"need_weights": False})
            real = peak(lambda x=x: attention(x, x, x, need_weights=False))
            assert found.total - found.kept == pytest.approx(real, abs=4 * SCALARS)
        assert found.workspaces > 0


def test_a_step_with_an_optimizer_is_what_is_given_out() -> None:
    model, x = block(), torch.randn(8, 64)
    optimizer = torch.optim.AdamW(model.parameters())
    before = memplan.estimate(model, args=(x,), train=True, optimizer=torch.optim.AdamW)
    step_of(model, x, optimizer)()
    optimizer.zero_grad()
    assert before == memplan.estimate(model, args=(x,), train=True, optimizer=optimizer)
    assert before.total - before.kept == pytest.approx(peak(step_of(model, x, optimizer)), abs=SCALARS)
    assert before.states == sum(t.nbytes for state in optimizer.state.values() for t in state.values())
    assert (before.phase, before.gradients) == ("update", before.weights)


@pytest.mark.parametrize("name", ["SGD", "RAdam"])
def test_any_optimizer_is_traced(name: str) -> None:
    """Those too whose steps branch on numbers, which a plan refuses."""
    model, x = block(), torch.randn(8, 64)
    found = memplan.estimate(model, args=(x,), train=True, optimizer=name)
    optimizer = getattr(torch.optim, name)(model.parameters())
    step_of(model, x, optimizer)()
    optimizer.zero_grad()
    assert found.total - found.kept == pytest.approx(peak(step_of(model, x, optimizer)), abs=SCALARS)


def test_autocast_runs_in_forward_alone() -> None:
    model, x = block(), torch.randn(512, 64)
    found = memplan.estimate(model, args=(x,), train=True, autocast=True)
    with torch.backends.mkldnn.flags(enabled=False):  # its products in bfloat16 allocate for themselves
        real = peak(step_of(model, x, autocast=torch.bfloat16))
    assert found.total - found.kept == pytest.approx(real, rel=0.01)
    assert found.activations < memplan.estimate(model, args=(x,), train=True).activations


def test_a_loss_of_the_caller() -> None:
    model, x, y = block(), torch.randn(512, 64), torch.randn(512, 64)

    def step() -> Any:
        out = model(x)
        loss = torch.nn.functional.mse_loss(out, y)
        loss.backward()
        return out, loss

    found = memplan.estimate(
        model, args=(x,), train=True, loss=lambda out: torch.nn.functional.mse_loss(out, torch.empty_like(out))
    )
    assert found.total - found.kept == pytest.approx(peak(step), abs=y.nbytes)


def test_cuda_needs_no_gpu() -> None:
    model, x = block(), torch.empty(512, 64, device="meta")
    cpu, cuda = (memplan.estimate(model, args=(x,), train=True, optimizer="AdamW", device=d) for d in ("cpu", "cuda"))
    assert cuda.rounding > 0 == cpu.rounding
    assert cuda.reserved is not None
    assert cuda.reserved >= cuda.total - cuda.workspaces
    assert cuda.notes[0].startswith("for CUDA, without a GPU")
    assert sum(cuda.parts.values()) == cuda.total


class Rows(torch.nn.Module):
    """Repeats its input ever more often, so that no cached segment serves what comes next."""

    def forward(self, x: Any) -> Any:
        return x.repeat(5, 1).sum() + x.repeat(9, 1).sum() + x.repeat(14, 1).sum()


def test_on_cuda_a_size_fits_with_its_fragmentation() -> None:
    x = torch.zeros(4, 2**18)
    found = memplan.estimate(Rows(), args=(x,), device="cuda")
    assert found.suffices is not None
    assert found.reserved is not None
    assert found.total < found.suffices < found.reserved
    assert f"{found.suffices:,} bytes" in str(found)
    how: Any = {"autocast": None, "device": "cuda", "train": False, "optimizer": None, "loss": None}
    rows, sizes = estimating._requests(estimating.dry_run_of(Rows(), (x,), None, **how))
    for capacity, fits in ((found.suffices, True), (found.suffices - 2 * MIB, False)):
        slow, where, served = Allocator(capacity=capacity), {}, []
        for row, size in zip(rows, sizes, strict=True):
            if row >= 0:
                where[row] = slow.allocate(size, 0)
                served.append(where[row] is not None)
            elif (address := where[-1 - row]) is not None:
                slow.free(address)
        assert all(served) == fits
    best = memplan.largest(Rows(), found.suffices - 1, axes={"x": 0}, args=(x,), device="cuda")
    assert best.size == 3
    assert best.next_total == found.suffices


def test_the_step_on_cuda_updates_all_parameters_at_once() -> None:
    model, x = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(8)]), torch.empty(1, 64, device="meta")
    found = {
        d: memplan.estimate(model, args=(x,), train=True, optimizer="AdamW", device=d).temporaries
        for d in ("cpu", "cuda")
    }
    weights = sum(p.nbytes for p in model.parameters())
    assert found["cuda"] >= weights > found["cpu"]


def test_graphs_and_files_are_read_to_the_last_use() -> None:
    graph = memplan.capture(block().eval(), args=(torch.randn(32, 64),)).graph
    found = memplan.estimate(graph)
    assert found.weights == sum(p.nbytes for p in block().parameters())
    assert found.total - found.kept == memplan.plan(graph, inplace=False, zero_copy=False).load
    assert "last use" in found.notes[0]


def test_an_exported_program_is_read_with_its_optimizer() -> None:
    program = torch.export.export(block(), (torch.randn(32, 64),))
    found = memplan.estimate(program, train=True, optimizer="AdamW")
    whole = memplan.estimate(block(), args=(torch.randn(32, 64),), train=True, optimizer="AdamW")
    assert (found.weights, found.states, found.gradients) == (whole.weights, whole.states, whole.gradients)


def test_as_text_and_html_and_dict() -> None:
    found = memplan.estimate(block(), args=(torch.randn(32, 64),), train=True, optimizer="AdamW")
    lines = str(found).splitlines()
    assert any("total" in line and "█" * 30 in line for line in lines)
    assert any("weights" in line and format_bytes(found.weights) in line for line in lines)
    assert "<table>" in found._repr_html_()
    assert found.to_dict()["total"] == found.total
    assert found.at in str(found)


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"device": "tpu"}, ValueError, "device must be 'cpu' or 'cuda', got 'tpu'"),
        ({"optimizer": "AdamW"}, TypeError, "optimizer needs train=True"),
        ({"loss": sum}, TypeError, "loss needs train=True"),
        ({"dims": {"n": 3}}, TypeError, "dims and trust are for files"),
        ({"autocast": "half"}, TypeError, "autocast must be True, False or a dtype such as torch.bfloat16, got 'half'"),
        ({"args": torch.zeros(3)}, TypeError, "args must be a tuple"),
        ({"train": True, "optimizer": 3}, TypeError, "optimizer must be"),
    ],
)
def test_bad_options_are_named(options: dict[str, Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        memplan.estimate(block(), **{"args": (torch.randn(2, 64),), **options})


def test_a_step_that_fails_says_where() -> None:
    with pytest.raises(
        memplan.errors.SourceError, match=r"Sequential.forward: op 'aten.addmm.default': .* \(float32\[2, 63\]\)"
    ):
        memplan.estimate(block(), args=(torch.randn(2, 63),))
    with pytest.raises(memplan.errors.SourceError, match="requires a gradient"):
        memplan.estimate(block().requires_grad_(False), args=(torch.randn(2, 64),), train=True)
    with pytest.raises(memplan.errors.SourceError, match=r"optimizer Adafactor: .*item\(\)"):
        memplan.estimate(block(), args=(torch.randn(2, 64),), train=True, optimizer="Adafactor")
    other = torch.optim.AdamW(block().parameters())
    with pytest.raises(memplan.errors.SourceError, match="is not the network's"):
        memplan.estimate(block(), args=(torch.randn(2, 64),), train=True, optimizer=other)


def test_problems_say_too_little() -> None:
    with pytest.raises(TypeError, match="a problem does not say"):
        memplan.estimate(memplan.Problem([1], [0], [1]))
    with pytest.raises(TypeError, match=r"need .*a torch.nn.Module"):
        memplan.estimate("example:gpt2_infer", autocast=True)


# The largest size


def test_the_largest_batch_fits_for_real_and_one_more_does_not() -> None:
    model, x = block(), torch.randn(8, 64)
    found = memplan.largest(model, "4MiB", args=(x,), axes={"input": 0}, train=True)
    kept = sum(p.nbytes for p in model.parameters())
    totals = []
    for size in (found.size, found.size + 1):
        big = torch.randn(size, 64)
        totals.append(kept + big.nbytes + peak(step_of(model, big)))
        model.zero_grad()
    assert totals == pytest.approx([found.total, found.next_total], abs=SCALARS)
    assert totals[0] <= 4 * 2**20 < totals[1]
    assert len(found.tried) < 12
    assert f"{int(found)} is the largest size that fits 4.00 MiB" in str(found)


def test_more_fits_where_ops_run_again() -> None:
    how: dict[str, Any] = {"args": (torch.randn(4, 32),), "axes": {"input": 0}, "train": True}
    plain, fitted = (memplan.largest(two_layers(), "32KiB", fit=fit, **how) for fit in (False, True))
    assert fitted.size > plain.size
    assert fitted.total is not None
    assert fitted.total <= 2**15
    assert fitted.changes
    assert fitted.added_cost > 0
    assert "changes to fit add" in str(fitted)


@pytest.mark.slow
def test_a_budget_besides_what_is_kept() -> None:
    model = block()
    how: dict[str, Any] = {"axes": {"input": 0}, "args": (torch.randn(2, 64),), "train": True, "optimizer": "AdamW"}
    at_40 = memplan.estimate(model, args=(torch.randn(40, 64),), train=True, optimizer="AdamW")
    found = memplan.largest(model, f"kept + {at_40.total - at_40.kept}", **how)
    assert found.size == 40
    assert found.total == found.budget == at_40.total - at_40.kept
    assert memplan.largest(model, at_40.total, **how).size == 40
    assert "left out" in str(found)
    small, how["args"] = two_layers(), (torch.randn(2, 32),)
    kept = memplan.estimate(small, args=how["args"], train=True, optimizer="AdamW").kept
    fitted = memplan.largest(small, "kept + 12KiB", fit=True, **how)
    assert fitted.total is not None
    assert fitted.total <= 12 * 2**10 < kept


def test_nothing_fits() -> None:
    found = memplan.largest(block(), 1000, args=(torch.randn(2, 64),), axes={"input": 0})
    assert (found.size, found.total) == (0, None)
    found = memplan.largest(block(), 1000, args=(torch.randn(2, 64),), axes={"input": 0}, fit=True)
    assert found.size == 0
    assert str(found).splitlines()[0] == "no size fits 1,000 bytes"


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"axes": {}}, TypeError, "axes must be a mapping"),
        (
            {"axes": {"y": 0}},
            ValueError,
            r"axes names 'y', which is no tensor among the arguments; these are: input \(2, 64\)",
        ),
        ({"axes": {"input": 2}}, ValueError, r"axes\['input'\] must be an axis of \(2, 64\), got 2"),
        ({"fit": True, "autocast": True}, TypeError, "fit=True takes no autocast"),
    ],
)
def test_bad_axes_are_named(options: dict[str, Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        memplan.largest(block(), "1MiB", **{"args": (torch.randn(2, 64),), "axes": {"input": 0}, **options})
    with pytest.raises(TypeError, match=r"axes, args and kwargs are for .*a torch.nn.Module"):
        memplan.largest("model.onnx", "1MiB", axes={"x": 0})
    with pytest.raises(TypeError, match=r"dim must be the name of a symbolic dimension .* got None"):
        memplan.largest("model.onnx", "1MiB")
    with pytest.raises(TypeError, match=r"dim, dims and trust are for files and graphs"):
        memplan.largest(block(), "1MiB", args=(torch.randn(2, 64),), dim="batch")


def test_an_axis_that_was_forgotten_is_offered() -> None:
    class Two(torch.nn.Module):
        def forward(self, x: Any, y: Any, z: Any = None) -> Any:
            return x + y

    args = (torch.zeros(4, 8), torch.zeros(4, 8))
    with pytest.raises(memplan.errors.SourceError) as caught:
        memplan.largest(Two(), "1MiB", args=args, axes={"x": 0})
    said = "the step works with 4 at axis 0 of 'x', and fails with 8; 'y' (4, 8) has the same size: "
    assert str(caught.value).startswith(f"{said}try axes={{'x': 0, 'y': 0}}: ")
    assert memplan.largest(Two(), "1MiB", args=args, axes={"x": 0, "y": 0}).size > 4
    with pytest.raises(TypeError, match=r"the tensors among the arguments are: x \(4, 8\), y \(4, 8\)"):
        memplan.largest(Two(), "1MiB", args=args)
    with pytest.raises(TypeError, match=r"those of Two.forward\(x, y, z\): missing a required argument: 'y'"):
        memplan.largest(Two(), "1MiB", args=args[:1], axes={"x": 0})
    with pytest.raises(TypeError, match=r"args must be a tuple of the positional arguments, .*, got Tensor"):
        memplan.largest(Two(), "1MiB", args=args[0], axes={"x": 0})
    with pytest.raises(ValueError, match="it is not known here what this is a share of"):
        memplan.largest(Two(), "60%", args=args, axes={"x": 0, "y": 0})


def test_axes_have_one_size() -> None:
    class Two(torch.nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            return x @ y

    with pytest.raises(ValueError, match=r"axes must all have the same size, got \{'x': 3, 'y': 5\}"):
        memplan.largest(Two(), "1MiB", args=(torch.randn(3, 4), torch.randn(4, 5)), axes={"x": 0, "y": 1})
    with pytest.raises(ValueError, match="any size fits"):
        memplan.largest(Constant(), "1MiB", args=(torch.empty(1, 0),), axes={"x": 0})


class Constant(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return x.new_zeros(3)


def test_the_caching_allocator_keeps_segments() -> None:
    problem = memplan.Problem([1000, 3 * 2**20, 3 * 2**20, 30 * 2**20], [0, 0, 2, 2], [1, 1, 3, 3])
    assert _core.reserved_by_caching(problem) == (2 + 20 + 30) * 2**20


# Of files and exported programs, by the name of a symbolic dimension


def network() -> Any:
    """Two ops over a batch of rows of 256 bytes, of which three are held at once."""
    nodes = [onnx_build.node("Relu", ["x"], ["a"]), onnx_build.node("Exp", ["a"], ["y"])]
    shape = ["batch", 64]
    return onnx_build.model(nodes, [onnx_build.value("x", shape)], [onnx_build.value("y", shape)], [])


def test_a_symbolic_dimension_has_a_largest_size() -> None:
    found = memplan.largest(network(), "64KiB", dim="batch")
    assert found.size == 64 * 1024 // (3 * 256)
    assert found.total == found.size * 3 * 256 <= found.budget < found.next_total  # type: ignore[operator]
    fitted = memplan.largest(network(), "64KiB", dim="batch", fit=True)
    assert fitted.size >= found.size
    none = memplan.largest(network(), 700, dim="batch")
    assert str(none) == "no size fits 700 bytes\n1 needs 768 bytes"
    with pytest.raises(memplan.errors.SourceError, match=r"no such symbolic size|'length'"):
        memplan.largest(network(), "64KiB", dim="length")


def test_a_source_holds_for_a_range_of_sizes_only() -> None:
    rows = torch.export.Dim("rows", min=2, max=40)
    program = torch.export.export(torch.nn.ReLU(), (torch.randn(8, 64),), dynamic_shapes=({0: rows},))
    name = str(next(iter(program.range_constraints)))
    found = memplan.largest(program, "1GiB", dim=name)
    assert (found.size, found.next_total) == (40, None)
    assert "one more: dims" in str(found)
    assert "holds for 2 to 40, got 41" in found.limit
    none = memplan.largest(program, 600, dim=name)
    assert (none.size, none.limit) == (0, "")
    assert str(none).endswith("\n2 needs 1.00 KiB (1,024 bytes)")


def test_the_command_line_estimates(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(network().SerializeToString())
    assert run("estimate", path, "--dims", "batch=4") == 0
    told = capsys.readouterr().out
    assert told.strip() == str(memplan.estimate(str(path), dims={"batch": 4})).strip()
    assert "total" in told
    assert run("largest", path, "--budget", "64KiB", "--dim", "batch") == 0
    assert "85 is the largest size that fits 64.00 KiB" in capsys.readouterr().out
    assert run("largest", path, "--budget", "700", "--dim", "batch") == 1
    assert "1 needs 768 bytes" in capsys.readouterr().out
    for arguments, says in [
        (("estimate", path, "--optimizer", "AdamW"), "--optimizer needs --train"),
        (("estimate", path, "--train"), "option train does not apply"),
        (("estimate", path), "symbolic dimensions without a size: 'batch'"),
        (("estimate", LIFETIMES), "a problem does not say what its buffers are for"),
        (("largest", "example:gpt2_infer", "--budget", "1MiB", "--dim", "batch"), "option dims does not apply"),
    ]:
        assert run(*arguments) == 2
        assert says in capsys.readouterr().err


class Rebinding(torch.optim.Optimizer):
    """AdamW as many write it: each step makes new states, and frees the old ones one by one."""

    def __init__(self, params: Any) -> None:
        super().__init__(params, {"lr": 1e-3})

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for p in (p for group in self.param_groups for p in group["params"]):
            own = self.state[p]
            if not own:
                own["m"], own["v"] = torch.zeros_like(p.data), torch.zeros_like(p.data)
            own["m"] = 0.9 * own["m"] + 0.1 * p.grad
            own["v"] = 0.9 * own["v"] + 0.1 * p.grad * p.grad
            p.data -= 1e-3 * own["m"] / (own["v"].sqrt() + 1e-8)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_states_that_a_step_replaces_are_held_once(device: str) -> None:
    layers, width = 6, 256
    model = torch.nn.Sequential(*(torch.nn.Linear(width, width, bias=False) for _ in range(layers)))
    one = width * width * 4
    found = memplan.estimate(model, args=(torch.ones(1, width),), train=True, optimizer=Rebinding, device=device)
    assert found.phase == "update"
    assert found.weights == found.gradients == layers * one
    assert 2 * layers * one <= found.states <= (2 * layers + 1) * one
    assert found.temporaries <= 3 * one
    if found.reserved is not None:
        assert found.total - 8 * 2**20 <= found.reserved <= found.total + 24 * 2**20


class Grown(torch.nn.Module):
    """A column that a layer makes a square of, and an op of it."""

    def __init__(self, op: Any) -> None:
        super().__init__()
        self.wide, self.op = torch.nn.Linear(1, 256, bias=False), op

    def forward(self, x: Any) -> Any:
        return self.op(self.wide(x))


@pytest.mark.parametrize(
    ("op", "more"),
    [
        (torch.exp, 4 + 4),  # the input is cast, and the result is float32
        (lambda y: torch.nn.functional.layer_norm(y, (256,)), 4 + 4),
        (lambda y: y.softmax(-1), 4 + 4),  # cast first, for bfloat16
        (lambda y: y.sum(0, keepdim=True), 0),  # the kernel casts
        (torch.relu, 2),
    ],
)
def test_autocast_on_cuda_computes_some_ops_in_float32(op: Any, more: int) -> None:
    x, size = torch.ones(256, 1), 256 * 256
    found = memplan.estimate(Grown(op), args=(x,), autocast=torch.bfloat16, device="cuda")
    small = 16 * 1024  # casts of the column and its weight, and what a norm keeps of each row
    assert size * (2 + more) <= found.activations <= size * (2 + more) + small


def test_a_loss_under_autocast_on_cuda_keeps_one_softmax_in_float32() -> None:
    target = torch.zeros(256, dtype=torch.long)
    model = Grown(lambda y: torch.nn.functional.cross_entropy(y, target))
    found = memplan.estimate(model, args=(torch.ones(256, 1),), train=True, autocast=torch.bfloat16, device="cuda")
    assert 256 * 256 * 4 <= found.activations <= 256 * 256 * 4 + 16 * 1024
