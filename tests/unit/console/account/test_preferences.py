"""A person's own settings, over HTTP."""

from tests.unit.console.conftest import Desk


def test_a_chosen_time_zone_is_kept_in_the_browser_for_every_page(desk: Desk) -> None:
    bob = desk.browser("bob")

    answer = bob.post("/preferences", bob.get("/preferences").token, zone="America/New_York")

    cookie = answer.cookies["zone"]
    assert (answer.status, answer.location) == (303, "/preferences")
    assert (cookie.value, cookie["httponly"], cookie["samesite"]) == ("America.New_York", True, "Strict")
    page = bob.get("/preferences")
    assert "Times are shown in America/New_York." in page.words
    assert '<option value="America/New_York" selected>America/New York</option>' in page.text


def test_a_time_zone_that_does_not_exist_is_refused_and_ignored(desk: Desk) -> None:
    bob = desk.browser("bob")

    assert bob.post("/preferences", bob.get("/preferences").token, zone="Mars/Olympus").status == 400
    bob.cookies["zone"] = "..etc.passwd"
    assert '<option value="UTC" selected>' in bob.get("/preferences").text


def test_settings_are_for_whoever_has_signed_in(desk: Desk) -> None:
    assert desk.browser().get("/preferences").location.startswith("/sign-in")
