"""What a proof was written as in JSON, back as what it was."""

from __future__ import annotations

from functools import cache
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from ..errors import SourceError

_EXPECTED = {int: "an integer", bool: "true or false", str: "a name"}
_hints = cache(get_type_hints)


def read_as(kind: Any, value: Any, where: str) -> Any:
    """A value of JSON as what a type says: a number, a name, None, a tuple, or a record of such.

    SourceError names what is not as expected.
    """
    origin, inner = get_origin(kind), get_args(kind)
    if origin is UnionType:
        return None if value is None else read_as(next(one for one in inner if one is not NoneType), value, where)
    if origin is not None:  # a tuple of some kinds, or any number of one kind
        fixed = origin is tuple and inner[-1] is not ...
        if not isinstance(value, list) or (fixed and len(value) != len(inner)):
            raise _fault(where, f"a list of {len(inner)}" if fixed else "a list", value)
        kinds = inner if fixed else inner[:1] * len(value)
        return tuple(read_as(one, v, f"{where}[{k}]") for k, (one, v) in enumerate(zip(kinds, value, strict=True)))
    if kind not in _EXPECTED:
        fields = _hints(kind)
        if isinstance(value, list):
            if len(value) != len(fields):
                raise _fault(where, f"a list of {len(fields)}", value)
            value = dict(zip(fields, value, strict=True))
        if not isinstance(value, dict) or value.keys() != fields.keys():
            raise _fault(where, f"an object of {', '.join(fields)}", value)
        return kind(**{name: read_as(of, value[name], f"{where}.{name}") for name, of in fields.items()})
    if type(value) is not kind:
        raise _fault(where, _EXPECTED[kind], value)
    return value


def _fault(where: str, expected: str, got: Any) -> SourceError:
    return SourceError(f"{where} must be {expected}, got {got!r}")
