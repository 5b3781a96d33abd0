"""What the torch importer refuses, and what it says."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.export import export

import memplan
from builders.torch_nets import Net, imported, op
from memplan.errors import MissingDependencyError, SourceError
from memplan.torch.reading import accepts, import_torch
from memplan.torch.reading.failing import place_of


def test_sizes_that_depend_on_data() -> None:
    net, x = Net(lambda net, x: net.fc(x).nonzero() + 1), torch.zeros(2, 4)
    with pytest.raises(SourceError, match=r"op 'nonzero' \(aten\.nonzero\.default\): the size of its output"):
        import_torch(net, args=(x,))
    with pytest.raises(SourceError, match=r"node 'nonzero' .*depends on data \(symbol 'u0'\)"):
        import_torch(export(net, (x,)))
    with pytest.raises(SourceError, match=r"node 'nonzero'"):
        import_torch(torch.fx.symbolic_trace(lambda x: x.nonzero() + 1), args=(x,))


def test_branches_that_depend_on_data() -> None:
    with pytest.raises(SourceError, match="reads the value of a tensor"):
        imported(lambda net, x: x if x.sum() > 0 else -x, torch.zeros(2))


class Picks(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x[x > 0]  # of so many as there are


class Whole(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.ReLU(), Picks())

    def forward(self, x: Tensor, labels: Tensor | None = None) -> Tensor:
        return self.inner(x)  # type: ignore[no-any-return]


@pytest.mark.parametrize("door", [memplan.plan, memplan.estimate, import_torch])
def test_what_depends_on_data_names_the_module_the_line_and_ways_out(door: Callable[..., Any]) -> None:
    with pytest.raises(SourceError, match=r"Whole\.forward: op '.*'.*depends on data") as caught:
        door(Whole(), args=(torch.zeros(4),), kwargs={"labels": torch.zeros(4)})
    text = str(caught.value)
    assert "in module 'inner.1' (Picks)" in text
    assert "test_torch_errors.py:" in text
    assert "`return x[x > 0]  # of so many as there are`" in text
    assert "memplan.torch.record()" in text
    assert "torch.where" in text
    assert "without labels" in text
    with pytest.raises(SourceError, match="not known when planning") as caught:
        door(Net(lambda net, x: x if x.sum() > 0 else -x), args=(torch.zeros(2),))
    assert "without labels" not in str(caught.value)
    assert "in the model itself" in str(caught.value)


def test_a_node_that_depends_on_data_names_its_line_and_ways_out() -> None:
    with pytest.raises(SourceError, match=r"node '(nonzero|index)'") as caught:
        import_torch(export(Whole(), (torch.zeros(4),)))
    assert "`return x[x > 0]  # of so many as there are`" in str(caught.value)
    assert "memplan.torch.record()" in str(caught.value)


def test_sharded_weights_are_told_apart_from_other_subclasses() -> None:
    def of(module: str) -> Tensor:
        def dispatch(cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            raise AssertionError("it is never run")

        kind = type("Sharded", (Tensor,), {"__torch_dispatch__": classmethod(dispatch), "__module__": module})
        return Tensor._make_wrapper_subclass(kind, (2, 4))  # type: ignore[attr-defined,no-any-return]

    for door in (memplan.plan, memplan.estimate):
        with pytest.raises(SourceError, match=r"torch\.distributed\.tensor\.Sharded; give the module .* before it is"):
            door(Net(lambda net, x: x + 1), args=(of("torch.distributed.tensor"),))
        with pytest.raises(SourceError, match=r"got the subclass mine\.Sharded$"):
            door(Net(lambda net, x: x + 1), args=(of("mine"),))


@pytest.fixture
def a_process_group(tmp_path: Path) -> Iterator[None]:
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.usefixtures("a_process_group")
def test_data_parallel_models_are_as_what_they_wrap_until_they_need_real_gradients() -> None:
    x = torch.zeros(3, 4)
    net = Net(lambda net, x: net.fc(x).relu())
    wrapped = nn.parallel.DistributedDataParallel(net)
    for train in (False, True):
        found, plain = (memplan.estimate(model, args=(x,), train=train) for model in (wrapped, net))
        assert found.total == plain.total
    assert "give what it wraps, model.module" in place_of(RuntimeError("its data is not allocated yet"), wrapped)
    assert place_of(RuntimeError("its data is not allocated yet"), net) == ""


def test_failures_of_all_kinds_name_the_line() -> None:
    with pytest.raises(SourceError, match=r"at .*test_torch_errors\.py:\d+, `imported\(lambda net, x: net\.fc"):
        imported(lambda net, x: net.fc(x), torch.zeros(3, 3))


def test_branches_that_depend_on_chance() -> None:
    """A layer that is dropped in one run and not in the next."""

    def drops(net: Net, x: Tensor) -> Tensor:
        return x if torch.rand([]) * 2 < 0.1 else net.fc(x)

    net = Net(drops)
    message = (
        r"op '_local_scalar_dense' .*: it reads a number that op 'rand' has drawn, and a plan is of ops that do not"
    )
    with pytest.raises(SourceError, match=message + r" depend on chance; at .*; it was given"):
        import_torch(net, args=(torch.zeros(4),))
    net.config = SimpleNamespace(encoder_layerdrop=0.1)
    with pytest.raises(
        SourceError, match=r"with model.config.encoder_layerdrop = 0.0 no layer is dropped; at .*; it was given"
    ):
        import_torch(net, args=(torch.zeros(4),))
    with pytest.raises(SourceError, match="it reads the value of a tensor"):  # and not of a drawn one alone
        imported(lambda net, x: x if torch.rand([]) < x.sum() else -x, torch.zeros(2))


def test_experts_are_advised_on_where_there_are_some() -> None:
    net = Net(lambda net, x: x if x.sum() > 0 else -x)
    net.set_experts_implementation = print
    with pytest.raises(SourceError, match="not known when planning") as caught:
        import_torch(net, args=(torch.zeros(2),))
    assert "grouped_mm" not in str(caught.value)


def test_a_number_that_no_size_depends_on_may_be_unknown() -> None:
    graph = import_torch(export(Net(lambda net, x: x * x.sum().item()), (torch.zeros(4),)))
    assert op(graph, "item") == {"name": "item", "type": "aten.item.default", "inputs": ["sum_1"], "outputs": []}
    memplan.plan(graph)


def test_failures_of_the_model_say_what_it_was_given() -> None:
    with pytest.raises(SourceError, match=r"Net\.forward: op 'fc\.addmm' .*given \(float32\[3, 3\]\)") as caught:
        imported(lambda net, x: net.fc(x), torch.zeros(3, 3))
    assert isinstance(caught.value.__cause__, RuntimeError)
    with pytest.raises(SourceError, match=r"Net\.forward: too many positional arguments; .*float32\[1\]"):
        import_torch(Net(lambda net, x: x), args=(torch.zeros(1),) * 3)
    with pytest.raises(SourceError, match=r"Net\.forward: missing a required argument: 'x'"):
        import_torch(Net(lambda net, x: x))
    with pytest.raises(SourceError, match=r"KeyError: 'weights'"):
        imported(lambda net, x: {}["weights"], torch.zeros(1))


def test_numpy_arrays_are_no_tensors() -> None:
    array = np.zeros((1, 4), np.float32)
    for given in ({"args": (array,)}, {"kwargs": {"x": {"inner": [array]}}}):
        with pytest.raises(SourceError, match=r"; a numpy array is no tensor: torch.from_numpy\(array\) makes one$"):
            import_torch(Net(lambda net, x: net.fc(x)), **given)
    taken = import_torch(Net(lambda net, x, y: x * torch.from_numpy(y)), args=(torch.zeros(1, 4), array))
    assert [entry["name"] for entry in taken["tensors"] if entry["kind"] == "input"] == ["x"]


def test_a_failure_leaves_nothing_on_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SourceError):
        imported(lambda net, x: net.fc(x), torch.zeros(3, 3))
    assert capfd.readouterr().err == ""


class Subclass(Tensor):
    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def strange_tensors() -> dict[str, tuple[Tensor, str]]:
    return {
        "sparse": (torch.eye(4).to_sparse(), "got a torch.sparse_coo one"),
        "nested": (torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)]), "got a nested one"),
        "subclass": (torch.zeros(4).as_subclass(Subclass), r"got the subclass .*Subclass"),
    }


@pytest.mark.parametrize("kind", ["sparse", "nested", "subclass"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_tensors_that_are_refused(kind: str) -> None:
    strange, message = strange_tensors()[kind]
    with pytest.raises(SourceError, match=f"input 'x': .*{message}"):
        import_torch(Net(lambda net, x: x), args=(strange,))
    net = Net(lambda net, x: x)
    net.register_buffer("odd", strange)
    with pytest.raises(SourceError, match=f"weight 'odd': .*{message}"):
        import_torch(net, args=(torch.zeros(1),))


def test_sparse_results_name_their_op() -> None:
    with pytest.raises(SourceError, match=r"op '_to_sparse': expected a dense"):
        imported(lambda net, x: x.to_sparse(), torch.zeros(4, 4))


def test_lazy_modules() -> None:
    with pytest.raises(SourceError, match="weight 'weight' is not initialized"):
        import_torch(nn.LazyLinear(3), args=(torch.zeros(1, 4),))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: import_torch("model"), "source must be a torch.nn.Module.*got a builtins.str"),
        (lambda: import_torch(nn.Linear), "got the class Linear: give an instance of it"),
        (lambda: import_torch(nn.Linear(4, 4), args=torch.zeros(4)), r"args must be a tuple.*args=\(x,\)"),
        (lambda: import_torch(nn.Linear(4, 4), kwargs=[1]), "kwargs must be a mapping.*got list"),
    ],
)
def test_wrong_kinds(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        call()


def test_accepts() -> None:
    assert accepts(nn.Linear(2, 2))
    assert accepts(torch.fx.symbolic_trace(nn.Linear(2, 2)))
    assert accepts(export(nn.Linear(2, 2), (torch.zeros(1, 2),)))
    assert not accepts(nn.Linear)
    assert not accepts({"tensors": []})


def test_torch_stays_unimported_until_it_is_needed() -> None:
    code = "import sys; from memplan.torch.reading import accepts; accepts(3); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_torch_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingDependencyError, match=r"memplan\[torch\]"):
        import_torch(object())


# What is private to torch


def test_a_model_may_lack_names_of_its_own() -> None:
    class Careless(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + self.nothing

    with pytest.raises((AttributeError, SourceError), match="nothing"):
        import_torch(Careless(), args=(torch.ones(2),))
