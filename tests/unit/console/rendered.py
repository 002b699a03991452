"""Rendered pages, and their form fields."""

from datetime import UTC
from html.parser import HTMLParser

from console.http.static_files import StaticFiles
from console.rendering.templates import Rendering
from console.visit import View
from tests.unit.console.recorded_services import ADMINISTRATOR

RENDERING = Rendering(StaticFiles())


class Fields(HTMLParser):
    """Form fields of a page: texts and chosen values by name, and the error of each field."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.texts: dict[str, str] = {}
        self.chosen: dict[str, list[str]] = {}
        self.errors: dict[str, str] = {}
        self._select = ""
        self._data = ""
        self._error = ""
        self._area = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self._data = ""
        if tag == "input" and given.get("type") in {"checkbox", "radio"}:
            if "checked" in given:
                self.chosen.setdefault(given["name"], []).append(given["value"])
        elif tag == "input":
            self.texts[given["name"]] = given.get("value", "")
        elif tag == "select":
            self._select = given["name"]
        elif tag == "option" and "selected" in given:
            self.chosen.setdefault(self._select, []).append(given["value"])
        elif tag == "textarea":
            self._area = given["name"]
        elif given.get("class") == "error":
            self._error = given["id"].removeprefix("field-").removesuffix("-error")

    def handle_data(self, data: str) -> None:
        self._data += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea":
            self.texts[self._area] = self._data.removeprefix("\n")
        if self._error:
            self.errors[self._error] = self._data
            self._error = ""


def page_of(view: View) -> str:
    told = {
        "user": ADMINISTRATOR,
        "csrf": "the-token-of-the-form",
        "path": "/keys",
        "notice": None,
        "navigation": [],
        "help": "/help",
        "approvals_waiting": None,
        "zone": UTC,
    }
    return RENDERING.page(view.template, {**view.context, **told})
