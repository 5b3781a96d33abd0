"""Plans of torch, run: results equal eager's bit for bit, and a checked run finds plans that are wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import memplan
from builders.torch_nets import Net
from builders.torch_running import check, gradients, planned, same
from memplan.running.plans import program_of
from memplan.torch.reading.fake import tensors_in
from memplan.torch.running.inputs import require_fits
from memplan.torch.running.memory import Memory
from memplan.torch.running.recording import Recording


@torch.library.custom_op("memplan_tests::says_less", mutates_args=())
def says_less(x: Tensor, kept: int) -> Tensor:
    return torch.cat([x, x])


@says_less.register_fake
def _(x: Tensor, kept: int) -> Tensor:
    return x.new_empty(kept)


def function(compute: Callable[..., Any], *args: Tensor, **options: Any) -> Any:
    return check(Net(compute), *args, **options)


def two_layers() -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))


def tensors_of(value: Any) -> list[Tensor]:
    return [tensor for _, tensor in tensors_in(value)]


def test_a_network_runs_inside_its_plan() -> None:
    module, x = two_layers(), torch.randn(3, 8)
    plan = planned(module, x)
    for value in (x, torch.randn(3, 8)):
        run = plan.run(value)
        assert torch.equal(run.outputs, module(value))
        assert (run.ops, run.copied, run.arena_bytes) == (3, 0, plan.peak)
    assert torch.equal(plan.run(args=(x,)).outputs, module(x))


def test_training_gives_the_loss_and_the_gradients() -> None:
    module, x = two_layers(), torch.randn(3, 8)
    run = planned(module, x, train=True).run(x, check=True)
    loss = module(x).sum()
    assert torch.equal(run.loss, loss)
    assert same(run.gradients, gradients(module, loss))
    assert run.outputs is None


def test_weights_are_read_at_each_run() -> None:
    module, x = two_layers(), torch.randn(3, 8)
    plan = planned(module, x)
    plan.run(x)
    with torch.no_grad():
        module[0].weight.mul_(2)
    assert torch.equal(plan.run(x).outputs, module(x))
    module[2] = nn.Linear(16, 4)
    assert torch.equal(plan.run(x).outputs, module(x))


def test_weights_may_be_given() -> None:
    module, other, x = two_layers(), two_layers(), torch.randn(3, 8)
    with torch.device("meta"):
        empty = two_layers()
    plan = planned(empty, x)
    assert torch.equal(plan.run(x, weights=module.state_dict()).outputs, module(x))
    assert torch.equal(plan.run(x, weights=other.state_dict()).outputs, other(x))
    transposed = {name: t.t().contiguous().t() if t.dim() == 2 else t for name, t in module.state_dict().items()}
    assert torch.allclose(plan.run(x, weights=transposed).outputs, module(x))
    with pytest.raises(memplan.errors.SourceError, match=r"weight '0.weight' has no data: it is a meta tensor"):
        plan.run(x)


def test_views_lie_in_the_arena_until_the_next_run() -> None:
    module, x = two_layers(), torch.randn(3, 8)
    plan = planned(module, x)
    first = plan.run(x, views=True).outputs
    kept = first.clone()
    assert plan.run(torch.randn(3, 8), views=True).outputs.data_ptr() == first.data_ptr()
    assert not torch.equal(first, kept)
    assert plan.run(x).outputs.data_ptr() != first.data_ptr()


@pytest.mark.parametrize("place", [("input", "weight"), ("output",), ("intermediate", "input", "weight", "output")])
def test_what_is_placed_or_not(place: tuple[str, ...]) -> None:
    check(two_layers(), torch.randn(3, 8), place=place)


@pytest.mark.parametrize("options", [{"inplace": False}, {"zero_copy": False}, {"donate": ["x"]}])
def test_what_shares_bytes_or_not(options: dict[str, Any]) -> None:
    def compute(net: Net, x: Tensor) -> Tensor:
        y = torch.relu(x) + 1
        return torch.cat([y.exp(), y * 2], 0).tanh()

    plan = planned(Net(compute), torch.randn(4, 4), **options)
    x = torch.randn(4, 4)
    with torch.no_grad():
        expected = compute(Net(compute), x)
    assert torch.equal(plan.run(x, check=True).outputs, expected)


def test_a_donated_input_is_written_over() -> None:
    def compute(net: Net, x: Tensor) -> Tensor:
        return x.exp().tanh()

    plan = planned(Net(compute), torch.randn(4, 4), donate=["x"])
    x = torch.randn(4, 4)
    before = x.clone()
    run = plan.run(x)
    assert torch.equal(run.outputs, before.exp().tanh())
    assert plan.peak == 0
    assert torch.equal(x, run.outputs)


def test_in_place_over_the_input_that_dies() -> None:
    run = function(lambda net, x: (x.exp() + 1).mul(2).sin(), torch.randn(4, 4))
    assert run.arena_bytes == 64
    assert run.copied == 0


def test_parts_of_concatenations_are_not_copied_twice() -> None:
    def compute(net: Net, x: Tensor) -> Tensor:
        a, b = x.exp(), x.sin()
        return torch.cat([a, b, a], 0) + torch.stack([b, b, a], 0).view(-1, 4)

    function(compute, torch.randn(4, 4))


def test_views_of_every_kind() -> None:
    def compute(net: Net, x: Tensor) -> list[Tensor]:
        y = x.exp()
        c = torch.view_as_complex(y.view(2, 4, 2))
        return [
            y.t(),
            y[:, 1:3],
            y.expand(3, 4, 4),
            y[::2],
            c.conj() * 2,
            c.conj(),
            y[:0],
            y[1, 1],
            c.imag,
            c.conj().imag,
        ]

    function(compute, torch.randn(4, 4))


def test_a_kernel_that_leaves_out_a_result_of_its_fake_kernel() -> None:
    attention = nn.MultiheadAttention(16, 2, batch_first=True).eval()  # without weights, its second result is none
    x = torch.randn(2, 5, 16)
    plan = memplan.plan(attention, args=(x, x, x), kwargs={"need_weights": False}, alignment=64)
    with torch.no_grad():
        expected = attention(x, x, x, need_weights=False)[0]
    assert torch.equal(plan.run(x, x, x, kwargs={"need_weights": False}, check=True).outputs[0], expected)


def test_dtypes_of_every_width() -> None:
    def compute(net: Net, x: Tensor) -> list[Tensor]:
        mask = x > 0
        return [mask, mask & ~mask, x.to(torch.int8) + 1, x.double() * 2, x.half().sum(), (x * 3).long(), x.bfloat16()]

    function(compute, torch.randn(5, 3))


def test_layouts_are_kept() -> None:
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2)).eval()
    x = torch.randn(2, 3, 9, 9)
    check(net, x)
    check(net.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last))


def test_mutations_of_what_the_network_made() -> None:
    def compute(net: Net, x: Tensor) -> Tensor:
        y = x.exp()
        z = y.view(-1)
        z[::2] += 1
        y.unsqueeze_(0)
        buffer = torch.empty(0)
        torch.add(y, y, out=buffer)
        return torch.empty(4, 4).copy_(buffer[0]).relu_() + net.fc(x)

    function(compute, torch.randn(4, 4))


@pytest.mark.parametrize("place", [(), ("intermediate", "output", "weight", "input")])
def test_what_eager_would_do_to_the_tensors_of_the_caller(place: tuple[str, ...]) -> None:
    options = {"place": place} if place else {}
    module, x = nn.Sequential(nn.BatchNorm1d(4), nn.ReLU()), torch.randn(8, 4)
    expected = nn.Sequential(nn.BatchNorm1d(4), nn.ReLU())
    plan = planned(module, x, **options)
    for _ in range(2):
        assert torch.equal(plan.run(x, check=True).outputs, expected(x))
    assert same(dict(module.named_buffers()), dict(expected.named_buffers()))
    net = Net(lambda net, x: x.add_(1) * 2)
    y = x.clone()
    assert torch.equal(planned(net, x, **options).run(y).outputs, (x + 1) * 2)
    assert torch.equal(y, x + 1)


def test_random_numbers_are_those_of_eager() -> None:
    module, x = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 8), nn.Dropout(0.2)), torch.randn(4, 8)
    plan = planned(module, x)
    for _ in range(2):
        torch.manual_seed(1)
        run = plan.run(x, check=True)
        torch.manual_seed(1)
        assert torch.equal(run.outputs, module(x))


def test_inputs_in_nests_and_with_names() -> None:
    class Nest(nn.Module):
        def forward(self, x: Any, *rest: Tensor, scale: float = 1.0, mask: Tensor | None = None) -> Any:
            return {"sum": x["a"] + x["b"][0] * scale, "rest": [r + 1 for r in rest], "none": None, "mask": mask}

    args = ({"a": torch.randn(2), "b": [torch.randn(2)]}, torch.randn(1), torch.randn(1))
    kwargs = {"scale": 2.0, "mask": torch.ones(2, dtype=torch.bool)}
    plan = memplan.plan(Nest(), args=args, kwargs=kwargs, alignment=64)
    run = plan.run(*args, kwargs=kwargs, check=True)
    assert same(run.outputs, Nest()(*args, **kwargs))
    assert run.outputs["none"] is None
    with pytest.raises(memplan.errors.SourceError, match=r"argument 'scale' was 2.0 when it was planned, got 3.0"):
        plan.run(*args, kwargs=kwargs | {"scale": 3.0})


def test_inputs_that_lie_otherwise_than_planned() -> None:
    module, x = two_layers(), torch.randn(8, 3)
    plan = planned(module, torch.randn(3, 8))
    with pytest.raises(
        memplan.errors.SourceError, match=r"input 'input': .* got strides \(1, 3\); give x\.contiguous\(\)"
    ):
        plan.run(x.t())
    part = torch.randn(9, 8)[3:6]
    assert torch.equal(plan.run(part).outputs, module(part))
    net = Net(lambda net, x: x.add_(1))
    turned = x.clone()
    planned(net, x.t()).run(turned.t())
    assert torch.equal(turned, x + 1)


def test_inputs_that_share_bytes() -> None:
    net, base = Net(lambda net, x, y: x * 2 + y), torch.randn(6, 4)
    plan = planned(net, base[:4], base[2:])
    again = torch.randn(6, 4)
    assert torch.equal(plan.run(again[:4], again[2:]).outputs, again[:4] * 2 + again[2:])
    for given in ((again[:4].clone(), again[2:].clone()), (torch.randn(4, 4), torch.randn(4, 4))):
        with pytest.raises(
            memplan.errors.SourceError, match="input 'x' and input 'y' share bytes in the plan, and do not"
        ):
            plan.run(*given)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({"args": (torch.ones(3, 9),)}, r"input '0': the plan has float32\[3, 8\], got float32\[3, 9\]"),
        ({"args": (torch.ones(3, 8).double(),)}, r"the plan has float32\[3, 8\], got float64\[3, 8\]"),
        ({"args": (torch.ones(3, 8, device="meta"),)}, "has no data: it is a meta tensor"),
        ({"args": (3,)}, r"input '0' is missing: the plan has float32\[3, 8\]"),
        ({"args": ()}, "forward"),
        ({"weights": {"fc": torch.ones(1)}}, r"weights\['fc'\]: the network has no weight of this name; it has 0.bias"),
        (
            {"weights": {"0.weight": torch.ones(1)}},
            r"weight '0.weight': the plan has float32\[16, 8\], got float32\[1\]",
        ),
        ({"weights": {"0.weight": 3}}, r"weight '0.weight': the plan has float32\[16, 8\], got 3"),
    ],
)
def test_what_does_not_fit(call: dict[str, Any], message: str) -> None:
    x = torch.ones(3, 8)
    plan = planned(two_layers(), x)
    with pytest.raises(memplan.errors.SourceError, match=message.replace("input '0'", "input 'input'")):
        plan.run(**{"args": (x,)} | call)


def test_offsets_at_which_elements_may_not_begin() -> None:
    def compute(net: Net, x: Tensor) -> Tensor:
        mask = x > 0
        return torch.where(mask, x.exp(), x.sin()) * (x > 1)

    x = torch.randn(5)
    plan = memplan.plan(Net(compute), args=(x,))
    assert any(offset % 4 for offset in plan.offsets.tolist())
    with pytest.raises(memplan.errors.InvalidPlanError, match=r"its elements have 4 bytes; plan with alignment=64"):
        plan.run(x)


def test_a_plan_that_lies_outside_of_its_arena() -> None:
    x = torch.randn(3, 8)
    plan = planned(two_layers(), x)
    with pytest.raises(memplan.errors.InvalidPlanError, match="of an arena of 10"):
        replace(plan, peak=10).run(x)


def test_another_network_is_refused() -> None:
    module, x = two_layers(), torch.randn(3, 8)
    plan = planned(module, x)
    module[1] = nn.Tanh()
    with pytest.raises(memplan.errors.SourceError, match=r"the tensor '1\.gelu' where the network has '1\.tanh'"):
        plan.run(x)


def test_a_plan_from_a_file_runs_with_its_network(tmp_path: Path) -> None:
    module, x = two_layers(), torch.randn(3, 8)
    planned(module, x, train=True).to_json(tmp_path / "plan.json")
    plan = memplan.read_plan(tmp_path / "plan.json")
    loss = module(x).sum()
    for _ in range(2):
        run = plan.run(x, source=module, train=True, check=True)
        assert torch.equal(run.loss, loss)
    with pytest.raises(
        memplan.errors.SourceError, match="the plan has the op 'sum', the network has none of this name"
    ):
        plan.run(x, source=module)
    with pytest.raises(TypeError, match="holds no network"):
        plan.run(x)


def test_a_plan_of_a_captured_graph_runs_with_its_network() -> None:
    module, x = two_layers(), torch.randn(3, 8)
    plan = memplan.plan(memplan.capture(module, args=(x,)).graph, alignment=64)
    assert torch.equal(plan.run(x, source=module).outputs, module(x))


def shortened(plan: memplan.Plan, buffer: int) -> memplan.Plan:
    """A plan in which a buffer ends a step too early."""
    p = plan.problem
    last = p.last.copy()
    last[buffer] -= 1
    return replace(plan, problem=memplan.Problem(p.size, p.first, last, p.alignment, p.names))


def test_a_lifetime_that_ends_too_early_is_found() -> None:
    module, x = two_layers(), torch.randn(3, 8)
    plan = planned(module, x, inplace=False)
    assert plan.graph is not None
    for buffer, slot in enumerate(plan):
        if slot.name not in plan.graph.outputs:
            assert not torch.equal(shortened(plan, buffer).run(x, check=True).outputs, module(x))
    assert len(plan) == 3


def test_operators_that_write_by_way_of_others_compute_the_same() -> None:
    def compute(net: Net, x: Tensor) -> list[Tensor]:
        ints = (x * 8).long()
        scaled = [torch.ops.aten.mul.Scalar(v, 2.5) for v in (x, ints, x.half())]
        divided = [torch.ops.aten.div.Scalar(ints, 3), torch.ops.aten.add.Scalar(ints, 2, 3)]
        return [*scaled, *divided, torch.ops.aten.sub.Scalar(x, 0.1, 2), torch.relu(ints), torch.relu(x / 0.0)]

    assert function(compute, torch.randn(4, 4)).copied == 0


def test_rows_of_a_table() -> None:
    for indices in (torch.tensor(3), torch.tensor([[1, 2], [0, 2]]), torch.tensor([], dtype=torch.int64)):
        assert check(nn.Embedding(4, 6, padding_idx=2), indices).copied == 0


def test_ops_may_be_planned_in_another_order() -> None:
    def compute(net: Net, x: Tensor) -> Tensor:
        a, b, c = x.exp(), x.sin(), x.cos()
        return a + b + c

    x = torch.randn(4, 4)
    graph = memplan.capture(Net(compute), args=(x,)).graph
    assert isinstance(graph, memplan.Graph)
    spec = graph.to_dict()
    exp, sin, cos, add, last = spec["ops"]
    plan = memplan.plan(spec | {"ops": [cos, sin, exp, add, last]}, alignment=64)
    with torch.no_grad():
        assert torch.equal(plan.run(x, source=Net(compute), check=True).outputs, compute(Net(compute), x))


def test_a_run_that_fails_leaves_the_plan_as_it_was() -> None:
    table, good, bad = nn.Embedding(4, 6), torch.tensor([1, 2]), torch.tensor([1, 9])
    plan = planned(table, good)
    with pytest.raises(IndexError):
        plan.run(bad)
    assert torch.equal(plan.run(good).outputs, table(good))


def test_weights_of_parts_that_are_exchanged_or_tied() -> None:
    module, x = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)), torch.randn(2, 4)
    module[2].weight = module[0].weight
    plan = planned(module, x)
    for _ in range(2):
        assert torch.equal(plan.run(x).outputs, module(x))
        module[0] = nn.Linear(4, 4)
        module[2].weight = module[0].weight
    module[0].weight = nn.Parameter(torch.randn(4, 4))  # no longer tied
    with pytest.raises(
        memplan.errors.SourceError, match=r"weight '0.weight' and weight '2.weight' share bytes in the plan"
    ):
        plan.run(x)


def test_a_weight_that_is_gone() -> None:
    module, x = nn.Linear(4, 4), torch.randn(2, 4)
    plan = planned(module, x)
    with pytest.raises(memplan.errors.SourceError, match=r"weights\['gone'\]: the network has no weight of this name"):
        plan.run(x, weights={"gone": x})
    with pytest.raises(memplan.errors.SourceError, match=r"input 'x' is a tensor, float32\[2\], and was none when"):
        planned(Net(lambda net, x: net.fc.weight * x), 2.0).run(torch.ones(2))


@pytest.mark.slow
def test_numbers_between_operators_of_recurrent_layers() -> None:
    for layer in (nn.LSTM(4, 6), nn.GRU(4, 6, bidirectional=True)):
        x = torch.randn(3, 2, 4)
        check(layer, x)
        run, loss = planned(layer, x, train=True).run(x, check=True), sum(t.sum() for t in tensors_of(layer(x)))
        assert same(run.gradients, gradients(layer, loss))


def test_a_kernel_that_returns_more_than_its_fake_kernel_says() -> None:
    x = torch.randn(4)
    net = Net(lambda net, x: torch.ops.memplan_tests.says_less(x, 0).sum() + x)
    plan = planned(net, x)
    for value in (x, x * 2):
        assert torch.equal(plan.run(value, check=True).outputs, net(value))
    net = Net(lambda net, x: torch.ops.memplan_tests.says_less(x, 4).sum() + x)
    message = r"its kernel returned a tensor of shape \[8\], and its fake kernel said \[4\]: it cannot be planned"
    with pytest.raises(memplan.errors.UnsupportedError, match=message):
        planned(net, x).run(x)


def test_concatenations_of_empty_tensors_and_of_other_dtypes() -> None:
    def compute(net: Net, x: Tensor) -> list[Tensor]:
        a = x.exp()
        return [torch.cat([torch.empty(0), a, x.sin()]), torch.cat([a.double(), x]), torch.cat([a.t(), a])]

    function(compute, torch.randn(4, 4))


def test_gradients_that_forward_switches_on_stay_inside() -> None:
    def compute(net: Net, x: Tensor) -> Tensor:
        with torch.enable_grad():
            return net.fc(x)  # type: ignore[no-any-return]

    for switched in (False, True):
        with torch.set_grad_enabled(switched):
            run = function(compute, torch.randn(4, 4))
            assert torch.is_grad_enabled() is switched
        assert not run.outputs.requires_grad


# What every tensor is held against


def bound(change: Callable[[Any], None]) -> Memory:
    """The memory of a plan whose recording was changed."""
    plan = planned(two_layers(), torch.randn(3, 8))
    recording = program_of(plan).recording  # type: ignore[attr-defined]
    change(recording)
    return Memory(plan, recording)


def test_a_tensor_beyond_its_storage_is_refused() -> None:
    def longer(recording: Recording) -> None:
        record = recording.storages[recording.calls[-1].outputs[0].storage]
        record.views[0] = replace(record.views[0], end=record.views[0].end + 4)

    with pytest.raises(memplan.errors.InvalidPlanError, match=r"float32\[3, 4\] lies in its bytes 0 to 52, of 48"):
        bound(longer)


def test_what_is_on_another_device_has_memory_of_its_own() -> None:
    moved: list[int] = []

    def elsewhere(recording: Recording) -> None:
        moved.append(recording.calls[-1].outputs[0].storage)
        recording.storages[moved[0]].device = torch.device("meta")

    memory = bound(elsewhere)
    assert [storage for storage, offset in enumerate(memory.offset) if offset is None][-1] == moved[0]
    assert memory.arena.device.type == "cpu"


def test_tensors_that_are_not_there_or_elsewhere() -> None:
    view = program_of(planned(two_layers(), torch.randn(3, 8))).recording.sources[0].view  # type: ignore[attr-defined]
    with pytest.raises(memplan.errors.SourceError, match=r"weight 'w' is not known: the plan has float32\[16, 8\]"):
        require_fits("weight 'w'", None, view, torch.device("cpu"))
    with pytest.raises(memplan.errors.SourceError, match=r"weight 'w': the plan has it on cuda:0, got one on cpu"):
        require_fits("weight 'w'", torch.ones(16, 8), view, torch.device("cuda:0"))


def test_training_from_a_pt2_file(tmp_path: Path) -> None:
    module, x = two_layers(), torch.randn(3, 8)
    torch.export.save(torch.export.export(module, (x,)), tmp_path / "net.pt2")
    run = memplan.plan(tmp_path / "net.pt2", train=True, alignment=64).run(x, check=True)
    loss = module(x).sum()
    assert torch.equal(run.loss, loss)
    assert same(run.gradients, gradients(module, loss))
