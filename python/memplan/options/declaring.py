"""How an option is declared: its default, what it means, and what it must be, at one place."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, NamedTuple, TypeVar

from .written import names

R = TypeVar("R", bound="Record")


@dataclass(frozen=True)
class Record:
    """Options that belong together. What is given is checked; a default is right as it is."""

    _checks: ClassVar[dict[str, Callable[[Any], Any] | None]]
    _default: ClassVar[Record]

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The options, in the order of their declaration."""
        return tuple(one.name for one in fields(cls))

    def given(self) -> dict[str, Any]:
        """The options whose values are not the defaults."""
        return {one.name: getattr(self, one.name) for one in fields(self) if not _is_default(self, one)}


class Flag(NamedTuple):
    """An option on the command line. Without a metavar it is a switch: ``--no-NAME`` where it is on by default."""

    metavar: str | None
    help: str
    read: Callable[[str], Any] = names  # what is written as a value, which the option's check gets
    many: bool = False  # may be repeated
    made: Callable[[Any], Any] | None = None  # what the option is given for what was read, instead of a check
    name: str | None = None  # where it has another name than the option


def option(
    default: Any,
    text: str,
    check: Callable[[Any], Any] | None = None,
    *,
    flag: Flag | None = None,
    excludes: Mapping[str, str] | None = None,
    needs: tuple[str, str] | None = None,
    graphs_only: str = "",
    is_callback: bool = False,
) -> Any:
    """A field of a record.

    Parameters
    ----------
    default
        An immutable value.
    text
        What the option means, as reStructuredText.
    check
        Returns the value as it is kept, or raises TypeError or ValueError: what was expected, and what came. None: what
        is right depends on the source.
    flag
        The option on the command line, if it has one.
    excludes
        Options that it does not go with, each with a reason or "".
    needs
        An option that it needs, and an example of that.
    graphs_only
        What problems have instead, if only graphs have it.
    is_callback
        It is a function that is called while a plan is made: plans behind the scenes must not call it.
    """
    about = {"text": inspect.cleandoc(text), "check": check, "flag": flag, "is_callback": is_callback}
    together = {"excludes": excludes or {}, "needs": needs, "graphs_only": graphs_only}
    return field(default=default, metadata={**about, **together})


def documented(cls: type[R]) -> type[R]:
    """A decorator: the record, with its options in its docstring, their checks at hand, and what it is by default."""
    rows = (f"{one.name}\n{textwrap.indent(one.metadata['text'], '    ')}" for one in fields(cls))
    cls.__doc__ = f"{inspect.cleandoc(cls.__doc__ or '')}\n\nParameters\n----------\n" + "\n".join(rows)
    cls._checks = {one.name: one.metadata["check"] for one in fields(cls)}
    cls._default = cls()
    return cls


def made(cls: type[R], given: Mapping[str, Any]) -> R:
    """The record of options that were given, each checked."""
    if not given:
        return cls._default  # type: ignore[return-value]
    checked = dict(given)
    for name, value in given.items():
        check = cls._checks[name]
        if check is not None:
            checked[name] = check(value)
    return cls(**checked)


def options_of(*records: type[Record]) -> Iterator[Any]:
    """The fields of records."""
    for one in records:
        yield from fields(one)


def _is_default(record: Record, one: Any) -> bool:
    value = getattr(record, one.name)
    return value is one.default or (type(value) in (int, str, bool) and value == one.default)
