"""Page of a person's own settings, for every role: the time zone, and links to password and passkeys."""

from typing import Final

from aiohttp import web

from console.forms.urlencoded import check_sender, read_form
from console.rendering.times import zone_names
from console.responses import Responses
from console.sessions import NewServices, Sessions, Visitor
from console.settings import ConsoleSettings
from console.visit import Redirect, View

PREFERENCES: Final = "/preferences"


class Preferences:
    """Handlers of the settings page."""

    def __init__(self, settings: ConsoleSettings, sessions: Sessions, responses: Responses) -> None:
        self._settings = settings
        self._sessions = sessions
        self._responses = responses

    async def form(self, request: web.Request, visitor: Visitor, _: NewServices) -> web.Response:
        """Returns the form with the present settings."""
        return self._form(request, visitor, self._sessions.zone(request))

    async def save(self, request: web.Request, visitor: Visitor, _: NewServices) -> web.Response:
        """Keeps the settings in a cookie of this browser."""
        check_sender(request, self._settings)
        sent = await read_form(request, visitor.secret, self._settings)
        zone = sent.get("zone", ("",))[0]
        if zone not in zone_names():
            return self._form(request, visitor, zone, error="must be one of the list")
        response = self._responses.redirect(visitor, Redirect(PREFERENCES, f"Times are shown in {zone}."))
        self._sessions.set_zone(response, zone)
        return response

    def _form(self, request: web.Request, visitor: Visitor, zone: str, error: str = "") -> web.Response:
        zones = [(name, name.replace("_", " ")) for name in zone_names()]
        view = View("preferences.html", {"zones": zones, "chosen": zone, "error": error}, 400 if error else 200)
        return self._responses.view(request, visitor, view)
