"""Account pages, for every role: sign in, sign out, change the password."""

from collections.abc import Mapping
from typing import Any, Final

from aiohttp import web
from yarl import URL

from console.account.provider_sign_in import MAX_NEXT_CHARS, own_address, provider_label
from console.account.second_factor import SECOND, SIGN_IN, begin_session
from console.account.sign_in_queue import SignInQueue
from console.forms.urlencoded import SMALL_BYTES, Form, check_sender, read_form
from console.http.protection import source_of
from console.responses import Responses, is_own_path
from console.sessions import CONSOLE, SIGN_OUT, NewServices, Sessions, Visitor
from console.settings import ConsoleSettings
from console.visit import Redirect, View
from contract.fields import rules_of
from contract.refusals import Refusal
from workflow_api.v1.sessions_pb2 import ChangePasswordRequest, SignInRequest, SignOutRequest

SIGNED_OUT: Final = "/signed-out"
"""Page to which the identity provider sends browsers after the sign-out at the provider."""

_NOBODY: Final = Visitor("")
_MIN_PASSWORD_CHARS: Final = rules_of(ChangePasswordRequest.DESCRIPTOR.fields_by_name["new_password"]).min_length
# Refusals that the form shows; any other has a page of its own.
_SHOWN_ON_FORM: Final = frozenset({"unauthorized", "invalid_request", "rate_limited"})


class Account:
    """Handlers of the account pages."""

    def __init__(self, settings: ConsoleSettings, sessions: Sessions, responses: Responses, queue: SignInQueue) -> None:
        self._settings = settings
        self._sessions = sessions
        self._responses = responses
        self._queue = queue

    async def sign_in_form(self, request: web.Request, visitor: Visitor, services: NewServices) -> web.Response:
        """Returns the sign-in form, or a redirect for a visitor who has signed in already."""
        next_path = _return_path(request.query.get("next", ""))
        if visitor.user is not None:
            return self._responses.redirect(visitor, Redirect(next_path))
        return self._sign_in(request, visitor, next_path=next_path, provider=await provider_label(services))

    async def sign_in(self, request: web.Request, visitor: Visitor, services: NewServices) -> web.Response:
        """Starts a session by name and password."""
        form = await self._form(request, visitor)
        name, next_path = _value(form, "name").strip().lower(), _return_path(_value(form, "next"))
        address = source_of(request, self._settings.client_address)
        sign_in = SignInRequest(name=name, password=_value(form, "password"), address=address)
        try:
            session = await self._queue.run(address, lambda: services(CONSOLE).call("SessionsService/SignIn", sign_in))
        except Refusal as refusal:
            if refusal.code not in _SHOWN_ON_FORM:
                raise
            wrong = "The name or the password is not right."
            error = wrong if refusal.code == "unauthorized" else _message(refusal)
            provider = await provider_label(services)
            return self._sign_in(
                request, visitor, name=name, next_path=next_path, provider=provider, error=error, refusal=refusal
            )
        if session.pending_token:
            query = URL.build(path=SECOND, query={"next": next_path})
            response = self._responses.redirect(visitor, Redirect(query.raw_path_qs))
            self._sessions.begin_pending(response, session.pending_token)
            return response
        return await begin_session(self._sessions, self._responses, visitor, services, session, next_path)

    async def sign_out(self, request: web.Request, visitor: Visitor, services: NewServices) -> web.Response:
        """Ends the session."""
        # The sender is checked without a session, too: from another site the browser sends no session cookie.
        check_sender(request, self._settings)
        provider_url = ""
        if visitor.user is not None:
            await self._form(request, visitor)
            sign_out = SignOutRequest(
                token=visitor.secret,
                redirect_uri=own_address(request, self._settings, SIGNED_OUT),
                id_token=self._sessions.id_token(request),
            )
            provider_url = (await services(visitor.actor).call("SessionsService/SignOut", sign_out)).provider_url
        # The content security policy lets no form redirect to another site, but a page may.
        response = (
            self._responses.view(request, _NOBODY, View("signed_out.html", {"to": provider_url}))
            if provider_url
            else self._responses.redirect(visitor, Redirect(SIGN_IN))
        )
        self._sessions.end(response, "You have signed out.")
        return response

    async def signed_out(self, request: web.Request, visitor: Visitor, _: NewServices) -> web.Response:
        """Returns the page that the identity provider leads to after the sign-out."""
        if visitor.user is not None:
            return self._responses.redirect(visitor, Redirect("/"))
        return self._responses.view(request, visitor, View("signed_out.html", {"to": ""}))

    async def password_form(self, request: web.Request, visitor: Visitor, _: NewServices) -> web.Response:
        """Returns the form that changes the password."""
        return self._password(request, visitor)

    async def password(self, request: web.Request, visitor: Visitor, services: NewServices) -> web.Response:
        """Changes the password."""
        form = await self._form(request, visitor)
        new = _value(form, "new_password")
        if new != _value(form, "again"):
            return self._password(request, visitor, errors={"again": "This is not the same as the new password."})
        address = source_of(request, self._settings.client_address)
        change = ChangePasswordRequest(
            token=visitor.secret, password=_value(form, "password"), new_password=new, address=address
        )
        calls = services(visitor.actor)
        try:
            await self._queue.run(address, lambda: calls.call("SessionsService/ChangePassword", change))
        except Refusal as refusal:
            if refusal.code == "unauthorized":  # The session has ended meanwhile.
                return self._responses.redirect(visitor, Redirect(SIGN_IN))
            if refusal.code not in _SHOWN_ON_FORM:
                raise
            return self._password(request, visitor, errors=_errors(refusal), refusal=refusal)
        return self._responses.redirect(
            visitor, Redirect("/", "Your password is changed, and your other sessions ended.")
        )

    async def _form(self, request: web.Request, visitor: Visitor) -> Form:
        check_sender(request, self._settings)
        return await read_form(request, visitor.secret, self._settings, most_bytes=SMALL_BYTES)

    def _sign_in(
        self,
        request: web.Request,
        visitor: Visitor,
        *,
        name: str = "",
        next_path: str,
        provider: str,
        error: str = "",
        refusal: Refusal | None = None,
    ) -> web.Response:
        context = {"name": name, "next": next_path, "provider": provider, "error": error}
        return self._form_page(request, visitor, View("sign_in.html", context), refusal)

    def _password(
        self,
        request: web.Request,
        visitor: Visitor,
        *,
        errors: Mapping[str, str] | None = None,
        refusal: Refusal | None = None,
    ) -> web.Response:
        assert visitor.user is not None
        context = {
            "errors": {"password": "", "new_password": "", "again": "", "form": "", **(errors or {})},
            "temporary": visitor.user.password_is_temporary,
            "shortest": _MIN_PASSWORD_CHARS,
        }
        return self._form_page(request, visitor, View("password.html", context, 400 if errors else 200), refusal)

    def _form_page(self, request: web.Request, visitor: Visitor, view: View, refusal: Refusal | None) -> web.Response:
        if refusal is None:
            return self._responses.view(request, visitor, view)
        response = self._responses.view(request, visitor, View(view.template, view.context, refusal.status))
        if refusal.retry_after:
            response.headers["Retry-After"] = str(refusal.retry_after)
        return response


def sign_in_address(path: str) -> str:
    """Returns the address of the sign-in form, which leads back to a page."""
    return URL.build(path=SIGN_IN, query={"next": _return_path(path)}).raw_path_qs


def _return_path(path: str) -> str:
    """Returns a path of this console as requested; the overview for any other address."""
    own = is_own_path(path) and len(path) <= MAX_NEXT_CHARS
    return path if own and path.partition("?")[0] not in {SIGN_IN, SIGN_OUT} else "/"


def _value(form: Form, name: str) -> str:
    """Returns a field as typed: a password may begin or end with blanks."""
    return form.get(name, ("",))[0]


def _message(refusal: Refusal) -> str:
    problems: Any = refusal.details if isinstance(refusal.details, list) else ()
    parts = [refusal.message, *(f"{problem['name']}: {problem['reason']}." for problem in problems)]
    if refusal.retry_after:
        parts.append(f"Try again in {refusal.retry_after} seconds.")
    return " ".join(parts)


def _errors(refusal: Refusal) -> Mapping[str, str]:
    problems: Any = refusal.details if isinstance(refusal.details, list) else ()
    named = {problem["name"]: problem["reason"] for problem in problems}
    return named if named.keys() & {"password", "new_password"} else {"form": _message(refusal)}
