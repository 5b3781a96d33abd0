"""Wings: packages that read, run and write the networks of a framework, by entry points of the group "memplan.wings".

In a package's pyproject.toml, with the wing's name and where it is:

    [project.entry-points."memplan.wings"]
    torch = "memplan.torch"

`memplan.NAME` is that package. It is imported when it is asked for.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from types import ModuleType

GROUP = "memplan.wings"


def names() -> list[str]:
    """Names of the wings of all installed packages."""
    return sorted({point.name for point in entry_points(group=GROUP)})


def wing(name: str) -> ModuleType | None:
    """The package of a wing; None if no installed package brings one of that name."""
    point = next(iter(entry_points(group=GROUP, name=name)), None)
    if point is None:
        return None
    package = point.load()
    assert isinstance(package, ModuleType)
    return package
