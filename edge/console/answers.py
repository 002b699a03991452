"""HTTP answers of views, redirects and refusals."""

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from aiohttp import web

from edge.console.rendering import Rendering
from edge.console.sessions import Sessions, Visitor
from edge.console.tokens import form_token
from edge.console.visit import Page, Redirect, View
from edge.errors import Refusal

_PLACES: Final = (
    ("/", "Overview"),
    ("/approvals", "Approvals"),
    ("/runs", "Runs"),
    ("/workflows", "Workflows"),
    ("/keys", "Keys"),
    ("/usage", "Usage"),
    ("/deployment", "Deployment"),
    ("/people", "People"),
    ("/audit", "Audit"),
)
_WORDS: Final[Mapping[int, str]] = {
    401: "You have not signed in, or your session has ended. Nothing was done: sign in, and send it again.",
    403: "Your role does not allow this.",
    404: "There is nothing at this address.",
    405: "This address does not take that.",
    500: "Something went wrong here. Tell your administrator the number of the request.",
}


class Place(NamedTuple):
    """An entry of the navigation."""

    path: str
    label: str
    current: bool


class Answers:
    """Makes the answers; `pages` are those that the navigation can lead to."""

    def __init__(self, rendering: Rendering, sessions: Sessions, pages: Iterable[Page]) -> None:
        self._rendering = rendering
        self._sessions = sessions
        self._seen_by = {page.path: page.roles for page in pages if page.method == "GET"}

    def view(self, request: web.Request, visitor: Visitor, view: View) -> web.Response:
        """Return a page; who has no secret yet gets one with it, and a line that was left is shown and forgotten."""
        response = web.Response(status=view.status, content_type="text/html", charset="utf-8")
        if not visitor.secret:
            visitor = self._sessions.meet(response)
        notice = self._sessions.notice(request, visitor)
        if notice:
            self._sessions.forget_notice(response)
        told = {
            **view.shown,
            "user": visitor.user,
            "csrf": form_token(visitor.secret),
            "path": request.path,
            "notice": notice,
            "navigation": self.places(request.path, visitor),
        }
        response.text = self._rendering.page(view.template, told)
        return response

    def redirect(self, visitor: Visitor, redirect: Redirect) -> web.Response:
        """Return the way to another page of the console."""
        assert is_own_path(redirect.to), redirect.to
        response = web.Response(status=303, headers={"Location": redirect.to})
        if redirect.notice:
            self._sessions.leave_notice(response, visitor, redirect.notice)
        return response

    def refusal(self, request: web.Request, visitor: Visitor, refusal: Refusal, request_id: str) -> web.Response:
        """Return the page that says what a service refused."""
        shown: dict[str, Any] = {"message": refusal.message, "problems": (), "details": {}}
        if isinstance(refusal.details, list):
            shown["problems"] = refusal.details
        elif isinstance(refusal.details, dict):
            shown["details"] = refusal.details
        response = self._refused(request, visitor, refusal.status, request_id, **shown, retry_after=refusal.retry_after)
        if refusal.retry_after:
            response.headers["Retry-After"] = str(refusal.retry_after)
        return response

    def failure(
        self, request: web.Request, visitor: Visitor, error: web.HTTPException, request_id: str
    ) -> web.Response:
        """Return the page that says what the console itself refused."""
        said = error.text or ""
        # What aiohttp says by itself are the words of HTTP.
        message = _WORDS.get(error.status, said) if said == f"{error.status}: {error.reason}" else said
        response = self._refused(request, visitor, error.status, request_id, message=message)
        if "Allow" in error.headers:
            response.headers["Allow"] = error.headers["Allow"]
        if error.keep_alive is False:
            response.force_close()
        return response

    def places(self, path: str, visitor: Visitor) -> list[Place]:
        """Return where a visitor may go from a page, in the order of the navigation."""
        if visitor.user is None or visitor.user.password_is_temporary:
            return []
        return [
            Place(to, label, path == to or (to != "/" and path.startswith(f"{to}/")))
            for to, label in _PLACES
            if visitor.user.role in self._seen_by.get(to, ())
        ]

    def _refused(
        self, request: web.Request, visitor: Visitor, status: int, request_id: str, **shown: Any
    ) -> web.Response:
        told = {"problems": (), "details": {}, "retry_after": 0, **shown}
        title = HTTPStatus(status).phrase
        return self.view(
            request,
            visitor,
            View("refused.html", {**told, "title": title, "status": status, "request_id": request_id}, status),
        )


def is_own_path(path: str) -> bool:
    """Return whether a browser that is sent there stays with this console.

    Browsers read a backslash as a slash, and leave out tabs and line ends.
    """
    return path.startswith("/") and path[1:2] not in {"/", "\\"} and all("!" <= c <= "~" and c != "\\" for c in path)
