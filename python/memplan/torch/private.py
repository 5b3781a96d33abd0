"""What is private to torch: read here and there, as it is in the versions that memplan was tested with.

Public names do not say which bytes a view shows, which module an operator belongs to, or what a compiler schedules.
Private ones do, and any release of torch may change them. What runs inside a model's forward imports them at the top of
its file: missing there, they would look like the model's own mistake.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

from ..errors import MissingDependencyError, UnsupportedError

TESTED = ("2.13",)


def require_torch(what: str) -> None:
    """Raise MissingDependencyError where torch is not installed; `what` needs it."""
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise MissingDependencyError(f"{what} needs torch: pip install 'memplan[torch]'") from error


def require_tested(what: str) -> None:
    """Raise UnsupportedError on a version of torch that memplan was not tested with."""
    import torch

    if ".".join(torch.__version__.split(".")[:2]) not in TESTED:
        raise UnsupportedError(_message(what))


@contextmanager
def names_of_torch(what: str) -> Iterator[None]:
    """Raise UnsupportedError, with the version of torch, where a name that torch lacks is imported or read."""
    try:
        yield
    except (ImportError, AttributeError) as error:
        if not _of_torch(error):
            raise
        raise UnsupportedError(f"{_message(what)}: {error}") from error


def _of_torch(error: ImportError | AttributeError) -> bool:
    if isinstance(error, ImportError):
        return (error.name or "").split(".")[0] == "torch"
    return isinstance(error.obj, ModuleType) and error.obj.__name__.split(".")[0] == "torch"


def _message(what: str) -> str:
    import torch

    tested = ", ".join(TESTED)
    return f"{what} reads what is private to torch, as it is in torch {tested}; this is torch {torch.__version__}"


@contextmanager
def silenced(name: str) -> Iterator[None]:
    """Keep torch's reports of failures in the logger of that name off stderr, where memplan's errors say the same."""
    log = logging.getLogger(name)
    disabled, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = disabled
