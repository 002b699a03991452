"""Sign-in with an OpenID Connect provider: the redirect to the provider, and the return from it."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from contextlib import suppress
from typing import Final

from aiohttp import web

from console.account.sign_in_queue import SignInQueue
from console.http.protection import source_of
from console.responses import Responses, is_own_path
from console.sessions import CONSOLE, NewServices, Sessions, Visitor
from console.settings import ConsoleSettings
from console.visit import View
from contract.refusals import Refusal
from workflow_api.v1.sessions_pb2 import (
    BeginProviderSignInRequest,
    FinishProviderSignInRequest,
    GetSignInOptionsRequest,
)

PROVIDER: Final = "/sign-in/provider"
RETURN: Final = "/sign-in/provider/return"

MAX_NEXT_CHARS: Final = 2_000
"""Characters of the longest path that a sign-in leads back to."""

_MAX_STATE_CHARS: Final = 100
_MAX_CODE_CHARS: Final = 4_096
_MAX_ISSUER_CHARS: Final = 500
_NOT_BEGUN: Final = "This sign-in was not begun in this browser, or too long ago. Begin again."
_NOT_SIGNED_IN: Final = "The identity provider did not sign you in. Begin again, or ask your administrator."


class ProviderSignIn:
    """Handlers of the addresses that begin and finish a sign-in with the provider."""

    def __init__(self, settings: ConsoleSettings, sessions: Sessions, responses: Responses) -> None:
        self._settings = settings
        self._sessions = sessions
        self._responses = responses
        # A queue of its own: these calls may wait for the provider, and passwords are verified meanwhile.
        self._queue = SignInQueue()

    def stop(self) -> None:
        """Refuses the sign-ins that wait."""
        self._queue.close()

    async def begin(self, request: web.Request, _: Visitor, services: NewServices) -> web.Response:
        """Redirects the browser to the provider, with a cookie that names this sign-in."""
        begun = await self._queue.run(
            source_of(request, self._settings.client_address),
            lambda: services(CONSOLE).call(
                "SessionsService/BeginProviderSignIn",
                BeginProviderSignInRequest(redirect_uri=self._redirect_uri(request)),
            ),
        )
        response = web.Response(status=303, headers={"Location": begun.authorization_url})
        path = request.query.get("next", "/")
        # A browser does not store a longer cookie, so that the return would find no sign-in.
        encoded = urlsafe_b64encode(path.encode()).decode() if is_own_path(path) and len(path) <= MAX_NEXT_CHARS else ""
        self._sessions.begin_attempt(response, f"{begun.attempt}~{encoded}")
        return response

    async def finish(self, request: web.Request, visitor: Visitor, services: NewServices) -> web.Response:
        """Starts a session for the person whom the provider sent back."""
        attempt, _, encoded = self._sessions.attempt(request).partition("~")
        query = {name: request.query.get(name, "") for name in ("state", "code", "iss")}
        bounds = {"state": _MAX_STATE_CHARS, "code": _MAX_CODE_CHARS, "iss": _MAX_ISSUER_CHARS}
        if not attempt or any(len(query[name]) > most for name, most in bounds.items()):
            return self._failed(request, visitor, _NOT_BEGUN)
        if not query["state"] or not query["code"]:
            return self._failed(request, visitor, _NOT_SIGNED_IN)
        address = source_of(request, self._settings.client_address)
        finish = FinishProviderSignInRequest(
            redirect_uri=self._redirect_uri(request),
            attempt=attempt,
            state=query["state"],
            code=query["code"],
            issuer=query["iss"] if "iss" in request.query else None,
            address=address,
        )
        try:
            session = await self._queue.run(
                address, lambda: services(CONSOLE).call("SessionsService/FinishProviderSignIn", finish)
            )
        except Refusal as refusal:
            wait = f" Try again in {refusal.retry_after} seconds." if refusal.retry_after else ""
            return self._failed(request, visitor, f"{refusal.message}{wait}", refusal)
        # After a redirect from another site the browser withholds the session's cookie until our own page leads on.
        response = self._responses.view(request, visitor, View("signed_in.html", {"to": _path(encoded)}))
        self._sessions.end_attempt(response)
        self._sessions.begin(response, session.token)
        self._sessions.keep_id_token(response, session.id_token)
        return response

    def _failed(
        self, request: web.Request, visitor: Visitor, message: str, refusal: Refusal | None = None
    ) -> web.Response:
        status = 400 if refusal is None else refusal.status
        response = self._responses.view(request, visitor, View("provider_refused.html", {"message": message}, status))
        if refusal is not None and refusal.retry_after:
            response.headers["Retry-After"] = str(refusal.retry_after)
        self._sessions.end_attempt(response)
        return response

    def _redirect_uri(self, request: web.Request) -> str:
        return own_address(request, self._settings, RETURN)


def own_address(request: web.Request, settings: ConsoleSettings, path: str) -> str:
    """Returns an absolute address of this console, as registered at the provider."""
    # The host was checked.
    return f"{'https' if settings.https else 'http'}://{request.host}{path}"


async def provider_label(services: NewServices) -> str:
    """Returns the text of the button to the provider; empty without a provider."""
    with suppress(Refusal):
        options = await services(CONSOLE).call("SessionsService/GetSignInOptions", GetSignInOptionsRequest())
        return str(options.provider_label)
    return ""


def _path(encoded: str) -> str:
    """Returns the path that the visitor asked for before the sign-in."""
    try:
        path = urlsafe_b64decode(encoded).decode()
    except ValueError:
        return "/"
    return path if is_own_path(path) else "/"
