"""What a run computes, told apart from how: numbers for values, equal for what is computed alike from the same.

Two runs of a module mean the same if each result, each source that is written to, and each gradient has the same
number. A number stands for an operator, its arguments, and the numbers of the tensors among these; the number of a
storage changes when it is written to. That is value numbering, as compilers do it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..private import FakeTensor, OpOverload, disable_current_modes, pytree
from .effects import flat_tensors, generator
from .fake import tensors_in
from .geometry import address, geometry
from .late_numbers import LateNumber
from .listening import Call, Stepped

_CHANCE, _BEFORE = 1, 2  # bits of `needs`
_PLAIN = (bool, int, float, complex, str)


class Meant(NamedTuple):
    """The number of a value; `needs` has a bit for each source that it is computed from, and for chance."""

    number: int
    needs: int


class Meaning:
    """A listener that numbers what one run computes, and then another of the same module."""

    def __init__(self, changing: Callable[[str, Tensor], bool]) -> None:
        """`changing` says of a weight by its name whether runs may find other values in it."""
        self._changing_weight = changing
        self._numbers: dict[Hashable, int] = {}
        self._sources: dict[int, tuple[Hashable, int]] = {}  # by storage: what it is, and its bit
        self._of: dict[int, Meant] = {}  # by storage
        self._kept: list[Any] = []  # what the addresses belong to
        self._changing = _CHANCE | _BEFORE
        self._bits = 2
        self.anew()

    def anew(self) -> None:
        """Another run begins: what the last one has left of its own inputs is of no run to come."""
        for storage, meant in self._of.items():
            if storage in self._sources:
                key, bit = self._sources[storage]
                if meant.number != self._number(key):
                    self._changing |= bit
        for storage, meant in self._of.items():
            if storage in self._sources:
                key, bit = self._sources[storage]
                self._of[storage] = Meant(self._number(key), bit)
            elif meant.needs & self._changing:
                self._of[storage] = Meant(self._number(("before", meant.number)), _BEFORE)
        self._draws: dict[Hashable, int] = {}
        self._result: list[Any] = []

    def outcome(self) -> Any:
        """What the run comes to: equal for runs that mean the same."""
        written = {
            self._number(key): self._of[storage].number
            for storage, (key, _) in self._sources.items()
            if self._of[storage].number != self._number(key)
        }
        return self._result, written

    def inputs(self, named: Callable[..., Mapping[str, Any]]) -> None:
        pass

    def source(self, tensor: Tensor, name: str, kind: str, origin: Tensor | None) -> None:
        storage = address(tensor)
        if storage in self._of:
            return
        self._kept.append((tensor, tensor.untyped_storage(), origin))
        key = ("held", id(origin)) if name.startswith("constant_") else ("source", name)
        self._bits += 1
        bit = 1 << self._bits
        self._sources[storage] = key, bit
        self._of[storage] = Meant(self._number(key), bit)
        if kind == "input" or self._changing_weight(name, tensor):
            self._changing |= bit

    def call(
        self,
        function: Callable[..., Any],
        call: Call,
        result: Any,
        written: Sequence[Tensor],
        ops: range,
        renewed: str = "",
    ) -> None:
        leaves, spec = pytree.tree_flatten((list(call[0]), dict(call[1])))
        given = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        needs = 0
        for tensor in given:
            needs |= self._meant(tensor).needs
        drawn = None
        if isinstance(function, OpOverload):
            drawn = generator(function, call[0], call[1], [*given, *flat_tensors(result)])
        if drawn is not None:
            needs |= _CHANCE
            self._draws[drawn] = self._draws.get(drawn, 0) + 1
        arguments = tuple(self._argument(leaf) for leaf in leaves)
        number = self._number((function, str(spec), arguments, self._draws.get(drawn)))
        for place, tensor in enumerate(written):
            self._of[address(tensor)] = Meant(self._number((number, "written", place, geometry(tensor))), needs)
        for place, tensor in enumerate(flat_tensors(result)):
            if address(tensor) not in self._of:
                self._kept.append(tensor.untyped_storage())
                self._of[address(tensor)] = Meant(self._number((number, place)), needs)

    def number(self, function: Callable[..., Any], call: Call, stand_in: Any, ops: range) -> Any:
        return stand_in

    def returned(self, result: Any, updates: Sequence[tuple[Tensor, Tensor]]) -> None:
        self._result += [repr(leaf) for leaf in pytree.tree_leaves(result) if isinstance(leaf, _PLAIN)]
        self._result += [(path, self._argument(tensor)) for path, tensor in tensors_in(result)]

    def trained(self, loss: Tensor, gradients: Mapping[str, Tensor], stepped: Stepped | None) -> None:
        self._result += [self._argument(loss), {name: self._argument(given) for name, given in gradients.items()}]

    def ended(self, roots: Mapping[int, str]) -> None:
        pass

    def _meant(self, tensor: Tensor) -> Meant:
        storage = address(tensor)
        if storage not in self._of:
            self._kept.append(tensor.untyped_storage())
            if isinstance(tensor, FakeTensor):
                self._of[storage] = Meant(self._number(("unseen", len(self._kept))), _BEFORE)
                return self._of[storage]
            with disable_current_modes():  # data that the network has made itself
                data = tensor.detach().cpu().contiguous().flatten().view(torch.uint8).tolist()
            self._of[storage] = Meant(self._number(("data", tensor.dtype, tuple(data))), 0)
        return self._of[storage]

    def _argument(self, leaf: Any) -> Hashable:
        if isinstance(leaf, Tensor):
            return self._meant(leaf).number, geometry(leaf), leaf.is_conj(), leaf.is_neg()
        return type(leaf).__name__, id(leaf) if isinstance(leaf, LateNumber) else repr(leaf)

    def _number(self, key: Hashable) -> int:
        return self._numbers.setdefault(key, len(self._numbers))
