"""What a run is given: inputs by name or in order, and weights in place of the model's own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ... import _core
from ...text import offer
from .values import Array, described, numpy_dtype


def named_inputs(
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    names: Sequence[str],
    tensors: Mapping[str, _core.Tensor],
    planned: Mapping[str, Array],
) -> dict[str, Array]:
    """The inputs by name. Those that were `planned` for one value have it where they are not given.

    TypeError if one is missing, unknown, given twice, or of another dtype; ValueError if one is of another shape, or
    has another value than was planned.
    """
    given = _by_name(args, names)
    for name, value in kwargs.items():
        if name in given:
            raise TypeError(f"input {name!r} is given twice, by position and by name")
        given[name] = value
    for name in given:
        if name not in names:
            raise TypeError(f"the model has no input {name!r}; {offer(name, names, 'inputs')}")
    given = {**planned, **given}
    missing = [name for name in names if name not in given]
    if missing:
        raise TypeError(f"the run lacks the input {', '.join(map(repr, missing))}; {offer('', names, 'inputs')}")
    found = {name: _checked(value, tensors[name], f"input {name!r}") for name, value in given.items()}
    for name, value in planned.items():
        if not np.array_equal(found[name], value):
            raise ValueError(
                f"input {name!r} must be {value.tolist()}, for which alone the model was planned, got "
                f"{found[name].tolist()}; plan it for another value"
            )
    return found


def checked_weights(
    weights: Mapping[str, Any],
    own: Mapping[str, Array],
    tensors: Mapping[str, _core.Tensor],
    steering: Iterable[str],
) -> dict[str, Array]:
    """All weights by name: those given, and the model's own for the others.

    Raises
    ------
    TypeError, ValueError
        As for inputs. Also ValueError for another value of a small integer, which shapes depend on.
    """
    found = dict(own)
    for name, value in weights.items():
        if name not in own:
            raise TypeError(f"the model has no weight {name!r}; {offer(name, list(own), 'weights')}")
        found[name] = _checked(value, tensors[name], f"weight {name!r}")
        if name in steering and not np.array_equal(found[name], own[name]):
            raise ValueError(
                f"weight {name!r} is a constant that shapes and slices depend on, so it must stay "
                f"{own[name].tolist()}; plan a model that has another"
            )
    return found


def _by_name(args: Sequence[Any], names: Sequence[str]) -> dict[str, Any]:
    if len(args) == 1 and isinstance(args[0], Mapping):
        return dict(args[0])
    if len(args) > len(names):
        raise TypeError(f"the run takes {len(names)} inputs, got {len(args)}; {offer('', names, 'inputs')}")
    return dict(zip(names, args, strict=False))


def _checked(value: Any, tensor: _core.Tensor, what: str) -> Array:
    array, dtype = np.asarray(value), numpy_dtype(tensor.dtype)
    expected = f"{what} must be {dtype}{tensor.shape}, got {described(array)}"
    if array.dtype != dtype:
        raise TypeError(expected)
    if list(array.shape) != tensor.shape:
        raise ValueError(expected)
    return array
