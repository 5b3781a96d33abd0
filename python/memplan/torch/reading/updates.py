"""The step of an optimizer after the backward pass: torch's own code, traced for one tensor at a time.

The step runs on stand-ins. States are there before the first op, as weights are, so it runs twice: the first run makes
states that are missing, unseen by the graph, and shows how they are made. The second run is recorded.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from ...errors import SourceError
from .fake import Fakes, describe, explain
from .geometry import address
from .late_numbers import Guard, LateNumber, value_of
from .optimizers import alike, refused, step_of
from .recorder import GraphRecorder
from .stepping import Creation, Creations, StepCalls
from .trace import ModulePaths

_ONE_BY_ONE = {"foreach": False, "fused": False}


@dataclass(frozen=True)
class _Member:
    """A parameter that the optimizer updates, by its name in the network, and its stand-in."""

    name: str
    parameter: Tensor
    fake: Tensor


@dataclass(frozen=True)
class _State:
    """A state that a run needs: a tensor, or what is no tensor and stays what it is."""

    parameter: Tensor
    key: str
    made: Creation | None
    value: Any = None


class Updates:
    """The step of an optimizer for the parameters of a network, given with its buffers.

    SourceError if the optimizer has a parameter that the network has not.
    """

    def __init__(self, optimizer: Optimizer, network: Mapping[str, Tensor]) -> None:
        self.optimizer = optimizer
        self._names: dict[int, str] = {}
        for name, tensor in network.items():
            self._names.setdefault(id(tensor), name)
        self._taken = set(network)
        self._groups = [list(group["params"]) for group in optimizer.param_groups]
        self._plain = [dict(_plain_options(group)) for group in optimizer.param_groups]
        self._options: dict[str, tuple[int, str]] = {}
        self._states: dict[str, _State] = {}
        self._guards: list[Guard] = []
        for number, parameters in enumerate(self._groups):
            for parameter in parameters:
                if id(parameter) not in self._names:
                    problem = f"its group {number} has a parameter, {describe(parameter)}, that the network has not"
                    raise refused(optimizer, f"{problem}; make it from the parameters of what is planned")

    def trace(self, graph: GraphRecorder, fakes: Fakes, paths: ModulePaths) -> None:
        """Record the step, on stand-ins that have their gradients."""
        members = [
            [_Member(self._names[id(p)], p, fakes(p, "a parameter")) for p in parameters] for parameters in self._groups
        ]
        flat = [member for group in members for member in group]
        state: defaultdict[Tensor, Any] = defaultdict(dict)
        state.update({m.fake: self._given_state(m, fakes) for m in flat if m.parameter in self.optimizer.state})
        groups = [self._group(number, group, graph, fakes) for number, group in enumerate(members)]
        step = alike(self.optimizer, groups, state)
        first, second = Creations(), Creations()
        with self._explained(), fakes.running(), torch.no_grad(), first, StepCalls(None, paths, {}):
            step_of(step)
        for member in flat:
            for key, value in state.get(member.fake, {}).items():
                self._declare(member, key, value, first, graph)
        before = {member.name: dict(state.get(member.fake, {})) for member in flat}
        owners = {address(t): member.name for member in flat for t in _belonging(member, before[member.name])}
        with self._explained(), torch.no_grad(), second, StepCalls(graph, paths, owners):
            step_of(step)
        if first.others != second.others and not self._begins_at_zero():
            problem = "its first step computes otherwise than later ones do"
            raise refused(self.optimizer, f"{problem}; make one step in torch, and plan with the instance")
        for member in flat:
            self._require_same_states(before[member.name], state.get(member.fake, {}))

    def tensors(self) -> dict[str, Tensor]:
        """States and options by name, as they are now; states that are missing are made.

        SourceError if the optimizer is not as it was when it was planned.
        """
        self._require_same_options()
        found: dict[str, Tensor] = {}
        for name, (number, key) in self._options.items():
            found[name] = self.optimizer.param_groups[number][key]
        for name, state in self._states.items():
            own = self.optimizer.state[state.parameter]
            if own.get(state.key) is None:
                own[state.key] = state.made.make(state.parameter) if state.made is not None else state.value
            if isinstance(own[state.key], Tensor):
                found[name] = own[state.key]
        return found

    def _group(self, number: int, members: list[_Member], graph: GraphRecorder, fakes: Fakes) -> dict[str, Any]:
        """A group of stand-ins; its numbers are read at each run, and so are its tensors."""
        group = self.optimizer.param_groups[number]
        options: dict[str, Any] = {}
        for key, value in group.items():
            if isinstance(value, Tensor):
                name = self._free_name(f"optimizer.{number}.{key}")
                self._options[name] = (number, key)
                options[key] = fakes(value, name)
                graph.source(options[key], name, "weight", value)
            elif _is_number(value):
                options[key] = self._late(value, number, key)
            elif isinstance(value, tuple) and value and all(map(_is_number, value)):
                options[key] = tuple(self._late(v, number, key, place) for place, v in enumerate(value))
            else:
                options[key] = value
        one_by_one = {key: value for key, value in _ONE_BY_ONE.items() if key in group}
        return options | one_by_one | {"params": [member.fake for member in members]}

    def _late(self, value: float, number: int, key: str, *place: int) -> LateNumber:
        return LateNumber(partial(self._option, number, key, *place), now=value, name=key, guards=self._guards)

    def _option(self, number: int, key: str, *place: int) -> Any:
        value = self.optimizer.param_groups[number][key]
        found = value[place[0]] if place else value
        if not _is_number(found):
            problem = f"option '{key}' of its group {number} was a number when it was planned, got {describe(found)}"
            raise refused(self.optimizer, problem)
        return found

    def _given_state(self, member: _Member, fakes: Fakes) -> dict[str, Any]:
        own = self.optimizer.state[member.parameter]
        what = f"state of '{member.name}'"
        return {key: fakes(value, what) if isinstance(value, Tensor) else value for key, value in own.items()}

    def _declare(self, member: _Member, key: str, value: Any, creations: Creations, graph: GraphRecorder) -> None:
        """Let a state be a source of the graph, and note how it is made where there is none."""
        name = f"{member.name}.{key}"  # no module has this name: a parameter has no parts
        real = self.optimizer.state.get(member.parameter, {}).get(key)
        if not isinstance(value, Tensor):
            self._states[name] = _State(member.parameter, key, None, value)
            return
        made = None if real is not None else creations.of(value) or self._beginning(member, key)
        graph.source(value, name, "weight", real)
        self._states[name] = _State(member.parameter, key, made)

    def _beginning(self, member: _Member, key: str) -> Creation:
        """How a state is made whose first value is computed from gradients."""
        if self._begins_at_zero():
            return Creation(torch.zeros_like, (member.fake,), {})
        problem = f"its state '{key}' begins with what the first step computes"
        raise refused(self.optimizer, f"{problem}; make one step in torch, and plan with the instance")

    def _begins_at_zero(self) -> bool:
        """Whether a first step does what later ones would do with zeros: its momentum is then the gradient."""
        groups = self.optimizer.param_groups
        return isinstance(self.optimizer, torch.optim.SGD) and all(group["dampening"] == 0 for group in groups)

    def _require_same_states(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        for key, value in after.items():
            if not _same_state(value, before.get(key)):
                what = "puts another tensor in place of" if isinstance(value, Tensor) else "counts in Python, in"
                raise refused(self.optimizer, f"its step {what} the state '{key}', and has to write to a tensor")

    def _require_same_options(self) -> None:
        groups = self.optimizer.param_groups
        if [list(map(id, group["params"])) for group in groups] != [list(map(id, p)) for p in self._groups]:
            raise refused(self.optimizer, "its parameters are not those of when it was planned; plan again")
        for number, (group, planned) in enumerate(zip(groups, self._plain, strict=True)):
            for key, value in planned.items():
                if group.get(key) != value:
                    problem = f"option '{key}' of its group {number} was {value!r} when it was planned"
                    raise refused(self.optimizer, f"{problem}, got {group.get(key)!r}; plan again")
        for function, operands, result in self._guards:
            if bool(function(*(value_of(operand, {}) for operand in operands))) != result:
                key = next(operand.name for operand in operands if isinstance(operand, LateNumber))
                problem = f"option '{key}' changed so that its step computes otherwise than when it was planned"
                raise refused(self.optimizer, f"{problem}; plan again")

    def _free_name(self, name: str) -> str:
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return name

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except SourceError as error:
            raise refused(self.optimizer, str(error)) from error
        except Exception as error:
            raise refused(self.optimizer, explain(error)) from error


def _belonging(member: _Member, state: Mapping[str, Any]) -> list[Tensor]:
    gradient = [] if member.fake.grad is None else [member.fake.grad]
    return [*(value for value in state.values() if isinstance(value, Tensor)), *gradient, member.fake]


def _plain_options(group: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in group.items():
        if isinstance(value, (bool, str, type(None))) and key not in _ONE_BY_ONE:
            yield key, value


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _same_state(value: Any, old: Any) -> bool:
    if isinstance(value, Tensor):
        return isinstance(old, Tensor) and address(value) == address(old)
    return type(value) is type(old) and not isinstance(value, LateNumber) and bool(value == old)
