"""Identifies visitors by cookies, and sets the console's cookies; sessions are stored in the backend."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from secrets import token_urlsafe
from typing import Any, Final, Literal

from aiohttp import web
from google.protobuf.message import Message

from console.http.protection import open_notice, seal_notice
from console.settings import ConsoleSettings
from console.visit import UserServices
from contract import metadata
from contract.channel import Channel, Messages, Metadata
from contract.refusals import Refusal
from workflow_api.v1.sessions_pb2 import GetSessionRequest
from workflow_api.v1.users_pb2 import User

NewServices = Callable[[str], UserServices]
"""Creates the services of one request for an actor, whom the audit names."""

CONSOLE: Final = "console"
"""Actor of calls that no user makes."""

SIGN_OUT: Final = "/sign-out"

_MAX_SECRET_CHARS: Final = 200
# A browser keeps 4,096 bytes of a cookie's name, value and attributes.
_MAX_COOKIE_CHARS: Final = 3_800
_NOTICE_SECONDS: Final = 60
_PENDING_SECONDS: Final = 300
_ATTEMPT_SECONDS: Final = 600
_MOST_OWNERS: Final = 1_000
_NO_SESSION: Final = frozenset({"unauthorized", "invalid_request"})

PERSON: Final = "user:"
"""Prefix of a signed-in person's actor; the name follows."""

_PACKAGE: Final = "/workflow_api.v1."
_LONG_SECONDS: Final = {
    "UploadsService/FinishUploadedFile": 300.0,
    "RunsService/ResumeRun": 300.0,
    "WorkflowsService/ApplyManifests": 90.0,
}
"""Longer deadlines of calls that expand or copy large files, or resolve the packages of an environment."""


@dataclass(frozen=True, slots=True)
class Visitor:
    """The sender of a request.

    Attributes:
        secret: A value known only to the visitor's browser and this console: the session's token, before the sign-in
            a random value for form tokens, empty before the first page.
        user: The user who has signed in, if any.
        waiting: Number of approvals that wait; None where the user decides none, or it is not known.
    """

    secret: str
    user: User | None = None
    waiting: int | None = None

    @property
    def actor(self) -> str:
        """Actor that the audit names."""
        return CONSOLE if self.user is None else f"{PERSON}{self.user.name}"


class Sessions:
    """Reads and sets the console's cookies."""

    def __init__(self, settings: ConsoleSettings) -> None:
        # Browsers accept cookies with this prefix only over https and from this host itself.
        prefix = "__Host-" if settings.https else ""
        self._secure = settings.https
        self._at_provider = "__Secure-at-provider" if settings.https else "at-provider"
        names = ("session", "visitor", "notice", "attempt", "pending", "form")
        self._session, self._visitor, self._notice, self._attempt, self._pending, self._form = (
            f"{prefix}{name}" for name in names
        )
        # Names of people with recent sessions in this process, by the digests of their tokens.
        self._owners: OrderedDict[bytes, str] = OrderedDict()

    async def visitor(self, request: web.Request, services: NewServices, *, automatic: bool = False) -> Visitor:
        """Returns the sender of a request; an `automatic` one, which no person made, is no use of the session.

        Raises:
            Refusal: the backend cannot look up the session.
        """
        token = self._cookie(request, self._session)
        if token:
            try:
                asked = GetSessionRequest(token=token, automatic=automatic)
                session = await services(CONSOLE).call("SessionsService/GetSession", asked)
            except Refusal as refusal:
                if refusal.code not in _NO_SESSION:
                    raise
            else:
                self._remember(token, session.user.name)
                return Visitor(token, session.user)
        return Visitor(self._cookie(request, self._visitor))

    def ended(self, request: web.Request) -> tuple[Visitor, str] | None:
        """Returns the visitor of the browser's ended session, and the name of its user; None if unknown."""
        token = self._cookie(request, self._session)
        name = self._owners.get(_digest(token), "") if token else ""
        return (Visitor(token), name) if name else None

    def keep_form(self, response: web.StreamResponse, name: str, seconds: int) -> None:
        """Sets the cookie that names a form waiting for a sign-in."""
        self._set(response, self._form, name, seconds=seconds)

    def kept_form(self, request: web.Request) -> str:
        """Returns the name of the form that waits for a sign-in; empty without one."""
        return self._cookie(request, self._form)

    def forget_form(self, response: web.StreamResponse) -> None:
        """Forgets the form that waits for a sign-in."""
        self._delete(response, self._form)

    def begin(self, response: web.StreamResponse, token: str) -> None:
        """Sets the cookie of a new session."""
        self._set(response, self._session, token)
        self._delete(response, self._visitor)

    def end(self, response: web.StreamResponse, notice: str) -> None:
        """Deletes the session's cookies, and sets a notice for the next page."""
        self._delete(response, self._session)
        self._delete(response, self._at_provider, SIGN_OUT)
        self.set_notice(response, self.new_visitor(response), notice)

    def new_visitor(self, response: web.StreamResponse) -> Visitor:
        """Gives a browser without a secret a new one, which protects its forms before the sign-in."""
        visitor = Visitor(token_urlsafe(32))
        self._set(response, self._visitor, visitor.secret)
        return visitor

    def set_notice(self, response: web.StreamResponse, visitor: Visitor, notice: str) -> None:
        """Sets a notice that the visitor's next page shows once."""
        self._set(response, self._notice, seal_notice(visitor.secret, notice), seconds=_NOTICE_SECONDS)

    def notice(self, request: web.Request, visitor: Visitor) -> str:
        """Returns the pending notice of a visitor; empty where there is none."""
        return open_notice(visitor.secret, request.cookies.get(self._notice, "")) if visitor.secret else ""

    def clear_notice(self, response: web.StreamResponse) -> None:
        """Deletes the pending notice."""
        self._delete(response, self._notice)

    def begin_attempt(self, response: web.StreamResponse, value: str) -> None:
        """Sets the cookie of a sign-in with the identity provider, for the browser's return from the provider."""
        self._set(response, self._attempt, value, seconds=_ATTEMPT_SECONDS, same_site="Lax")

    def attempt(self, request: web.Request) -> str:
        """Returns the sign-in with the identity provider that this browser began; empty without one."""
        return self._cookie(request, self._attempt, _MAX_COOKIE_CHARS)

    def end_attempt(self, response: web.StreamResponse) -> None:
        """Forgets the sign-in with the identity provider."""
        self._delete(response, self._attempt)

    def keep_id_token(self, response: web.StreamResponse, token: str) -> None:
        """Keeps the ID token of a new session for the sign-out at the provider, if short enough for a cookie."""
        if 0 < len(token) <= _MAX_COOKIE_CHARS:
            self._set(response, self._at_provider, token, path=SIGN_OUT)
        else:
            self._delete(response, self._at_provider, SIGN_OUT)

    def id_token(self, request: web.Request) -> str:
        """Returns the kept ID token of the session; empty without one."""
        return self._cookie(request, self._at_provider, _MAX_COOKIE_CHARS)

    def begin_pending(self, response: web.StreamResponse, token: str) -> None:
        """Sets the cookie of a sign-in whose password was right, for the passkey that follows."""
        self._set(response, self._pending, token, seconds=_PENDING_SECONDS)

    def pending(self, request: web.Request) -> str:
        """Returns the token of the sign-in that waits for a passkey; empty without one."""
        return self._cookie(request, self._pending)

    def end_pending(self, response: web.StreamResponse) -> None:
        """Forgets the sign-in that waits for a passkey."""
        self._delete(response, self._pending)

    def _remember(self, token: str, name: str) -> None:
        digest = _digest(token)
        self._owners[digest] = name
        self._owners.move_to_end(digest)
        while len(self._owners) > _MOST_OWNERS:
            self._owners.popitem(last=False)

    def _cookie(self, request: web.Request, name: str, longest: int = _MAX_SECRET_CHARS) -> str:
        """Returns a cookie's value; empty if longer than `longest` or not ASCII."""
        value = request.cookies.get(name, "")
        return value if len(value) <= longest and value.isascii() else ""

    def _set(
        self,
        response: web.StreamResponse,
        name: str,
        value: str,
        *,
        seconds: int | None = None,
        same_site: Literal["Strict", "Lax"] = "Strict",
        path: str = "/",
    ) -> None:
        response.set_cookie(
            name, value, max_age=seconds, path=path, secure=self._secure, httponly=True, samesite=same_site
        )

    def _delete(self, response: web.StreamResponse, name: str, path: str = "/") -> None:
        response.del_cookie(name, path=path, secure=self._secure, httponly=True, samesite="Strict")


class ChannelServices:
    """`UserServices` over a channel, for one request; the audit names `actor`."""

    def __init__(self, channel: Channel, actor: str, request_id: str, seconds: float) -> None:
        self._channel = channel
        person = actor.removeprefix(PERSON) if actor.startswith(PERSON) else ""
        self._metadata: Metadata = (
            (metadata.ACTOR, metadata.encode_actor(actor)),
            (metadata.PERSON, person),
            (metadata.REQUEST_ID, request_id),
        )
        self._seconds = seconds

    async def call(self, rpc: str, request: Message) -> Any:
        """Returns the answer of a unary RPC; see `UserServices`."""
        return await self._channel.unary(_PACKAGE + rpc, request, self._metadata, _LONG_SECONDS.get(rpc, self._seconds))

    def stream(self, rpc: str, request: Message, seconds: float) -> Messages:
        """Returns the messages of a streaming RPC; see `UserServices`."""
        return self._channel.stream(_PACKAGE + rpc, request, self._metadata, seconds)


def _digest(token: str) -> bytes:
    return sha256(token.encode()).digest()
