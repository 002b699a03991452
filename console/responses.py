"""Builds HTTP responses from views, redirects, refusals and errors."""

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from aiohttp import web
from yarl import URL

from console.http.protection import form_token
from console.rendering.documents import help_address
from console.rendering.templates import Rendering
from console.rendering.text import short
from console.rendering.times import zone_named
from console.sessions import Sessions, Visitor
from console.visit import Page, Redirect, View
from contract.refusals import Refusal
from workflow_api.v1.users_pb2 import Preferences, User

_NAVIGATION: Final = (
    ("/", "Overview"),
    ("/approvals", "Approvals"),
    ("/runs", "Runs"),
    ("/workflows", "Workflows"),
    ("/schedules", "Schedules"),
    ("/agents", "Agents"),
    ("/resources", "Resources"),
    ("/keys", "Keys"),
    ("/usage", "Usage"),
    ("/deployment", "Deployment"),
    ("/people", "People"),
    ("/audit", "Audit"),
)
_MESSAGES: Final[Mapping[int, str]] = {
    401: "You have not signed in, or your session has ended. Nothing was done: sign in, and send it again.",
    403: "Your role does not allow this. An administrator can do it, or give you another role.",
    404: "There is nothing at this address. It may have been deleted, or the address has a mistake in it.",
    405: "This address does not support that method.",
    500: "Something went wrong here. Give your administrator the request id below.",
}

# Header that console.js sends when it refreshes an open page.
REFRESH: Final = "X-Refresh"
AUTOMATIC: Final = "automatic"
"""The value of that header where no person asked for the refresh."""


class NavigationEntry(NamedTuple):
    """An entry of the navigation: path, label, and whether the page is in its section."""

    path: str
    label: str
    current: bool


_MOST_NOTICE_CHARS: Final = 300
"""Most characters of a notice's text beside a link, so that the cookie holds both."""


class Notice(NamedTuple):
    """A notice: its text, and a link after it, if any."""

    text: str
    label: str = ""
    address: str = ""

    @classmethod
    def of(cls, sealed: str) -> "Notice | None":
        """Returns the notice that `sealed_text` made the text of; None where there is none."""
        text, _, link = sealed.partition("\n")
        label, _, address = link.partition("\n")
        return cls(text, label, address) if text else None

    def sealed_text(self) -> str:
        """Returns the notice as one text, of which each part is a line."""
        text = " ".join(self.text.split())
        return "\n".join((short(text, _MOST_NOTICE_CHARS), self.label, self.address)) if self.address else text


class Responses:
    """Builds responses; the navigation leads to the GET pages among `pages`."""

    def __init__(self, rendering: Rendering, sessions: Sessions, pages: Iterable[Page]) -> None:
        self._rendering = rendering
        self._sessions = sessions
        self._roles_of = {page.path: page.roles for page in pages if page.method == "GET"}

    def view(self, request: web.Request, visitor: Visitor, view: View, said: str = "") -> web.Response:
        """Returns a page; gives a visitor without a secret a new one, and shows and clears a pending notice.

        A refresh and HEAD leave the notice: a refresh replaces the live elements only, and may come between a redirect
        and its target. The text `said` is shown in place of a notice.
        """
        response = web.Response(status=view.status, content_type="text/html", charset="utf-8")
        if not visitor.secret:
            visitor = self._sessions.new_visitor(response)
        unseen = REFRESH in request.headers or request.method == "HEAD"
        notice = "" if unseen else self._sessions.notice(request, visitor)
        if notice:
            self._sessions.clear_notice(response)
        preferences = Preferences() if visitor.user is None else visitor.user.preferences
        context = {
            **view.context,
            "user": visitor.user,
            "csrf": form_token(visitor.secret),
            "path": request.path,
            "notice": Notice.of(said or notice),
            "navigation": self.navigation(request.path, visitor),
            "preferences": preferences,
            "zone": zone_named(preferences.time_zone),
            "approvals_waiting": visitor.waiting,
            "help": help_address(request.path),
        }
        response.text = self._rendering.page(view.template, context)
        return response

    def redirect(self, visitor: Visitor, redirect: Redirect) -> web.Response:
        """Returns a redirect to another page of the console.

        Raises:
            ValueError: the target is not on this console.
        """
        if not is_own_path(redirect.to):
            raise ValueError(f"a redirect to {redirect.to!r} would leave the console")
        response = web.Response(status=303, headers={"Location": redirect.to})
        if redirect.notice:
            self._sessions.set_notice(response, visitor, Notice(redirect.notice, *redirect.link).sealed_text())
        return response

    def refusal(self, request: web.Request, visitor: Visitor, refusal: Refusal, request_id: str) -> web.Response:
        """Returns the page of a service's refusal."""
        context: dict[str, Any] = {"message": refusal.message, "problems": (), "details": {}}
        if isinstance(refusal.details, list):
            context["problems"] = refusal.details
        elif isinstance(refusal.details, dict):
            context["details"] = refusal.details
        response = self._refused(
            request, visitor, refusal.status, request_id, **context, retry_after=refusal.retry_after
        )
        if refusal.retry_after:
            response.headers["Retry-After"] = str(refusal.retry_after)
        return response

    def failure(
        self, request: web.Request, visitor: Visitor, error: web.HTTPException, request_id: str
    ) -> web.Response:
        """Returns the page of a request that the console itself refused."""
        text = error.text or ""
        # aiohttp's default text is just the name of the status.
        message = _MESSAGES.get(error.status, text) if text == f"{error.status}: {error.reason}" else text
        response = self._refused(request, visitor, error.status, request_id, message=message)
        if "Allow" in error.headers:
            response.headers["Allow"] = error.headers["Allow"]
        if error.keep_alive is False:
            response.force_close()
        return response

    def navigation(self, path: str, visitor: Visitor) -> list[NavigationEntry]:
        """Returns the pages that a visitor may open, in the order of the navigation."""
        if visitor.user is None or not shows_navigation(visitor.user):
            return []
        return [
            NavigationEntry(to, label, path == to or (to != "/" and path.startswith(f"{to}/")))
            for to, label in _NAVIGATION
            if visitor.user.role in self._roles_of.get(to, ())
        ]

    def _refused(
        self, request: web.Request, visitor: Visitor, status: int, request_id: str, **context: Any
    ) -> web.Response:
        defaults = {"problems": (), "details": {}, "retry_after": 0}
        title = HTTPStatus(status).phrase
        return self.view(
            request,
            visitor,
            View(
                "refused.html",
                {**defaults, **context, "title": title, "status": status, "request_id": request_id},
                status,
            ),
        )


def shows_navigation(user: User) -> bool:
    """Returns whether a user may open pages: who must change the password or add a passkey may not yet."""
    return not (user.password_is_temporary or user.needs_passkey)


def own_referrer(request: web.Request) -> str:
    """Returns the path and query of the page of this console that a request was sent from; empty for another's."""
    try:
        referrer = URL(request.headers.get("Referer", ""))
    except ValueError:
        return ""
    own = referrer.authority == request.host and is_own_path(referrer.raw_path_qs)
    return referrer.raw_path_qs if own else ""


def is_own_path(path: str) -> bool:
    """Returns whether a redirect to a path stays on this console.

    Browsers treat a backslash as a slash, and ignore tabs and line ends.
    """
    return path.startswith("/") and path[1:2] not in {"/", "\\"} and all("!" <= c <= "~" and c != "\\" for c in path)
