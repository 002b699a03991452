"""Second step of a sign-in after the password: a passkey or a recovery code.

The page's form is answered by the redirect that starts the session.
"""

from contextlib import suppress
from typing import Final

from aiohttp import web

from console.account.sign_in_queue import SignInQueue
from console.forms.urlencoded import SMALL_BYTES, Form, check_sender, read_form
from console.http.protection import source_of
from console.responses import Responses, is_own_path
from console.sessions import CONSOLE, NewServices, Sessions, Visitor
from console.settings import ConsoleSettings
from console.visit import Redirect, View
from contract.addresses import plain_address
from contract.refusals import Refusal
from workflow_api.v1.passkeys_pb2 import BeginPasskeySignInRequest, FinishPasskeySignInRequest, PasskeyAnswer
from workflow_api.v1.sessions_pb2 import Session, SignOutRequest

SIGN_IN: Final = "/sign-in"
PASSWORD: Final = "/password"  # noqa: S105 - a path
PASSKEYS: Final = "/passkeys"
SECOND: Final = "/sign-in/passkey"

_SHOWN: Final = frozenset({"unauthorized", "invalid_request", "rate_limited"})


class SecondFactor:
    """Handlers of the page for the second step."""

    def __init__(self, settings: ConsoleSettings, sessions: Sessions, responses: Responses, queue: SignInQueue) -> None:
        self._settings = settings
        self._sessions = sessions
        self._responses = responses
        self._queue = queue

    async def form(self, request: web.Request, visitor: Visitor, services: NewServices) -> web.Response:
        """Returns the page that asks for the passkey."""
        return await self._form(request, visitor, services, request.query.get("next", "/"))

    async def finish(self, request: web.Request, visitor: Visitor, services: NewServices) -> web.Response:
        """Starts the session."""
        check_sender(request, self._settings)
        form = await read_form(request, visitor.secret, self._settings, most_bytes=SMALL_BYTES)
        next_path = form.get("next", ("/",))[0]
        address = source_of(request, self._settings.client_address)
        finish = FinishPasskeySignInRequest(
            pending_token=self._sessions.pending(request) or "-",
            answer=passkey_answer(request, form, self._settings),
            recovery_code=form.get("recovery_code", ("",))[0].strip()[:100],
            address=address,
        )
        try:
            session = await self._queue.run(
                address, lambda: services(CONSOLE).call("PasskeysService/FinishPasskeySignIn", finish)
            )
        except Refusal as refusal:
            if refusal.code not in _SHOWN:
                raise
            return await self._form(request, visitor, services, next_path, refusal)
        return await begin_session(self._sessions, self._responses, visitor, services, session, next_path)

    async def _form(
        self,
        request: web.Request,
        visitor: Visitor,
        services: NewServices,
        next_path: str,
        refusal: Refusal | None = None,
    ) -> web.Response:
        asked = BeginPasskeySignInRequest(
            pending_token=self._sessions.pending(request) or "-", host=passkey_host(request)
        )
        try:
            options = await services(CONSOLE).call("PasskeysService/BeginPasskeySignIn", asked)
        except Refusal as gone:
            if gone.code != "unauthorized":
                raise
            response = self._responses.redirect(visitor, Redirect(SIGN_IN, "Sign in again: this took too long."))
            self._sessions.end_pending(response)
            return response
        context = {
            "options": options.options_json,
            "hosts": list(options.hosts),
            "next": next_path if is_own_path(next_path) else "/",
            "error": "" if refusal is None else refusal.message,
        }
        status = 200 if refusal is None else refusal.status
        response = self._responses.view(request, visitor, View("second_factor.html", context, status))
        if refusal is not None and refusal.retry_after:
            response.headers["Retry-After"] = str(refusal.retry_after)
        return response


async def begin_session(
    sessions: Sessions,
    responses: Responses,
    visitor: Visitor,
    services: NewServices,
    session: Session,
    next_path: str,
) -> web.Response:
    """Returns the redirect after a sign-in, with the session's cookie, to a page that the person may open."""
    if visitor.user is not None:
        # The sign-in succeeds even where the visitor's former session cannot be ended.
        with suppress(Refusal):
            await services(visitor.actor).call("SessionsService/SignOut", SignOutRequest(token=visitor.secret))
    user = session.user
    to = PASSWORD if user.password_is_temporary else PASSKEYS if user.needs_passkey else next_path
    response = responses.redirect(visitor, Redirect(to if is_own_path(to) else "/"))
    sessions.end_pending(response)
    sessions.begin(response, session.token)
    return response


def passkey_host(request: web.Request) -> str:
    """Returns the host name of a request, whose header was checked; empty for an IP address: passkeys need a name."""
    given = request.host.lower()
    host = given.rpartition("]")[0].removeprefix("[") if given.startswith("[") else given.partition(":")[0].rstrip(".")
    return "" if plain_address(host) else host


def passkey_answer(request: web.Request, form: Form, settings: ConsoleSettings) -> PasskeyAnswer | None:
    """Returns the passkey's answer in a form, with the origin to verify it for; None without an answer."""
    response = form.get("response", ("",))[0]
    if not response:
        return None
    origin = f"{'https' if settings.https else 'http'}://{request.host.lower()}"
    return PasskeyAnswer(response_json=response, origin=origin, host=passkey_host(request))
