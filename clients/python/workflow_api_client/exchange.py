"""Commands that operations give to drivers, and their outcomes. Operations do no input or output themselves.

An operation is a generator of commands. A driver performs each and sends its outcome back; see `drivers.py`.
"""

import json
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Request:
    """An HTTP request.

    `within` is the time in seconds until its answer is complete, for an opened one until its head is there; `idle` how
    long a body may be silent then. The headers hold credentials, so they are never shown.
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
            ValueError: it is none.
        """
        return json.loads(self.content)


@dataclass(frozen=True)
class Send:
    """Sends a request; the outcome is the whole answer."""

    request: Request


@dataclass(frozen=True)
class Open:
    """Sends a request; the outcome is the head of a success, whose body follows by `Read`, or a whole refusal."""

    request: Request


@dataclass(frozen=True)
class Read:
    """Reads on in the opened answer; the outcome is bytes, empty at the end."""


@dataclass(frozen=True)
class Close:
    """Closes the opened answer, if there is one."""


@dataclass(frozen=True)
class Pause:
    """Lets seconds pass."""

    seconds: float


@dataclass(frozen=True)
class Work:
    """Calls a function that takes time, such as one that writes files; the outcome is what it returns."""

    function: Callable[[], Any]


@dataclass(frozen=True)
class Emit:
    """Yields an item to the caller that iterates over the operation."""

    item: Any


Command = Send | Open | Read | Close | Pause | Work | Emit
Steps = Generator[Command, Any, T]
"""An operation that returns a T."""


class TransportError(Exception):
    """A request or its answer did not get through. `sent`: whether the service may have received it."""

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent
