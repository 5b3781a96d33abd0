"""What forward binds anew: plans run as eager does, or say which line makes them start from something else."""

from __future__ import annotations

import collections
import copy
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import memplan

X = torch.randn(1, 4)


class Stateful(nn.Module):
    """A part of a network, with a forward made from a function."""

    def __init__(self, forward: Callable[[Any, Tensor], Tensor]) -> None:
        super().__init__()
        self.fc, self.cell = nn.Linear(4, 4), nn.GRUCell(4, 4)
        self.register_buffer("b", torch.zeros(3, 4))
        self.h, self.count, self.size = torch.zeros(1, 4), 0, np.float64(1)
        self.kept: Any = None
        self.table: dict[str, Any] = {}
        self.list: list[Any] = []
        self.queue = collections.deque([torch.zeros(1, 4), torch.ones(1, 4)], maxlen=2)
        self.function = forward

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self, x)


def in_network(forward: Callable[[Any, Tensor], Tensor]) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), Stateful(forward))


def _rebound(net: Any, x: Tensor) -> Tensor:
    net.b = torch.cat([net.b[1:], x])
    return net.b.sum(0)


def _data(net: Any, x: Tensor) -> Tensor:
    net.b.data = torch.cat([net.b[1:], x])
    return net.b.sum(0) + x


def _attribute(net: Any, x: Tensor) -> Tensor:
    net.h = net.cell(x, net.h)
    return net.h * 2


def _number(net: Any, x: Tensor) -> Tensor:
    net.count += 1
    return net.fc(x) * net.count


def _branch(net: Any, x: Tensor) -> Tensor:
    net.count += 1
    return net.fc(x) if net.count < 3 else x


def _of_numpy(net: Any, x: Tensor) -> Tensor:
    net.size = net.size * 2
    return x * float(net.size)


def _in_dict(net: Any, x: Tensor) -> Tensor:
    net.table["h"] = net.fc(x).detach() + net.table.get("h", 0)
    return net.table["h"] + x


def _in_list(net: Any, x: Tensor) -> Tensor:
    net.list.append(net.fc(x))
    return torch.stack(net.list).sum(0)


def _in_deque(net: Any, x: Tensor) -> Tensor:
    net.queue.append(x)
    return net.queue[0] + net.queue[1]


def _parameter(net: Any, x: Tensor) -> Tensor:
    net.fc.weight = nn.Parameter(net.fc.weight.detach() * 2)
    return net.fc(x)


def _of_the_first_input(net: Any, x: Tensor) -> Tensor:
    net.kept = net.fc(x) if net.kept is None else net.kept
    return net.kept + x


def _first_run(net: Any, x: Tensor) -> Tensor:
    if not net.list:
        net.b.copy_(x.expand(3, 4))
        net.list.append(True)
    return net.fc(x) + net.b.sum(0)


def _by_chance(net: Any, x: Tensor) -> Tensor:
    net.kept = torch.rand(4) if net.kept is None else net.kept
    return net.kept * x


BOUND = {
    _rebound: "1.b",
    _data: "1.b",
    _attribute: "1.h",
    _number: "1.count",
    _branch: "1.count",
    _of_numpy: "1.size",
    _in_dict: "1.table.h",
    _in_list: "1.list",
    _in_deque: "1.queue",
    _parameter: "1.fc.weight",
    _of_the_first_input: "1.kept",
    _first_run: "1.list",
    _by_chance: "1.kept",
}


@pytest.mark.few(4)
@pytest.mark.parametrize("forward", BOUND, ids=lambda forward: forward.__name__)
def test_a_state_that_forward_binds_anew_is_refused_with_its_line(forward: Callable[[Any, Tensor], Tensor]) -> None:
    net = in_network(forward)
    held = {name: id(value) for name, value in vars(net[1]).items()}
    plan = memplan.plan(net, args=(X,), alignment=64)
    assert any("run() refuses" in note for note in plan.notes)
    file = re.escape("test_torch_state.py")
    with pytest.raises(memplan.errors.SourceError, match=f"'{BOUND[forward]}.*' at .*{file}:[0-9]+, `"):
        plan.run(X)
    assert {name: id(value) for name, value in vars(net[1]).items()} == held
    assert (net[1].count, net[1].kept, net[1].table, net[1].list) == (0, None, {}, [])


def test_the_line_is_the_one_that_binds() -> None:
    with pytest.raises(memplan.errors.SourceError, match=re.escape("`net.h = net.cell(x, net.h)`")):
        memplan.plan(in_network(_attribute), args=(X,), train=True).run(X)


# What later runs do not depend on


def _unread(net: Any, x: Tensor) -> Tensor:
    net.last = net.fc(x)
    net.table = {"shape": x.shape, "last": net.last}
    return net.last.relu()


def _counted(net: Any, x: Tensor) -> Tensor:
    net.count += 1
    return net.fc(x)


def _of_constants(net: Any, x: Tensor) -> Tensor:
    if net.kept is None:
        net.kept = torch.arange(4.0) * 2 + 1
    return net.fc(x) * net.kept


def _of_a_buffer(net: Any, x: Tensor) -> Tensor:
    if "sum" not in net.table:
        net.table["sum"] = net.b.sum(0) + 1
    return net.fc(x) * net.table["sum"]


def _cleared(net: Any, x: Tensor) -> Tensor:
    net.list.clear()
    net.list.append(net.fc(x))
    return net.list[0] + 1


def _in_place(net: Any, x: Tensor) -> Tensor:
    net.b.copy_(torch.cat([net.b[1:], x.detach()]))
    net.h.add_(net.b[0])
    return net.fc(x) + net.b.sum(0) + net.h


def _registered(net: Any, x: Tensor) -> Tensor:
    net.register_buffer("late", net.fc(x))
    return net.late * 2


@pytest.mark.few(5)
@pytest.mark.parametrize(
    "forward",
    [_unread, _counted, _of_constants, _of_a_buffer, _cleared, _in_place, _registered],
    ids=lambda f: f.__name__,
)
@pytest.mark.parametrize("train", [False, True])
def test_what_no_run_depends_on_is_as_in_eager(forward: Callable[[Any, Tensor], Tensor], train: bool) -> None:
    net = in_network(forward)
    eager = copy.deepcopy(net)
    plan = memplan.plan(net, args=(X,), train=train, alignment=64)
    assert not plan.notes
    for _ in range(3):
        run = plan.run(X, check=True)
        with torch.set_grad_enabled(train):
            expected = eager(X)
        assert torch.equal(run.loss, expected.sum()) if train else torch.equal(run.outputs, expected)


def test_a_cache_of_weights_that_are_trained_is_refused() -> None:
    def forward(net: Any, x: Tensor) -> Tensor:
        net.kept = net.fc.weight.detach().sum(0) if net.kept is None else net.kept
        return net.fc(x) * net.kept

    net = in_network(forward)
    eager = copy.deepcopy(net)
    plan = memplan.plan(net, args=(X,), alignment=64)
    with torch.no_grad():
        assert all(torch.equal(plan.run(X).outputs, eager(X)) for _ in range(2))
    training = memplan.plan(net, args=(X,), train=True, optimizer="SGD", alignment=64)
    with pytest.raises(memplan.errors.SourceError, match=r"'1\.kept'"):
        training.run(X)
