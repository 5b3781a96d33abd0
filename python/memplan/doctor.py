"""Which doors of the wings work with what is installed, and why others do not."""

from __future__ import annotations

import sys
import traceback
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from . import frontend
from .printing.tables import Table, text
from .text import one_line


@dataclass(frozen=True)
class Checked:
    """A door of a wing, and whether it works.

    Attributes
    ----------
    wing, door : str
        The wing, such as "torch", and what people call, such as "plan.run".
    tried : bool
        Whether it was tried on a small example; else only what it imports was.
    why : str
        Why it does not work, in one line; empty if nothing is in the way.
    """

    wing: str
    door: str
    tried: bool
    why: str = ""

    @property
    def state(self) -> str:
        """In one word: works, ready (all that it needs is there), or fails."""
        return "fails" if self.why else "works" if self.tried else "ready"


@dataclass(frozen=True)
class Checkup:
    """Doors that were looked at. As text, a table of them.

    Attributes
    ----------
    doors : tuple of Checked
        In the order of the wings, and of each wing's own list.
    versions : tuple of str
        Of Python, and of the packages that the wings use, such as "torch 2.13.0"; "no torch" where one is missing.
    """

    doors: tuple[Checked, ...]
    versions: tuple[str, ...]

    def __str__(self) -> str:
        rows = tuple((one.wing, one.door, one.state, one.why) for one in self.doors)
        notes = (", ".join(self.versions), "ready: all that it needs is there; works: it was tried on a small network")
        return text(Table("", ("wing", "door", "", "why"), rows, notes=notes, most={"door": None, "": None}))

    __repr__ = __str__


def doctor(*wings: str, run: bool = False) -> Checkup:
    """Look at the doors of wings, by default of all that are installed.

    Parameters
    ----------
    wings
        Names of wings, such as "torch".
    run
        Try each door on a small example, which may take a minute. By default, a door only imports all that it needs.

    Returns
    -------
    Checkup
        Printed, it is a table.

    Raises
    ------
    ValueError
        No installed package brings a wing of that name.
    """
    known = frontend.names()
    if unknown := set(wings) - set(known):
        raise ValueError(f"no wing {', '.join(map(repr, sorted(unknown)))} is installed, there are {', '.join(known)}")
    doors: list[Checked] = []
    packages: dict[str, None] = {}
    for name in wings or known:
        try:
            module = frontend.package(name)
            assert module is not None
        except Exception as error:
            doors.append(Checked(name, "its import", False, _said(error)))
            continue
        packages.update(dict.fromkeys(module.WING.packages))
        doors += (_checked(name, door, run) for door in module.WING.doors)
    return Checkup(tuple(doors), tuple(_versions(packages)))


def _checked(wing: str, door: frontend.Door, run: bool) -> Checked:
    if run and door.example is not None:
        return Checked(wing, door.name, True, _tried(door.example))
    return Checked(wing, door.name, False, _tried(door.needs))


def _tried(door: Callable[[], None]) -> str:
    """Why a door fails; empty if it does not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            door()
        except Exception as error:
            return _said(error)
    return ""


def _said(error: Exception) -> str:
    """An error in one line; one without words by the line that raised it."""
    if isinstance(error, AssertionError) and not str(error):
        line = traceback.extract_tb(error.__traceback__)[-1].line
        return f"its example differs: {line}"
    kind = "" if isinstance(error, (ValueError, ImportError)) else f"{type(error).__name__}: "
    return one_line(f"{kind}{error}")


def _versions(packages: Iterable[str]) -> Iterable[str]:
    yield f"Python {'.'.join(map(str, sys.version_info[:3]))}"
    for package in packages:
        try:
            yield f"{package} {version(package)}"
        except PackageNotFoundError:
            yield f"no {package}"
