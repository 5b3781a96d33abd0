"""Importers: from what people have to a Graph or a Problem. A file or a package per kind of source."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from .. import _core, frontend
from ..frontend import FOLDER, Form
from ..inplace_ops import check_types, with_inplace
from ..ops import kept_alive, with_workspaces, without_copies, without_overlap
from ..options.records import Reading
from ..options.source import Source
from ..options.taking import request
from . import notes
from .graph_dict import graph_of, read_example, read_graph_dict
from .notes import Scratch
from .tape import Tape as Tape
from .tape import read_tape as read_tape


class Captured(NamedTuple):
    """What was read: a graph or problem, what it was read from if that can be run, and what is to be known of it."""

    buffers: _core.Graph | _core.Problem
    source: Source | None = None
    notes: tuple[str, ...] = ()
    device: str | None = None
    needs: Mapping[str, int] = {}
    scratch: Mapping[str, Scratch] | None = None

    @property
    def above_results(self) -> dict[str, int]:
        """By op, what its kernel allocates above its results."""
        return {op: needs.above for op, needs in (self.scratch or {}).items() if needs.above}


@dataclass(frozen=True, eq=False, repr=False)
class Network:
    """A network that was captured once, for every function that takes a source; its plans run.

    Attributes
    ----------
    graph : Graph
        Its ops and tensors.
    source : Source or None
        What it was captured from, if that can be run. Pickles leave it out.
    notes : tuple of str
        What to know about it; see `Plan.notes`.
    device : str or None
        "cuda" if it was captured as eager torch would run it there.
    needs : mapping of str to int
        Bytes that other planners need for it, by their names, such as the compiler that it comes from.
    scratch : mapping of str to Scratch, or None
        By op, what its kernel is known to allocate besides its results, where `graph` does not count it. None:
        nothing is known.
    """

    graph: _core.Graph
    source: Source | None = None
    notes: tuple[str, ...] = ()
    device: str | None = None
    needs: Mapping[str, int] = field(default_factory=dict)
    scratch: Mapping[str, Scratch] | None = None

    def __repr__(self) -> str:
        kind = "a graph" if self.source is None else self.source.form.name
        return f"<memplan.importers.Network: {len(self.graph.ops)} ops, {len(self.graph.tensors)} tensors, from {kind}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return Network, (self.graph, None, self.notes, self.device, self.needs, self.scratch)


def read_once(source: Any, reading: Mapping[str, Any]) -> Network | _core.Problem:
    """A source that many functions may be given; see `memplan.capture`."""
    read = captured(source, request("capture", reading).reading)
    if isinstance(read.buffers, _core.Problem):
        return read.buffers
    return source if isinstance(source, Network) else Network(read.buffers, *read[1:])


def captured(source: Any, reading: Reading) -> Captured:
    """Import any accepted source; see `memplan.capture`."""
    given = {option for option, value in reading.given().items() if not _is_nothing(value)}
    if isinstance(source, Network):
        for option in sorted(given - {"keep_alive"}):
            raise TypeError(f"option {option} goes with capture; this network was captured without it")
        graph = source.graph if reading.overlap else without_overlap(source.graph)
        own = source.source, source.notes, source.device, source.needs, source.scratch
        return Captured(kept_alive(graph, reading.keep_alive), *own)
    form = form_of(source)
    _refuse_options(form, given)
    for name, size in (reading.dims or {}).items():
        if isinstance(size, (tuple, list)):
            raise TypeError(f"dims[{name!r}] must be a size here, got {size!r}: memplan.plan alone takes ranges")
    if form.suffixes and not os.path.exists(source):  # before a package is asked for that could read it
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fspath(source))
    with notes.heard() as said:
        buffers = form.read(source, reading)
        if isinstance(buffers, Mapping):
            buffers = graph_of(buffers, measured=True)
    if isinstance(buffers, _core.Graph):
        check_types(buffers, reading.inplace_ops, "inplace_ops")
        buffers = kept_alive(buffers, reading.keep_alive)
        if not reading.overlap:
            buffers = without_overlap(buffers)
    if form.suffixes:
        source = os.path.abspath(source)  # it may be read again when another folder is the current one
    runs = form.program is not None and reading.device is None  # plans for another device than the network is on do not
    origin = Source(source, form, reading) if runs else None
    scratch = said.scratch if reading.device is None else None  # of kernels of the CPU
    return Captured(buffers, origin, tuple(dict.fromkeys(said.notes)), reading.device, said.needs, scratch)


def counting_scratch(read: Captured, asked: Reading) -> Captured:
    """What was read with what kernels allocate as workspaces of their ops, as ``kernels=True`` reads it.

    If the caller has asked for the arena alone, now or when the network was captured, it is what was read.
    """
    readings = [asked] if read.source is None else [asked, read.source.reading]
    alone = any(reading.kernels is False for reading in readings)
    if read.scratch is None or not isinstance(read.buffers, _core.Graph):
        return read
    if alone:
        return read._replace(buffers=without_copies(read.buffers))
    graph, source = with_workspaces(read.buffers, {op: needs.room for op, needs in read.scratch.items()}), read.source
    if source is not None:
        source = replace(source, reading=replace(source.reading, kernels=True))
    return read._replace(buffers=graph, source=source, scratch=None)


def counts_kernels(read: Captured) -> bool:
    """Whether the graph counts what kernels allocate besides, and its plans run with these kernels."""
    return read.source is not None and bool(read.source.reading.kernels)


def _is_nothing(value: Any) -> bool:
    """Whether an option says nothing, such as ``args=[]``."""
    return value is False or (isinstance(value, (tuple, list, Mapping, frozenset)) and len(value) == 0)


def _written(spec: Callable[[Any], Any]) -> Callable[[Any, Reading], _core.Graph]:
    """How a graph is read of which it is said which ops may write over an input."""

    def read(source: Any, reading: Reading) -> _core.Graph:
        types = frozenset(reading.inplace_ops)
        graph = source if isinstance(source, _core.Graph) else graph_of(spec(source))
        return with_inplace(graph, types) if types else graph

    return read


def _read_csv(source: Any, reading: Reading) -> _core.Problem:
    from .csv import read_problem

    return read_problem(source, inclusive=reading.inclusive)


def _no_program(source: Source) -> Any:
    raise TypeError("the plan is of a tape, which is no program: memplan.torch.arena(plan) serves steps from it")


_INPLACE = frozenset({"inplace_ops"})
_GRAPH = Form("graph", _written(lambda graph: graph), _INPLACE)
_PROBLEM = Form("problem", lambda problem, _: problem)
_TAPE = Form("tape", lambda tape, _: tape.problem(), program=_no_program)
_DICT = Form("dict", _written(lambda spec: spec), _INPLACE)
_EXAMPLE = Form("example", _written(lambda name: read_example(name.removeprefix("example:"))), _INPLACE)
_ARRAYS = Form("arrays", lambda arrays, _: _core.Problem(*arrays))
_JSON = Form(".json", _written(read_graph_dict), _INPLACE, suffixes=(".json",))
_CSV = Form(".csv", _read_csv, frozenset({"inclusive"}), suffixes=(".csv",))
_OWN = (_GRAPH, _PROBLEM, _TAPE, _DICT, _EXAMPLE, _ARRAYS, _JSON, _CSV)


def accepted() -> str:
    """All that is a source, in words."""
    objects = [name for wing in frontend.wings() for name in wing.objects]
    own = "a graph dict, memplan.Graph, memplan.Problem, memplan.importers.Tape, (size, first, last) arrays"
    return _either([own, f"a path to {_suffixes()}", "'example:NAME'", *objects])


def _either(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"


def _suffixes() -> str:
    """The suffixes of files that are sources; of several for one form, the first."""
    return _either([form.suffixes[0] for form in (*_OWN, *frontend.forms()) if form.suffixes])


def _options_of(form: Form) -> frozenset[str]:
    """What may be said of a source; of a graph also which tensors are kept alive."""
    return form.options | {"keep_alive"} if "inplace_ops" in form.options else form.options


def _refuse_options(form: Form, used: set[str]) -> None:
    for option in sorted(used - _options_of(form)):
        takers = ", ".join(one.name for one in (*frontend.forms(), *_OWN) if option in _options_of(one))
        raise TypeError(f"option {option} does not apply to a source of kind {form.name}; it applies to: {takers}")


def compared_as(sources: Sequence[str]) -> Callable[[Sequence[str]], Any] | None:
    """What compares these files as they are, if there are several, all of one such form; else plans are compared."""
    forms = {form_of(source) for source in sources}
    return forms.pop().compared if len(sources) > 1 and len(forms) == 1 else None


def form_of(source: Any) -> Form:
    """The form in which a source comes; TypeError lists what is accepted."""
    if isinstance(source, _core.Graph):
        return _GRAPH
    if isinstance(source, Network):
        return _GRAPH if source.source is None else source.source.form
    if isinstance(source, _core.Problem):
        return _PROBLEM
    if isinstance(source, Tape):
        return _TAPE
    if isinstance(source, str) and source.startswith("example:"):
        return _EXAMPLE
    if isinstance(source, (str, os.PathLike)):
        return _form_of_path(os.fspath(source))
    if isinstance(source, (tuple, list)) and len(source) == 3 and not any(isinstance(c, str) for c in source):
        return _ARRAYS
    for form in frontend.forms():
        if form.accepts is not None and form.accepts(source):
            return form
    if isinstance(source, Mapping):
        return _DICT
    if isinstance(source, type):
        raise TypeError(f"source must be {accepted()}; got the class {source.__qualname__}, not an instance of it")
    raise TypeError(f"source must be {accepted()}; got {type(source).__module__}.{type(source).__qualname__}")


def _form_of_path(path: str) -> Form:
    suffix = FOLDER if os.path.isdir(path) else Path(path).suffix.lower()
    for form in chain(_OWN, frontend.forms()):  # wings are imported if it is no file of ours
        if suffix in form.suffixes and (suffix != FOLDER or form.accepts is None or form.accepts(path)):
            return form
    raise TypeError(f"a path must end in {_suffixes()}, got {path!r}; source must be {accepted()}")
