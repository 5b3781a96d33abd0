"""The operators that a piece calls, as nodes of a graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import torch
from torch import Tensor, fx
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.node import map_arg

from ....errors import SourceError
from ...reading.geometry import address
from .calls import Composed


class Result(NamedTuple):
    """What a function makes: a node, a tensor without bytes, and whether its bytes are none that were given."""

    node: fx.Node
    tensor: Tensor
    own: bool


class Inlining:
    """What writes the operators that functions call; what is alike is traced once.

    `emit` makes a node, `tensor` gives the one without bytes that a node stands for, and `constant` makes a node for
    one that is known.
    """

    def __init__(
        self,
        fake: AbstractContextManager[Any],
        emit: Callable[[Any, Any, Any], fx.Node],
        tensor: Callable[[fx.Node], Tensor],
        constant: Callable[[Tensor], fx.Node],
        decompositions: Any = None,
    ) -> None:
        self._fake, self._emit, self._tensor, self._constant = fake, emit, tensor, constant
        self._decompositions = decompositions
        self._traced: dict[Any, fx.GraphModule] = {}

    def write(self, func: Any, args: Any, kwargs: Any, functional: bool = True) -> list[Result | None]:
        """Emit what a function calls, and give its results, with None for those that are left out.

        `functional`: nothing is written over.
        """
        if isinstance(func, Composed):
            bound = tuple(self._constant(one) if isinstance(one, Tensor) else one for one in func.bound)
            func, args = func.function, (*bound, *args)
        found: list[fx.Node] = []
        map_arg((args, kwargs), lambda one: found.append(one) or one)  # type: ignore[func-returns-value]
        given = {node: place for place, node in enumerate(dict.fromkeys(found))}
        tensors = [*map(self._tensor, given)]
        likes = tuple((one.shape, one.stride(), one.dtype, one.device) for one in tensors)
        key = (_key(func, given), _key((args, kwargs), given), likes, functional)
        if key not in self._traced:
            self._traced[key] = self._trace(func, args, kwargs, given, tensors, functional)
        inner = self._traced[key].graph
        here: dict[fx.Node, fx.Node] = dict(zip(inner.find_nodes(op="placeholder"), given, strict=True))
        for node in inner.nodes:
            if node.op == "call_function":
                here[node] = self._emit(node.target, *map_arg((node.args, node.kwargs), here.__getitem__))
        results: Sequence[Any] = inner.output_node().args
        [made] = results
        there = {address(node.meta["val"]) for node in inner.find_nodes(op="placeholder")}
        values = [None if one is None else (here[one], one.meta["val"]) for one in made]
        return [one and Result(*one, own=address(one[1]) not in there) for one in values]

    def _trace(
        self, func: Any, args: Any, kwargs: Any, given: dict[fx.Node, int], tensors: Sequence[Tensor], functional: bool
    ) -> fx.GraphModule:
        def called(*values: Tensor) -> list[Any]:
            now_args, now_kwargs = map_arg((args, kwargs), lambda one: values[given[one]])
            made = func(*now_args, **now_kwargs)
            return list(made) if isinstance(made, (tuple, list)) else [made]

        with self._fake, torch.no_grad():
            function = torch.func.functionalize(called) if functional else called
            traced: fx.GraphModule = make_fx(function, decomposition_table=self._decompositions)(*tensors)
        traced.graph.eliminate_dead_code()
        if traced.graph.find_nodes(op="get_attr"):
            raise SourceError(f"{func} needs a constant")
        return traced


def _key(value: Any, given: dict[fx.Node, int]) -> Any:
    """What is equal where a function would do the same, with places for nodes."""
    if isinstance(value, fx.Node):
        return (fx.Node, given[value])
    if isinstance(value, Composed):
        return (Composed, value.function, _key(value.bound, given))
    if isinstance(value, dict):
        return (dict, tuple((name, _key(item, given)) for name, item in value.items()))
    if isinstance(value, (list, tuple)):
        return (type(value), tuple(_key(item, given) for item in value))
    return id(value) if isinstance(value, Tensor) else (type(value), value)
