"""A call of an operator, by its name; an operator that writes over its first argument goes by the name of the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from torch import Tensor

from ...private import OpOverload, schema_of
from ..loops import Call


class Called(Call):
    """A call of an operator of torch's own."""

    def __init__(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> None:
        super().__init__(func, args, kwargs, result)
        self.schema = schema_of(func)
        self.name = name_of(func)
        self.whole: Called | None = None  # of a piece, the call that it is a piece of

    def given(self, name: str) -> Tensor:
        """A tensor that every call of the operator has."""
        found = self.tensor(name)
        assert found is not None
        return found

    @property
    def made(self) -> Tensor:
        """The first tensor of the result."""
        return self.outputs[0]

    @property
    def writes_over(self) -> bool:
        """Whether the result is one of the operands."""
        return any(output is tensor for output in self.outputs for tensor in self.inputs)


@cache
def name_of(func: Any) -> str:
    """The name of an operator of torch's own, without its overload; "" if it is another's."""
    if not isinstance(func, OpOverload):
        return ""
    space, _, name = str(schema_of(func).name).partition("::")
    if space != "aten":
        return ""
    return name if name.startswith("__") else name.removesuffix("_")
