"""`memplan.torch.checkpoint` and `memplan.torch.offload`: a step within a budget, equal to the step without."""

from __future__ import annotations

import copy
import functools
import pickle
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import memplan  # noqa: E402
from builders.transformers_small import Block, squares, transformer  # noqa: E402
from oracles.allocator import peak  # noqa: E402

WAYS = ("checkpoint", "offload", "fit")
RNG_STATE = 5056  # bytes that a module keeps to draw the same numbers again


@functools.cache
def total_of_transformer(blocks: int = 2) -> int:
    """The bytes that a step of training holds."""
    model, x = transformer(blocks)
    return memplan.estimate(model, args=(x,), train=True).total


def convnet() -> tuple[Any, Any]:
    torch.manual_seed(0)
    layers: list[Any] = []
    for before, after in ((3, 8), (8, 8), (8, 8), (8, 8)):
        layers.append(
            torch.nn.Sequential(
                torch.nn.Conv2d(before, after, 3, padding=1), torch.nn.BatchNorm2d(after), torch.nn.SiLU()
            )
        )
    return torch.nn.Sequential(*layers), torch.randn(8, 3, 32, 32)


NETWORKS = {"transformer": transformer, "convnet": convnet}
SHARES = {"transformer": 70, "convnet": 85}  # of a step, in %: kernels of convolutions need the more for themselves


def trained(model: Any, x: Any, steps: int = 3) -> tuple[list[Any], dict[str, Any]]:
    """Losses, and the state of the model after some steps."""
    optimizer = torch.optim.AdamW(model.parameters())
    torch.manual_seed(7)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses, {name: value.clone() for name, value in model.state_dict().items()}


def step_of(model: Any, x: Any) -> Any:
    def step() -> Any:
        out = model(x)
        out.square().sum().backward()
        return out

    return step


@pytest.mark.few(2)
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("way", WAYS)
def test_a_step_fits_and_training_is_equal(way: str, name: str) -> None:
    model, x = NETWORKS[name]()
    plain = trained(copy.deepcopy(model), x)
    kept = memplan.estimate(model, args=(x,), train=True, loss=squares).kept
    before = kept + peak(step_of(model, x))
    budget = before * SHARES[name] // 100
    model.zero_grad()
    model.load_state_dict(NETWORKS[name]()[0].state_dict())
    found = getattr(memplan.torch, way)(model, budget, args=(x,), loss=squares)
    assert found.modules
    assert found.after.total <= budget
    losses, state = trained(model, x)
    assert all(map(torch.equal, losses, plain[0]))
    assert all(torch.equal(state[key], value) for key, value in plain[1].items())
    model.zero_grad()
    real = kept + peak(step_of(model, x))
    assert real <= budget
    if name == "transformer":
        again = {"checkpoint": found.modules, "offload": ()}.get(way) or getattr(found, "recomputed", ())
        states = RNG_STATE * (len(again) + 1) if way != "offload" else 0
        assert 0 <= found.after.total - real <= states
    found.remove()
    model.zero_grad()
    assert kept + peak(step_of(model, x)) == before


@pytest.mark.parametrize("way", WAYS)
def test_nothing_else_changes(way: str) -> None:
    model, x = transformer()
    names, total = list(model.state_dict()), total_of_transformer()
    with getattr(memplan.torch, way)(model, total * 7 // 10, args=(x,)) as found:
        assert list(model.state_dict()) == names
        assert all(model.get_submodule(name) for name in found.modules)
        with torch.no_grad():
            assert torch.equal(model.eval()(x), NETWORKS["transformer"]()[0].eval()(x))
        again = pickle.loads(pickle.dumps(model.train()))
        assert all(map(torch.equal, trained(again, x)[0], trained(copy.deepcopy(model), x)[0]))
    assert not any("forward" in vars(part) for part in model.modules())
    found.remove()
    assert repr(found).startswith(f"<memplan.torch.{type(found).__name__}: ")
    assert found.modules[0] in repr(found)
    assert f"({total:,} bytes) before" in str(found)
    assert f"for {found.added_cost:.1%} of the cost of a step" in str(found)


@pytest.mark.few(1)
@pytest.mark.parametrize("way", WAYS)
def test_a_budget_besides_what_is_kept(way: str) -> None:
    model, x = transformer()
    with getattr(memplan.torch, way)(model, "kept + 70%", args=(x,)) as found:
        kept, total = found.before.kept, found.before.total
        limit = kept + (total - kept) * 7 // 10
        assert total * 7 // 10 < limit < total
        assert found.modules
        assert found.after.total <= limit
    with getattr(memplan.torch, way)(model, f"kept + {limit - kept}", args=(x,)) as same:
        assert same.modules == found.modules


@pytest.mark.parametrize("way", WAYS)
def test_what_fits_is_left_alone(way: str) -> None:
    model, x = transformer()
    found = getattr(memplan.torch, way)(model, "1GiB", args=(x,))
    assert (found.modules, found.added_cost) == ((), 0.0)
    assert str(found).startswith("a step fits as it is: ")
    assert "nothing is changed" in repr(found)


@pytest.mark.few(1)
@pytest.mark.parametrize("way", WAYS)
def test_a_share_is_of_what_a_step_holds_and_least_is_the_least_found(way: str) -> None:
    model, x = transformer()
    total = total_of_transformer()
    with getattr(memplan.torch, way)(model, "90%", args=(x,)) as found:
        assert found.after.total <= total * 9 // 10 < found.before.total
        assert found.share.startswith("90% of ")
        assert f"(the budget: {found.share})" in str(found)
    with getattr(memplan.torch, way)(model, "least", args=(x,)) as least:
        assert least.after.total <= found.after.total
        assert 0 < found.added_cost < least.added_cost < 1
    match = "the budget is 1% of .*, what a step holds as it is, kernels' memory counted"
    with (
        pytest.raises(memplan.InfeasibleError, match=match) as caught,
        getattr(memplan.torch, way)(model, "1%", args=(x,)),
    ):
        pass
    assert caught.value.peak is not None
    assert least.after.total <= caught.value.peak
    with pytest.raises(ValueError, match=r"budget must be .* or 'least', got 'lest'"):
        getattr(memplan.torch, way)(model, "lest", args=("no tensor",))


@pytest.mark.few(1)
@pytest.mark.parametrize("way", WAYS)
def test_too_small_a_budget_says_what_is_needed(way: str) -> None:
    model, x = transformer()
    match = r"a step holds at least .* because aten.gelu_backward in the backward pass needs .* made by aten.addmm in "
    how = {"args": (x,), **({"allow": ["recompute", "offload"]} if way == "fit" else {})}
    with pytest.raises(memplan.InfeasibleError, match=match) as caught:
        getattr(memplan.torch, way)(model, "100KiB", **how)
    least = caught.value.peak
    assert least is not None
    assert not any("forward" in vars(part) for part in model.modules())
    gradients = sum(p.nbytes for p in model.parameters())
    assert memplan.estimate(model, args=(x,), train=True).kept + gradients < caught.value.lower_bound <= least
    assert caught.value.proven
    assert str(caught.value).endswith("a smaller batch holds less: memplan.largest says which fits")
    assert ("memplan.torch.fit may find more" in str(caught.value)) == (way != "fit")
    match = (
        "no modules were found with which a step fits .*; its worst moment is in the .*; the largest are .* made by "
    )
    with pytest.raises(memplan.InfeasibleError, match=match) as above:
        getattr(memplan.torch, way)(model, caught.value.lower_bound + 1, **how)
    assert not above.value.proven
    found = getattr(memplan.torch, way)(model, least, **how)
    assert found.after.total <= least
    found.remove()


@pytest.mark.slow
def test_each_module_takes_the_cheaper_way() -> None:
    model, x = transformer(4)
    plain = trained(copy.deepcopy(model), x)

    def chosen(transfer: float, **options: Any) -> Any:
        return memplan.torch.fit(model, "60%", args=(x,), loss=squares, transfer=transfer, **options)

    with chosen(0) as cheap:
        assert (cheap.recomputed, cheap.added_cost) == ((), 0)
    with chosen(10, allow=["recompute"]) as again:
        assert again.offloaded == ()
    with chosen(10, allow=["offload"]) as moved:
        assert moved.recomputed == ()
    with chosen(10) as found:
        assert found.recomputed
        assert found.offloaded
        assert found.added_cost < min(again.added_cost, moved.added_cost)
        losses, state = trained(model, x)
    assert all(map(torch.equal, losses, plain[0]))
    assert all(torch.equal(state[key], value) for key, value in plain[1].items())
    assert "compute again: " in str(found)
    assert "keep tensors in a file: " in str(found)
    for allow, message in (([], "got 'none'"), (["swap"], "got 'swap'")):
        with pytest.raises(
            ValueError, match=f"allow must hold one or more of recompute, offload, split, update, {message}"
        ):
            chosen(1, allow=allow)


def test_states_of_the_optimizer_count() -> None:
    model, x = transformer()
    plain, adam = (memplan.estimate(model, args=(x,), train=True, optimizer=o).total for o in (None, "AdamW"))
    with memplan.torch.checkpoint(model, plain, args=(x,), optimizer="AdamW") as found:
        assert found.before.total == adam
        assert found.after.total <= plain
        assert found.after.states > 0


def test_modules_that_change_what_they_read_are_left_alone() -> None:
    """The first run changes the buffer, and what a second one returns."""

    class Counting(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mlp = Block(32)
            self.count: torch.Tensor
            self.register_buffer("count", torch.ones(()))

        def forward(self, x: Any) -> Any:
            self.count.mul_(1.5)
            return self.mlp(x) * self.count

    torch.manual_seed(0)
    model, x = torch.nn.Sequential(*[Counting() for _ in range(3)]), torch.randn(256, 32)
    total = memplan.estimate(model, args=(x,), train=True).total
    plain = trained(copy.deepcopy(model), x)
    found = memplan.torch.checkpoint(model, total * 3 // 4, args=(x,))
    assert found.modules
    assert not any(isinstance(model.get_submodule(name), Counting) for name in found.modules)
    assert all(map(torch.equal, trained(model, x)[0], plain[0]))


@pytest.mark.few(1)
@pytest.mark.parametrize("first", [0, 1])
def test_changes_on_top_of_others_go_in_any_order(first: int) -> None:
    model, x = transformer(3)
    total = total_of_transformer(3)
    plain = trained(copy.deepcopy(model), x)[0]
    below = memplan.torch.checkpoint(model, total * 8 // 10, args=(x,))
    above = memplan.torch.offload(model, total * 6 // 10, args=(x,))
    assert set(below.modules) & set(above.modules)
    assert all(map(torch.equal, trained(copy.deepcopy(model), x)[0], plain))
    found = [below, above]
    found.pop(first).remove()
    assert all(map(torch.equal, trained(copy.deepcopy(model), x)[0], plain))
    left = {name for name, part in model.named_modules() if "forward" in vars(part)}
    assert left == set(found[0].modules)
    found[0].remove()
    assert not any("forward" in vars(part) for part in model.modules())


def test_a_forward_of_its_own_comes_back() -> None:
    model, x = transformer(3)
    for part in model:
        part.forward = lambda x, part=part: type(part).forward(part, x) * 1.0
    own = [part.forward for part in model]
    total = total_of_transformer(3)
    memplan.torch.checkpoint(model, total * 7 // 10, args=(x,)).remove()
    assert [part.forward for part in model] == own


@pytest.mark.slow
def test_statistics_change_once_where_torch_compiles() -> None:
    model, x = convnet()
    total = memplan.estimate(model, args=(x,), train=True).total
    plain = copy.deepcopy(model)
    assert memplan.torch.checkpoint(model, total * 85 // 100, args=(x,)).modules
    torch._dynamo.reset()
    try:
        compiled = torch.compile(model, backend="aot_eager")
        for net in (compiled, plain):
            net(x).square().sum().backward()
    finally:
        torch._dynamo.reset()
    for (name, value), expected in zip(model.state_dict().items(), plain.state_dict().values(), strict=True):
        assert torch.allclose(value, expected, atol=1e-6), name
    for mine, its in zip(model.parameters(), plain.parameters(), strict=True):
        assert torch.allclose(mine.grad, its.grad, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("way", WAYS)
def test_bad_models_and_folders_are_named(way: str) -> None:
    with pytest.raises(TypeError, match=r"model must be a torch\.nn\.Module, got a str"):
        getattr(memplan.torch, way)("model.onnx", "1MiB")
    if way != "checkpoint":
        fit = getattr(memplan.torch, way)
        with pytest.raises(FileNotFoundError, match="folder must be a folder that exists, got '/nowhere/to/be'"):
            fit(torch.nn.Linear(2, 2), "1MiB", args=(torch.ones(2, 2),), folder="/nowhere/to/be")


def test_offloaded_bytes_are_moved_once_and_make_room() -> None:
    model, x = transformer()
    total = total_of_transformer()
    with memplan.torch.offload(model, total * 7 // 10, args=(x,)) as found:
        step_of(model, x)()
        first = found.moved
        step_of(model, x)()
        assert found.moved == 2 * first > 0
        assert found._store._end <= first
    assert "keep tensors in a file: " in str(found)


def test_a_saved_view_and_a_written_storage_come_back_as_they_were() -> None:
    from memplan.torch.training.offloading import Store, _Handle

    store, base = Store(None), torch.arange(4096.0)
    view = base.view(64, 64).t()[3:9, ::2]
    handles = [_Handle(view, store.out(view)), _Handle(base, store.out(base))]
    expected = view.clone()
    base.add_(1)
    handles.append(_Handle(base, store.out(base)))
    assert store.moved == 2 * base.nbytes
    found = [handle.tensor() for handle in handles]
    assert torch.equal(found[0], expected)
    assert found[0].stride() == view.stride()
    assert found[0].untyped_storage().data_ptr() == found[1].untyped_storage().data_ptr()
    assert torch.equal(found[2], found[1] + 1)
