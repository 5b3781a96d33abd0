"""Which versions of executorch were tried, a clear error where a name is not there, and what is private to torch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

from ..errors import MissingDependencyError, UnsupportedError

TESTED = ("1.5",)


@contextmanager
def names_of_executorch() -> Iterator[None]:
    """Raise MissingDependencyError without executorch, and UnsupportedError where an import of its names fails."""
    if find_spec("executorch") is None:
        raise MissingDependencyError("memplan.executorch needs executorch: pip install 'memplan[executorch]'")
    try:
        yield
    except ImportError as error:
        if (error.name or "").split(".")[0] != "executorch":
            raise
        raise UnsupportedError(
            f"memplan.executorch uses names of executorch {', '.join(TESTED)}; this is executorch {_installed()}: "
            f"{error}"
        ) from error


def _installed() -> str:
    try:
        return version("executorch")
    except PackageNotFoundError:
        return "of an unknown version"


def schema_of(operator: Any) -> Any:
    """The schema of an operator of torch; None for what is none."""
    return getattr(operator, "_schema", None)


def is_control_flow(operator: Any) -> bool:
    """Whether an operator calls graphs, such as `torch.cond`."""
    from torch._ops import HigherOrderOperator

    return isinstance(operator, HigherOrderOperator)
