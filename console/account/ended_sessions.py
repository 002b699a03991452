"""Keeps forms that arrive after their session ended, and fills them in again once the same person has signed in."""

from http import HTTPStatus
from typing import Final

from aiohttp import web
from yarl import URL

from console.account.sign_in import sign_in_address
from console.forms.kept_forms import SECONDS, KeptForms, refilled
from console.forms.multipart import has_files, read_file_form
from console.forms.urlencoded import Form, check_sender, closing, read_form
from console.responses import REFRESH, Responses, own_referrer
from console.sessions import Sessions, Visitor
from console.settings import ConsoleSettings
from console.visit import Page, View

_NOBODY: Final = Visitor("")
_FILLED_IN_NOTICE: Final = "You have signed in again. The form is as you sent it; nothing was done yet."


class EndedSessions:
    """Keeper of forms whose sessions have ended."""

    def __init__(self, settings: ConsoleSettings, sessions: Sessions, responses: Responses) -> None:
        self._settings = settings
        self._sessions = sessions
        self._responses = responses
        self._forms = KeptForms()

    async def keep(self, request: web.Request, page: Page) -> web.Response:
        """Keeps the form of a request without a session; returns the redirect to the sign-in, which leads to the page.

        Raises:
            HTTPException: the owner of the session is unknown, or the body is no form or too large.
        """
        ended = self._sessions.ended(request)
        if ended is None or (request.content_length or 0) > self._settings.form_bytes:
            raise closing(web.HTTPUnauthorized())
        visitor, owner = ended
        check_sender(request, self._settings)
        if page.takes_files and has_files(request):
            form, _ = await read_file_form(request, visitor.secret, self._settings, None, page.repeated_fields)
        else:
            form = await read_form(request, visitor.secret, self._settings, page.repeated_fields)
        to = _page_of_form(request, form)
        name = self._forms.keep(owner, to, request.path, form)
        if not name:
            raise web.HTTPUnauthorized
        view = View("session_ended.html", {"sign_in": sign_in_address(to)}, HTTPStatus.UNAUTHORIZED)
        response = self._responses.view(request, _NOBODY, view)
        self._sessions.keep_form(response, name, SECONDS)
        return response

    def view(self, request: web.Request, visitor: Visitor, view: View) -> web.Response:
        """Returns a page as `Responses.view`, filled in with the form that was kept for this person and page."""
        name = self._sessions.kept_form(request)
        form = None
        if name and request.method == "GET" and REFRESH not in request.headers and visitor.user is not None:
            form = self._forms.take(name, visitor.user.name, request.rel_url.raw_path_qs)
        if form is None:
            return self._responses.view(request, visitor, view)
        response = self._responses.view(request, visitor, view, _FILLED_IN_NOTICE)
        response.text = refilled(response.text or "", form)
        self._sessions.forget_form(response)
        return response


def _page_of_form(request: web.Request, form: Form) -> str:
    """Returns the address of the page that a form was sent from, else the path that it was sent to."""
    referrer = own_referrer(request)
    # A form that was shown again with problems stands on the address that it was sent to, which has no query.
    if referrer and referrer != request.rel_url.raw_path:
        return referrer
    # Only the address of the form's page names the earlier run whose inputs fill a start.
    earlier = {"run": form["run"][0]} if form.get("run") else {}
    return URL.build(path=request.path, query=earlier).raw_path_qs
