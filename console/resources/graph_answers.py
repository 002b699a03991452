"""Answers of knowledge graphs as a bounded table, and as lines of CSV."""

import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from contract.channel import Messages
from contract.csv_text import csv_text
from workflow_api.v1.workflows_pb2 import KnowledgeGraphAnswer

MOST_ROWS: Final = 200
_CELL_CHARS: Final = 300
_MOST_CHARS: Final = 60_000
_TAGS_OF_CELL: Final = 40
"""Characters of a cell beside its text."""
_TRIPLE: Final = ("Triple",)
_PLACE: Final = re.compile(r"error at (\d{1,6}):(\d{1,6})")


class Table(NamedTuple):
    """The first rows of an answer; `cut` says that there is more than is shown."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    cut: bool


class Answer(NamedTuple):
    """An answer: of an ASK yes or no, of any other query a table."""

    yes: bool | None
    table: Table | None


async def read_answer(messages: Messages) -> Answer:
    """Returns what fits on a page.

    Raises:
        Refusal: as the service refused.
    """
    columns: Sequence[str] = _TRIPLE
    rows: list[Sequence[str]] = []
    chars, cut = 0, False
    try:
        async for message in messages:
            part = _part(message)
            if part.HasField("boolean"):
                return Answer(part.boolean, None)
            if part.form == "select":
                columns = list(part.variables)
            for row in _rows(part, columns):
                shown = [text if len(text) <= _CELL_CHARS else text[: _CELL_CHARS - 1] + "…" for text in row]
                chars += sum(len(text) + _TAGS_OF_CELL for text in shown)
                if len(rows) == MOST_ROWS or chars > _MOST_CHARS:
                    return Answer(None, Table(columns, rows, cut=True))
                rows.append(shown)
            cut = cut or part.truncated
    finally:
        await messages.aclose()
    return Answer(None, Table(columns, rows, cut))


class CsvParts:
    """The whole answer as CSV, whose first part has the row of heads."""

    def __init__(self, messages: Messages) -> None:
        self._messages = messages
        self._columns: Sequence[str] = ()
        self._first = b""

    async def open(self) -> None:
        """Waits for the beginning of the answer.

        Raises:
            Refusal: as the service refused.
        """
        part = _part(await anext(self._messages))
        if part.HasField("boolean"):
            self._first = _csv([("answer",), (str(part.boolean).lower(),)])
            return
        self._columns = list(part.variables) if part.form == "select" else _TRIPLE
        self._first = _csv([self._columns, *_rows(part, self._columns)])

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Returns itself."""
        return self

    async def __anext__(self) -> bytes:
        """Returns the rows of the next message."""
        if self._first:
            first, self._first = self._first, b""
            return first
        return _csv(_rows(_part(await anext(self._messages)), self._columns))

    async def aclose(self) -> None:
        """Ends the query."""
        await self._messages.aclose()


def excerpt(query: str, problem: str) -> str:
    """Returns the line of a query that its problem names by line and column, with a mark below; "" if it names none."""
    place = _PLACE.search(problem)
    if place is None:
        return ""
    line, column = int(place[1]), int(place[2])
    lines = query.splitlines() or [""]
    if not 1 <= line <= len(lines):
        return ""
    first = max(0, column - 61)
    text = lines[line - 1][first : first + 120]
    before = lines[line - 1][first : column - 1]
    mark = "".join(character if character == "\t" else " " for character in before)
    return f"{text}\n{mark}^"


def _part(message: Any) -> KnowledgeGraphAnswer:
    part: KnowledgeGraphAnswer = message
    return part


def _rows(part: KnowledgeGraphAnswer, columns: Sequence[str]) -> list[Sequence[str]]:
    if part.triples:
        return [(line,) for line in part.triples]
    bindings: list[Mapping[str, Any]] = [json.loads(row) for row in part.rows]
    return [[_term(row.get(name)) for name in columns] for row in bindings]


def _term(term: Mapping[str, Any] | None) -> str:
    if term is None:
        return ""
    value = term.get("value", "")
    if isinstance(value, Mapping):
        # A triple within a triple.
        return " ".join(_term(value.get(name)) for name in ("subject", "predicate", "object"))
    return f"_:{value}" if term.get("type") == "bnode" else str(value)


def _csv(rows: Sequence[Sequence[str]]) -> bytes:
    return csv_text(rows).encode()
