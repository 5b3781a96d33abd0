"""Which torch is installed; clear errors if there is none, or if it lacks a name that memplan needs."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

from ..errors import MissingDependencyError, UnsupportedError

TESTED = ("2.13", "2.14")


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


class Wall:
    """What a module takes of torch's private names, in groups. A group that torch lacks is kept as a reason."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._lacks: list[str] = []

    @contextmanager
    def needed_by(self, what: str) -> Iterator[None]:
        """Import names of a group, and do nothing else; `what` cannot work without them."""
        try:
            yield
        except (ImportError, AttributeError) as error:
            self._lacks.append(f"for {what} ({error})")

    def missing(self, name: str) -> Exception:
        """The error where a name of the module is asked for that it does not have."""
        if name.startswith("__") or not self._lacks:
            return AttributeError(f"module {self._module!r} has no attribute {name!r}")
        import torch

        why = ", ".join(self._lacks)
        return UnsupportedError(f"torch {torch.__version__} lacks private names of torch {TESTED[-1]}, needed {why}")


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
