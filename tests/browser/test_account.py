"""Sign-in and sign-out in a real browser, and the Content-Security-Policy of the pages."""

import pytest

from tests.browser.conftest import ROLES, NewPerson, Screen
from tests.support.service import Service
from workflow_api.v1.users_pb2 import ROLE_ADMINISTRATOR, Role

NARROW, WIDE = 360, 1600


def test_a_person_signs_in_changes_the_temporary_password_and_signs_out(console: Service, screen: Screen) -> None:
    password = console.admin.add_user("ann", ROLE_ADMINISTRATOR)
    screen.open("/password")
    assert screen.path == "/sign-in?next=/password"

    screen.sign_in("ann", password)
    screen.page.get_by_role("heading", name="Change your password").wait_for()
    screen.change_password(password, "a password of her own")
    assert "Your password is changed" in screen.page.get_by_role("status").inner_text()
    screen.page.get_by_role("button", name="Sign out").click()
    screen.page.get_by_text("You have signed out.").wait_for()

    assert screen.path == "/sign-in"
    assert screen.page.context.cookies() != []
    assert not [cookie for cookie in screen.page.context.cookies() if cookie["name"] == "session"]
    assert screen.complaints == []


def test_a_wrong_password_is_reported_on_the_form(screen: Screen) -> None:
    screen.open("/sign-in")
    screen.sign_in("nobody", "wrong")

    assert "not right" in screen.page.get_by_role("alert").inner_text()


@pytest.mark.parametrize("role", ROLES, ids=Role.Name)
def test_every_page_obeys_its_policy_and_fits_the_screen(signed_in: NewPerson, role: Role.ValueType) -> None:
    screen = signed_in(f"visitor-{role}", role)
    for width in (NARROW, WIDE):
        screen.page.set_viewport_size({"width": width, "height": 800})
        for address in ("/password", *screen.page.locator("nav a").evaluate_all("all => all.map(a => a.pathname)")):
            screen.open(address)
            assert screen.page.locator("h1").count() == 1, address
            assert screen.page.evaluate("document.documentElement.scrollWidth") <= width, address
    assert screen.complaints == []
