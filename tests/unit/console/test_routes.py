import ast
from collections import Counter
from pathlib import Path

import pytest

import console
from console.routes import PAGES, ROUTES, Needs
from tests.unit.console.conftest import Desk

ROOT = Path(console.__file__).parent
ADDS = ("app.py", "routes.py")
"""Where the table is, and where the server takes its routes from it."""


def registrations(source: str) -> list[str]:
    """What a module does to have a route of its own."""
    named = [each.func for each in ast.walk(ast.parse(source)) if isinstance(each, ast.Call)]
    names = [each.id if isinstance(each, ast.Name) else getattr(each, "attr", "") for each in named]
    added = ("add_route", "add_get", "add_post", "add_static", "add_view", "add_routes", "add_subapp")
    return [name for name in names if name in {"Page", "Route", *added}]


def test_no_route_is_registered_outside_of_the_table() -> None:
    modules = [path for path in ROOT.rglob("*.py") if path.relative_to(ROOT).as_posix() not in ADDS]
    assert {path: found for path in modules if (found := registrations(path.read_text("utf-8")))} == {}
    assert registrations('Page("GET", "/", ALL_ROLES, show)\napp.router.add_get("/", show)') == ["Page", "add_get"]


def test_the_server_adds_rows_of_the_table_alone() -> None:
    """One call for a row, and one for HEAD where a row is GET."""
    assert registrations((ROOT / "app.py").read_text("utf-8")) == ["add_route", "add_route"]


def test_every_route_is_listed_once() -> None:
    listed = Counter([(route.method, route.path) for route in ROUTES] + [(page.method, page.path) for page in PAGES])
    assert [each for each, times in listed.items() if times > 1] == []


@pytest.mark.parametrize(
    "path", [each.path for each in ROUTES if each.method == "GET" and each.needs > Needs.VISITOR], ids=str
)
def test_what_needs_a_session_asks_to_sign_in(desk: Desk, path: str) -> None:
    answer = desk.browser().get(path.format(passkey_id="pk_1"))
    assert (answer.status, answer.location.partition("?")[0]) == (303, "/sign-in")
