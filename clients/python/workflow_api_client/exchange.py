"""Commands of operations to drivers, and their outcomes. Operations do no input or output themselves.

An operation is a generator of commands. A driver performs each command and sends the outcome back; see `drivers.py`.
"""

import json
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Request:
    """An HTTP request.

    `within` bounds the seconds until the whole answer, or for an opened answer until its head; `idle` bounds the
    seconds between two reads of an opened body. The headers hold credentials, so they are never shown.
    """

    method: str
    url: str
    headers: Mapping[str, str] = field(repr=False)
    content: bytes | None = field(default=None, repr=False)
    within: float = 30.0
    idle: float = 30.0


@dataclass(frozen=True)
class Answer:
    """An HTTP answer; names of headers are in lower case. `content` is empty where the body is left to be read."""

    status: int
    headers: Mapping[str, str]
    content: bytes = field(default=b"", repr=False)

    def json(self) -> Any:
        """Returns the body as JSON.

        Raises:
            ValueError: the body is no JSON.
        """
        return json.loads(self.content)


@dataclass(frozen=True)
class Send:
    """Command to send a request; the outcome is the whole answer."""

    request: Request


@dataclass(frozen=True)
class Open:
    """Command to send a request; the outcome is the head of a success, to be read by `Read`, or a whole refusal."""

    request: Request


@dataclass(frozen=True)
class Read:
    """Command to read from the opened answer; the outcome is bytes, empty at the end."""


@dataclass(frozen=True)
class Close:
    """Command to close the opened answer, if any."""


@dataclass(frozen=True)
class Pause:
    """Command to wait for some seconds."""

    seconds: float


@dataclass(frozen=True)
class Work:
    """Command to call a blocking function, such as a write to a file; the outcome is its return value."""

    function: Callable[[], Any]


@dataclass(frozen=True)
class Emit:
    """Command to yield an item to the caller that iterates over the operation."""

    item: Any


Command = Send | Open | Read | Close | Pause | Work | Emit
Steps = Generator[Command, Any, T]
"""Operation that returns a T."""


class TransportError(Exception):
    """Raised when no answer came. `sent` is True if the service may have received the request."""

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent
