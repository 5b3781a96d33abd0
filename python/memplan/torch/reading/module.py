"""An nn.Module run once without data: forward under no_grad, or forward and backward jointly."""

from __future__ import annotations

import functools
import inspect
import sys
import warnings
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx

from ...errors import SourceError
from ...importers import notes
from ..installed import silenced
from ..private import pytree
from .double import Double, Exchanging
from .failing import place_of, ways_out
from .fake import Fakes, depends_on_data, describe, explain, map_tensors, tensors_in
from .inputs import declared, in_spec
from .known import Known
from .late_sizes import LateSizes
from .listening import Listener
from .meaning import Meaning
from .module_state import Held, line_of, named, unsettled
from .optimizers import optimizer_of
from .recorder import GraphRecorder
from .scopes import path_of
from .trace import ModulePaths, OpTrace, ReachedOtherwise
from .updates import Updates


def import_module(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    train: bool,
    inplace_ops: Collection[str] = (),
    listener: Listener | None = None,
    optimizer: Any = None,
    keep_gradients: bool = True,
    kernels: bool = False,
    late: LateSizes | None = None,
) -> dict[str, Any]:
    """The graph dict of one run of a module, in the mode (train or eval) that it is in; see `import_torch`.

    With train, the loss is the result's `loss`, or else the sum of all floating tensors of the result that require a
    gradient; SourceError if nothing does.

    Code gets the values of tensors that depend on no input. If it writes to one, or fails, the module is traced once
    more, and nothing is known: that is what counts. It is so as well if code trains weights that it has from elsewhere.
    """
    how: dict[str, Any] = {"train": train, "inplace_ops": inplace_ops, "listener": listener, "optimizer": optimizer}
    how |= {"keep_gradients": keep_gradients, "kernels": kernels, "late": late}
    known = None if isinstance(module, fx.GraphModule) else Known()
    try:
        found = _imported(module, args, kwargs, known=known, **how)
        if known is None or known.is_as_it_was():
            return found
    except Exception as error:
        how["exchanging"] = isinstance(error.__cause__, ReachedOtherwise)
        if not how["exchanging"] and (known is None or not known.used):
            raise
    if listener is not None:
        listener.anew()
    return _imported(module, args, kwargs, known=None, **how)


def _imported(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    train: bool,
    inplace_ops: Collection[str],
    listener: Listener | None,
    optimizer: Any,
    keep_gradients: bool,
    kernels: bool,
    known: Known | None,
    late: LateSizes | None,
    exchanging: bool = False,
) -> dict[str, Any]:
    tracing = _Tracing(module, args, kwargs, train, known, late, exchanging)
    updates = None
    if optimizer is not None:
        updates = Updates(optimizer_of(optimizer, list(module.parameters())), tracing.state)
    graph = GraphRecorder(inplace_ops, listener, renewing=True, kernels=kernels)
    if listener is not None:
        listener.inputs(tracing.by_name)
    with tracing.running():
        before = Held(tracing.double.module)
        found = graph.graph(tracing.run(graph, listener, updates, keep_gradients))
        changed = before.changed(Held(tracing.double.module))
    if changed and (known is None or known.is_as_it_was()):
        _require_settled(tracing.again(), listener)
    if not isinstance(module, fx.GraphModule):
        notes.scratch(graph.scratch)
    return found


class _Tracing:
    """What is traced: a module's double and stand-ins of its arguments."""

    def __init__(
        self,
        module: torch.nn.Module,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        train: bool,
        known: Known | None,
        late: LateSizes | None,
        exchanging: bool,
    ) -> None:
        self._how = module, args, kwargs, train, known, late, exchanging
        self.module, self.train, self._known, self._late, self._exchanging = module, train, known, late, exchanging
        self._signature = inspect.signature(module.forward)
        self._names, self._keys = _positional_names(module, self._signature, args, kwargs), list(kwargs)
        self._given = _by_name(self._names, args, kwargs)
        self.state = weights_of(module)
        self.fakes = Fakes([*self.state.values(), *(t for _, t in tensors_in([args, kwargs]))])
        if known is not None:
            known.begin(self.fakes)
        self._weights = {name: self.fakes(tensor, f"weight '{name}'") for name, tensor in self.state.items()}
        self.double = Double(module, self._weights, self.state)

    def by_name(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
        """The arguments of a call by the names of the parameters that they go to."""
        return _by_name(_positional_names(self.module, self._signature, args, kwargs), args, kwargs)

    def again(self) -> _Tracing:
        """The same, which has not run yet."""
        module, args, kwargs, train, known, late, exchanging = self._how
        return _Tracing(module, args, kwargs, train, None if known is None else Known(), late, exchanging)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Meanwhile, it may run."""
        exchange = Exchanging(self.fakes.made) if self._exchanging else nullcontext()
        with self.fakes.running(), torch.set_grad_enabled(self.train), self.double.sharing(), exchange:
            yield

    def run(
        self,
        graph: GraphRecorder,
        listener: Listener | None = None,
        updates: Updates | None = None,
        keep_gradients: bool = True,
    ) -> list[Tensor]:
        """Run it once: what comes of it, recorded in a graph."""
        module, fakes = self.double.module, self.fakes
        declared(self.state, fakes, graph, "weight")
        inputs = dict(zip(self._given, declared(self._given, fakes, graph), strict=True))
        args, kwargs = tuple(inputs[name] for name in self._names), {name: inputs[name] for name in self._keys}
        paths = ModulePaths(module)
        trace = OpTrace(graph, fakes, paths.name, self._known, self._late)
        if self._late is not None:
            self._late.begin()
        for weight in self._weights.values():
            weight.grad = None
        with _watched(module, trace, paths, call_text(args, kwargs), inputs):
            if isinstance(module, fx.GraphModule):
                result = run_nodes(module, args, kwargs, paths)
            else:
                result = module(*args, **kwargs)
            result = map_tensors(result, lambda tensor, _: fakes.made(tensor), "result")
            if not self.train:
                if listener is not None:
                    listener.returned(result, ())
                return _tensors(result)
            leaves = [*self._weights.items(), *_named(inputs), *self.state.items()]
            loss, gradients = _joint(module, result, graph, fakes, leaves)
            if updates is not None:
                updates.trace(graph, fakes, paths)
            kept = gradients if keep_gradients else {}
            if listener is not None:
                listener.trained(loss, kept, updates)
            return [loss, *kept.values()]


def _require_settled(tracing: _Tracing, listener: Listener | None) -> None:
    """Say that runs depend on what forward has bound in those before; SourceError if a listener will repeat this one.

    `tracing` has not run yet.
    """
    meaning = Meaning(lambda name, weight: tracing.train and weight.requires_grad)

    def run() -> None:
        tracing.run(GraphRecorder(listener=meaning), meaning)

    with tracing.running():
        changing = unsettled(tracing.double, meaning, run)
        if not changing:
            return
        again = tracing.again()
        with again.running():
            line = line_of(again.double, changing[0], lambda: again.run(GraphRecorder()))
    where = f" at {line}" if line else ""
    what = f"forward changes what the next run starts from: '{named(changing[0])}'{where}"
    advice = "a buffer that it writes to in place, self.b.copy_(...), is carried on"
    if listener is not None:
        raise SourceError(f"{label_of(tracing.module)}: {what}; a plan would repeat the first run; {advice}")
    notes.say(f"{what}; run() refuses that: a plan would repeat the first run; {advice}")


def run_nodes(module: fx.GraphModule, args: tuple[Any, ...], kwargs: Mapping[str, Any], paths: ModulePaths) -> Any:
    """What a graph returns, run node by node: each runs on behalf of the module that it was traced in."""

    class Run(fx.Interpreter):
        def run_node(self, n: fx.Node) -> Any:
            with paths.within(path_of(n)):
                return super().run_node(n)

    leaves = args if in_spec(module) is None else pytree.tree_leaves((args, dict(kwargs)))
    run = Run(module)
    run.extra_traceback = False
    return module.graph.process_outputs(run.run(*leaves, enable_io_processing=False))


@contextmanager
def _watched(
    module: torch.nn.Module, trace: OpTrace, paths: ModulePaths, given: str, names: Collection[str]
) -> Iterator[None]:
    """Record what runs, and turn what goes wrong into a SourceError that says where and with which arguments."""
    try:
        with eager(), paths.following(), trace.gradients_apart(), trace:
            yield
    except SourceError:
        raise
    except Exception as error:
        where = f"{trace.failed[1]}: " if trace.failed and trace.failed[0] is error else ""
        why = _by_chance(module, trace.failed_by_chance) if where else ""
        reason = f"{where}{why or explain(error)}{place_of(error, module)}"
        reason += "" if why else _remedy(module, error, names)
        raise SourceError(f"{label_of(module)}: {reason}; it was given {given}") from error


def _by_chance(module: torch.nn.Module, drew: str | None) -> str:
    """That a drawn number decides what runs, and what a model of transformers can do; nothing if none was drawn."""
    if drew is None:
        return ""
    dropping = [name for name in vars(getattr(module, "config", None) or object) if name.endswith("layerdrop")]
    advice = f"; with model.config.{dropping[0]} = 0.0 no layer is dropped" if dropping else ""
    return f"it reads a number that op '{drew}' has drawn, and a plan is of ops that do not depend on chance{advice}"


def _remedy(module: torch.nn.Module, error: Exception, names: Collection[str]) -> str:
    """What makes a model run without data: of transformers, a kernel of its experts that takes all tokens at once."""
    experts = any(name.endswith("experts") for name, _ in module.named_modules())
    chosen = any(hasattr(part, "set_experts_implementation") for part in module.modules())
    if experts and chosen and depends_on_data(error):
        return "; model.set_experts_implementation('grouped_mm') runs experts without"
    return ways_out(error, names)


def _named(values: Mapping[str, Any]) -> list[tuple[str, Tensor]]:
    return [named for name, value in values.items() for named in tensors_in(value, name)]


def _tensors(result: Any) -> list[Tensor]:
    return [tensor for _, tensor in tensors_in(result)]


def _joint(
    module: torch.nn.Module, result: Any, graph: GraphRecorder, fakes: Fakes, leaves: Sequence[tuple[str, Tensor]]
) -> tuple[Tensor, dict[str, Tensor]]:
    """The loss and the gradients of the leaves that it reaches; they are computed, and recorded, now."""
    loss = loss_of(label_of(module), result)
    loss.backward()  # type: ignore[no-untyped-call]
    found = [(name, leaf.grad) for name, leaf in leaves if leaf.is_leaf]
    gradients = {name: gradient for name, gradient in found if gradient is not None and fakes.owns(gradient)}
    graph.rename(loss, "loss")
    for name, gradient in reversed(gradients.items()):  # two leaves may share a gradient: it is named after the first
        graph.rename(gradient, f"grad.{name}")
    return loss, gradients


def loss_of(label: str, result: Any) -> Tensor:
    """What training starts from: the result's `loss`, or else the sum of all its tensors that require a gradient."""
    loss = result.get("loss") if isinstance(result, Mapping) else getattr(result, "loss", None)
    if isinstance(loss, Tensor) and loss.requires_grad:
        return loss if loss.dim() == 0 else loss.sum()
    parts = [t for t in _tensors(result) if t.requires_grad]
    if not parts:
        problem = f"{label} returned {describe(result)} without one"
        raise SourceError(f"train=True needs an output that requires a gradient, {problem}")
    return functools.reduce(torch.add, [t.abs().sum() if t.is_complex() else t.sum() for t in parts])


def weights_of(module: torch.nn.Module) -> dict[str, Tensor]:
    """All parameters and buffers, each under every name that it has."""
    state: dict[str, Tensor] = dict(module.named_parameters(remove_duplicate=False))
    state.update(module.named_buffers(remove_duplicate=False))
    return state


def _by_name(names: list[str], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call by the names of the parameters that they go to."""
    return dict(zip(names, args, strict=True)) | dict(kwargs)


def _positional_names(
    module: torch.nn.Module, signature: inspect.Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> list[str]:
    """The parameters of forward that `args` go to; `inputs.0`, `inputs.1` for a parameter `*inputs`."""
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise SourceError(f"{label_of(module)}: {error}; it was given {call_text(args, kwargs)}") from error
    names: list[str] = []
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            names += [f"{parameter.name}.{number}" for number in range(len(args) - len(names))]
        elif parameter.kind is not parameter.KEYWORD_ONLY:
            names.append(parameter.name)
    return names[: len(args)]


def label_of(module: torch.nn.Module) -> str:
    """How messages call what runs."""
    return f"{type(module).__name__}.forward"


def call_text(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """The arguments of a call for a message."""
    parts = [describe(value) for value in args] + [f"{key}={describe(value)}" for key, value in kwargs.items()]
    arrays = any(isinstance(leaf, np.ndarray) for leaf in pytree.tree_leaves((args, dict(kwargs))))
    remedy = "; a numpy array is no tensor: torch.from_numpy(array) makes one" if arrays else ""
    return f"({', '.join(parts)}){remedy}"


@contextmanager
def eager() -> Iterator[None]:
    """Run what has been compiled as it was written, and keep torch's own reports of failures off stderr."""
    compiled = "torch._dynamo" in sys.modules
    stance = torch.compiler.set_stance("force_eager") if compiled else nullcontext()
    with silenced("torch._subclasses.fake_tensor"), warnings.catch_warnings(), stance:
        warnings.filterwarnings("ignore", message=r"Using `torch.compile\(module\)` when there are global")
        yield


@contextmanager
def unchanged(module: torch.nn.Module) -> Iterator[None]:
    """Put the attributes of all parts and all gradients back afterwards.

    A forward may keep a result on itself, and a backward gradients on parameters; these would be fake
    tensors.
    """
    attributes = Attributes(module)
    gradients = [(parameter, parameter.grad) for parameter in module.parameters()]
    try:
        for parameter, _ in gradients:
            parameter.grad = None
        yield
    finally:
        attributes.restore()
        for parameter, gradient in gradients:
            parameter.grad = gradient


class Attributes:
    """What a module and its parts hold at a moment: weights, modes and whatever forward keeps there.

    Lists, dicts and sets count by what is in them, one level deep; tensors are not copied.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        held = [vars(part) for part in module.modules()]
        self._then = [(attributes, dict(attributes), _contents(attributes)) for attributes in held]

    def restore(self) -> None:
        """Let the module hold it again."""
        for attributes, then, contents in self._then:
            for key in attributes.keys() - then.keys():
                del attributes[key]
            attributes.update(then)
            for value, content in contents:
                if isinstance(value, list):
                    value[:] = content
                elif value or content:
                    value.clear()
                    value.update(content)


def _contents(attributes: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    """The containers among attributes, with copies of what is in them."""
    return [(v, v.copy() if v else ()) for v in attributes.values() if type(v) in (dict, OrderedDict, list, set)]
