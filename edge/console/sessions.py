"""Who a request comes from, by its cookies; what they stand for is kept by the backend alone."""

from collections.abc import Callable
from dataclasses import dataclass
from secrets import token_urlsafe
from typing import Final

from aiohttp import web

from edge.console.settings import ConsoleSettings
from edge.console.tokens import open_notice, seal_notice
from edge.console.visit import Services
from edge.errors import Refusal
from workflow_api.v1.sessions_pb2 import GetSessionRequest
from workflow_api.v1.users_pb2 import User

NewServices = Callable[[str], Services]
"""Makes the services of one request, for who is to stand in the audit."""

CONSOLE: Final = "console"
"""Stands in the audit for what is done in nobody's name."""

_LONGEST_SECRET: Final = 200
_NOTICE_SECONDS: Final = 60
_NO_SESSION: Final = frozenset({"unauthorized", "invalid_request"})


@dataclass(frozen=True, slots=True)
class Visitor:
    """Whoever sent a request.

    Attributes:
        secret: What only their browser and this console know: the session's token, before the sign-in a value of no
            other use, and before the first page nothing.
        user: Who has signed in, if anybody.
    """

    secret: str
    user: User | None = None

    @property
    def actor(self) -> str:
        """Who stands in the audit."""
        return CONSOLE if self.user is None else f"user:{self.user.name}"


class Sessions:
    """The cookies of the console."""

    def __init__(self, settings: ConsoleSettings) -> None:
        # A browser takes a name that begins so from this very host only, and over https only.
        prefix = "__Host-" if settings.https else ""
        self._secure = settings.https
        self._session, self._visitor, self._notice = (f"{prefix}{name}" for name in ("session", "visitor", "notice"))

    async def visitor(self, request: web.Request, services: NewServices) -> Visitor:
        """Return who sent a request.

        Raises:
            Refusal: the backend cannot tell.
        """
        token = self._cookie(request, self._session)
        if token:
            try:
                session = await services(CONSOLE).call("SessionsService/GetSession", GetSessionRequest(token=token))
            except Refusal as refusal:
                if refusal.code not in _NO_SESSION:
                    raise
            else:
                return Visitor(token, session.user)
        return Visitor(self._cookie(request, self._visitor))

    def begin(self, response: web.StreamResponse, token: str) -> None:
        """Hand a browser its session."""
        self._set(response, self._session, token)
        self._forget(response, self._visitor)

    def end(self, response: web.StreamResponse, notice: str) -> None:
        """Take a browser's session back, and leave a line for the next page."""
        self._forget(response, self._session)
        self.leave_notice(response, self.meet(response), notice)

    def meet(self, response: web.StreamResponse) -> Visitor:
        """Give a browser that has nothing a secret, which its forms before the sign-in are checked against."""
        visitor = Visitor(token_urlsafe(32))
        self._set(response, self._visitor, visitor.secret)
        return visitor

    def leave_notice(self, response: web.StreamResponse, visitor: Visitor, notice: str) -> None:
        """Have the next page of a visitor show a line, once."""
        self._set(response, self._notice, seal_notice(visitor.secret, notice), seconds=_NOTICE_SECONDS)

    def notice(self, request: web.Request, visitor: Visitor) -> str:
        """Return the line that was left for a visitor; empty where there is none."""
        return open_notice(visitor.secret, request.cookies.get(self._notice, "")) if visitor.secret else ""

    def forget_notice(self, response: web.StreamResponse) -> None:
        """Show the line no more."""
        self._forget(response, self._notice)

    def _cookie(self, request: web.Request, name: str) -> str:
        value = request.cookies.get(name, "")
        return value if len(value) <= _LONGEST_SECRET and value.isascii() else ""

    def _set(self, response: web.StreamResponse, name: str, value: str, *, seconds: int | None = None) -> None:
        response.set_cookie(
            name, value, max_age=seconds, path="/", secure=self._secure, httponly=True, samesite="Strict"
        )

    def _forget(self, response: web.StreamResponse, name: str) -> None:
        response.del_cookie(name, path="/", secure=self._secure, httponly=True, samesite="Strict")
