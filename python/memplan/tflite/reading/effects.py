"""What operators of TFLite do besides their results: the variables, tables and generators that they read and change.

Nothing of this passes from operator to operator as a tensor, and yet it binds their order. What touches different
variables may change places. A custom operator may read and change anything.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any, NamedTuple

from .file import File, operators_of, text

_HANDLES = frozenset({"VAR_HANDLE", "HASHTABLE"})
_READ = frozenset({"READ_VARIABLE", "HASHTABLE_FIND", "HASHTABLE_SIZE"})  # by the handle that is their first input
_CHANGE = frozenset({"ASSIGN_VARIABLE", "HASHTABLE_IMPORT"})
_DRAW = frozenset({"RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL", "MULTINOMIAL"})
# What changes the variable tensors among its inputs
_RECURRENT = frozenset(
    [
        "BIDIRECTIONAL_SEQUENCE_LSTM",
        "BIDIRECTIONAL_SEQUENCE_RNN",
        "LSTM",
        "RNN",
        "SVDF",
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        "UNIDIRECTIONAL_SEQUENCE_RNN",
    ]
)
_CALLS = frozenset({"CALL", "CALL_ONCE", "IF", "WHILE", "STABLEHLO_WHILE", "STABLEHLO_COMPOSITE"})
_UNKNOWN = frozenset({"CUSTOM", "DELEGATE", "PLACEHOLDER_FOR_GREATER_OP_CODES", "STABLEHLO_CUSTOM_CALL"})

State = Hashable  # a variable, a table, a variable tensor, or the generators


class Effects(NamedTuple):
    """The states that an operator reads and those that it changes, and whether it may run again."""

    reads: frozenset[State] = frozenset()
    changes: frozenset[State] = frozenset()
    anything: bool = False  # it may read and change all states
    once: bool = False  # it may not run again

    def and_those_of(self, other: Effects) -> Effects:
        changes, anything = self.changes | other.changes, self.anything or other.anything
        return Effects(self.reads | other.reads, changes, anything, self.once or other.once)

    @property
    def any(self) -> bool:
        return bool(self.reads or self.changes or self.anything)


_ANYTHING = Effects(anything=True, once=True)


class Known:
    """The effects of the operators of a file, each found once."""

    def __init__(self, file: File) -> None:
        self._file = file
        self._found: dict[int, list[Effects]] = {}

    def of(self, position: int, running: tuple[int, ...] = ()) -> list[Effects]:
        """Those of the operators of a subgraph, which is called by the subgraphs `running`."""
        if position in running:
            raise self._file.error(f"subgraph {position} runs itself, by the subgraphs {list(running)}")
        if position not in self._found:
            subgraph = self._file.subgraph(position)
            handles = dict(_handles(self._file, subgraph))
            self._found[position] = [
                self._with_those_inside(operator, subgraph, position, handles, running)
                for operator in operators_of(subgraph)
            ]
        return self._found[position]

    def _with_those_inside(
        self,
        operator: Any,
        subgraph: Any,
        position: int,
        handles: Mapping[int, State],
        running: tuple[int, ...],
    ) -> Effects:
        own = _own(self._file, operator, handles)
        own = own.and_those_of(_variables(self._file, operator, subgraph, position))
        for called in self._file.called(operator):
            for inner in self.of(called, (*running, position)):
                own = own.and_those_of(inner)
        return own


def _handles(file: File, subgraph: Any) -> Iterator[tuple[int, State]]:
    """The states that tensors are handles of."""
    for operator in operators_of(subgraph):
        kind, options = file.kind(operator), file.options(operator)
        if kind not in _HANDLES or operator.OutputsLength() != 1:
            continue
        if kind == "HASHTABLE":
            yield operator.Outputs(0), ("table", 0 if options is None else options.TableId())
        elif options is not None:
            yield operator.Outputs(0), ("variable", text(options.Container()), text(options.SharedName()))


def _own(file: File, operator: Any, handles: Mapping[int, State]) -> Effects:
    """Without what lies in its variable tensors, and without the subgraphs that it runs."""
    kind = file.kind(operator)
    if file.custom(operator) is not None or kind in _UNKNOWN or kind.startswith("BUILTIN_"):
        return _ANYTHING
    if kind in _CALLS and not file.called(operator):
        return _ANYTHING
    if kind in _READ | _CHANGE:
        handle = operator.Inputs(0) if operator.InputsLength() else -1
        if handle not in handles:
            return _ANYTHING
        state = frozenset({handles[handle]})
        return Effects(reads=state, once=True) if kind in _READ else Effects(changes=state, once=True)
    if kind in _DRAW:
        return Effects(changes=frozenset({"generators"}), once=True)
    return Effects(once=kind in _HANDLES | _RECURRENT)


def _variables(file: File, operator: Any, subgraph: Any, position: int) -> Effects:
    """Of its variable tensors."""
    inputs = file.row(subgraph, operator, "Inputs")
    states = {k: ("tensor", position, t) for k, t in enumerate(inputs) if t >= 0 and subgraph.Tensors(t).IsVariable()}
    if file.kind(operator) in _RECURRENT:
        return Effects(changes=frozenset(states.values()), once=True)
    count = operator.MutatingVariableInputsLength()
    changed = frozenset(states[k] for k in states if k < count and operator.MutatingVariableInputs(k))
    return Effects(reads=frozenset(states.values()), changes=changed, once=bool(states))


class Ties:
    """Which operators have to run before others, for what they read and change."""

    def __init__(self) -> None:
        self._all: list[str] = []  # since the last that may do anything, and that one
        self._changed: dict[State, str] = {}
        self._read: dict[State, list[str]] = {}
        self._anything: list[str] = []

    def after(self, name: str, of: Effects) -> list[str]:
        """The operators that come before the next one, which has this name and these effects."""
        if not of.any:
            return []
        waits = self._all if of.anything else [name for state in of.reads | of.changes for name in self._before(state)]
        if not of.anything:
            waits = [*waits, *(name for state in of.changes for name in self._read.get(state, ()))]
        waits = [known for known in self._all if known in set(waits)]
        self._note(name, of)
        return waits

    def _before(self, state: State) -> list[str]:
        return [self._changed[state]] if state in self._changed else self._anything

    def _note(self, name: str, of: Effects) -> None:
        if of.anything:
            self._all, self._anything = [name], [name]
            self._changed, self._read = {}, {}
            return
        self._all.append(name)
        for state in of.changes:
            self._changed[state], self._read[state] = name, []
        for state in of.reads - of.changes:
            self._read.setdefault(state, []).append(name)
