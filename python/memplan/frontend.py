"""What a wing offers: the sources that the package of a framework takes, how it reads them, what runs their plans.

The front knows wings by this record alone. It finds them by entry points of the group "memplan.wings". In a package's
pyproject.toml, with the wing's name and its module:

    [project.entry-points."memplan.wings"]
    toy = "memplan_toy"

The module has `WING`, a `Wing`. It is imported when a source may be its own, or when `memplan.toy` is asked for. So it
must not import its framework by itself.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points
from types import ModuleType
from typing import Any

GROUP = "memplan.wings"


@dataclass(frozen=True, eq=False)
class Form:
    """One form in which a network comes, such as a file, or an object in memory.

    Attributes
    ----------
    name : str
        How messages call it, such as "onnx" or ".onnx".
    read : callable
        From the source and a `Reading` to a `Graph`, a `Problem` or a graph dict. It raises SourceError for what it
        cannot read, and tells notes by `importers.notes.say`.
    options : frozenset of str
        The options of `Reading` that it heeds. Others are refused.
    suffixes : tuple of str
        Of files, in lower case, with their dots.
    accepts : callable or None
        Whether an object is such a source; for files None. It must not import the framework: where that was not
        imported before, nothing can be of it.
    opened : callable or None
        From a path to an object that is read once, and has a text of its own to be shown.
    program : callable or None
        From a `Source` to the `Program` that runs plans of it; None if plans of it do not run.
    engines : tuple of str
        What may compute its ops, the usual one first; see `Plan.run`.
    """

    name: str
    read: Callable[[Any, Any], Any]
    options: frozenset[str] = frozenset()
    suffixes: tuple[str, ...] = ()
    accepts: Callable[[Any], bool] | None = None
    opened: Callable[[str], Any] | None = None
    program: Callable[[Any], Any] | None = None
    engines: tuple[str, ...] = ()

    def __deepcopy__(self, _: Any) -> Form:
        return self  # a copy of a plan is of a source in the same form


@dataclass(frozen=True, eq=False)
class Steps:
    """Steps that run without data, so that `memplan.estimate` can say what they hold.

    Attributes
    ----------
    accepts : callable
        Whether a step of an object can run so. It must not import the framework.
    estimate : callable
        From (source, args, kwargs, train=, optimizer=, autocast=, loss=, device=) to an `Estimate`.
    sized : callable
        From (source, args, kwargs, axes) to calls with other sizes: `now` is the size of the arguments along `axes`,
        ``of(size)`` has other arguments, and ``explained(needs)`` is a function from a size to its bytes, `needs`,
        whose errors say which other axes may have to grow.
    object : str
        How messages call such a source, such as "a torch.nn.Module".
    """

    accepts: Callable[[Any], bool]
    estimate: Callable[..., Any]
    sized: Callable[..., Any]
    object: str


@dataclass(frozen=True, eq=False)
class Door:
    """Something that people call in a wing, and how to find out whether it works with what is installed.

    Attributes
    ----------
    name : str
        As people call it, such as "plan.run".
    needs : callable
        Imports all that the door needs. It raises an error that says what is missing.
    example : callable or None
        Goes through the door once, on a small network, and raises an error if it does not do what it should.
    """

    name: str
    needs: Callable[[], None]
    example: Callable[[], None] | None = None


@dataclass(frozen=True, eq=False)
class Wing:
    """What the package of a framework offers.

    Attributes
    ----------
    forms : tuple of Form
        What it takes. The first that accepts an object reads it.
    objects : tuple of str
        The objects that it takes, as messages list them, such as "torch.nn.Module".
    members : mapping of str to callable
        What plans do by this wing, by the name of the method of `Plan`. Each takes the plan first.
    steps : Steps or None
        The objects of which a step can be estimated by running it without data.
    doors : tuple of Door
        What people call, for `memplan doctor`.
    has_op : callable or None
        Whether its framework has an op of a type, which `inplace_ops` may name. Where the framework is missing: False.
    packages : tuple of str
        The packages whose versions `memplan doctor` says, by the names that pip knows.
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
    """The module of a wing; None if no installed package brings one of that name."""
    point = next(iter(entry_points(group=GROUP, name=name)), None)
    if point is None:
        return None
    module = point.load()
    if not isinstance(module, ModuleType) or not isinstance(getattr(module, "WING", None), Wing):
        raise TypeError(f"wing {name!r}, {point.value}, must be a module with WING, a memplan.frontend.Wing")
    return module


@cache
def wings() -> tuple[Wing, ...]:
    """All wings that can be used; of others, a warning says why not."""
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
    """What all wings take."""
    for wing in wings():
        yield from wing.forms


def member(name: str) -> Callable[..., Any]:
    """What a plan does by a wing; TypeError if no installed wing does it."""
    for wing in wings():
        if name in wing.members:
            return wing.members[name]
    raise TypeError(f"no wing that is installed has {name}")


def steps_of(source: Any) -> Steps | None:
    """How a step of an object runs without data; None if no wing knows."""
    return next((wing.steps for wing in wings() if wing.steps is not None and wing.steps.accepts(source)), None)


def stepped() -> str:
    """The sources whose steps run without data, as messages list them."""
    return " or ".join(wing.steps.object for wing in wings() if wing.steps is not None) or "no installed framework"
