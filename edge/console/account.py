"""What everybody does here whatever their role: sign in, sign out, change the password."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from aiohttp import web

from edge.console.answers import Answers, is_own_path
from edge.console.forms import Form, check_sender, read_form
from edge.console.sessions import CONSOLE, NewServices, Sessions, Visitor
from edge.console.settings import ConsoleSettings
from edge.console.sign_in_queue import SignInQueue
from edge.console.source import source_of
from edge.console.visit import Redirect, View
from edge.errors import Refusal
from workflow_api.v1.sessions_pb2 import ChangePasswordRequest, SignInRequest, SignOutRequest

SIGN_IN: Final = "/sign-in"
SIGN_OUT: Final = "/sign-out"
PASSWORD: Final = "/password"  # noqa: S105 - a path

_SHORTEST_PASSWORD: Final = 12
_LONGEST_NEXT: Final = 2_000
# What is said on the form itself; anything else is a page of its own.
_SAID_ON_FORM: Final = frozenset({"unauthorized", "invalid_request", "rate_limited"})


class Account:
    """The pages of the account."""

    def __init__(self, settings: ConsoleSettings, sessions: Sessions, answers: Answers) -> None:
        self._settings = settings
        self._sessions = sessions
        self._answers = answers
        self._queue = SignInQueue()

    def stop(self) -> None:
        """Refuse sign-ins that still wait."""
        self._queue.close()

    async def sign_in_form(self, request: web.Request, visitor: Visitor, _: NewServices) -> web.Response:
        """Return the form, or the way on for who has signed in already."""
        then = _next(request.query.get("next", ""))
        if visitor.user is not None:
            return self._answers.redirect(visitor, Redirect(then))
        return self._sign_in(request, visitor, then=then)

    async def sign_in(self, request: web.Request, visitor: Visitor, services: NewServices) -> web.Response:
        """Begin a session."""
        form = await self._form(request, visitor)
        name, then = _first(form, "name").strip().lower(), _next(_first(form, "next"))
        address = source_of(request, self._settings.client_address)
        asked = SignInRequest(name=name, password=_first(form, "password"), address=address)
        try:
            session = await self._queue.run(address, lambda: services(CONSOLE).call("SessionsService/SignIn", asked))
        except Refusal as refusal:
            if refusal.code not in _SAID_ON_FORM:
                raise
            wrong = "The name or the password is not right."
            error = wrong if refusal.code == "unauthorized" else _worded(refusal)
            return self._sign_in(request, visitor, name=name, then=then, error=error, refusal=refusal)
        if visitor.user is not None:
            # Whoever has just signed in is not kept out by a session that could not be ended.
            with suppress(Refusal):
                await services(visitor.actor).call("SessionsService/SignOut", SignOutRequest(token=visitor.secret))
        to = PASSWORD if session.user.password_is_temporary else then
        response = self._answers.redirect(visitor, Redirect(to))
        self._sessions.begin(response, session.token)
        return response

    async def sign_out(self, request: web.Request, visitor: Visitor, services: NewServices) -> web.Response:
        """End the session."""
        # Who has none may not be asked by another site either: their browser has kept the session's cookie back.
        check_sender(request, self._settings)
        response = self._answers.redirect(visitor, Redirect(SIGN_IN))
        if visitor.user is not None:
            await self._form(request, visitor)
            await services(visitor.actor).call("SessionsService/SignOut", SignOutRequest(token=visitor.secret))
        self._sessions.end(response, "You have signed out.")
        return response

    async def password_form(self, request: web.Request, visitor: Visitor, _: NewServices) -> web.Response:
        """Return the form for another password."""
        return self._password(request, visitor)

    async def password(self, request: web.Request, visitor: Visitor, services: NewServices) -> web.Response:
        """Change the password."""
        form = await self._form(request, visitor)
        new = _first(form, "new_password")
        if new != _first(form, "again"):
            return self._password(request, visitor, errors={"again": "This is not the same as the new password."})
        address = source_of(request, self._settings.client_address)
        asked = ChangePasswordRequest(
            token=visitor.secret, password=_first(form, "password"), new_password=new, address=address
        )
        calls = services(visitor.actor)
        try:
            await self._queue.run(address, lambda: calls.call("SessionsService/ChangePassword", asked))
        except Refusal as refusal:
            if refusal.code == "unauthorized":  # the session has ended meanwhile
                return self._answers.redirect(visitor, Redirect(SIGN_IN))
            if refusal.code not in _SAID_ON_FORM:
                raise
            return self._password(request, visitor, errors=_errors(refusal), refusal=refusal)
        return self._answers.redirect(
            visitor, Redirect("/", "Your password is changed, and your other sessions ended.")
        )

    async def _form(self, request: web.Request, visitor: Visitor) -> Form:
        check_sender(request, self._settings)
        return await read_form(request, visitor.secret, self._settings)

    def _sign_in(
        self,
        request: web.Request,
        visitor: Visitor,
        *,
        name: str = "",
        then: str,
        error: str = "",
        refusal: Refusal | None = None,
    ) -> web.Response:
        # A page of who had a session, and signs in as somebody else, has no navigation of theirs.
        return self._said(request, visitor, View("sign_in.html", {"name": name, "next": then, "error": error}), refusal)

    def _password(
        self,
        request: web.Request,
        visitor: Visitor,
        *,
        errors: Mapping[str, str] | None = None,
        refusal: Refusal | None = None,
    ) -> web.Response:
        assert visitor.user is not None
        shown = {
            "errors": {"password": "", "new_password": "", "again": "", "form": "", **(errors or {})},
            "temporary": visitor.user.password_is_temporary,
            "shortest": _SHORTEST_PASSWORD,
        }
        return self._said(request, visitor, View("password.html", shown, 400 if errors else 200), refusal)

    def _said(self, request: web.Request, visitor: Visitor, view: View, refusal: Refusal | None) -> web.Response:
        if refusal is None:
            return self._answers.view(request, visitor, view)
        response = self._answers.view(request, visitor, View(view.template, view.shown, refusal.status))
        if refusal.retry_after:
            response.headers["Retry-After"] = str(refusal.retry_after)
        return response


def sign_in_address(request: web.Request) -> str:
    """Return where to sign in first, and come back from."""
    query = request.rel_url.with_query({"next": _next(request.raw_path)}).raw_query_string
    return f"{SIGN_IN}?{query}"


def _next(path: str) -> str:
    """Return a path of this console that a person asked for; the overview for anything else."""
    own = is_own_path(path) and len(path) <= _LONGEST_NEXT
    return path if own and path.partition("?")[0] not in {SIGN_IN, SIGN_OUT} else "/"


def _first(form: Form, name: str) -> str:
    """Return a field as it was typed: blanks may be a part of a password."""
    return form.get(name, ("",))[0]


def _worded(refusal: Refusal) -> str:
    problems: Any = refusal.details if isinstance(refusal.details, list) else ()
    said = [refusal.message, *(f"{problem['name']}: {problem['reason']}." for problem in problems)]
    if refusal.retry_after:
        said.append(f"Try again in {refusal.retry_after} seconds.")
    return " ".join(said)


def _errors(refusal: Refusal) -> Mapping[str, str]:
    problems: Any = refusal.details if isinstance(refusal.details, list) else ()
    named = {problem["name"]: problem["reason"] for problem in problems}
    return named if named.keys() & {"password", "new_password"} else {"form": _worded(refusal)}
