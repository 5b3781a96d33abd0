"""What the torch importer leaves as it was, and weights that have no data."""

from __future__ import annotations

import resource
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

import memplan
from builders import models
from builders.torch_nets import Hand, Net
from memplan.errors import SourceError
from memplan.torch.reading import import_torch


def test_the_module_is_as_it_was() -> None:
    class Keeper(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bn = nn.BatchNorm1d(4)
            self.history: list[Tensor] = []

        def forward(self, x: Tensor) -> Tensor:
            self.last = self.bn(x)
            self.history.append(self.last)
            self.register_buffer("late", self.last.detach())
            return self.last * self.last

    module = Keeper()
    module.bn.eval()
    module.bn.weight.grad = torch.ones(4)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    import_torch(module, args=(torch.randn(2, 4),), train=True)
    assert {name: value.tolist() for name, value in module.state_dict().items()} == {
        name: value.tolist() for name, value in before.items()
    }
    assert not hasattr(module, "last")
    assert not hasattr(module, "late")
    assert module.history == []
    assert (module.training, module.bn.training) == (True, False)
    assert torch.equal(module.bn.weight.grad, torch.ones(4))
    assert module.bn.bias.grad is None
    assert not any(isinstance(value, FakeTensor) for value in [*module.parameters(), *module.buffers()])
    assert module(torch.zeros(2, 4)).shape == (2, 4)


def test_random_numbers_are_not_drawn() -> None:
    net = Net(lambda net, x: torch.dropout(x, 0.5, True) + torch.rand(4))
    before = torch.get_rng_state()
    import_torch(net, args=(torch.zeros(4),))
    assert torch.equal(torch.get_rng_state(), before)


def test_modes_and_hooks_are_as_they_were() -> None:
    hooks = len(nn.modules.module._global_forward_hooks)
    with pytest.raises(SourceError), torch.inference_mode():
        import_torch(Net(lambda net, x: x.nonzero()), args=(torch.zeros(4),))
    assert len(nn.modules.module._global_forward_hooks) == hooks
    assert torch.is_grad_enabled()
    assert type(torch.zeros(1)) is Tensor


def test_many_threads_may_import() -> None:
    module, x = Hand(), torch.zeros(1, 1, 4, 4)
    expected = import_torch(module, args=(x,), train=True)
    with ThreadPoolExecutor(4) as threads:
        graphs = list(threads.map(lambda _: import_torch(module, args=(x,), train=True), range(8)))
    assert all(graph == expected for graph in graphs)


def test_a_recurrent_net_works_afterwards() -> None:
    lstm, x = nn.LSTM(4, 3), torch.zeros(2, 1, 4)
    import_torch(lstm, args=(x,), train=True)
    assert type(lstm(x)[0]) is Tensor


def test_meta_and_fake_modules_give_the_same_graph() -> None:
    expected = import_torch(Hand(), args=(torch.zeros(1, 1, 4, 4),), train=True)
    with torch.device("meta"):
        meta = Hand()
        assert import_torch(meta, args=(torch.zeros(1, 1, 4, 4),), train=True) == expected
    assert import_torch(meta, args=(torch.zeros(1, 1, 4, 4),), train=True) == expected
    with FakeTensorMode():
        fake, x = Hand(), torch.zeros(1, 1, 4, 4)
        assert import_torch(fake, args=(x,), train=True) == expected
    assert import_torch(fake, args=(x,), train=True) == expected


@pytest.mark.few(1)
@pytest.mark.parametrize(("train", "layers", "least"), [(False, 8, 7_500_000_000), (True, 6, 5_900_000_000)])
def test_weights_of_billions_of_parameters_are_not_allocated(train: bool, layers: int, least: int) -> None:
    model = models.llama_7b(layers)
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
    graph = import_torch(model, args=(torch.zeros(1, 128, dtype=torch.int64),), train=train)
    seconds = time.perf_counter() - start
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    weights = sum(entry["bytes"] for entry in graph["tensors"] if entry["kind"] == "weight")
    assert weights > least
    assert kilobytes < 1_000_000
    assert seconds < 60
    memplan.plan(graph)
