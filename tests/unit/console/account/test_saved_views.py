"""Saved views of a person, over HTTP."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.browsing import Browser
from tests.unit.console.conftest import HOSTILE, Desk

FAILED = "/runs?status=failed"


@pytest.fixture(autouse=True)
def without_views(desk: Desk) -> Iterator[None]:
    yield
    for user in desk.channel.people.values():
        user.ClearField("views")


def post(browser: Browser, path: str, **form: Any) -> Any:
    return browser.post(path, browser.get("/preferences").token, **form)


def test_a_saved_view_leads_to_its_list_and_is_on_the_page_of_settings(desk: Desk) -> None:
    bob = desk.browser("bob")
    saved = post(bob, "/views", name=HOSTILE, address=FAILED)
    assert (saved.status, saved.location) == (303, FAILED)
    page = bob.get("/preferences").text
    assert f'<a href="{FAILED}">' in page
    assert HOSTILE not in page
    assert FAILED not in desk.browser("ann").get("/preferences").text


def test_a_form_that_is_sent_twice_ends_as_the_first_time(desk: Desk) -> None:
    bob = desk.browser("bob")
    forms: list[tuple[str, dict[str, Any], str]] = [
        ("/views", {"name": "one", "address": FAILED}, FAILED),
        ("/views/rename", {"view": "one", "name": "first"}, "/preferences"),
        ("/views/remove", {"view": "first"}, "/preferences"),
    ]
    for path, form, end in forms:
        token = bob.get("/preferences").token
        answers = [bob.post(path, token, **form) for _ in range(2)]
        assert [(each.status, each.location) for each in answers] == [(303, end)] * 2


def test_a_view_is_renamed_and_removed(desk: Desk) -> None:
    bob = desk.browser("bob")
    post(bob, "/views", name="one", address=FAILED)
    assert post(bob, "/views/rename", view="one", name="first").location == "/preferences"
    assert f'<a href="{FAILED}">first</a>' in bob.get("/preferences").text
    assert post(bob, "/views/remove", view="first").location == "/preferences"
    assert FAILED not in bob.get("/preferences").text


def test_a_used_name_is_reported_beside_the_field_and_what_was_typed_stays(desk: Desk) -> None:
    bob = desk.browser("bob")
    post(bob, "/views", name="one", address=FAILED)
    post(bob, "/views", name="two", address="/audit?q=a")
    again = post(bob, "/views", name="one", address="/runs?q=b")
    renamed = post(bob, "/views/rename", view="two", name="one")
    for answer, hidden in ((again, 'name="address" value="/runs?q=b"'), (renamed, 'name="view" value="two"')):
        assert answer.status == 400
        for part in ("must be another name", 'value="one"', hidden):
            assert part in answer.text


@pytest.mark.parametrize(
    "address", ["", "//evil.example/?a", "/sign-out?a", "https://evil.example/runs?a", "/runs?q=a\\b"]
)
def test_a_view_is_of_a_list_of_the_console(desk: Desk, address: str) -> None:
    bob = desk.browser("bob")
    assert post(bob, "/views", name="one", address=address).status == 400
    assert "/views/rename" not in bob.get("/preferences").text


def test_views_are_for_whoever_has_signed_in_and_sends_the_token_of_the_form(desk: Desk) -> None:
    assert desk.browser().post("/views", "none", name="one", address=FAILED).status == 401
    assert desk.browser("bob").post("/views", "none", name="one", address=FAILED).status == 403
