"""Import ONNX models as graph dicts."""

from __future__ import annotations

import operator
import os
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ...errors import MissingDependencyError, SourceError

if TYPE_CHECKING:
    import onnx

    from .payload import Payload


class Imported(NamedTuple):
    """A model as the importer has seen it.

    The nodes of `model` are the ops of `graph`, in their order. A tensor of the graph may have a longer name than the
    output of the node. `payload` has what the tensors of `model` lack.
    """

    graph: dict[str, Any]
    model: onnx.ModelProto
    payload: Payload


def import_onnx(
    source: str | os.PathLike[str] | onnx.ModelProto,
    *,
    dims: Mapping[str, int] | None = None,
    inplace_ops: Collection[str] = (),
) -> dict[str, Any]:
    """Turn an ONNX model, a file or in memory, into a graph dict; options are those of `memplan.capture`.

    Shapes come from onnx's own shape inference, and from ONNX Runtime for its own operators, which a file has that it
    has optimised. No payload is needed, and external data stays unread.
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

    A dimension of an input that has neither value nor name is called `input[axis]` in `dims`.

    SourceError: the file is no ONNX model; a symbolic dimension of an input has no value, or `dims` names one that does
    not exist or gives a negative value; or a tensor has no known or no fixed size (the message names the tensor).
    """
    return imported(source, dims=dims, inplace_ops=inplace_ops).graph


def imported(
    source: str | os.PathLike[str] | onnx.ModelProto,
    *,
    dims: Mapping[str, int] | None = None,
    inplace_ops: Collection[str] = (),
) -> Imported:
    """As `import_onnx`, with the model that the graph dict was made from."""
    try:
        import onnx  # noqa: F401
    except ImportError as error:
        raise MissingDependencyError("reading ONNX models needs onnx: pip install memplan[onnx]") from error
    from . import bodies, functions, graph, loops, payload, relations, schemas, scopes, shapes, symbols

    values = _checked_dims({} if dims is None else dims)
    model = loaded(source)
    if not model.HasField("graph"):
        raise SourceError(f"{_title(source)}: expected an ONNX model, got one without a graph")
    if (field := payload.not_text(model)) is not None:
        raise SourceError(f"{_title(source)}: {field} must be UTF-8 text")
    kept = payload.Payload()
    working = functions.inlined(kept.without(model))
    bodies.normalise(working, kept)
    schemas.check_nodes(working)
    symbols.bind(working, values)
    working = shapes.infer(working)
    opset = next((opset.version for opset in working.opset_import if not opset.domain), 1)
    constants = bodies.small_constants(working.graph)
    optional = relations.Relations(constants, opset, inplace_ops)
    written = graph.GraphWriter(working, working.graph, {}, optional, loops.Loops(constants, opset)).write()
    return Imported(scopes.with_scopes(written, working), working, kept)


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
