"""The text form of HLO: a module, its computations and their instructions.

What is read is the form that XLA writes: of `Compiled.as_text`, and of `--xla_dump_to`. XLA's own parser would end the
process where the text is wrong, and reads one version of the form.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from ...errors import SourceError
from .shapes import Shape, array_of

_SPACE = re.compile(r"(?:\s+|/\*.*?\*/)*", re.DOTALL)
_BLANK = re.compile(r"(?:[ \t]+|/\*.*?\*/)*", re.DOTALL)  # within a line
_NAME = re.compile(r"%?([A-Za-z_0-9][\w.\-]*)")
_ARRAY = re.compile(r"[a-z][a-z0-9]*\[[^\]\n]*\]")
_LAYOUT = re.compile(r"\{([^{}\n]*)\}")
_MARK = re.compile(r'["(){}\[\]]|/\*')
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_PLAIN = re.compile(r'[^,"(){}\[\]\s/]+')
_KEY = re.compile(r"([A-Za-z_][\w\-]*)=")
_CLOSES = {"(": ")", "{": "}", "[": "]"}
_SECTIONS = ("FileNames", "FunctionNames", "FileLocations", "StackFrames")
_MOST_DEPTH = 200  # of tuples in tuples


class HloError(SourceError):
    """The text is no HLO, or says what cannot be."""


@dataclass(eq=False)
class Instruction:
    """One line of a computation."""

    name: str
    shape: Shape
    opcode: str
    operands: list[str]
    attributes: dict[str, str]
    line: int
    literal: str = ""  # what a constant or a parameter has in place of operands


@dataclass(eq=False)
class Computation:
    """Instructions in the order of the text."""

    name: str
    instructions: dict[str, Instruction] = field(default_factory=dict)
    root: str = ""
    line: int = 0


class Place(NamedTuple):
    """A line of somebody's code."""

    file: str
    line: int


@dataclass(eq=False)
class Module:
    """Computations by name, and what frames of the stack stand for."""

    name: str
    attributes: dict[str, str]
    computations: dict[str, Computation]
    entry: str
    frames: dict[int, Place]


def parse(text: str, source: str) -> Module:
    """The module of a text; HloError names the line, and the computation if it is in one."""
    return _Parser(text, source).module()


def names_in(text: str) -> list[str]:
    """The names of a list in braces, such as ``{%a, %b}``."""
    return [match.group(1) for match in re.finditer(r"%?([A-Za-z_0-9][\w.\-]*)", text)]


def fields_of(text: str) -> dict[str, str]:
    """Keys and values of metadata, such as ``{op_name="a" source_line=3}``."""
    found = re.finditer(r'([A-Za-z_]\w*)=("(?:[^"\\]|\\.)*"|[^\s{}"]+)', text)
    return {match.group(1): match.group(2).strip('"') for match in found}


class _Parser:
    def __init__(self, text: str, source: str) -> None:
        self._text, self._source = text, source
        self._at = 0
        self._computation = ""
        self._counted, self._line = 0, 1  # lines up to a place

    def module(self) -> Module:
        self._skip(_SPACE)
        if not self._text.startswith("HloModule", self._at):
            raise self._error(f"expected HloModule, got {self._near()!r}")
        self._at += len("HloModule")
        self._skip(_SPACE)
        name, attributes = self._name(), self._attributes()
        computations: dict[str, Computation] = {}
        sections: dict[str, dict[int, str]] = {}
        entry = ""
        while self._skip(_SPACE) < len(self._text):
            section = next((s for s in _SECTIONS if self._text.startswith(s, self._at)), None)
            if section is not None:
                sections[section] = self._section(section)
                continue
            is_entry = self._word("ENTRY")
            computation = self._read()
            if computation.name in computations:
                raise self._error(f"computation {computation.name!r} is defined twice")
            computations[computation.name] = computation
            entry = computation.name if is_entry else entry
            self._computation = ""
        if not computations:
            raise self._error("expected computations, got none")
        return Module(name, attributes, computations, entry or [*computations][-1], _frames(sections))

    # Computations

    def _read(self) -> Computation:
        line = self._line_at(self._at)
        name = self._name()
        self._computation = name
        self._skip(_SPACE)
        if self._peek() == "(":
            self._balanced()
            self._skip(_SPACE)
            if self._text.startswith("->", self._at):
                self._at += 2
                self._skip(_SPACE)
                self._shape()
                self._skip(_SPACE)
        while _KEY.match(self._text, self._at) or self._peek() == ",":  # attributes may be before the brace
            self._at += self._peek() == ","
            self._skip(_SPACE)
            self._attribute({})
            self._skip(_SPACE)
        self._expect("{")
        computation = Computation(name, line=line)
        while self._skip(_SPACE) < len(self._text) and self._peek() != "}":
            is_root = self._word("ROOT")
            instruction = self._instruction()
            if instruction.name in computation.instructions:
                raise self._error(f"{instruction.name!r} is defined twice")
            computation.instructions[instruction.name] = instruction
            if is_root:
                computation.root = instruction.name
        self._expect("}")
        self._attributes()
        if not computation.instructions:
            raise self._error("expected instructions, got none")
        computation.root = computation.root or [*computation.instructions][-1]
        return computation

    def _instruction(self) -> Instruction:
        line, name = self._line_at(self._at), self._name()
        self._skip(_BLANK)
        self._expect("=")
        self._skip(_SPACE)
        shape = self._shape()
        self._skip(_SPACE)
        opcode = self._name()
        self._skip(_BLANK)
        if self._peek() != "(":
            raise self._error(f"expected operands of {opcode} in parentheses, got {self._near()!r}")
        inside = self._balanced()[1:-1]
        if opcode in ("constant", "parameter"):
            return Instruction(name, shape, opcode, [], self._attributes(), line, inside.strip())
        operands = [self._operand(part) for part in _parts(inside)]
        return Instruction(name, shape, opcode, operands, self._attributes(), line)

    def _operand(self, text: str) -> str:
        """The name of an operand, which may have a shape before it."""
        match = re.search(r"%?([A-Za-z_0-9][\w.\-]*)\s*$", text)
        if match is None:
            raise self._error(f"expected the name of an operand, got {text[:40]!r}")
        return match.group(1)

    def _attributes(self) -> dict[str, str]:
        """What follows on the line: ``, key=value`` as often as there is."""
        found: dict[str, str] = {}
        while self._skip(_BLANK) < len(self._text) and self._peek() == ",":
            self._at += 1
            self._skip(_SPACE)
            self._attribute(found)
        if self._at < len(self._text) and self._peek() not in "\r\n}":
            raise self._error(f"expected the end of the line, got {self._near()!r}")
        return found

    def _attribute(self, found: dict[str, str]) -> None:
        key = _KEY.match(self._text, self._at)
        if key is None:
            raise self._error(f"expected an attribute such as index=0, got {self._near()!r}")
        begin = self._at = key.end()
        while self._at < len(self._text):
            mark = self._peek()
            if mark in _CLOSES:
                self._balanced()
            elif mark == '"':
                self._string()
            elif plain := _PLAIN.match(self._text, self._at):
                self._at = plain.end()
            elif self._text.startswith("/*", self._at):
                self._skip(_BLANK)
            elif mark == "/":
                self._at += 1
            elif mark == " " and self._text.startswith("mesh[", begin) and self._text[self._at - 1] == "]":
                self._skip(_BLANK)  # the axes come after it
            else:
                break
        found[key.group(1)] = self._text[begin : self._at]

    def _section(self, name: str) -> dict[int, str]:
        """Lines of a number and a text, up to an empty line."""
        end = re.compile(r"\n[ \t\r]*\n|\Z").search(self._text, self._at)
        assert end is not None
        lines = self._text[self._at + len(name) : end.start()].splitlines()
        self._at = end.end()
        return {
            int(number): rest
            for number, _, rest in (line.strip().partition(" ") for line in lines)
            if number.isdecimal()
        }

    # Shapes

    def _shape(self, depth: int = 0) -> Shape:
        if depth > _MOST_DEPTH:
            raise self._error(f"a shape has tuples inside of each other, more than {_MOST_DEPTH} deep")
        if self._peek() == "(":
            return self._tuple(depth)
        array = _ARRAY.match(self._text, self._at)
        if array is None:
            raise self._error(f"expected a shape, got {self._near()!r}")
        self._at = array.end()
        layout = ""
        if self._peek() == "{":
            braces = _LAYOUT.match(self._text, self._at)
            if braces is None:
                raise self._error(f"expected the layout of a shape, such as {{1,0}}, got {self._near()!r}")
            layout, self._at = braces.group(1), braces.end()
        try:
            return array_of(array.group(), layout)
        except ValueError as error:
            raise self._error(str(error)) from None

    def _tuple(self, depth: int) -> Shape:
        self._at += 1
        elements = []
        while self._skip(_SPACE) < len(self._text) and self._peek() != ")":
            elements.append(self._shape(depth + 1))
            self._skip(_SPACE)
            if self._peek() == ",":
                self._at += 1
            elif self._peek() != ")":
                raise self._error(f"expected a comma or the end of a tuple, got {self._near()!r}")
        self._expect(")")
        return Shape("tuple", elements=tuple(elements))

    # Marks

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _near(self) -> str:
        return self._text[self._at : self._at + 24].split("\n")[0] or "the end of the line"

    def _skip(self, what: re.Pattern[str]) -> int:
        match = what.match(self._text, self._at)
        assert match is not None
        self._at = match.end()
        return self._at

    def _word(self, word: str) -> bool:
        found = re.compile(word + r"\s").match(self._text, self._at)
        if found is not None:
            self._at = found.end()
            self._skip(_SPACE)
        return found is not None

    def _name(self) -> str:
        match = _NAME.match(self._text, self._at)
        if match is None:
            raise self._error(f"expected a name, got {self._near()!r}")
        self._at = match.end()
        return match.group(1)

    def _expect(self, mark: str) -> None:
        if self._peek() != mark:
            raise self._error(f"expected {mark!r}, got {self._near()!r}")
        self._at += 1

    def _string(self) -> None:
        match = _STRING.match(self._text, self._at)
        if match is None:
            raise self._error("a string has no end")
        self._at = match.end()

    def _balanced(self) -> str:
        """What is from an opening mark to the one that closes it; strings and comments are passed over."""
        begin, open_marks = self._at, []
        while True:
            match = _MARK.search(self._text, self._at)
            if match is None:
                self._at = begin
                raise self._error(f"{self._text[begin]!r} is not closed")
            mark, self._at = match.group(), match.end()
            if mark == '"':
                self._at -= 1
                self._string()
            elif mark == "/*":
                end = self._text.find("*/", self._at)
                self._at = len(self._text) if end < 0 else end + 2
            elif mark in _CLOSES:
                open_marks.append(_CLOSES[mark])
            elif mark != open_marks.pop():
                self._at -= 1
                raise self._error(f"unexpected {mark!r}")
            if not open_marks:
                return self._text[begin : self._at]

    def _line_at(self, place: int) -> int:
        if place >= self._counted:
            self._line += self._text.count("\n", self._counted, place)
        else:
            self._line = self._text.count("\n", 0, place) + 1
        self._counted = place
        return self._line

    def _error(self, message: str) -> HloError:
        where = f" of computation {self._computation!r}" if self._computation else ""
        return HloError(f"{self._source}: line {self._line_at(min(self._at, len(self._text)))}{where}: {message}")


def _parts(text: str) -> list[str]:
    """What lies between commas that are in no brackets."""
    parts, depth, begin = [], 0, 0
    for match in re.finditer(r'"(?:[^"\\]|\\.)*"|/\*.*?\*/|[(){}\[\],]', text, re.DOTALL):
        mark = match.group()
        if mark in "({[":
            depth += 1
        elif mark in ")}]":
            depth -= 1
        elif mark == "," and depth == 0:
            parts.append(text[begin : match.start()])
            begin = match.end()
        elif mark.startswith("/*") and not text[begin : match.start()].strip():
            begin = match.end()
    return [part.strip() for part in (*parts, text[begin:]) if part.strip()]


def _frames(sections: dict[str, dict[int, str]]) -> dict[int, Place]:
    """The line of each frame that instructions name."""
    files = {number: text.strip('"') for number, text in sections.get("FileNames", {}).items()}
    locations = {number: fields_of(text) for number, text in sections.get("FileLocations", {}).items()}
    found = {}
    for number, text in sections.get("StackFrames", {}).items():
        location = locations.get(_integer(fields_of(text).get("file_location_id")), {})
        file = files.get(_integer(location.get("file_name_id")))
        if file is not None:
            found[number] = Place(file, _integer(location.get("line")))
    return found


def _integer(text: str | None) -> int:
    return int(text) if text is not None and text.isdecimal() else 0
