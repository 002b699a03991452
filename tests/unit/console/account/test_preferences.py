"""A person's own settings, over HTTP."""

from typing import Any, Final

import pytest

from tests.support.browsing import Browser
from tests.unit.console.conftest import Desk

PLAIN: Final = {"zone": "UTC", "theme": "system", "times": "relative", "density": "comfortable"}


def save(browser: Browser, **chosen: str) -> int:
    form: dict[str, Any] = {**PLAIN, **chosen}
    return browser.post("/preferences", browser.get("/preferences").token, **form).status


def test_settings_are_kept_with_the_person_for_every_browser(desk: Desk) -> None:
    bob, elsewhere = desk.browser("bob"), desk.browser("bob")

    assert save(bob, zone="America/New_York", theme="dark", times="exact", density="compact") == 303

    for browser in (bob, elsewhere):
        page = browser.get("/preferences")
        for chosen in ("America/New_York", "dark", "exact", "compact"):
            assert f'<option value="{chosen}" selected>' in page.text
    assert "zone" not in bob.cookies
    assert '<option value="UTC" selected>' in desk.browser("ann").get("/preferences").text
    assert save(bob) == 303


def test_colours_and_density_are_in_the_page_as_it_is_sent(desk: Desk) -> None:
    bob = desk.browser("bob")
    save(bob, theme="light", density="compact")
    page = bob.get("/runs").text
    assert '<html lang="en" data-theme="light" data-density="compact">' in page
    assert '<meta name="color-scheme" content="light">' in page
    save(bob)
    page = bob.get("/runs").text
    assert '<html lang="en">' in page
    assert '<meta name="color-scheme" content="light dark">' in page


def test_a_setting_that_is_sent_alone_leaves_the_others_and_leads_back(desk: Desk) -> None:
    bob = desk.browser("bob")
    save(bob, zone="America/New_York", density="compact")
    page = bob.get("/runs")
    for referrer, back in (
        (f"http://127.0.0.1:{desk.console.port}/runs?sort=oldest", "/runs?sort=oldest"),
        ("http://evil.example/x", "/preferences"),
    ):
        answer = bob.post("/preferences", page.token, {"Referer": referrer}, theme="dark")
        assert (answer.status, answer.location) == (303, back)
    page = bob.get("/preferences")
    for chosen in ("America/New_York", "dark", "compact", "relative"):
        assert f'<option value="{chosen}" selected>' in page.text
    save(bob)


@pytest.mark.parametrize(
    ("field", "value"), [("zone", "Mars/Olympus"), ("theme", "pink"), ("times", ""), ("density", "dense")]
)
def test_a_setting_that_does_not_exist_is_refused_and_changes_nothing(desk: Desk, field: str, value: str) -> None:
    bob = desk.browser("bob")

    assert save(bob, **{field: value}) == 400
    assert '<option value="UTC" selected>' in bob.get("/preferences").text


def test_settings_are_for_whoever_has_signed_in(desk: Desk) -> None:
    assert desk.browser().get("/preferences").location.startswith("/sign-in")
