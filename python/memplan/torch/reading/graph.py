"""Graphs that torch has traced: fx.GraphModule and ExportedProgram, run node by node without data.

Every node that calls something is one op. What runs inside a node and does not leave it counts as the op's
workspace. What a node may share with its inputs is what the only operator inside it may.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, fx
from torch.export.graph_signature import InputKind, OutputKind
from torch.func import functional_call

from ...errors import SourceError
from ...importers import notes
from ...importers.graph_dict import peak_of
from ..private import HigherOrderOperator, OpOverload, pytree, qualified_name, schema_of
from .costs import flops_of
from .double import Double
from .effects import flat_tensors
from .entries import Op
from .failing import place_of_node, ways_out
from .fake import Fakes, explain, map_tensors, tensors_in
from .inputs import declared, given_program_values, given_values, meta_value, placeholders, user_inputs
from .kernels import copies_rows
from .late_sizes import Expecting
from .listening import Call, Listener
from .loops import Loop, loops_of
from .module import weights_of
from .recorder import GraphRecorder
from .scopes import scoped_name
from .symbols import Symbols
from .trace import OpTrace

# Operators that run a body in place: where the body is among the arguments, and where its own arguments
# begin.
_INLINE = {
    "wrap": (0, 1),
    "wrap_with_set_grad_enabled": (1, 2),
    "wrap_with_autocast": (4, 5),
    "invoke_subgraph": (0, 2),
    "tag_activation_checkpoint": (0, 1),
}


_FLAGS = ("train", "training")  # arguments of operators


class GraphRun(fx.Interpreter):
    """Runs the nodes of a graph under fake tensors and records them.

    Names begin with `prefix`: the node that runs this graph as its body. `double` is what the graph is a part of.
    """

    def __init__(
        self,
        module: fx.GraphModule,
        graph: GraphRecorder,
        fakes: Fakes,
        symbols: Symbols,
        prefix: str = "",
        double: Double | None = None,
    ) -> None:
        super().__init__(module)
        self.extra_traceback = False
        self._graph = graph
        self._fakes = fakes
        self._symbols = symbols
        self._prefix = prefix
        self._double = double
        self._read_by: dict[fx.Node, list[Op]] = {}  # the ops that read numbers, by the nodes for these

    def run_node(self, n: fx.Node) -> Any:
        if n.op in ("placeholder", "output"):
            return super().run_node(n)
        if n.op == "get_attr":
            return self._attribute(n)
        waits = [op for given in n.all_input_nodes for op in self._read_by.get(given, ())]
        with self._graph.waiting_for(waits):
            result = self._run(n)
        if self._symbols.unknown(n.meta.get("val")):
            self._read_by[n] = [self._graph.newest_op]
        return result

    def _run(self, n: fx.Node) -> Any:
        if isinstance(n.target, HigherOrderOperator):
            return self._higher_order(n, n.target)
        if self._symbols.unknown(n.meta.get("val")):
            return self._unknown_number(n)
        if self._symbols.makes(n):
            return self._late_size(n)
        return self._call(n)

    def _late_size(self, node: fx.Node) -> Any:
        """A size that depends on data, or tensors that have one: they are as the symbols say."""
        call, value = self.fetch_args_kwargs_from_env(node), node.meta["val"]
        result = self._fresh(self._symbols.scalar(value))
        operands, outputs = list(flat_tensors(call)), list(flat_tensors(result))
        self._graph.op(self._name(node), self._type(node), operands, outputs)
        function, whole = self._whole_call(node, call)
        expecting = Expecting(function, result, self._symbols.makes(node))
        if not outputs:
            self._graph.number(expecting, whole, result)
            return result
        self._graph.called(expecting, whole, result)
        return result

    def _unknown_number(self, node: fx.Node) -> Any:
        """A number read from a tensor: any will do, no size depends on it."""
        call = self.fetch_args_kwargs_from_env(node)
        self._graph.op(self._name(node), self._type(node), flat_tensors(call), ())
        return self._graph.number(*self._whole_call(node, call), 1)

    def _attribute(self, node: fx.Node) -> Any:
        value = super().run_node(node)
        if not isinstance(value, Tensor):
            return value
        if not self._fakes.owns(value):
            value = self._fakes(value, f"node '{node.name}'")
        self._graph.source(value, str(node.target), "weight", self._fakes.origin(value))
        return value

    def _call(self, node: fx.Node) -> Any:
        args, kwargs = self.fetch_args_kwargs_from_env(node)
        if node.target is torch.ops.aten._assert_scalar.default and args[0] is False:
            raise SourceError(
                f"node '{node.name}': {args[1]}, with {self._symbols.bindings()}; dims={{...}} gives others"
            )
        operands = [tensor for _, tensor in tensors_in([args, kwargs])] + self._weights_of(node)
        inner = GraphRecorder()
        for tensor in operands:
            inner.source(tensor, "operand", "input")
        trace = OpTrace(inner, self._fakes, lambda op: op)
        trace.said = []
        with _explained(node), trace:
            result = super().run_node(node)
        if node.target is operator.getitem and not isinstance(args[0], Tensor):
            return result
        operands += trace.constants
        outputs = [tensor for _, tensor in tensors_in(result)]
        mutated = [tensor for tensor in operands if inner.mutated(tensor)]
        workspace = _inner_peak(inner, [*operands, *outputs])
        if outputs or mutated:
            name, offers = self._name(node), inner.only_offers()
            drawn, flops = inner.drawn, inner.flops()
            loops = _loops_of(node, (args, kwargs), result, trace.said)
            self._graph.op(
                *(name, self._type(node), operands, outputs, mutated, workspace, offers, drawn),
                flops=flops,
                loops=loops,
                copied=self._graph.kernels and copies_rows(node.target),
            )
            self._graph.called(*self._whole_call(node, (args, kwargs)), result, mutated)
        return result

    def _whole_call(self, node: fx.Node, call: Call) -> tuple[Callable[..., Any], Call]:
        """A node's call as one that can be made anywhere: weights and autocast are what they are here and now."""
        function: Any = node.target
        if node.op == "call_method":
            function, call = method, ((node.target, *call[0]), call[1])
        if node.op == "call_module":
            module = self.module.get_submodule(str(node.target))
            original = module if self._double is None else self._double.original(module)
            function, call = functional_call, ((original, weights_of(module), *call), {})
        device = self._fakes.device
        if torch.is_autocast_enabled(device):
            function = partial(under_autocast, device, torch.get_autocast_dtype(device), function)
        return function, call

    def _weights_of(self, node: fx.Node) -> list[Tensor]:
        """The weights of the module that a node calls, if it does."""
        if node.op != "call_module":
            return []
        weights = weights_of(self.module.get_submodule(str(node.target)))
        for name, tensor in weights.items():
            self._graph.source(tensor, f"{node.target}.{name}", "weight", self._fakes.origin(tensor))
        return list(weights.values())

    def _type(self, node: fx.Node) -> str:
        if isinstance(node.target, OpOverload):
            return str(node.target)
        if node.op == "call_function":
            return qualified_name(node.target)
        if node.op == "call_method":
            return f"torch.Tensor.{node.target}"
        kind = type(self.module.get_submodule(str(node.target)))
        return f"{kind.__module__}.{kind.__qualname__}"

    def _higher_order(self, node: fx.Node, target: HigherOrderOperator) -> Any:
        args, kwargs = self.fetch_args_kwargs_from_env(node)
        body, first = _INLINE.get(str(target), (0, 0))
        if first and isinstance(args[body], fx.GraphModule):
            with torch.autocast(*args[:body]) if str(target) == "wrap_with_autocast" else nullcontext():
                return self._body(args[body], node, self._graph).run(*args[first:])
        if "val" not in node.meta:
            raise SourceError(f"node '{node.name}' ({target}): the sizes of its outputs are not known")
        result = self._fresh(node.meta["val"])
        bodies = [leaf for leaf in pytree.tree_leaves([args, kwargs]) if isinstance(leaf, fx.GraphModule)]
        runs = [self._body_run(body, node) for body in bodies]
        operands, outputs = list(flat_tensors([args, kwargs])), list(flat_tensors(result))
        writes = not outputs or any(run.writes for run in runs)  # which ones it writes to is not known
        workspace = max((run.peak for run in runs), default=0)
        drawn = {generator: None for run in runs for generator in run.drawn}
        changed = operands if writes else ()
        flops = flops_of(target, args, kwargs, result)
        if flops is None:  # the body that takes most; how often a loop runs is not known
            flops = max((run.flops for run in runs if run.flops is not None), default=None)
        self._graph.op(self._name(node), str(target), operands, outputs, changed, workspace, drawn=drawn, flops=flops)
        self._graph.called(target, (args, kwargs), result, changed)
        return result

    def _body(self, body: fx.GraphModule, node: fx.Node, graph: GraphRecorder) -> GraphRun:
        """A run of a graph that a node holds, under the node's name."""
        return GraphRun(body, graph, self._fakes, self._symbols, f"{self._name(node)}.", self._double)

    def _name(self, node: fx.Node) -> str:
        return scoped_name(node, self._prefix)

    def _fresh(self, value: Any) -> Any:
        """New tensors of the sizes of `value`, each with a storage of its own."""

        def new(tensor: Tensor, path: str) -> Tensor:
            sizes, strides = ([self._symbols(n) for n in ns] for ns in (tensor.shape, tensor.stride()))
            return torch.empty_strided(sizes, strides, dtype=tensor.dtype, device=tensor.device)

        return map_tensors(value, new, "")

    def _body_run(self, body: fx.GraphModule, node: fx.Node) -> _BodyRun:
        """One run of a body by itself."""
        inner = GraphRecorder()
        values = {p.name: meta_value(p, self._symbols) for p in placeholders(body)}
        operands = declared(values, self._fakes, inner)
        result = self._body(body, node, inner).run(*operands)
        peak = peak_of(inner.graph(list(flat_tensors(result)), optional=False))
        writes = any(inner.mutated(tensor) for tensor in flat_tensors(operands))
        return _BodyRun(peak, writes, inner.drawn, inner.flops())


def method(name: str, tensor: Any, *args: Any, **kwargs: Any) -> Any:
    return getattr(tensor, name)(*args, **kwargs)


def under_autocast(device: str, dtype: torch.dtype, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    with torch.autocast(device, dtype):
        return function(*args, **kwargs)


def _loops_of(node: fx.Node, call: Call, result: Any, inside: Sequence[Sequence[Loop]]) -> Sequence[Loop]:
    """Along what a node may be split: as its operator may, or as the only one `inside` may."""
    found = loops_of(node.target, *call, result) if isinstance(node.target, OpOverload) else []
    return found or (inside[0] if len(inside) == 1 else ())


class _BodyRun(NamedTuple):
    """What a body needs and does: bytes for what it makes, its results among them."""

    peak: int
    writes: bool  # to what it is given
    drawn: Collection[Hashable]  # the generators that it draws from
    flops: float | None


def _inner_peak(graph: GraphRecorder, outside: list[Tensor]) -> int:
    """Bytes that the ops of `graph` need for what they make, save the storages of `outside`."""
    return peak_of(graph.graph((), free=outside, optional=False)) if graph.inner_bytes(outside) else 0


def import_graph(
    module: fx.GraphModule,
    values: list[Any],
    symbols: Symbols,
    inplace_ops: Collection[str] = (),
    listener: Listener | None = None,
) -> dict[str, Any]:
    """The graph dict of an fx.GraphModule, with a value per placeholder: tensors of any kind, whose sizes count.

    SourceError names a node that depends on data, has no fake implementation or fails.
    """
    graph = GraphRecorder(inplace_ops, listener)
    state = weights_of(module)
    fakes = Fakes([*state.values(), *(t for _, t in tensors_in(values))], symbols)
    weights = {name: fakes(tensor, f"weight '{name}'") for name, tensor in state.items()}
    names = [node.name for node in placeholders(module)]
    operands = declared(dict(zip(names, values, strict=True)), fakes, graph)
    double = Double(module, weights, state)
    assert isinstance(double.module, fx.GraphModule)
    run = GraphRun(double.module, graph, fakes, symbols, double=double)
    with fakes.running(), torch.no_grad(), double.sharing():
        result = run.run(*operands, enable_io_processing=False)
    if listener is not None:
        listener.inputs(lambda args, kwargs: dict(zip(names, given_values(module, args, kwargs), strict=True)))
        listener.returned(module.graph.process_outputs(result), ())
    return graph.graph([tensor for _, tensor in tensors_in(result)])


def import_program(
    program: torch.export.ExportedProgram,
    values: list[Any],
    symbols: Symbols,
    inplace_ops: Collection[str] = (),
    listener: Listener | None = None,
) -> dict[str, Any]:
    """The graph dict of an exported program, inference only, with a value per user input; see `import_graph`.

    Its parameters, buffers and constants become weights under their names in the module.
    """
    graph = GraphRecorder(inplace_ops, listener)
    held = {**program.constants, **program.state_dict}
    fakes = Fakes([t for _, t in tensors_in([held, values])], symbols)
    given = iter(values)
    operands: list[Any] = []
    specs = program.graph_signature.input_specs
    for spec, node in zip(specs, placeholders(program.graph_module), strict=True):
        if spec.kind is InputKind.USER_INPUT:
            operands += declared({node.name: next(given)}, fakes, graph)
        else:
            value = held.get(spec.target or "", node.meta.get("val"))
            operands += declared({spec.target or node.name: value}, fakes, graph, "weight")
    with fakes.running(), torch.no_grad():
        result = GraphRun(program.graph_module, graph, fakes, symbols).run(*operands)
    if listener is not None:
        _tell(listener, program, operands, result)
    return graph.graph([tensor for _, tensor in tensors_in(result)])


def _tell(
    listener: Listener, program: torch.export.ExportedProgram, operands: list[Any], result: Sequence[Any]
) -> None:
    """Tell what an exported program takes, what it returns, and what it writes to as it ends."""
    names = [node.name for node in user_inputs(program)]
    listener.inputs(lambda args, kwargs: dict(zip(names, given_program_values(program, args, kwargs), strict=True)))
    signature = program.graph_signature
    sources = {
        spec.target or node.name: operand
        for spec, node, operand in zip(signature.input_specs, placeholders(program.graph_module), operands, strict=True)
    }
    returned, updates = [], []
    for spec, value in zip(signature.output_specs, result, strict=True):
        if spec.kind is OutputKind.USER_OUTPUT:
            returned.append(value)
        elif spec.kind in (OutputKind.BUFFER_MUTATION, OutputKind.USER_INPUT_MUTATION):
            updates.append((sources[spec.target or ""], value))
    listener.returned(pytree.tree_unflatten(returned, program.call_spec.out_spec), updates)


@contextmanager
def _explained(node: fx.Node) -> Iterator[None]:
    """Turn what goes wrong in a node into a SourceError that names it."""
    try:
        yield
    except SourceError as error:
        raise SourceError(f"node '{node.name}': {error}{place_of_node(node)}{ways_out(error)}") from error
    except Exception as error:
        raise SourceError(
            f"node '{node.name}' ({node.target}): {explain(error)}{place_of_node(node)}{ways_out(error)}"
        ) from error


def note_mode(module: fx.GraphModule, train: bool) -> None:
    """Say so if all operators that ask for the mode were given another one than is planned for."""
    found = dict[str, bool]()
    for name, trains in _asked(module):
        found[name] = trains
        if trains is train:
            return
    if found:
        mode, other = ("eval", "train") if train else ("train", "eval")
        steps = ("inference", "training") if train else ("training", "inference")
        kinds = sorted(found, key=lambda name: "norm" in name)
        what = f"{', '.join(kinds[:-1])} and {kinds[-1]}" if len(kinds) > 1 else kinds[0]
        runs = "run" if len(kinds) > 1 else "runs"
        notes.say(
            f"exported in {mode} mode: {what} {runs} as in {steps[0]}, and so does all else that asks for the mode; "
            f"for {steps[1]}, which may need other bytes, export the model after model.{other}()"
        )


def _asked(module: fx.GraphModule) -> Iterator[tuple[str, bool]]:
    """Operators that ask whether a model trains, by name, and what they were told."""
    graphs = [part for part in module.modules() if isinstance(part, fx.GraphModule)]
    for node in (node for part in graphs for node in part.graph.nodes):
        if not isinstance(node.target, OpOverload):
            continue
        schema = schema_of(node.target)
        name = str(schema.name).rpartition("::")[2]
        if name.endswith("_no_training"):
            yield "batch_norm", False
        for position, argument in enumerate(schema.arguments):
            if argument.name in _FLAGS:
                given = node.args[position] if position < len(node.args) else node.kwargs.get(argument.name)
                yield name, bool(given)
