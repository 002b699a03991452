"""Finds the values of database dumps, in INSERT and COPY, labelled by columns named there or in CREATE TABLE."""

import re
from collections.abc import Generator, Iterator
from typing import Final

from redaction.formats.labelled_text import Labelled

_STRING: Final = r"'(?:[^'\\]|''|\\.)*+'"
_QUOTED: Final = r'"[^"\n]*+"|`[^`\n]*+`|\[[^\]\n]*+\]'
_TABLE: Final = rf"(?P<table>(?:[\w$.]|{_QUOTED})++)"
_COLUMNS: Final = r"\((?P<columns>[^()]{1,100000})\)"
_STATEMENT: Final = re.compile(
    rf"\b(?:INSERT|REPLACE)\s++(?:\w++\s++){{0,2}}?INTO\s++{_TABLE}\s*+(?:{_COLUMNS})?\s*+(?P<values>VALUES)?"
    rf"|\bCOPY\s++{_TABLE.replace('table', 'copied')}\s*+(?:{_COLUMNS.replace('columns', 'fields')})?\s*+"
    r"FROM\s++stdin[^;\n]*+;"
    rf"|\bCREATE\s++TABLE\s++(?:IF\s++NOT\s++EXISTS\s++)?{_TABLE.replace('table', 'created')}\s*+\(",
    re.IGNORECASE,
)
_COMMENT: Final = r"--[^\n]*+|/\*(?:[^*]|\*(?!/))*+(?:\*/)?"
_UNLABELLED: Final = re.compile(rf"({_STRING})|(?<![\w$.])(-?[0-9]{{5,}}+)(?![\w.])|{_COMMENT}")
_TOKEN: Final = re.compile(rf"({_STRING})|(-?[0-9][0-9.eE+-]*)|([(),;])|({_COMMENT})|[\w$]+|\s+|.", re.DOTALL)
_DECLARED: Final = re.compile(rf"(?:^|,|\()[ \t]*+({_QUOTED}|[A-Za-z_][\w$]*+)\s++[A-Za-z]", re.MULTILINE)
_LONGEST_DECLARATION: Final = 50_000
_IN_VALUES: Final = "values"
_IN_COPY: Final = "copy"
ENDS: Final = (";\n", "),\n", "\n")
"""Possible ends of a piece of a dump, in order of preference, because strings may hold line ends."""
_ESCAPES: Final = re.compile(r"''|\\(.)", re.DOTALL)
_LETTERS: Final = {"n": "\n", "t": "\t", "r": "\r", "0": ""}


class SqlValues:
    """Finder of the values of one dump; a value's label is the name of its column."""

    def __init__(self) -> None:
        self._state = ""
        self._names: list[str] = []
        self._column = 0
        self._depth = 0
        self._tables: dict[str, list[str]] = {}

    def __call__(self, text: str) -> Iterator[Labelled]:
        """Yields the values in some lines; comments and strings of other statements have no label."""
        place = 0
        while place < len(text):
            if self._state == _IN_VALUES:
                place = yield from self._tuples(text, place)
            elif self._state == _IN_COPY:
                place = yield from self._rows(text, place)
            elif (found := _STATEMENT.search(text, place)) is not None:
                yield from _unlabelled(text, place, found.start())
                place = self._begin(text, found)
            else:
                yield from _unlabelled(text, place, len(text))
                return

    def _begin(self, text: str, found: re.Match[str]) -> int:
        """Notes a statement; returns the position to read on from."""
        if (created := found["created"]) is not None:
            most = found.end() + _LONGEST_DECLARATION
            end = text.find(";", found.end(), most)
            declared = text[found.end() - 1 : end if end >= 0 else most]
            self._tables[_name(created)] = [_bare(one) for one in _DECLARED.findall(declared)]
            return found.end() - 1 + len(declared)
        table, columns = found["table"] or found["copied"], found["columns"] or found["fields"]
        self._names = [_bare(one) for one in columns.split(",")] if columns else self._tables.get(_name(table), [])
        self._column = self._depth = 0
        if found["copied"]:
            self._state = _IN_COPY
        elif found["values"]:
            self._state = _IN_VALUES
        return found.end()

    def _label(self) -> str:
        return self._names[self._column] if self._column < len(self._names) else ""

    def _tuples(self, text: str, place: int) -> Generator[Labelled, None, int]:
        for found in _TOKEN.finditer(text, place):
            string, number, mark, comment = found.groups()
            if string is not None:
                yield Labelled(found.start() + 1, found.end() - 1, _unescaped(string[1:-1]), self._label(), _escaped)
            elif number is not None and len(number) > 4:
                yield Labelled(found.start(), found.end(), number, self._label(), _encode_as_string)
            elif comment is not None:
                yield Labelled(found.start(), found.end(), comment)
            elif mark == "(":
                self._depth += 1
                if self._depth == 1:
                    self._column = 0
            elif mark == ")":
                self._depth -= 1
            elif mark == "," and self._depth == 1:
                self._column += 1
            elif mark == ";" and self._depth <= 0:
                self._state = ""
                return found.end()
        return len(text)

    def _rows(self, text: str, place: int) -> Generator[Labelled, None, int]:
        while place < len(text):
            end = text.find("\n", place)
            end = len(text) if end < 0 else end
            if text.startswith("\\.", place):
                self._state = ""
                return end
            for self._column, cell in enumerate(text[place:end].rstrip("\r").split("\t")):
                if cell and cell != "\\N":
                    yield Labelled(place, place + len(cell), _unescaped(cell), self._label(), _encode_for_copy)
                place += len(cell) + 1
            place = end + 1
        return place


def _unlabelled(text: str, low: int, high: int) -> Iterator[Labelled]:
    """Yields the strings and comments from one place of a text to another."""
    for found in _UNLABELLED.finditer(text, low, high):
        if found[2] is not None:
            yield Labelled(found.start(), found.end(), found[2], "", _encode_as_string)
        elif (string := found[1]) is None:
            yield Labelled(found.start(), found.end(), found[0])
        else:
            yield Labelled(found.start() + 1, found.end() - 1, _unescaped(string[1:-1]), "", _escaped)


def _unescaped(text: str) -> str:
    if "''" not in text and "\\" not in text:
        return text
    return _ESCAPES.sub(lambda found: _LETTERS.get(found[1], found[1]) if found[1] else "'", text)


def _escaped(new: str) -> str:
    return new.replace("\\", "\\\\").replace("'", "''")


def _encode_for_copy(new: str) -> str:
    return new.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")


def _encode_as_string(new: str) -> str:
    return f"'{new}'"


def _bare(name: str) -> str:
    return name.strip(' \t\r\n"`[]')


def _name(table: str) -> str:
    return _bare(table.rpartition(".")[2]).lower()
