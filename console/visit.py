"""Types of page handlers: `Visit`, the request of a signed-in user, and the results of a page."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from typing import Any, Final, NamedTuple, Protocol

from google.protobuf.message import Message

from contract.call_trials import CheckOutcome, TrialCall
from contract.channel import Messages
from contract.roles import EVERYBODY, may, roles_of
from contract.routes import RouteTable
from workflow_api.v1.edge_pb2 import KeyMirror, MirroredKey
from workflow_api.v1.users_pb2 import Role, User

ALL_ROLES: Final = EVERYBODY
ADMINISTRATORS: Final = roles_of("UsersService/ListUsers")
OPERATORS: Final = roles_of("RunsService/StartRun")
DECIDERS: Final = roles_of("RunsService/DecideApproval")
ONLOOKERS: Final = roles_of("DeploymentService/GetDeployment")
"""Roles that see the state of the deployment."""


class UserServices(Protocol):
    """The backend's services, called in the name of the user."""

    async def call(self, rpc: str, request: Message) -> Any:
        """Returns the answer of a unary RPC, named as `KeysService/ListKeys`.

        Raises:
            Refusal: as the service refused; 502 where the backend cannot be reached.
        """
        ...

    def stream(self, rpc: str, request: Message, seconds: float) -> Messages:
        """Returns the messages of a streaming RPC; closing the iterator ends the RPC.

        `seconds` bounds the wait for each message. Raises as `call` does.
        """
        ...


class TryCall(Protocol):
    """Dry run of the API's admission checks."""

    def __call__(
        self, call: TrialCall, key: MirroredKey, mirror: KeyMirror, routes: RouteTable
    ) -> Awaitable[Sequence[CheckOutcome]]:
        """Returns the outcomes of the checks for a call with the key's right credentials, up to the first refusal.

        `mirror` gives the flags of the deployment, and `routes` the routes of the API.
        """
        ...


@dataclass(frozen=True, slots=True)
class Visit:
    """The request for a page.

    Attributes:
        user: The user who has signed in.
        services: The services, called in the user's name.
        path: Values of the names in braces in the page's path, decoded.
        query: The first value of each query parameter.
        form: All values of each field of the submitted form, whose token has been checked.
        refused_files: Reasons for refused files of the form, by field.
        refresh: Whether an open page refreshes itself, which replaces only elements with `data-live`.
        queries: All values of the query parameters that the page takes several times.
        try_call: Dry run of calls of the API.
        zone: The time zone of the user's browser.
    """

    user: User
    services: UserServices
    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    form: Mapping[str, Sequence[str]] = field(default_factory=dict)
    refused_files: Mapping[str, str] = field(default_factory=dict)
    refresh: bool = False
    queries: Mapping[str, Sequence[str]] = field(default_factory=dict, kw_only=True)
    try_call: TryCall = field(kw_only=True)
    zone: tzinfo = field(default=UTC, kw_only=True)

    def may(self, rpc: str) -> bool:
        """Returns whether the user's role allows an RPC, named as `RunsService/StartRun`."""
        return may(self.user, rpc)

    def sent(self, name: str) -> str:
        """Returns a field of the form without blanks around it; empty where it was not sent."""
        values = self.form.get(name, ())
        return values[0].strip() if values else ""


@dataclass(frozen=True, slots=True)
class View:
    """A page to render: a template below `templates/`, which extends `page.html`, and its context.

    `once` marks a page that alone shows a new secret, so that its form is never handled again. `changed` marks the
    answer of a form that changed something: a repetition gets this answer for a minute.
    """

    template: str
    context: Mapping[str, Any] = field(default_factory=dict)
    status: int = 200
    once: bool = False
    changed: bool = False


@dataclass(frozen=True, slots=True)
class Redirect:
    """A redirect to another page of the console, and a notice to show there once, with a link as label and address."""

    to: str
    notice: str = ""
    link: tuple[str, str] = field(default=("", ""), kw_only=True)


@dataclass(frozen=True, slots=True)
class PageEvents:
    """Server-sent events as (event, data), until the browser disconnects; data is one line."""

    events: AsyncIterator[tuple[str, str]]


class Parts(Protocol):
    """Chunks of bytes; `aclose` closes their source."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Returns this iterator."""
        ...

    async def __anext__(self) -> bytes:
        """Returns the next chunk."""
        ...

    async def aclose(self) -> None:
        """Closes the source."""
        ...


@dataclass(frozen=True, slots=True)
class FileDownload:
    """A file for the browser, which saves it or, with `inline`, shows it in a page.

    `length` is None if unknown before the end.
    """

    parts: Parts
    file_name: str
    media_type: str
    length: int | None = None
    inline: bool = False


PageResult = View | Redirect | PageEvents | FileDownload


class Page(NamedTuple):
    """A page: its method, its path such as `/keys/{key_id}`, the roles that may use it, and its handler.

    With `takes_files` its form may have files, which are staged before the handler is called; the form's field `upload`
    then names the upload. Fields and query parameters in `repeated_fields` may be sent more than once. A
    form that repeats another field is refused; of another parameter the first value counts.
    """

    method: str
    path: str
    roles: frozenset[Role.ValueType]
    handler: Callable[[Visit], Awaitable[PageResult]]
    takes_files: bool = False
    repeated_fields: frozenset[str] = frozenset()
