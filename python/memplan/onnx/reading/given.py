"""What a caller says of the inputs of a model, besides sizes by name: examples, and values that sizes depend on."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import onnx.numpy_helper
from onnx import ModelProto, TensorProto, ValueInfoProto
from onnx.helper import tensor_dtype_to_np_dtype

from ...errors import SourceError
from ...importers.notes import say
from ...text import offer
from .bodies import lend_constants
from .payload import KEPT_ELEMENTS
from .shapes import Inferred, infer
from .symbols import Shape


class Given(NamedTuple):
    """What was given for the inputs of a model, by their names.

    `values` hold. `examples` are small numbers of example arguments: they hold only where sizes depend on them.
    """

    shapes: Sequence[tuple[str, Shape]]
    values: Mapping[str, TensorProto]
    examples: Mapping[str, TensorProto]


def given_for(
    model: ModelProto, args: Sequence[Any] | Mapping[str, Any], kwargs: Mapping[str, Any], values: Mapping[str, Any]
) -> Given:
    """What example arguments, in the model's order or by name, and values by name say.

    TypeError: no such input, one that is given twice, or something that is no array. SourceError: too large a value.
    """
    inputs = {value.name: value for value in model.graph.input}
    shapes, found, examples = list[tuple[str, Shape]](), dict[str, TensorProto](), dict[str, TensorProto]()
    for name, value in _by_name(args, kwargs, list(inputs)).items():
        if isinstance(value, (int, float)):
            value = np.full([1] * len(inputs[name].type.tensor_type.shape.dim), value)
        shapes.append((name, Shape(_shape_of(name, value), f"the example for {name!r}")))
        if (number := _small_integers(value, inputs[name])) is not None:
            examples[name] = number
    for name, value in values.items():
        if name not in inputs:
            raise TypeError(f"values names no input of the model: {name!r}; {offer(name, list(inputs), 'inputs')}")
        found[name] = _tensor(value, inputs[name])
        shapes.append((name, Shape(list(found[name].dims), f"values[{name!r}]")))
    return Given(shapes, found, {name: number for name, number in examples.items() if name not in found})


def inferred(model: ModelProto, given: Given, sizes: Mapping[str, int]) -> tuple[Inferred, Mapping[str, TensorProto]]:
    """The shapes of a model with what was given for it, and the values of inputs that they hold for.

    `sizes` are those of its symbolic dimensions. Values of examples hold only where sizes are not known without.
    """
    held = dict(given.values)
    found = infer(_with_values(model, held), sizes)
    if not found.is_complete and given.examples:
        held |= given.examples
        found = infer(_with_values(model, held), sizes)
        for name in given.examples if found.is_complete else ():
            fewer = {one: value for one, value in held.items() if one != name}
            without = infer(_with_values(model, fewer), sizes)
            if without.is_complete:
                found, held = without, fewer
    if held:
        say(f"the plan holds for these inputs alone: {', '.join(f'{name} = {text_of(v)}' for name, v in held.items())}")
    return found, held


def _with_values(model: ModelProto, values: Mapping[str, TensorProto]) -> ModelProto:
    """A copy of a model that knows the values of some inputs."""
    copy = ModelProto()
    copy.CopyFrom(model)
    copy.graph.initializer.extend(values.values())
    lend_constants(copy.graph, ChainMap())
    return copy


def text_of(tensor: TensorProto) -> str:
    """A value as people write it; of many numbers the first."""
    numbers = onnx.numpy_helper.to_array(tensor)
    if numbers.size == 1:
        return str(numbers.item())
    first = ", ".join(map(str, numbers.ravel()[:8].tolist()))
    return f"[{first}{', ...' if numbers.size > 8 else ''}]"


def _by_name(
    args: Sequence[Any] | Mapping[str, Any], kwargs: Mapping[str, Any], names: Sequence[str]
) -> dict[str, Any]:
    """Examples by name; None stands for none."""
    if isinstance(args, (tuple, list)) and len(args) == 1 and isinstance(args[0], Mapping):
        args = args[0]
    if not isinstance(args, (tuple, list, Mapping)):
        raise TypeError(
            "args must be a tuple of examples in the order of the inputs, args=(x,), or a dict from their names, "
            f"got {type(args).__name__}"
        )
    if not isinstance(args, Mapping) and len(args) > len(names):
        raise TypeError(f"args has {len(args)} examples, the model takes {len(names)}; {offer('', names, 'inputs')}")
    found = dict(args) if isinstance(args, Mapping) else dict(zip(names, args, strict=False))
    for name, value in kwargs.items():
        if name in found:
            raise TypeError(f"the example for {name!r} is given twice, in args and in kwargs")
        found[name] = value
    for name in found:
        if name not in names:
            raise TypeError(f"the model has no input {name!r}; {offer(str(name), names, 'inputs')}")
    return {name: value for name, value in found.items() if value is not None}


def _shape_of(name: str, value: Any) -> list[int]:
    """The shape of an array or tensor, or of numbers in lists."""
    try:
        return [int(size) for size in (value.shape if hasattr(value, "shape") else np.shape(value))]
    except (TypeError, ValueError):
        raise TypeError(f"the example for {name!r} must be an array, got {type(value).__name__}") from None


def _small_integers(value: Any, given: ValueInfoProto) -> TensorProto | None:
    """The value of an example that sizes may depend on; None if it has others than a few integers."""
    try:
        array = np.asarray(value)
    except Exception:  # a tensor without bytes, or of another device: its libraries' errors share no type
        return None
    dtype = _dtype_of(given)
    if array.size > KEPT_ELEMENTS or array.dtype.kind not in "biu" or dtype is None or dtype.kind not in "biu":
        return None
    return onnx.numpy_helper.from_array(array.astype(dtype), given.name)


def _tensor(value: Any, given: ValueInfoProto) -> TensorProto:
    """A value of the dtype of an input. A number alone stands for one of any rank."""
    what, dtype = f"values[{given.name!r}]", _dtype_of(given)
    if dtype is None:
        raise TypeError(f"{what}: the input is no tensor of numbers")
    try:
        array = np.asarray(value)
        cast = array.astype(dtype) if array.dtype.kind in "biuf" else None
    except Exception:  # numpy's and torch's complaints share no type
        array, cast = np.empty(0), None
    if cast is None or not np.array_equal(cast, array):
        raise TypeError(f"{what} must be {dtype}, a number or an array of numbers, got {value!r}")
    if cast.size > KEPT_ELEMENTS:
        raise SourceError(f"{what} has {cast.size} elements, values may have {KEPT_ELEMENTS}")
    rank = len(given.type.tensor_type.shape.dim)
    return onnx.numpy_helper.from_array(cast if cast.ndim else cast.reshape([1] * rank), given.name)


def _dtype_of(given: ValueInfoProto) -> np.dtype[Any] | None:
    """The dtype of an input whose values numpy knows: numbers and booleans."""
    number = given.type.tensor_type.elem_type
    if number not in TensorProto.DataType.values() or number in (TensorProto.UNDEFINED, TensorProto.STRING):
        return None
    dtype = np.dtype(tensor_dtype_to_np_dtype(number))
    return dtype if dtype.kind in "biuf" else None
