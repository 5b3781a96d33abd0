"""Watching torch run: every operator that reaches the dispatcher, and the module on whose behalf it runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.utils.weak import WeakTensorKeyDictionary

from ...errors import SourceError
from ..private import (
    HigherOrderOperator,
    TorchDispatchMode,
    current_autograd_node,
    get_sequence_nr,
    schema_of,
    sequence_of,
)
from . import kernels
from .costs import flops_of
from .effects import LIFTS, flat_tensors, generator, mutated
from .fake import Fakes, depends_on_data
from .functional import functional
from .known import Known
from .late_numbers import late_numbers
from .late_sizes import Expecting, LateSizes
from .loops import Loop, loops_of, read_by
from .recorder import GraphRecorder
from .relations import offers_of
from .workspaces import inside_of, pieces_of, room_of, workspace_of


class ReachedOtherwise(Exception):
    """Code has a weight of the network that it got from elsewhere, as from a global variable, and trains it."""


class OpTrace(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records every operator that runs under it, below autograd, in the order in which eager torch runs them.

    Tensors that are met in an op and come from outside become constants of the graph. `name` makes an op's name of an
    operator's short one (`relu`). With `known`, code gets the values of tensors that depend on no input. `late` has the
    sizes that depend on data.
    """

    supports_higher_order_operators = True

    def __init__(
        self,
        graph: GraphRecorder,
        fakes: Fakes,
        name: Callable[[str], str],
        known: Known | None = None,
        late: LateSizes | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.failed: tuple[BaseException, str] | None = None  # what an operator raised last, and which one
        self.failed_by_chance: str | None = None  # the op that drew all numbers that it was given
        self.constants: list[Tensor] = []  # the stand-ins of what came from outside
        self.said: list[Sequence[Loop]] | None = None  # loops of each op, if they are to be kept: they hold tensors
        self._graph = graph
        self._fakes = fakes
        self._name = name
        self._known = known
        self._late = late
        self._expected: Expecting | None = None  # what runs the newest operator, if its size depends on data
        self._apart: list[tuple[Tensor, Tensor | None]] = []  # what came from outside, and the gradients that it had
        self._drawn: MutableMapping[Tensor, str] = WeakTensorKeyDictionary()  # tensors of drawn numbers alone -> op

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if isinstance(func, HigherOrderOperator):
            problem = f"the higher-order operator {func} cannot be imported from a module"
            advice = "import what torch.export.export makes of it"
            raise SourceError(f"op '{self._name(str(func))}': {problem}; {advice}")
        if func in LIFTS:  # what torch.tensor(3.0) does with the data that it has just made
            result = func(*args, **(kwargs or {}))
            self._graph.op(self._name("lift_fresh"), str(func), (), [result])
            self._graph.called(func, (args, kwargs or {}), result)
            return result if self._known is None else self._known.lifted(func, args[0], result)
        if self._known is not None and self._known.told(func, args):
            return self._known.value(func, args, kwargs or {})
        arguments = [self._adopt(value) for value in args]
        named = {key: self._adopt(value) for key, value in (kwargs or {}).items()}
        anew = functional(func, arguments, named) if self._graph.may_renew(func, arguments) else None
        result = self._run(func, arguments, named)
        self._record(func, arguments, named, result, anew)
        if self._known is None:
            return result
        return self._known.after(func, (args, kwargs or {}), result, mutated(func, arguments, named))

    @contextmanager
    def gradients_apart(self) -> Iterator[None]:
        """Put the gradients of what comes from outside back afterwards: those that they get are stand-ins."""
        try:
            yield
        finally:
            for tensor, gradient in reversed(self._apart):
                tensor.grad = gradient
            self._apart.clear()

    def _run(self, func: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        self._expected = None
        try:
            return kernels.run(func, args, kwargs)
        except Exception as error:
            given = self._late.gives(func) if self._late is not None and depends_on_data(error) else None
            if given is not None:
                made, self._expected = given
                return made
            self.failed = (error, f"op '{self._name(_short_name(func))}' ({func})")
            self.failed_by_chance = self._drew(flat_tensors([args, kwargs]))
            raise

    def _adopt(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            if self._fakes.owns(value):
                return value
            if self._known is not None and value not in self._known:
                self._known.met(value)
            fake = self._fakes(value, "a tensor that the model holds")
            if value.requires_grad and value.is_leaf and torch.is_grad_enabled():
                if self._graph.knows(fake):
                    raise ReachedOtherwise("a weight of the network is reached otherwise than through the network")
                self._apart.append((value, value.grad))
                value.grad = None
            self._graph.constant(fake, value)
            self.constants.append(fake)
            return fake
        if isinstance(value, (list, tuple)):
            return type(value)(self._adopt(item) for item in value)
        return value

    def _record(self, called: Any, args: list[Any], kwargs: dict[str, Any], result: Any, anew: Any) -> None:
        """Note a call; as one of the operator `anew` if that makes the same in new bytes."""
        func = anew or called
        outputs = list(flat_tensors(result))
        if func is torch.ops.aten.detach.default and self._graph.knows(outputs[0]):
            return  # the same bytes, seen in the same way
        written = mutated(func, args, kwargs)
        if outputs or written or func is torch.ops.aten._local_scalar_dense.default:
            name, inputs = self._name(_short_name(called)), list(flat_tensors([args, kwargs]))
            offers = offers_of(func, args, kwargs, inputs, outputs)
            source = generator(func, args, kwargs, [*inputs, *outputs])
            drawn = () if source is None else (source,)
            if by := name if drawn and not inputs else self._drew(inputs):
                self._drawn.update(dict.fromkeys(outputs, by))
            reads = [read for number in late_numbers((args, kwargs)) for read in number.reads]
            flops = flops_of(func, tuple(args), kwargs, result)
            loops = [] if written or drawn else loops_of(func, args, kwargs, result)
            inside, scratch = self._needed(func, args, kwargs, result)
            if self.said is not None:
                self.said.append(loops)
            self._graph.op(
                *(name, str(func), read_by(func, args, kwargs), outputs, written, inside),
                **{"offers": offers, "drawn": drawn, "after": reads, "flops": flops, "loops": loops},
                renews=anew is not None,
                scratch=scratch,
                copied=kernels.copies_rows(func),
                needs=pieces_of(func, args, kwargs, result, loops),
            )
            if self._expected is not None and not outputs:
                self._graph.number(self._expected, (tuple(args), kwargs), result)
            else:
                self._graph.called(self._expected or func, (tuple(args), kwargs), result, written)

    def _needed(self, *call: Any) -> tuple[int, tuple[int, int] | None]:
        """The workspace of a call, and what its kernel allocates besides."""
        room, inside = room_of(*call), inside_of(*call)
        if self._graph.kernels:
            return room, None
        return inside, (room, workspace_of(*call)) if room > inside else None

    def _drew(self, tensors: Iterable[Tensor]) -> str | None:
        """The op that drew the numbers which tensors hold, or are computed from; None if there is more in them."""
        found = [self._drawn.get(tensor) for tensor in tensors]
        return found[0] if found and None not in found else None


def _short_name(func: Any) -> str:
    return str(schema_of(func).name).rpartition("::")[2]


class ModulePaths:
    """Names ops by the module that runs, `layer1.0.conv1.convolution`, with `backward.` before it going back.

    An op of the backward pass bears the path of the forward op whose gradient it computes: autograd numbers
    the nodes that it makes on the way forward.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        self._path_of = {id(part): path for path, part in module.named_modules()}
        self._thread = threading.get_ident()
        self._stack: list[str] = []
        self._path_of_node: dict[int, str] = {}

    def name(self, op: str) -> str:
        """The full name of an op that runs now."""
        node = current_autograd_node()
        if node is not None:
            return _joined("backward", self._path_of_node.get(sequence_of(node), ""), op)
        path = self._stack[-1] if self._stack else ""
        self._path_of_node.setdefault(get_sequence_nr() - 1, path)
        return _joined(path, op)

    @contextmanager
    def following(self) -> Iterator[None]:
        """Follow the calls of the module and its parts, in this thread."""
        before = register_module_forward_pre_hook(self._enter)
        after = register_module_forward_hook(self._leave, always_call=True)
        try:
            yield
        finally:
            before.remove()
            after.remove()

    @contextmanager
    def within(self, path: str) -> Iterator[None]:
        """What runs meanwhile runs on behalf of the module with this path."""
        self._stack.append(path)
        try:
            yield
        finally:
            self._stack.pop()

    def _follows(self, module: torch.nn.Module) -> bool:
        return id(module) in self._path_of and threading.get_ident() == self._thread

    def _enter(self, module: torch.nn.Module, args: Any) -> None:
        if self._follows(module):
            self._stack.append(self._path_of[id(module)])

    def _leave(self, module: torch.nn.Module, args: Any, result: Any) -> None:
        if self._follows(module) and self._stack:
            self._stack.pop()


def _joined(*parts: str) -> str:
    return ".".join(part for part in parts if part)
