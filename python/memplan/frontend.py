"""A *wing* is the part of memplan for one framework, such as torch.

Its record lists the sources that it accepts, how it reads them, and how their plans run. The rest of memplan knows a
wing only by this record, and finds it by entry points of the group "memplan.wings". A package declares its wing in
pyproject.toml, by the wing's name and module:

    [project.entry-points."memplan.wings"]
    toy = "memplan_toy"

The module has `WING`, a `Wing`. memplan imports the module when a source might belong to this wing, or when
`memplan.toy` is asked for. So importing the module must not import the framework.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points
from types import ModuleType
from typing import Any

GROUP = "memplan.wings"
FOLDER = "/"  # among the suffixes of a form: folders


@dataclass(frozen=True, eq=False)
class Form:
    """One form in which a network comes, such as a file, or an object in memory.

    Attributes
    ----------
    name : str
        How messages call it, such as "onnx" or ".onnx".
    read : callable
        Takes the source and a `Reading`, and returns a `Graph`, a `Problem` or a graph dict. It raises SourceError if
        it cannot read the source, and gives notes by `importers.notes.say`.
    options : frozenset of str
        The options of `Reading` that `read` uses. Others are refused.
    suffixes : tuple of str
        The suffixes of its files, in lower case, with their dots; `FOLDER` if it may be a folder of files.
    accepts : callable or None
        Whether an object, or the path of a folder, is such a source; None for files. It must not import the framework.
        If the framework is not imported yet, no object can belong to it, so return False.
    opened : callable or None
        Takes a path, and returns an object to plan. Its `report(result)` is printed after the plan. None if the file
        has no report of its own.
    what_if : callable or None
        Takes a path, and ``capacity=``, ``device=`` and ``settings=``. Returns what an allocator would have reserved
        with other settings, which prints itself and has `plot`. None if the file is no record of an allocator.
    explained : callable or None
        Takes a path and ``device=``. Returns what `memplan explain` prints of the file instead of a plan's explanation.
        It has `to_html` and `to_json`. None if plans of it are explained.
    compared : callable or None
        Takes paths of two files or more, and returns what `memplan compare` and `memplan diff` print of them instead of
        plans. It has `to_html`, `to_json` and `save_picture`. None if plans of them are compared.
    program : callable or None
        Takes a `Source`, and returns the `Program` that runs plans of it; None if plans of it do not run.
    engines : tuple of str
        The engines that can compute its ops, the default one first; see `Plan.run`.
    """

    name: str
    read: Callable[[Any, Any], Any]
    options: frozenset[str] = frozenset()
    suffixes: tuple[str, ...] = ()
    accepts: Callable[[Any], bool] | None = None
    opened: Callable[[str], Any] | None = None
    what_if: Callable[..., Any] | None = None
    explained: Callable[..., Any] | None = None
    compared: Callable[[Sequence[str]], Any] | None = None
    program: Callable[[Any], Any] | None = None
    engines: tuple[str, ...] = ()

    def __deepcopy__(self, _: Any) -> Form:
        return self  # a copy of a plan is of a source in the same form


@dataclass(frozen=True, eq=False)
class Steps:
    """How to run steps without data, so that `memplan.estimate` can say how many bytes they hold.

    Attributes
    ----------
    accepts : callable
        Whether a step of an object can run without data. It must not import the framework.
    estimate : callable
        Takes (source, args, kwargs, train=, optimizer=, autocast=, loss=, device=), and returns an `Estimate`.
    sized : callable
        Takes (source, args, kwargs, axes), and returns an object with three members: `now`, the current size along
        `axes`; ``of(size)``, arguments of another size; and ``explained(needs)``, the function `needs` (bytes for a
        size) with errors that also say which other axes may have to grow.
    object : str
        How messages call such a source, such as "a torch.nn.Module".
    """

    accepts: Callable[[Any], bool]
    estimate: Callable[..., Any]
    sized: Callable[..., Any]
    object: str


@dataclass(frozen=True, eq=False)
class Door:
    """A function of a wing that users call, and how to find out whether it works with the installed packages.

    Attributes
    ----------
    name : str
        Its name for users, such as "plan.run".
    needs : callable
        Imports all that the door needs. If something is missing, it raises an error that names it.
    example : callable or None
        Uses the door once, on a small network, and raises an error if the result is wrong.
    """

    name: str
    needs: Callable[[], None]
    example: Callable[[], None] | None = None


@dataclass(frozen=True, eq=False)
class Wing:
    """The record of a wing.

    Attributes
    ----------
    forms : tuple of Form
        The forms of sources that it reads. The first form that accepts an object reads it.
    objects : tuple of str
        The objects that it accepts, as messages list them, such as "torch.nn.Module".
    members : mapping of str to callable
        Functions behind those methods of `Plan` that need this wing, by method name. Each takes the plan first.
    steps : Steps or None
        How to run its steps without data; None if it cannot.
    doors : tuple of Door
        The functions that users call, for `memplan doctor`.
    has_op : callable or None
        Whether the framework has ops of this type name, which users may list in `inplace_ops`. False if the framework
        is not installed.
    packages : tuple of str
        The packages whose versions `memplan doctor` shows, by their names for pip.
    """

    forms: tuple[Form, ...] = ()
    objects: tuple[str, ...] = ()
    members: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    steps: Steps | None = None
    doors: tuple[Door, ...] = ()
    has_op: Callable[[str], bool] | None = None
    packages: tuple[str, ...] = ()


def names() -> list[str]:
    """Names of the wings of all installed packages."""
    return sorted({point.name for point in entry_points(group=GROUP)})


@cache
def package(name: str) -> ModuleType | None:
    """The module of a wing; None if no installed package has a wing of that name."""
    point = next(iter(entry_points(group=GROUP, name=name)), None)
    if point is None:
        return None
    module = point.load()
    if not isinstance(module, ModuleType) or not isinstance(getattr(module, "WING", None), Wing):
        raise TypeError(f"wing {name!r}, {point.value}, must be a module with WING, a memplan.frontend.Wing")
    return module


@cache
def wings() -> tuple[Wing, ...]:
    """All usable wings. For each other wing, a warning says why it cannot be used."""
    found: list[Wing] = []
    for name in names():
        try:
            module = package(name)
        except Exception as error:
            warnings.warn(
                f"wing {name!r} cannot be used: {type(error).__name__}: {error}", RuntimeWarning, stacklevel=2
            )
            continue
        assert module is not None
        found.append(module.WING)
    return tuple(found)


def forms() -> Iterator[Form]:
    """The forms of sources that all wings read."""
    for wing in wings():
        yield from wing.forms


def member(name: str) -> Callable[..., Any]:
    """The function of a wing behind a method of `Plan`; TypeError if no installed wing has it."""
    for wing in wings():
        if name in wing.members:
            return wing.members[name]
    raise TypeError(f"no wing that is installed has {name}")


def steps_of(source: Any) -> Steps | None:
    """How to run a step of an object without data; None if no wing can."""
    return next((wing.steps for wing in wings() if wing.steps is not None and wing.steps.accepts(source)), None)


def stepped() -> str:
    """The sources whose steps run without data, as messages list them."""
    return " or ".join(wing.steps.object for wing in wings() if wing.steps is not None) or "no installed framework"
