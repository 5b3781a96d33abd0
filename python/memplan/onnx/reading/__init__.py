"""Import ONNX models as graph dicts."""

from __future__ import annotations

import operator
import os
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ...errors import MissingDependencyError, SourceError

if TYPE_CHECKING:
    import onnx

    from .payload import Payload


class Imported(NamedTuple):
    """A model as the importer has seen it.

    The nodes of `model` are the ops of `graph`, in their order. A tensor of the graph may have a longer name than the
    output of the node. `payload` has what the tensors of `model` lack. By the values of the constants and inputs
    `deciding`, branches were taken. `values` are those of inputs for which the graph is as it is. The model
    `is_rewritten` if nodes of the source stand for several, as calls of functions and branches do.
    """

    graph: dict[str, Any]
    model: onnx.ModelProto
    payload: Payload
    deciding: frozenset[str]
    values: Mapping[str, onnx.TensorProto]
    is_rewritten: bool


def import_onnx(
    source: str | os.PathLike[str] | onnx.ModelProto,
    *,
    args: Sequence[Any] | Mapping[str, Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    dims: Mapping[str, int] | None = None,
    values: Mapping[str, Any] | None = None,
    inplace_ops: Collection[str] = (),
) -> dict[str, Any]:
    """Turn an ONNX model, a file or in memory, into a graph dict; options are those of `memplan.capture`.

    Shapes come from onnx's own shape inference, and from ONNX Runtime for its own operators, which a file has that it
    has optimised. No payload is needed; of external data, small constants are read, which sizes may depend on.
    Model-local functions are inlined. Graph inputs are of kind `input`; initializers (sparse ones at their
    dense size) and Constants are `weight`; what nodes write is `intermediate`. Identity, Reshape, Squeeze,
    Unsqueeze and Flatten are aliases. What other nodes may share with their inputs is optional: outputs written
    over inputs (see `inplace_ops`), and the bytes of Concat, Split, Slice, a Gather of one element, and of
    nodes that change nothing, where parts are runs of bytes of the whole. `loops` say along which axes a node may be
    split. Names begin with the path of the module
    where torch's exporter has noted it (see `scopes`).

    If, Loop and Scan read, besides their inputs, the outer values that their bodies capture, and have a
    workspace: the peak of a plan of the body by itself (of the larger branch of an If). A state that a Loop
    carries has the same shape in every iteration; what a Loop collects is as long as its trip count, if that
    is constant.

    An If whose condition follows from sizes and constants is not there: the nodes of the branch that it takes stand in
    its place, and the other is not read.

    Any dimension of an input is called `input[axis]` in `dims`; one that has neither value nor name, alone. The shapes
    of `args` and `values` are sizes too. `values` of inputs hold; those of small integers in `args` hold where sizes
    depend on them.

    SourceError: the file is no ONNX model; a symbolic dimension of an input has no value; `dims` names one that does
    not exist or gives a negative value; two sizes are said of one dimension; or a tensor has no known or no fixed size
    (the message names the tensor). TypeError: `args` or `values` that no input takes.
    """
    options: dict[str, Any] = {
        "args": args,
        "kwargs": kwargs,
        "dims": dims,
        "values": values,
        "inplace_ops": inplace_ops,
    }
    return imported(source, **options).graph


def imported(
    source: str | os.PathLike[str] | onnx.ModelProto,
    *,
    args: Sequence[Any] | Mapping[str, Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    dims: Mapping[str, int] | None = None,
    values: Mapping[str, Any] | None = None,
    inplace_ops: Collection[str] = (),
) -> Imported:
    """As `import_onnx`, with the model that the graph dict was made from."""
    try:
        import onnx  # noqa: F401
    except ImportError as error:
        raise MissingDependencyError("reading ONNX models needs onnx: pip install memplan[onnx]") from error
    from . import bodies, functions, given, graph, loops, payload, relations, scopes, symbols

    sizes = _checked_dims({} if dims is None else dims)
    model = loaded(source)
    if not model.HasField("graph"):
        raise SourceError(f"{_title(source)}: expected an ONNX model, got one without a graph")
    if (field := payload.not_text(model)) is not None:
        raise SourceError(f"{_title(source)}: {field} must be UTF-8 text")
    kept = payload.Payload(folder_of(source))
    working = functions.inlined(kept.without(model))
    bodies.normalise(working, kept)
    said = given.given_for(working, args, kwargs or {}, values or {})
    bound = symbols.bind(working, sizes, said.shapes)
    found, held = given.inferred(working, said, bound.sizes)
    symbols.check_followed(found.model, bound)
    opset = next((opset.version for opset in found.model.opset_import if not opset.domain), 1)
    constants = {**bodies.small_constants(found.model.graph), **held}
    optional = relations.Relations(constants, opset, inplace_ops)
    of_loops = loops.Loops(constants, opset)
    written = graph.GraphWriter(found.model, found.model.graph, {}, optional, of_loops).write()
    named = scopes.with_scopes(written, found.model)
    rewritten = found.is_unfolded or bool(model.functions)
    return Imported(named, found.model, kept, frozenset(found.deciding), held, rewritten)


def folder_of(source: object) -> str | None:
    """The folder of a model's file, where its external data lie; None for a model in memory."""
    return os.path.dirname(os.path.abspath(source)) if isinstance(source, (str, os.PathLike)) else None


def _title(source: object) -> str:
    return f"{os.fspath(source)!r}" if isinstance(source, (str, os.PathLike)) else "the ModelProto"


def loaded(source: object) -> onnx.ModelProto:
    """A model, or that of a file without what is in other files."""
    import onnx

    if isinstance(source, onnx.ModelProto):
        return source
    if not isinstance(source, (str, os.PathLike)):
        kind = type(source).__name__
        raise TypeError(f"source must be a path or an onnx.ModelProto, got {kind}")
    try:
        return onnx.load(source, load_external_data=False)
    except FileNotFoundError:
        raise
    except Exception as error:  # the parsers of onnx's file formats share no exception type
        raise SourceError(f"{_title(source)} is not readable as an ONNX ModelProto: {error}") from error


def _checked_dims(dims: object) -> dict[str, int]:
    if not isinstance(dims, Mapping):
        raise TypeError(f"dims must be a mapping of symbol to int, got {type(dims).__name__}")
    return {str(name): _checked_dimension(name, value) for name, value in dims.items()}


def _checked_dimension(name: object, value: Any) -> int:
    expected = f"dims[{name!r}] must be an int >= 0 and < 2**63, got {value!r}"
    if isinstance(value, bool):
        raise TypeError(expected)
    try:
        dimension = operator.index(value)
    except TypeError:
        raise TypeError(expected) from None
    if not 0 <= dimension < 2**63:
        raise SourceError(expected)
    return dimension
