"""Incremental parser of server-sent events."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from workflow_api_client.failures import UnexpectedAnswerError

MAX_LINE_BYTES: Final = 4 * 2**20

_LINE_END: Final = re.compile(rb"\r\n|\n|\r(?!\Z)")


@dataclass(frozen=True)
class Message:
    """One message of an event stream."""

    kind: str
    id: str
    data: str


class Parser:
    """Parser of pieces of a stream into messages; drops comments."""

    def __init__(self) -> None:
        self._rest = b""
        self._kind = ""
        self._id = ""
        self._data: list[str] = []

    def feed(self, piece: bytes) -> Iterator[Message]:
        """Yields the messages that a piece completes.

        Raises:
            UnexpectedAnswerError: a line is longer than `MAX_LINE_BYTES`.
        """
        *lines, self._rest = _LINE_END.split(self._rest + piece)
        if len(self._rest) > MAX_LINE_BYTES:
            raise UnexpectedAnswerError("A line of the stream of events is too long.")
        for line in lines:
            if line:
                self._field(line.decode("utf-8", "replace"))
                continue
            if self._data or self._kind:
                yield Message(self._kind or "message", self._id, "\n".join(self._data))
            self._kind, self._data = "", []

    def _field(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            self._kind = value
        elif name == "id":
            self._id = value
        elif name == "data":
            self._data.append(value)
