"""Page of a person's own settings, for every role: how pages are shown, and links to password and passkeys."""

from collections.abc import Mapping
from typing import Final

from aiohttp import web

from console.forms.urlencoded import check_sender, read_form
from console.rendering.times import UTC_NAME, zone_names
from console.responses import Responses, own_referrer
from console.sessions import NewServices, Visitor
from console.settings import ConsoleSettings
from console.visit import Redirect, View
from workflow_api.v1.sessions_pb2 import SetPreferencesRequest
from workflow_api.v1.users_pb2 import THEME_DARK, THEME_LIGHT, THEME_UNSPECIFIED, Preferences, User

PREFERENCES: Final = "/preferences"

LISTS: Final = {"/runs": "Runs", "/approvals/history": "Decisions", "/audit": "Audit"}
"""Names of the lists of which views are saved, by their paths."""

_THEMES: Final = {"system": THEME_UNSPECIFIED, "light": THEME_LIGHT, "dark": THEME_DARK}
_CHOICES: Final = {
    "theme": (("system", "As this device"), ("light", "Light"), ("dark", "Dark")),
    "times": (("relative", "How long ago, such as 3 minutes ago"), ("exact", "Exact, such as 2026-09-24 12:15:30")),
    "density": (("comfortable", "Comfortable"), ("compact", "Compact: more rows on a screen")),
}
_WRONG: Final = "must be one of the list"


class PreferencesPage:
    """Handlers of the settings page."""

    def __init__(self, settings: ConsoleSettings, responses: Responses) -> None:
        self._settings = settings
        self._responses = responses

    async def form(self, request: web.Request, visitor: Visitor, _: NewServices) -> web.Response:
        """Returns the form with the present settings."""
        return self._form(request, visitor, _chosen(visitor.user or User()), {})

    async def save(self, request: web.Request, visitor: Visitor, services: NewServices) -> web.Response:
        """Keeps the settings with the person, for every browser."""
        check_sender(request, self._settings)
        sent = await read_form(request, visitor.secret, self._settings)
        # A button that changes one of them, as in the search, sends it alone.
        chosen = {name: sent.get(name, (kept,))[0] for name, kept in _chosen(visitor.user or User()).items()}
        wrong = {name: _WRONG for name, pairs in _CHOICES.items() if chosen[name] not in dict(pairs)}
        if chosen["zone"] not in zone_names():
            wrong["zone"] = _WRONG
        if wrong:
            return self._form(request, visitor, chosen, wrong)
        preferences = Preferences(
            time_zone=chosen["zone"],
            theme=_THEMES[chosen["theme"]],
            exact_times=chosen["times"] == "exact",
            compact=chosen["density"] == "compact",
        )
        await services(visitor.actor).call(
            "SessionsService/SetPreferences", SetPreferencesRequest(token=visitor.secret, preferences=preferences)
        )
        notice = f"Your settings are saved. Times are shown in {chosen['zone']}."
        return self._responses.redirect(visitor, Redirect(own_referrer(request) or PREFERENCES, notice))

    def _form(
        self, request: web.Request, visitor: Visitor, chosen: Mapping[str, str], wrong: Mapping[str, str]
    ) -> web.Response:
        zones = [(name, name.replace("_", " ")) for name in zone_names()]
        context = {"choices": {**_CHOICES, "zone": zones}, "chosen": chosen, "problems": wrong, "lists": LISTS}
        return self._responses.view(request, visitor, View("preferences.html", context, 400 if wrong else 200))


def _chosen(user: User) -> Mapping[str, str]:
    """Returns the present choices by the names of the form's fields."""
    preferences = user.preferences
    return {
        "zone": preferences.time_zone or UTC_NAME,
        "theme": next((name for name, theme in _THEMES.items() if theme == preferences.theme), "system"),
        "times": "exact" if preferences.exact_times else "relative",
        "density": "compact" if preferences.compact else "comfortable",
    }
