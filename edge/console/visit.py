"""One request of a person who has signed in, and what a page answers it with."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

from google.protobuf.message import Message

from workflow_api.v1.users_pb2 import ROLE_ADMINISTRATOR, ROLE_APPROVER, Role, User

ANYBODY: Final = frozenset({ROLE_ADMINISTRATOR, ROLE_APPROVER})
ADMINISTRATORS: Final = frozenset({ROLE_ADMINISTRATOR})


class Services(Protocol):
    """The services, called in the name of the person."""

    async def call(self, rpc: str, request: Message) -> Any:
        """Return the answer of a unary RPC, named as `KeysService/ListKeys`.

        Raises:
            Refusal: as the service refused; 502 where it cannot be reached.
        """
        ...


@dataclass(frozen=True, slots=True)
class Visit:
    """Who asks for a page, and with what.

    Attributes:
        user: Who has signed in.
        services: The services, called in that person's name.
        path: What stands for the names that the page's path holds in braces, decoded.
        query: The query's first value of each name.
        form: Every value of each field of a form that was sent; its token has been checked.
    """

    user: User
    services: Services
    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    form: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def sent(self, name: str) -> str:
        """Return a field of the form without blanks around it; empty where it was not sent."""
        values = self.form.get(name, ())
        return values[0].strip() if values else ""


@dataclass(frozen=True, slots=True)
class View:
    """A template below `templates/`, which extends `page.html`, and what it shows."""

    template: str
    shown: Mapping[str, Any] = field(default_factory=dict)
    status: int = 200


@dataclass(frozen=True, slots=True)
class Redirect:
    """To another page of the console, with a line to show there once."""

    to: str
    notice: str = ""


@dataclass(frozen=True, slots=True)
class EventStream:
    """Server-sent events: (event, data) until the person leaves; data is one line."""

    events: AsyncIterator[tuple[str, str]]


Answered = View | Redirect | EventStream


class Page(NamedTuple):
    """A page at a path such as `/keys/{key_id}`, GET to be seen or POST to do something, and who may."""

    method: str
    path: str
    roles: frozenset[Role.ValueType]
    answer: Callable[[Visit], Awaitable[Answered]]
